/*
 * May this request pass at this moment, with these signatures? Pure. Core asks when a grant
 * arrives and again right before sending; whatever has changed since the people signed (the
 * action, the policy, the keys, the time, the calendar) ends or holds the request.
 */
#include "policy/approval.h"

#include "common/xalloc.h"

#include "policy/statement.h"

#include "common/banned.h"

#define SECOND 1000000

const char *
approval_reason_name(enum approval_reason r)
{
	switch (r) {
#define X(name) \
	case APPROVAL_REASON_##name: return #name;
		APPROVAL_REASONS(X)
#undef X
	}
	return "none";
}

static bool
key_is_revoked(const struct approval_check *c, const struct sig_pubkey *k)
{
	for (size_t i = 0; i < c->nrevoked; i++)
		if (sig_pubkey_eq(&c->revoked[i], k))
			return true;
	return false;
}

/* Why a signature does not count; none if it does. Denials are held to the same. */
static enum approval_reason
grant_fault(const struct approval_check *c, const struct approval_grant *g)
{
	const struct policy_person *q = policy_person(c->policy, g->person);

	if (q == NULL)
		return APPROVAL_REASON_not_a_person;
	if (!str_eqz(g->ns, STATEMENT_NAMESPACE))
		return APPROVAL_REASON_namespace;
	if (!policy_person_has_key(q, &g->key) || key_is_revoked(c, &g->key))
		return APPROVAL_REASON_key_revoked;
	/* The owner may not give, but may always refuse; nor may whoever started it, or told
	 * it what to do since. */
	if (!g->deny &&
	    (c->pending->owner.p == NULL || str_eq(q->id, c->pending->owner) ||
		str_eq(q->id, c->pending->invoker) || policy_input_own(c->input, q->id)))
		return APPROVAL_REASON_separation_of_duties;
	if (!g->deny && c->pending->verify && !g->verified)
		return APPROVAL_REASON_verification;
	if (!g->deny &&
	    (g->at_us < c->pending->not_before_us || g->at_us > c->pending->approve_by_us))
		return APPROVAL_REASON_expired;
	return APPROVAL_REASON_none;
}

/* Roles that a person can fill here, by what was signed, and by what they hold. */
static bool
slots_filled(const struct approval_check *c, const struct policy_grant *grants, size_t n,
    const struct policy_slot *slots, size_t nslots)
{
	struct decision d = {.nslots = nslots};
	struct policy_grant held[APPROVAL_GRANTS_MAX * 4];
	struct policy_slot open[POLICY_SLOTS_MAX];
	size_t nheld = 0;

	(void)memcpy(d.slots, slots, nslots * sizeof(*slots));
	for (size_t i = 0; i < n; i++) {
		const struct policy_person *q = policy_person(c->policy, grants[i].person);

		for (size_t s = 0; q != NULL && s < nslots && nheld < ARRAY_LEN(held); s++)
			if (policy_person_has_role(q, slots[s].role) &&
			    (grants[i].role.n == 0 || str_eq(grants[i].role, slots[s].role)))
				held[nheld++] =
				    (struct policy_grant){q->id, slots[s].role, grants[i].verified};
	}
	return policy_slots_open(&d, held, nheld, c->pending->owner, open) == 0;
}

struct sift {
	bool veto;
	enum approval_reason first_fault; /* of the grants left out, in order of arrival */
};

/* Sort the grants into those that count and why others do not; notes when quorum was reached. */
static void
sift_grants(const struct approval_check *c, struct approval_result *r, struct sift *s)
{
	size_t n = c->ngrants < APPROVAL_GRANTS_MAX ? c->ngrants : APPROVAL_GRANTS_MAX;

	for (size_t i = 0; i < n; i++) {
		const struct approval_grant *g = &c->grants[i];
		enum approval_reason fault = grant_fault(c, g);

		if (fault == APPROVAL_REASON_none && g->deny) {
			s->veto = true;
			continue;
		}
		if (fault != APPROVAL_REASON_none || g->deny) {
			if (s->first_fault == APPROVAL_REASON_none && !g->deny)
				s->first_fault = fault;
			continue;
		}
		r->counted[r->ncounted++] = (struct policy_grant){g->person, g->role, g->verified};
		if (r->quorum_us == 0 &&
		    slots_filled(c, r->counted, r->ncounted, c->pending->slots, c->pending->nslots))
			r->quorum_us = g->at_us;
	}
	if (r->quorum_us != 0)
		r->use_by_us = c->pending->use_within_s != 0
				   ? r->quorum_us + c->pending->use_within_s * SECOND
				   : c->pending->approve_by_us;
}

static void
result_set(struct approval_result *r, enum verdict v, enum approval_reason reason, bool ended)
{
	r->verdict = v;
	r->reason = reason;
	r->ended = ended;
}

/* What ends or holds a request whatever the rules say. False: go on to the rules. */
static bool
judge_life(const struct approval_check *c, const struct sift *s, struct approval_result *r)
{
	const struct approval_pending *p = c->pending;
	struct instant now = c->input->at;

	if (p->consumed)
		result_set(r, VERDICT_DENY, APPROVAL_REASON_already_used, true);
	else if (s->veto)
		result_set(r, VERDICT_DENY, APPROVAL_REASON_veto, true);
	else if (!hash_eq(&p->policy, policy_digest(c->policy)))
		result_set(r, VERDICT_DENY, APPROVAL_REASON_policy_mismatch, true);
	else if (!hash_eq(&p->action, c->action))
		result_set(r, VERDICT_DENY, APPROVAL_REASON_digest_mismatch, false);
	else if (!now.known || now.us < p->not_before_us)
		result_set(r, VERDICT_DENY, APPROVAL_REASON_clock, false);
	else if (now.us > p->approve_by_us && now.us > r->use_by_us)
		result_set(r, VERDICT_DENY, APPROVAL_REASON_expired, true);
	else if (r->quorum_us != 0 && now.us > r->use_by_us)
		result_set(r, VERDICT_DENY, APPROVAL_REASON_use_window, true);
	else
		return false;
	return true;
}

void
approval_judge(const struct approval_check *c, struct approval_result *ret)
{
	struct sift s = {.first_fault = APPROVAL_REASON_none};
	AUTO_FREE struct approval_result *r = xcalloc(1, sizeof(*r));

	sift_grants(c, r, &s);
	policy_eval(c->policy, c->input, r->counted, r->ncounted, &r->decision);
	if (!judge_life(c, &s, r)) {
		switch (r->decision.verdict) {
		case VERDICT_ALLOW:
			/* Quorum of what was asked, too: the text that was signed says so. */
			if (r->quorum_us != 0)
				result_set(r, VERDICT_ALLOW, APPROVAL_REASON_none, false);
			else
				result_set(r, VERDICT_NEEDS_APPROVAL,
				    s.first_fault != APPROVAL_REASON_none ? s.first_fault
									  : APPROVAL_REASON_quorum,
				    false);
			break;
		case VERDICT_NEEDS_APPROVAL:
			result_set(r, VERDICT_NEEDS_APPROVAL,
			    r->quorum_us != 0			    ? APPROVAL_REASON_freeze_started
			    : s.first_fault != APPROVAL_REASON_none ? s.first_fault
								    : APPROVAL_REASON_quorum,
			    false);
			break;
		case VERDICT_DENY:
			result_set(r, VERDICT_DENY, APPROVAL_REASON_freeze_started, false);
			break;
		}
	}
	*ret = *r;
}
