/*
 * Taking a signature (process: core). The caller's word counts for nothing: the statement is
 * built here from core's own record of the request, and the signature over exactly these bytes
 * must be by a key that the policy gives to that person. What is rejected is recorded too.
 */
#include "broker/core_sign.h"

#include <stdio.h>
#include <stdlib.h>

#include "broker/core_data.h"
#include "broker/core_peer.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* --- the statement --------------------------------------------------------------- */

void
core_sign_sha256(char out[80], const struct hash *h)
{
	char hex[HASH_HEX_SIZE];

	hash_hex(h, hex);
	(void)snprintf(out, 80, "sha256:%s", hex);
}

void
core_sign_broker(char out[80], const struct core *c)
{
	(void)snprintf(out, 80, "sha256:%s", c->vkey_hash);
}

void
core_sign_statement(const struct core_request *rq, const char *decision, struct str role,
    struct str person, struct core_statement *ret)
{
	const struct core_run *run = rq->run;

	*ret = (struct core_statement){.effects = BUF(512)};
	core_sign_broker(ret->broker, run->core);
	core_sign_sha256(ret->action, &rq->action);
	core_sign_sha256(ret->policy, &rq->policy);
	effect_put(&ret->effects, rq->effects);
	ret->s = (struct statement){
	    .decision = str_z(decision),
	    .broker = str_z(ret->broker),
	    .request = str_z(rq->id),
	    .action = str_z(ret->action),
	    .policy = str_z(ret->policy),
	    .log_head = str_z(rq->log_head),
	    .agent = str_z(run->agent),
	    .run = str_z(run->id),
	    .owner = str_z(run->owner),
	    .target = str_z(rq->target),
	    .effects = buf_str(&ret->effects),
	    .rule = str_z(rq->rule),
	    .role = role,
	    .approver = person,
	    .max_rows = rq->max_rows,
	    .preview = str_z(rq->preview),
	    .not_before_us = rq->not_before_us,
	    .approve_by_us = rq->approve_by_us,
	    .use_within_s = rq->use_within_s,
	    .show = str_z(rq->show),
	};
}

void
core_sign_statement_free(struct core_statement *st)
{
	buf_free(&st->effects);
}

/* --- one signature, on its way into the log -------------------------------------- */

struct sign {
	struct core *core;
	uint64_t peer;
	const char *decision;
	char id[CORE_ID_SIZE];
	char *person, *role, *note;
	struct sig_sshsig by;
	int64_t at_us;
	char *rejected; /* why; NULL: it counts */
};

static void
sign_free(struct sign *s)
{
	if (s == NULL)
		return;
	free(s->person);
	free(s->role);
	free(s->note);
	free(s->rejected);
	free(s);
}
DEFINE_AUTO(sign, struct sign, sign_free)

/* Only hardware tells. */
static bool
verified(const struct sig_sshsig *by)
{
	return by->key.hardware && (by->flags & SIG_VERIFIED) != 0;
}

static void
sign_settle(struct sign *s, struct core_request *rq)
{
	AUTO_FREE char *by =
	    xasprintf("%s by %s%s%s", strcmp(s->decision, "deny") == 0 ? "denied" : "revoked",
		s->person, s->note[0] != '\0' ? ": " : "", s->note);

	if (strcmp(s->decision, "approve") == 0) {
		core_approve_grant_add(rq, str_z(s->person), str_z(s->role), &s->by.key,
		    verified(&s->by), s->at_us, false);
		core_approve_settle(rq);
	} else {
		core_approve_state(
		    rq, strcmp(s->decision, "deny") == 0 ? CORE_RQ_DENIED : CORE_RQ_VOID, by);
	}
}

static void
reply_state(struct core *c, uint64_t peer, const struct core_request *rq)
{
	AUTO_BUF struct buf b = BUF(65536);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	core_control_state(&j, rq);
	jcs_close(&j);
	core_control_reply(c, peer, 0, buf_str(&b));
}

static void
sign_acked(void *arg, const struct core_ack *ack)
{
	AUTO(sign) struct sign *s = arg;
	struct core_request *rq = core_approve_by_id(s->core, str_z(s->id));

	if (rq != NULL)
		rq->busy = false;
	if (s->rejected != NULL)
		core_control_reply(s->core, s->peer, ERR_SIGNATURE, str_z(s->rejected));
	else if (ack->code != 0 || rq == NULL)
		core_control_reply(s->core, s->peer, ERR_UNAVAILABLE,
		    STR("the decision log is not available: the signature does not count"));
	else if (!core_request_open(rq))
		core_control_reply(
		    s->core, s->peer, ERR_STATE, str_z(core_request_state_name(rq->state)));
	if (s->rejected != NULL || ack->code != 0 || rq == NULL || !core_request_open(rq))
		return;
	sign_settle(s, rq);
	reply_state(s->core, s->peer, rq);
}

/* --- checks ---------------------------------------------------------------------- */

static bool
in_slots(const struct core_request *rq, struct str role)
{
	for (size_t i = 0; i < rq->nslots; i++)
		if (str_eq(rq->slots[i].role, role))
			return true;
	return false;
}

const char *
core_sign_person(const struct policy *p, struct str person, struct str signature,
    const struct policy_person **ret, struct err *why)
{
	*ret = p != NULL ? policy_person(p, person) : NULL;
	if (*ret == NULL) {
		(void)err_set(
		    why, ERR_SIGNATURE, "\"%.*s\" is no person of the policy", STR_ARG(person));
		return "not_a_person";
	}
	if (signature.n == 0) {
		(void)err_set(why, ERR_SIGNATURE, "a name alone is no signature");
		return "no_signature";
	}
	return NULL;
}

const char *
core_sign_verify(const struct policy_person *q, struct str signature, struct str bytes,
    struct sig_sshsig *ret, bool *ret_known, struct err *why)
{
	*ret_known =
	    sig_verify(signature, STATEMENT_NAMESPACE, bytes, q->keys, q->nkeys, ret, why) == 0;
	if (!*ret_known)
		return "signature";
	if (policy_person_has_key(q, &ret->key))
		return NULL;
	(void)err_set(
	    why, ERR_SIGNATURE, "the key is not one of %.*s's in the policy", STR_ARG(q->id));
	return "unknown_key";
}

struct check {
	const struct core_request *rq;
	struct str person, role, signature, note;
	const char *decision;
	struct hash statement;
	struct sig_sshsig by;
	bool key_known;
};

/* The reason why it does not count, or NULL. *why has words for the person. */
static const char *
reject(struct check *k, struct err *why)
{
	const struct policy_person *q;
	bool approve = strcmp(k->decision, "approve") == 0;
	AUTO_BUF struct buf bytes = BUF(STATEMENT_MAX);
	struct core_statement st;
	const char *reason =
	    core_sign_person(k->rq->run->core->policy, k->person, k->signature, &q, why);
	int rc;

	if (reason != NULL)
		return reason;
	core_sign_statement(k->rq, k->decision, k->role, k->person, &st);
	st.s.note = k->note;
	rc = statement_bytes(&st.s, &bytes, why);
	core_sign_statement_free(&st);
	if (rc != 0)
		return "statement";
	k->statement = hash_sha256(buf_str(&bytes));
	reason = core_sign_verify(q, k->signature, buf_str(&bytes), &k->by, &k->key_known, why);
	if (reason != NULL)
		return reason;
	if (approve && core_approve_is_own(k->rq, k->person)) {
		(void)err_set(why, ERR_SIGNATURE,
		    "%.*s owns the run or started it, and cannot approve it", STR_ARG(k->person));
		return "separation_of_duties";
	}
	if (approve && k->rq->verify && !verified(&k->by)) {
		(void)err_set(why, ERR_SIGNATURE,
		    "the policy asks for a hardware key with user verification (PIN or finger)");
		return "verification";
	}
	if (approve && (!policy_person_has_role(q, k->role) || !in_slots(k->rq, k->role))) {
		(void)err_set(why, ERR_SIGNATURE,
		    "role \"%.*s\" is not asked for, or %.*s does not have it", STR_ARG(k->role),
		    STR_ARG(k->person));
		return "role";
	}
	return NULL;
}

static bool
granted_before(const struct core_request *rq, struct str person)
{
	for (size_t i = 0; i < rq->ngrants; i++)
		if (str_eq(rq->grants[i].person, person))
			return true;
	return false;
}

/* --- from the log ---------------------------------------------------------------- */

/* One that is in the log counts by the same checks as one that a person sends. */
static bool
claim_take(struct core_request *rq, const struct core_claim *cl)
{
	struct check k = {.rq = rq,
	    .person = str_z(cl->person),
	    .role = str_z(cl->role),
	    .signature = str_z(cl->signature),
	    .note = str_z(cl->note),
	    .decision = cl->decision};
	struct err why = {0};
	const char *reason = reject(&k, &why);

	if (reason != NULL) {
		log_error("request %s: the %s of %s in record %llu does not count: %s: %s", rq->id,
		    cl->decision, cl->person, (unsigned long long)cl->seq, reason, why.msg);
		return false;
	}
	if (strcmp(cl->decision, "approve") == 0 && !granted_before(rq, k.person))
		core_approve_grant_add(
		    rq, k.person, k.role, &k.by.key, verified(&k.by), cl->at_us, false);
	return true;
}

static struct core_request *
unchecked(const struct core *c)
{
	struct core_run *run;
	struct core_request *rq;

	TAILQ_FOREACH (run, &c->runs, link)
		TAILQ_FOREACH (rq, &run->requests, link)
			if (rq->nclaims != 0 && hash_eq(&rq->policy, policy_digest(c->policy)))
				return rq;
	return NULL;
}

void
core_sign_check_log(struct core *c)
{
	struct core_request *rq;

	while (c->policy != NULL && (rq = unchecked(c)) != NULL) {
		bool good = true;

		for (size_t i = 0; i < rq->nclaims; i++)
			if (!claim_take(rq, &rq->claims[i]))
				good = false;
		core_approve_claims_free(rq);
		if (!good)
			core_approve_end(rq, CORE_RQ_VOID, "signature does not verify");
	}
}

/* --- records --------------------------------------------------------------------- */

static struct sign *
sign_new(const struct core_call *call, const struct check *k)
{
	struct sign *s = xcalloc(1, sizeof(*s));

	s->core = call->core;
	s->peer = call->peer;
	s->decision = k->decision;
	memcpy(s->id, k->rq->id, sizeof(s->id));
	s->person = str_dup(k->person);
	s->role = str_dup(k->role);
	s->note = str_dup(k->note);
	s->by = k->by;
	s->at_us = clock_wall_us();
	return s;
}

static int
record_rejected(struct core_call *call, const struct check *k, const char *reason,
    const struct err *why, struct err *err)
{
	AUTO(sign) struct sign *s = sign_new(call, k);
	struct core_run *run = k->rq->run;
	AUTO_BUF struct buf b = BUF(4096);
	char fp[64] = "";

	if (k->key_known)
		sig_pubkey_fingerprint(&k->by.key, fp);
	s->rejected = xasprintf("rejected: %s: %s", reason, why->msg);
	log_warn("request %s: signature for %.*s %s", k->rq->id, STR_ARG(k->person), s->rejected);
	core_data_rejected(&b, k->rq->id,
	    str_mem(k->person.p, k->person.n < 128 ? k->person.n : 128), str_z(fp), reason);
	if (core_record(call->core, &(struct core_append){.type = "approval.rejected",
					.src = "human",
					.run = run->id,
					.data = &b,
					.fn = sign_acked,
					.arg = s}) == NULL)
		return err_set(err, ERR_SIGNATURE, "%s", s->rejected);
	(void)TAKE_PTR(s);
	return CORE_CALL_LATER;
}

static const char *
record_type(const char *decision)
{
	if (strcmp(decision, "approve") == 0)
		return "approval.grant";
	return strcmp(decision, "deny") == 0 ? "approval.deny" : "approval.void";
}

static int
record_signed(
    struct core_call *call, struct core_request *rq, const struct check *k, struct err *err)
{
	AUTO(sign) struct sign *s = sign_new(call, k);
	AUTO_BUF struct buf b = BUF(CORE_RECORD_DATA_MAX);
	char fp[64];

	sig_pubkey_fingerprint(&k->by.key, fp);
	core_data_grant(
	    &b, &(struct core_data_grant){.id = rq->id,
		    .person = k->person,
		    .role = k->role,
		    .key = str_z(fp),
		    .by = &k->by,
		    .signature = k->signature,
		    .note = k->note,
		    .statement = k->statement,
		    .at_us = s->at_us,
		    .reason = strcmp(k->decision, "revoke") == 0 ? STR("revoked") : STR("")});
	if (core_record(call->core, &(struct core_append){.type = record_type(k->decision),
					.src = "human",
					.flags = CORE_REC_CHECKPOINT,
					.run = rq->run->id,
					.data = &b,
					.fn = sign_acked,
					.arg = s}) == NULL)
		return err_set(err, ERR_UNAVAILABLE,
		    "the decision log is not available: the signature does not count");
	rq->busy = true;
	(void)TAKE_PTR(s);
	return CORE_CALL_LATER;
}

static int
sign(struct core_call *call, const char *decision, struct err *err)
{
	struct str id = json_str(json_get(call->args, "id"));
	struct core_request *rq = core_approve_by_id(call->core, id);
	struct check k = {.rq = rq,
	    .person = json_str(json_get(call->args, "person")),
	    .role = json_str(json_get(call->args, "role")),
	    .signature = json_str(json_get(call->args, "signature")),
	    .note = json_str(json_get(call->args, "note")),
	    .decision = decision};
	struct err why = {0};
	const char *reason;

	if (rq == NULL)
		return err_set(err, ERR_NOT_FOUND, "there is no request \"%.*s\"", STR_ARG(id));
	if (core_request_open(rq) && rq->busy)
		return err_set(
		    err, ERR_BUSY, "request %s is taking another signature, try again", rq->id);
	if (!core_request_open(rq) || rq->state == CORE_RQ_RECORDING)
		return err_set(err, ERR_STATE, "request %s is %s%s%s", rq->id,
		    core_request_state_name(rq->state), rq->reason != NULL ? ": " : "",
		    rq->reason != NULL ? rq->reason : "");
	if (str_text_check("a reason", k.note, 0, STATEMENT_NOTE_MAX, err) != 0)
		return err->code;
	if (k.signature.n > SIG_SSHSIG_MAX)
		return err_set(err, ERR_TOO_LARGE, "signature has %zu bytes, limit %d",
		    k.signature.n, SIG_SSHSIG_MAX);
	reason = reject(&k, &why);
	if (reason != NULL)
		return record_rejected(call, &k, reason, &why, err);
	if (strcmp(decision, "approve") == 0 && granted_before(rq, k.person)) {
		core_control_state(&call->j, rq);
		return 0;
	}
	return record_signed(call, rq, &k, err);
}

int
core_sign_approve(struct core_call *call, struct err *err)
{
	return sign(call, "approve", err);
}

int
core_sign_deny(struct core_call *call, struct err *err)
{
	return sign(call, "deny", err);
}

int
core_sign_revoke(struct core_call *call, struct err *err)
{
	return sign(call, "revoke", err);
}
