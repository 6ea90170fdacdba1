/*
 * The content of records (process: core). Text from outside goes in lossily (invalid UTF-8
 * becomes U+FFFD), never raw; statements and parameters go to sealed blobs, not here.
 */
#include "broker/core_data.h"

#include "audit/outcome.h"
#include "broker/core_child.h"
#include "broker/core_http_data.h"
#include "broker/core_lift.h"
#include "broker/core_pg.h"
#include "broker/core_rate.h"

#include "common/banned.h"

void
core_data_time(struct jcs *j, const char *key, int64_t us)
{
	char t[CLOCK_TEXT_SIZE];

	clock_format(us, t);
	jcs_z(j, key, t);
}

void
core_data_hash(struct jcs *j, const char *key, const struct hash *h)
{
	if (h != NULL)
		jcs_hex(j, key, h->b, HASH_LEN);
	else
		jcs_z(j, key, "");
}

/* Counts from another process: what a record cannot hold is shown as the largest it can. */
void
core_data_count(struct jcs *j, const char *key, uint64_t n)
{
	const uint64_t max = (UINT64_C(1) << 53) - 1;

	jcs_int(j, key, (int64_t)(n < max ? n : max));
}

static void
put_attr(struct jcs *j, const char *key, struct str s)
{
	if (s.p != NULL)
		jcs_str_lossy(j, key, s);
}

static void
put_rates(struct jcs *j, const struct policy_input *in)
{
	if (in->nrates == 0)
		return;
	jcs_array(j, "rates");
	for (size_t i = 0; i < in->nrates; i++) {
		jcs_open(j, NULL);
		jcs_int(j, "n", in->rates[i].n);
		jcs_str(j, "rule", in->rates[i].rule);
		jcs_close(j);
	}
	jcs_array_end(j);
}

void
core_data_input(struct jcs *j, const char *key, const struct policy_input *in)
{
	jcs_open(j, key);
	put_attr(j, "agent", in->agent);
	if (in->began_us != 0)
		core_data_time(j, "began", in->began_us);
	if (in->deferred)
		jcs_bool(j, "deferred", true);
	effect_jcs(j, "effects", in->effects);
	put_attr(j, "env", in->env);
	put_attr(j, "kind", in->kind);
	core_lift_data_input(j, in);
	put_attr(j, "owner", in->owner);
	put_rates(j, in);
	jcs_array(j, "relations");
	for (size_t i = 0; i < in->nrelations; i++)
		jcs_str_lossy(j, NULL, in->relations[i]);
	jcs_array_end(j);
	jcs_int(j, "statements", in->statements);
	put_attr(j, "target", in->target);
	if (in->nwords != 0) {
		jcs_array(j, "words");
		for (size_t i = 0; i < in->nwords; i++)
			jcs_str(j, NULL, in->words[i]);
		jcs_array_end(j);
	}
	jcs_close(j);
}

/* --- action ---------------------------------------------------------------------- */

static void
put_grants(struct jcs *j, const struct policy_grant *g, size_t n)
{
	jcs_array(j, "grants");
	for (size_t i = 0; i < n; i++) {
		jcs_open(j, NULL);
		jcs_str(j, "person", g[i].person);
		jcs_str(j, "role", g[i].role);
		if (g[i].verified)
			jcs_bool(j, "verified", true);
		jcs_close(j);
	}
	jcs_array_end(j);
}

static void
put_decision(struct jcs *j, const struct core_from *f, const struct core_action *a)
{
	const struct policy *p = f->run->core->policy;
	const struct decision *d = &a->d;
	struct policy_input in = core_decide_input(f->run, str_z(core_from_target(f)), a);
	struct decision said = a->d;

	policy_say(&in, &said);
	jcs_open(j, "decision");
	if (a->request != NULL)
		jcs_z(j, "approval", core_request_id(a->request));
	core_data_time(j, "at", a->now.us);
	if (a->attempt != 0)
		jcs_int(j, "attempt", a->attempt);
	if (d->calendar.n != 0)
		jcs_str(j, "calendar", d->calendar);
	jcs_z(j, "clock",
	    p != NULL && policy_clock(p) == CLOCK_MODE_TRUSTED ? "trusted" : "kernel-sync");
	jcs_bool(j, "clock_known", a->now.known);
	core_rate_jcs(j, p, &in, a);
	if (d->verdict != VERDICT_ALLOW && a->detail != NULL && a->detail[0] != '\0')
		jcs_str_lossy(j, "detail", str_z(a->detail));
	jcs_z(j, "engine", EFFECTS_ENGINE);
	put_grants(j, a->grants, a->ngrants);
	if (d->verdict != VERDICT_ALLOW && a->hint != NULL && a->hint[0] != '\0')
		jcs_str_lossy(j, "how", str_z(a->hint));
	if (d->nlifted != 0) {
		jcs_array(j, "lifted");
		for (size_t i = 0; i < d->nlifted; i++)
			jcs_str(j, NULL, d->lifted[i]);
		jcs_array_end(j);
	}
	if (a->linked)
		jcs_int(j, "link", (int64_t)a->link);
	if (d->max_rows >= 0 && p != NULL)
		jcs_int(j, "max_rows", d->max_rows);
	core_data_hash(j, "policy", p != NULL ? policy_digest(p) : NULL);
	jcs_str_lossy(j, "reason",
	    d->verdict != VERDICT_ALLOW && a->message != NULL ? str_z(a->message)
							      : str_z(said.text));
	jcs_array(j, "rules");
	for (size_t i = 0; i < d->nrules; i++)
		jcs_str(j, NULL, d->rules[i]);
	jcs_array_end(j);
	policy_slots_jcs(j, "slots", d->slots, d->nslots);
	if (d->verdict != VERDICT_ALLOW && a->sqlstate != NULL && f->pg != NULL)
		jcs_z(j, "sqlstate", a->sqlstate);
	if (d->until_us != 0)
		core_data_time(j, "until", d->until_us);
	jcs_z(j, "verdict", verdict_name(d->verdict));
	jcs_close(j);
}

static void
put_dispatch(struct jcs *j, const struct core_data_action *d)
{
	bool sent = d->sent != NULL, own = d->wrap || d->poison != NULL;
	struct str condition = d->http != NULL ? core_http_look_condition(d->a) : STR_NONE;

	jcs_open(j, "dispatch");
	if (sent && condition.n != 0)
		jcs_str_lossy(j, "condition", condition);
	if (sent && d->a->facts != NULL && d->a->facts->view.copy_in)
		jcs_bool(j, "copy_in", true);
	if (sent) {
		jcs_z(j, "credential", d->from->credential);
		jcs_z(j, "credential_fp", d->from->credential_fp);
	}
	if (sent && d->wrap)
		jcs_int(j, "max_rows", d->a->d.max_rows);
	if (own)
		jcs_z(j, "origin", "broker"); /* of the statements that core adds */
	if (d->poison != NULL)
		jcs_z(j, "poison", d->poison);
	jcs_bool(j, "sent", sent);
	if (sent && d->witnesses != 0)
		jcs_int(j, "witnesses", d->witnesses);
	if (sent && d->wrap)
		jcs_bool(j, "wrap", true);
	jcs_close(j);
}

static void
put_request(struct jcs *j, const struct core_data_action *d)
{
	const struct core_action *a = d->a;
	struct policy_input in =
	    core_decide_input(d->from->run, str_z(core_from_target(d->from)), a);
	struct hash text = hash_sha256(a->text);
	char state[2] = {a->txn_state, '\0'};

	jcs_open(j, "request");
	jcs_str_lossy(j, "address", str_z(d->from->address));
	if (d->cancels != NULL)
		jcs_z(j, "cancels", d->cancels);
	jcs_int(j, "conn", (int64_t)(d->from->id & ((UINT64_C(1) << 53) - 1)));
	core_data_hash(j, "digest", &a->digest);
	effect_jcs(j, "effects", a->effects);
	if (d->http != NULL)
		core_http_data_facts(d->http, j);
	else
		jcs_raw(j, "facts", a->facts != NULL ? str_z(a->facts->json) : STR("{}"));
	blob_ref_jcs(j, "head", d->head);
	if (d->http != NULL)
		core_http_data_request(d->http, j);
	core_data_input(j, "input", &in);
	jcs_z(j, "kind", d->kind);
	jcs_str_lossy(j, "operation",
	    d->http != NULL ? core_http_method(d->http) : str_z(core_op_name(a->op)));
	jcs_z(j, "protocol", d->from->protocol);
	core_data_hash(j, "sent", d->sent);
	jcs_z(j, "target", core_from_target(d->from));
	if (d->http == NULL) {
		core_data_hash(j, "text_sha256", &text);
		jcs_z(j, "txn", state);
		effect_jcs(j, "txn_effects", a->txn_effects);
	}
	jcs_close(j);
}

void
core_data_action(struct buf *out, const struct core_data_action *d)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "action", d->a->id);
	put_decision(&j, d->from, d->a);
	put_dispatch(&j, d);
	put_request(&j, d);
	jcs_close(&j);
}

void
core_data_reads(struct jcs *j, bool reads, const char *status)
{
	if (reads && outcome_leaves_doubt(str_z(status)))
		jcs_bool(j, "reads", true);
}

void
core_data_outcome(struct buf *out, const struct core_data_outcome *d)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "action", d->action);
	jcs_int(&j, "action_seq", (int64_t)d->seq);
	if (d->answer != NULL)
		blob_ref_jcs(&j, "answer", d->answer);
	core_data_count(&j, "answer_bytes", d->answer_bytes);
	if (d->copied != NULL) {
		jcs_open(&j, "copy");
		core_data_count(&j, "bytes", d->copied_bytes);
		core_data_hash(&j, "sha256", d->copied);
		jcs_close(&j);
	}
	core_data_count(&j, "duration_us", d->duration_us);
	if (d->shared > 1)
		jcs_int(&j, "exchange", d->shared);
	if (d->peer.n != 0)
		jcs_str_lossy(&j, "peer", d->peer);
	if (d->peer_cert.n != 0)
		jcs_str_lossy(&j, "peer_cert", d->peer_cert);
	if (d->preview.n != 0)
		jcs_str_lossy(&j, "preview", d->preview);
	core_data_reads(&j, d->reads, d->status);
	core_data_count(&j, "rows", d->rows);
	core_data_hash(&j, "sent", d->sent);
	jcs_str_lossy(&j, "sqlstate", d->sqlstate);
	jcs_z(&j, "status", d->status);
	jcs_str_lossy(&j, "tag", d->tag);
	if (d->why != NULL)
		jcs_str_lossy(&j, "why", str_z(d->why));
	jcs_close(&j);
}

/* --- runs and policy ------------------------------------------------------------- */

static void
put_target(struct jcs *j, const struct core_target *t, int64_t index)
{
	jcs_open(j, NULL);
	jcs_z(j, "address", t->address);
	jcs_z(j, "host", t->host);
	if (index >= 0)
		jcs_int(j, "index", index);
	jcs_z(j, "kind", t->kind);
	jcs_int(j, "listen", t->listen);
	if (t->place[0] != '\0')
		jcs_z(j, "place", t->place);
	jcs_int(j, "port", t->port);
	if (t->scheme[0] != '\0')
		jcs_z(j, "scheme", t->scheme);
	jcs_z(j, "target", t->id);
	jcs_close(j);
}

void
core_data_run_start(
    struct buf *out, const struct core_run *run, const struct blob_ref *task, struct str level)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "agent", str_z(run->agent));
	if (run->all)
		jcs_bool(&j, "all", true);
	core_child_put_budget(&j, run);
	core_child_put_effects(&j, run);
	jcs_raw(&j, "level", level);
	jcs_z(&j, "login", run->login);
	jcs_z(&j, "owner", run->owner);
	core_child_put_parent(&j, run);
	jcs_array(&j, "targets");
	for (size_t i = 0; i < run->ntargets; i++)
		put_target(&j, &run->targets[i], -1);
	jcs_array_end(&j);
	blob_ref_jcs(&j, "task", task);
	jcs_close(&j);
}

void
core_data_run_targets(struct buf *out, const struct core_run *run)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_array(&j, "added");
	for (size_t i = 0; i < run->ntargets; i++)
		if (run->targets[i].state == CORE_TARGET_RECORDED)
			jcs_z(&j, NULL,
			    run->targets[i].id[0] != '\0' ? run->targets[i].id
							  : run->targets[i].kind);
	jcs_array_end(&j);
	jcs_int(&j, "addresses", run->naddresses);
	jcs_array(&j, "gone");
	for (size_t i = 0; i < run->patch.ngone; i++)
		jcs_z(&j, NULL, run->patch.gone[i]);
	jcs_array_end(&j);
	jcs_array(&j, "targets");
	for (size_t i = 0; i < run->ntargets; i++)
		if (run->targets[i].state == CORE_TARGET_SERVES ||
		    run->targets[i].state == CORE_TARGET_RECORDED)
			put_target(&j, &run->targets[i], (int64_t)i);
	jcs_array_end(&j);
	jcs_close(&j);
}

void
core_data_run_end(struct buf *out, const char *status, struct str text, const char *spent)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	if (spent != NULL)
		jcs_raw(&j, "spent", str_z(spent));
	jcs_z(&j, "status", status);
	jcs_str_lossy(&j, "text", text);
	jcs_close(&j);
}

void
core_data_run_revoke(struct buf *out, const char *by, struct str reason)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "by", by);
	if (reason.n != 0)
		jcs_str(&j, "reason", reason);
	jcs_close(&j);
}

void
core_data_policy_load(struct buf *out, const struct policy *p, const struct blob_ref *bundle)
{
	const struct policy_owners *owners = policy_owners(p);
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	blob_ref_jcs(&j, "bundle", bundle);
	jcs_z(&j, "clock", policy_clock(p) == CLOCK_MODE_TRUSTED ? "trusted" : "kernel-sync");
	core_data_hash(&j, "digest", policy_digest(p));
	if (owners != NULL)
		jcs_int(&j, "owners", owners->count);
	jcs_str(&j, "policy", policy_name(p));
	jcs_int(&j, "serial", policy_serial(p));
	jcs_str_lossy(&j, "tzdata", policy_tzdata(p));
	jcs_close(&j);
}

void
core_data_policy_refused(struct buf *out, const struct policy *p, const char *reason)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	if (p != NULL) {
		core_data_hash(&j, "digest", policy_digest(p));
		jcs_str(&j, "policy", policy_name(p));
	}
	jcs_str_lossy(&j, "reason", str_z(reason));
	if (p != NULL)
		jcs_int(&j, "serial", policy_serial(p));
	jcs_close(&j);
}
