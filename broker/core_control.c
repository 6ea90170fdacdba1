/*
 * Verbs of the control socket (process: core). Who may look: a person of the policy by login, root,
 * or the broker's own user. Who may decide is proved by signature (core_sign.c), not by
 * the socket. Nothing here changes policy, credentials or the log's content.
 */
#include "broker/core_control.h"

#include <stdlib.h>

#include "broker/core_console.h"
#include "broker/core_attempt.h"
#include "broker/core_data.h"
#include "broker/core_enrol.h"
#include "broker/core_doubt.h"
#include "broker/core_erase.h"
#include "broker/core_lift.h"
#include "broker/core_peer.h"
#include "broker/core_question.h"
#include "broker/core_run.h"
#include "broker/core_sign.h"
#include "broker/core_status.h"
#include "broker/core_steer.h"
#include "broker/core_watch.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "policy/resource.h"

#include "common/banned.h"

#define PENDING_SHOW_MAX 200 /* bytes of an action in the list */

void
core_control_reply(struct core *c, uint64_t peer, int code, struct str result)
{
	struct core_peer *p = core_peer_by_serial(c, peer);
	AUTO_BUF struct buf b = BUF(IPC_BODY_MAX);

	if (core_console_reply(c, peer, code, result) || p == NULL)
		return;
	buf_u32(&b, (uint32_t)-code);
	buf_lstr(&b, result);
	core_send(p, MSG_Q_REPLY, &b);
}

/* --- results --------------------------------------------------------------------- */

/* What the signatures so far leave open, as policy_eval sees it. */
static void
put_missing(struct jcs *j, const struct core_request *rq)
{
	struct decision d = {.nslots = rq->nslots, .verify = rq->verify};
	struct policy_grant g[APPROVAL_GRANTS_MAX];
	struct policy_slot open[POLICY_SLOTS_MAX];
	size_t n;

	memcpy(d.slots, rq->slots, sizeof(d.slots));
	for (size_t i = 0; i < rq->ngrants; i++)
		g[i] = (struct policy_grant){
		    rq->grants[i].person, rq->grants[i].role, rq->grants[i].verified};
	n = policy_slots_open(&d, g, rq->ngrants, str_z(rq->run->owner), open);
	policy_slots_jcs(j, "missing", open, n);
}

void
core_control_state(struct jcs *j, const struct core_request *rq)
{
	jcs_z(j, "id", rq->id);
	put_missing(j, rq);
	if (rq->reason != NULL)
		jcs_str_lossy(j, "reason", str_z(rq->reason));
	jcs_z(j, "state", core_request_state_name(rq->state));
	if (rq->state == CORE_RQ_ARMED)
		jcs_time(j, "use_by", rq->use_by_us);
}

static int
verb_runs(struct core_call *call, struct err *err)
{
	struct jcs *j = &call->j;
	struct core_run *run;

	(void)err;
	jcs_array(j, "runs");
	TAILQ_FOREACH (run, &call->core->runs, link) {
		jcs_open(j, NULL);
		jcs_str_lossy(j, "agent", str_z(run->agent));
		jcs_int(j, "alarms", run->alarms);
		jcs_int(j, "connections", (int64_t)run->nconns);
		jcs_z(j, "id", run->id);
		jcs_z(j, "owner", run->owner);
		if (run->parent[0] != '\0')
			jcs_z(j, "parent", run->parent);
		jcs_bool(j, "paused", run->paused);
		jcs_int(j, "pending", (int64_t)run->npending);
		jcs_z(j, "state",
		    run->state == CORE_RUN_LIVE	    ? (run->peer != NULL ? "live" : "waiting")
		    : run->state == CORE_RUN_ENDING ? "ending"
						    : "starting");
		jcs_close(j);
	}
	jcs_array_end(j);
	return 0;
}

void
core_request_does(
    const struct policy *p, const char *target, const struct str *rels, size_t n, struct buf *out)
{
	const struct policy_target *t = p != NULL ? policy_target(p, str_z(target)) : NULL;
	struct str last = STR("");

	for (size_t i = 0; t != NULL && t->kind == TARGET_AWS && i < n; i++) {
		struct str name = rels[i], action;

		if (!str_cut(&name, '/', &action) || str_has_suffix(action, ":*") ||
		    str_has_suffix(action, ":?"))
			continue;
		if (!str_eq(action, last))
			buf_printf(out, "%s%.*s", buf_str(out).n != 0 ? " " : "", STR_ARG(action));
		if (!str_eqz(name, "*"))
			buf_printf(out, " %.*s", STR_ARG(name));
		last = action;
	}
}

static void
put_does(struct jcs *j, const struct core_request *rq)
{
	AUTO_BUF struct buf b = BUF(2 * RESOURCES_TEXT_MAX);
	AUTO_FREE struct str *rels = xcalloc(rq->nrels + 1, sizeof(*rels));
	struct str s;

	for (size_t i = 0; i < rq->nrels; i++)
		rels[i] = str_z(rq->rels[i]);
	core_request_does(rq->run->core->policy, rq->target, rels, rq->nrels, &b);
	s = buf_str(&b);
	if (s.n != 0)
		jcs_str_lossy(
		    j, "does", str_mem(s.p, s.n < PENDING_SHOW_MAX ? s.n : PENDING_SHOW_MAX));
}

static void
pending_put(struct jcs *j, const struct core_request *rq)
{
	AUTO_BUF struct buf effects = BUF(512);
	struct str show = str_z(rq->show);

	effect_put(&effects, rq->effects);
	jcs_open(j, NULL);
	jcs_time(j, "approve_by", rq->approve_by_us);
	jcs_time(j, "asked", rq->not_before_us);
	put_does(j, rq);
	jcs_str(j, "effects", buf_str(&effects));
	jcs_z(j, "id", rq->id);
	put_missing(j, rq);
	jcs_z(j, "owner", rq->run->owner);
	jcs_z(j, "run", rq->run->id);
	jcs_str_lossy(
	    j, "show", str_mem(show.p, show.n < PENDING_SHOW_MAX ? show.n : PENDING_SHOW_MAX));
	jcs_z(j, "state", core_request_state_name(rq->state));
	jcs_z(j, "target", rq->target);
	if (rq->state == CORE_RQ_ARMED)
		jcs_time(j, "use_by", rq->use_by_us);
	jcs_close(j);
}

static int
verb_pending(struct core_call *call, struct err *err)
{
	struct core_run *run;
	struct core_request *rq;

	(void)err;
	jcs_array(&call->j, "pending");
	TAILQ_FOREACH (run, &call->core->runs, link)
		TAILQ_FOREACH (rq, &run->requests, link)
			if (core_request_open(rq))
				pending_put(&call->j, rq);
	jcs_array_end(&call->j);
	jcs_array(&call->j, "questions");
	TAILQ_FOREACH (run, &call->core->runs, link)
		core_question_list(&call->j, run);
	jcs_array_end(&call->j);
	jcs_array(&call->j, "unmet");
	TAILQ_FOREACH (run, &call->core->runs, link)
		core_attempt_unmet(&call->j, run);
	jcs_array_end(&call->j);
	return 0;
}

/* Open slots whose role this person has; for an owner or a stranger none. */
static void
put_roles(struct jcs *j, const struct core_request *rq, struct str person)
{
	const struct policy *p = rq->run->core->policy;
	const struct policy_person *q = p != NULL ? policy_person(p, person) : NULL;

	jcs_array(j, "roles");
	for (size_t i = 0; q != NULL && i < rq->nslots; i++)
		if (policy_person_has_role(q, rq->slots[i].role))
			jcs_str(j, NULL, rq->slots[i].role);
	jcs_array_end(j);
}

static void
put_grants(struct jcs *j, const struct core_request *rq)
{
	jcs_array(j, "grants");
	for (size_t i = 0; i < rq->ngrants; i++) {
		jcs_open(j, NULL);
		jcs_str(j, "person", rq->grants[i].person);
		jcs_str(j, "role", rq->grants[i].role);
		jcs_close(j);
	}
	jcs_array_end(j);
}

/* All that a statement says, so that the person's own machine can build and sign it. */
static int
verb_show(struct core_call *call, struct err *err)
{
	struct str id = json_str(json_get(call->args, "id"));
	const struct core_request *rq = core_approve_by_id(call->core, id);
	AUTO_BUF struct buf b64 = BUF(IPC_BODY_MAX);
	struct jcs *j = &call->j;
	struct core_statement st;

	if (rq == NULL)
		return err_set(err, ERR_NOT_FOUND, "there is no request \"%.*s\"", STR_ARG(id));
	core_sign_statement(rq, "approve", STR("-"), STR("-"), &st);
	enc_base64(&b64, st.s.show);
	jcs_str(j, "action", st.s.action);
	jcs_str_lossy(j, "agent", st.s.agent);
	jcs_str_lossy(j, "agent_says", str_z(rq->run->said));
	jcs_int(j, "approve_by_us", rq->approve_by_us);
	jcs_str(j, "broker", st.s.broker);
	jcs_str(j, "effects", st.s.effects);
	put_grants(j, rq);
	jcs_z(j, "id", rq->id);
	jcs_str(j, "log_head", st.s.log_head);
	jcs_int(j, "max_rows", rq->max_rows);
	put_missing(j, rq);
	jcs_int(j, "not_before_us", rq->not_before_us);
	core_approve_now(rq, j);
	jcs_str(j, "owner", st.s.owner);
	jcs_str(j, "policy", st.s.policy);
	if (rq->preview != NULL)
		jcs_str_lossy(j, "preview", str_z(rq->preview));
	if (rq->reason != NULL)
		jcs_str_lossy(j, "reason", str_z(rq->reason));
	put_roles(j, rq, json_str(json_get(call->args, "person")));
	jcs_str(j, "rule", st.s.rule);
	jcs_str(j, "run", st.s.run);
	jcs_str(j, "show_base64", buf_str(&b64));
	policy_slots_jcs(j, "slots", rq->slots, rq->nslots);
	jcs_z(j, "state", core_request_state_name(rq->state));
	jcs_int(j, "steps", (int64_t)rq->nsteps);
	jcs_str(j, "target", st.s.target);
	if (rq->state == CORE_RQ_ARMED)
		jcs_int(j, "use_by_us", rq->use_by_us);
	jcs_int(j, "use_within", rq->use_within_s);
	if (rq->verify)
		jcs_bool(j, "verify", true);
	core_sign_statement_free(&st);
	return 0;
}

static int
verb_run_end(struct core_call *call, struct err *err)
{
	struct str id = json_str(json_get(call->args, "run"));
	struct core_run *run = core_run_find(call->core, id);

	if (run == NULL)
		return err_set(err, ERR_NOT_FOUND, "there is no run \"%.*s\"", STR_ARG(id));
	jcs_z(&call->j, "id", run->id);
	jcs_z(&call->j, "state", "ending");
	core_run_end(run, "killed", STR("ended from the control socket"), false);
	return 0;
}

/* The stop button that says who pressed it. What is refused does not wait for the log. */
static int
verb_run_revoke(struct core_call *call, struct err *err)
{
	struct str id = json_str(json_get(call->args, "run"));
	struct str reason = json_str(json_get(call->args, "reason"));
	struct core_run *run = core_run_find(call->core, id);
	const struct core_peer *p = core_peer_by_serial(call->core, call->peer);
	const char *login = p != NULL ? core_peer_login(p) : NULL;
	AUTO_FREE char *by = NULL;

	if (run == NULL)
		return err_set(err, ERR_NOT_FOUND, "there is no run \"%.*s\"", STR_ARG(id));
	if (str_text_check("a reason", reason, 0, LIFT_REASON_MAX, err) != 0)
		return err->code;
	by = login != NULL ? xstrdup(login) : xasprintf("uid %u", p != NULL ? p->uid : 0);
	jcs_z(&call->j, "id", run->id);
	jcs_z(&call->j, "state", "revoked");
	core_run_revoke(run, by, reason);
	return 0;
}

/* --- calls ----------------------------------------------------------------------- */

static const struct {
	const char *verb;
	int (*fn)(struct core_call *call, struct err *err);
	bool needs_live, console;
} verbs[] = {
    {"status", core_status_verb, false, true},
    {"runs", verb_runs, false, true},
    {"pending", verb_pending, true, true},
    {"show", verb_show, true, true},
    {"approve", core_sign_approve, true, true},
    {"deny", core_sign_deny, true, true},
    {"answer", core_question_verb, true, false},
    {"revoke", core_sign_revoke, true, false},
    {"run-end", verb_run_end, true, false},
    {"run-revoke", verb_run_revoke, false, false},
    {"run-watch", core_watch_verb, true, false},
    {"run-pause", core_steer_verb_pause, true, false},
    {"run-resume", core_steer_verb_resume, true, false},
    {"run-stop", core_steer_verb_stop, true, false},
    {"run-message", core_steer_verb_message, true, false},
    {"log-erase", core_erase_verb, true, false},
    {"log-reconcile", core_doubt_verb, true, false},
    {"invite-request", core_enrol_verb_invite, true, false},
    {"invite-sign", core_enrol_verb_sign, true, false},
    {"lift-request", core_lift_verb_request, true, false},
    {"lift-sign", core_lift_verb_sign, true, false},
    {"lift-show", core_lift_verb_show, true, false},
};

static bool
may_ask(const struct core_peer *p)
{
	const struct core *c = p->core;
	const char *login = core_peer_login(p);

	return p->uid == 0 || p->uid == c->uid ||
	       (login != NULL && c->policy != NULL &&
		   policy_person_by_login(c->policy, str_z(login)) != NULL);
}

int
core_control_verb(struct core_call *call, struct str verb, bool console, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (!str_eqz(verb, verbs[i].verb) || (console && !verbs[i].console))
			continue;
		if (verbs[i].needs_live && !call->core->live)
			return err_set(err, ERR_UNAVAILABLE,
			    "the decision log is not available now, try again");
		return verbs[i].fn(call, err);
	}
	return err_set(err, ERR_INVALID, "there is no verb \"%.*s\"", STR_ARG(verb));
}

int
core_control_whole(int rc, const struct buf *answer, struct err *err)
{
	return rc == 0 && buf_over(answer)
		   ? err_set(err, ERR_TOO_LARGE, "the answer is over %zu bytes", answer->max)
		   : rc;
}

void
core_control_run(struct core_call *call, struct str args, core_call_fn *fn, const void *arg)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf out = BUF(CORE_CONTROL_RESULT_MAX);
	struct err why = {0};
	int rc = json_parse(args, "arguments", &doc, &why);

	jcs_init(&call->j, &out);
	jcs_open(&call->j, NULL);
	if (rc == 0) {
		call->args = json_root(doc);
		rc = fn(call, arg, &why);
	}
	if (rc == CORE_CALL_LATER)
		return;
	if (rc == 0)
		jcs_close(&call->j);
	rc = core_control_whole(rc, &out, &why);
	core_control_reply(call->core, call->peer, rc, rc == 0 ? buf_str(&out) : str_z(why.msg));
}

struct wanted {
	const struct core_peer *peer;
	struct str verb;
};

static int
call_verb(struct core_call *call, const void *arg, struct err *err)
{
	const struct wanted *w = arg;
	unsigned uid = (unsigned)w->peer->uid;

	if (may_ask(w->peer))
		return core_control_verb(call, w->verb, false, err);
	log_warn("control: uid %u is no person of the policy", uid);
	return err_set(err, ERR_UNAUTHORISED, "uid %u is no person's login in the policy", uid);
}

int
core_control_on_call(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	struct core_call call = {.core = p->core, .peer = p->serial};
	uint32_t version = rd_u32(body);
	struct wanted w = {.peer = p, .verb = rd_lstr(body)};
	struct str args = rd_lstr(body);
	struct err why;

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "Q_CALL is malformed");
	if (version == IPC_VERSION) {
		core_control_run(&call, args, call_verb, &w);
		return 0;
	}
	(void)err_set(
	    &why, ERR_UNSUPPORTED, "version %u, this broker speaks %d", version, IPC_VERSION);
	core_control_reply(p->core, p->serial, ERR_UNSUPPORTED, str_z(why.msg));
	return 0;
}
