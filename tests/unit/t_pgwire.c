/* PostgreSQL messages: framing, start-up packets, layouts, what the broker builds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/pgwire.h"

#include "common/banned.h"

#define LIT(s) STR(s)

static struct pgwire_msg
one(struct str s)
{
	struct pgwire_msg m = {0};
	struct err err = {0};

	assert_int_equal(pgwire_next(s, PGWIRE_MESSAGE_MAX, &m, &err), 1);
	assert_int_equal(m.whole.n, s.n);
	return m;
}

static void
assert_frontend(struct str s, int rc)
{
	struct pgwire_msg m = one(s);
	struct err err = {0};

	if (pgwire_check_frontend(&m, &err) != rc)
		fail_msg("type %c, %zu bytes: %s", m.type, s.n, err.msg);
}

static void
message_is_framed_by_its_length_alone(void **state UNUSED)
{
	struct pgwire_msg m;
	struct err err = {0};
	struct str s = LIT("Q\0\0\0\015select 1\0rest");

	for (size_t n = 0; n < 14; n++)
		assert_int_equal(pgwire_next(str_mem(s.p, n), 100, &m, &err), 0);
	assert_int_equal(pgwire_next(s, 100, &m, &err), 1);
	assert_int_equal(m.type, 'Q');
	assert_int_equal(m.whole.n, 14);
	assert_int_equal(m.body.n, 9);
}

static void
impossible_lengths_are_refused_at_the_header(void **state UNUSED)
{
	static const struct {
		const char *bytes;
		int rc;
	} cases[] = {
	    {"Q\0\0\0\0", ERR_PROTOCOL}, {"Q\0\0\0\3", ERR_PROTOCOL},
	    {"Q\177\377\377\377", ERR_TOO_LARGE}, {"Q\377\377\377\377", ERR_PROTOCOL},
	    {"Q\0\20\0\0", ERR_TOO_LARGE}, /* 1 MiB and the type */
	};
	struct pgwire_msg m;
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(
		    pgwire_next(str_mem(cases[i].bytes, 5), PGWIRE_MESSAGE_MAX, &m, &err),
		    cases[i].rc);
	assert_non_null(strstr(err.msg, "limit 1048576"));
	/* Exactly the limit only needs more bytes. */
	assert_int_equal(
	    pgwire_next(str_mem("Q\0\17\377\377", 5), PGWIRE_MESSAGE_MAX, &m, &err), 0);
	/* Length 4: an empty body. */
	assert_int_equal(pgwire_next(str_mem("S\0\0\0\4", 5), PGWIRE_MESSAGE_MAX, &m, &err), 1);
}

static void
frontend_messages_must_be_exactly_of_their_layout(void **state UNUSED)
{
	assert_frontend(LIT("Q\0\0\0\6x\0"), 0);
	assert_frontend(LIT("Q\0\0\0\5x"), ERR_PROTOCOL);
	assert_frontend(
	    LIT("Q\0\0\0\010x\0y\0"), ERR_PROTOCOL); /* what follows the NUL is not seen by C */
	assert_frontend(LIT("S\0\0\0\4"), 0);
	assert_frontend(LIT("S\0\0\0\5x"), ERR_PROTOCOL);
	assert_frontend(LIT("X\0\0\0\4"), 0);
	assert_frontend(
	    LIT("P\0\0\0\014s\0q\0\0\1\0\0"), ERR_PROTOCOL); /* one type said, half of it there */
	assert_frontend(LIT("P\0\0\0\016s\0q\0\0\1\0\0\0\27"), 0);
	assert_frontend(LIT("D\0\0\0\6S\0"), 0);
	assert_frontend(LIT("D\0\0\0\6X\0"), ERR_PROTOCOL);
	assert_frontend(LIT("C\0\0\0\6P\0"), 0);
	assert_frontend(LIT("E\0\0\0\011\0\0\0\0\0"), 0);
	assert_frontend(LIT("E\0\0\0\010\0\0\0\0"), ERR_PROTOCOL);
	assert_frontend(LIT("Z\0\0\0\5I"), ERR_PROTOCOL);
}

static void
bind_lengths_cannot_reach_beyond_the_message(void **state UNUSED)
{
	/* portal "", statement "", no formats, one value, no result formats */
	assert_frontend(LIT("B\0\0\0\020\0\0\0\0\0\1\377\377\377\377\0\0"), 0); /* NULL */
	assert_frontend(LIT("B\0\0\0\021\0\0\0\0\0\1\0\0\0\1x\0\0"), 0);
	assert_frontend(LIT("B\0\0\0\020\0\0\0\0\0\1\377\377\377\376\0\0"), ERR_PROTOCOL); /* -2 */
	assert_frontend(LIT("B\0\0\0\020\0\0\0\0\0\1\177\377\377\377\0\0"), ERR_PROTOCOL);
	assert_frontend(
	    LIT("B\0\0\0\021\0\0\0\0\377\377\0\0\0\1x\0\0"), ERR_PROTOCOL); /* 65535 said */
	assert_frontend(LIT("F\0\0\0\016\0\0\0\1\0\0\0\0\0\0"), 0);
	assert_frontend(LIT("F\0\0\0\015\0\0\0\1\0\0\0\0\0"), ERR_PROTOCOL);
}

static void
startup_reads_parameters_and_options(void **state UNUSED)
{
	struct pgwire_startup s;
	struct err err = {0};
	struct str in = LIT("\0\0\0\054\0\3\0\2user\0bob\0database\0crm\0_pq_.test\0on\0\0tail");

	for (size_t n = 0; n < 44; n++)
		assert_int_equal(pgwire_startup_parse(str_mem(in.p, n), &s, &err), 0);
	assert_int_equal(pgwire_startup_parse(in, &s, &err), 44);
	assert_int_equal(s.kind, PGWIRE_STARTUP_V3);
	assert_int_equal(s.version, 0x00030002);
	assert_int_equal(s.n, 2);
	assert_true(str_eqz(s.params[1].value, "crm"));
	assert_int_equal(s.noptions, 1);
	assert_true(str_eqz(s.options[0], "_pq_.test"));
}

static void
startup_codes_are_told_apart(void **state UNUSED)
{
	static const struct {
		struct str in;
		int rc;
		enum pgwire_startup_kind kind;
	} cases[] = {
	    {LIT("\0\0\0\010\004\322\026\057"), 8, PGWIRE_STARTUP_SSL},
	    {LIT("\0\0\0\010\004\322\026\060"), 8, PGWIRE_STARTUP_GSS},
	    {LIT("\0\0\0\020\004\322\026\056pidpkeyk"), 16, PGWIRE_STARTUP_CANCEL},
	    {LIT("\0\0\0\011\004\322\026\057x"), ERR_PROTOCOL, PGWIRE_STARTUP_SSL},
	    {LIT("\0\0\0\010\004\322\026\056"), ERR_PROTOCOL, PGWIRE_STARTUP_CANCEL},
	    {LIT("\0\0\0\011\0\2\0\0\0"), ERR_UNSUPPORTED, PGWIRE_STARTUP_NONE},
	};
	struct pgwire_startup s;
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(pgwire_startup_parse(cases[i].in, &s, &err), cases[i].rc);
		assert_int_equal(s.kind, cases[i].kind);
	}
}

static void
cancel_tells_process_and_key(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(64);
	struct pgwire_startup s;
	struct err err = {0};

	pgwire_put_cancel(&b, STR("\0\1\2\3keyk"));
	assert_int_equal(pgwire_startup_parse(buf_str(&b), &s, &err), 16);
	assert_int_equal(s.kind, PGWIRE_STARTUP_CANCEL);
	assert_int_equal(s.cancel_pid, 0x10203);
	assert_true(str_eqz(s.cancel_key, "keyk"));
	assert_int_equal(
	    pgwire_startup_parse(LIT("\0\0\0\024\004\322\026\056pidplongkey!"), &s, &err), 20);
	assert_true(str_eqz(s.cancel_key, "longkey!")); /* as protocol 3.2 has them */
	assert_int_equal(
	    pgwire_startup_parse(LIT("\0\0\0\014\004\322\026\056pidp"), &s, &err), ERR_PROTOCOL);
}

static void
malformed_startup_is_refused(void **state UNUSED)
{
	static const struct {
		struct str in;
		int rc;
	} cases[] = {
	    {LIT("\0\0\0\7"), ERR_PROTOCOL}, {LIT("\0\0\047\021"), ERR_TOO_LARGE}, /* 10001 */
	    {LIT("\0\0\047\020"), 0},				     /* 10000: only needs more */
	    {LIT("\0\0\0\011\0\3\0\0\0"), 9},			     /* no parameters at all */
	    {LIT("\0\0\0\015\0\3\0\0user\0"), ERR_PROTOCOL},	     /* no value */
	    {LIT("\0\0\0\014\0\3\0\0user"), ERR_PROTOCOL},	     /* no NUL */
	    {LIT("\0\0\0\012\0\3\0\0\0x"), ERR_PROTOCOL},	     /* bytes behind the end */
	    {LIT("\0\0\0\021\0\3\0\0a\0b\0a\0c\0\0"), ERR_PROTOCOL}, /* twice */
	};
	struct pgwire_startup s;
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(pgwire_startup_parse(cases[i].in, &s, &err), cases[i].rc);
}

static void
stream_is_followed_in_any_pieces(void **state UNUSED)
{
	struct str s = LIT("T\0\0\0\6ab"
			   "D\0\0\0\4"
			   "Z\0\0\0\5I");

	for (size_t step = 1; step <= s.n; step++) {
		struct pgwire_track t = {0};

		for (size_t at = 0; at < s.n; at += step) {
			size_t n = s.n - at < step ? s.n - at : step, end = at + n;

			assert_true(pgwire_track_add(&t, str_mem(s.p + at, n)));
			assert_int_equal(
			    pgwire_track_boundary(&t), end == 7 || end == 12 || end == 18);
		}
	}
	assert_false(pgwire_track_add(&(struct pgwire_track){0}, LIT("D\0\0\0\3")));
}

static void
error_survives_building_and_reading(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(1000);
	struct pgwire_error e = {.sqlstate = STR("42501"),
				.message = STR("no\0hidden"),
				.detail = STR("why"),
				.hint = STR("how")},
			    got;
	struct err err = {0};

	pgwire_put_error(&b, "ERROR", &e);
	assert_int_equal(pgwire_error_parse(one(buf_str(&b)).body, &got, &err), 0);
	assert_true(str_eqz(got.severity, "ERROR") && str_eqz(got.sqlstate, "42501"));
	assert_true(str_eqz(got.message, "no")); /* a NUL ends a text, it never begins a field */
	assert_true(str_eqz(got.detail, "why") && str_eqz(got.hint, "how"));
	assert_int_equal(pgwire_error_parse(STR("Mx\0"), &got, &err), ERR_PROTOCOL);
	assert_int_equal(pgwire_error_parse(STR("Mx\0\0y"), &got, &err), ERR_PROTOCOL);
}

static void
what_the_broker_builds_is_what_it_would_accept(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(4000);
	struct str rest;
	struct pgwire_msg m;
	struct err err = {0};
	char types[16] = "";
	size_t n = 0;

	pgwire_put_query(&b, STR("select 1"));
	pgwire_put_own_statement(&b, STR("name"), STR("BEGIN"));
	pgwire_put_sync(&b);
	pgwire_put_flush(&b);
	pgwire_put_copy_data(&b, STR("1\n\0"));
	pgwire_put_copy_done(&b);
	pgwire_put_copy_fail(&b, STR("no\0more"));
	pgwire_put_terminate(&b);
	for (rest = buf_str(&b); rest.n != 0; rest.p += m.whole.n, rest.n -= m.whole.n) {
		assert_int_equal(pgwire_next(rest, PGWIRE_MESSAGE_MAX, &m, &err), 1);
		assert_int_equal(pgwire_check_frontend(&m, &err), 0);
		types[n++] = m.type;
	}
	assert_string_equal(types, "QPBECCSHdcfX");
}

static void
tag_tells_the_rows(void **state UNUSED)
{
	struct str verb = STR("");
	uint64_t n = 7;

	assert_true(pgwire_tag_rows(STR("INSERT 0 3"), &verb, &n));
	assert_true(str_eqz(verb, "INSERT") && n == 3);
	assert_true(pgwire_tag_rows(STR("DELETE 1206"), &verb, &n));
	assert_true(str_eqz(verb, "DELETE") && n == 1206);
	assert_false(pgwire_tag_rows(STR("CREATE TABLE"), &verb, &n));
	assert_false(pgwire_tag_rows(STR("BEGIN"), &verb, &n));
	assert_false(pgwire_tag_rows(STR("DELETE 99999999999999999999999"), &verb, &n));
	assert_false(pgwire_tag_rows(STR(""), &verb, &n));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(message_is_framed_by_its_length_alone),
	    cmocka_unit_test(impossible_lengths_are_refused_at_the_header),
	    cmocka_unit_test(frontend_messages_must_be_exactly_of_their_layout),
	    cmocka_unit_test(bind_lengths_cannot_reach_beyond_the_message),
	    cmocka_unit_test(startup_reads_parameters_and_options),
	    cmocka_unit_test(startup_codes_are_told_apart),
	    cmocka_unit_test(cancel_tells_process_and_key),
	    cmocka_unit_test(malformed_startup_is_refused),
	    cmocka_unit_test(stream_is_followed_in_any_pieces),
	    cmocka_unit_test(error_survives_building_and_reading),
	    cmocka_unit_test(what_the_broker_builds_is_what_it_would_accept),
	    cmocka_unit_test(tag_tells_the_rows),
	};

	return cmocka_run_group_tests_name("pgwire", tests, NULL, NULL);
}
