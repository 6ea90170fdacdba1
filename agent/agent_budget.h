/* What a run may spend, and what it has spent. */
#ifndef AGENT_AGENT_BUDGET_H
#define AGENT_AGENT_BUDGET_H

#include "agent/agent_course.h"

struct budget budget_of(const struct loop_config *c);
/* A turn, or room that was made: what it cost. */
void budget_turn(struct course *k, const struct model_turn *t);
/* A call begins; it is done, and wrote so much. */
void budget_call(struct course *k);
void budget_output(struct course *k, uint64_t bytes);
/* Millionths of the currency that are left of a budget of money. */
uint64_t budget_left_cost(const struct course *k);
/* What a child run spent is its parent's. */
void budget_child(struct course *k, const struct loop_end *end);
/* "used: 3 turns, ..."; the caller frees. */
char *budget_words(const struct course *k);
/* The same for the record. */
void budget_json(const struct course *k, struct buf *out);
/* Of the run's time. */
uint64_t budget_left_seconds(const struct course *k);
/* The first budget that is spent, in words, and the end that it makes; NULL: none. The caller
 * frees. */
char *budget_spent(const struct course *k, const char **ret_status);
/* The same of calls alone: it is what ends a program in its middle. */
char *budget_calls_over(const struct course *k, const char **ret_status);

#endif
