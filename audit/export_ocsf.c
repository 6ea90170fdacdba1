/*
 * Records as events of OCSF (Open Cybersecurity Schema Framework), version below. Runs in the
 * command line. One record is one event; what OCSF has no place for stands under `unmapped`, by the
 * names of the list of what may leave. docs/export.md has the table.
 */
#include "audit/export_ocsf.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"

#include "common/banned.h"

/* --- which class ----------------------------------------------------------------------------- */

static const struct {
	const char *type;
	struct ocsf_kind kind;
} kinds[] = {
    {"approval.request", {OCSF_ENTITY, 1, "Approval request"}},
    {"approval.armed", {OCSF_ENTITY, 10, "Approval request"}},
    {"approval.consumed", {OCSF_ENTITY, 11, "Approval request"}},
    {"approval.expired", {OCSF_ENTITY, 11, "Approval request"}},
    {"approval.void", {OCSF_ENTITY, 11, "Approval request"}},
    {"approval.*", {OCSF_ENTITY, 3, "Approval request"}},
    {"freeze.request", {OCSF_ENTITY, 1, "Freeze"}},
    {"freeze.begin", {OCSF_ENTITY, 10, "Freeze"}},
    {"freeze.end", {OCSF_ENTITY, 11, "Freeze"}},
    {"freeze.*", {OCSF_ENTITY, 3, "Freeze"}},
    {"exception.request", {OCSF_ENTITY, 1, "Exception"}},
    {"exception.begin", {OCSF_ENTITY, 10, "Exception"}},
    {"exception.end", {OCSF_ENTITY, 11, "Exception"}},
    {"exception.*", {OCSF_ENTITY, 3, "Exception"}},
    {"breakglass.request", {OCSF_ENTITY, 1, "Break-glass"}},
    {"breakglass.begin", {OCSF_ENTITY, 10, "Break-glass"}},
    {"breakglass.end", {OCSF_ENTITY, 11, "Break-glass"}},
    {"breakglass.*", {OCSF_ENTITY, 3, "Break-glass"}},
    {"policy.load", {OCSF_ENTITY, 10, "Policy"}},
    {"policy.unload", {OCSF_ENTITY, 11, "Policy"}},
    {"policy.refused", {OCSF_ENTITY, 3, "Policy"}},
    {"console.invite", {OCSF_ENTITY, 1, "Invitation"}},
    {"console.enrol", {OCSF_ENTITY, 6, "Passkey"}},
    {"erasure", {OCSF_ENTITY, 4, "Sealed content"}},
    {"outcome.settled", {OCSF_ENTITY, 3, "Outcome"}},
    {"outcome", {OCSF_API, OCSF_OTHER, "Outcome"}},
    {"preview", {OCSF_API, 2, NULL}},
    {"run.start", {OCSF_AUTHORIZE, 1, NULL}},
    {"run.targets", {OCSF_AUTHORIZE, 1, NULL}},
    {"run.end", {OCSF_LIFECYCLE, 4, NULL}},
    {"run.revoke", {OCSF_LIFECYCLE, 4, NULL}},
    {"log.open", {OCSF_LIFECYCLE, 3, NULL}},
    {"log.close", {OCSF_LIFECYCLE, 4, NULL}},
    {"log.full", {OCSF_LIFECYCLE, 4, NULL}},
};

/* A list of effects as bits. */
enum { READ = 1, WRITE = 2, SCHEMA = 4, REMOVE = 8, REPLACE = 16, BEYOND = 32 };

static unsigned
effects_of(const struct canon_node *v)
{
	static const struct {
		const char *effect;
		unsigned bit;
	} effects[] = {{"read", READ}, {"txn", 0}, {"write", WRITE}, {"schema", SCHEMA},
	    {"delete", REMOVE}, {"bulk", REMOVE}, {"drop", REMOVE}, {"overwrite", REPLACE},
	    {"disrupt", REPLACE}};
	const struct canon_node *at = canon_first(v);
	unsigned bits = 0;

	for (size_t i = 0; i < canon_count(v); i++) {
		unsigned bit = BEYOND;

		for (size_t k = 0; k < ARRAY_LEN(effects); k++)
			if (str_eqz(canon_text(at), effects[k].effect))
				bit = effects[k].bit;
		bits |= bit;
		if (i + 1 < canon_count(v))
			at = canon_behind(at);
	}
	return bits;
}

/* What is removed counts before what is written, and that before what is read. */
static struct ocsf_kind
kind_of_action(const struct export *e)
{
	struct str op = canon_text(export_at(e->data, "request.operation"));
	bool http = str_eqz(canon_text(export_at(e->data, "request.protocol")), "http");
	unsigned bits = effects_of(export_at(e->data, "request.effects"));
	struct ocsf_kind k = {http ? OCSF_API : OCSF_DATASTORE, OCSF_OTHER, "Transaction control"};

	if (!http && str_eqz(op, "connect"))
		k.activity = 3;
	else if ((bits & REMOVE) != 0)
		k.activity = http ? 4 : 7;
	else if ((bits & BEYOND) != 0)
		k.other = "Beyond data";
	else if (http && (bits & (WRITE | SCHEMA | REPLACE)) != 0)
		k.activity = str_eqz(op, "POST") ? 1 : 3;
	else if ((bits & (SCHEMA | REPLACE)) != 0)
		k.other = (bits & SCHEMA) != 0 ? "Schema change" : "Overwrite or disrupt";
	else if ((bits & WRITE) != 0)
		k.activity = 5;
	else if ((bits & READ) != 0)
		k.activity = http ? 2 : 4;
	return k;
}

static bool
fits(const char *pattern, struct str type)
{
	struct str p = str_z(pattern);

	if (!str_has_suffix(p, ".*"))
		return str_eq(p, type);
	return type.n >= p.n - 1 && memcmp(type.p, p.p, p.n - 1) == 0;
}

struct ocsf_kind
ocsf_kind(const struct export *e)
{
	struct ocsf_kind none = {OCSF_BASE, OCSF_OTHER, NULL};

	if (str_eqz(e->r->type, "action"))
		return kind_of_action(e);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (!fits(kinds[i].type, e->r->type))
			continue;
		/* Privileges are assigned only if there are some. */
		if (kinds[i].kind.class == OCSF_AUTHORIZE &&
		    canon_count(export_at(e->data, "targets")) == 0)
			return none;
		return kinds[i].kind;
	}
	return none;
}

/* --- the event -------------------------------------------------------------------------------- */

static void
put_message(struct ocsf *p)
{
	static const char *const what[] = {"decision.verdict", "status", "person", "reason"};
	struct str target = ocsf_text(p->e, "request.target", "target");
	AUTO_BUF struct buf b = BUF(1024);

	buf_put_str(&b, p->e->r->type);
	if (target.n != 0)
		buf_put_z(&b, " at ");
	export_words(&b, target, 64);
	for (size_t i = 0; i < ARRAY_LEN(what); i++) {
		struct str s = ocsf_text(p->e, what[i], NULL);

		if (s.n != 0)
			buf_put_z(&b, ": ");
		export_words(&b, s, 128);
	}
	jcs_str(&p->j, "message", buf_str(&b));
}

/* As it was judged, or what people settled. */
static void
put_action_id(struct ocsf *p)
{
	struct str verdict = ocsf_text(p->e, "decision.verdict", NULL);

	if (verdict.n == 0)
		return;
	if (str_eqz(verdict, "needs_approval"))
		jcs_z(&p->j, "action", "Needs approval");
	jcs_int(&p->j, "action_id",
	    str_eqz(verdict, "allow")  ? 1
	    : str_eqz(verdict, "deny") ? 2
				       : OCSF_OTHER);
}

/* 1 Allowed, 2 Blocked, 8 Approved, 14 Delayed, 25 Rejected */
static void
put_disposition(struct ocsf *p)
{
	struct str verdict = ocsf_text(p->e, "decision.verdict", NULL), type = p->e->r->type;
	int id = 0;

	if (str_eqz(verdict, "allow"))
		id = ocsf_text(p->e, "decision.approval", NULL).n != 0 ? 8 : 1;
	else if (verdict.n != 0)
		id = str_eqz(verdict, "deny") ? 2 : 14;
	else if (str_eqz(type, "approval.armed"))
		id = 8;
	else if (str_eqz(type, "approval.deny") || str_has_suffix(type, ".rejected") ||
		 str_eqz(type, "policy.refused"))
		id = 25;
	if (id != 0)
		jcs_int(&p->j, "disposition_id", id);
}

/* Of an action that was let through the outcome tells, which is an event of its own. */
static void
put_status(struct ocsf *p)
{
	struct str type = p->e->r->type, status = ocsf_text(p->e, "status", NULL),
		   verdict = ocsf_text(p->e, "decision.verdict", NULL),
		   state = ocsf_text(p->e, "sqlstate", NULL);
	const struct canon_node *http = export_at(p->e->data, "http_status");
	char code[24];
	int id = 1;

	if (str_eqz(type, "action"))
		id = str_eqz(verdict, "deny") ? 2 : 0;
	else if (str_eqz(type, "outcome"))
		id = str_eqz(status, "ok")				     ? 1
		     : str_eqz(status, "unknown") || str_eqz(status, "lost") ? 0
									     : 2;
	else if (str_has_suffix(type, ".rejected") || str_has_suffix(type, ".refused"))
		id = 2;
	if (state.n != 0) {
		export_text(&p->j, "status_code", state);
	} else if (http != NULL) {
		(void)snprintf(code, sizeof(code), "%lld", (long long)canon_int(http));
		jcs_z(&p->j, "status_code", code);
	}
	if (status.n != 0)
		export_text(&p->j, "status_detail", status);
	jcs_int(&p->j, "status_id", id);
}

static void
put_http_response(struct ocsf *p)
{
	const struct canon_node *status = export_at(p->e->data, "http_status");

	if (p->k.class != OCSF_API || status == NULL)
		return;
	jcs_open(&p->j, "http_response");
	jcs_int(&p->j, "code", canon_int(status));
	jcs_close(&p->j);
}

static void
put_name(struct ocsf *p, const char *key, const char *member, struct str value)
{
	jcs_open(&p->j, key);
	export_text(&p->j, member, value);
	jcs_close(&p->j);
}

/* What the activity went to: the target as the policy calls it. */
static void
put_datastore(struct ocsf *p)
{
	struct str target = ocsf_text(p->e, "request.target", "target");

	jcs_open(&p->j, "database");
	export_text(&p->j, "name", target.n != 0 ? target : STR("unknown"));
	jcs_int(&p->j, "type_id",
	    str_eqz(ocsf_text(p->e, "request.protocol", NULL), "postgresql") ? 1 : OCSF_OTHER);
	jcs_close(&p->j);
}

static void
put_member(void *arg, const char *name, enum export_class c UNUSED, const struct canon_node *v)
{
	export_value(arg, name, v);
}

/* Up to `entity`, in the order of the keys. */
static void
put_first(struct ocsf *p)
{
	bool activity = p->k.class == OCSF_API || p->k.class == OCSF_DATASTORE;
	struct str target = ocsf_text(p->e, "request.target", "target");

	put_action_id(p);
	jcs_int(&p->j, "activity_id", p->k.activity);
	if (p->k.activity == OCSF_OTHER)
		jcs_str(
		    &p->j, "activity_name", p->k.other != NULL ? str_z(p->k.other) : p->e->r->type);
	if (activity || p->k.class == OCSF_ENTITY || p->k.class == OCSF_AUTHORIZE)
		ocsf_actor(p);
	ocsf_ai_agent(p);
	ocsf_api(p);
	if (p->k.class == OCSF_LIFECYCLE)
		put_name(p, "app", p->e->r->run.n != 0 ? "uid" : "name",
		    p->e->r->run.n != 0 ? p->e->r->run : STR("cofferdam"));
	jcs_int(&p->j, "category_uid", p->k.class / 1000);
	jcs_int(&p->j, "class_uid", p->k.class);
	if (p->k.class == OCSF_ENTITY && ocsf_text(p->e, "reason", "note").n != 0)
		export_text(&p->j, "comment", ocsf_text(p->e, "reason", "note"));
	if (p->k.class == OCSF_DATASTORE)
		put_datastore(p);
	put_disposition(p);
	if (activity && target.n != 0)
		put_name(p, "dst_endpoint", "svc_name", target);
	if (p->k.class == OCSF_ENTITY)
		ocsf_entity(p);
}

/* From `http_request` to the end. */
static void
put_rest(struct ocsf *p)
{
	bool activity = p->k.class == OCSF_API || p->k.class == OCSF_DATASTORE;
	struct str run = p->e->r->run, owner = ocsf_text(p->e, "owner", NULL);
	unsigned severity = export_severity(p->e);
	int64_t us = 0;

	(void)clock_parse(p->e->r->time, &us, NULL); /* record_parse has read it */
	ocsf_http_request(p);
	put_http_response(p);
	jcs_bool(&p->j, "is_alert", severity >= 3);
	put_message(p);
	ocsf_metadata(p);
	ocsf_policy(p);
	if (p->k.class == OCSF_AUTHORIZE)
		ocsf_privileges(p);
	ocsf_hash(p);
	if (p->k.class == OCSF_AUTHORIZE)
		put_name(p, "session", "uid", run);
	jcs_int(&p->j, "severity_id", severity);
	if (activity)
		put_name(p, "src_endpoint", run.n != 0 ? "instance_uid" : "name",
		    run.n != 0 ? run : STR("cofferdam"));
	put_status(p);
	jcs_int(&p->j, "time", us / 1000);
	if (p->k.class == OCSF_DATASTORE)
		jcs_int(&p->j, "type_id", 1);
	jcs_int(&p->j, "type_uid", (int64_t)p->k.class * 100 + p->k.activity);
	jcs_open(&p->j, "unmapped");
	export_each(p->e, put_member, &p->j);
	jcs_close(&p->j);
	if (p->k.class == OCSF_AUTHORIZE)
		put_name(p, "user", "name", owner.n != 0 ? owner : STR("unknown"));
}

void
export_ocsf(const struct export *e, struct buf *out)
{
	struct ocsf p = {.e = e, .k = ocsf_kind(e)};

	jcs_init(&p.j, out);
	jcs_open(&p.j, NULL);
	put_first(&p);
	put_rest(&p);
	jcs_close(&p.j);
}
