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

/* To its agent: A_STEER. */
enum core_how { HOW_PAUSE = 1, HOW_RESUME = 2, HOW_STOP = 3, HOW_SAY = 4 };

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
/* Is there room for one more who does? Adding needs it. */
bool core_steer_words_room(const struct core_run *run, struct str person);
void core_steer_words_add(struct core_run *run, struct str person);

/* What is durable is done: to the run, its agent, its children. May end the run. `question`: that
 * it asked when that was said; 0: none. */
void core_steer_do(struct core_run *run, enum core_how how, int64_t question, uint64_t seq,
    const char *by, const char *text);

/* Its agent begins, or is back and had heard the words up to the record `heard`. */
void core_steer_resend(struct core_run *run, uint64_t heard);
/* A live run.message, run.pause, run.resume or run.stop; what is wrong, or NULL. */
const char *core_steer_kept(
    struct core *c, struct str run, const char *type, uint64_t seq, const struct json *data);
void core_steer_free(struct core_run *run);

#endif
