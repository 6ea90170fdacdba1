/* The number of a leased head: by a vector of its own bytes, and no two heads share one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/httplease.h"

#include "common/banned.h"

static const struct http_field two[] = {{STR("Accept"), STR("*/*")}, {STR("X-Empty"), STR("")}};

static void
a_head_hashes_as_its_lines(void **state UNUSED)
{
	struct hash want = hash_sha256(STR("GET /a?b=c\nAccept: */*\nX-Empty: \n"));
	struct hash got = http_lease_hash(STR("GET"), STR("/a?b=c"), two, 2);

	assert_true(hash_eq(&want, &got));
	want = hash_sha256(STR("HEAD /\n"));
	got = http_lease_hash(STR("HEAD"), STR("/"), NULL, 0);
	assert_true(hash_eq(&want, &got));
}

static void
another_order_or_spelling_is_another_number(void **state UNUSED)
{
	const struct http_field turned[] = {two[1], two[0]};
	const struct http_field spelt[] = {{STR("accept"), STR("*/*")}, two[1]};
	struct hash is = http_lease_hash(STR("GET"), STR("/"), two, 2);
	struct hash h = http_lease_hash(STR("GET"), STR("/"), turned, 2);

	assert_false(hash_eq(&is, &h));
	h = http_lease_hash(STR("GET"), STR("/"), spelt, 2);
	assert_false(hash_eq(&is, &h));
	h = http_lease_hash(STR("GET"), STR("/"), two, 1);
	assert_false(hash_eq(&is, &h));
	h = http_lease_hash(STR("PUT"), STR("/"), two, 2);
	assert_false(hash_eq(&is, &h));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_head_hashes_as_its_lines),
	    cmocka_unit_test(another_order_or_spelling_is_another_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
