/* A question that a run's agent asks people, and the answer of one of them. */
#ifndef BROKER_CORE_QUESTION_H
#define BROKER_CORE_QUESTION_H

#include "broker/core_control.h"

#define CORE_QUESTION_MAX 4096

struct core_question;

/* From the agent (core_agent_ask.c): {"text"} -> {"id"}; a run has one at a time, the newest. */
int core_question_ask(
    struct core_run *run, const struct json *args, struct jcs *j, struct err *err);
/* {"id"} -> {"state": open, or answered with "by", "text"}. ERR_NOT_FOUND: it is not open here. */
int core_question_look(
    struct core_run *run, const struct json *args, struct jcs *j, struct err *err);
/* {"id"}: nobody need answer any more. */
int core_question_drop(
    struct core_run *run, const struct json *args, struct jcs *j, struct err *err);
/* That a person answers who tells the run something now; 0: it asks nothing. */
int64_t core_question_open(const struct core_run *run);
/* What a person has told the run, on the record by now, when it asked `id`: true if it waits for
 * that answer still, and has it. */
bool core_question_answer(
    struct core_run *run, int64_t id, uint64_t seq, const char *by, const char *text);
/* From a person, {"run", "text", "question"?}: a message to a run that asks, that if it is named.
 */
int core_question_verb(struct core_call *call, struct err *err);
/* Those that are open, as members of an array. */
void core_question_list(struct jcs *j, const struct core_run *run);
void core_question_free(struct core_run *run);

#endif
