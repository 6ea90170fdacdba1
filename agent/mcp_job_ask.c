/*
 * What a run may know of itself, in a job of cofferdam-mcp: its targets, what the policy says of
 * them, its requests for approval, its end. Asks the broker by the keeper; signs nothing, and has
 * nothing to sign with.
 */
#include "agent/mcp_job.h"

#include "common/jcs.h"

#include "common/banned.h"

#define ANSWER_MAX ((size_t)1 << 20)

static int
query(struct mcp_job *j, const char *verb, struct str args, struct json_doc **ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(ANSWER_MAX);
	int rc = keeper_query(j->k, verb, args, &b, err);

	return rc != 0 ? rc : json_parse(buf_str(&b), verb, ret, err);
}

/* --- targets --------------------------------------------------------------------------- */

static int
state_of(struct mcp_job *j, struct json_doc **ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(ANSWER_MAX);
	int rc = keeper_state(j->k, &b, err);

	return rc != 0 ? rc : json_parse(buf_str(&b), "state", ret, err);
}

int
mcp_job_targets(struct mcp_job *j, struct buf *out, bool *failed, struct err *err)
{
	AUTO(json) struct json_doc *state = NULL, *standing = NULL;
	struct jcs w;
	int rc;

	*failed = false;
	if ((rc = state_of(j, &state, err)) != 0 ||
	    (rc = query(j, "standing", STR("{}"), &standing, err)) != 0)
		return rc;
	jcs_init(&w, out);
	jcs_open(&w, NULL);
	rc = jcs_value(&w, "frozen", json_get(json_root(standing), "frozen"), err);
	jcs_z(&w, "owner", keeper_owner(j->k));
	jcs_str(&w, "policy", json_str(json_get(json_root(standing), "words")));
	jcs_z(&w, "run", keeper_run(j->k));
	if (rc == 0)
		rc = jcs_value(&w, "targets", json_get(json_root(state), "targets"), err);
	jcs_close(&w);
	return rc;
}

/* --- approvals ------------------------------------------------------------------------- */

static const char *
advice(struct str state)
{
	static const struct {
		const char *state, *text;
	} known[] = {
	    {"recording", "ask again in a moment"},
	    {"pending",
		"tell the user; people sign it with what stands in `how`, nothing here can. "
		"Go on with other work and ask approval_status"},
	    {"armed", "it is approved: do exactly the same action again, before use_by"},
	    {"consumed", "it was used; the same action again needs another approval"},
	    {"denied", "it was denied: do not try it by other ways; tell the user"},
	    {"expired", "nobody signed in time: do the action again if it is still wanted, which "
			"asks anew"},
	    {"void", "what it was for has changed: do the action again if it is still wanted"},
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eqz(state, known[i].state))
			return known[i].text;
	return "ask again";
}

static void
copy(struct jcs *w, const struct json *v, const char *key)
{
	if (json_get(v, key) != NULL)
		(void)jcs_value(w, key, json_get(v, key), NULL);
}

static void
request_put(struct jcs *w, const struct json *v)
{
	AUTO_BUF struct buf how = BUF(512);
	struct str id = json_str(json_get(v, "id"));

	buf_printf(&how, "cofferdam show %.*s; cofferdam approve %.*s --as NAME", STR_ARG(id),
	    STR_ARG(id));
	jcs_open(w, NULL);
	copy(w, v, "approve_by");
	copy(w, v, "grants");
	jcs_z(w, "hint", advice(json_str(json_get(v, "state"))));
	if (str_eqz(json_str(json_get(v, "state")), "pending"))
		jcs_str(w, "how", buf_str(&how));
	copy(w, v, "needs");
	copy(w, v, "not_before");
	copy(w, v, "reason");
	jcs_str(w, "request", id);
	copy(w, v, "state");
	copy(w, v, "target");
	copy(w, v, "use_by");
	jcs_close(w);
}

static int
one_put(struct mcp_job *j, struct buf *out, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO_BUF struct buf args = BUF(512);
	struct jcs w;
	int rc;

	buf_put_z(&args, "{\"id\":");
	mcp_text_put(&args, j->o->args.request);
	buf_put_c(&args, '}');
	if ((rc = query(j, "approval", buf_str(&args), &d, err)) != 0)
		return rc;
	jcs_init(&w, out);
	jcs_open(&w, NULL);
	jcs_array(&w, "requests");
	request_put(&w, json_root(d));
	jcs_array_end(&w);
	jcs_close(&w);
	return 0;
}

int
mcp_job_approvals(struct mcp_job *j, struct buf *out, bool *failed, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	const struct json *list;
	struct jcs w;
	int rc;

	*failed = false;
	if (j->o->args.request.n != 0)
		return one_put(j, out, err);
	if ((rc = query(j, "approvals", STR("{}"), &d, err)) != 0)
		return rc;
	list = json_get(json_root(d), "requests");
	jcs_init(&w, out);
	jcs_open(&w, NULL);
	jcs_array(&w, "requests");
	for (size_t i = 0; i < json_count(list); i++)
		request_put(&w, json_at(list, i));
	jcs_array_end(&w);
	jcs_close(&w);
	return 0;
}

/* The reason is the agent's own words: those who sign see it last, and marked as such. */
int
mcp_job_request(struct mcp_job *j, struct buf *out, bool *failed, struct err *err)
{
	AUTO_BUF struct buf fields = BUF(512);
	struct jcs w;
	int rc = one_put(j, out, err);

	*failed = false;
	if (rc != 0 || j->o->args.reason.n == 0)
		return rc;
	jcs_init(&w, &fields);
	jcs_open(&w, NULL);
	jcs_str_lossy(&w, "request", j->o->args.request);
	jcs_close(&w);
	return keeper_event(j->k, "note", buf_str(&fields), j->o->args.reason, err);
}

/* --- the end --------------------------------------------------------------------------- */

int
mcp_job_end(struct mcp_job *j, struct buf *out, bool *failed, struct err *err)
{
	AUTO_FREE char *why =
	    str_dup(j->o->args.reason.n != 0 ? j->o->args.reason : STR("ended by its client"));
	struct jcs w;
	int rc;

	*failed = false;
	jcs_init(&w, out);
	jcs_open(&w, NULL);
	jcs_z(&w, "run", keeper_run(j->k));
	jcs_z(&w, "state", "ended");
	jcs_close(&w);
	rc = keeper_end(j->k, "done", why, err);
	return rc;
}
