/*
 * Before people are asked about a change, its target is asked what it would do: PostgreSQL's plan,
 * and where the policy says so a count of the rows. What it says stands in the statement.
 */
#ifndef BROKER_CORE_PREVIEW_H
#define BROKER_CORE_PREVIEW_H

#include "broker/core_act.h"

struct core_preview;

/*
 * If the last action of the act goes before people and its target may be asked: it is asked, and
 * core_act_previewed() follows. False: nothing is asked.
 */
bool core_preview_begin(struct core_act *act);
void core_preview_free(struct core_preview *p); /* NULL is fine */
int core_preview_on_previewed(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);

#endif
