/*
 * From the broker's plan to a sandbox (process: cofferdam-agent). The plan comes from the broker
 * and is checked for form by the sandbox's own rules; nothing of it widens what code inside may
 * do. The sandbox makes the listeners, so that they live in its network namespace.
 */
#include "agent/agent_plan.h"

#include <string.h>

#include "common/xalloc.h"
#include "agent/agent_env.h"
#include "agent/agent_trust.h"

#include "common/banned.h"

/* A name that can stand in /etc/hosts: no address, and localhost stays what it is. */
static const char *
name_of(const struct broker_target *t)
{
	size_t n = strlen(t->host);

	if (strchr(t->host, ':') != NULL || strspn(t->host, "0123456789.") == n ||
	    strcmp(t->host, "localhost") == 0)
		return "";
	return t->host;
}

static size_t
targets_take(const struct broker_plan *p, struct sandbox_target *targets)
{
	size_t n = 0;

	for (size_t i = 0; i < p->ntargets; i++) {
		const struct broker_target *t = &p->targets[i];

		if (t->listen == BROKER_LISTEN_SANDBOX)
			targets[n++] = (struct sandbox_target){
			    .host = name_of(t), .address = t->address, .port = t->port};
	}
	return n;
}

static const char **
env_join(char *const *plan, const char *const *own)
{
	size_t nplan = 0, nown = 0, n = 0;
	const char **all;

	while (plan[nplan] != NULL)
		nplan++;
	while (own != NULL && own[nown] != NULL)
		nown++;
	all = xcalloc(nplan + nown + 1, sizeof(*all));
	for (size_t i = 0; i < nplan; i++)
		all[n++] = plan[i];
	for (size_t i = 0; i < nown; i++)
		all[n++] = own[i];
	return all;
}

int
agent_plan_sandbox(const struct sandbox_spec *base, const struct broker_plan *p,
    struct sandbox **ret, struct err *err)
{
	struct sandbox_target targets[BROKER_TARGETS_MAX];
	__attribute__((cleanup(agent_trust_free))) struct agent_trust trust = {0};
	AUTO(agent_env) char **env = agent_env_make(p);
	AUTO_FREE const char **all = env_join(env, base->env);
	struct sandbox_spec spec = *base;
	int rc;

	spec.targets = targets;
	spec.ntargets = targets_take(p, targets);
	spec.env = all;
	if (p->ca_pem[0] != '\0') {
		if ((rc = agent_trust_load(p->ca_pem, &trust, err)) != 0)
			return rc;
		spec.ca_pem = p->ca_pem;
		spec.ca_hash = trust.ca_hash;
		spec.roots_pem = trust.roots_pem;
		spec.keystore = buf_str(&trust.keystore);
	}
	return sandbox_create(&spec, ret, err);
}

int
agent_plan_listen(struct broker *b, struct sandbox *sb, struct agent_socket *loop, struct err *err)
{
	const struct broker_plan *p = broker_plan(b);
	size_t inside = 0;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < p->ntargets; i++) {
		if (p->targets[i].listen == BROKER_LISTEN_SANDBOX) {
			AUTO_FD int fd = sandbox_listener_take(sb, inside++);

			rc = broker_listen(b, p->targets[i].index, fd, err);
		} else if (p->targets[i].listen == BROKER_LISTEN_LOOP) {
			if ((rc = agent_socket_make(loop, err)) == 0)
				rc = broker_listen(b, p->targets[i].index, loop->listen, err);
			cleanup_close_fd(&loop->listen); /* the broker alone accepts */
		}
	}
	return rc;
}

/* --- while it lives ---------------------------------------------------------------- */

static bool
same_listener(const struct broker_target *a, const struct broker_target *b)
{
	return b->listen == BROKER_LISTEN_SANDBOX && a->port == b->port &&
	       strcmp(a->address, b->address) == 0 && strcmp(name_of(a), name_of(b)) == 0;
}

static const struct broker_target *
listener_find(const struct broker_plan *p, const struct broker_target *t)
{
	for (size_t i = 0; i < p->ntargets; i++)
		if (same_listener(t, &p->targets[i]))
			return &p->targets[i];
	return NULL;
}

static struct sandbox_target
inside(const struct broker_target *t)
{
	return (struct sandbox_target){.host = name_of(t), .address = t->address, .port = t->port};
}

/* Those that are to go, or whose listener the broker does not have. */
static void
drop_old(struct agent_change *c, const struct broker_plan *next, struct buf *why)
{
	const struct broker_plan *now = broker_plan(c->broker);

	for (size_t i = 0; i < now->ntargets; i++) {
		const struct broker_target *t = &now->targets[i], *stays = listener_find(next, t);
		const struct sandbox_target drop = inside(t);
		struct err e = {0};

		if (t->listen != BROKER_LISTEN_SANDBOX || (stays != NULL && !stays->fresh))
			continue;
		/* One that could not be made is not there. */
		if (sandbox_network(c->sandbox, NULL, 0, &drop, 1, NULL, &e) != 0 &&
		    e.code != ERR_NOT_FOUND)
			buf_printf(why, "%s stays: %s; ", t->target, e.msg);
	}
}

/* One by one: what fails takes no other with it. */
static void
add_new(struct agent_change *c, const struct broker_plan *next, struct buf *why)
{
	for (size_t i = 0; i < next->ntargets; i++) {
		const struct broker_target *t = &next->targets[i];
		const struct sandbox_target add = inside(t);
		AUTO_FD int fd = -1;
		struct err e = {0};

		if (t->listen != BROKER_LISTEN_SANDBOX || !t->fresh)
			continue;
		if (c->keeps != NULL && !c->keeps(c->keeps_arg, t))
			buf_printf(why, "%s: this run is narrowed to others; ", t->target);
		else if (sandbox_network(c->sandbox, &add, 1, NULL, 0, &fd, &e) != 0 ||
			 broker_listen(c->broker, t->index, fd, &e) != 0)
			buf_printf(why, "%s: %s; ", t->target, e.msg);
	}
}

static void
change(void *arg, const struct broker_plan *next, struct buf *why)
{
	struct agent_change *c = arg;

	drop_old(c, next, why);
	add_new(c, next, why);
	agent_env_free(c->env);
	c->env = agent_env_make(next);
}

void
agent_plan_follow(struct agent_change *c, struct broker *b, struct sandbox *sb)
{
	*c = (struct agent_change){.broker = b, .sandbox = sb};
	broker_on_change(b, change, c);
}

int
agent_plan_narrow(struct agent_change *c, bool (*keeps)(void *arg, const struct broker_target *t),
    void *arg, struct err *err)
{
	const struct broker_plan *p = broker_plan(c->broker);

	c->keeps = keeps;
	c->keeps_arg = arg;
	for (size_t i = 0; i < p->ntargets; i++) {
		const struct broker_target *t = &p->targets[i];
		const struct sandbox_target drop = inside(t);
		struct err e = {0};

		if (t->listen != BROKER_LISTEN_SANDBOX || keeps(arg, t))
			continue;
		if (sandbox_network(c->sandbox, NULL, 0, &drop, 1, NULL, &e) != 0 &&
		    e.code != ERR_NOT_FOUND)
			return err_set(err, e.code, "%s stays: %s", t->target, e.msg);
	}
	return 0;
}

void
agent_plan_unfollow(struct agent_change *c)
{
	if (c->broker != NULL)
		broker_on_change(c->broker, NULL, NULL);
	agent_env_free(c->env);
}
