/* Real sandboxes from C: a pool of ready-made ones, programs that go on, listeners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "common/xalloc.h"
#include "agent/sandbox/sandbox.h"

#include "common/banned.h"

/* Limits of memory are not what is looked at, and not every builder has cgroups. */
#define LACK (SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER)

static char sh[] = "sh", c[] = "-c";

static int
run(struct sandbox *sb, const char *script, struct sandbox_result *ret)
{
	AUTO_FREE char *text = str_dup(str_z(script));
	char *argv[] = {sh, c, text, NULL};
	const struct sandbox_exec x = {.argv = argv, .stdin_fd = -1, .head = 1000, .tail = 1000};
	struct err e = {0};
	int rc = sandbox_exec(sb, &x, ret, &e);

	if (rc != 0)
		fail_msg("%s", e.msg);
	return ret->value;
}

static void
a_pool_gives_each_sandbox_once(void **state UNUSED)
{
	const struct sandbox_spec spec = {.may_lack = LACK, .limits.wall_s = 60};
	AUTO(sandbox_pool) struct sandbox_pool *p = NULL;
	struct err e = {0};

	if (sandbox_pool_open(&spec, 2, &p, &e) != 0)
		fail_msg("%s", e.msg);
	for (int i = 0; i < 5; i++) {
		AUTO(sandbox) struct sandbox *sb = NULL;
		struct sandbox_result r;

		if (sandbox_pool_take(p, &sb, &e) != 0)
			fail_msg("%s", e.msg);
		/* What an earlier one left would be here. */
		assert_int_equal(run(sb, "test ! -e /tmp/used && touch /tmp/used", &r), 0);
		sandbox_result_free(&r);
	}
}

/* A child of `parent` with this name; 0: none. */
static pid_t
child_of(pid_t parent, const char *name)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	pid_t found = 0;

	assert_non_null(d);
	while (found == 0 && (e = readdir(d)) != NULL) {
		char path[300], comm[32] = "";
		int pid = 0, of = 0;
		FILE *f;

		(void)snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		f = fopen(path, "re");
		if (f == NULL)
			continue;
		if (fscanf(f, "%d (%31[^)]) %*c %d", &pid, comm, &of) == 3 && of == parent &&
		    strcmp(comm, name) == 0)
			found = pid;
		(void)fclose(f);
	}
	(void)closedir(d);
	return found;
}

static void
a_pool_does_not_give_out_what_has_ended(void **state UNUSED)
{
	const struct sandbox_spec spec = {.may_lack = LACK, .limits.wall_s = 60};
	AUTO(sandbox_pool) struct sandbox_pool *p = NULL;
	AUTO(sandbox) struct sandbox *sb = NULL;
	struct sandbox_result r;
	struct err e = {0};
	pid_t init = 0;

	if (sandbox_pool_open(&spec, 1, &p, &e) != 0)
		fail_msg("%s", e.msg);
	for (int i = 0; i < 1000 && init == 0; i++) {
		(void)usleep(10000);
		init = child_of(child_of(getpid(), "cofferdam-sandb"), "cofferdam-init");
	}
	assert_true(init > 0);
	(void)usleep(200000); /* or it ends before it was ready: that is not taken, either */
	assert_int_equal(kill(init, SIGKILL), 0);
	for (int i = 0; i < 1000 && kill(init, 0) == 0; i++)
		(void)usleep(10000);
	(void)usleep(100000);
	if (sandbox_pool_take(p, &sb, &e) != 0)
		fail_msg("%s", e.msg);
	assert_int_equal(run(sb, "exit 3", &r), 3);
	sandbox_result_free(&r);
}

static void
a_pool_of_what_cannot_be_built_says_why(void **state UNUSED)
{
	struct sandbox_spec spec = {.may_lack = LACK, .workspace = "/nonexistent/place"};
	struct sandbox_pool *p = NULL;
	struct sandbox *sb = NULL;
	struct err e = {0};

	assert_int_equal(sandbox_pool_open(&spec, 1, &p, &e), 0);
	assert_int_not_equal(sandbox_pool_take(p, &sb, &e), 0);
	assert_non_null(strstr(e.msg, "/nonexistent/place"));
	assert_null(sb);
	sandbox_pool_close(p);
	assert_int_equal(sandbox_pool_open(&spec, 0, &p, &e), ERR_INVALID);
	assert_int_equal(sandbox_pool_open(&spec, 65, &p, &e), ERR_INVALID);
	spec.workspace = NULL;
	spec.name = "a";
	assert_int_equal(sandbox_pool_open(&spec, 1, &p, &e), ERR_INVALID);
}

static void
a_program_goes_on_beside_others_and_its_end_is_kept(void **state UNUSED)
{
	const struct sandbox_spec spec = {.may_lack = LACK};
	char script[] = "read x; echo got $x; exit 5", *argv[] = {sh, c, script, NULL};
	const struct sandbox_exec x = {
	    .argv = argv, .stdin_fd = -1, .merge = true, .pipe_stdin = true};
	AUTO(sandbox) struct sandbox *sb = NULL;
	AUTO_BUF struct buf out = BUF(1000);
	struct sandbox_result r;
	struct sandbox_logs at;
	struct err e = {0};
	uint32_t proc = 0;

	if (sandbox_create(&spec, &sb, &e) != 0 || sandbox_spawn(sb, &x, &proc, &e) != 0)
		fail_msg("%s", e.msg);
	assert_int_equal(run(sb, "echo beside", &r), 0);
	sandbox_result_free(&r);
	assert_int_equal(sandbox_proc_wait(sb, proc, 0, &r, &e), ERR_TIMEOUT);
	assert_int_equal(sandbox_proc_input(sb, proc, STR("this\n"), true, &e), 0);
	assert_int_equal(sandbox_proc_wait(sb, proc, 10000, &r, &e), 0);
	assert_int_equal(r.value, 5);
	sandbox_result_free(&r);
	assert_int_equal(sandbox_proc_logs(sb, proc, 0, 0, &out, &at, &e), 0);
	assert_true(str_eqz(buf_str(&out), "got this\n"));
	assert_false(at.running);
	assert_int_equal(sandbox_proc_kill(sb, proc, &e), 0); /* it has ended: done */
	assert_int_equal(sandbox_proc_kill(sb, proc + 99, &e), ERR_NOT_FOUND);
}

static void
a_named_one_leaves_no_zombie_to_a_caller_that_lives_on(void **state UNUSED)
{
	AUTO_FREE char *name = xasprintf("t-reap-%d", (int)getpid());
	const struct sandbox_spec spec = {.may_lack = LACK, .name = name};
	struct sandbox *sb = NULL;
	struct sandbox_result r;
	struct err e = {0};

	if (sandbox_create(&spec, &sb, &e) != 0)
		fail_msg("%s", e.msg);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* it is no child of ours */
	assert_int_equal(errno, ECHILD);
	sandbox_detach(sb);
	assert_int_equal(sandbox_attach(name, &sb, &e), 0);
	assert_int_equal(run(sb, "true", &r), 0);
	sandbox_result_free(&r);
	sandbox_destroy(sb);
	assert_int_equal(sandbox_attach(name, &sb, &e), ERR_NOT_FOUND);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void
a_listener_made_inside_is_accepted_outside(void **state UNUSED)
{
	const struct sandbox_target t = {"db.example", "127.70.0.1", 5432},
				    more = {"", "127.70.0.2", 80};
	const struct sandbox_spec spec = {.may_lack = LACK, .targets = &t, .ntargets = 1};
	AUTO(sandbox) struct sandbox *sb = NULL;
	AUTO_FD int fd = -1, added = -1;
	struct sandbox_result r;
	struct err e = {0};

	if (sandbox_create(&spec, &sb, &e) != 0)
		fail_msg("%s", e.msg);
	fd = sandbox_listener_take(sb, 0);
	assert_true(fd >= 0);
	assert_int_equal(sandbox_listener_take(sb, 0), -1);
	assert_int_equal(sandbox_listener_take(sb, 1), -1);
	assert_int_equal(run(sb, "bash -c 'echo > /dev/tcp/db.example/5432'", &r), 0);
	sandbox_result_free(&r);
	assert_int_equal(sandbox_network(sb, &more, 1, &t, 1, &added, &e), 0);
	assert_int_equal(run(sb, "bash -c 'echo > /dev/tcp/127.70.0.2/80'", &r), 0);
	sandbox_result_free(&r);
	assert_int_not_equal(run(sb, "bash -c 'echo > /dev/tcp/127.70.0.1/5432'", &r), 0);
	sandbox_result_free(&r);
	assert_int_equal(sandbox_network(sb, NULL, 0, &t, 1, NULL, &e), ERR_NOT_FOUND);
	assert_int_equal(sandbox_network(sb, &more, 1, NULL, 0, &added, &e), ERR_EXISTS);
}

static void
a_sandbox_in_this_process_is_the_same_and_leaves_no_thread(void **state UNUSED)
{
	const struct sandbox_spec spec = {.may_lack = LACK};

	for (int i = 0; i < 3; i++) {
		AUTO(sandbox) struct sandbox *sb = NULL;
		struct sandbox_result r;
		struct err e = {0};

		if (sandbox_create_here(&spec, &sb, &e) != 0)
			fail_msg("%s", e.msg);
		assert_int_equal(run(sb, "exit 9", &r), 9);
		sandbox_result_free(&r);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_pool_gives_each_sandbox_once),
	    cmocka_unit_test(a_pool_does_not_give_out_what_has_ended),
	    cmocka_unit_test(a_pool_of_what_cannot_be_built_says_why),
	    cmocka_unit_test(a_program_goes_on_beside_others_and_its_end_is_kept),
	    cmocka_unit_test(a_named_one_leaves_no_zombie_to_a_caller_that_lives_on),
	    cmocka_unit_test(a_listener_made_inside_is_accepted_outside),
	    cmocka_unit_test(a_sandbox_in_this_process_is_the_same_and_leaves_no_thread),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
