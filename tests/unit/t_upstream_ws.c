/*
 * The frames of a WebSocket server: passed on as they came, also in pieces, with secrets found in
 * each message; what is no frame is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/upstream_ws.h"

#include "common/banned.h"

#define SECRET "s3cr3t-0123456789"
#define STARS "*****************"

static struct scrub_set *
secrets(void)
{
	return scrub_set_new(&(struct scrub_secret){.secret = STR(SECRET)}, 1);
}

static int
fed(struct str in, size_t step, bool search, bool end, struct buf *out, uint32_t *ret_count)
{
	struct scrub_set *set = search ? secrets() : NULL;
	struct ws *w = ws_new(set);
	struct err err = {0};
	int rc = 0;

	for (size_t at = 0; rc == 0 && at < in.n; at += step)
		rc = ws_feed(w, str_mem(in.p + at, in.n - at < step ? in.n - at : step), out, &err);
	if (end)
		ws_end(w, out);
	*ret_count = ws_replaced(w);
	ws_free(w);
	scrub_set_drop(set);
	return rc;
}

static void
assert_fed(struct str in, struct str want, bool search, uint32_t count)
{
	for (size_t step = 1; step <= in.n; step++) {
		AUTO_BUF struct buf out = BUF(65536);
		uint32_t n = 0;

		assert_int_equal(fed(in, step, search, true, &out, &n), 0);
		assert_int_equal(out.n, want.n);
		assert_memory_equal(out.p, want.p, want.n);
		assert_int_equal(n, count);
	}
}

static void
frames_pass_as_they_came(void **state UNUSED)
{
	static const struct str rows[] = {
	    STR("\x81\x05hello"),
	    STR("\x82\x00"),
	    STR("\x01\x03"
		"abc"
		"\x89\x01!"
		"\x00\x00"
		"\x80\x02"
		"de"
		"\x88\x02\x03\xe8"),
	    STR("\x8a\x00\x81\x01s"),
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_fed(rows[i], rows[i], true, 0);
		assert_fed(rows[i], rows[i], false, 0);
	}
}

static void
lengths_of_all_sizes_pass(void **state UNUSED)
{
	static const size_t sizes[] = {125, 126, 65535, 65536, 200000};

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		size_t n = sizes[i];
		AUTO_BUF struct buf in = BUF(300000), out = BUF(600000);
		uint32_t count;

		buf_u8(&in, 0x82);
		if (n < 126) {
			buf_u8(&in, (uint8_t)n);
		} else if (n < 65536) {
			buf_u8(&in, 126);
			buf_u16(&in, (uint16_t)n);
		} else {
			buf_u8(&in, 127);
			buf_u64(&in, n);
		}
		for (size_t k = 0; k < n; k++)
			buf_u8(&in, (uint8_t)(k * 7));
		assert_int_equal(fed(buf_str(&in), 8191, true, false, &out, &count), 0);
		assert_true(str_eq(buf_str(&in), buf_str(&out)));
	}
}

static void
a_secret_is_found_across_the_fragments_of_a_message(void **state UNUSED)
{
	assert_fed(STR("\x81\x13<" SECRET ">"), STR("\x81\x13<" STARS ">"), true, 1);
	assert_fed(STR("\x01\x05<s3cr\x89\x02ok\x00\x00\x80\x0e"
		       "3t-0123456789>"),
	    STR("\x01\x05<****\x89\x02ok\x00\x00\x80\x0e*************>"), true, 1);
	assert_fed(
	    STR("\x89\x11" SECRET "\x81\x02ok"), STR("\x89\x11" STARS "\x81\x02ok"), true, 1);
	/* In two messages it is two texts: the larger half is taken for all of it, or neither. */
	assert_fed(STR("\x81\x03s3c\x81\x03r3t"), STR("\x81\x03s3c\x81\x03r3t"), true, 0);
	/* Nothing is looked for where there is no secret. */
	assert_fed(STR("\x81\x13<" SECRET ">"), STR("\x81\x13<" SECRET ">"), false, 0);
}

/* A client that waits for the end of a message gets it: only its own beginning is held back. */
static void
nothing_of_a_message_that_has_ended_is_held_back(void **state UNUSED)
{
	AUTO_BUF struct buf out = BUF(1024);
	uint32_t count;

	assert_int_equal(fed(STR("\x81\x05s3cr3"), 100, true, false, &out, &count), 0);
	assert_true(str_eqz(buf_str(&out), "\x81\x05s3cr3"));
	buf_reset(&out);
	assert_int_equal(fed(STR("\x01\x05s3cr3"), 100, true, false, &out, &count), 0);
	assert_true(str_eq(buf_str(&out), STR("\x01\x05")));
}

static void
what_is_no_frame_is_refused(void **state UNUSED)
{
	static const struct {
		struct str bad, good; /* good: the nearest that passes */
	} rows[] = {
	    {STR("\xc1\x01x"), STR("\x81\x01x")},		/* compressed */
	    {STR("\xa1\x01x"), STR("\x81\x01x")},		/* another reserved bit */
	    {STR("\x81\x81"), STR("\x81\x01x")},		/* masked */
	    {STR("\x83\x00"), STR("\x82\x00")},			/* of no known kind */
	    {STR("\x8b\x00"), STR("\x8a\x00")},			/* nor a control frame */
	    {STR("\x09\x00"), STR("\x89\x00")},			/* control in parts */
	    {STR("\x89\x7e"), STR("\x89\x00")},			/* too long for one */
	    {STR("\x80\x00"), STR("\x01\x00\x80\x00")},		/* goes on with nothing */
	    {STR("\x01\x00\x81\x00"), STR("\x01\x00\x80\x00")}, /* begins within another */
	    {STR("\x81\x7e\x00\x7d"), STR("\x81\x00")},		/* not the shortest length */
	    {STR("\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff"), STR("\x82\x00")},
	    {STR("\x82\x7f\x80\x00\x00\x00\x00\x01\x00\x00"), STR("\x82\x00")},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t step = 1; step <= rows[i].bad.n; step++) {
			AUTO_BUF struct buf out = BUF(65536);
			uint32_t n;

			assert_int_equal(fed(rows[i].bad, step, true, false, &out, &n), ERR_SYNTAX);
			assert_int_equal(fed(rows[i].good, step, true, false, &out, &n), 0);
		}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(frames_pass_as_they_came),
	    cmocka_unit_test(lengths_of_all_sizes_pass),
	    cmocka_unit_test(a_secret_is_found_across_the_fragments_of_a_message),
	    cmocka_unit_test(nothing_of_a_message_that_has_ended_is_held_back),
	    cmocka_unit_test(what_is_no_frame_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
