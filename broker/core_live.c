/*
 * Rebuilding memory from the log (process: core). One record that does not have the form it must
 * have ends the wire: core then refuses everything rather than go on with half of the truth.
 * Trusts no record with what a person alone can give: signatures are verified again.
 */
#include "broker/core_live.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "audit/rates.h"
#include "broker/core_act.h"
#include "broker/core_approve.h"
#include "broker/core_attempt.h"
#include "broker/core_boot.h"
#include "broker/core_child.h"
#include "broker/core_doubt.h"
#include "broker/core_erase.h"
#include "broker/core_http.h"
#include "broker/core_kept.h"
#include "broker/core_lift.h"
#include "broker/core_peer.h"
#include "broker/core_pg.h"
#include "broker/core_policy.h"
#include "broker/core_rate.h"
#include "broker/core_run.h"
#include "broker/core_sequence.h"
#include "broker/core_steer.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct rec {
	struct core *core;
	struct str run, time;
	uint64_t seq;
	const struct json *data;
	struct hash root;
};

void
core_live_begin(struct core *c)
{
	struct core_run *run;

	TAILQ_FOREACH (run, &c->runs, link) {
		run->seen = false;
		core_approve_free_all(run);
	}
	core_lift_free_all(c);
	core_doubt_reset(c);
	free(TAKE_PTR(c->log_damage)); /* a new writer looks anew */
	core_policy_live_begin(c);
	rates_clear(c->rates);
}

/* --- reading --------------------------------------------------------------------- */

static struct str
field(const struct rec *r, const char *key)
{
	return json_str(json_get(r->data, key));
}

static int
bad(const struct rec *r, const char *what, struct err *err)
{
	return err_set(err, ERR_TAMPER, "live record %llu: %s is missing or malformed",
	    (unsigned long long)r->seq, what);
}

static bool
time_field(const struct rec *r, const char *key, int64_t *ret)
{
	return clock_parse(field(r, key), ret, NULL) == 0;
}

static int
on_policy(struct rec *r, bool unload, struct err *err)
{
	return core_policy_live(r->core, r->data, unload) ? 0 : bad(r, "digest", err);
}

static int
on_run(const struct rec *r, const char *fault, struct err *err)
{
	return fault != NULL ? bad(r, fault, err) : 0;
}

/* --- requests -------------------------------------------------------------------- */

static bool
slots_read(struct core_request *rq, const struct json *v)
{
	if (json_type(v) != JSON_ARRAY || json_count(v) > POLICY_SLOTS_MAX)
		return false;
	for (size_t i = 0; i < json_count(v); i++) {
		struct str s = json_str(json_at(v, i)), role;
		uint64_t n;

		if (!str_cut(&s, ':', &role) ||
		    !str_to_u64(s, POLICY_QUORUM_MAX * POLICY_SLOTS_MAX, &n))
			return false;
		rq->slots[rq->nslots++] =
		    (struct policy_slot){str_mem(str_dup(role), role.n), (unsigned)n};
	}
	return true;
}

static void
rels_read(struct core_request *rq, const struct json *v)
{
	size_t n = json_count(v) < CORE_ACTION_RELS ? json_count(v) : CORE_ACTION_RELS;

	rq->rels = xcalloc(n, sizeof(*rq->rels));
	for (rq->nrels = 0; rq->nrels < n; rq->nrels++)
		rq->rels[rq->nrels] = str_dup(json_str(json_at(v, rq->nrels)));
}

/* The action in full: sealed in the record itself; NULL when it was too large or cannot be opened.
 */
static char *
show_open(const struct core_run *run, const struct rec *r)
{
	AUTO_BUF struct buf frame = BUF(CORE_SHOW_FRAME_MAX);
	AUTO_BUF struct buf plain = BUF(BLOB_PLAIN_MAX);
	struct blob_ref ref;
	struct err err;

	if (field(r, "show_frame").n == 0 || !enc_unbase64(field(r, "show_frame"), &frame) ||
	    blob_ref_parse(json_get(r->data, "show"), &ref, &err) != 0 ||
	    blob_open(run->key, buf_str(&frame), &ref, &plain, &err) != 0)
		return NULL;
	return buf_dup_z(&plain);
}

/* Nobody signed the list itself: it must be what `action` binds. */
static bool
steps_read(struct core_request *rq, const struct rec *r)
{
	const struct json *v = json_get(r->data, "steps");
	size_t n = v != NULL ? json_count(v) : 1;
	struct hash action;

	if (n == 0 || n > CORE_STEPS_MAX)
		return false;
	rq->steps = xcalloc(n, sizeof(*rq->steps));
	rq->steps[0] = rq->action;
	for (rq->nsteps = 0; rq->nsteps < n; rq->nsteps++)
		if (v != NULL &&
		    !hash_from_hex(json_str(json_at(v, rq->nsteps)), &rq->steps[rq->nsteps]))
			return false;
	action = digest_sequence(rq->steps, n);
	return hash_eq(&action, &rq->action);
}

static bool
request_fields(struct core_request *rq, const struct rec *r)
{
	const struct json *input = json_get(r->data, "input"), *max = json_get(r->data, "max_rows");
	struct str id = field(r, "id"), first = field(r, "first");

	if (id.n == 0 || id.n >= sizeof(rq->id) || first.n >= sizeof(rq->first))
		return false;
	memcpy(rq->id, id.p, id.n);
	if (first.n != 0)
		memcpy(rq->first, first.p, first.n);
	rq->target = str_dup(field(r, "target"));
	rq->rule = str_dup(field(r, "rule"));
	rq->statements = (unsigned)json_int(json_get(input, "statements"));
	rq->deferred = json_bool(json_get(input, "deferred"));
	rels_read(rq, json_get(input, "relations"));
	rq->max_rows = max != NULL ? json_int(max) : -1;
	rq->verify = json_bool(json_get(r->data, "verify"));
	if (field(r, "preview").n != 0)
		rq->preview = str_dup(field(r, "preview"));
	if (!digest_parts_read(field(r, "fields"), &rq->parts))
		return false;
	rq->within_s = json_int(json_get(r->data, "within"));
	rq->use_within_s = json_int(json_get(r->data, "use_within"));
	rq->body_bytes = (uint64_t)json_int(json_get(r->data, "body_bytes"));
	rq->body = hash_from_hex(field(r, "body_sha256"), &rq->body_sha256);
	return hash_from_hex(field(r, "action"), &rq->action) && steps_read(rq, r) &&
	       hash_from_hex(field(r, "policy"), &rq->policy) &&
	       effect_from_json(json_get(r->data, "effects"), &rq->effects) &&
	       time_field(r, "not_before", &rq->not_before_us) &&
	       time_field(r, "approve_by", &rq->approve_by_us) &&
	       slots_read(rq, json_get(r->data, "slots"));
}

static int
on_request(struct rec *r, struct core_run *run, struct err *err)
{
	struct core_request *rq;
	AUTO_BUF struct buf root = BUF(64);
	unsigned long long size = r->seq + 1;
	struct str id = field(r, "id");

	if (core_approve_by_id(r->core, id) != NULL) {
		log_error("live record %llu: request %.*s is there already", size - 1, STR_ARG(id));
		return 0;
	}
	rq = core_approve_alloc(run);
	enc_base64(&root, str_mem(r->root.b, HASH_LEN));
	rq->state = CORE_RQ_PENDING;
	rq->log_head = xasprintf("%s %llu %.*s", r->core->origin, size, STR_ARG(buf_str(&root)));
	if (!request_fields(rq, r))
		return bad(r, "request", err);
	rq->show = show_open(run, r);
	return 0;
}

/* Whoever can append to the log can write any record, but not sign: checked in core_sign.c, when
 * log key and policy are known. */
static void
claim_read(const struct rec *r, struct core_request *rq, const char *decision)
{
	int64_t at;

	if (!time_field(r, "at", &at))
		at = 0;
	core_approve_claim_add(rq, decision, field(r, "person"), field(r, "role"),
	    field(r, "signature"), field(r, "note"), at, r->seq);
}

static const struct {
	const char *type;
	enum core_request_state state;
} ends[] = {
    {"approval.consumed", CORE_RQ_CONSUMED},
    {"approval.expired", CORE_RQ_EXPIRED},
    {"approval.void", CORE_RQ_VOID},
    {"approval.deny", CORE_RQ_DENIED},
};

static int
on_approval(struct rec *r, const char *type, struct err *err)
{
	struct core_run *run = core_run_find(r->core, r->run);
	struct core_request *rq;

	if (run == NULL)
		return 0; /* said before: its run cannot be taken up */
	if (strcmp(type, "approval.request") == 0)
		return on_request(r, run, err);
	rq = core_approve_by_id(r->core, field(r, "id"));
	if (rq == NULL || rq->run != run)
		return 0; /* approval.rejected of an id that never was */
	if (strcmp(type, "approval.grant") == 0) {
		claim_read(r, rq, "approve");
	} else if (strcmp(type, "approval.armed") == 0) {
		if (!time_field(r, "use_by", &rq->use_by_us))
			return bad(r, "use_by", err);
		if (core_request_open(rq)) /* one that was used stays used */
			rq->state = CORE_RQ_ARMED;
	}
	if (strcmp(type, "approval.deny") == 0)
		claim_read(r, rq, "deny");
	else if (strcmp(type, "approval.void") == 0 && field(r, "signature").n != 0)
		claim_read(r, rq, "revoke");
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (strcmp(type, ends[i].type) == 0)
			core_approve_state(rq, ends[i].state, type + strlen("approval."));
	rq->covered = rq->covered || (rq->state == CORE_RQ_VOID &&
					 str_has_prefix(field(r, "reason"), CORE_COVERED));
	return 0;
}

static void
on_alarm(const struct rec *r)
{
	struct core_run *run = core_run_find(r->core, r->run);

	if (run != NULL && run->rebuilt)
		run->alarms++;
}

static int
on_refused(struct rec *r, struct err *err)
{
	struct core_run *run = core_run_find(r->core, r->run);

	/* Without its run: said before, it cannot be taken up. */
	return run == NULL || core_attempt_live(run, r->seq, r->data) ? 0 : bad(r, "refused", err);
}

/* --- the wire -------------------------------------------------------------------- */

static int
dispatch(struct rec *r, struct str type, struct err *err)
{
	AUTO_FREE char *z = str_dup(type);
	bool mine;
	int rc = core_lift_live(r->core, type, r->data, r->seq, &r->root, &mine, err);

	if (rc != 0 || mine)
		return rc;
	if (strcmp(z, "policy.load") == 0)
		return on_policy(r, false, err);
	if (strcmp(z, "policy.unload") == 0)
		return on_policy(r, true, err);
	if (strcmp(z, "run.start") == 0)
		return on_run(r, core_kept_start(r->core, r->run, r->time, r->data), err);
	if (strcmp(z, "run.targets") == 0)
		return on_run(r, core_kept_targets(r->core, r->run, r->data), err);
	if (strcmp(z, "run.message") == 0 || strcmp(z, "run.pause") == 0 ||
	    strcmp(z, "run.resume") == 0 || strcmp(z, "run.stop") == 0)
		return on_run(r, core_steer_kept(r->core, r->run, z, r->seq, r->data), err);
	if (strcmp(z, "run.alarm") == 0)
		on_alarm(r);
	if (strcmp(z, "action") == 0)
		return core_doubt_action(r->core, r->run, r->seq, r->data, err);
	if (strcmp(z, "outcome") == 0) /* the writer keeps none that is not in doubt */
		core_doubt_outcome(
		    r->core, r->run, r->time, r->seq, field(r, "action"), field(r, "status"));
	if (str_has_prefix(type, "approval."))
		return on_approval(r, z, err);
	if (strcmp(z, "rate") == 0 && !core_rate_live(r->core, r->data))
		return bad(r, "rate", err);
	if (strcmp(z, "refused") == 0)
		return on_refused(r, err);
	return 0;
}

int
core_live_on_record(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct rec r = {.core = p->core};
	struct str text = rd_lstr(body), root = rd_bytes(body, HASH_LEN);
	const struct json *o;
	int rc;

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "W_LIVE is malformed");
	memcpy(r.root.b, root.p, HASH_LEN);
	rc = json_parse(text, "live record", &doc, err);
	if (rc != 0)
		return rc;
	o = json_root(doc);
	r.run = json_str(json_get(o, "run"));
	r.time = json_str(json_get(o, "time"));
	r.seq = (uint64_t)json_int(json_get(o, "seq"));
	r.data = json_get(o, "data");
	return dispatch(&r, json_str(json_get(o, "type")), err);
}

static struct core_request *
unshown(const struct core *c)
{
	struct core_run *run;
	struct core_request *rq;

	TAILQ_FOREACH (run, &c->runs, link)
		TAILQ_FOREACH (rq, &run->requests, link)
			if (core_request_open(rq) && rq->show == NULL)
				return rq;
	return NULL;
}

/* An action that cannot be shown any more cannot be signed for. */
static void
settle_requests(struct core *c)
{
	struct core_run *run;
	struct core_request *rq;

	while ((rq = unshown(c)) != NULL)
		core_approve_end(rq, CORE_RQ_VOID, "not_shown_after_restart");
	TAILQ_FOREACH (run, &c->runs, link)
		TAILQ_FOREACH (rq, &run->requests, link)
			if (core_request_open(rq))
				core_approve_timer(rq);
}

static struct core_run *
vanished(const struct core *c)
{
	struct core_run *run;

	TAILQ_FOREACH (run, &c->runs, link)
		if (!run->seen && run->state == CORE_RUN_LIVE)
			return run;
	return NULL;
}

/* Everything that passes is still on the record; whoever reads status learns that what was, is not
 * whole. */
int
core_live_on_damage(
    struct core_peer *p, struct rd *body, int *fds UNUSED, size_t nfds UNUSED, struct err *err)
{
	struct core *c = p->core;
	uint64_t seq = rd_u64(body);
	struct str kind = rd_lstr(body), text = rd_lstr(body);
	AUTO_FREE char *kind_vis = NULL, *text_vis = NULL;

	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "W_DAMAGE is malformed");
	kind_vis = log_vis(kind);
	text_vis = log_vis(text);
	free(c->log_damage);
	c->log_damage =
	    kind.n == 0 ? NULL : xasprintf("%s at record %" PRIu64 ": %s", kind_vis, seq, text_vis);
	return 0;
}

int
core_live_on_end(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	struct core *c = p->core;
	uint64_t size = rd_u64(body);
	struct str time = rd_lstr(body), vkey = rd_lstr(body);
	struct core_run *run;
	struct hash h;
	int64_t us = 0;

	(void)fds;
	(void)nfds;
	if (!rd_end(body) || (time.n != 0 && clock_parse(time, &us, err) != 0))
		return err_set(err, ERR_PROTOCOL, "W_LIVE_END is malformed");
	if (us > c->last_us)
		c->last_us = us;
	h = hash_sha256(str_trim(vkey));
	hash_hex(&h, c->vkey_hash);
	c->log_size = size;
	c->live = true;
	p->state = CORE_S_OPEN;
	while ((run = vanished(c)) != NULL)
		core_run_end(run, "lost", STR("the log does not have its start"), false);
	core_child_end_orphans(c);
	TAILQ_FOREACH (run, &c->runs, link)
		run->rebuilt = false;
	core_doubt_settle(c);
	settle_requests(c);
	core_boot_policy(c);
	core_boot_requests(c);
	core_erase_settle(c);
	core_kept_settle(c);
	core_peer_listen(c);
	c->was_live = true;
	return 0;
}
