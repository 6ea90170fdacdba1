/* The approval statement: its bytes, and what may not stand in it. */
#include "tests/unit/policy_help.h"

#include "common/hash.h"
#include "policy/statement.h"

#include "common/banned.h"

#define H32(d) d d d d d d d d d d d d d d d d d d d d d d d d d d d d d d d d

/* The statement of docs/format-approval.md. */
static struct statement
example(void)
{
	return (struct statement){.decision = STR("approve"),
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
	    .approve_by_us = 1773232205999999,
	    .use_within_s = 300,
	    .show = STR("DELETE FROM users\nWHERE name = 'caf\xc3\xa9 100%'")};
}

static void
the_bytes_are_those_of_the_format(void **state UNUSED)
{
	struct statement s = example();
	AUTO_BUF struct buf b = BUF(STATEMENT_MAX);
	AUTO_FREE char *text = NULL;
	struct hash h;
	char hex[HASH_HEX_SIZE];

	assert_int_equal(statement_bytes(&s, &b, NULL), 0);
	text = buf_dup_z(&b);
	assert_string_equal(text,
	    "cofferdam-approval v2\n"
	    "decision: approve\n"
	    "broker: sha256:" H32(
		"11") "\n"
		      "request: aaaaaaaaaaaaaaaaaaaaaaaaaa\n"
		      "action: sha256:" H32(
			  "22") "\n"
				"policy: sha256:" H32(
				    "33") "\n"
					  "log-head: acme-prod 17 "
					  "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s=\n"
					  "agent: script\n"
					  "run: r-1\n"
					  "run-owner: bob\n"
					  "target: prod-db\n"
					  "effects: delete\n"
					  "rule: prod-destructive\n"
					  "role: dba\n"
					  "approver: alice\n"
					  "note: none\n"
					  "max-rows: 100\n"
					  "preview: plan-rows=1 count=1\n"
					  "not-before: 2026-03-11T12:00:05Z\n"
					  "approve-by: 2026-03-11T12:30:05Z\n"
					  "use-within: 300\n"
					  "uses: 1\n"
					  "show: DELETE FROM users%0AWHERE name = 'caf%C3%A9 "
					  "100%25'\n"
					  "end\n");
	h = hash_sha256(buf_str(&b));
	hash_hex(&h, hex);
	assert_string_equal(
	    hex, "1acf9773ef33999e92ad5d0b7c5df53d7b2bcc5bea583bbf00bfadafb522042e");
}

static void
a_line_break_in_a_field_cannot_forge_another_field(void **state UNUSED)
{
	struct statement s = example();
	AUTO_BUF struct buf b = BUF(STATEMENT_MAX);

	s.agent = STR("x\ndecision: deny\nrole: dba");
	assert_int_equal(statement_bytes(&s, &b, NULL), 0);
	assert_non_null(memmem(b.p, b.n, "\nagent: x%0Adecision: deny%0Arole: dba\n", 39));
	for (size_t i = 0; i < b.n; i++)
		assert_true(b.p[i] == '\n' || (b.p[i] >= 0x20 && b.p[i] < 0x7f));
}

static void
an_action_is_shown_in_full_or_by_digest_and_never_cut(void **state UNUSED)
{
	static char big[STATEMENT_SHOW_MAX + 1];
	struct statement s = example();
	AUTO_BUF struct buf b = BUF(STATEMENT_MAX);
	AUTO_BUF struct buf want = BUF(256);
	struct hash h;
	char hex[HASH_HEX_SIZE];

	(void)memset(big, '\n', sizeof(big));
	s.show = str_mem(big, STATEMENT_SHOW_MAX);
	assert_int_equal(statement_bytes(&s, &b, NULL), 0);
	assert_true(b.n > 3 * STATEMENT_SHOW_MAX);
	assert_null(memmem(b.p, b.n, "show-sha256", 11));
	buf_reset(&b);
	s.show = str_mem(big, sizeof(big));
	assert_int_equal(statement_bytes(&s, &b, NULL), 0);
	h = hash_sha256(s.show);
	hash_hex(&h, hex);
	buf_printf(&want, "\nshow-sha256: %s %zu\nend\n", hex, sizeof(big));
	assert_non_null(memmem(b.p, b.n, want.p, want.n));
	assert_null(memmem(b.p, b.n, "\nshow: ", 7));
}

static void
no_row_limit_is_said_as_none_and_zero_is_zero(void **state UNUSED)
{
	struct statement s = example();
	AUTO_BUF struct buf b = BUF(STATEMENT_MAX);

	s.max_rows = -1;
	assert_int_equal(statement_bytes(&s, &b, NULL), 0);
	assert_non_null(memmem(b.p, b.n, "\nmax-rows: none\n", 16));
	buf_reset(&b);
	s.max_rows = 0;
	assert_int_equal(statement_bytes(&s, &b, NULL), 0);
	assert_non_null(memmem(b.p, b.n, "\nmax-rows: 0\n", 13));
}

static void
assert_refused(const struct statement *s, const char *why)
{
	AUTO_BUF struct buf b = BUF(STATEMENT_MAX);
	struct err err = {0};

	assert_int_equal(statement_bytes(s, &b, &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, why));
	assert_int_equal(b.n, 0);
}

static void
an_empty_or_overlong_field_is_refused_by_name(void **state UNUSED)
{
	static char big[513];
	struct statement s;

	(void)memset(big, 'a', sizeof(big));
#define EMPTY(member, name) \
	s = example();      \
	s.member = STR(""); \
	assert_refused(&s, name " is empty")
	EMPTY(broker, "broker");
	EMPTY(request, "request");
	EMPTY(action, "action");
	EMPTY(policy, "policy");
	EMPTY(log_head, "log-head");
	EMPTY(agent, "agent");
	EMPTY(run, "run");
	EMPTY(owner, "run-owner");
	EMPTY(target, "target");
	EMPTY(effects, "effects");
	EMPTY(rule, "rule");
	EMPTY(role, "role");
	EMPTY(approver, "approver");
	EMPTY(show, "show");
	s = example();
	s.agent = str_mem(big, 513);
	assert_refused(&s, "agent has 513 bytes, limit 512");
	s.agent = str_mem(big, 512);
	{
		AUTO_BUF struct buf b = BUF(STATEMENT_MAX);

		assert_int_equal(statement_bytes(&s, &b, NULL), 0);
	}
	s = example();
	s.decision = STR("yes");
	assert_refused(&s, "decision must be approve, deny or revoke");
	s = example();
	s.approve_by_us = s.not_before_us - 1;
	assert_refused(&s, "out of order");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_bytes_are_those_of_the_format),
	    cmocka_unit_test(a_line_break_in_a_field_cannot_forge_another_field),
	    cmocka_unit_test(an_action_is_shown_in_full_or_by_digest_and_never_cut),
	    cmocka_unit_test(no_row_limit_is_said_as_none_and_zero_is_zero),
	    cmocka_unit_test(an_empty_or_overlong_field_is_refused_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
