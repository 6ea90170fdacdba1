/*
 * Tries after a refusal (process: core). An agent that was refused and comes back with another way
 * to the same thing is linked to what it was refused, counted, and after as many tries as the
 * policy says, reported and ended. And an action that nearly is what people signed is told apart
 * from it by the first field that differs; it is never taken for it.
 */
#include "broker/core_attempt.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/core_approve.h"
#include "broker/core_child.h"
#include "broker/core_data.h"
#include "broker/core_run.h"
#include "broker/core_words.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "policy/resource.h"

#include "common/banned.h"

/* --- the same object? -------------------------------------------------------------- */

static uint64_t
object_hash(struct str name)
{
	static const unsigned char key[crypto_shorthash_KEYBYTES] = {1};
	unsigned char out[crypto_shorthash_BYTES];
	uint64_t h;

	(void)crypto_shorthash(out, (const unsigned char *)name.p, name.n, key);
	memcpy(&h, out, sizeof(h));
	return h;
}

static bool
shares(const struct core_refused *r, const struct core_action *a)
{
	if (a->nrels == 0 || r->nobjects == 0)
		return a->nrels == r->nobjects;
	for (size_t i = 0; i < a->nrels; i++) {
		uint64_t h = object_hash(a->rels[i]);

		for (size_t k = 0; k < r->nobjects; k++)
			if (r->objects[k] == h)
				return true;
	}
	return false;
}

enum fate { FATE_OPEN, FATE_REFUSED, FATE_USED };

/* Refused for good: at once, or because the people said no, or nothing, in time. */
static enum fate
fate(const struct core_run *run, const struct core_refused *r)
{
	const struct core_request *rq;

	if (r->denied)
		return FATE_REFUSED;
	rq = r->request[0] != '\0' ? core_approve_by_id(run->core, str_z(r->request)) : NULL;
	if (rq == NULL || core_request_open(rq) || rq->covered)
		return FATE_OPEN;
	return rq->state == CORE_RQ_CONSUMED ? FATE_USED : FATE_REFUSED;
}

static const struct core_refused *
entry(const struct core_run *run, size_t back)
{
	return &run->refused[(run->nrefused - back) % CORE_REFUSED_MAX];
}

void
core_attempt_link(struct core_run *of, struct str target, struct core_action *a)
{
	const struct core_run *run = core_child_root(of);
	size_t n = run->nrefused < CORE_REFUSED_MAX ? run->nrefused : CORE_REFUSED_MAX;
	const struct core_refused *same = NULL, *last = NULL;
	bool counted = a->request != NULL;

	a->attempt = 0;
	for (size_t i = 1; i <= n && (same == NULL || !counted); i++) {
		const struct core_refused *r = entry(run, i);

		if (!str_eqz(target, r->target))
			continue;
		if (last == NULL)
			last = r;
		if (!shares(r, a))
			continue;
		if (same == NULL)
			same = r;
		if (counted)
			continue;
		/* What still waits says nothing; what was approved and done begins anew. */
		if (fate(run, r) == FATE_REFUSED)
			a->attempt = r->attempt + 1;
		counted = fate(run, r) != FATE_OPEN;
	}
	if (same == NULL)
		same = last;
	a->linked = same != NULL;
	a->link = same != NULL ? same->seq : 0;
}

/* --- near to what was signed --------------------------------------------------------- */

/* The same thing elsewhere or otherwise, or another thing of the same kind at the same place. */
static bool
near(const struct digest_parts *a, const struct digest_parts *b)
{
	static const enum digest_tag same_thing[] = {DIGEST_OPERATION, DIGEST_RESOURCE},
				     same_place[] = {
					 DIGEST_PROTOCOL, DIGEST_TARGET, DIGEST_EFFECTS};
	bool thing = true, place = true;

	for (size_t i = 0; i < ARRAY_LEN(same_thing); i++)
		thing &= digest_parts_same(a, b, same_thing[i]);
	for (size_t i = 0; i < ARRAY_LEN(same_place); i++)
		place &= digest_parts_same(a, b, same_place[i]);
	return thing || place;
}

static void
mismatch_record(const struct core_request *rq, const struct core_action *a, unsigned tag)
{
	AUTO_BUF struct buf b = BUF(1024);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_z(&j, "action", a->id);
	jcs_z(&j, "field", digest_tag_name((enum digest_tag)tag));
	jcs_z(&j, "id", rq->id);
	jcs_close(&j);
	if (core_record(rq->run->core,
		&(struct core_append){
		    .type = "approval.mismatch", .run = rq->run->id, .data = &b}) == NULL)
		log_warn("request %s: a near miss is not recorded", rq->id);
}

static void
mismatch(const struct core_run *run, const struct core_action *a)
{
	const struct core_request *rq;

	TAILQ_FOREACH (rq, &run->requests, link) {
		unsigned tag = digest_parts_differ(&a->parts, &rq->parts);

		if (rq == a->request || !core_request_armed(rq) || tag == 0 ||
		    !near(&a->parts, &rq->parts))
			continue;
		mismatch_record(rq, a, tag);
		return;
	}
}

/* --- what nobody can approve -------------------------------------------------------------- */

static void
unmet_add(struct core_run *run, const struct core_from *f, const struct core_action *a)
{
	AUTO_BUF struct buf does = BUF(2 * RESOURCES_TEXT_MAX);
	struct core_unmet *u;
	size_t n = 0;

	if (run->unmet == NULL)
		run->unmet = xcalloc(CORE_UNMET_MAX, sizeof(*run->unmet));
	u = &run->unmet[run->nunmet++ % CORE_UNMET_MAX];
	*u = (struct core_unmet){.at_us = a->now.us, .effects = a->effects};
	memcpy(u->action, a->id, sizeof(u->action));
	(void)snprintf(u->target, sizeof(u->target), "%s", core_from_target(f));
	core_request_does(run->core->policy, u->target, a->rels, a->nrels, &does);
	(void)snprintf(u->does, sizeof(u->does), "%.*s", STR_ARG(buf_str(&does)));
	(void)snprintf(u->show, sizeof(u->show), "%.*s", CORE_UNMET_SHOW, a->show);
	for (size_t i = 0; i < a->d.nslots && n < sizeof(u->slots); i++)
		n += (size_t)snprintf(u->slots + n, sizeof(u->slots) - n, "%s%.*s:%u",
		    i != 0 ? ", " : "", STR_ARG(a->d.slots[i].role), a->d.slots[i].count);
}

void
core_attempt_unmet(struct jcs *j, const struct core_run *run)
{
	size_t n = run->nunmet < CORE_UNMET_MAX ? run->nunmet : CORE_UNMET_MAX;

	for (size_t i = n; i > 0; i--) {
		const struct core_unmet *u = &run->unmet[(run->nunmet - i) % CORE_UNMET_MAX];
		AUTO_BUF struct buf effects = BUF(512);
		char at[CLOCK_TEXT_SIZE];

		clock_format_s(u->at_us, at);
		effect_put(&effects, u->effects);
		jcs_open(j, NULL);
		jcs_z(j, "action", u->action);
		jcs_z(j, "at", at);
		if (u->does[0] != '\0')
			jcs_str_lossy(j, "does", str_z(u->does));
		jcs_str(j, "effects", buf_str(&effects));
		jcs_str_lossy(j, "needs", str_z(u->slots));
		jcs_z(j, "owner", run->owner);
		jcs_z(j, "run", run->id);
		jcs_str_lossy(j, "show", str_z(u->show));
		jcs_z(j, "target", u->target);
		jcs_close(j);
	}
}

void
core_attempt_refused(const struct core_from *f, const struct core_action *a)
{
	if (a->d.verdict != VERDICT_NEEDS_APPROVAL)
		return;
	mismatch(f->run, a);
	if (a->d.unsatisfiable)
		unmet_add(f->run, f, a);
}

/* --- counting ----------------------------------------------------------------------------- */

static void
run_over(void *arg)
{
	struct core_run *run = arg;
	AUTO_BUF struct buf b = BUF(256);

	run->over = NULL;
	buf_printf(&b, "%u tries at what was refused, the policy's limit", run->tries);
	core_run_end(run, "attempts", buf_str(&b), false);
}

static void
alarm_record(struct core_run *run, struct str target, const struct core_action *a)
{
	AUTO_BUF struct buf b = BUF(1024);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_z(&j, "action", a->id);
	jcs_int(&j, "attempts", a->attempt);
	jcs_int(&j, "link", (int64_t)a->link);
	jcs_str_lossy(&j, "target", target);
	jcs_close(&j);
	run->alarms++;
	log_warn("run %s of %s: %u tries at what was refused", run->id, run->owner, a->attempt);
	if (core_record(run->core,
		&(struct core_append){.type = "run.alarm", .run = run->id, .data = &b}) == NULL)
		log_error("run %s: the alarm is not recorded", run->id);
}

static void
count(struct core_run *run, struct core_run *of, struct str target, const struct core_action *a)
{
	struct policy_attempts most = {0};

	if (a->attempt == 0 || run->core->policy == NULL)
		return;
	most = policy_attempts(run->core->policy);
	if (most.alarm != 0 && a->attempt % most.alarm == 0)
		alarm_record(of, target, a);
	/* Not here: who called has the refusal still to answer. */
	if (most.end == 0 || a->attempt < most.end || run->over != NULL)
		return;
	run->tries = a->attempt;
	run->over = loop_timer_add(run->core->loop, 1, run_over, run);
}

void
core_decide_remember(struct core_run *of, struct str target, const struct core_action *a)
{
	struct core_run *run = core_child_root(of); /* what a child tries counts with the others */
	struct core_refused *r = &run->refused[run->nrefused % CORE_REFUSED_MAX];

	if (target.n > POLICY_ID_MAX)
		return;
	*r = (struct core_refused){.seq = a->seq,
	    .denied = a->d.verdict == VERDICT_DENY || a->d.unsatisfiable || a->unshown != NULL,
	    .attempt = a->attempt};
	memcpy(r->target, target.p, target.n);
	if (a->request != NULL)
		memcpy(r->request, a->request->id, sizeof(r->request));
	for (size_t i = 0; i < a->nrels && r->nobjects < CORE_REFUSED_OBJECTS; i++)
		r->objects[r->nobjects++] = object_hash(a->rels[i]);
	run->nrefused++;
	core_told_add(of, target, a);
	count(run, of, target, a);
}

/* The newest that is remembered: records up to it are of this process's own time. */
static uint64_t
newest(const struct core_run *run)
{
	size_t n = run->nrefused < CORE_REFUSED_MAX ? run->nrefused : CORE_REFUSED_MAX;
	uint64_t seq = 0;

	for (size_t i = 1; i <= n; i++)
		seq = entry(run, i)->seq > seq ? entry(run, i)->seq : seq;
	return seq;
}

bool
core_attempt_live(struct core_run *of, uint64_t seq, const struct json *data)
{
	struct core_run *run = core_child_root(of);
	struct core_refused *r = &run->refused[run->nrefused % CORE_REFUSED_MAX];
	const struct json *names = json_get(data, "relations");
	struct str request = json_str(json_get(data, "approval")),
		   target = json_str(json_get(data, "target"));
	int64_t attempt = json_int(json_get(data, "attempt"));

	if (target.n > POLICY_ID_MAX || request.n >= sizeof(r->request) || attempt < 0 ||
	    attempt > UINT32_MAX || json_type(names) != JSON_ARRAY)
		return false;
	if (run->nrefused != 0 && seq <= newest(run))
		return true;
	/* That nobody can approve has no request: it was refused for good. */
	*r = (struct core_refused){
	    .seq = seq, .denied = request.n == 0, .attempt = (unsigned)attempt};
	memcpy(r->target, target.p != NULL ? target.p : "", target.n);
	memcpy(r->request, request.p != NULL ? request.p : "", request.n);
	for (size_t i = 0; i < json_count(names) && r->nobjects < CORE_REFUSED_OBJECTS; i++)
		r->objects[r->nobjects++] = object_hash(json_str(json_at(names, i)));
	run->nrefused++;
	return true;
}

void
core_attempt_free(struct core_run *run)
{
	loop_timer_del(run->over);
	free(run->unmet);
}
