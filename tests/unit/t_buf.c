/*
 * Unit tests of common/buf: bounds, wiping, the wire encoding both ways.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/buf.h"

#include "common/banned.h"

static void
a_buffer_takes_exactly_its_maximum(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(4);

	buf_put_z(&b, "abcd");
	assert_false(buf_over(&b));
	assert_true(str_eqz(buf_str(&b), "abcd"));
}

static void
one_byte_more_than_the_maximum_sets_the_flag_and_writes_nothing(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(4);

	buf_put_z(&b, "abc");
	buf_put_z(&b, "de");
	assert_true(buf_over(&b));
	assert_true(str_eqz(buf_str(&b), "abc"));
	/* Sticky: what would fit is not written either, or the message would have a hole. */
	buf_put_c(&b, 'x');
	assert_true(str_eqz(buf_str(&b), "abc"));
	assert_null(buf_grow(&b, 1));
}

static void
a_size_near_the_end_of_size_t_does_not_wrap(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(100);

	buf_put_z(&b, "abc");
	assert_null(buf_grow(&b, SIZE_MAX));
	assert_true(buf_over(&b));
}

static void
reset_clears_the_flag_and_wipes(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(8);

	buf_put_z(&b, "secret");
	buf_put_z(&b, "toolong");
	buf_reset(&b);
	assert_false(buf_over(&b));
	assert_int_equal(b.n, 0);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(b.p[i], 0);
	buf_put_z(&b, "again");
	assert_true(str_eqz(buf_str(&b), "again"));
}

static void
a_buffer_of_maximum_zero_takes_nothing_but_nothing(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(0);

	buf_put_z(&b, "");
	assert_false(buf_over(&b));
	buf_put_c(&b, 'x');
	assert_true(buf_over(&b));
}

static void
a_buffer_grows_over_many_writes_without_losing_any(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(100000);

	for (unsigned i = 0; i < 20000; i++)
		buf_u32(&b, i);
	assert_int_equal(b.n, 80000);
	struct rd r = rd_init(buf_str(&b));
	for (unsigned i = 0; i < 20000; i++)
		assert_int_equal(rd_u32(&r), i);
	assert_true(rd_end(&r));
}

static void
dropping_takes_from_the_front(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(16);
	AUTO_FREE char *z = NULL;

	buf_put_z(&b, "abcdef");
	buf_drop(&b, 0);
	buf_drop(&b, 2);
	z = buf_dup_z(&b);
	assert_string_equal(z, "cdef");
	buf_drop(&b, 4);
	assert_int_equal(b.n, 0);
}

static void
printf_past_the_maximum_sets_the_flag(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(5);

	buf_printf(&b, "%d", 12345);
	assert_false(buf_over(&b));
	buf_printf(&b, "%d", 6);
	assert_true(buf_over(&b));
	assert_true(str_eqz(buf_str(&b), "12345"));
}

static void
what_is_written_on_the_wire_is_read_back(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(200);
	struct rd r;

	buf_u8(&b, 0xfe);
	buf_u16(&b, 0xfedc);
	buf_u32(&b, 0xfedcba98);
	buf_u64(&b, 0xfedcba9876543210);
	buf_lz(&b, "text");
	buf_lz(&b, NULL);
	buf_lstr(&b, str_mem("a\0b", 3));
	assert_false(buf_over(&b));
	r = rd_init(buf_str(&b));
	assert_int_equal(rd_u8(&r), 0xfe);
	assert_int_equal(rd_u16(&r), 0xfedc);
	assert_int_equal(rd_u32(&r), 0xfedcba98);
	assert_true(rd_u64(&r) == 0xfedcba9876543210);
	assert_true(str_eqz(rd_lstr(&r), "text"));
	assert_int_equal(rd_lstr(&r).n, 0);
	assert_true(str_eq(rd_lstr(&r), str_mem("a\0b", 3)));
	assert_true(rd_end(&r));
}

static void
integers_are_big_endian(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(4);

	buf_u32(&b, 0x01020304);
	assert_memory_equal(b.p, "\1\2\3\4", 4);
}

static void
a_short_message_reads_as_zero_and_is_bad_for_ever(void **state UNUSED)
{
	struct rd r = rd_init(str_mem("\1\2\3", 3));

	assert_int_equal(rd_u32(&r), 0);
	assert_true(r.bad);
	/* The three bytes that are there must not be handed out after all. */
	assert_int_equal(rd_u8(&r), 0);
	assert_false(rd_end(&r));
}

static void
a_string_longer_than_the_message_is_bad(void **state UNUSED)
{
	struct rd r = rd_init(str_mem("\xff\xff\xff\xff"
				      "ab",
	    6));

	assert_int_equal(rd_lstr(&r).n, 0);
	assert_false(rd_end(&r));
	r = rd_init(str_mem("\0\0\0\2"
			    "ab",
	    6));
	assert_true(str_eqz(rd_lstr(&r), "ab"));
	assert_true(rd_end(&r));
}

static void
trailing_bytes_are_no_end(void **state UNUSED)
{
	struct rd r = rd_init(str_mem("\1\2", 2));

	assert_int_equal(rd_u8(&r), 1);
	assert_false(rd_end(&r));
	assert_int_equal(rd_u8(&r), 2);
	assert_true(rd_end(&r));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_buffer_takes_exactly_its_maximum),
	    cmocka_unit_test(one_byte_more_than_the_maximum_sets_the_flag_and_writes_nothing),
	    cmocka_unit_test(a_size_near_the_end_of_size_t_does_not_wrap),
	    cmocka_unit_test(reset_clears_the_flag_and_wipes),
	    cmocka_unit_test(a_buffer_of_maximum_zero_takes_nothing_but_nothing),
	    cmocka_unit_test(a_buffer_grows_over_many_writes_without_losing_any),
	    cmocka_unit_test(dropping_takes_from_the_front),
	    cmocka_unit_test(printf_past_the_maximum_sets_the_flag),
	    cmocka_unit_test(what_is_written_on_the_wire_is_read_back),
	    cmocka_unit_test(integers_are_big_endian),
	    cmocka_unit_test(a_short_message_reads_as_zero_and_is_bad_for_ever),
	    cmocka_unit_test(a_string_longer_than_the_message_is_bad),
	    cmocka_unit_test(trailing_bytes_are_no_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
