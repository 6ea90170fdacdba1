/* An agent and its run in the fake world of core_help.h. */
#ifndef TESTS_UNIT_CORE_RUN_HELP_H
#define TESTS_UNIT_CORE_RUN_HELP_H

#include "tests/unit/ca_help.h"
#include "tests/unit/core_help.h"

#include <arpa/inet.h>

#include "broker/core_ca.h"

static inline void
give_ca(struct world *w)
{
	AUTO_BUF struct buf key = BUF(8192);
	AUTO_BUF struct buf cert = BUF(8192);
	struct err err;

	ca_make(&key, &cert);
	assert_int_equal(core_ca_load(buf_str(&key), buf_str(&cert), &w->c->ca, &err), 0);
}

static inline void
agent_connects(struct world *w, unsigned uid)
{
	end_close(&w->agent);
	(void)core_peer_new(w->c, IPC_ROLE_AGENT, end_open(&w->agent, IPC_ROLE_AGENT), uid);
}

static inline void
agent_opens(struct world *w, const char *name, const char *target)
{
	AUTO_BUF struct buf b = BUF(65536);

	if (w->c->ca == NULL)
		give_ca(w);
	buf_u32(&b, IPC_VERSION);
	buf_lz(&b, name);
	buf_lz(&b, "do the work");
	buf_lz(&b, w->parent);
	buf_u32(&b, target != NULL ? 1 : 0);
	if (target != NULL)
		buf_lz(&b, target);
	buf_u32(&b, w->effect != NULL ? 1 : 0);
	if (w->effect != NULL)
		buf_lz(&b, w->effect);
	buf_lz(&b, w->budget);
	buf_lz(&b, "{}");
	buf_u8(&b, 0);
	say(&w->agent, MSG_A_OPEN, &b);
	settle(w);
}

static inline int
listener(const char *address)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(inet_pton(AF_INET, address, &sin.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static inline void
hand_over(struct world *w, uint32_t index, int fd)
{
	AUTO_BUF struct buf b = BUF(64);
	struct err err;

	buf_u32(&b, index);
	if (ipc_sync_send(
		w->agent.fd, IPC_ROLE_AGENT, IPC_ROLE_CORE, MSG_A_LISTEN, &b, &fd, 1, &err) != 0)
		fail_msg("%s", err.msg);
	(void)close(fd);
	settle(w);
}

static inline void
start(struct world *w)
{
	AUTO_BUF struct buf b = BUF(256);

	buf_lz(&b, "{\"pid\":true,\"net\":true}");
	say(&w->agent, MSG_A_START, &b);
	settle(w);
}

#endif
