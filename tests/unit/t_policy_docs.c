/* The vectors of docs/format-policy.md and docs/format-approval.md, read from there. */
#include "tests/unit/policy_help.h"

#include <stdio.h>

#include "common/sig.h"
#include "common/xalloc.h"
#include "policy/digest.h"
#include "policy/statement.h"
#include "policy/succession.h"

#include "common/banned.h"

/* What stands in the fence behind "<!-- vector NAME -->", its last line feed included. */
static struct str
vector(const struct buf *doc, const char *name)
{
	AUTO_FREE char *mark = xasprintf("\n<!-- vector %s -->\n```\n", name);
	const char *begin = memmem(doc->p, doc->n, mark, strlen(mark));
	const char *end;

	if (begin == NULL)
		fail_msg("the text has no vector %s", name);
	begin += strlen(mark);
	end = memmem(begin, doc->n - (size_t)(begin - (const char *)doc->p), "\n```\n", 5);
	assert_non_null(end);
	return str_mem(begin, (size_t)(end - begin) + 1);
}

static int
read_docs(void **state)
{
	static struct buf docs[2];

	docs[0] = BUF(1 << 20);
	docs[1] = BUF(1 << 20);
	help_read_file("docs/format-policy.md", &docs[0]);
	help_read_file("docs/format-approval.md", &docs[1]);
	*state = docs;
	return 0;
}

static int
free_docs(void **state)
{
	struct buf *docs = *state;

	buf_free(&docs[0]);
	buf_free(&docs[1]);
	return 0;
}

/* The bundle of the text with this machine's version of the zone data in it. */
static void
with_tzdata(struct str bundle, struct str tzdata, struct buf *out)
{
	static const char key[] = "\"tzdata\":\"";
	const char *at = memmem(bundle.p, bundle.n, key, strlen(key));

	assert_non_null(at);
	buf_put(out, bundle.p, (size_t)(at - bundle.p) + strlen(key));
	buf_put_str(out, tzdata);
	buf_put_z(out, "\"}");
}

static void
the_source_builds_the_bundle_of_the_text(void **state)
{
	struct buf *docs = *state;
	AUTO(policy) struct policy *p = NULL;
	AUTO_BUF struct buf bundle = BUF(JSON_SIZE_MAX);
	AUTO_BUF struct buf want = BUF(JSON_SIZE_MAX);
	AUTO_FREE char *a = NULL, *b = NULL;
	struct err err = {0};

	if (policy_parse(vector(&docs[0], "source"), "docs/format-policy.md", NULL, NULL, &p, NULL,
		&err) != 0)
		fail_msg("%s", err.msg);
	assert_int_equal(policy_bundle(p, &bundle, NULL), 0);
	with_tzdata(str_trim(vector(&docs[0], "bundle")), policy_tzdata(p), &want);
	a = buf_dup_z(&bundle);
	b = buf_dup_z(&want);
	assert_string_equal(a, b);
}

static void
the_bundle_loads_and_has_the_digest_of_the_text(void **state)
{
	struct buf *docs = *state;
	AUTO(policy) struct policy *p = NULL;
	char hex[HASH_HEX_SIZE];
	struct err err = {0};

	if (policy_load(str_trim(vector(&docs[0], "bundle")), &p, &err) != 0)
		fail_msg("%s", err.msg);
	hash_hex(policy_digest(p), hex);
	assert_true(str_eqz(str_trim(vector(&docs[0], "digest")), hex));
}

/* Lines "tag:hex", then the digest. */
static void
assert_digest_vector(struct str v)
{
	struct digest *d = digest_begin();
	struct str line, tag;

	while (str_cut(&v, '\n', &line)) {
		AUTO_BUF struct buf bytes = BUF(4096);
		uint64_t n;

		if (!str_cut(&line, ':', &tag))
			break;
		assert_true(str_to_u64(tag, DIGEST_EFFECTS, &n));
		assert_true(enc_unhex(line, &bytes));
		digest_field(d, (enum digest_tag)n, buf_str(&bytes));
	}
	{
		struct hash h = digest_end(d);
		char hex[HASH_HEX_SIZE];

		hash_hex(&h, hex);
		assert_true(str_eqz(line, hex));
	}
}

static void
the_action_digests_of_the_text_are_ours(void **state)
{
	struct buf *docs = *state;

	assert_digest_vector(vector(&docs[1], "digest-1"));
	assert_digest_vector(vector(&docs[1], "digest-2"));
	assert_digest_vector(vector(&docs[1], "digest-3"));
	assert_digest_vector(vector(&docs[1], "digest-4"));
}

static void
the_digest_of_a_sequence_is_that_of_the_text(void **state)
{
	struct buf *docs = *state;
	struct str v = vector(&docs[1], "sequence"), line;
	struct hash steps[2], want, got;

	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		assert_true(str_cut(&v, '\n', &line));
		assert_true(hash_from_hex(line, &steps[i]));
	}
	assert_true(str_cut(&v, '\n', &line));
	assert_true(hash_from_hex(line, &want));
	got = digest_sequence(steps, 2);
	assert_true(hash_eq(&got, &want));
	got = digest_sequence(steps, 1);
	assert_true(hash_eq(&got, &steps[0]));
	got = steps[0];
	steps[0] = steps[1];
	steps[1] = got;
	got = digest_sequence(steps, 2);
	assert_false(hash_eq(&want, &got));
}

#define H32(d) d d d d d d d d d d d d d d d d d d d d d d d d d d d d d d d d

static const char *const forms[] = {
    "ed25519", "ecdsa", "sk-ed25519", "sk-ecdsa", "native", "webauthn-es256", "webauthn-eddsa"};

/* The vectors "key-FORM" and "signature-FORM": good, and not for another text. */
static void
assert_signed(const struct buf *doc, const char *form, struct buf *text)
{
	char name[64];
	struct str signature;
	struct sig_pubkey key;
	struct sig_sshsig sig;
	struct err err = {0};

	(void)snprintf(name, sizeof(name), "key-%s", form);
	if (sig_pubkey_parse(str_trim(vector(doc, name)), &key, &err) != 0)
		fail_msg("%s: %s", name, err.msg);
	(void)snprintf(name, sizeof(name), "signature-%s", form);
	signature = vector(doc, name);
	if (sig_verify(signature, STATEMENT_NAMESPACE, buf_str(text), &key, 1, &sig, &err) != 0)
		fail_msg("%s: %s", name, err.msg);
	assert_true(sig_pubkey_eq(&sig.key, &key));
	text->p[text->n - 10] ^= 1;
	assert_int_equal(
	    sig_verify(signature, STATEMENT_NAMESPACE, buf_str(text), &key, 1, &sig, NULL),
	    ERR_SIGNATURE);
	text->p[text->n - 10] ^= 1;
}

static void
the_statement_of_the_text_is_ours_and_its_signatures_hold(void **state)
{
	struct buf *docs = *state;
	const struct statement s = {.decision = STR("approve"),
	    .broker = STR("sha256:" H32("11")),
	    .request = STR("aaaaaaaaaaaaaaaaaaaaaaaaaa"),
	    .action = STR("sha256:" H32("22")),
	    .policy = STR("sha256:" H32("33")),
	    .log_head = STR("acme-prod 17 q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="),
	    .agent = STR("script"),
	    .run = STR("r-1"),
	    .owner = STR("bob"),
	    .target = STR("prod-db"),
	    .effects = STR("delete"),
	    .rule = STR("prod-destructive"),
	    .role = STR("dba"),
	    .approver = STR("alice"),
	    .max_rows = 100,
	    .preview = STR("plan-rows=1 count=1"),
	    .not_before_us = 1773230405000000,
	    .approve_by_us = 1773232205000000,
	    .use_within_s = 300,
	    .show = STR("DELETE FROM users\nWHERE name = 'caf\xc3\xa9 100%'")};
	AUTO_BUF struct buf b = BUF(STATEMENT_MAX);

	assert_int_equal(statement_bytes(&s, &b, NULL), 0);
	assert_true(str_eq(buf_str(&b), vector(&docs[1], "statement")));
	for (size_t i = 0; i < ARRAY_LEN(forms); i++)
		assert_signed(&docs[1], forms[i], &b);
}

static void
the_statement_of_a_succession_is_ours_and_its_signature_holds(void **state)
{
	struct buf *docs = *state;
	struct succession_step s = {.policy = STR("acme-prod"),
	    .author = STR("carol"),
	    .signer = STR("alice"),
	    .serial = 43};
	AUTO_BUF struct buf b = BUF(SUCCESSION_STATEMENT_MAX);
	struct sig_pubkey key;
	struct sig_sshsig sig;
	struct err err = {0};

	(void)memset(s.bundle.b, 0x11, HASH_LEN);
	(void)memset(s.before.b, 0x22, HASH_LEN);
	succession_step_put(&s, &b);
	assert_true(str_eq(buf_str(&b), vector(&docs[0], "succession-statement")));
	assert_int_equal(
	    sig_pubkey_parse(str_trim(vector(&docs[0], "succession-key")), &key, NULL), 0);
	if (sig_sshsig_verify(vector(&docs[0], "succession-signature"), SUCCESSION_NAMESPACE,
		buf_str(&b), &sig, &err) != 0)
		fail_msg("%s", err.msg);
	assert_true(sig_pubkey_eq(&sig.key, &key));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_source_builds_the_bundle_of_the_text),
	    cmocka_unit_test(the_bundle_loads_and_has_the_digest_of_the_text),
	    cmocka_unit_test(the_action_digests_of_the_text_are_ours),
	    cmocka_unit_test(the_digest_of_a_sequence_is_that_of_the_text),
	    cmocka_unit_test(the_statement_of_the_text_is_ours_and_its_signatures_hold),
	    cmocka_unit_test(the_statement_of_a_succession_is_ours_and_its_signature_holds),
	};

	return cmocka_run_group_tests(tests, read_docs, free_docs);
}
