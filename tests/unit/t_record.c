/* Records: canonical form, the line, the envelope. Each refusal beside the nearest allowed form. */
#include "audit/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "audit/canon.h"

#include "common/banned.h"

static bool
canon_ok(const char *z)
{
	return canon_check(str_z(z), NULL) == 0;
}

static void
canonical_text_is_accepted_and_every_other_spelling_refused(void **state)
{
	static const char *const good[] = {"{}", "[]", "0", "-1", "9007199254740991",
	    "-9007199254740991", "\"\"", "true", "false", "{\"a\":1,\"b\":[1,\"x\",{}]}",
	    "\"\\\"\\\\\\b\\f\\n\\r\\t\"", "\"\\u0001\\u001f\"",
	    "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", "\"/\x7f\"", "{\"A\":1,\"a\":1,\"aa\":1}",
	    "{\"\":1}",
	    "{\"\xf0\x90\x80\x80\":1,\"\xee\x80\x80\":1}" /* UTF-16 order: D800 before E000 */};
	static const char *const bad[] = {"", " {}", "{} ", "{ }", "[1, 2]", "1.0", "1e0", "-0",
	    "01", "+1", "9007199254740992", "-9007199254740992", "null", "NaN", "tru", "\"",
	    "\"\\/\"", "\"\\u0000\"", "\"\\u000a\"", "\"\\u0041\"", "\"\\u001F\"", "\"\\ud800\"",
	    "\"\n\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"\xc0\xaf\"", "{\"a\":1,\"a\":1}",
	    "{\"b\":1,\"a\":1}", "{\"a\":1,}", "{\"a\"}", "{a:1}", "[1,]", "[1", "{\"a\":1", "1 2",
	    "\xef\xbb\xbf{}", "{}\n", "{\"\xee\x80\x80\":1,\"\xf0\x90\x80\x80\":1}",
	    "{\"\\n\":1,\"\\b\":1}"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		if (!canon_ok(good[i]))
			fail_msg("refused: %s", good[i]);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (canon_ok(bad[i]))
			fail_msg("accepted: %s", bad[i]);
	assert_int_not_equal(canon_check(str_mem("\"a\0\"", 4), NULL), 0);
}

static void
each_byte_at_each_place_of_a_string_is_looked_at(void **state)
{
	char z[64];
	unsigned n = 0;

	(void)state;
	for (size_t len = 1; len <= 40; len++) {
		for (size_t at = 0; at < len; at++) {
			for (unsigned c = 0; c < 256; c++, n++) {
				bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';

				memset(z, 'x', sizeof(z));
				z[0] = z[len + 1] = '"';
				z[at + 1] = (char)c;
				if ((canon_check(str_mem(z, len + 2), NULL) == 0) != plain)
					fail_msg("byte %02x at %zu of %zu", c, at, len);
			}
		}
	}
	print_message("# %u strings\n", n);
}

static void
nesting_is_bounded(void **state)
{
	char z[2 * (CANON_DEPTH_MAX + 1) + 1];

	(void)state;
	for (unsigned d = CANON_DEPTH_MAX; d <= CANON_DEPTH_MAX + 1; d++) {
		memset(z, '[', d);
		memset(z + d, ']', d);
		assert_int_equal(
		    canon_check(str_mem(z, 2 * (size_t)d), NULL) == 0, d == CANON_DEPTH_MAX);
	}
}

static void
what_the_emitter_writes_is_canonical(void **state)
{
	AUTO_BUF struct buf b = BUF(4096);
	struct jcs j;

	(void)state;
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_array(&j, "a");
	for (int i = 1; i < 0x20; i++) {
		char c = (char)i;

		jcs_str(&j, NULL, str_mem(&c, 1));
	}
	jcs_array_end(&j);
	jcs_int(&j, "b", -9007199254740991);
	jcs_str_lossy(&j, "c", str_mem("\xff\0x", 3));
	jcs_key(&j, STR("d\n\xf0\x9f\x98\x80"));
	jcs_bool(&j, NULL, true);
	jcs_close(&j);
	assert_int_equal(canon_check(buf_str(&b), NULL), 0);
	assert_true(jcs_is_canonical(buf_str(&b), NULL));
}

static void
members_and_elements_are_found_as_stored(void **state)
{
	struct str o = STR("{\"a\":\"x,}\",\"b\":{\"a\":1},\"c\":[1,\"]\",{\"k\":[2]}],\"d\":7}"),
		   v;
	struct str c = canon_get(o, "c");
	size_t at = 0;
	uint64_t n;

	(void)state;
	assert_true(str_eqz(canon_plain(canon_get(o, "a")), "x,}"));
	assert_true(str_eqz(canon_get(canon_get(o, "b"), "a"), "1"));
	assert_true(canon_u64(canon_get(o, "d"), &n) && n == 7);
	assert_null(canon_get(o, "k").p);
	assert_null(canon_get(STR("{}"), "k").p);
	assert_true(canon_next(c, &at, &v) && str_eqz(v, "1"));
	assert_true(canon_next(c, &at, &v) && str_eqz(v, "\"]\""));
	assert_true(canon_next(c, &at, &v) && str_eqz(v, "{\"k\":[2]}"));
	assert_false(canon_next(c, &at, &v));
	at = 0;
	assert_false(canon_next(STR("[]"), &at, &v));
}

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define BODY                                                                              \
	"{\"batch\":0,\"data\":{\"x\":1},\"mono\":5,\"prev\":\"" ZEROS                    \
	"\",\"run\":\"r-1\",\"seq\":0,\"src\":\"broker\",\"time\":\"2026-11-29T14:31:13." \
	"123456Z\","                                                                      \
	"\"type\":\"log.open\",\"v\":1}"

static void
a_body_is_read_back_as_it_was_written(void **state)
{
	struct record r = {.mono = 5,
	    .data = STR("{\"x\":1}"),
	    .run = STR("r-1"),
	    .src = STR("broker"),
	    .time = STR("2026-11-29T14:31:13.123456Z"),
	    .type = STR("log.open")};
	AUTO_BUF struct buf b = BUF(4096);
	struct record q;

	(void)state;
	record_body(&b, &r);
	assert_true(str_eqz(buf_str(&b), BODY));
	assert_int_equal(record_parse(buf_str(&b), &q, NULL), 0);
	assert_true(str_eqz(q.data, "{\"x\":1}") && str_eqz(q.run, "r-1") && q.mono == 5);
	r.run = STR("");
	buf_reset(&b);
	record_body(&b, &r);
	assert_int_equal(record_parse(buf_str(&b), &q, NULL), 0);
	assert_int_equal(q.run.n, 0);
}

static void
swap_in(struct buf *b, const char *from, const char *to)
{
	const char *at = strstr(BODY, from);
	size_t head;

	assert_non_null(at);
	head = (size_t)(at - BODY);
	buf_reset(b);
	buf_put(b, BODY, head);
	buf_put_z(b, to);
	buf_put_z(b, at + strlen(from));
}

static void
an_envelope_with_a_member_more_less_or_other_is_refused(void **state)
{
	static const char *const change[][2] = {{"\"batch\":0", "\"batch\":1"},
	    {"\"batch\":0,", ""}, {"\"mono\":5", "\"mono\":-5"}, {"\"mono\":5", "\"mono\":\"5\""},
	    {",\"v\":1", ""}, {"\"v\":1", "\"v\":2"}, {"\"v\":1", "\"v\":1,\"w\":1"},
	    {"\"run\":\"r-1\"", "\"run\":\"\""}, {"\"run\":\"r-1\"", "\"run\":\"r 1\""},
	    {"\"run\":\"r-1\"", "\"rum\":\"r-1\""}, {"broker", "root"}, {"log.open", "Log.open"},
	    {"2026-11-29T14", "2026-11-31T14"}, {"13.123456Z", "13Z"}, {"{\"x\":1}", "[1]"},
	    {"{\"x\":1}", "{\"x\": 1}"}, {"\"data\":", "\"dataa\":"}, {"prev\":\"0", "prev\":\"A"}};
	AUTO_BUF struct buf b = BUF(4096);
	struct record q;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(change); i++) {
		swap_in(&b, change[i][0], change[i][1]);
		if (record_parse(buf_str(&b), &q, NULL) == 0)
			fail_msg("accepted: %s", change[i][1]);
	}
	swap_in(&b, "{\"x\":1}", "{\"prev\":\"a,b\",\"v\":[{}]}");
	assert_int_equal(record_parse(buf_str(&b), &q, NULL), 0);
}

static void
any_flipped_bit_of_a_line_is_seen(void **state)
{
	AUTO_BUF struct buf line = BUF(4096);
	struct hash leaf, again;
	struct str body;

	(void)state;
	record_line(&line, STR(BODY), &leaf);
	assert_int_equal(line.n, RECORD_PREFIX_LEN + sizeof(BODY) - 1 + RECORD_SUFFIX_LEN + 1);
	assert_int_equal(record_parse_line(buf_str(&line), &body, &again, NULL), 0);
	assert_true(str_eqz(body, BODY) && hash_eq(&leaf, &again));
	for (size_t i = 0; i < line.n * 8; i++) {
		line.p[i / 8] ^= (uint8_t)(1u << (i % 8));
		assert_int_not_equal(record_parse_line(buf_str(&line), &body, &again, NULL), 0);
		line.p[i / 8] ^= (uint8_t)(1u << (i % 8));
	}
	for (size_t n = 0; n < line.n; n++)
		assert_int_not_equal(record_parse_line(str_mem(line.p, n), &body, &again, NULL), 0);
}

static void
the_largest_body_has_a_line_and_one_byte_more_has_none(void **state)
{
	AUTO_BUF struct buf body = BUF(RECORD_BODY_MAX + 1), line = BUF(RECORD_LINE_MAX + 1);
	struct hash leaf;
	struct str b;

	(void)state;
	memset(buf_grow(&body, RECORD_BODY_MAX), 'x', RECORD_BODY_MAX);
	record_line(&line, buf_str(&body), &leaf);
	assert_int_equal(record_parse_line(buf_str(&line), &b, &leaf, NULL), 0);
	buf_put_c(&body, 'x');
	buf_reset(&line);
	record_line(&line, buf_str(&body), &leaf);
	assert_int_equal(record_parse_line(buf_str(&line), &b, &leaf, NULL), ERR_TAMPER);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(canonical_text_is_accepted_and_every_other_spelling_refused),
	    cmocka_unit_test(each_byte_at_each_place_of_a_string_is_looked_at),
	    cmocka_unit_test(nesting_is_bounded),
	    cmocka_unit_test(what_the_emitter_writes_is_canonical),
	    cmocka_unit_test(members_and_elements_are_found_as_stored),
	    cmocka_unit_test(a_body_is_read_back_as_it_was_written),
	    cmocka_unit_test(an_envelope_with_a_member_more_less_or_other_is_refused),
	    cmocka_unit_test(any_flipped_bit_of_a_line_is_seen),
	    cmocka_unit_test(the_largest_body_has_a_line_and_one_byte_more_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
