/* Effects: the closed list, its built-in sets, sorted output. */
#include "tests/unit/policy_help.h"

#include "policy/effect.h"

#include "common/banned.h"

static void
every_effect_has_a_name_that_reads_back(void **state UNUSED)
{
	for (unsigned i = 0; i < EFFECT_COUNT; i++)
		assert_int_equal(effect_parse(str_z(effect_name(i))), 1u << i);
	assert_string_equal(effect_name(EFFECT_COUNT), "opaque");
}

static void
an_unknown_name_is_nothing(void **state UNUSED)
{
	static const char *const bad[] = {
	    "", "Read", "reads", "@", "@Data", "$destructive", "@all", "*"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(effect_parse(str_z(bad[i])), 0);
	assert_int_equal(effect_parse(STR("read")), EFFECT_read);
}

static void
the_built_in_sets_share_nothing_and_cover_all(void **state UNUSED)
{
	const uint32_t sets[] = {effect_parse(STR("@data")), effect_parse(STR("@change")),
	    effect_parse(STR("@destructive")), effect_parse(STR("@escape"))};
	uint32_t all = 0;

	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		assert_int_not_equal(sets[i], 0);
		assert_int_equal(all & sets[i], 0);
		all |= sets[i];
	}
	assert_int_equal(all, (1u << EFFECT_COUNT) - 1);
	assert_int_equal(
	    sets[2], EFFECT_delete | EFFECT_bulk | EFFECT_drop | EFFECT_overwrite | EFFECT_disrupt);
}

static void
a_set_is_written_in_byte_order(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(512);
	AUTO_BUF struct buf js = BUF(512);
	AUTO_FREE char *text = NULL;
	struct jcs j;

	effect_put(&b, (1u << EFFECT_COUNT) - 1);
	text = buf_dup_z(&b);
	assert_string_equal(text,
	    "audit bulk delete disrupt drop exec invalid net opaque overwrite priv read schema "
	    "secret session txn write");
	jcs_init(&j, &js);
	effect_jcs(&j, NULL, EFFECT_write | EFFECT_bulk);
	assert_true(str_eqz(buf_str(&js), "[\"bulk\",\"write\"]"));
}

static void
only_plain_names_are_read_from_json(void **state UNUSED)
{
	static const struct {
		const char *text;
		bool ok;
		uint32_t set;
	} cases[] = {
	    {"[\"read\",\"drop\"]", true, EFFECT_read | EFFECT_drop},
	    {"[]", true, 0},
	    {"[\"@data\"]", false, 0},
	    {"[\"read\",\"reed\"]", false, 0},
	    {"[1]", false, 0},
	    {"\"read\"", false, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(json) struct json_doc *d = NULL;
		uint32_t set = 77;

		assert_int_equal(json_parse(str_z(cases[i].text), "t", &d, NULL), 0);
		assert_int_equal(effect_from_json(json_root(d), &set), cases[i].ok);
		assert_int_equal(set, cases[i].ok ? cases[i].set : 77);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_effect_has_a_name_that_reads_back),
	    cmocka_unit_test(an_unknown_name_is_nothing),
	    cmocka_unit_test(the_built_in_sets_share_nothing_and_cover_all),
	    cmocka_unit_test(a_set_is_written_in_byte_order),
	    cmocka_unit_test(only_plain_names_are_read_from_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
