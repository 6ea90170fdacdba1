/* What no run is given: models in a sandbox that the policy does not let there, kinds that the
 * broker does not speak, targets that are not in the policy or named twice. */
#include "tests/unit/core_plan_help.h"

#include "broker/core_run.h"
#include "common/banned.h"

/* With `to` in the place of `is`, which is as long. */
static void
policy_with(struct world *w, const char *is, const char *to, int serial)
{
	AUTO_FREE char *text = http_policy(w, NULL, serial);
	char *at = strstr(text, is);

	assert_int_equal(strlen(is), strlen(to));
	memcpy(at, to, strlen(is));
	core_boot_policy_use(w->c, world_parse(text));
}

#define WRAPPED "\"wrapped\":true,"
#define UNWRAPPED "               "

static void
a_model_that_the_policy_does_not_give_to_sandboxes_is_in_none(void **state)
{
	struct world *w = *state;
	struct plan p;

	policy_with(w, WRAPPED, UNWRAPPED, 3);
	opens(w, "llm", 0);
	assert_refused(w, ERR_UNSUPPORTED, "the loop alone reaches it");
	opens(w, "db", 4);
	p = planned(w);
	assert_null(entry(&p, "llm", "http"));
	opens(w, "db", 1); /* a loop has it, and the sandbox does not */
	p = planned(w);
	assert_int_equal(entry(&p, "llm", "http")->listen, 0);
}

static struct core_run *
another(struct world *w)
{
	struct core_run *run;
	struct err err;

	assert_int_equal(core_run_new(w->c, NULL, &run, &err), 0);
	run->owner = xstrdup("olivia");
	run->login = xstrdup("unix:olivia");
	return run;
}

/* A target that the run named and that becomes a model while it lives. */
static void
beside_a_loop_no_named_model_listens_in_the_sandbox(void **state)
{
	struct world *w = *state;
	const struct policy_target *t = policy_target(w->c->policy, STR("llm"));
	struct core_run *run = NULL;
	struct err err;

	for (int loop = 1; loop >= 0; loop--) {
		run = another(w);
		run->loop = loop != 0;
		core_run_name_add(run, STR("llm"));
		assert_int_equal(core_plan_add(run, t, CORE_TARGET_SERVES, &err), 0);
		assert_int_equal(
		    run->targets[0].listen, loop != 0 ? CORE_LISTEN_NONE : CORE_LISTEN_TCP);
	}
	assert_true(core_plan_wants(run, t));
	policy_with(w, WRAPPED, UNWRAPPED, 3); /* not given to sandboxes any more */
	assert_false(core_plan_wants(run, policy_target(w->c->policy, STR("llm"))));
}

#define TARGET(name, kind, more)                                                         \
	"\"" name "\":{\"kind\":\"" kind "\",\"env\":\"dev\",\"origin\":\"https://" name \
	".test\"" more "},"

static void
a_run_has_so_many_targets(void **state)
{
	struct world *w = *state;
	const struct policy_target *db = policy_target(w->c->policy, STR("db"));
	struct core_run *run = another(w);
	struct err err;

	for (int i = 0; i < CORE_TARGETS_MAX; i++)
		assert_int_equal(core_plan_add(run, db, CORE_TARGET_SERVES, &err), 0);
	assert_int_equal(core_plan_add(run, db, CORE_TARGET_SERVES, &err), ERR_TOO_LARGE);
	run->all = true;
	assert_int_equal(core_plan_add(run, NULL, CORE_TARGET_SERVES, &err), 0); /* the proxy */
	assert_string_equal(core_plan_scheme(db), "");
}

static void
what_the_broker_does_not_speak_yet_is_in_no_run(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *text = http_policy(w, NULL, 3), *with = NULL;
	char *at = strstr(text, "\"plain\":");
	struct plan p;

	*at = '\0';
	with = xasprintf("%s%s\"plain\":%s", text,
	    TARGET("git", "git", "") TARGET("held", "git", ",\"quarantine\":true")
		TARGET("aws", "aws", ",\"services\":[\"s3\"]") TARGET("signed", "aws",
		    ",\"services\":[\"s3\"],\"credential\":\"c\"") "\"keys\":{\"kind\":\"redis\","
								   "\"env\":\"dev\",\"host\":"
								   "\"keys.test\"},",
	    at + 8);
	core_boot_policy_use(w->c, world_parse(with));
	opens(w, NULL, 0);
	p = planned(w);
	assert_non_null(entry(&p, "git", "git"));
	assert_null(entry(&p, "held", "git"));
	assert_non_null(entry(&p, "aws", "aws"));
	assert_non_null(entry(&p, "signed", "aws"));
	assert_null(entry(&p, "keys", "redis"));
	w->run->all = true; /* nor does one that lives while the policy begins to give it */
	assert_true(core_plan_wants(w->run, policy_target(w->c->policy, STR("git"))));
	assert_false(core_plan_wants(w->run, policy_target(w->c->policy, STR("held"))));
	opens(w, "held", 0);
	assert_refused(w, ERR_UNSUPPORTED, "does not look into what is pushed");
	opens(w, "keys", 0);
	assert_refused(w, ERR_UNSUPPORTED, "kind redis");
	opens(w, "git", 0);
	(void)planned(w);
}

/* The policy may give its login to another while it lives. */
static void
a_run_whose_login_is_not_its_owners_gets_nothing(void **state)
{
	struct world *w = *state;
	const struct policy_target *db = policy_target(w->c->policy, STR("db"));

	w->run->all = true;
	assert_true(core_plan_wants(w->run, db));
	free(w->run->owner);
	w->run->owner = xstrdup("omar");
	assert_false(core_plan_wants(w->run, db));
}

static void
a_target_is_named_once_and_the_policy_has_it(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf b = BUF(256);
	struct core_run *run = NULL;
	struct err err;
	struct rd r;

	for (int same = 1; same >= 0; same--) {
		run = another(w);
		buf_reset(&b);
		buf_u32(&b, 2);
		buf_lz(&b, "db");
		buf_lz(&b, same != 0 ? "db" : "api");
		r = rd_init(buf_str(&b));
		assert_int_equal(core_plan_targets(run, &r, &err), same != 0 ? ERR_EXISTS : 0);
	}
	opens(w, "nothing", 0);
	assert_refused(w, ERR_NOT_FOUND, "the policy has no target");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    http_test(a_model_that_the_policy_does_not_give_to_sandboxes_is_in_none),
	    http_test(beside_a_loop_no_named_model_listens_in_the_sandbox),
	    http_test(a_run_has_so_many_targets),
	    http_test(what_the_broker_does_not_speak_yet_is_in_no_run),
	    http_test(a_run_whose_login_is_not_its_owners_gets_nothing),
	    http_test(a_target_is_named_once_and_the_policy_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
