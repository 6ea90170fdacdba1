/*
 * One action: what it is, what it does, what the policy says to it now. The one place where
 * core asks policy_eval() about an action, so that there is one verdict for all ways in.
 */
#ifndef BROKER_CORE_DECIDE_H
#define BROKER_CORE_DECIDE_H

#include "audit/receipt.h"
#include "broker/core_facts.h"
#include "broker/core_stmt.h"
#include "broker/core_txn.h"

struct core_act;

enum core_op {
	CORE_OP_CONNECT,
	CORE_OP_QUERY,
	CORE_OP_EXECUTE,
	CORE_OP_PREPARE, /* an exchange that executes nothing, or a Parse that is refused at once */
	CORE_OP_FUNCTION,
	CORE_OP_HTTP,
	CORE_OP_CANCEL,
};

struct core_beside;

/* Where an action comes from and where it goes; the same for every protocol. */
struct core_from {
	struct core_run *run;
	const struct core_target *target; /* of the run; NULL: nothing that the run may reach */
	uint64_t id;			  /* connection, as front names it */
	const char *protocol;		  /* of the record: "postgresql", "http" */
	char *address;			  /* "host:port" */
	char *credential;
	char credential_fp[17];
	const struct core_conn *pg; /* NULL: not PostgreSQL */
};
const char *core_from_target(const struct core_from *f); /* id, "" without a target */

#define CORE_ACTION_RELS (2 * FACTS_RELATIONS_MAX)
struct core_action {
	char id[CORE_ID_SIZE];
	enum core_op op;
	struct core_act *act; /* NULL for a connect */
	size_t at;	      /* offset of its message in the act */

	/* What it is. */
	struct str text;	  /* the statement; borrowed from the act, or from stmt */
	struct core_stmt *stmt;	  /* owned reference */
	char *inner;		  /* texts that EXECUTEs in it run; owned, NULL: none */
	struct core_facts *facts; /* owned reference */
	struct str params;	  /* Bind body behind its names; borrowed */
	bool dml, hidden_dml, fence,
	    txn; /* changes rows; not all countable; not inside a block; controls a transaction */
	uint32_t max_fetch; /* Execute's own row count */
	uint32_t effects;
	unsigned statements;
	bool deferred; /* it acts later */
	size_t nrels;
	struct str rels[CORE_ACTION_RELS];
	char txn_state; /* before it */
	uint32_t txn_effects;
	bool commits;	   /* judged with the transaction's union */
	int64_t began_us;  /* of a transaction that this ends, and does nothing else; 0 */
	char *unwitnessed; /* refuse_why, where that is why; owned */
	const char *refuse_state,
	    *refuse_why; /* core itself cannot let it pass; an @escape effect says so too */
	char *show;	 /* the action in full, as people are shown it */
	struct hash digest;
	struct digest_parts parts; /* of it */

	/* What was decided. */
	struct instant now;
	struct hash policy; /* by which; zeros: by none */
	size_t nrates;
	struct policy_rate_count rates[POLICY_RATES_MAX]; /* as it was judged by */
	bool counted;					  /* for those rules */
	struct core_beside *beside; /* owned: what stood beside the policy; NULL: nothing */
	struct decision d; /* its strings belong to the policy, valid until it is replaced, or to
			      `beside` */
	size_t ngrants;
	struct policy_grant grants[APPROVAL_GRANTS_MAX];
	char *preview;		      /* of the request that it uses; owned, NULL: none */
	struct core_request *request; /* asked for, still pending, or to be consumed */
	bool request_new, consume;
	bool next;     /* it goes on with a request of several steps that its transaction uses */
	bool approved; /* so is the request, but not from here on */
	bool linked;
	uint64_t link;	  /* seq */
	unsigned attempt; /* how many tries at this in a row were refused before it */
	char *unshown;	  /* why there is no preview, where people must be shown one; owned, NULL */
	char *sqlstate, *message, *detail, *hint; /* of a refusal */

	uint64_t seq;		/* once durable */
	struct receipt receipt; /* of its record */
	bool durable;
};
struct core_act;
struct core_action *core_action_new(enum core_op op);
void core_action_free(struct core_action *a);
const char *core_op_name(enum core_op op);
/* It ends a transaction that was open before it, and does nothing else. */
bool core_action_only_ends(const struct core_action *a);
/*
 * Nothing is changed, whatever becomes of it: it has effects, and neither they nor those of what
 * its transaction did before go beyond @data.
 */
bool core_effects_read(uint32_t effects, uint32_t txn_effects);
bool core_action_reads(const struct core_action *a);
/* Another policy is in force than it was judged by: the verdict is nobody's any more. */
bool core_action_outdated(const struct core *c, const struct core_action *a);

/* As policy_eval() gets it; borrowed from run and action. */
struct policy_input core_decide_input(
    const struct core_run *run, struct str target, const struct core_action *a);
/*
 * Three steps; effects, digest and show are set before. Judge: verdict, grants, an armed or
 * pending request of the same digest. Refuse: for what core cannot do although it might be
 * permitted; judged again with EFFECT_opaque. Finish: link, request (a new one in memory when
 * approval is needed), and the words of a refusal.
 */
/* What stands beside the policy, at a->now; txn NULL: nothing is lifted. Part of judging. */
void core_decide_beside(
    const struct core_from *f, struct core_action *a, const struct core_txn *txn);
void core_decide_judge(
    const struct core_from *f, struct core_action *a, const struct core_txn *txn);
void core_decide_refuse(const struct core_from *f, struct core_action *a,
    const struct core_txn *txn, const char *sqlstate, const char *why);
/* What is armed is not used now: judged as if nobody had signed; the request stays as it is. */
void core_decide_unused(const struct core_from *f, struct core_action *a);
/*
 * Would what was let through be so now? For who waited between verdict and dispatch: windows and
 * emergency freezes may have begun. Signatures and lifts count as they did.
 */
bool core_decide_holds(const struct core_from *f, const struct core_action *a);
void core_decide_finish(const struct core_from *f, struct core_action *a);
/*
 * Behind it, once the target was asked, or could not be: a new request whose rule demands a preview
 * and that has none is taken back, and the refusal says why.
 */
void core_decide_shown(const struct core_from *f, struct core_action *a);
void core_decide_words(const struct core_from *f, struct core_action *a); /* of a refusal */

#endif
