/*
 * What is refused, and what comes after it: links between tries, how many there were, what came
 * near to something approved, what nobody can approve. In memory, while the run lives; what is
 * found goes into the log.
 */
#ifndef BROKER_CORE_ATTEMPT_H
#define BROKER_CORE_ATTEMPT_H

#include "broker/core_decide.h"
#include "common/jcs.h"

/*
 * The refused or waiting action before this one to the same target: a->link, and a->attempt when it
 * is the same object again after a refusal or an expiry. Sending again what is pending is no
 * attempt.
 */
void core_attempt_link(struct core_run *run, struct str target, struct core_action *a);
/* Not allowed: was something near it armed, can nobody approve it? */
void core_attempt_refused(const struct core_from *f, const struct core_action *a);
/* It is in the log: remembered for later links; the alarm, and the end of the run, if it is time.
 */
void core_decide_remember(struct core_run *run, struct str target, const struct core_action *a);
/* What of the run nobody can approve, oldest first. */
void core_attempt_unmet(struct jcs *j, const struct core_run *run);
/* What the log has of an action that was refused: counted on after a restart. False: malformed. */
bool core_attempt_live(struct core_run *run, uint64_t seq, const struct json *data);
void core_attempt_free(struct core_run *run);

#endif
