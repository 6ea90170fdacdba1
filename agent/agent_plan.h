/* The sandbox that a run's plan asks for, and its listeners for the broker. */
#ifndef AGENT_AGENT_PLAN_H
#define AGENT_AGENT_PLAN_H

#include "agent/agent_broker.h"
#include "agent/agent_options.h"
#include "agent/agent_socket.h"

/* `base` with names, listeners, certificates and environment of the plan; its own env wins. */
int agent_plan_sandbox(const struct sandbox_spec *base, const struct broker_plan *p,
    struct sandbox **ret, struct err *err);
/* Hands over every listener of the plan; `loop` is made if the plan has one for it. */
int agent_plan_listen(
    struct broker *b, struct sandbox *sb, struct agent_socket *loop, struct err *err);

/* Of targets that come and go from here on: in the sandbox, and with the broker. */
struct agent_change {
	struct broker *broker;
	struct sandbox *sandbox;
	char **env; /* for programs begun since then; NULL: as at the start */
	/* Which of the plan's targets have a listener; NULL: all. */
	bool (*keeps)(void *arg, const struct broker_target *t);
	void *keeps_arg;
};
void agent_plan_follow(struct agent_change *c, struct broker *b, struct sandbox *sb);
/* From now on only the listeners that keeps() says; the others are closed, and stay so. */
int agent_plan_narrow(struct agent_change *c,
    bool (*keeps)(void *arg, const struct broker_target *t), void *arg, struct err *err);
void agent_plan_unfollow(struct agent_change *c);
#define AUTO_CHANGE __attribute__((cleanup(agent_plan_unfollow)))

#endif
