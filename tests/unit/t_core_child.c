/* Child runs: who may be whose, how many and how deep, what of effects and budgets, what a core
 * that is started again believes of the log. */
#include "tests/unit/core_run_help.h"

#include "broker/core_child.h"
#include "broker/core_live.h"
#include "broker/core_plan.h"
#include "broker/core_steer.h"
#include "common/banned.h"

static struct core_run *
alone(struct world *w, const char *owner, const char *login)
{
	struct core_run *run;
	struct err err;

	if (core_run_new(w->c, NULL, &run, &err) != 0)
		fail_msg("%s", err.msg);
	run->agent = xstrdup("tester");
	run->owner = xstrdup(owner);
	run->login = xstrdup(login);
	return run;
}

static int
joins(struct core_run *run, const struct core_run *up)
{
	struct err err;

	return core_child_join(run, str_z(up->id), &err);
}

static struct core_run *
child_of(struct world *w, const struct core_run *up)
{
	struct core_run *run = alone(w, "olivia", "unix:olivia");

	assert_int_equal(joins(run, up), 0);
	run->state = CORE_RUN_LIVE;
	return run;
}

static void
the_owner_alone_or_the_login_alone_is_not_enough(void **state)
{
	struct world *w = *state;

	assert_int_equal(joins(alone(w, "dana", "unix:olivia"), w->run), ERR_UNAUTHORISED);
	assert_int_equal(joins(alone(w, "olivia", "unix:dana"), w->run), ERR_UNAUTHORISED);
	assert_int_equal(joins(alone(w, "olivia", "unix:olivia"), w->run), 0);
}

static void
a_run_that_does_not_live_gets_no_child(void **state)
{
	struct world *w = *state;

	w->run->state = CORE_RUN_STARTING;
	assert_int_equal(joins(alone(w, "olivia", "unix:olivia"), w->run), ERR_NOT_FOUND);
	w->run->state = CORE_RUN_LIVE;
	assert_int_equal(joins(alone(w, "olivia", "unix:olivia"), w->run), 0);
}

static void
there_are_ceilings_of_depth_of_children_at_once_and_ever(void **state)
{
	struct world *w = *state;
	struct core_run *run = w->run, *extra = alone(w, "olivia", "unix:olivia");

	for (int i = 0; i < CORE_DEPTH_MAX; i++)
		run = child_of(w, run);
	assert_int_equal(joins(extra, run), ERR_TOO_LARGE);
	for (int i = 1; i < CORE_CHILDREN_MAX; i++)
		run = child_of(w, w->run);
	assert_int_equal(joins(extra, w->run), ERR_TOO_LARGE);
	core_run_free(run);
	w->run->nchildren = CORE_CHILDREN_EVER;
	assert_int_equal(joins(extra, w->run), ERR_TOO_LARGE);
	w->run->nchildren = CORE_CHILDREN_EVER - 1;
	assert_int_equal(joins(extra, w->run), 0);
}

/* --- effects and budgets --------------------------------------------------------- */

static int
wants(struct core_run *run, const char *effect)
{
	AUTO_BUF struct buf b = BUF(256);
	struct err err;
	struct rd r;

	buf_u32(&b, effect != NULL ? 1 : 0);
	if (effect != NULL)
		buf_lz(&b, effect);
	r = rd_init(buf_str(&b));
	return core_child_effects(run, &r, &err);
}

static void
a_child_has_no_effect_that_its_parent_lacks(void **state)
{
	struct world *w = *state;
	struct core_run *kid = child_of(w, w->run);

	assert_int_equal(wants(w->run, "fly"), ERR_INVALID);
	assert_int_equal(wants(w->run, "@data"), 0);
	assert_int_equal(w->run->most, EFFECT_SET_DATA);
	assert_int_equal(wants(kid, "write"), ERR_DENIED);
	assert_int_equal(wants(kid, "read"), 0);
	assert_int_equal(kid->most, EFFECT_read);
	assert_int_equal(wants(kid, NULL), 0); /* it names none: its parent's, not all */
	assert_int_equal(kid->most, EFFECT_SET_DATA);
}

static int
may_spend(struct core_run *run, struct str text)
{
	struct err err;
	int rc;

	run->nbudgets = 0;
	memset(run->budgets, 0, sizeof(run->budgets));
	rc = core_child_budget(run, text, &err);
	return rc;
}

static void
a_budget_is_a_few_named_numbers_above_0(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(4096);
	char name[CORE_BUDGET_NAME + 1];

	assert_int_equal(may_spend(w->run, STR("[]")), ERR_INVALID);
	assert_int_equal(may_spend(w->run, STR("{\"seconds\":0}")), ERR_INVALID);
	assert_int_equal(may_spend(w->run, STR("{\"seconds\":-1}")), ERR_INVALID);
	assert_int_equal(may_spend(w->run, STR("{\"seconds\":\"1\"}")), ERR_INVALID);
	assert_int_equal(may_spend(w->run, STR("{\"\":1}")), ERR_INVALID);
	assert_int_equal(may_spend(w->run, STR("{\"\\u00e9\":1}")), ERR_INVALID);
	assert_int_equal(may_spend(w->run, STR("{\"seconds\":1}")), 0);
	assert_int_equal(may_spend(w->run, STR("")), 0);
	memset(name, 'x', sizeof(name));
	buf_printf(&b, "{\"%.*s\":1}", CORE_BUDGET_NAME, name);
	assert_int_equal(may_spend(w->run, buf_str(&b)), ERR_INVALID);
	buf_reset(&b);
	buf_printf(&b, "{\"%.*s\":1}", CORE_BUDGET_NAME - 1, name);
	assert_int_equal(may_spend(w->run, buf_str(&b)), 0);
	for (int more = 1; more >= 0; more--) {
		buf_reset(&b);
		for (int i = 0; i < CORE_BUDGETS_MAX + more; i++)
			buf_printf(&b, "%s\"b%d\":1", i != 0 ? "," : "{", i);
		buf_put_c(&b, '}');
		assert_int_equal(may_spend(w->run, buf_str(&b)), more != 0 ? ERR_INVALID : 0);
	}
}

static void
a_child_spends_no_more_than_its_parent_may(void **state)
{
	struct world *w = *state;
	struct core_run *kid = child_of(w, w->run);

	assert_int_equal(may_spend(w->run, STR("{\"seconds\":100,\"tokens\":10}")), 0);
	assert_int_equal(may_spend(kid, STR("{\"seconds\":101,\"tokens\":10}")), ERR_DENIED);
	assert_int_equal(may_spend(kid, STR("{\"seconds\":100}")), ERR_DENIED);
	assert_int_equal(may_spend(kid, STR("")), ERR_DENIED);
	assert_int_equal(may_spend(kid, STR("{\"calls\":5,\"seconds\":100,\"tokens\":10}")), 0);
}

/* --- targets --------------------------------------------------------------------- */

static void
a_child_has_no_target_that_its_parent_has_no_more(void **state)
{
	struct world *w = *state;
	struct core_run *kid = child_of(w, w->run);

	assert_true(core_child_has(kid, STR("db")));
	w->run->targets[0].state = CORE_TARGET_GONE;
	assert_false(core_child_has(kid, STR("db")));
	assert_true(core_child_has(w->run, STR("db"))); /* of its own, the policy says */
}

static int
opens_with(struct world *w, struct core_run *run, const char *target)
{
	AUTO_BUF struct buf b = BUF(256);
	struct err err;
	struct rd r;

	(void)w;
	buf_u32(&b, target != NULL ? 1 : 0);
	if (target != NULL)
		buf_lz(&b, target);
	r = rd_init(buf_str(&b));
	return core_plan_targets(run, &r, &err);
}

static void
a_child_is_planned_with_its_parents_targets_alone(void **state)
{
	struct world *w = *state;
	struct core_run *kid = child_of(w, w->run), *other = child_of(w, w->run);

	assert_int_equal(opens_with(w, kid, "db"), 0);
	w->run->targets[0].state = CORE_TARGET_GONE;
	assert_false(core_plan_wants(kid, policy_target(w->c->policy, STR("db"))));
	assert_int_equal(opens_with(w, other, "db"), ERR_DENIED);
	assert_int_equal(opens_with(w, other, NULL), 0);
	assert_int_equal(other->ntargets, 0);
	w->run->targets[0].state = CORE_TARGET_SERVES;
	assert_true(core_plan_wants(kid, policy_target(w->c->policy, STR("db"))));
	assert_int_equal(opens_with(w, other, NULL), 0);
	assert_int_equal(other->ntargets, 1);
}

/* --- the log --------------------------------------------------------------------- */

static const char *
kept(struct core_run *run, const char *data)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct err err;

	assert_int_equal(json_parse(str_z(data), "record", &doc, &err), 0);
	return core_child_kept(run, json_root(doc));
}

static void
what_the_log_says_of_a_child_must_be_of_the_form(void **state)
{
	struct world *w = *state;
	struct core_run *run = alone(w, "olivia", "unix:olivia");
	AUTO_FREE char *good = xasprintf("{\"parent\":\"%s\",\"effects\":[\"read\"],"
					 "\"budget\":{\"seconds\":5}}",
	    w->run->id);

	assert_string_equal(kept(run, "{\"effects\":[\"fly\"]}"), "effects");
	assert_string_equal(kept(run, "{\"budget\":{\"seconds\":0}}"), "budget");
	assert_string_equal(
	    kept(run, "{\"parent\":\"r-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}"),
	    "parent");
	assert_null(kept(run, "{}"));
	assert_int_equal(run->depth, 0); /* nobody's child */
	assert_null(kept(run, good));
	assert_int_equal(run->most, EFFECT_read);
	assert_int_equal(run->depth, 1);
	assert_ptr_equal(core_child_parent(run), w->run);
}

static void
after_a_restart_children_stand_still_and_go_on_with_their_parent(void **state)
{
	struct world *w = *state;
	struct core_run *kid = child_of(w, w->run), *deep = child_of(w, kid), *late;
	AUTO_FREE char *data = xasprintf("{\"parent\":\"%s\"}", kid->id);
	struct core_run *all[] = {w->run, kid, deep};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		all[i]->rebuilt = true;
	assert_null(core_steer_kept(w->c, str_z(w->run->id), "run.pause", 5, NULL));
	assert_true(w->run->paused && kid->paused && deep->paused);
	late = alone(w, "olivia", "unix:olivia"); /* registered while they stood still */
	assert_null(kept(late, data));
	assert_true(late->paused);
	assert_null(core_steer_kept(w->c, str_z(w->run->id), "run.resume", 6, NULL));
	assert_false(w->run->paused || kid->paused || deep->paused);
	/* Of one that is in memory anyway, the log tells nothing new. */
	w->run->rebuilt = false;
	assert_null(core_steer_kept(w->c, str_z(w->run->id), "run.pause", 7, NULL));
	assert_false(w->run->paused);
}

static void
a_child_of_a_run_that_stands_still_does_too(void **state)
{
	struct world *w = *state;

	assert_false(child_of(w, w->run)->paused);
	w->run->paused = true;
	assert_true(child_of(w, w->run)->paused);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(the_owner_alone_or_the_login_alone_is_not_enough),
	    world_test(a_run_that_does_not_live_gets_no_child),
	    world_test(there_are_ceilings_of_depth_of_children_at_once_and_ever),
	    world_test(a_child_has_no_effect_that_its_parent_lacks),
	    world_test(a_budget_is_a_few_named_numbers_above_0),
	    world_test(a_child_spends_no_more_than_its_parent_may),
	    world_test(a_child_has_no_target_that_its_parent_has_no_more),
	    world_test(a_child_is_planned_with_its_parents_targets_alone),
	    world_test(what_the_log_says_of_a_child_must_be_of_the_form),
	    world_test(after_a_restart_children_stand_still_and_go_on_with_their_parent),
	    world_test(a_child_of_a_run_that_stands_still_does_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
