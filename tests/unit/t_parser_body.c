/*
 * Bodies given to the real cofferdam-parser: sealed ones are answered in time, what could still
 * change is not read.
 */
#include "tests/unit/parser_help.h"

#include "common/banned.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static void
ask_body(
    struct child *c, uint8_t dialect, const char *type, struct str body, int seals, uint64_t length)
{
	AUTO_FD int fd = memfd_create("body", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	AUTO_BUF struct buf msg = BUF(8192);
	struct err err = {0};

	assert_true(fd >= 0);
	assert_int_equal(write(fd, body.p, body.n), body.n);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	buf_u64(&msg, 5);
	buf_u8(&msg, dialect);
	buf_lz(&msg, type);
	buf_u64(&msg, length);
	must(ipc_sync_send(c->core, IPC_ROLE_CORE, IPC_ROLE_PARSER, MSG_X_BODY, &msg, &fd, 1, &err),
	    &err);
}

static void
assert_body(struct child *c, uint8_t dialect, const char *type, struct str body, int status,
    const char *want)
{
	AUTO_BUF struct buf out = BUF(1 << 17);

	ask_body(c, dialect, type, body, SEALS, body.n);
	assert_int_equal(answer(c, 5, &out), status);
	if (want != NULL && !str_eqz(buf_str(&out), want))
		fail_msg("%.*s", STR_ARG(buf_str(&out)));
}

#define JSON "application/json"
#define FORM "application/x-www-form-urlencoded"
#define QUERY_A "{\"graphql\":[{\"fields\":[\"a\"],\"operations\":1,\"type\":\"query\"}]}"

static void
a_body_is_answered_with_its_facts(void **state)
{
	AUTO_BUF struct buf out = BUF(1 << 17);
	struct child *c = *state;

	assert_body(
	    c, PARSER_DIALECT_GRAPHQL, JSON, STR("{\"query\":\"{a}\"}"), PARSER_OK, QUERY_A);
	assert_body(c, PARSER_DIALECT_FORM, FORM, STR("a=1&_method=x"), PARSER_OK,
	    "{\"form\":\"urlencoded\",\"override\":true,\"parts\":2}");
	assert_body(c, PARSER_DIALECT_FORM, FORM, STR(""), PARSER_OK,
	    "{\"form\":\"urlencoded\",\"override\":false,\"parts\":0}");
	assert_body(c, PARSER_DIALECT_GRAPHQL, JSON, STR("{"), PARSER_INVALID, NULL);
	assert_body(c, PARSER_DIALECT_POSTGRESQL, JSON, STR("SELECT 1"), PARSER_INVALID,
	    "dialect 1 is not known");
	ask(c, 6, PARSER_DIALECT_GRAPHQL, STR("query=%7Ba%7D"));
	assert_int_equal(answer(c, 6, &out), PARSER_OK);
	assert_true(str_eqz(buf_str(&out), QUERY_A));
	serves(c);
}

static void
a_body_that_can_still_change_ends_the_wire(void **state)
{
	static const int seals[] = {0, F_SEAL_SEAL, SEALS & ~F_SEAL_SEAL, SEALS & ~F_SEAL_SHRINK,
	    SEALS & ~F_SEAL_GROW, SEALS & ~F_SEAL_WRITE};
	AUTO_BUF struct buf out = BUF(1 << 17);
	struct child *c = *state;

	for (size_t i = 0; i < ARRAY_LEN(seals); i++) {
		ask_body(c, PARSER_DIALECT_FORM, FORM, STR("a=1"), seals[i], 3);
		assert_int_equal(answer(c, 5, &out), -1);
		cleanup_close_fd(&c->core);
		give_wire(c);
		serves(c);
	}
	assert_body(c, PARSER_DIALECT_FORM, FORM, STR("a=1"), PARSER_OK, NULL);
}

static void
a_body_of_another_length_ends_the_wire(void **state)
{
	static const uint64_t lengths[] = {0, 2, 4, UINT64_MAX};
	AUTO_BUF struct buf out = BUF(1 << 17);
	struct child *c = *state;

	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		ask_body(c, PARSER_DIALECT_FORM, FORM, STR("a=1"), SEALS, lengths[i]);
		assert_int_equal(answer(c, 5, &out), -1);
		cleanup_close_fd(&c->core);
		give_wire(c);
		serves(c);
	}
}

static void
large_bodies_are_answered_in_time(void **state)
{
	static const struct {
		const char *type, *prefix, *piece;
		uint8_t dialect;
		size_t max;
	} t[] = {
	    {FORM, "a=", "x", PARSER_DIALECT_FORM, FACTS_FORM_MAX},
	    {FORM, "", "a&", PARSER_DIALECT_FORM, FACTS_FORM_MAX},
	    {"multipart/form-data; boundary=XX",
		"--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n", "\r\n--X",
		PARSER_DIALECT_FORM, FACTS_FORM_MAX},
	    {JSON, "{\"query\":\"{a}\",\"variables\":{\"a\":[", "1,", PARSER_DIALECT_GRAPHQL,
		FACTS_GRAPHQL_MAX},
	    {JSON, "", "[", PARSER_DIALECT_GRAPHQL, FACTS_GRAPHQL_MAX},
	    {JSON, "{\"query\":\"{a}#", "x", PARSER_DIALECT_GRAPHQL, FACTS_GRAPHQL_MAX},
	    {"application/graphql", "{", "a ", PARSER_DIALECT_GRAPHQL, FACTS_GRAPHQL_MAX},
	    {"application/graphql", "", "{a", PARSER_DIALECT_GRAPHQL, FACTS_GRAPHQL_MAX},
	};
	AUTO_BUF struct buf out = BUF(1 << 17);
	struct child *c = *state;

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		AUTO_BUF struct buf b = BUF(t[i].max);
		size_t n = strlen(t[i].piece);

		buf_put_z(&b, t[i].prefix);
		while (b.n + n <= t[i].max)
			buf_put(&b, t[i].piece, n);
		ask_body(c, t[i].dialect, t[i].type, buf_str(&b), SEALS, b.n);
		if (answer(c, 5, &out) < 0)
			fail_msg("%s%s...: the parser died of it", t[i].prefix, t[i].piece);
		serves(c);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_body_is_answered_with_its_facts),
	    TEST(a_body_that_can_still_change_ends_the_wire),
	    TEST(a_body_of_another_length_ends_the_wire),
	    TEST(large_bodies_are_answered_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
