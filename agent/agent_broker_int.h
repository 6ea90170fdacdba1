/* What the parts of the agent's end of the wire share. */
#ifndef AGENT_AGENT_BROKER_INT_H
#define AGENT_AGENT_BROKER_INT_H

#include "common/ipc.h"
#include "agent/agent_broker_plan.h"
#include "agent/agent_steer.h"

struct broker {
	int fd;
	char *path, *killed, *refused;
	struct broker_plan plan;
	broker_change_fn *change;
	void *change_arg;
	struct agent_steer *steer; /* NULL: what people say is not for it */
	uint64_t next_id;
	struct {
		uint64_t id; /* 0: none */
		struct buf frame;
	} later; /* an event that is sent and not yet acknowledged */
	bool started;
	const uint32_t *as; /* NULL, or as_user */
	uint32_t as_user;
};

int broker_send_msg(struct broker *b, uint16_t type, const struct buf *body, const int *fds,
    size_t n, struct err *err);
/* Waits for one of that type; what comes unasked meanwhile is taken. */
int broker_expect(struct broker *b, uint16_t type, struct buf *body, struct err *err);
/* Core is restarted by its parent within moments; an answer of refusal is final. */
int broker_resume(struct broker *b, struct err *err);
/* Are records wanted, to be shown or counted? */
bool broker_shows(const struct agent_steer *s);
/* An acknowledgement that is the one of b->later. */
bool broker_later_take(struct broker *b, struct str body);

#endif
