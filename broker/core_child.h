/*
 * Child runs. A run may start others, with no more than it has itself; they end with it, and what
 * they do counts for it, so that nothing is gained by having it done by a child.
 */
#ifndef BROKER_CORE_CHILD_H
#define BROKER_CORE_CHILD_H

#include "broker/core.h"

#define CORE_DEPTH_MAX 3       /* below a run that a person started */
#define CORE_CHILDREN_MAX 8    /* of one run, alive */
#define CORE_CHILDREN_EVER 100 /* of one run in all */
#define CORE_BUDGET_GRACE_S 5  /* the loop ends by itself, and says what was done so far */

/* NULL: it has none, or that is gone. */
struct core_run *core_child_parent(const struct core_run *run);
/* The run at whose end all end: itself, if it has no parent. */
struct core_run *core_child_root(struct core_run *run);
/* Becomes a child of `parent`: its agent, owner and login are known already. */
int core_child_join(struct core_run *run, struct str parent, struct err *err);
/* Effects that it may have (none given: all, or the parent's); a child's are among its parent's. */
int core_child_effects(struct core_run *run, struct rd *body, struct err *err);
/*
 * {"seconds":60,"tokens":1000,...}: what its agent will keep to, and core itself for the seconds.
 * Empty: none. A child has each of its parent's, and none that is larger.
 */
int core_child_budget(struct core_run *run, struct str json, struct err *err);
/* The timer of its seconds, of which some may be over. */
void core_child_clock(struct core_run *run, int64_t began_us);
/* May it have that target by its parent's list? Without a parent: yes. */
bool core_child_has(const struct core_run *run, struct str target);
/* Its children end first. */
void core_child_end_all(struct core_run *run);
/* After a restart: of a parent that is gone. */
void core_child_end_orphans(struct core *c);
size_t core_child_count(const struct core_run *run);
/* "budget", "effects" and "parent" of run.start, as far as there are any; in three calls, for the
 * keys between them. */
void core_child_put_budget(struct jcs *j, const struct core_run *run);
void core_child_put_effects(struct jcs *j, const struct core_run *run);
void core_child_put_parent(struct jcs *j, const struct core_run *run);
/* From there again; what is wrong, or NULL. */
const char *core_child_kept(struct core_run *run, const struct json *data);

#endif
