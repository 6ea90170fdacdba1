/*
 * What people tell a run while it lives: pause, go on, stop, words for its model. All of it comes
 * by the control socket, so that it is known who says it, and is on the record first.
 */
#ifndef BROKER_CORE_STEER_H
#define BROKER_CORE_STEER_H

#include "broker/core_control.h"

#define CORE_SAY_MAX 4096   /* bytes of one message */
#define CORE_STEERS_MAX 256 /* messages, pauses and the like of one run */
#define CORE_STOP_MS 10000  /* so long the agent has to end in order */

int core_steer_verb_pause(struct core_call *call, struct err *err);
int core_steer_verb_resume(struct core_call *call, struct err *err);
int core_steer_verb_stop(struct core_call *call, struct err *err);
int core_steer_verb_message(struct core_call *call, struct err *err);

/*
 * The run that the call names, if who calls may watch and steer it: its owner, who holds one of the
 * policy's "watch" roles, root and the broker's own user; with `any`, any person. *by, for the
 * record, is the caller's to free.
 */
int core_steer_may(
    struct core_call *call, bool any, struct core_run **ret, char **by, struct err *err);
/* {"by":...,"reason":...}; no reason: left out. */
void core_steer_data(struct buf *out, const char *by, struct str reason);

/* Who besides its owner told the run, or another of its kin, what to do; and whose kin it is. */
void core_steer_words(const struct core_run *run, struct policy_input *in);
bool core_steer_gave_words(const struct core_run *run, struct str person);

/* Its agent is back, and had heard the words up to the record `heard`. */
void core_steer_resend(struct core_run *run, uint64_t heard);
/* A live run.message, run.pause or run.resume; what is wrong, or NULL. */
const char *core_steer_kept(
    struct core *c, struct str run, const char *type, uint64_t seq, const struct json *data);
void core_steer_free(struct core_run *run);

#endif
