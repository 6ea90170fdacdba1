/*
 * Requests for approval (process: core). Whether a request passes is decided by policy/approval.c
 * alone; this file keeps the requests, their timers and their records. A request is used at
 * most once: it is burnt in memory before approval.consumed is written, and by that record
 * after a restart.
 */
#include "broker/core_approve.h"

#include <stdlib.h>

#include "broker/core_data.h"
#include "broker/core_pg.h"
#include "broker/core_run.h"
#include "broker/core_sequence.h"
#include "broker/core_steer.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

const char *
core_request_state_name(enum core_request_state s)
{
	switch (s) {
	case CORE_RQ_RECORDING: return "recording";
	case CORE_RQ_PENDING: return "pending";
	case CORE_RQ_ARMED: return "armed";
	case CORE_RQ_CONSUMED: return "consumed";
	case CORE_RQ_DENIED: return "denied";
	case CORE_RQ_EXPIRED: return "expired";
	case CORE_RQ_VOID: return "void";
	}
	return "invalid";
}

const char *
core_request_id(const struct core_request *rq)
{
	return rq->id;
}

bool
core_request_armed(const struct core_request *rq)
{
	return rq->state == CORE_RQ_ARMED;
}

bool
core_request_open(const struct core_request *rq)
{
	return rq->state == CORE_RQ_RECORDING || rq->state == CORE_RQ_PENDING ||
	       rq->state == CORE_RQ_ARMED;
}

size_t
core_request_steps(const struct core_request *rq)
{
	return rq->nsteps;
}

/* --- memory ---------------------------------------------------------------------- */

struct core_request *
core_approve_alloc(struct core_run *run)
{
	struct core_request *rq = xcalloc(1, sizeof(*rq));

	rq->run = run;
	rq->max_rows = -1;
	TAILQ_INSERT_TAIL(&run->requests, rq, link);
	run->npending++;
	return rq;
}

static void
request_free(struct core_request *rq)
{
	TAILQ_REMOVE(&rq->run->requests, rq, link);
	loop_timer_del(rq->timer);
	core_record_forget(rq->ticket);
	for (size_t i = 0; i < rq->nrels; i++)
		free(rq->rels[i]);
	for (size_t i = 0; i < rq->nslots; i++)
		free((void *)(uintptr_t)rq->slots[i].role.p);
	for (size_t i = 0; i < rq->ngrants; i++) {
		free((void *)(uintptr_t)rq->grants[i].person.p);
		free((void *)(uintptr_t)rq->grants[i].role.p);
	}
	core_approve_claims_free(rq);
	free(rq->rels);
	free(rq->steps);
	free(rq->reason);
	free(rq->target);
	free(rq->rule);
	free(rq->log_head);
	free(rq->show);
	free(rq->preview);
	free(rq);
}

void
core_approve_free_all(struct core_run *run)
{
	struct core_request *rq;

	while ((rq = TAILQ_FIRST(&run->requests)) != NULL)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not follow TAILQ_REMOVE */
		request_free(rq);
	run->npending = run->nended = 0;
}

static void
forget_oldest_ended(struct core_run *run, const struct core_request *but)
{
	struct core_request *rq;

	TAILQ_FOREACH (rq, &run->requests, link)
		if (!core_request_open(rq) && rq->fn == NULL && rq != but) {
			request_free(rq);
			run->nended--;
			return;
		}
}

void
core_approve_state(struct core_request *rq, enum core_request_state s, const char *reason)
{
	bool was_open = core_request_open(rq);

	rq->state = s;
	if (core_request_open(rq))
		return;
	free(rq->reason);
	rq->reason = xstrdup(reason);
	rq->covered = s == CORE_RQ_VOID && str_has_prefix(str_z(reason), CORE_COVERED);
	if (!was_open)
		return;
	loop_timer_del(rq->timer);
	rq->timer = NULL;
	rq->run->npending--;
	rq->run->nended++;
	log_info("request %s: %s (%s)", rq->id, core_request_state_name(s), reason);
	if (rq->run->nended > CORE_ENDED_MAX)
		forget_oldest_ended(rq->run, rq);
}

struct core_request *
core_approve_find(const struct core_run *run, const struct hash *action)
{
	struct core_request *rq;

	TAILQ_FOREACH (rq, &run->requests, link)
		if (core_request_open(rq) && hash_eq(&rq->action, action))
			return rq;
	return NULL;
}

struct core_request *
core_approve_by_id(const struct core *c, struct str id)
{
	struct core_run *run;
	struct core_request *rq;

	TAILQ_FOREACH (run, &c->runs, link)
		TAILQ_FOREACH (rq, &run->requests, link)
			if (str_eqz(id, rq->id))
				return rq;
	return NULL;
}

/* --- making one ------------------------------------------------------------------ */

struct core_request *
core_approve_new(const struct core_from *f, const struct core_action *a)
{
	struct core_request *rq = core_approve_alloc(f->run);
	uint8_t r[16];
	AUTO_BUF struct buf id = BUF(CORE_ID_SIZE);

	rand_bytes(r, sizeof(r));
	enc_base32(&id, str_mem(r, sizeof(r)));
	memcpy(rq->id, id.p, id.n);
	core_sequence_fill(rq, f, a);
	rq->parts = a->parts;
	rq->policy = *policy_digest(f->run->core->policy);
	memcpy(rq->first, a->id, sizeof(rq->first));
	rq->target = xstrdup(core_from_target(f));
	if (f->pg == NULL)
		rq->max_rows = -1; /* nothing else has rows to count */
	rq->within_s = rq->within_s > 0 ? rq->within_s : CORE_WITHIN_S;
	rq->use_within_s = rq->use_within_s > 0 ? rq->use_within_s : CORE_USE_WITHIN_S;
	rq->not_before_us = a->now.us / 1000000 * 1000000; /* as the statement shows it */
	rq->approve_by_us = rq->not_before_us + rq->within_s * 1000000;
	return rq;
}

static void
record_acked(void *arg, const struct core_ack *ack)
{
	struct core_request *rq = arg;
	core_ack_fn *fn = rq->fn;
	AUTO_BUF struct buf root = BUF(64);
	unsigned long long size = ack->seq + 1;

	rq->ticket = NULL;
	rq->fn = NULL;
	if (ack->code != 0) {
		core_approve_state(rq, CORE_RQ_VOID, "not_recorded");
	} else {
		enc_base64(&root, str_mem(ack->root.b, HASH_LEN));
		free(rq->log_head);
		rq->log_head =
		    xasprintf("%s %llu %.*s", rq->run->core->origin, size, STR_ARG(buf_str(&root)));
		if (rq->state == CORE_RQ_RECORDING)
			rq->state = CORE_RQ_PENDING;
		core_approve_timer(rq);
		core_sequence_covers(rq);
	}
	if (fn != NULL)
		fn(rq->arg, ack);
}

bool
core_approve_record(struct core_request *rq, core_ack_fn *fn, void *arg)
{
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX);
	AUTO_BUF struct buf frame = BUF(CORE_RECORD_FRAMES_MAX);
	struct core_run *run = rq->run;
	struct blob_ref show;
	struct err err;

	if (blob_seal(run->key, str_z(run->id), "text/plain", str_z(rq->show), &frame, &show,
		&err) != 0) {
		log_error("request %s: %s", rq->id, err.msg);
		core_approve_state(rq, CORE_RQ_VOID, "not_recorded");
		return false;
	}
	core_data_request(&data, rq, &show, buf_str(&frame));
	rq->ticket = core_record(run->core, &(struct core_append){.type = "approval.request",
						.run = run->id,
						.flags = CORE_REC_ROOT,
						.data = &data,
						.frame = &frame,
						.fn = record_acked,
						.arg = rq});
	if (rq->ticket == NULL) {
		core_approve_state(rq, CORE_RQ_VOID, "not_recorded");
		return false;
	}
	rq->fn = fn;
	rq->arg = arg;
	return true;
}

void
core_approve_forget(struct core_request *rq)
{
	rq->fn = NULL;
}

/* --- judging --------------------------------------------------------------------- */

struct policy_input
core_approve_input(const struct core_request *rq, struct str **ret_rels)
{
	const struct core_run *run = rq->run;
	struct policy_input in = {0};

	*ret_rels = xcalloc(rq->nrels, sizeof(**ret_rels));
	for (size_t i = 0; i < rq->nrels; i++)
		(*ret_rels)[i] = str_z(rq->rels[i]);

	if (run->core->policy != NULL)
		in = policy_input_for(run->core->policy, str_z(rq->target));
	in.agent = str_z(run->agent);
	in.run = str_z(run->id);
	in.owner = str_z(run->owner);
	core_steer_words(run, &in);
	in.effects = rq->effects;
	in.statements = rq->statements;
	in.deferred = rq->deferred;
	in.relations = *ret_rels;
	in.nrelations = rq->nrels;
	return in;
}

/* Whoever has the login now with which the run was started: they may be called otherwise by now. */
static struct str
invoker(const struct core *c, const struct core_run *run)
{
	const struct policy_person *q = c->policy != NULL && run->login != NULL
					    ? policy_person_by_login(c->policy, str_z(run->login))
					    : NULL;

	return q != NULL ? q->id : STR("");
}

bool
core_approve_is_own(const struct core_request *rq, struct str person)
{
	return str_eqz(person, rq->run->owner) || core_steer_gave_words(rq->run, person) ||
	       (person.n != 0 && str_eq(person, invoker(rq->run->core, rq->run)));
}

void
core_approve_judge(const struct core *c, const struct core_request *rq, bool next,
    const struct policy_input *in, struct approval_result *ret)
{
	struct approval_pending p = {
	    .action = rq->action,
	    .policy = rq->policy,
	    .owner = str_z(rq->run->owner),
	    .invoker = invoker(c, rq->run),
	    .verify = rq->verify,
	    .not_before_us = rq->not_before_us,
	    .approve_by_us = rq->approve_by_us,
	    .use_within_s = rq->use_within_s,
	    .nslots = rq->nslots,
	    .consumed = rq->state == CORE_RQ_CONSUMED && !next,
	};
	struct approval_check check = {
	    .pending = &p,
	    .grants = rq->grants,
	    .ngrants = rq->ngrants,
	    .action = &rq->action,
	    .policy = c->policy,
	    .input = in,
	};

	memcpy(p.slots, rq->slots, sizeof(p.slots));
	approval_judge(&check, ret);
}

bool
core_approve_consume(struct core_request *rq, const char *action)
{
	AUTO_BUF struct buf b = BUF(512);

	core_approve_state(rq, CORE_RQ_CONSUMED, action);
	core_data_id(&b, rq->id, "action", action);
	return core_record(rq->run->core, &(struct core_append){.type = "approval.consumed",
					      .run = rq->run->id,
					      .flags = CORE_REC_CHECKPOINT,
					      .data = &b}) != NULL;
}

/* --- ends ------------------------------------------------------------------------ */

void
core_approve_end(struct core_request *rq, enum core_request_state s, const char *reason)
{
	AUTO_BUF struct buf b = BUF(512);
	bool expired = s == CORE_RQ_EXPIRED;

	if (!core_request_open(rq) && !(rq->state == CORE_RQ_DENIED && s == CORE_RQ_VOID))
		return;
	core_data_id(&b, rq->id, expired ? NULL : "reason", reason);
	if (rq->state != CORE_RQ_RECORDING)
		(void)core_record(rq->run->core,
		    &(struct core_append){.type = expired ? "approval.expired" : "approval.void",
			.run = rq->run->id,
			.data = &b});
	core_approve_state(rq, s, reason);
}

void
core_approve_end_for(struct core_request *rq, enum approval_reason reason)
{
	bool time = reason == APPROVAL_REASON_expired || reason == APPROVAL_REASON_use_window;

	core_approve_end(rq, time ? CORE_RQ_EXPIRED : CORE_RQ_VOID, approval_reason_name(reason));
}

static void
end_all(struct core_run *run, const struct hash *keep, const char *reason)
{
	struct core_request *rq;

	/* Ending one may free others: from the start after each. */
	do {
		TAILQ_FOREACH (rq, &run->requests, link)
			if (core_request_open(rq) && (keep == NULL || !hash_eq(&rq->policy, keep)))
				break;
		if (rq != NULL)
			core_approve_end(rq, CORE_RQ_VOID, reason);
	} while (rq != NULL);
}

void
core_approve_policy_changed(struct core *c)
{
	struct core_run *run;

	TAILQ_FOREACH (run, &c->runs, link)
		end_all(run, c->policy != NULL ? policy_digest(c->policy) : NULL, "policy_changed");
}

static bool
shown_on(const struct core_request *rq, const char *target)
{
	return (rq->state == CORE_RQ_PENDING || rq->state == CORE_RQ_ARMED) &&
	       strcmp(rq->target, target) == 0;
}

void
core_approve_schema_changed(const struct core_from *f, const struct core_request *used)
{
	struct core_request *rq;

	do {
		TAILQ_FOREACH (rq, &f->run->requests, link)
			if (rq != used && shown_on(rq, core_from_target(f)))
				break;
		if (rq != NULL)
			core_approve_end(rq, CORE_RQ_VOID, "the schema changed after it was shown");
	} while (rq != NULL);
}

void
core_approve_run_ended(struct core_run *run)
{
	end_all(run, NULL, "run_ended");
}

static void
timer_fired(void *arg)
{
	struct core_request *rq = arg;
	bool armed = rq->state == CORE_RQ_ARMED;
	int64_t by = armed ? rq->use_by_us : rq->approve_by_us;

	rq->timer = NULL;
	if (clock_wall_us() < by)
		core_approve_timer(rq); /* the clock was set back */
	else
		core_approve_end(rq, CORE_RQ_EXPIRED, armed ? "use_window" : "expired");
}

void
core_approve_timer(struct core_request *rq)
{
	int64_t by = rq->state == CORE_RQ_ARMED ? rq->use_by_us : rq->approve_by_us;
	int64_t left = by - clock_wall_us();

	loop_timer_del(rq->timer);
	rq->timer = NULL;
	if (core_request_open(rq) && rq->state != CORE_RQ_RECORDING)
		rq->timer = loop_timer_add(
		    rq->run->core->loop, left > 0 ? (uint64_t)left / 1000 + 1 : 1, timer_fired, rq);
}
