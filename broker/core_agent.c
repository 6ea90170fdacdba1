/*
 * What an agent process may do (process: core). It runs as the owner, outside the sandbox, and
 * may have been talked into anything: it registers a run under its own login, hands over
 * listening sockets, and reports what it claims to have done. It decides nothing.
 */
#include "broker/core_agent.h"

#include <assert.h>
#include <stdlib.h>

#include "broker/core_child.h"
#include "broker/core_data.h"
#include "broker/core_patch.h"
#include "broker/core_peer.h"
#include "broker/core_plan.h"
#include "broker/core_record.h"
#include "broker/core_run.h"
#include "broker/core_steer.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* The agent is told why, and its wire ends. Always returns 0: the peer is gone already. */
int
core_agent_refuse(struct core_peer *p, const struct err *why)
{
	AUTO_BUF struct buf b = BUF(4096);
	struct core_run *run = p->run;

	log_warn("agent of uid %u: %s", (unsigned)p->uid, why->msg);
	buf_u32(&b, (uint32_t)-why->code);
	buf_lz(&b, why->msg);
	core_send(p, MSG_A_ERROR, &b);
	core_peer_free(p);
	if (run != NULL)
		core_run_end(run, "error", str_z(why->msg), false);
	return 0;
}

static int
malformed(const char *what, struct err *err)
{
	return err_set(err, ERR_PROTOCOL, "%s is malformed", what);
}

static int
version_check(uint32_t version, struct err *err)
{
	if (version != IPC_VERSION)
		return err_set(err, ERR_UNSUPPORTED, "the agent speaks version %u, this broker %d",
		    version, IPC_VERSION);
	return 0;
}

/* --- A_OPEN ---------------------------------------------------------------------- */

static int
owner_find(struct core_peer *p, const struct policy_person **ret, struct err *err)
{
	const char *login = core_peer_login(p);
	const struct policy_person *q;

	if (p->core->policy == NULL)
		return err_set(
		    err, ERR_CONFIG, "no policy is active (cofferdam policy build, then SIGHUP)");
	if (login == NULL)
		return err_set(err, ERR_UNAUTHORISED, "uid %u has no login name", (unsigned)p->uid);
	q = policy_person_by_login(p->core->policy, str_z(login));
	if (q == NULL)
		return err_set(
		    err, ERR_UNAUTHORISED, "%s is no person's login in the policy", login);
	*ret = q;
	return 0;
}

static int
name_check(struct str name, struct str task, struct err *err)
{
	if (str_text_check("agent name", name, 1, CORE_AGENT_NAME_MAX, err) != 0)
		return err->code;
	if (task.n > CORE_TASK_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "task has %zu bytes, limit %d", task.n, CORE_TASK_MAX);
	return 0;
}

/* What it may reach, do and spend. */
static int
open_what(struct core_run *run, struct rd *body, struct err *err)
{
	int rc = core_plan_targets(run, body, err);
	struct str budget;
	uint8_t how;

	if (rc == 0)
		rc = core_child_effects(run, body, err);
	budget = rd_lstr(body);
	if (rc == 0)
		rc = core_child_budget(run, budget, err);
	(void)rd_lstr(body); /* the level that is wanted; what holds comes with A_START */
	how = rd_u8(body);
	if (rc == 0 && (!rd_end(body) || how > 7))
		rc = malformed("A_OPEN", err);
	run->streams = (how & 2) != 0;
	if (rc == 0)
		rc = core_plan_finish(run, (how & 1) != 0, (how & 4) != 0, err);
	return rc;
}

static int
open_run(struct core_peer *p, struct rd *body, struct err *err)
{
	const struct policy_person *owner = NULL;
	struct str name, task, parent;
	int rc = version_check(rd_u32(body), err);

	name = rd_lstr(body);
	task = rd_lstr(body);
	parent = rd_lstr(body);
	if (rc == 0)
		rc = name_check(name, task, err);
	if (rc == 0)
		rc = owner_find(p, &owner, err);
	if (rc == 0 && p->core->ca == NULL)
		rc = err_set(err, ERR_CONFIG, "the broker has no CA key");
	if (rc == 0)
		rc = core_run_new(p->core, NULL, &p->run, err);
	if (rc != 0)
		return rc;
	assert(owner != NULL);
	p->run->peer = p;
	p->run->agent = str_dup(name);
	p->run->task = str_dup(task);
	p->run->owner = str_dup(owner->id);
	p->run->login = xstrdup(core_peer_login(p));
	rc = parent.n != 0 ? core_child_join(p->run, parent, err) : 0;
	return rc != 0 ? rc : open_what(p->run, body, err);
}

int
core_agent_on_open(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	(void)fds;
	(void)nfds;
	if (open_run(p, body, err) != 0)
		return core_agent_refuse(p, err);
	p->state = CORE_S_PLAN;
	core_plan_send(p->run);
	return 0;
}

/* --- A_LISTEN, A_START ----------------------------------------------------------- */

int
core_agent_on_listen(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	struct core_run *run = p->run;
	uint32_t index = rd_u32(body);
	AUTO_BUF struct buf b = BUF(512);

	if (!rd_end(body) || nfds != 1)
		return malformed("A_LISTEN", err);
	/* One that was asked for and is not wanted any more: nobody will accept there. */
	if (run->state == CORE_RUN_LIVE &&
	    (index >= run->ntargets || run->targets[index].state != CORE_TARGET_WAITS)) {
		core_run_listen_shut(&fds[0]);
		return 0;
	}
	if (core_run_listen(run, index, TAKE_FD(fds[0]), err) != 0)
		return core_agent_refuse(p, err);
	buf_lz(&b, run->id);
	buf_u32(&b, index);
	if (p->core->parent.wire != NULL)
		ipc_send(p->core->parent.wire, MSG_K_KEEP, &b, &run->targets[index].fd, 1);
	return 0;
}

static void
start_acked(void *arg, const struct core_ack *ack)
{
	struct core_run *run = arg;
	struct err why;

	run->ticket = NULL;
	if (ack->code != 0) {
		(void)err_set(&why, ERR_UNAVAILABLE,
		    "the decision log is not available: no run begins unrecorded");
		run->state = CORE_RUN_PLANNED;
		if (run->peer != NULL)
			(void)core_agent_refuse(run->peer, &why);
		else
			core_run_end(run, "error", STR("not recorded"), false);
		return;
	}
	run->state = CORE_RUN_LIVE;
	if (run->peer == NULL || run->end_status != NULL) { /* ended meanwhile */
		AUTO_FREE char *status =
		    xstrdup(run->end_status != NULL ? run->end_status : "lost");

		core_run_end(run, status, STR("ended before it began"), run->peer != NULL);
		return;
	}
	log_info("run %s of %s started: agent %s, %zu targets", run->id, run->owner, run->agent,
	    run->ntargets);
	run->peer->state = CORE_S_RUN;
	core_child_clock(run, 0);
	core_run_serve(run);
	core_send(run->peer, MSG_A_STARTED, NULL);
	core_steer_resend(run, 0); /* its parent may be paused */
	core_patch_run(run);	   /* the policy may be another than that of the plan */
}

static int
level_read(struct str text, struct buf *out, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct jcs j;
	int rc = json_parse(text, "sandbox level", &doc, err);

	if (rc == 0 && json_type(json_root(doc)) != JSON_OBJECT)
		rc = err_set(err, ERR_INVALID, "sandbox level must be an object");
	jcs_init(&j, out);
	if (rc == 0)
		rc = jcs_value(&j, NULL, json_root(doc), err);
	if (rc == 0 && buf_over(out))
		rc = err_set(err, ERR_TOO_LARGE, "sandbox level is over %zu bytes", out->max);
	return rc;
}

static int
start_record(struct core_run *run, struct str level, struct err *err)
{
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX);
	AUTO_BUF struct buf frame = BUF(CORE_RECORD_FRAMES_MAX);
	AUTO_BUF struct buf canonical = BUF(CORE_LEVEL_MAX);
	struct blob_ref task;
	int rc = level_read(level, &canonical, err);

	if (rc == 0 && run->parent[0] != '\0' &&
	    (core_child_parent(run) == NULL || core_child_parent(run)->state != CORE_RUN_LIVE))
		rc = err_set(err, ERR_STATE, "run %s, its parent, has ended", run->parent);
	for (size_t i = 0; rc == 0 && i < run->ntargets; i++)
		if (run->targets[i].listen != CORE_LISTEN_NONE && run->targets[i].fd < 0)
			rc = err_set(err, ERR_STATE, "%s %s has no listener", run->targets[i].kind,
			    run->targets[i].id);
	if (rc == 0)
		rc = blob_seal(
		    run->key, str_z(run->id), "text/plain", str_z(run->task), &frame, &task, err);
	if (rc != 0)
		return rc;
	core_data_run_start(&data, run, &task, buf_str(&canonical));
	run->ticket = core_record(run->core, &(struct core_append){.type = "run.start",
						 .run = run->id,
						 .data = &data,
						 .frame = &frame,
						 .show = str_z(run->task),
						 .fn = start_acked,
						 .arg = run});
	if (run->ticket == NULL)
		return err_set(err, ERR_UNAVAILABLE,
		    "the decision log is not available: no run begins unrecorded");
	run->state = CORE_RUN_STARTING;
	run->recorded = true;
	return 0;
}

int
core_agent_on_start(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	struct str level = rd_lstr(body);

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return malformed("A_START", err);
	if (start_record(p->run, level, err) != 0)
		return core_agent_refuse(p, err);
	p->state = CORE_S_STARTING;
	return 0;
}

int
core_agent_on_resume(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint32_t version = rd_u32(body);
	struct core_run *run = core_run_find(p->core, rd_lstr(body));
	uint64_t heard = rd_u64(body);
	uint8_t streams = rd_u8(body);
	const char *login = core_peer_login(p);

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return malformed("A_RESUME", err);
	if (version_check(version, err) != 0)
		return core_agent_refuse(p, err);
	if (run == NULL || run->state != CORE_RUN_LIVE || run->peer != NULL) {
		(void)err_set(err, ERR_NOT_FOUND, "no such run waits for its agent");
		return core_agent_refuse(p, err);
	}
	if (login == NULL || !str_eqz(str_z(login), run->login)) {
		(void)err_set(err, ERR_UNAUTHORISED, "the run is of another login");
		return core_agent_refuse(p, err);
	}
	loop_timer_del(run->timer);
	run->timer = NULL;
	run->peer = p;
	p->run = run;
	p->state = CORE_S_RUN;
	log_info("run %s: its agent is back", run->id);
	core_send(p, MSG_A_STARTED, NULL);
	run->streams = streams == 1;
	core_steer_resend(run, heard);
	run->patch.stale = true; /* what it was told before, nobody knows */
	core_patch_run(run);
	return 0;
}

/* --- A_END ----------------------------------------------------------------------- */

static int
spent_take(struct core_run *run, struct str text, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf b = BUF(CORE_SPENT_MAX);
	struct jcs j;
	int rc = json_parse(text, "what was spent", &doc, err);

	if (rc == 0 && json_type(json_root(doc)) != JSON_OBJECT)
		rc = err_set(err, ERR_INVALID, "what was spent must be an object");
	jcs_init(&j, &b);
	if (rc == 0)
		rc = jcs_value(&j, NULL, json_root(doc), err);
	if (rc == 0 && buf_over(&b))
		rc = err_set(err, ERR_TOO_LARGE, "what was spent is over %d bytes", CORE_SPENT_MAX);
	if (rc == 0) {
		free(run->spent);
		run->spent = buf_dup_z(&b);
	}
	return rc;
}

int
core_agent_on_end(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	static const char *const known[] = {"done", "not_done", "error", "stopped", "budget:turns",
	    "budget:time", "budget:tokens", "budget:cost", "budget:output", "budget:calls"};
	struct str status = rd_lstr(body), text = rd_lstr(body), spent = rd_lstr(body);
	const char *use = NULL;

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return malformed("A_END", err);
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eqz(status, known[i]))
			use = known[i];
	if (use == NULL) {
		(void)err_set(err, ERR_INVALID,
		    "status must be done, not_done, error, stopped or the budget that is spent, is "
		    "\"%.*s\"",
		    STR_ARG(status));
		return core_agent_refuse(p, err);
	}
	if (spent.n != 0 && spent_take(p->run, spent, err) != 0)
		return core_agent_refuse(p, err);
	core_run_end(p->run, use, text, true);
	return 0;
}
