/*
 * Signatures on requests (process: core): kept in memory once durable, or as claims until they have
 * been verified after a restart; what they settle is decided by policy/approval.c alone.
 */
#include "broker/core_approve.h"

#include <stdlib.h>

#include "broker/core_data.h"
#include "broker/core_lift.h"
#include "common/xalloc.h"

#include "common/banned.h"

void
core_approve_grant_add(struct core_request *rq, struct str person, struct str role,
    const struct sig_pubkey *key, bool verified, int64_t at_us, bool deny)
{
	struct approval_grant *g;

	if (rq->ngrants >= APPROVAL_GRANTS_MAX)
		return;
	g = &rq->grants[rq->ngrants++];
	*g = (struct approval_grant){.person = str_mem(str_dup(person), person.n),
	    .role = str_mem(str_dup(role), role.n),
	    .ns = STR("cofferdam-approval"),
	    .at_us = at_us,
	    .deny = deny,
	    .verified = verified};
	if (key != NULL)
		g->key = *key;
}

void
core_approve_claim_add(struct core_request *rq, const char *decision, struct str person,
    struct str role, struct str signature, struct str note, int64_t at_us, uint64_t seq)
{
	if (rq->nclaims >= APPROVAL_GRANTS_MAX)
		return;
	rq->claims = xreallocarray(rq->claims, rq->nclaims + 1, sizeof(*rq->claims));
	rq->claims[rq->nclaims++] = (struct core_claim){.decision = decision,
	    .person = str_dup(person),
	    .role = str_dup(role),
	    .signature = str_dup(signature),
	    .note = str_dup(note),
	    .at_us = at_us,
	    .seq = seq};
}

void
core_approve_claims_free(struct core_request *rq)
{
	for (size_t i = 0; i < rq->nclaims; i++) {
		free(rq->claims[i].person);
		free(rq->claims[i].role);
		free(rq->claims[i].signature);
		free(rq->claims[i].note);
	}
	free(rq->claims);
	rq->claims = NULL;
	rq->nclaims = 0;
}

static void
arm(struct core_request *rq, const struct approval_result *r)
{
	AUTO_BUF struct buf b = BUF(512);
	char t[CLOCK_TEXT_SIZE];

	rq->state = CORE_RQ_ARMED;
	rq->use_by_us = r->use_by_us;
	clock_format(r->use_by_us, t);
	core_data_id(&b, rq->id, "use_by", t);
	(void)core_record(rq->run->core,
	    &(struct core_append){.type = "approval.armed", .run = rq->run->id, .data = &b});
	core_approve_timer(rq);
}

/* Judged at this moment as if the action came; what r borrows lasts as long as *ret_beside. */
static void
judge_now(const struct core_request *rq, struct approval_result *r, struct core_beside **ret_beside)
{
	AUTO_FREE struct str *rels = NULL;
	const struct core_txn no_txn = {.state = 'I'};
	struct policy_input in = core_approve_input(rq, &rels);
	struct core *c = rq->run->core;

	in.at = core_now(c);
	*ret_beside = core_lift_beside(rq->run, str_z(rq->target), &no_txn, in.at);
	core_lift_beside_input(*ret_beside, &in);
	core_approve_judge(c, rq, false, &in, r);
}

void
core_approve_settle(struct core_request *rq)
{
	AUTO_FREE struct approval_result *r = xcalloc(1, sizeof(*r));
	struct core_beside *beside;

	if (!core_request_open(rq) || rq->run->core->policy == NULL)
		return;
	judge_now(rq, r, &beside);
	core_lift_beside_free(beside); /* what is used of r below does not borrow from it */
	if (r->ended)
		core_approve_end_for(rq, r->reason);
	else if (r->quorum_us != 0 && rq->state == CORE_RQ_PENDING)
		arm(rq, r);
	else if (r->quorum_us == 0 && rq->state == CORE_RQ_ARMED)
		core_approve_end(rq, CORE_RQ_VOID, "armed without its signatures");
}

void
core_approve_now(const struct core_request *rq, struct jcs *j)
{
	AUTO_FREE struct approval_result *r = xcalloc(1, sizeof(*r));
	struct core_beside *beside;

	if (!core_request_open(rq) || rq->run->core->policy == NULL)
		return;
	judge_now(rq, r, &beside);
	jcs_open(j, "now");
	if (r->decision.calendar.n != 0)
		jcs_str(j, "calendar", r->decision.calendar);
	jcs_z(j, "text", r->decision.text);
	jcs_time_known(j, "until", r->decision.until_us);
	jcs_z(j, "verdict", verdict_name(r->decision.verdict));
	jcs_close(j);
	core_lift_beside_free(beside);
}

static struct core_request *
unsettled(const struct core *c)
{
	struct core_run *run;
	struct core_request *rq;

	TAILQ_FOREACH (run, &c->runs, link)
		TAILQ_FOREACH (rq, &run->requests, link)
			if (!rq->settled && (rq->state == CORE_RQ_ARMED ||
						(rq->state == CORE_RQ_PENDING && rq->ngrants != 0)))
				return rq;
	return NULL;
}

void
core_approve_settle_all(struct core *c)
{
	struct core_request *rq;

	while (c->policy != NULL && (rq = unsettled(c)) != NULL) {
		rq->settled = true;
		core_approve_settle(rq);
	}
}
