/*
 * Signing a freeze, an exception, a break-glass (process: core). The caller's word counts for
 * nothing: the bytes are built here from core's own record. A freeze holds as soon as its signature
 * is good; what loosens holds when its signatures are durable.
 */
#include <stdio.h>
#include <stdlib.h>

#include "broker/core_data.h"
#include "broker/core_lift.h"
#include "broker/core_offhost.h"
#include "broker/core_peer.h"
#include "broker/core_run.h"
#include "broker/core_sign.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* --- signing ----------------------------------------------------------------------- */

struct check {
	struct core_lift *l;
	struct lift_signer s;
	struct str signature;
	struct hash statement;
	struct sig_sshsig sig;
	bool key_known;
};

/* "any" is no role that people know: it stands in a statement where nobody's role counts. */
static void
say_roles(
    const struct check *k, const struct lift *x, const struct policy_person *q, struct err *why)
{
	AUTO_BUF struct buf roles = BUF(1024);
	bool any = !lift_roles(k->l->core->policy, x, k->s.decision, &roles);
	const char *what = lift_decision_name(x->kind, k->s.decision);

	if (any)
		(void)err_set(why, ERR_SIGNATURE,
		    "to %s this no role is asked for: leave --role away (\"%.*s\" was said)", what,
		    STR_ARG(k->s.role));
	else if (x->kind == LIFT_KIND_BREAKGLASS)
		(void)err_set(why, ERR_SIGNATURE,
		    "only who has role breakglass breaks the glass, and %.*s does not",
		    STR_ARG(q->id));
	else if (str_eqz(k->s.role, "any"))
		(void)err_set(why, ERR_SIGNATURE,
		    "to %s this takes a role (%.*s) that %.*s does not have", what,
		    STR_ARG(buf_str(&roles)), STR_ARG(q->id));
	else
		(void)err_set(why, ERR_SIGNATURE,
		    "role \"%.*s\" is not asked for (%.*s is), or %.*s does not have it",
		    STR_ARG(k->s.role), STR_ARG(buf_str(&roles)), STR_ARG(q->id));
}

/* Rules of the policy on who may say this, when the signature itself is good. */
static const char *
reject_who(const struct check *k, const struct policy_person *q, struct err *why)
{
	const struct core_lift *l = k->l;
	const struct policy *p = l->core->policy;
	const struct core_run *run = core_run_find(l->core, str_z(l->run));
	struct core_lift_words w;
	struct lift x = core_lift_of(l, &w);
	bool start = k->s.decision == LIFT_START;

	if (!lift_role_fits(p, &x, k->s.decision, q, k->s.role)) {
		say_roles(k, &x, q, why);
		return "role";
	}
	if (start && l->kind == LIFT_KIND_EXCEPTION && run != NULL && str_eqz(q->id, run->owner)) {
		(void)err_set(
		    why, ERR_SIGNATURE, "%.*s owns the run and cannot grant this", STR_ARG(q->id));
		return "separation_of_duties";
	}
	if ((k->s.decision == LIFT_CONFIRM || k->s.decision == LIFT_CLOSE) &&
	    str_eqz(q->id, core_lift_starter(l))) {
		(void)err_set(
		    why, ERR_SIGNATURE, "this needs another person than %.*s", STR_ARG(q->id));
		return "separation_of_duties";
	}
	if (start && l->kind == LIFT_KIND_BREAKGLASS && policy_emergency(p).glass_verified &&
	    (!k->sig.key.hardware || (k->sig.flags & 0x04) == 0)) {
		(void)err_set(why, ERR_SIGNATURE,
		    "the policy asks for a hardware key with user verification (PIN or finger)");
		return "user_verification";
	}
	return NULL;
}

/* The reason why it does not count, or NULL. */
static const char *
reject(struct check *k, struct err *why)
{
	AUTO_BUF struct buf bytes = BUF(STATEMENT_MAX);
	const struct policy_person *q;
	struct core_lift_words w;
	struct lift x = core_lift_of(k->l, &w);
	const char *reason =
	    core_sign_person(k->l->core->policy, k->s.person, k->signature, &q, why);

	if (reason != NULL)
		return reason;
	if (lift_bytes(&x, &k->s, &bytes, why) != 0)
		return "statement";
	k->statement = hash_sha256(buf_str(&bytes));
	reason = core_sign_verify(q, k->signature, buf_str(&bytes), &k->sig, &k->key_known, why);
	return reason != NULL ? reason : reject_who(k, q, why);
}

/* One signature, on its way into the log. */
struct sign {
	struct core *core;
	uint64_t peer;
	char id[CORE_ID_SIZE];
	enum lift_kind kind;
	struct core_lift_signed s;
	char *rejected; /* why; NULL: it counts */
};

static void
sign_free(struct sign *s)
{
	if (s == NULL)
		return;
	free(s->s.person);
	free(s->s.role);
	free(s->s.note);
	free(s->rejected);
	free(s);
}
DEFINE_AUTO(sign, struct sign, sign_free)

static struct sign *
sign_new(const struct core_call *call, const struct check *k)
{
	struct sign *s = xcalloc(1, sizeof(*s));

	s->core = call->core;
	s->peer = call->peer;
	memcpy(s->id, k->l->id, sizeof(s->id));
	s->kind = k->l->kind;
	s->s = (struct core_lift_signed){.decision = k->s.decision,
	    .person = str_dup(k->s.person),
	    .role = str_dup(k->s.role),
	    .note = str_dup(k->s.note),
	    .at_us = clock_wall_us()};
	return s;
}

/* The object as it is now, or that it is over: "closed by omar". */
static void
reply_after(const struct sign *s)
{
	struct core_lift *l = core_lift_find(s->core, str_z(s->id));
	AUTO_BUF struct buf b = BUF(1024);
	struct jcs j;

	if (l != NULL) {
		core_lift_reply(s->core, s->peer, l);
		return;
	}
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_open(&j, "object");
	jcs_z(&j, "id", s->id);
	jcs_z(&j, "kind", lift_kind_name(s->kind));
	jcs_z(&j, "state", "over");
	jcs_close(&j);
	jcs_close(&j);
	core_control_reply(s->core, s->peer, 0, buf_str(&b));
}

static void
take(struct sign *s, struct core_lift *l)
{
	if (l != NULL) {
		core_lift_signed_add(l, &s->s);
		core_lift_settle(l);
	}
	reply_after(s);
}

/* The policy wants a break-glass on record elsewhere before it acts. */
static bool
must_ship(const struct core_lift *l)
{
	return l->kind == LIFT_KIND_BREAKGLASS && !l->begun && l->core->policy != NULL &&
	       policy_emergency(l->core->policy).glass_offhost.n != 0;
}

static void
shipped(void *arg, const char *why)
{
	AUTO(sign) struct sign *s = arg;
	struct core_lift *l = core_lift_find(s->core, str_z(s->id));

	if (l != NULL && !l->busy)
		l = NULL; /* the log was read again meanwhile, and this one looked at */
	if (l != NULL)
		l->busy = false;
	if (why == NULL) {
		take(s, l);
		return;
	}
	core_control_reply(s->core, s->peer, ERR_UNAVAILABLE, str_z(why));
	if (l != NULL)
		core_lift_end(l, "it was not shipped in time");
}

static void
sign_acked(void *arg, const struct core_ack *ack)
{
	AUTO(sign) struct sign *s = arg;
	struct core_lift *l = core_lift_find(s->core, str_z(s->id));

	if (l != NULL)
		l->busy = false;
	if (s->rejected != NULL) {
		core_control_reply(s->core, s->peer, ERR_SIGNATURE, str_z(s->rejected));
	} else if (ack->code != 0) {
		core_control_reply(s->core, s->peer, ERR_UNAVAILABLE,
		    l != NULL && l->kind == LIFT_KIND_FREEZE && l->state == CORE_LIFT_FORCE
			? STR("the decision log is not available: nothing passes now, but a "
			      "freeze that is not on the record is forgotten when it comes back: "
			      "start it again then")
			: STR("the decision log is not available: the signature does not count"));
	} else if (l != NULL && s->s.decision == LIFT_START && must_ship(l)) {
		struct policy_emergency e = policy_emergency(l->core->policy);

		l->busy = true;
		core_offhost_wait(
		    s->core, e.glass_offhost, ack->seq, e.glass_offhost_s, shipped, s);
		(void)TAKE_PTR(s);
	} else {
		take(s, l);
	}
}

static int
record_rejected(struct core_call *call, const struct check *k, const char *reason,
    const struct err *why, struct err *err)
{
	AUTO(sign) struct sign *s = sign_new(call, k);
	AUTO_BUF struct buf b = BUF(4096);
	char fp[64] = "", type[32];

	if (k->key_known)
		sig_pubkey_fingerprint(&k->sig.key, fp);
	s->rejected = xasprintf("rejected: %s: %s", reason, why->msg);
	log_warn("%s %s: signature for %.*s %s", lift_kind_name(k->l->kind), k->l->id,
	    STR_ARG(k->s.person), s->rejected);
	core_data_rejected(&b, k->l->id,
	    str_mem(k->s.person.p, k->s.person.n < 128 ? k->s.person.n : 128), str_z(fp), reason);
	if (core_record(
		call->core, &(struct core_append){.type = core_lift_type(k->l, "rejected", type),
				.src = "human",
				.data = &b,
				.fn = sign_acked,
				.arg = s}) == NULL)
		return err_set(err, ERR_SIGNATURE, "%s", s->rejected);
	(void)TAKE_PTR(s);
	return CORE_CALL_LATER;
}

static void
data_sign(struct buf *out, const struct check *k, int64_t at_us)
{
	char fp[64], at[CLOCK_TEXT_SIZE];
	struct jcs j;

	sig_pubkey_fingerprint(&k->sig.key, fp);
	clock_format(at_us, at);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "at", at);
	jcs_z(&j, "decision", lift_decision_name(k->l->kind, k->s.decision));
	jcs_z(&j, "id", k->l->id);
	jcs_z(&j, "key", fp);
	if (k->s.note.n != 0)
		jcs_str(&j, "note", k->s.note);
	jcs_str(&j, "person", k->s.person);
	jcs_str(&j, "role", k->s.role);
	jcs_str_lossy(&j, "signature", k->signature);
	jcs_hex(&j, "statement", k->statement.b, HASH_LEN);
	jcs_close(&j);
}

static int
record_signed(struct core_call *call, const struct check *k, struct err *err)
{
	AUTO(sign) struct sign *s = sign_new(call, k);
	AUTO_BUF struct buf b = BUF(16384);
	struct core_lift *l = k->l;
	char type[32];

	/* Tightening does not wait for the disk. */
	if (l->kind == LIFT_KIND_FREEZE && k->s.decision == LIFT_START) {
		l->state = CORE_LIFT_FORCE;
		l->from_us = s->s.at_us;
	}
	data_sign(&b, k, s->s.at_us);
	if (core_record(call->core, &(struct core_append){.type = core_lift_type(l, "sign", type),
					.src = "human",
					.flags = CORE_REC_CHECKPOINT,
					.data = &b,
					.fn = sign_acked,
					.arg = s}) == NULL)
		return err_set(err, ERR_UNAVAILABLE,
		    "the decision log is not available: the signature does not count");
	l->busy = true;
	(void)TAKE_PTR(s);
	return CORE_CALL_LATER;
}

/* --- may it be signed now? ----------------------------------------------------------- */

/* Another break-glass that stands in the way of a new one; NULL: none. */
static const struct core_lift *
glass_before(const struct core_lift *l)
{
	const struct core_lift *o;

	TAILQ_FOREACH (o, &l->core->lifts, link)
		if (o != l && o->kind == LIFT_KIND_BREAKGLASS &&
		    (o->state == CORE_LIFT_REVIEW ||
			(o->state == CORE_LIFT_FORCE && strcmp(o->target, l->target) == 0)))
			return o;
	return NULL;
}

static bool
fits_state(const struct core_lift *l, enum lift_decision d)
{
	switch (d) {
	case LIFT_NOTHING: return false;
	case LIFT_START: return l->state == CORE_LIFT_ASKED;
	case LIFT_CONFIRM: return l->state == CORE_LIFT_FORCE;
	case LIFT_STOP:
		return l->state == CORE_LIFT_FORCE ||
		       (l->state == CORE_LIFT_ASKED && l->kind != LIFT_KIND_FREEZE);
	case LIFT_CLOSE: return l->state == CORE_LIFT_REVIEW;
	}
	return false;
}

static const char *
does_not_fit(const struct core_lift *l, enum lift_decision d)
{
	if (d == LIFT_NOTHING)
		return "there is no such decision";
	if (d == LIFT_CLOSE)
		return "it is reviewed once it has ended";
	if (l->state == CORE_LIFT_ASKED)
		return "nobody has started it, so there is nothing to end or confirm";
	return d == LIFT_START ? "it needs no more signatures" : "it has ended";
}

static int
may_sign(const struct core_lift *l, enum lift_decision d, struct err *err)
{
	const struct core_lift *o = glass_before(l);

	if (l->busy)
		return err_set(err, ERR_BUSY, "%s %s is taking another signature, try again",
		    lift_kind_name(l->kind), l->id);
	if (!fits_state(l, d))
		return err_set(err, ERR_STATE, "%s %s is %s: %s", lift_kind_name(l->kind), l->id,
		    core_lift_state_name(l), does_not_fit(l, d));
	if (d == LIFT_START &&
	    core_lift_count(l->core, l->kind, CORE_LIFT_FORCE) >= CORE_LIFT_FORCE_MAX)
		return err_set(err, ERR_TOO_LARGE, "%d of a kind are in force, the limit",
		    CORE_LIFT_FORCE_MAX);
	if (d == LIFT_START && l->kind == LIFT_KIND_BREAKGLASS && o != NULL)
		return err_set(err, ERR_STATE,
		    o->state == CORE_LIFT_REVIEW
			? "break-glass %s must be reviewed first: another person runs cofferdam "
			  "breakglass review %s"
			: "break-glass %s is in force for the same target; it ends, and is "
			  "reviewed, before another (%s)",
		    o->id, o->id);
	if (l->nsigned >= CORE_LIFT_SIGNED_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "%d signatures, the limit", CORE_LIFT_SIGNED_MAX);
	return 0;
}

static bool
signed_before(const struct core_lift *l, const struct lift_signer *s)
{
	for (size_t i = 0; i < l->nsigned; i++)
		if (l->sigs[i].decision == s->decision && str_eqz(s->person, l->sigs[i].person))
			return true;
	return false;
}

int
core_lift_verb_sign(struct core_call *call, struct err *err)
{
	struct core_lift *l = core_lift_named(call, err);
	struct check k = {.l = l,
	    .s = {.role = json_str(json_get(call->args, "role")),
		.person = json_str(json_get(call->args, "person")),
		.note = json_str(json_get(call->args, "note"))},
	    .signature = json_str(json_get(call->args, "signature"))};
	struct err why = {0};
	const char *reason;
	int rc;

	if (l == NULL)
		return err->code;
	k.s.decision = lift_decision_parse(l->kind, json_str(json_get(call->args, "decision")));
	rc = may_sign(l, k.s.decision, err);
	if (rc != 0)
		return rc;
	if (k.signature.n > SIG_SSHSIG_MAX)
		return err_set(err, ERR_INVALID, "a signature has up to %d bytes, has %zu",
		    SIG_SSHSIG_MAX, k.signature.n);
	if (str_text_check("a note", k.s.note, 0, LIFT_REASON_MAX, err) != 0)
		return err->code;
	reason = reject(&k, &why);
	if (reason != NULL)
		return record_rejected(call, &k, reason, &why, err);
	if (signed_before(l, &k.s)) {
		core_lift_data_show(&call->j, "object", l);
		return 0;
	}
	return record_signed(call, &k, err);
}

/* --- from the log ------------------------------------------------------------------- */

/* One that is in the log counts by the same checks as one that a person sends. */
static bool
claim_good(struct core_lift *l, const struct core_lift_signed *s)
{
	struct check k = {.l = l,
	    .s = {.decision = s->decision,
		.role = str_z(s->role),
		.person = str_z(s->person),
		.note = str_z(s->note)},
	    .signature = str_z(s->signature)};
	struct err why = {0};
	const char *reason = reject(&k, &why);

	if (reason == NULL && s->decision == LIFT_START && s->at_us > l->sign_by_us)
		reason = "expired";
	if (reason == NULL)
		return true;
	log_error("%s %s: the signature of %s in record %llu does not count: %s: %s",
	    lift_kind_name(l->kind), l->id, s->person, (unsigned long long)s->seq, reason, why.msg);
	return false;
}

/* False: something in it was not signed by whom the log says. */
static bool
claims_take(struct core_lift *l)
{
	bool good = true;
	size_t n = 0;

	for (size_t i = 0; i < l->nsigned; i++) {
		struct core_lift_signed *s = &l->sigs[i];

		if (s->signature != NULL && !claim_good(l, s)) {
			good = false;
			free(s->person);
			free(s->role);
			free(s->note);
			free(s->signature);
			continue;
		}
		free(s->signature);
		s->signature = NULL;
		l->sigs[n++] = *s;
	}
	l->nsigned = n;
	return good;
}

static struct core_lift *
unchecked(const struct core *c)
{
	struct core_lift *l;

	TAILQ_FOREACH (l, &c->lifts, link)
		if (!l->checked && l->state != CORE_LIFT_RECORDING)
			return l;
	return NULL;
}

static void
drop(void *arg)
{
	sign_free(arg);
}

void
core_lift_sign_free(struct core *c)
{
	core_offhost_free(c, drop);
}

void
core_lift_check_log(struct core *c)
{
	struct core_lift *l;

	while (c->policy != NULL && (l = unchecked(c)) != NULL) {
		l->checked = true;
		/* A freeze holds all the same: what only tightens needs no proof. */
		if (!claims_take(l) && l->kind != LIFT_KIND_FREEZE) {
			core_lift_end(l, "a signature does not verify");
			continue;
		}
		/* Nobody knows any more whether it was shipped in time. */
		if (must_ship(l) && core_lift_people(l, LIFT_START, NULL) != 0) {
			core_lift_end(l, "interrupted before it was known to be shipped");
			continue;
		}
		core_lift_timer(l);
		core_lift_settle(l);
	}
}
