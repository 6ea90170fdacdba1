/*
 * The judged cases of tests/cases/policy-cases.json with their effects taken as given: what
 * the classifiers must find is tested elsewhere, here the verdict alone, for every protocol.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "common/json.h"
#include "policy/approval.h"
#include "policy/policy_source.h"
#include "tests/unit/policy_help.h"

#include "common/banned.h"

static bool
same_strings(const struct json *want, const struct buf *got)
{
	AUTO_BUF struct buf b = BUF(4096);

	for (size_t i = 0; i < json_count(want); i++)
		buf_printf(&b, "%s%.*s", i != 0 ? " " : "", STR_ARG(json_str(json_at(want, i))));
	return str_eq(buf_str(&b), buf_str(got));
}

static bool
judge_case(const struct policy *p, const struct json *c)
{
	const struct json *in = json_get(c, "input"), *expect = json_get(c, "expect");
	struct policy_input input = policy_input_for(p, json_str(json_get(in, "target")));
	AUTO_BUF struct buf rules = BUF(4096);
	AUTO_BUF struct buf slots = BUF(4096);
	struct decision d;
	bool ok;

	assert_true(effect_from_json(json_get(expect, "effects"), &input.effects));
	assert_int_equal(clock_parse(json_str(json_get(c, "at")), &input.at.us, NULL), 0);
	input.at.known = true;
	/* The two rules of the policy that look beyond effects look at this. */
	if (str_eqz(json_str(json_get(c, "id")), "sql-021"))
		input.statements = 2;
	policy_eval(p, &input, NULL, 0, &d);
	for (size_t i = 0; i < d.nrules; i++)
		buf_printf(&rules, "%s%.*s", i != 0 ? " " : "", STR_ARG(d.rules[i]));
	for (size_t i = 0; i < d.nslots; i++)
		buf_printf(&slots, "%s%.*s:%u", i != 0 ? " " : "", STR_ARG(d.slots[i].role),
		    d.slots[i].count);
	ok = str_eqz(json_str(json_get(expect, "verdict")), verdict_name(d.verdict));
	if (json_get(expect, "rules") != NULL)
		ok = ok && same_strings(json_get(expect, "rules"), &rules);
	if (json_get(expect, "slots") != NULL)
		ok = ok && same_strings(json_get(expect, "slots"), &slots);
	if (!ok)
		print_error("%.*s: %s by %.*s, slots %.*s: %s\n",
		    STR_ARG(json_str(json_get(c, "id"))), verdict_name(d.verdict),
		    STR_ARG(buf_str(&rules)), STR_ARG(buf_str(&slots)), d.text);
	return ok;
}

static void
every_case_with_effects_is_judged_as_it_says(void **state UNUSED)
{
	AUTO(json) struct json_doc *doc = help_json_file("tests/cases/policy-cases.json");
	AUTO(policy) struct policy *p = help_cases_policy(doc);
	const struct json *cases = json_get(json_root(doc), "cases");
	size_t wrong = 0, n = 0;

	for (size_t i = 0; i < json_count(cases); i++) {
		if (json_get(json_get(json_at(cases, i), "expect"), "effects") == NULL)
			continue;
		n++;
		wrong += !judge_case(p, json_at(cases, i));
	}
	assert_true(n > 100);
	assert_int_equal(wrong, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_case_with_effects_is_judged_as_it_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
