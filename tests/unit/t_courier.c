/* The courier: which webhooks are accepted, what of a record leaves, signatures, cursors. */
#include "broker/courier.h"
#include "common/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <fcntl.h>

#include <cmocka.h>

#include "audit/record.h"
#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* --- webhooks ---------------------------------------------------------------------------- */

#define HOOK(more) \
	"[{\"name\":\"siem\",\"url\":\"https://siem.example/in\",\"secret_file\":\"k\"," more "}]"

static int
parse(const char *text, struct webhooks *ret, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;

	*err = (struct err){0};
	*ret = (struct webhooks){0};
	assert_int_equal(json_parse(str_z(text), "broker.json", &doc, err), 0);
	return webhooks_parse(doc, json_root(doc), ret, err);
}

static void
a_webhook_is_read_with_its_defaults(void **state UNUSED)
{
	struct webhooks w;
	struct err err;

	assert_int_equal(parse(HOOK("\"events\":[\"freeze.*\"]"), &w, &err), 0);
	assert_int_equal(w.n, 1);
	assert_int_equal(w.v[0].retry_for_s, 86400);
	assert_int_equal(w.v[0].timeout_s, 15);
	assert_false(w.v[0].slack || w.v[0].text);
	webhooks_free(&w);
}

static void
a_log_store_takes_everything_and_is_waited_for(void **state UNUSED)
{
	struct webhooks w;
	struct err err;

	assert_int_equal(parse("[{\"name\":\"otel\",\"url\":\"https://o.example/v1/logs\","
			       "\"form\":\"otlp\",\"events\":[\"all\"],\"from\":\"first\","
			       "\"header_file\":\"k\"}]",
			     &w, &err),
	    0);
	assert_true(w.v[0].otlp && w.v[0].from_first);
	assert_int_equal(w.v[0].retry_for_s, 0);
	assert_true(webhook_wants(&w.v[0], STR("action")));
	assert_true(webhook_wants(&w.v[0], STR("of.a.later.version")));
	webhooks_free(&w);
}

/* A courier that has sent n records of seq 1 on and got that answer. */
static void
answered(struct hook *h, const struct webhook *conf, uint32_t n, long status, const char *text)
{
	*h = (struct hook){.conf = conf, .batch_n = n, .http_status = status, .answer = BUF(4096)};
	h->since_us = clock_wall_us();
	if (text[0] != '\0')
		buf_put_z(&h->answer, text); /* the caller frees it */
}

static void
an_answer_of_otlp_says_what_was_refused(void **state UNUSED)
{
	static const struct {
		const char *text;
		uint64_t n;
	} answers[] = {
	    {"", 0},
	    {"{}", 0},
	    {"\x0a\x02\x08\x01", 0},
	    {"{\"partialSuccess\":{}}", 0},
	    {"{\"partialSuccess\":{\"rejectedLogRecords\":\"0\",\"errorMessage\":\"slow\"}}", 0},
	    {"{\"partialSuccess\":{\"rejectedLogRecords\":\"2\",\"errorMessage\":\"\\u001b[2J\"}}",
		2},
	    {"{\"partialSuccess\":{\"rejectedLogRecords\":3}}", 3},
	    {"{\"partialSuccess\":{\"rejectedLogRecords\":\"99999\"}}", 5},
	    {"{\"partialSuccess\":{\"rejectedLogRecords\":\"-1\"}}", 0},
	    {"{\"partialSuccess\":[7]}", 0},
	    {"[]", 0},
	};
	const struct webhook conf = {.otlp = true};
	char why[COURIER_WHY_MAX];
	struct hook h;

	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		why[0] = '\0';
		answered(&h, &conf, 5, 200, answers[i].text);
		assert_int_equal(courier_otlp_refused(&h, why), answers[i].n);
		assert_int_equal(why[0] != '\0', answers[i].n != 0);
		assert_null(strchr(why, '\x1b'));
		buf_free(&h.answer);
	}
}

static void
only_what_is_about_the_content_makes_requests_smaller(void **state UNUSED)
{
	const struct webhook conf = {.otlp = true}, limited = {.otlp = true, .retry_for_s = 1};
	static const long others[] = {0, 302, 401, 403, 404, 408, 429, 500, 503};
	struct hook h;

	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		answered(&h, &conf, 8, others[i], "");
		assert_false(courier_otlp_split(&h));
		assert_false(courier_otlp_hopeless(&h));
	}
	answered(&h, &conf, 8, 413, "");
	assert_true(courier_otlp_split(&h));
	assert_int_equal(h.batch_max, 4);
	answered(&h, &conf, 1, 400, "");
	assert_false(courier_otlp_split(&h));
	assert_true(courier_otlp_hopeless(&h));
	answered(&h, &limited, 8, 503, "");
	assert_false(courier_otlp_hopeless(&h));
	h.since_us -= 1000001;
	assert_true(courier_otlp_hopeless(&h));
}

static void
a_header_file_is_one_field(void **state UNUSED)
{
	static const char *const bad[] = {
	    "", "Bearer x", "A:", ": x", "A b: x", "A: x\nB: y", "A: x\x7f", "A: \xc3\xa4"};
	struct secret *s = NULL;
	struct err err;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(courier_header_parse(str_z(bad[i]), &s, &err), ERR_CONFIG);
	assert_int_equal(courier_header_parse(STR("Authorization: Bearer t:1\n"), &s, &err), 0);
	assert_true(str_eqz(secret_str(s), "Authorization: Bearer t:1"));
	secret_free(s);
}

static void
what_is_not_right_is_named(void **state UNUSED)
{
	static const struct {
		const char *text, *words;
	} bad[] = {
	    {HOOK("\"events\":[]"), "1 to 32"},
	    {HOOK("\"events\":[\"freeze.strat\"]"), "not known"},
	    {HOOK("\"events\":[\"action\"]"), "otlp"},
	    {HOOK("\"events\":[\"all\"],\"form\":\"otlp\""), "secret_file"},
	    {HOOK("\"events\":[\"alarm\"],\"header_file\":\"h\""), "otlp"},
	    {HOOK("\"events\":[\"alarm\"],\"from\":\"first\""), "otlp"},
	    {HOOK("\"events\":[\"alarm\"],\"from\":\"then\""), "from must be"},
	    {HOOK("\"events\":[\"alarm\",\"alarm\"]"), "twice"},
	    {HOOK("\"events\":[\"alarm\"],\"retry_for\":0"), "from 1 to"},
	    {HOOK("\"events\":[\"alarm\"],\"timeout\":61"), "from 1 to 60"},
	    {HOOK("\"events\":[\"alarm\"],\"form\":\"teams\""), "form must be"},
	    {HOOK("\"events\":[\"alarm\"],\"show\":\"all\""), "show must be"},
	    {HOOK("\"events\":[\"alarm\"],\"link\":\"http://x/\""), "link must be"},
	    {HOOK("\"events\":[\"alarm\"],\"link\":\"https://x/|y\""), "link must be"},
	    {HOOK("\"events\":[\"alarm\"],\"ca_file\":\"../ca\""), "beneath"},
	    {HOOK("\"events\":[\"alarm\"],\"networks\":[\"10.0.0.1\"]"), "10.0.0.0/8"},
	    {HOOK("\"events\":[\"alarm\"],\"url_file\":\"u\""), "either"},
	    {HOOK("\"events\":[\"alarm\"],\"color\":1"), "unknown key"},
	    {"[{\"name\":\"Siem\"}]", "a-z"},
	    {"[{\"name\":\"s\",\"url\":\"https://x\",\"events\":[\"alarm\"]}]", "secret_file"},
	    {"{}", "array"},
	    {"[1]", "object"},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct webhooks w;
		struct err err;

		assert_int_equal(parse(bad[i].text, &w, &err), ERR_CONFIG);
		if (strstr(err.msg, bad[i].words) == NULL)
			fail_msg("%s: %s", bad[i].text, err.msg);
		assert_int_equal(w.n, 0);
	}
}

static void
events_are_types_families_and_alarms(void **state UNUSED)
{
	struct webhooks w;
	struct err err;

	assert_int_equal(
	    parse(HOOK("\"events\":[\"approval.request\",\"freeze.*\",\"alarm\"]"), &w, &err), 0);
	assert_true(webhook_wants(&w.v[0], STR("approval.request")));
	assert_false(webhook_wants(&w.v[0], STR("approval.grant")));
	assert_true(webhook_wants(&w.v[0], STR("approval.rejected")));
	assert_true(webhook_wants(&w.v[0], STR("freeze.sign")));
	assert_false(webhook_wants(&w.v[0], STR("freeze")));
	assert_false(webhook_wants(&w.v[0], STR("freeze.")));
	assert_false(webhook_wants(&w.v[0], STR("freezer.sign")));
	assert_false(webhook_wants(&w.v[0], STR("action")));
	webhooks_free(&w);
}

static void
an_address_is_https_and_has_one_reading(void **state UNUSED)
{
	static const struct {
		const char *url, *host, *target;
		unsigned port;
	} good[] = {
	    {"https://siem.example", "siem.example", "/", 443},
	    {"https://SIEM.example:8443/a/b?c=d", "siem.example", "/a/b?c=d", 8443},
	    {"https://siem.example?x", "siem.example", "/?x", 443},
	    {"https://[2001:DB8::1]/", "2001:db8::1", "/", 443},
	};
	static const char *const bad[] = {"http://x.example/", "HTTPS://x.example/", "https://",
	    "https:///p", "https://user@x.example/", "https://x.example/#f",
	    "https://x.example/a b", "https://x.example:0/", "https://x.example:99999/",
	    "https://x.example/\x80", "x.example", "https://127.1/"};

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct webhook_url u;

		assert_int_equal(webhook_url_parse(str_z(good[i].url), &u, NULL), 0);
		assert_string_equal(u.host, good[i].host);
		assert_string_equal(u.target, good[i].target);
		assert_int_equal(u.port, good[i].port);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct webhook_url u;

		if (webhook_url_parse(str_z(bad[i]), &u, NULL) == 0)
			fail_msg("%s is accepted", bad[i]);
	}
}

/* --- what leaves -------------------------------------------------------------------------------
 */

static const char request[] =
    "{\"action\":\"ab\",\"agent\":\"bot <b> \xe2\x80\xae\\u001bx\",\"effects\":[\"delete\"],"
    "\"future\":\"x\",\"id\":\"req-1\",\"input\":{\"agent\":\"bot\",\"relations\":[\"secret_"
    "plans\"],"
    "\"statements\":1},\"show\":{\"c\":\"x\"},\"show_frame\":\"QUJD\",\"signature\":\"SSHSIG\","
    "\"slots\":[\"dba:1\"],\"target\":\"prod-db\"}";

static void
body_make(struct buf *out, const char *type, const char *data)
{
	struct record r = {.batch = 7,
	    .seq = 17,
	    .mono = 5,
	    .data = str_z(data),
	    .run = STR("r-1"),
	    .src = STR("broker"),
	    .time = STR("2026-03-11T12:00:05.000000Z"),
	    .type = str_z(type)};

	record_body(out, &r);
}

/* Caller frees. */
static char *
event(const char *type, const char *data, bool text, bool slack)
{
	struct courier_event e = {.origin = STR("acme.example/prod"),
	    .link = STR("https://console.example/"),
	    .text = text,
	    .slack = slack};
	AUTO_BUF struct buf body = BUF(RECORD_BODY_MAX), out = BUF(COURIER_BODY_MAX);
	struct err err = {0};

	body_make(&body, type, data);
	if (courier_event_put(&e, buf_str(&body), &out, &err) != 0)
		fail_msg("%s", err.msg);
	assert_true(jcs_is_canonical(buf_str(&out), &err));
	return buf_dup_z(&out);
}

static void
assert_without(const char *z, const char *what)
{
	if (strstr(z, what) != NULL)
		fail_msg("\"%s\" has left in %s", what, z);
}

static void
a_conflict_names_the_witness_its_kind_and_the_evidence(void **state UNUSED)
{
	AUTO_FREE char *z = event("log.conflict",
	    "{\"evidence\":\"ab\",\"file\":\"1\",\"kind\":\"rollback\",\"size\":7,\"status\":409,"
	    "\"theirs\":9,\"witness\":\"witness.example/w1\"}",
	    false, false);
	AUTO_FREE char *slack = event(
	    "log.conflict", "{\"kind\":\"fork\",\"witness\":\"witness.example/w1\"}", false, true);

	assert_non_null(strstr(z,
	    "\"data\":{\"evidence\":\"ab\",\"file\":\"1\",\"kind\":\"rollback\",\"size\":7,"
	    "\"status\":409,\"theirs\":9,\"witness\":\"witness.example/w1\"}"));
	assert_non_null(strstr(slack, "witness.example/w1"));
}

static void
a_record_leaves_by_a_list_of_names(void **state UNUSED)
{
	AUTO_FREE char *z = event("approval.request", request, false, false);

	assert_non_null(strstr(z, "\"id\":\"acme.example/prod#17\""));
	assert_non_null(
	    strstr(z, "\"data\":{\"action\":\"ab\",\"effects\":[\"delete\"],\"id\":\"req-1\","
		      "\"slots\":[\"dba:1\"],\"target\":\"prod-db\"}"));
	assert_non_null(strstr(z, "\"link\":\"https://console.example/requests/req-1\""));
	for (size_t i = 0; i < 6; i++)
		assert_without(z, (const char *const[]){"secret_plans", "SSHSIG", "QUJD", "future",
				      "show", "input"}[i]);
}

static void
names_of_tables_leave_only_where_they_were_asked_for(void **state UNUSED)
{
	AUTO_FREE char *z = event("approval.request", request, true, false);

	assert_non_null(strstr(z, "\"relations\":[\"secret_plans\"]"));
	assert_without(z, "statements");
}

static void
what_an_agent_says_stands_apart_and_is_printable(void **state UNUSED)
{
	AUTO_FREE char *z = event("approval.request", request, false, false);

	assert_non_null(strstr(z, "{\"claimed\":{\"agent\":\"bot <b> ??x\"},\"data\":{"));
}

static void
long_words_are_cut(void **state UNUSED)
{
	AUTO_BUF struct buf data = BUF(8192);
	AUTO_FREE char *text = NULL, *z = NULL;

	buf_put_z(&data, "{\"reason\":\"");
	for (int i = 0; i < 400; i++)
		buf_put_z(&data, "\xc3\xa4");
	buf_put_z(&data, "\"}");
	text = buf_dup_z(&data);
	z = event("freeze.request", text, false, false);
	assert_int_equal(strspn(strstr(z, "\"reason\":\"") + 10, "\xc3\xa4"), 256);
	assert_non_null(strstr(z, "\xa4...\"}"));
}

static void
slack_gets_text_without_mention_link_or_layout(void **state UNUSED)
{
	AUTO_FREE char *z = event("freeze.request",
	    "{\"effects\":[\"delete\",\"drop\"],\"id\":\"f\",\"reason\":\"<!channel> *a* & "
	    "<https://evil|x> `c` ~d~\",\"statement\":\"00ff\"}",
	    false, true);

	assert_int_equal(strncmp(z, "{\"text\":\"*freeze.request*\\nid: f\\n", 32), 0);
	assert_non_null(strstr(z, "effects: delete, drop\\n"));
	assert_non_null(strstr(z, "&lt;!channel&gt; 'a' &amp; &lt;https://evil|x&gt; 'c' 'd'"));
	assert_non_null(strstr(z, "\\nsha256:00ff"));
	assert_non_null(strstr(z, "<https://console.example/|look at it>"));
	assert_without(z, "<!");
	assert_without(z, "<https://evil");
}

static void
bytes_that_are_no_record_are_refused(void **state UNUSED)
{
	struct courier_event e = {.origin = STR("o")};
	AUTO_BUF struct buf out = BUF(COURIER_BODY_MAX);

	assert_int_not_equal(courier_event_put(&e, STR("{}"), &out, NULL), 0);
	assert_int_equal(out.n, 0);
}

/* --- signatures ------------------------------------------------------------------------------ */

static char *
vector(const struct buf *doc, const char *name)
{
	AUTO_FREE char *mark = xasprintf("\n<!-- vector %s -->\n```\n", name);
	AUTO_FREE char *text = buf_dup_z(doc);
	char *at = strstr(text, mark), *end;

	if (at == NULL)
		fail_msg("the text has no vector %s", name);
	at += strlen(mark);
	end = strstr(at, "\n```\n");
	assert_non_null(end);
	return str_dup(str_mem(at, (size_t)(end - at)));
}

static void
the_documents_vector_is_what_is_signed(void **state UNUSED)
{
	AUTO_BUF struct buf doc = BUF((size_t)1 << 20), out = BUF(512);
	AUTO_FD int fd = open("docs/webhooks.md", O_RDONLY | O_CLOEXEC);
	AUTO(secret) struct secret *key = NULL;
	AUTO_FREE char *body = NULL, *want = NULL;
	struct secret *keys[1];
	ssize_t n;

	assert_true(fd >= 0);
	n = read(fd, buf_grow(&doc, (size_t)1 << 19), (size_t)1 << 19);
	assert_true(n > 0);
	doc.n = (size_t)n;
	body = vector(&doc, "body");
	want = vector(&doc, "signature");
	assert_int_equal(courier_secret_parse(
			     STR("whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="), &key, NULL),
	    0);
	keys[0] = key;
	courier_sign(keys, 1, STR("acme.example/prod#17"), 1773230405, str_z(body), &out);
	assert_true(str_eqz(buf_str(&out), want));
	buf_reset(&out);
	courier_sign(keys, 1, STR("acme.example/prod#18"), 1773230405, str_z(body), &out);
	assert_false(str_eqz(buf_str(&out), want));
}

static void
a_secret_is_long_and_marked(void **state UNUSED)
{
	static const char *const bad[] = {"", "whsec_",
	    "whsec_a2tra2s=", "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s=",
	    "whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s",
	    "whsec_a2tr a2tra2tra2tra2tra2tra2tra2tr"};
	struct secret *s = NULL;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(courier_secret_parse(str_z(bad[i]), &s, NULL), ERR_CONFIG);
	assert_int_equal(
	    courier_secret_parse(STR(" whsec_b29vb29vb29vb29vb29vb29vb29vb29v\r"), &s, NULL), 0);
	assert_int_equal(secret_str(s).n, 24);
	secret_free(s);
}

/* --- time
 * ------------------------------------------------------------------------------------------ */

static void
tries_come_later_and_later_and_not_all_at_once(void **state UNUSED)
{
	assert_int_equal(courier_back_off(1, 0), 250);
	assert_int_equal(courier_back_off(1, 250), 500);
	assert_int_equal(courier_back_off(2, 0), 500);
	assert_int_equal(courier_back_off(8, 0), 30000);
	assert_int_equal(courier_back_off(1000, 30000), 60000);
	for (uint32_t r = 0; r < 100000; r += 777)
		assert_in_range(courier_back_off(5, r), 4000, 8000);
}

/* --- cursors
 * ------------------------------------------------------------------------------------------- */

static void
hooks_of(struct courier *c, const char *origin)
{
	static struct webhook conf[2];

	conf[0].name = xstrdup("a");
	conf[1].name = xstrdup("b");
	*c = (struct courier){.origin = xstrdup(origin), .nhooks = 2};
	for (size_t i = 0; i < 2; i++)
		c->hooks[i] = (struct hook){.c = c, .conf = &conf[i], .next = COURIER_START};
}

static void
hooks_free(struct courier *c)
{
	for (size_t i = 0; i < 2; i++)
		free(c->hooks[i].conf->name);
	free(c->origin);
}

static void
cursors_come_back_as_they_were(void **state UNUSED)
{
	AUTO_BUF struct buf text = BUF(4096), again = BUF(4096);
	static struct courier a, b;

	hooks_of(&a, "o");
	a.hooks[1].next = 99;
	a.hooks[1].whole_from = 5;
	a.hooks[1].since_us = 7;
	courier_cursors_put(&a, &text);
	hooks_free(&a);
	hooks_of(&b, "o");
	assert_int_equal(courier_cursors_read(&b, buf_str(&text), NULL), 0);
	assert_true(b.hooks[0].next == COURIER_START);
	assert_int_equal(b.hooks[1].next, 99);
	assert_int_equal(b.hooks[1].whole_from, 5);
	courier_cursors_put(&b, &again);
	assert_true(str_eq(buf_str(&text), buf_str(&again)));
	hooks_free(&b);
}

static void
cursors_of_another_log_are_not_taken(void **state UNUSED)
{
	static struct courier c;

	hooks_of(&c, "other");
	assert_int_equal(courier_cursors_read(&c,
			     STR("{\"origin\":\"o\",\"webhooks\":[{\"name\":\"a\",\"next\":9,"
				 "\"whole_from\":1}]}"),
			     NULL),
	    0);
	assert_true(c.hooks[0].next == COURIER_START);
	assert_int_not_equal(courier_cursors_read(&c, STR("{\"origin\":"), NULL), 0);
	hooks_free(&c);
}

int
main(void)
{
#define T(f) cmocka_unit_test(f)
	const struct CMUnitTest tests[] = {
	    T(a_webhook_is_read_with_its_defaults),
	    T(a_log_store_takes_everything_and_is_waited_for),
	    T(an_answer_of_otlp_says_what_was_refused),
	    T(only_what_is_about_the_content_makes_requests_smaller),
	    T(a_header_file_is_one_field),
	    T(what_is_not_right_is_named),
	    T(events_are_types_families_and_alarms),
	    T(an_address_is_https_and_has_one_reading),
	    T(a_conflict_names_the_witness_its_kind_and_the_evidence),
	    T(a_record_leaves_by_a_list_of_names),
	    T(names_of_tables_leave_only_where_they_were_asked_for),
	    T(what_an_agent_says_stands_apart_and_is_printable),
	    T(long_words_are_cut),
	    T(slack_gets_text_without_mention_link_or_layout),
	    T(bytes_that_are_no_record_are_refused),
	    T(the_documents_vector_is_what_is_signed),
	    T(a_secret_is_long_and_marked),
	    T(tries_come_later_and_later_and_not_all_at_once),
	    T(cursors_come_back_as_they_were),
	    T(cursors_of_another_log_are_not_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
