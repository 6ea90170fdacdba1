/*
 * What the transaction of a PostgreSQL connection has done so far, as far as verdicts depend on it:
 * its effects, the signatures used in it, and its steps: the statements that people have to sign.
 */
#ifndef BROKER_CORE_TXN_H
#define BROKER_CORE_TXN_H

#include "broker/core_facts.h"
#include "policy/digest.h"

#define CORE_TXN_LIFTED 32
#define CORE_STEPS_MAX 32 /* statements of one transaction that one request is for */

struct core_action;

/* One of them, as it was judged: what a request for it has to say. Does not change. */
struct core_step {
	unsigned refs;
	struct hash digest;
	char *show, *rules;
	uint32_t effects;
	unsigned statements;
	bool deferred, verify;
	size_t nrels;
	char **rels;
	size_t nslots;
	struct policy_slot slots[POLICY_SLOTS_MAX]; /* roles owned */
	int64_t max_rows, within_s, use_within_s;   /* max_rows -1: none */
};
struct core_step *core_step_new(const struct core_action *a);
void core_step_unref(struct core_step *s); /* NULL is fine */

struct core_txn {
	char state; /* I T E, as the server last said */
	uint32_t effects;
	int64_t began_us;  /* when the first of them was judged */
	struct hash chain; /* over the digests of its actions: what a COMMIT commits */
	unsigned n;
	size_t ngrants;
	struct policy_grant *grants; /* consumed in it; strings owned */
	size_t nlifted;
	char lifted[CORE_TXN_LIFTED][CORE_ID_SIZE]; /* exceptions used in it */

	size_t nsteps; /* used, or refused: what one request for all of it has to be for */
	struct core_txn_step {
		struct core_step *step; /* owned reference */
		bool used, joint;	/* joint: signed together with others */
		bool undoable;		/* a savepoint before it may still be there */
	} steps[CORE_STEPS_MAX];
	bool many; /* there were more */
	/* The last request of several steps that it uses, and how many of them it has used. */
	char joint[CORE_ID_SIZE];
	size_t joint_used, joint_steps;
	bool undone;	       /* a step of such a request may be undone, and others not */
	unsigned saves, depth; /* savepoints that it made; at most so many are there */
};
void core_txn_reset(struct core_txn *t); /* idle, nothing done */
void core_txn_copy(struct core_txn *to, const struct core_txn *from);
void core_txn_grants_add(struct core_txn *t, const struct policy_grant *g, size_t n);
void core_txn_lifted_add(struct core_txn *t, const struct decision *d);

/* a runs under an approval, or was refused for the lack of one. */
void core_txn_step_used(struct core_txn *t, const struct core_action *a);
void core_txn_step_refused(struct core_txn *t, const struct core_action *a);
/* SAVEPOINT, ROLLBACK TO and RELEASE of this text. */
void core_txn_points(struct core_txn *t, const struct core_facts *f);
/* How far the exchange came that leads from `before` to t is not known. */
void core_txn_failed(struct core_txn *t, const struct core_txn *before);
/* Why nothing of it may be committed now, after `next` (NULL: nothing more); NULL: it may. */
const char *core_txn_partial(const struct core_txn *t, bool next);

#endif
