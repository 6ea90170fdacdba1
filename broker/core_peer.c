/*
 * Accepting agents and people (process: core). The socket's mode decides who can connect, the
 * kernel says who did (SO_PEERCRED); what they may ask is the request table's business.
 */
#include "broker/core_peer.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/core_login.h"
#include "broker/core_run.h"
#include "broker/core_table.h"
#include "common/acceptor.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

static bool
is_agent(const struct core_peer *p)
{
	return p->role == IPC_ROLE_AGENT;
}

const char *
core_peer_login(const struct core_peer *p)
{
	return core_login(p->core->logins, p->uid);
}

struct core_peer *
core_peer_by_serial(const struct core *c, uint64_t serial)
{
	struct core_peer *p;

	TAILQ_FOREACH (p, &c->agents, link)
		if (p->serial == serial)
			return p;
	TAILQ_FOREACH (p, &c->people, link)
		if (p->serial == serial)
			return p;
	return NULL;
}

void
core_peer_free(struct core_peer *p)
{
	struct core *c = p->core;

	if (is_agent(p)) {
		TAILQ_REMOVE(&c->agents, p, link);
		c->nagents--;
	} else {
		TAILQ_REMOVE(&c->people, p, link);
		c->npeople--;
	}
	if (p->run != NULL && p->run->peer == p)
		p->run->peer = NULL;
	loop_timer_del(p->timer);
	ipc_free(p->wire);
	free(p);
}

/* An agent that goes away without A_END takes its run with it: nobody watches the sandbox any more.
 */
static void
gone(void *arg, struct ipc *w, const char *why)
{
	struct core_peer *p = arg;
	struct core_run *run = p->run;

	(void)w;
	if (is_agent(p) && p->state != CORE_S_ENDED)
		log_warn("agent of run %s: %s", run != NULL ? run->id : "(none)", why);
	core_peer_free(p);
	if (run != NULL)
		core_run_end(run, "lost", STR("the agent's wire is gone"), false);
}

static void
idle(void *arg)
{
	struct core_peer *p = arg;

	p->timer = NULL;
	core_peer_free(p);
}

void
core_peer_rest(struct core_peer *p)
{
	loop_timer_del(p->timer);
	p->timer = loop_timer_add(p->core->loop, CORE_CONTROL_MS, idle, p);
}

struct core_peer *
core_peer_new(struct core *c, enum ipc_role role, int fd, uid_t uid)
{
	struct core_peer *p = xcalloc(1, sizeof(*p));

	p->core = c;
	p->role = role;
	p->uid = uid;
	p->serial = ++c->last_serial;
	p->wire = ipc_new(c->loop, fd, IPC_ROLE_CORE, role, core_table_dispatch, gone, p);
	if (is_agent(p)) {
		p->state = CORE_S_NEW;
		TAILQ_INSERT_TAIL(&c->agents, p, link);
		c->nagents++;
	} else {
		p->state = CORE_S_OPEN;
		core_peer_rest(p);
		TAILQ_INSERT_TAIL(&c->people, p, link);
		c->npeople++;
	}
	return p;
}

static void
take(struct core *c, int accepted, enum ipc_role role, size_t count, size_t max)
{
	AUTO_FD int fd = accepted;
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (count >= max) {
		log_warn("%zu %s connections, the limit: one more is closed", count,
		    ipc_role_name(role));
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0 && n == sizeof(cred))
		(void)core_peer_new(c, role, TAKE_FD(fd), cred.uid);
}

static void
on_control(void *arg, int fd)
{
	struct core *c = arg;

	take(c, fd, IPC_ROLE_CLI, c->npeople, CORE_CONTROL_MAX);
}

static void
on_agent(void *arg, int fd)
{
	struct core *c = arg;

	take(c, fd, IPC_ROLE_AGENT, c->nagents, CORE_AGENTS_MAX);
}

void
core_peer_listen(struct core *c)
{
	if (!c->serving)
		return;
	if (c->control_acceptor == NULL && c->control_fd >= 0)
		c->control_acceptor =
		    acceptor_new(c->loop, c->control_fd, "control", on_control, c);
	if (c->agent_acceptor == NULL && c->agent_fd >= 0 && c->live && c->policy_next == NULL)
		c->agent_acceptor = acceptor_new(c->loop, c->agent_fd, "agents", on_agent, c);
}
