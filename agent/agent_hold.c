/*
 * One run from registration to the moment that code may run. Runs in cofferdam-agent and in a
 * keeper. Order matters: the plan says which addresses to listen on, the sandbox makes the
 * listeners, and the broker must serve them before any code runs.
 */
#include "agent/agent_hold.h"

#include <string.h>

#include "common/xalloc.h"
#include "agent/agent_env.h"

#include "common/banned.h"

char *
agent_hold_socket(const char *socket, const char *state)
{
	if (socket != NULL)
		return xstrdup(socket);
	if (state != NULL)
		return xasprintf("%s/run/agent.sock", state);
	return xstrdup(AGENT_SOCKET_DEFAULT);
}

static int
begin(const struct agent_hold_ask *a, struct agent_hold *h, struct err *err)
{
	const struct broker_plan *plan = broker_plan(h->broker);
	AUTO(agent_env) char **env = NULL;
	AUTO_FREE char *level = NULL;
	struct sandbox_spec spec = a->spec;
	int rc;

	if (a->profile != NULL) {
		if ((rc = profile_use_check(a->profile, plan, err)) != 0)
			return rc;
		env = profile_use_env(a->profile, plan);
		spec.env = (const char *const *)env;
	}
	if ((rc = agent_plan_sandbox(&spec, plan, &h->sandbox, err)) != 0 ||
	    (rc = agent_plan_listen(h->broker, h->sandbox, &h->loop, err)) != 0)
		return rc;
	if (a->profile != NULL && (rc = profile_use_files(a->profile, plan, h->sandbox, err)) != 0)
		return rc;
	agent_plan_follow(&h->change, h->broker, h->sandbox);
	level = a->ws != NULL ? sandbox_workspace_level(a->ws, sandbox_level(h->sandbox))
			      : xstrdup(sandbox_level(h->sandbox));
	return broker_start(h->broker, level, err);
}

int
agent_hold_begin(const struct agent_hold_ask *a, struct agent_hold *h, struct err *err)
{
	struct err e = {0};
	int rc;

	*h = AGENT_HOLD;
	if ((rc = broker_open(&a->broker, &h->broker, err)) != 0)
		return rc;
	if ((rc = begin(a, h, err)) != 0)
		(void)broker_end(h->broker, "error", err->msg, &e);
	return rc;
}

void
agent_hold_free(struct agent_hold *h)
{
	agent_plan_unfollow(&h->change);
	h->change = (struct agent_change){0};
	agent_socket_free(&h->loop);
	sandbox_destroy(TAKE_PTR(h->sandbox));
	broker_free(TAKE_PTR(h->broker));
}
