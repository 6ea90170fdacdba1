/*
 * Targets of a run that lives (process: core). To close needs nobody's consent: it is done before
 * it is recorded, told to front, upstream and the parent, and holds though agent and sandbox do not
 * move. To open goes the way that a run begins: the agent makes the listener, the log has it, then
 * front serves. One step is under way at a time; a place is used again only when its end is
 * durable, so a core that dies in between finds no listener that stands for another target.
 */
#include "broker/core_patch.h"

#include <stdlib.h>

#include "broker/core_agent.h"
#include "broker/core_cred.h"
#include "broker/core_data.h"
#include "broker/core_http.h"
#include "broker/core_pg.h"
#include "broker/core_plan.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define REVOKED "the policy does not give this target to the run any more, or leads it elsewhere"

static void step(struct core_run *run);

/* --- what goes ------------------------------------------------------------------- */

static const char *
name_of(const struct core_target *t)
{
	return t->id[0] != '\0' ? t->id : t->kind;
}

/* Also connections that core does not know: in their start-up, or idle in a tunnel. */
static void
tell_front(const struct core_run *run, const struct core_target *t)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_lz(&b, run->id);
	buf_u32(&b, t->listener);
	buf_lz(&b, t->scheme[0] != '\0' ? t->host : "");
	buf_u32(&b, t->port);
	core_send(run->core->front, MSG_F_REVOKE, &b);
}

static void
tell_upstream(const struct core_run *run, const struct core_target *t)
{
	AUTO_BUF struct buf b = BUF(4096);

	if (t->scheme[0] == '\0')
		return;
	buf_lz(&b, run->id);
	buf_lz(&b, t->host);
	buf_u32(&b, t->port);
	core_send(run->core->upstream, MSG_UH_FORGET, &b);
}

void
core_patch_revoke(struct core_run *run, size_t index)
{
	struct core_target *t = &run->targets[index];
	struct core_patch *p = &run->patch;

	log_info("run %s: target %s is closed", run->id, name_of(t));
	core_pg_end(run, t, REVOKED);
	core_http_end(run, t);
	tell_front(run, t);
	tell_upstream(run, t);
	if (t->fd >= 0) {
		core_run_listen_shut(&t->fd);
		core_run_listen_forget(run->core, run->id, (uint32_t)index);
	}
	if (t->state == CORE_TARGET_SERVES || t->state == CORE_TARGET_RECORDED) {
		p->gone = xreallocarray(p->gone, p->ngone + 1, sizeof(*p->gone));
		p->gone[p->ngone++] = xstrdup(name_of(t));
		p->owed = true;
	}
	p->stale = true;
	core_run_target_gone(t);
}

static bool
stays(const struct core_run *run, const struct core_target *t)
{
	const struct policy_target *p = policy_target(run->core->policy, str_z(t->id));
	char place[CORE_PLACE_SIZE];

	if (t->state == CORE_TARGET_GONE || strcmp(t->kind, CORE_KIND_LOOP) == 0)
		return true;
	if (strcmp(t->kind, CORE_KIND_PROXY) == 0)
		return core_plan_has_http(run);
	if (p == NULL || !core_plan_wants(run, p))
		return false;
	core_plan_place(p, place);
	return strcmp(place, t->place) == 0;
}

static void
revoke_all(struct core_run *run, bool proxy)
{
	for (size_t i = 0; i < run->ntargets; i++)
		if ((strcmp(run->targets[i].kind, CORE_KIND_PROXY) == 0) == proxy &&
		    !stays(run, &run->targets[i]))
			core_patch_revoke(run, i);
}

/* --- what comes ------------------------------------------------------------------ */

static bool
has(const struct core_run *run, struct str id, const char *kind)
{
	for (size_t i = 0; i < run->ntargets; i++)
		if (run->targets[i].state != CORE_TARGET_GONE && str_eqz(id, run->targets[i].id) &&
		    (id.n != 0 || strcmp(run->targets[i].kind, kind) == 0))
			return true;
	return false;
}

/* True: there is more than there was. */
static bool
look(struct core_run *run)
{
	const struct policy *pol = run->core->policy;
	struct err err = {0};
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < policy_target_count(pol); i++) {
		const struct policy_target *t = policy_target_at(pol, i);

		if (!core_plan_wants(run, t) || has(run, t->id, ""))
			continue;
		rc = core_plan_add(run, t, CORE_TARGET_WAITS, &err);
		n += rc == 0;
	}
	if (rc == 0 && core_plan_has_http(run) && !has(run, STR(""), CORE_KIND_PROXY)) {
		rc = core_plan_add(run, NULL, CORE_TARGET_WAITS, &err);
		n += rc == 0;
	}
	if (rc != 0)
		log_warn("run %s: %s: the rest of the policy's are left out", run->id, err.msg);
	return n != 0;
}

/* --- the log --------------------------------------------------------------------- */

static size_t
turn(struct core_run *run, enum core_target_state from, enum core_target_state to)
{
	size_t n = 0;

	for (size_t i = 0; i < run->ntargets; i++) {
		if (run->targets[i].state != from)
			continue;
		run->targets[i].state = to;
		n++;
	}
	return n;
}

static void
gone_drop(struct core_patch *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(p->gone[i]);
	for (size_t i = n; i < p->ngone; i++)
		p->gone[i - n] = p->gone[i];
	p->ngone -= n;
}

/* The log may be slow, or come back: then core_patch_run is there before. */
static void
again(void *arg)
{
	struct core_run *run = arg;

	run->patch.again = NULL;
	step(run);
}

static void
acked(void *arg, const struct core_ack *ack)
{
	struct core_run *run = arg;
	struct core_patch *p = &run->patch;
	bool ok = ack->code == 0;

	p->ticket = NULL;
	(void)turn(run, CORE_TARGET_RECORDED, ok ? CORE_TARGET_SERVES : CORE_TARGET_HELD);
	if (ok)
		gone_drop(p, p->telling);
	p->telling = 0;
	if (!ok) {
		p->owed = true;
		if (p->again == NULL)
			p->again = loop_timer_add(run->core->loop, CORE_RECORD_MS, again, run);
		log_error("run %s: run.targets could not be recorded: no target is added", run->id);
		return;
	}
	core_run_serve(run);
	step(run);
}

static void
record(struct core_run *run)
{
	struct core_patch *p = &run->patch;
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX);

	(void)turn(run, CORE_TARGET_HELD, CORE_TARGET_RECORDED);
	p->owed = false;
	p->telling = p->ngone;
	core_data_run_targets(&data, run);
	p->ticket = core_record(run->core,
	    &(struct core_append){
		.type = "run.targets", .run = run->id, .data = &data, .fn = acked, .arg = run});
	if (p->ticket == NULL)
		acked(run, &(struct core_ack){.code = ERR_UNAVAILABLE});
}

/* --- the agent ------------------------------------------------------------------- */

static void
ask(struct core_run *run)
{
	run->patch.stale = false;
	run->patch.asked = true;
	run->patch.serial++;
	core_plan_send_change(run);
}

static bool
holds(const struct core_run *run)
{
	for (size_t i = 0; i < run->ntargets; i++)
		if (run->targets[i].state == CORE_TARGET_HELD)
			return true;
	return false;
}

static void
step(struct core_run *run)
{
	struct core_patch *p = &run->patch;

	if (run->state != CORE_RUN_LIVE || p->ticket != NULL)
		return;
	if (p->owed || (!p->asked && holds(run))) {
		record(run);
		return;
	}
	if (p->asked || run->peer == NULL || run->core->policy == NULL)
		return;
	if (p->look && look(run))
		p->stale = true;
	p->look = false;
	if (p->stale)
		ask(run);
}

void
core_patch_run(struct core_run *run)
{
	if (run->state != CORE_RUN_LIVE || run->core->policy == NULL)
		return;
	revoke_all(run, false);
	revoke_all(run, true);
	run->patch.look = true;
	step(run);
}

void
core_patch_policy(struct core *c)
{
	struct core_run *run;

	TAILQ_FOREACH (run, &c->runs, link)
		core_patch_run(run);
}

int
core_patch_on_changed(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	struct core_run *run = p->run;
	uint64_t serial = rd_u64(body);
	struct str why = rd_lstr(body);

	(void)fds;
	(void)nfds;
	if (!rd_end(body) || !run->patch.asked || serial != run->patch.serial) {
		(void)err_set(err, ERR_PROTOCOL, "A_CHANGED is malformed, or was not asked for");
		return core_agent_refuse(p, err);
	}
	run->patch.asked = false;
	for (size_t i = 0; i < run->ntargets; i++) {
		struct core_target *t = &run->targets[i];

		if (t->state != CORE_TARGET_WAITS)
			continue;
		log_warn(
		    "run %s: no listener for target %s: %.*s", run->id, name_of(t), STR_ARG(why));
		core_run_target_gone(t);
	}
	step(run);
	return 0;
}

/* --- credentials ----------------------------------------------------------------- */

static bool
credential_holds(const struct core_from *from)
{
	const struct core *c = from->run->core;
	const struct policy_target *t = policy_target(c->policy, str_z(from->target->id));
	const struct vault_entry *e;
	char fp[17];
	struct err err;

	if (t == NULL || core_cred_find(c, t, &e, &err) != 0)
		return false;
	core_cred_fingerprint(c, secret_str(e->secret), fp);
	return strcmp(fp, from->credential_fp) == 0;
}

void
core_patch_vault(struct core *c)
{
	for (size_t i = 0; c->policy != NULL && i < CORE_CONN_BUCKETS; i++) {
		struct core_conn *conn, *next;

		for (conn = LIST_FIRST(&c->conns[i]); conn != NULL; conn = next) {
			next = LIST_NEXT(conn, link);
			if (conn->from.credential[0] == '\0' || credential_holds(&conn->from))
				continue;
			conn->revoked = true;
			core_pg_kill(conn, "57P01",
			    "the credential of this target was changed or taken away");
		}
	}
}

void
core_patch_free(struct core_run *run)
{
	struct core_patch *p = &run->patch;

	core_record_forget(p->ticket);
	loop_timer_del(p->again);
	gone_drop(p, p->ngone);
	free(p->gone);
	for (size_t i = 0; i < run->nnames; i++)
		free(run->names[i]);
	free(run->names);
}
