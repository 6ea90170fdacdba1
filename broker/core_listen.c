/*
 * Listeners of runs (process: core). They come from the agent, which is the owner's process, or
 * back from the parent; each is looked at and handed on to front, never accepted from.
 */
#include "broker/core_run.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/core_plan.h"

#include "common/banned.h"

/* Own loopback address per target, so that each can listen on its real port. */
void
core_run_address(size_t index, char out[16])
{
	(void)snprintf(
	    out, 16, "127.77.%u.%u", (unsigned)(index / 250 % 250), (unsigned)(index % 250 + 1));
}

struct core_target *
core_run_listener(struct core *c, uint32_t listener, struct core_run **ret_run)
{
	struct core_run *run;

	TAILQ_FOREACH (run, &c->runs, link)
		for (size_t i = 0; listener != 0 && i < run->ntargets; i++)
			if (run->targets[i].listener == listener) {
				*ret_run = run;
				return &run->targets[i];
			}
	return NULL;
}

static bool
sock_is(int fd, int opt, int want)
{
	int v = 0;
	socklen_t n = sizeof(v);

	return getsockopt(fd, SOL_SOCKET, opt, &v, &n) == 0 && v == want;
}

int
core_run_listen(struct core_run *run, uint32_t index, int fd, struct err *err)
{
	AUTO_FD int own = fd;
	bool local;

	if (index >= run->ntargets)
		return err_set(err, ERR_INVALID, "listener %u: the plan has %zu targets", index,
		    run->ntargets);
	if (run->targets[index].fd >= 0)
		return err_set(err, ERR_EXISTS, "listener %u came twice", index);
	local = run->targets[index].listen == CORE_LISTEN_UNIX;
	if (run->targets[index].listen == CORE_LISTEN_NONE)
		return err_set(err, ERR_INVALID, "listener %u: the plan has none there", index);
	if (!sock_is(own, SO_ACCEPTCONN, 1) || !sock_is(own, SO_TYPE, SOCK_STREAM) ||
	    (local ? !sock_is(own, SO_DOMAIN, AF_UNIX)
		   : !sock_is(own, SO_DOMAIN, AF_INET) && !sock_is(own, SO_DOMAIN, AF_INET6)))
		return err_set(err, ERR_INVALID, "listener %u is not a listening %s stream socket",
		    index, local ? "unix" : "TCP");
	run->targets[index].fd = TAKE_FD(own);
	if (run->targets[index].state == CORE_TARGET_WAITS)
		run->targets[index].state = CORE_TARGET_HELD;
	return 0;
}

/* A listening socket that is shut down is closed for all who hold it, the sandbox's supervisor too.
 */
void
core_run_listen_shut(int *fd)
{
	if (*fd < 0)
		return;
	(void)shutdown(*fd, SHUT_RDWR);
	(void)close(*fd);
	*fd = -1;
}

void
core_run_listen_forget(struct core *c, const char *run, uint32_t index)
{
	AUTO_BUF struct buf b = BUF(512);

	buf_lz(&b, run);
	buf_u32(&b, index);
	core_send(&c->parent, MSG_K_DROP_ONE, &b);
}

/* Of F_LISTEN: what front speaks on it. */
static uint8_t
proto(const struct core_target *t)
{
	static const struct {
		const char *kind, *scheme;
		uint8_t proto;
	} protos[] = {
	    {"postgres", "", 1},
	    {"http", "http", 2},
	    {"http", "https", 3},
	    {CORE_KIND_PROXY, "", 4},
	    {CORE_KIND_LOOP, "", 5},
	};

	const char *kind = t->scheme[0] != '\0' ? "http" : t->kind;

	for (size_t i = 0; i < ARRAY_LEN(protos); i++)
		if (strcmp(kind, protos[i].kind) == 0 && strcmp(t->scheme, protos[i].scheme) == 0)
			return protos[i].proto;
	return 0; /* front ends the wire: not reached, core makes the kinds */
}

void
core_run_listen_send(struct core_run *run, struct core_target *t)
{
	struct core *c = run->core;
	AUTO_BUF struct buf b = BUF(4096);

	t->listener = ++c->last_listener;
	buf_u32(&b, t->listener);
	buf_u8(&b, proto(t));
	buf_lz(&b, run->id);
	buf_lz(&b, t->id);
	buf_lz(&b, t->host);
	buf_u32(&b, t->port);
	ipc_send(c->front->wire, MSG_F_LISTEN, &b, &t->fd, 1);
}
