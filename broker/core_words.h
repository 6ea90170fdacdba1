/* What a run's agent is told for its model: the policy in words, and what was refused. */
#ifndef BROKER_CORE_WORDS_H
#define BROKER_CORE_WORDS_H

#include "broker/core_decide.h"

#define CORE_WORDS_MAX 16384
#define CORE_TOLD_MAX 8192

/*
 * The run's targets, what of each effect the policy says at this moment, and what is frozen until
 * when: text for a model, and nothing that anything is decided by. At most CORE_WORDS_MAX bytes.
 */
void core_words_put(const struct core_run *run, struct buf *out);
/* The same if it is other than what this run was last told of; else nothing. */
void core_words_changed(struct core_run *run, struct buf *out);

/* a was refused: its run's agent hears of it with the next event that it reports. */
void core_told_add(struct core_run *run, struct str target, const struct core_action *a);
/* Lines, oldest first; they are forgotten. */
void core_told_take(struct core_run *run, struct buf *out);
void core_told_free(struct core_run *run);

#endif
