/* Shared by the tests of cofferdam-parser: the program, driven as its parent and its core do. */
#ifndef TESTS_UNIT_PARSER_HELP_H
#define TESTS_UNIT_PARSER_HELP_H

#include "broker/parser_ask.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "common/proc.h"
#include "common/proc_paths.h"
#include "policy/facts.h"
#include "tests/unit/policy_help.h"

struct child {
	pid_t pid;
	int parent; /* our end as its parent */
	int core;   /* our end as its core */
};

UNUSED static void
must(int rc, const struct err *err)
{
	if (rc != 0)
		fail_msg("%s", err->msg);
}

UNUSED static void
give(struct child *c, uint16_t type, const struct buf *body, const int *fd)
{
	struct err err = {0};

	must(ipc_sync_send(c->parent, IPC_ROLE_PARENT, IPC_ROLE_PARSER, type, body, fd,
		 fd != NULL ? 1 : 0, &err),
	    &err);
}

UNUSED static void
give_wire(struct child *c)
{
	AUTO_BUF struct buf wire = BUF(64);
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	buf_u8(&wire, IPC_ROLE_CORE);
	buf_lz(&wire, "r-test");
	give(c, MSG_P_WIRE, &wire, &pair[1]);
	(void)close(pair[1]);
	c->core = pair[0];
}

UNUSED static void
wait_ready(struct child *c)
{
	AUTO_BUF struct buf body = BUF(8192);
	uint16_t type = 0;
	struct err err = {0};
	int fds[IPC_FDS_MAX];
	size_t nfds;

	while (type != MSG_C_READY)
		must(ipc_sync_recv(c->parent, IPC_ROLE_PARENT, IPC_ROLE_PARSER, 10000, &type, &body,
			 fds, &nfds, &err),
		    &err);
}

UNUSED static int
child_start(void **state)
{
	static struct child c;
	AUTO_FREE char *program = proc_program("cofferdam-parser");
	AUTO_BUF struct buf config = BUF(1024);
	AUTO_BUF struct buf text = BUF(512);
	struct err err = {0};
	int pair[2];

	if (access(program, X_OK) != 0)
		fail_msg("%s is not built", program);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	c = (struct child){.parent = pair[0], .core = -1};
	must(proc_spawn(program, "cofferdam-parser", pair[1], &c.pid, &err), &err);
	(void)close(pair[1]);
	if (geteuid() == 0)
		buf_printf(&text, "{\"gid\":%d,\"uid\":%d,", 63104, 63104);
	else
		buf_put_c(&text, '{');
	buf_put_z(&text, "\"log_level\":\"error\",\"name\":\"parser\",\"origin\":\"test\"}");
	buf_u32(&config, IPC_VERSION);
	buf_lstr(&config, buf_str(&text));
	give(&c, MSG_P_CONFIG, &config, NULL);
	give_wire(&c);
	give(&c, MSG_P_GO, NULL, NULL);
	wait_ready(&c);
	*state = &c;
	return 0;
}

UNUSED static int
child_end(void **state)
{
	struct child *c = *state;

	if (c->pid > 0) {
		(void)kill(c->pid, SIGKILL);
		while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
			continue;
	}
	cleanup_close_fd(&c->parent);
	cleanup_close_fd(&c->core);
	return 0;
}

UNUSED static void
ask(struct child *c, uint64_t id, uint8_t dialect, struct str text)
{
	AUTO_BUF struct buf msg = BUF(1 << 17);
	struct err err = {0};

	buf_u64(&msg, id);
	buf_u8(&msg, dialect);
	buf_lstr(&msg, text);
	must(ipc_sync_send(c->core, IPC_ROLE_CORE, IPC_ROLE_PARSER, MSG_X_ASK, &msg, NULL, 0, &err),
	    &err);
}

/* Its answer's status, the text in *out; -1 when the wire ended. */
UNUSED static int
answer(struct child *c, uint64_t id, struct buf *out)
{
	AUTO_BUF struct buf body = BUF(1 << 17);
	uint16_t type = 0;
	struct err err = {0};
	struct rd r;
	int fds[IPC_FDS_MAX], status;
	size_t nfds;

	if (ipc_sync_recv(c->core, IPC_ROLE_CORE, IPC_ROLE_PARSER, 10000, &type, &body, fds, &nfds,
		&err) != 0)
		return -1;
	assert_int_equal(type, MSG_X_FACTS);
	r = rd_init(buf_str(&body));
	assert_int_equal(rd_u64(&r), id);
	status = rd_u8(&r);
	buf_reset(out);
	buf_put_str(out, rd_lstr(&r));
	assert_true(rd_end(&r));
	return status;
}

UNUSED static void
serves(struct child *c)
{
	AUTO_BUF struct buf out = BUF(1 << 17);

	ask(c, 77, PARSER_DIALECT_POSTGRESQL, STR("SELECT 1"));
	assert_int_equal(answer(c, 77, &out), PARSER_OK);
	assert_true(str_eqz(buf_str(&out),
	    "{\"dml\":0,\"marks\":[\"select\"],\"n\":1,\"rel\":[],\"tag\":[\"SELECT\"]}"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, child_start, child_end)

#endif
