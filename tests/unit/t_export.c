/* What of a record may leave, and in which forms. */
#include "audit/export.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "audit/canon.h"
#include "common/json.h"

#include "common/banned.h"

/* Every member of the list at once, as deep as it stands. */
static const char all[] =
    "{\"action\":\"x\",\"action_seq\":\"x\",\"added\":\"x\",\"agent\":\"x\","
    "\"answer_bytes\":\"x\",\"appro"
    "ve_by\":\"x\",\"at\":\"x\",\"attempts\":\"x\",\"body_bytes\":\"x\","
    "\"body_sha256\":\"x\",\"by\":\"x\",\""
    "by_us\":\"x\",\"bytes\":\"x\",\"clock\":\"x\",\"condition\":\"x\","
    "\"copy\":{\"bytes\":\"x\",\"sha256\":"
    "\"x\"},\"decision\":{\"approval\":\"x\",\"at\":\"x\",\"attempt\":\"x\","
    "\"calendar\":\"x\",\"clock\":\"x"
    "\",\"clock_known\":\"x\",\"engine\":\"x\",\"lifted\":\"x\",\"max_rows\":"
    "\"x\",\"policy\":\"x\",\"reaso"
    "n\":\"x\",\"rules\":\"x\",\"slots\":\"x\",\"until\":\"x\",\"verdict\":"
    "\"x\"},\"digest\":\"x\",\"dispatch"
    "\":{\"credential\":\"x\",\"max_rows\":\"x\",\"sent\":\"x\"},\"duration_"
    "us\":\"x\",\"effects\":\"x\",\""
    "env\":\"x\",\"evidence\":\"x\",\"exchange\":\"x\",\"field\":\"x\",\"file\":\"x\","
    "\"fingerprint\":\"x\",\"first\":\"x\",\"fr"
    "om\":\"x\",\"gone\":\"x\",\"http_status\":\"x\",\"id\":\"x\",\"key\":"
    "\"x\",\"kind\":\"x\",\"last\":\"x\",\"level\":\"x\",\""
    "login\":\"x\",\"max_rows\":\"x\",\"not_before\":\"x\",\"note\":\"x\","
    "\"origin\":\"x\",\"outcome_seq\""
    ":\"x\",\"owner\":\"x\",\"path\":\"x\",\"peer\":\"x\",\"person\":\"x\","
    "\"policy\":\"x\",\"reason\":\"x\",\"r"
    "ecovered\":\"x\",\"reflected_credential\":\"x\",\"request\":{"
    "\"cancels\":\"x\",\"digest\":\"x\",\""
    "effects\":\"x\",\"http\":{\"authority\":\"x\",\"body_bytes\":\"x\","
    "\"path\":\"x\",\"scheme\":\"x\",\"s"
    "tatus\":\"x\",\"title\":\"x\",\"via\":\"x\"},\"input\":{\"agent\":\"x\","
    "\"env\":\"x\",\"owner\":\"x\",\"re"
    "lations\":\"x\",\"statements\":\"x\"},\"kind\":\"x\",\"operation\":"
    "\"x\",\"protocol\":\"x\",\"target"
    "\":\"x\",\"txn_effects\":\"x\"},\"role\":\"x\",\"root\":\"x\",\"rows\":"
    "\"x\",\"rule\":\"x\",\"run\":\"x\",\""
    "runs\":\"x\",\"seconds\":\"x\",\"serial\":\"x\",\"sha256\":\"x\",\"sign_"
    "by\":\"x\",\"signer\":\"x\",\"si"
    "ze\":\"x\",\"slots\":\"x\",\"software\":\"x\",\"sqlstate\":\"x\","
    "\"statement\":\"x\",\"status\":\"x\",\""
    "subject\":\"x\",\"tag\":\"x\",\"target\":\"x\",\"theirs\":\"x\",\"ticket\":\"x\",\"to\":"
    "\"x\",\"unsigned\":\"x\",\"until\""
    ":\"x\",\"use_by\":\"x\",\"use_within\":\"x\",\"used\":\"x\",\"uses\":"
    "\"x\",\"vkey\":\"x\",\"why\":\"x\",\"w"
    "ithin\":\"x\",\"witness\":\"x\"}";
#define ALL 120 /* "decision" is an object here */

static void
count(void *arg, const char *name, enum export_class c, const struct canon_node *v)
{
	size_t *n = arg;

	(void)name;
	(void)c;
	assert_true(str_eqz(canon_text(v), "x"));
	++*n;
}

/* 0 json, 1 ocsf, 2 otlp: a document that the strict reader takes. */
static struct str
made(const struct export *e, int form, struct buf *out)
{
	AUTO(json) struct json_doc *doc = NULL;

	buf_reset(out);
	switch (form) {
	case 0: export_json(e, out); break;
	case 1: export_ocsf(e, out); break;
	default:
		export_otlp_head(e->o, out);
		export_otlp_record(e, false, out);
		export_otlp_record(e, true, out);
		export_otlp_tail(out);
	}
	assert_false(buf_over(out));
	assert_int_equal(json_parse(buf_str(out), "export", &doc, NULL), 0);
	return buf_str(out);
}

static bool
holds(struct str text, const char *part)
{
	return memmem(text.p, text.n, part, strlen(part)) != NULL;
}

static void
with(const char *type, const char *data, bool text, void (*fn)(const struct export *e))
{
	AUTO(canon_tree) struct canon_tree *t = canon_tree_new();
	const struct export_opts o = {.origin = STR("acme.example/prod"), .text = text};
	const struct record r = {.seq = 17,
	    .type = str_z(type),
	    .src = STR("broker"),
	    .run = STR("r-1"),
	    .time = STR("2026-11-29T14:31:13.123456Z"),
	    .data = str_z(data)};
	const struct hash leaf = {{0xab}};
	struct export e = {&o, &r, &leaf, NULL};

	assert_int_equal(canon_check(r.data, NULL), 0);
	e.data = canon_tree_set(t, r.data);
	fn(&e);
}

static void
check_all(const struct export *e)
{
	AUTO_BUF struct buf out = BUF(EXPORT_RECORD_MAX * 3);
	size_t n = 0;

	export_each(e, count, &n);
	assert_int_equal(n, ALL);
	for (int form = 0; form < 3; form++)
		(void)made(e, form, &out);
}

static void
every_member_can_leave_at_once_in_each_form(void **state)
{
	static const char *const types[] = {"action", "outcome", "preview", "run.start", "run.end",
	    "approval.request", "freeze.begin", "policy.load", "erasure", "log.open", "agent.exec",
	    "of.a.later.version"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		with(types[i], all, true, check_all);
}

static void
check_largest(const struct export *e)
{
	AUTO_BUF struct buf out = BUF(EXPORT_RECORD_MAX);

	export_otlp_record(e, false, &out);
	assert_false(buf_over(&out));
}

/* What an attacker could get into each member: the longest texts, all of them escaped. */
static void
the_largest_record_has_room(void **state)
{
	AUTO_BUF struct buf b = BUF(RECORD_BODY_MAX);
	AUTO_FREE char *z = NULL;

	(void)state;
	buf_put_z(&b, "{\"added\":[");
	for (int i = 0; i < 400; i++) {
		buf_put_z(&b, i == 0 ? "\"" : ",\"");
		for (int k = 0; k < 70; k++)
			buf_put_z(&b, "\\\"");
		buf_put_c(&b, '"');
	}
	buf_put_z(&b, "]}");
	assert_false(buf_over(&b));
	z = buf_dup_z(&b);
	with("run.targets", z, true, check_largest);
}

static void
check_secret(const struct export *e)
{
	AUTO_BUF struct buf out = BUF(EXPORT_RECORD_MAX * 3);

	for (int form = 0; form < 3; form++) {
		struct str s = made(e, form, &out);

		assert_false(holds(s, "canary"));
		assert_true(holds(s, "seen"));
		assert_false(holds(s, "\x1b") || holds(s, "\\u001b"));
	}
}

static void
what_is_not_in_the_list_stays(void **state)
{
	(void)state;
	with("approval.grant",
	    "{\"flags\":\"canary\",\"id\":\"seen\",\"key\":{\"c\":\"canary\"},\"person\":\"\\u001b["
	    "2J\","
	    "\"request\":{\"conn\":\"canary\",\"http\":{\"path\":\"canary\"},\"input\":{"
	    "\"relations\":["
	    "\"canary\"]}},\"show\":{\"c\":\"canary\"},\"signature\":\"canary\",\"slots\":[{\"x\":"
	    "\"canary\"}]}",
	    false, check_secret);
}

static void
check_claim(const struct export *e)
{
	AUTO_BUF struct buf out = BUF(EXPORT_RECORD_MAX * 3);

	assert_true(holds(made(e, 0, &out), "{\"claimed\":{\"agent\":\"bot\"},\"data\":{}"));
	assert_true(holds(made(e, 2, &out), "cofferdam.claimed.agent"));
	assert_false(holds(buf_str(&out), "cofferdam.agent"));
}

static void
what_an_agent_says_is_marked(void **state)
{
	(void)state;
	with("run.start", "{\"agent\":\"bot\"}", false, check_claim);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_member_can_leave_at_once_in_each_form),
	    cmocka_unit_test(the_largest_record_has_room),
	    cmocka_unit_test(what_is_not_in_the_list_stays),
	    cmocka_unit_test(what_an_agent_says_is_marked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
