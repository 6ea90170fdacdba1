/*
 * What people sign beside the policy, as core holds it: emergency freezes, exceptions, break-glass
 * (policy/lift.h says what each may be). The log is the only store; memory follows what is durable,
 * but for a freeze, which holds from the moment its signature is good.
 */
#ifndef BROKER_CORE_LIFT_H
#define BROKER_CORE_LIFT_H

#include "broker/core_control.h"
#include "policy/lift.h"

#define CORE_LIFT_ASKED_MAX 64	 /* of a kind that wait for signatures */
#define CORE_LIFT_ASKED_BY_MAX 8 /* and of one who asked: nobody takes the place of all */
#define CORE_LIFT_FORCE_MAX 16	 /* of a kind in force: all of them stand in each action's record */
#define CORE_LIFT_SIGNED_MAX 32	 /* signatures on one */

enum core_lift_state {
	CORE_LIFT_RECORDING = 0, /* not durable yet: nobody can sign */
	CORE_LIFT_ASKED,
	CORE_LIFT_FORCE,
	CORE_LIFT_REVIEW, /* break-glass: over, and not yet looked at by another person */
};

/* One signature. From the log it counts once it has been verified again. */
struct core_lift_signed {
	enum lift_decision decision;
	char *person, *role, *note, *signature; /* signature: NULL once verified */
	int64_t at_us;
	uint64_t seq;
};

struct core_lift {
	TAILQ_ENTRY(core_lift) link;
	struct core *core;
	enum lift_kind kind;
	enum core_lift_state state;
	char id[CORE_ID_SIZE]; /* 26 digits of base32 */
	struct hash policy;
	char *rule, *target, *env, *run, *ticket, *reason; /* "" none */
	char *log_head, *by;				   /* by: who asked, a login */
	char *why;					   /* of a review: how it ended */
	uint32_t effects;
	int64_t from_us, to_us, seconds, uses, used, sign_by_us;
	size_t nsigned;
	struct core_lift_signed sigs[CORE_LIFT_SIGNED_MAX];
	bool slots_known; /* of an exception, under the policy in force */
	size_t nslots;
	struct policy_slot
	    slots[POLICY_SLOTS_MAX]; /* who must grant it; borrowed from the policy */
	struct loop_timer *timer;
	struct core_ticket *ticket_request;
	uint64_t peer; /* who waits for its request to be durable */
	bool busy;     /* a signature is being recorded */
	bool begun;    /* its KIND.begin is in the log, or on its way */
	bool checked;  /* its signatures have been verified by this process */
};

/* --- core_lift.c: what is in force ----------------------------------------------------- */

/* Copies of what stands beside the policy, for one action: they outlive its verdict and record. */
struct core_beside {
	size_t nlifts, noverlays;
	struct policy_lift *lifts;
	struct policy_overlay *overlays;
};
/*
 * What holds for an action of `run` on `target`. txn: what has been used in its transaction holds
 * for its end without another use; NULL: nothing is lifted, only freezes are looked at. NULL:
 * nothing holds. The caller frees.
 */
struct core_beside *core_lift_beside(
    const struct core_run *run, struct str target, const struct core_txn *txn, struct instant now);
void core_lift_beside_free(struct core_beside *b);
void core_lift_beside_input(
    const struct core_beside *b, struct policy_input *in); /* b may be NULL */
/*
 * An action that would have been denied but for exceptions is about to be sent: each is used once,
 * on the record before the action's. False: it cannot be recorded.
 */
bool core_lift_use(struct core_run *run, const struct core_action *a, const struct core_txn *txn);

/* --- core_lift_life.c: objects, their ends ---------------------------------------------- */

struct core_lift *core_lift_find(const struct core *c, struct str id); /* NULL: none */
const char *core_lift_state_name(const struct core_lift *l);	       /* as people are told it */
size_t core_lift_count(const struct core *c, enum lift_kind k, enum core_lift_state s);
struct core_lift *core_lift_alloc(struct core *c, enum lift_kind k);
void core_lift_free(struct core_lift *l);
void core_lift_free_all(struct core *c);
/* As policy/lift.h has it; borrowed from l and *ret_words. */
struct core_lift_words {
	char broker[80], policy[80];
};
struct lift core_lift_of(const struct core_lift *l, struct core_lift_words *w);
/* A verified signature is kept and does what it says. */
void core_lift_signed_add(struct core_lift *l, const struct core_lift_signed *s);
void core_lift_settle(struct core_lift *l);
/* It ends: the record, and gone; a break-glass that was in force stays for its review. */
void core_lift_end(struct core_lift *l, const char *why);
void core_lift_timer(struct core_lift *l);
/* Another policy, or none, is in force: what loosens is void. */
void core_lift_policy_changed(struct core *c);
/* Distinct people who signed this, but for one (NULL: nobody is left out). */
unsigned core_lift_people(const struct core_lift *l, enum lift_decision d, const char *but);
/* Of an exception: who has not granted it yet, `owner` (may be empty) left out. False: not known.
 */
bool core_lift_missing(
    struct core_lift *l, struct str owner, struct policy_slot out[POLICY_SLOTS_MAX], size_t *ret_n);
/* Does the exception's quorum hold with `owner` (may be empty) left out? */
bool core_lift_quorum(struct core_lift *l, struct str owner);
const char *core_lift_starter(const struct core_lift *l); /* "" nobody */

/* --- core_lift_ask.c ------------------------------------------------------------------------ */

int core_lift_verb_request(struct core_call *call, struct err *err);
int core_lift_verb_show(struct core_call *call, struct err *err);
struct core_lift *core_lift_named(const struct core_call *call, struct err *err); /* by "id" */
void core_lift_reply(struct core *c, uint64_t peer, struct core_lift *l);

/* --- core_lift_sign.c: from people and from the log -------------------------------------- */

int core_lift_verb_sign(struct core_call *call, struct err *err);
/* Signatures that came back from the log, once the policy is known. */
void core_lift_check_log(struct core *c);
void core_lift_sign_free(struct core *c); /* signatures that wait to be shipped; at the end */

/* --- core_lift_data.c: records, and what people are shown -------------------------------- */

void core_lift_data_request(struct buf *out, const struct core_lift *l);
void core_lift_data_begin(struct buf *out, const struct core_lift *l);
/* One of freezes, exceptions, breakglass as `status` and `list` have it. */
void core_lift_data_show(struct jcs *j, const char *key, struct core_lift *l);
void core_lift_data_lists(struct jcs *j, const struct core *c, const char *key, enum lift_kind k);
void core_lift_data_input(struct jcs *j, const struct policy_input *in); /* lifts, overlays */
const char *core_lift_type(const struct core_lift *l, const char *what, char out[32]);

/* --- core_lift_live.c --------------------------------------------------------------------- */

/* A live record of one of the three kinds: 0, or ERR_TAMPER; *ret_mine false: it is of another. */
int core_lift_live(struct core *c, struct str type, const struct json *data, uint64_t seq,
    const struct hash *root, bool *ret_mine, struct err *err);

#endif
