/*
 * Programs and contexts as a keeper sees them: whom it ends with them.
 */
#include "agent/keeper_run.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/json.h"
#include "common/xalloc.h"
#include "tests/unit/policy_help.h"

#include "common/banned.h"

static pid_t
sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	return pid;
}

static struct keeper_item *
item(struct keeper_run *k, pid_t pid)
{
	struct keeper_item *i = xcalloc(1, sizeof(*i));

	i->pid = pid;
	i->wire = -1;
	i->next = k->items;
	k->items = i;
	k->nprograms++;
	return i;
}

/* The number of one that was reaped may be another's. */
static void
a_holder_goes_with_its_item_and_nobody_for_one_that_was_reaped(void **state UNUSED)
{
	struct keeper_run k = {0};
	pid_t holder = sleeper(), other = sleeper();
	struct keeper_item *lives = item(&k, holder), *went = item(&k, other);
	int status = 0;

	keeper_item_reaped(&k, other);
	keeper_item_drop(&k, went);
	keeper_item_drop(&k, lives);
	assert_int_equal(k.nprograms, 0);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);

	assert_int_equal(waitpid(other, &status, WNOHANG), 0);
	assert_int_equal(kill(other, SIGTERM), 0);
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_int_equal(WTERMSIG(status), SIGTERM);
}

/* A list of it alone, read back. */
static struct json_doc *
listed(struct keeper_run *k)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX - 16);
	struct json_doc *d = NULL;
	struct err err = {0};

	keeper_item_list(k, false, &b);
	assert_false(buf_over(&b));
	if (json_parse(buf_str(&b), "programs", &d, &err) != 0)
		fail_msg("%s", err.msg);
	return d;
}

static void
as_many_programs_with_as_long_arguments_as_there_can_be_are_listed(void **state UNUSED)
{
	static char little[] = "ls", home[] = "HOME=/work", label[] = "l";
	char *few[] = {little, NULL}, *env[] = {home, NULL}, *two[] = {little, NULL, NULL};
	AUTO_FREE char *large = xcalloc(1, 100001);
	struct keeper_order o = {.argv = few, .env = env, .label = label};
	struct keeper_run k = {0};
	struct json_doc *d;
	struct err err = {0};

	memset(large, 1, 100000); /* six bytes each in JSON */
	two[1] = large;
	for (uint32_t n = 1; n <= KEEPER_PROGRAMS_MAX; n++) {
		o.argv = n == 1 ? few : two;
		item(&k, 0)->meta = keeper_item_meta(&o, n, &err);
		assert_non_null(k.items->meta);
	}
	d = listed(&k);
	assert_int_equal(json_count(json_root(d)), KEEPER_PROGRAMS_MAX);
	for (size_t i = 0; i < KEEPER_PROGRAMS_MAX; i++) {
		const struct json *p = json_at(json_root(d), i);
		bool whole = i == KEEPER_PROGRAMS_MAX - 1;

		assert_int_equal(json_int(json_get(p, "number")), KEEPER_PROGRAMS_MAX - i);
		assert_true(str_eqz(json_str(json_get(p, "label")), label));
		assert_int_equal(json_count(json_get(p, "args")), 1);
		assert_int_equal(json_count(json_get(p, "env")), whole ? 1 : 0);
	}
	json_free(d);
	while (k.items != NULL)
		keeper_item_drop(&k, k.items);

	o.argv = few;
	o.label = large;
	assert_null(keeper_item_meta(&o, 1, &err));
	assert_int_equal(err.code, ERR_TOO_LARGE);
}

static void
variables_of_any_names_are_listed_in_their_order(void **state UNUSED)
{
	static char little[] = "ls", env[][8] = {"B=1", "A1=2", "A-=3", "A=4", "A=4", "=5", "bad"};
	char *few[] = {little, NULL}, *all[ARRAY_LEN(env) + 1] = {0};
	struct keeper_order o = {.argv = few, .env = all};
	struct err err = {0};
	AUTO_FREE char *meta = NULL;

	for (size_t i = 0; i < ARRAY_LEN(env); i++)
		all[i] = env[i];
	meta = keeper_item_meta(&o, 1, &err);
	assert_non_null(
	    strstr(meta, "\"env\":{\"\":\"5\",\"A\":\"4\",\"A-\":\"3\",\"A1\":\"2\",\"B\":\"1\"}"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(as_many_programs_with_as_long_arguments_as_there_can_be_are_listed),
	    cmocka_unit_test(variables_of_any_names_are_listed_in_their_order),
	    cmocka_unit_test(a_holder_goes_with_its_item_and_nobody_for_one_that_was_reaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
