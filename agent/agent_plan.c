/*
 * From the broker's plan to a sandbox (process: cofferdam-agent). The plan comes from the broker
 * and is checked for form by the sandbox's own rules; nothing of it widens what code inside may
 * do. The sandbox makes the listeners, so that they live in its network namespace.
 */
#include "agent/agent_plan.h"

#include <string.h>

#include "agent/agent_env.h"
#include "agent/agent_loop.h"
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

/* The loop keeps the time; this is the last resort behind it. */
static uint32_t
wall_s(const struct agent_options *o)
{
	uint64_t s = (o->max_time_s != 0 ? o->max_time_s : LOOP_TIME_DEFAULT) + 60;

	return (uint32_t)(s < 86400 ? s : 86400);
}

int
agent_plan_sandbox(const struct agent_options *o, const struct broker_plan *p, struct sandbox **ret,
    struct err *err)
{
	struct sandbox_target targets[BROKER_TARGETS_MAX];
	__attribute__((cleanup(agent_trust_free))) struct agent_trust trust = {0};
	AUTO(agent_env) char **env = agent_env_make(p);
	struct sandbox_spec spec = {.limits = o->limits,
	    .workspace = o->workspace,
	    .binds = o->binds,
	    .nbinds = o->nbinds,
	    .targets = targets,
	    .ntargets = targets_take(p, targets),
	    .env = (const char *const *)env,
	    .may_lack = o->limits_optional ? SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER : 0};
	int rc;

	spec.limits.wall_s = wall_s(o);
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

			rc = broker_listen(b, i, fd, err);
		} else if (p->targets[i].listen == BROKER_LISTEN_LOOP) {
			if ((rc = agent_socket_make(loop, err)) == 0)
				rc = broker_listen(b, i, loop->listen, err);
			cleanup_close_fd(&loop->listen); /* the broker alone accepts */
		}
	}
	return rc;
}
