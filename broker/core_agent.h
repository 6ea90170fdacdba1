/* The agent socket: registration of a run, its listeners, what the loop reports, its end. */
#ifndef BROKER_CORE_AGENT_H
#define BROKER_CORE_AGENT_H

#include "broker/core.h"

#define CORE_AGENT_NAME_MAX 128
#define CORE_TASK_MAX 32768
#define CORE_LEVEL_MAX 4000
#define CORE_FIELDS_MAX 16384
#define CORE_SAID_MAX 2048
#define CORE_ASK_MAX 65536
#define CORE_SPENT_MAX 512
#define CORE_EVENTS_MAX 256 /* not yet durable, per agent */

int core_agent_on_open(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_agent_on_resume(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_agent_on_listen(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_agent_on_start(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_agent_on_event(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
/* core_agent_ask.c */
int core_agent_on_ask(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_agent_on_end(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);

/* The agent is told why, its wire and run end. Returns 0: the peer is gone, there is no error left
 * to handle. */
int core_agent_refuse(struct core_peer *p, const struct err *why);
/* core_event.c: fields of an event as a record shows them: canonical, with the blob reference as
 * "content". */
int core_agent_event_data(
    struct str fields, const struct blob_ref *content, struct buf *out, struct err *err);

#endif
