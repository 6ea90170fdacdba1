/* The action digest: vectors of docs/format-approval.md, computed there by other code. */
#include "tests/unit/policy_help.h"

#include "policy/digest.h"

#include "common/banned.h"

static void
assert_digest(struct digest *d, const char *want)
{
	struct hash h = digest_end(d);
	char hex[HASH_HEX_SIZE];

	hash_hex(&h, hex);
	assert_string_equal(hex, want);
}

static void
the_vectors_of_the_format_hold(void **state UNUSED)
{
	static const char params[] = "\0\1\0\0\0\0\0\0\0\x17\0\0\0\2\0\0\x34\x32";
	AUTO_BUF struct buf peer = BUF(128);
	struct digest *d = digest_begin();

	assert_digest(d, "d8c2b562a83d761c9fb7958772491cd270cb9be6e720bae8238ddf70cabc071f");
	d = digest_begin();
	digest_field(d, DIGEST_PROTOCOL, STR("postgresql"));
	digest_field(d, DIGEST_TARGET, STR("prod-db"));
	assert_digest(d, "5e74fb45718ecae900c449265df4b6b4876332ec5ed6cc1826087a8d72b58ad2");
	buf_put_z(&peer, "10.0.0.7 ");
	for (int i = 0; i < 32; i++)
		buf_put_z(&peer, "ab");
	d = digest_begin();
	digest_field(d, DIGEST_PROTOCOL, STR("postgresql"));
	digest_field(d, DIGEST_TARGET, STR("prod-db"));
	digest_field(d, DIGEST_UPSTREAM, STR("db.internal:5432"));
	digest_field(d, DIGEST_UPSTREAM_ID, buf_str(&peer));
	digest_field(d, DIGEST_CREDENTIAL, STR("orders-agent"));
	digest_field(d, DIGEST_AGENT, STR("script"));
	digest_field(d, DIGEST_RUN, STR("r-1"));
	digest_field(d, DIGEST_OPERATION, STR("DELETE FROM users WHERE id = $1"));
	digest_field(d, DIGEST_PARAMETERS, str_mem(params, sizeof(params) - 1));
	digest_field(d, DIGEST_EFFECTS, STR("delete"));
	assert_digest(d, "2aeb0ab8f38627e73b300fa80b4fbfa6fd18094db60b8b9291dff03b41fa3e5b");
}

static struct hash
two(enum digest_tag a, struct str x, enum digest_tag b, struct str y)
{
	struct digest *d = digest_begin();

	digest_field(d, a, x);
	digest_field(d, b, y);
	return digest_end(d);
}

static void
no_byte_can_move_from_one_field_to_the_next(void **state UNUSED)
{
	struct hash a = two(DIGEST_TARGET, STR("ab"), DIGEST_OPERATION, STR("c"));
	struct hash b = two(DIGEST_TARGET, STR("a"), DIGEST_OPERATION, STR("bc"));
	struct hash c = two(DIGEST_TARGET, STR("ab"), DIGEST_RESOURCE, STR("c"));
	struct hash same = two(DIGEST_TARGET, STR("ab"), DIGEST_OPERATION, STR("c"));

	assert_false(hash_eq(&a, &b));
	assert_false(hash_eq(&a, &c));
	assert_true(hash_eq(&a, &same));
}

static void
an_empty_field_is_not_a_missing_one(void **state UNUSED)
{
	struct hash with = two(DIGEST_TARGET, STR("t"), DIGEST_PARAMETERS, STR(""));
	struct digest *d = digest_begin();
	struct hash without;

	digest_field(d, DIGEST_TARGET, STR("t"));
	without = digest_end(d);
	assert_false(hash_eq(&with, &without));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_vectors_of_the_format_hold),
	    cmocka_unit_test(no_byte_can_move_from_one_field_to_the_next),
	    cmocka_unit_test(an_empty_field_is_not_a_missing_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
