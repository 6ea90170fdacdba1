/* The control socket: what people and operators may ask, by verb. */
#ifndef BROKER_CORE_CONTROL_H
#define BROKER_CORE_CONTROL_H

#include "broker/core_approve.h"

/* One Q_CALL. A verb either fills `out` (with j) and returns 0, or an error, or keeps the call. */
struct core_call {
	struct core *core;
	uint64_t peer; /* serial */
	const struct json *args;
	struct jcs j; /* the result object, opened */
};
enum { CORE_CALL_LATER = 1 }; /* returned by a verb: core_control_reply comes when it is settled */

/* One verb, by whoever may ask it; of those that the console may ask on behalf of a person, alone.
 */
int core_control_verb(struct core_call *call, struct str verb, bool console, struct err *err);
#define CORE_CONTROL_RESULT_MAX ((size_t)3 << 20)

int core_control_on_call(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
/* The arguments read, then fn; its answer goes to the peer, unless it comes later. */
typedef int core_call_fn(struct core_call *call, const void *arg, struct err *err);
void core_control_run(struct core_call *call, struct str args, core_call_fn *fn, const void *arg);
/* rc, or ERR_TOO_LARGE: there was more to answer than fits. */
int core_control_whole(int rc, const struct buf *answer, struct err *err);
/* code 0: result is a JSON object; else text. To a peer that may be gone. */
void core_control_reply(struct core *c, uint64_t peer, int code, struct str result);
/* id, state, reason, what is missing: every answer about a request has these. */
void core_control_state(struct jcs *j, const struct core_request *rq);

#endif
