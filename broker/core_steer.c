/*
 * What people tell a run (process: core). The socket says who they are; what they say is durable
 * before the agent hears it. Who gives a run words is from then on no one who could sign for what
 * it, its parent or a child of it does. The agent may fail to hold: what must not pass, the
 * policy refuses, and `revoke` ends.
 */
#include "broker/core_steer.h"

#include <stdlib.h>

#include "broker/core_child.h"
#include "broker/core_data.h"
#include "broker/core_peer.h"
#include "broker/core_question.h"
#include "broker/core_run.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "policy/lift.h"

#include "common/banned.h"

/* What waits for its record. */
struct steer {
	struct core *core;
	uint64_t peer;
	enum core_how how;
	int64_t question; /* that the run asked when it was said */
	char run[CORE_ID_SIZE];
	char *by, *text;
};

static void
steer_free(struct steer *s)
{
	free(s->by);
	free(s->text);
	free(s);
}

/* --- who may --------------------------------------------------------------------------- */

static const struct policy_person *
person_of(const struct core_call *call, const struct core_peer **ret_peer)
{
	const struct core_peer *p = core_peer_by_serial(call->core, call->peer);
	const char *login = p != NULL ? core_peer_login(p) : NULL;

	*ret_peer = p;
	return login != NULL && call->core->policy != NULL
		   ? policy_person_by_login(call->core->policy, str_z(login))
		   : NULL;
}

static bool
watches(const struct policy *p, const struct policy_person *q)
{
	const struct policy_list roles = policy_watch(p);

	for (size_t i = 0; i < roles.n; i++)
		if (policy_person_has_role(q, roles.v[i]))
			return true;
	return false;
}

int
core_steer_may(struct core_call *call, bool any, struct core_run **ret, char **by, struct err *err)
{
	struct str id = json_str(json_get(call->args, "run"));
	struct core_run *run = core_run_find(call->core, id);
	const struct core_peer *p;
	const struct policy_person *q = person_of(call, &p);
	bool admin = p != NULL && (p->uid == 0 || p->uid == call->core->uid);

	if (run == NULL || run->state != CORE_RUN_LIVE)
		return err_set(err, ERR_NOT_FOUND, "there is no run \"%.*s\"", STR_ARG(id));
	if (!admin &&
	    (q == NULL || (!any && !str_eqz(q->id, run->owner) && !watches(call->core->policy, q))))
		return err_set(err, ERR_UNAUTHORISED,
		    "run %s is for its owner, and those who hold a role that the policy's "
		    "\"watch\" "
		    "names",
		    run->id);
	*ret = run;
	*by = q != NULL ? str_dup(q->id) : xasprintf("uid %u", p != NULL ? p->uid : 0);
	return 0;
}

/* --- records --------------------------------------------------------------------------- */

void
core_steer_data(struct buf *out, const char *by, struct str reason)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "by", str_z(by));
	if (reason.n != 0)
		jcs_str_lossy(&j, "reason", reason);
	jcs_close(&j);
}

static const char *
state_of(enum core_how how)
{
	switch (how) {
	case HOW_PAUSE: return "paused";
	case HOW_RESUME: return "goes on";
	case HOW_STOP: return "stopping";
	case HOW_SAY: return "told";
	}
	return "";
}

static void
recorded(void *arg, const struct core_ack *ack)
{
	struct steer *s = arg;
	struct core_run *run = core_run_find(s->core, str_z(s->run));
	AUTO_BUF struct buf b = BUF(512);
	struct jcs j;

	if (ack->code != 0) {
		core_control_reply(s->core, s->peer, ERR_UNAVAILABLE,
		    STR("the decision log is not available: nothing is told unrecorded"));
	} else if (run == NULL || run->state != CORE_RUN_LIVE) {
		core_control_reply(s->core, s->peer, ERR_NOT_FOUND, STR("the run has ended"));
	} else {
		core_steer_do(run, s->how, s->question, ack->seq, s->by, s->text);
		jcs_init(&j, &b);
		jcs_open(&j, NULL);
		jcs_z(&j, "id", s->run);
		jcs_int(&j, "seq", (int64_t)ack->seq);
		jcs_z(&j, "state", state_of(s->how));
		jcs_close(&j);
		core_control_reply(s->core, s->peer, 0, buf_str(&b));
	}
	steer_free(s);
}

/* Takes by. */
static int
record(struct core_call *call, struct core_run *run, enum core_how how, const char *type, char *by,
    const struct core_append *more, struct str text, struct err *err)
{
	struct steer *s = xcalloc(1, sizeof(*s));
	struct core_append a = *more;

	s->core = call->core;
	s->peer = call->peer;
	s->how = how;
	s->question = core_question_open(run);
	s->by = by;
	s->text = str_dup(text);
	memcpy(s->run, run->id, sizeof(s->run));
	a.type = type;
	a.src = "human";
	a.run = how == HOW_SAY ? core_child_root(run)->id : run->id;
	a.fn = recorded;
	a.arg = s;
	run->nsteers++;
	if (core_record(call->core, &a) != NULL)
		return CORE_CALL_LATER;
	steer_free(s);
	return err_set(err, ERR_UNAVAILABLE, "the log cannot take it now, try again");
}

/* --- verbs ----------------------------------------------------------------------------- */

static int
plain(struct core_call *call, enum core_how how, const char *type, bool any, struct err *err)
{
	struct str reason = json_str(json_get(call->args, "reason"));
	AUTO_BUF struct buf data = BUF(2048);
	struct core_run *run;
	char *by;
	int rc;

	if (str_text_check("a reason", reason, 0, LIFT_REASON_MAX, err) != 0)
		return err->code;
	if ((rc = core_steer_may(call, any, &run, &by, err)) != 0)
		return rc;
	/* To stop it must be possible always; again and again, not. */
	if ((how != HOW_STOP || run->stopping != NULL) && run->nsteers >= CORE_STEERS_MAX) {
		free(by);
		return err_set(err, ERR_TOO_LARGE, "run %s was told %d things, the limit", run->id,
		    CORE_STEERS_MAX);
	}
	core_steer_data(&data, by, reason);
	return record(call, run, how, type, by, &(struct core_append){.data = &data}, reason, err);
}

int
core_steer_verb_pause(struct core_call *call, struct err *err)
{
	return plain(call, HOW_PAUSE, "run.pause", true, err);
}

int
core_steer_verb_resume(struct core_call *call, struct err *err)
{
	return plain(call, HOW_RESUME, "run.resume", false, err);
}

int
core_steer_verb_stop(struct core_call *call, struct err *err)
{
	return plain(call, HOW_STOP, "run.stop", true, err);
}

static int
message_check(
    struct core_call *call, struct str text, struct core_run **run, char **by, struct err *err)
{
	const struct core_peer *p;
	const struct policy_person *q = person_of(call, &p);
	int rc;

	if (q == NULL)
		return err_set(err, ERR_UNAUTHORISED,
		    "words have an author: uid %u is no person's login in the policy",
		    p != NULL ? (unsigned)p->uid : 0);
	if (text.n == 0 || text.n > CORE_SAY_MAX) /* UTF-8 it is, out of JSON */
		return err_set(err, ERR_INVALID, "a message has 1 to %d bytes of UTF-8, has %zu",
		    CORE_SAY_MAX, text.n);
	if ((rc = core_steer_may(call, false, run, by, err)) != 0)
		return rc;
	if ((*run)->nsteers < CORE_STEERS_MAX && core_steer_words_room(*run, q->id))
		return 0;
	free(*by);
	return err_set(err, ERR_TOO_LARGE, "run %s was told %d things, or by %d people: the limit",
	    (*run)->id, CORE_STEERS_MAX, CORE_SPOKE_MAX);
}

/* The words are sealed with the run's key; once more in the record itself, for a core that is
 * started again. */
static int
message_data(const struct core_run *run, const char *by, struct str text, const char *to,
    struct buf *frame, struct buf *out, struct err *err)
{
	AUTO_BUF struct buf b64 = BUF(3 * CORE_SAY_MAX);
	struct blob_ref ref;
	struct jcs j;
	int rc = blob_seal(run->key, str_z(run->id), "text/plain", text, frame, &ref, err);

	if (rc != 0)
		return rc;
	enc_base64(&b64, buf_str(frame));
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "by", by);
	blob_ref_jcs(&j, "content", &ref);
	jcs_str(&j, "frame", buf_str(&b64));
	if (strcmp(to, run->id) != 0)
		jcs_z(&j, "to", to);
	jcs_close(&j);
	return 0;
}

int
core_steer_verb_message(struct core_call *call, struct err *err)
{
	struct str text = json_str(json_get(call->args, "text"));
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX), frame = BUF(CORE_RECORD_DATA_MAX);
	struct core_run *run;
	char *by;
	int rc = message_check(call, text, &run, &by, err);

	if (rc != 0)
		return rc;
	/* Of the root's: who gave words is excluded as long as that lives. */
	if ((rc = message_data(core_child_root(run), by, text, run->id, &frame, &data, err)) != 0) {
		free(by);
		return rc;
	}
	core_steer_words_add(run, str_z(by)); /* at once, and whatever becomes of the record */
	return record(call, run, HOW_SAY, "run.message", by,
	    &(struct core_append){.data = &data, .frame = &frame, .show = text}, text, err);
}
