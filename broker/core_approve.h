/*
 * Requests for approval: made when an action needs people, shown to them, armed by their
 * signatures, used once. The log is the only store; memory follows what is durable.
 */
#ifndef BROKER_CORE_APPROVE_H
#define BROKER_CORE_APPROVE_H

#include "broker/core_decide.h"
#include "broker/core_record.h"

#define CORE_WITHIN_S 1800 /* where the policy names none */
#define CORE_USE_WITHIN_S 300
#define CORE_SHOWN_MAX ((size_t)65536) /* what is larger is not put before people */
#define CORE_SHOW_FRAME_MAX                                                                       \
	((size_t)24000) /* sealed action kept in the record; larger ones are void after a restart \
			 */

enum core_request_state {
	CORE_RQ_RECORDING = 0, /* not durable yet: nobody can sign */
	CORE_RQ_PENDING,
	CORE_RQ_ARMED,
	CORE_RQ_CONSUMED,
	CORE_RQ_DENIED,
	CORE_RQ_EXPIRED,
	CORE_RQ_VOID,
};
const char *core_request_state_name(enum core_request_state s);

/* A signature as the log has it: it counts once core_sign_check_log() has verified it. */
struct core_claim {
	const char *decision; /* approve, deny, revoke */
	char *person, *role, *signature, *note;
	int64_t at_us;
	uint64_t seq;
};

struct core_request {
	TAILQ_ENTRY(core_request) link;
	struct core_run *run;
	char id[CORE_ID_SIZE]; /* 26 digits of base32 */
	enum core_request_state state;
	char *reason; /* of the end; NULL while open */
	struct hash action, policy;
	size_t nsteps;	    /* statements of one transaction, 1 of anything else; core_sequence.h */
	struct hash *steps; /* their digests, which `action` binds */
	struct digest_parts parts; /* of the action's digest */
	char first[CORE_ID_SIZE];  /* the action that asked */
	char *target, *rule;
	uint32_t effects;
	unsigned statements;
	bool deferred;
	size_t nrels;
	char **rels;
	size_t nslots;
	struct policy_slot slots[POLICY_SLOTS_MAX]; /* roles owned */
	int64_t max_rows, not_before_us, approve_by_us, within_s, use_within_s, use_by_us;
	bool verify;	/* each signature by a key that verified its person */
	char *preview;	/* what the target said of it beforehand; NULL: nothing */
	char *log_head; /* "ORIGIN SIZE ROOT" */
	char *show;
	bool body; /* of an HTTP request that is streamed again when it is used */
	uint64_t body_bytes;
	struct hash body_sha256;
	size_t ngrants;
	struct approval_grant grants[APPROVAL_GRANTS_MAX]; /* strings owned */
	size_t nclaims;					   /* at most APPROVAL_GRANTS_MAX; owned */
	struct core_claim *claims;
	struct loop_timer *timer;
	struct core_ticket *ticket;
	core_ack_fn *fn; /* who waits for approval.request */
	void *arg;
	bool busy;    /* a signature is being recorded */
	bool settled; /* looked at once since it was rebuilt from the log */
	bool covered; /* void because another one is for all of it */
};

const char *core_request_id(const struct core_request *rq);
bool core_request_armed(const struct core_request *rq);
bool core_request_open(const struct core_request *rq); /* recording, pending or armed */

size_t core_request_steps(const struct core_request *rq);

/* In this run, open, for exactly this action; NULL. */
struct core_request *core_approve_find(const struct core_run *run, const struct hash *action);
struct core_request *core_approve_by_id(const struct core *c, struct str id); /* NULL: none */
/* In memory only, from a's decision; core_approve_record() makes it durable. */
struct core_request *core_approve_new(const struct core_from *f, const struct core_action *a);
/* fn is called once with the ack, after which people can sign. False: cannot be recorded, rq is
 * void. */
bool core_approve_record(struct core_request *rq, core_ack_fn *fn, void *arg);
void core_approve_forget(struct core_request *rq); /* who waits goes away */
/* next: it is used already, by the transaction that goes on with it. */
void core_approve_judge(const struct core *c, const struct core_request *rq, bool next,
    const struct policy_input *in, struct approval_result *ret);
/* Does this person own the run, or have the login that started it? */
bool core_approve_is_own(const struct core_request *rq, struct str person);
/* What was asked for, as policy_eval gets it; borrowed from rq and *ret_rels, which the caller
 * frees. */
struct policy_input core_approve_input(const struct core_request *rq, struct str **ret_rels);
/* approval.consumed, in the same batch as the action that uses it. False: cannot be recorded. */
bool core_approve_consume(struct core_request *rq, const char *action);

/* Ends, with their records. What was denied can still become void: its denial does not verify. */
void core_approve_end(struct core_request *rq, enum core_request_state s, const char *reason);
void core_approve_end_for(struct core_request *rq, enum approval_reason reason);
void core_approve_policy_changed(struct core *c);
void core_approve_run_ended(struct core_run *run);
/* What may give a name another meaning than it had when people were shown it; exec: anything. */
#define CORE_EFFECTS_SCHEMA \
	((uint32_t)(EFFECT_schema | EFFECT_drop | EFFECT_overwrite | EFFECT_priv | EFFECT_exec))
/* Such an action of f's run goes to its target: what people were shown before, but `used`, is
 * void. */
void core_approve_schema_changed(const struct core_from *f, const struct core_request *used);

/* A signature is durable: add it and arm or end the request. */
void core_approve_grant_add(struct core_request *rq, struct str person, struct str role,
    const struct sig_pubkey *key, bool verified, int64_t at_us, bool deny);
void core_approve_settle(struct core_request *rq);
/* "now": what the whole policy says of an open request at this moment. */
void core_approve_now(const struct core_request *rq, struct jcs *j);
/* What came from the log, after its signatures were checked: grants whose arming is not on the
 * record, and arming without grants. */
void core_approve_settle_all(struct core *c);
void core_approve_claim_add(struct core_request *rq, const char *decision, struct str person,
    struct str role, struct str signature, struct str note, int64_t at_us, uint64_t seq);
void core_approve_claims_free(struct core_request *rq);
/* Start or restart the timer of an open request. */
void core_approve_timer(struct core_request *rq);
/* The state in memory alone; the record is there already, or comes. */
void core_approve_state(struct core_request *rq, enum core_request_state s, const char *reason);
struct core_request *core_approve_alloc(struct core_run *run);
void core_approve_free_all(struct core_run *run);

/*
 * core_control.c: what is known of an action's name and what it names, for one line of a list
 * ("rds:DeleteDBInstance prod-db"); "" where the text of the action says it. Of AWS alone: there
 * the first line of a request is the same for every action.
 */
void core_request_does(
    const struct policy *p, const char *target, const struct str *rels, size_t n, struct buf *out);

#endif
