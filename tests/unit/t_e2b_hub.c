/*
 * A worker's questions to the hub of cofferdam-sandboxd, against a hub that is late.
 */
#include "agent/e2b_hub.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/xalloc.h"
#include "tests/unit/policy_help.h"

#include "common/banned.h"

static void
say(int fd, const char *id)
{
	AUTO_BUF struct buf b = BUF(HUB_MESSAGE_MAX);
	char name[16], none[] = "";
	struct e2b_entry e = {.id = name,
	    .principal = none,
	    .template = none,
	    .metadata = none,
	    .network = none,
	    .token = none,
	    .traffic = none};

	(void)snprintf(name, sizeof(name), "%s", id);
	buf_u32(&b, 0);
	e2b_entry_put(&e, &b);
	(void)send(fd, b.p, b.n, MSG_NOSIGNAL);
}

/* Who asks for "late" is answered when the next question on that connection comes. */
static _Noreturn void
hub_late(int listener)
{
	for (;;) {
		AUTO_FD int fd = accept(listener, NULL, NULL);
		uint8_t room[HUB_MESSAGE_MAX];
		bool late = false;
		ssize_t n;

		while ((n = recv(fd, room, sizeof(room), 0)) > 0) {
			struct rd r = rd_init(str_mem(room, (size_t)n));

			(void)rd_u8(&r);
			(void)rd_lstr(&r);
			if (str_eqz(rd_lstr(&r), "late")) {
				late = true;
				continue;
			}
			if (late)
				say(fd, "late");
			late = false;
			say(fd, "prompt");
		}
	}
}

static pid_t
hub_start(struct e2b_config *c)
{
	AUTO_FD int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un a;
	socklen_t n;
	pid_t pid;

	(void)snprintf(c->hub, sizeof(c->hub), "cofferdam-t-e2b-hub-%d", (int)getpid());
	n = e2b_hub_address(c, &a);
	assert_int_equal(bind(listener, (const struct sockaddr *)&a, n), 0);
	assert_int_equal(listen(listener, 4), 0);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		hub_late(listener);
	}
	return pid;
}

static void
an_answer_that_is_late_is_none_to_the_next_question(void **state UNUSED)
{
	struct e2b_config c = {0};
	struct e2b_entry e = {0};
	struct err err = {0};
	pid_t pid = hub_start(&c);

	assert_int_equal(e2b_hub_find(&c, STR("key"), STR("prompt"), &e, &err), 0);
	assert_string_equal(e.id, "prompt");
	e2b_entry_free(&e);

	c.hub_ms = 20;
	assert_int_equal(e2b_hub_find(&c, STR("key"), STR("late"), &e, &err), ERR_UNAVAILABLE);
	assert_null(e.id);
	c.hub_ms = 0;
	assert_int_equal(e2b_hub_find(&c, STR("other"), STR("prompt"), &e, &err), 0);
	assert_string_equal(e.id, "prompt");
	e2b_entry_free(&e);

	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_answer_that_is_late_is_none_to_the_next_question),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
