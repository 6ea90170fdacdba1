/*
 * The bundle: everything core needs of a policy, canonical, so that one policy has one
 * digest. Written by `cofferdam policy build`. Durations are in seconds, effect sets are
 * spelled out, calendars are intervals; what people wrote stays behind in the source.
 */
#include "policy/policy_internal.h"

#include <stdio.h>

#include "common/jcs.h"

#include "common/banned.h"

static void
put_strs(struct jcs *j, const char *key, const struct str *v, size_t n)
{
	if (n == 0)
		return;
	jcs_array(j, key);
	for (size_t i = 0; i < n; i++)
		jcs_str(j, NULL, v[i]);
	jcs_array_end(j);
}

static void
put_text(struct jcs *j, const char *key, struct str s)
{
	if (s.n != 0)
		jcs_str(j, key, s);
}

static void
put_duration(struct jcs *j, const char *key, int64_t s)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%llds", (long long)s);
	jcs_z(j, key, text);
}

static void
put_calendar(struct jcs *j, const struct calendar *c)
{
	jcs_key(j, c->id);
	jcs_open(j, NULL);
	jcs_array(j, "intervals");
	for (size_t i = 0; i < c->n; i++) {
		jcs_array(j, NULL);
		jcs_int(j, NULL, c->iv[i].from);
		jcs_int(j, NULL, c->iv[i].to);
		jcs_array_end(j);
	}
	jcs_array_end(j);
	jcs_z(j, "kind", c->open ? "open" : "freeze");
	jcs_str(j, "tz", c->tz);
	jcs_array(j, "valid");
	jcs_int(j, NULL, c->valid.from);
	jcs_int(j, NULL, c->valid.to);
	jcs_array_end(j);
	jcs_close(j);
}

/* The key line as it was given, without comment. */
static void
put_key(struct jcs *j, const struct policy *p, const struct sig_pubkey *k, struct str credential)
{
	AUTO_BUF struct buf line = BUF(4096);

	if (p->opaque_keys) {
		jcs_z(j, NULL, k->application);
		return;
	}
	sig_pubkey_put(&line, k, credential);
	jcs_str(j, NULL, buf_str(&line));
}

static void
put_person(struct jcs *j, const struct policy *p, const struct policy_person *q)
{
	jcs_key(j, q->id);
	jcs_open(j, NULL);
	jcs_array(j, "keys");
	for (size_t i = 0; i < q->nkeys; i++)
		put_key(j, p, &q->keys[i], q->credentials[i]);
	jcs_array_end(j);
	put_strs(j, "login", q->logins, q->nlogins);
	put_strs(j, "roles", q->roles, q->nroles);
	jcs_close(j);
}

static void
put_graphql(struct jcs *j, const struct target *t)
{
	const struct policy_target *p = &t->pub;

	if (p->ngraphql_paths == 0 && p->ngraphql_fields == 0 && p->npersisted == 0)
		return;
	jcs_open(j, "graphql");
	if (p->ngraphql_fields != 0) {
		jcs_open(j, "effects");
		for (size_t i = 0; i < p->ngraphql_fields; i++) {
			jcs_key(j, p->graphql_fields[i].name);
			effect_jcs(j, NULL, p->graphql_fields[i].effects);
		}
		jcs_close(j);
	}
	put_strs(j, "paths", t->graphql_paths.v, t->graphql_paths.n);
	if (p->npersisted != 0) {
		jcs_open(j, "persisted");
		for (size_t i = 0; i < p->npersisted; i++) {
			char hex[HASH_HEX_SIZE];

			hash_hex(&p->persisted[i].hash, hex);
			jcs_str(j, hex, p->persisted[i].text);
		}
		jcs_close(j);
	}
	jcs_close(j);
}

static void
put_list(struct jcs *j, const char *key, const struct policy_target *p, enum target_list which)
{
	put_strs(j, key, p->lists[which].v, p->lists[which].n);
}

static void
put_tools(struct jcs *j, const struct policy_target *p)
{
	if (p->ntools == 0)
		return;
	jcs_open(j, "tools");
	for (size_t i = 0; i < p->ntools; i++) {
		jcs_key(j, p->tools[i].name);
		effect_jcs(j, NULL, p->tools[i].effects);
	}
	jcs_close(j);
}

static void
put_upgrades(struct jcs *j, const struct policy_target *p)
{
	if (p->nupgrades == 0)
		return;
	jcs_open(j, "upgrade");
	for (size_t i = 0; i < p->nupgrades; i++) {
		jcs_key(j, p->upgrades[i].protocol);
		effect_jcs(j, NULL, p->upgrades[i].effects);
	}
	jcs_close(j);
}

/* Its keys from "a" to "o". */
static void
put_target_first(struct jcs *j, const struct target *t)
{
	const struct policy_target *p = &t->pub;

	put_list(j, "accounts", p, TARGET_LIST_ACCOUNTS);
	put_text(j, "address", p->address);
	put_text(j, "ca_pem", p->ca_pem);
	if (p->cookies)
		jcs_z(j, "cookies", "pass");
	put_text(j, "credential", p->credential);
	put_text(j, "database", p->database);
	jcs_str(j, "env", p->env);
	put_text(j, "files", p->files);
	put_graphql(j, t);
	if (t->origin.n == 0)
		put_text(j, "host", p->host);
	jcs_z(j, "kind", target_kind_name(p->kind));
	if (p->max_body != 0)
		jcs_int(j, "max_body", (int64_t)p->max_body);
	if (p->max_connections != 0)
		jcs_int(j, "max_connections", p->max_connections);
	if (target_model_name(p->model) != NULL)
		jcs_z(j, "model", target_model_name(p->model));
	put_list(j, "namespaces", p, TARGET_LIST_NAMESPACES);
	put_strs(j, "networks", t->networks.v, t->networks.n);
	put_text(j, "origin", t->origin);
}

static void
put_target(struct jcs *j, const struct target *t)
{
	const struct policy_target *p = &t->pub;
	bool split = t->origin.n == 0; /* else the origin says host, port and tls */

	jcs_key(j, p->id);
	jcs_open(j, NULL);
	put_target_first(j, t);
	put_text(j, "placeholder", p->placeholder);
	if (split && p->port != 0)
		jcs_int(j, "port", p->port);
	if (p->preview != PREVIEW_NONE)
		jcs_z(j, "preview", target_preview_name(p->preview));
	put_list(j, "protected", p, TARGET_LIST_PROTECTED);
	put_list(j, "push_options", p, TARGET_LIST_PUSH_OPTIONS);
	if (p->quarantine)
		jcs_bool(j, "quarantine", true);
	put_strs(j, "read_posts", t->read_posts.v, t->read_posts.n);
	put_list(j, "refs", p, TARGET_LIST_REFS);
	put_list(j, "regions", p, TARGET_LIST_REGIONS);
	put_list(j, "repositories", p, TARGET_LIST_REPOSITORIES);
	if (p->seal)
		jcs_z(j, "seal", "answers");
	put_list(j, "services", p, TARGET_LIST_SERVICES);
	if (split)
		jcs_z(j, "tls", p->tls_verify ? "verify-full" : "off");
	put_tools(j, p);
	put_strs(j, "unsafe_gets", t->unsafe_gets.v, t->unsafe_gets.n);
	put_upgrades(j, p);
	put_strs(j, "upgrade_paths", t->upgrade_paths.v, t->upgrade_paths.n);
	put_text(j, "user", p->user);
	put_text(j, "via", p->via);
	put_text(j, "via_credential", p->via_credential);
	if (p->wrapped)
		jcs_bool(j, "wrapped", true);
	jcs_close(j);
}

static void
put_attr(struct jcs *j, const struct cond *c, enum attr a)
{
	put_strs(j, policy_attr_names[a], c->attr[a].v, c->attr[a].n);
}

static void
put_calendar_names(struct jcs *j, const struct policy *p, const char *key, const struct indices *l)
{
	if (l->n == 0)
		return;
	jcs_array(j, key);
	for (size_t i = 0; i < l->n; i++)
		jcs_str(j, NULL, p->calendars[l->v[i]].id);
	jcs_array_end(j);
}

static void
put_statements(struct jcs *j, const struct cond *c)
{
	if (c->eq < 0 && c->gt < 0 && c->lt < 0)
		return;
	jcs_open(j, "statements");
	if (c->eq >= 0)
		jcs_int(j, "eq", c->eq);
	if (c->gt >= 0)
		jcs_int(j, "gt", c->gt);
	if (c->lt >= 0)
		jcs_int(j, "lt", c->lt);
	jcs_close(j);
}

static void
put_rate(struct jcs *j, const struct policy_rate *rate)
{
	if (rate->per == RATE_NONE)
		return;
	jcs_open(j, "rate");
	put_duration(j, "in", rate->in_s);
	jcs_int(j, "over", rate->over);
	jcs_z(j, "per", policy_rate_per_name(rate->per));
	jcs_close(j);
}

static void
put_cond(struct jcs *j, const struct policy *p, const char *key, const struct cond *c)
{
	jcs_open(j, key);
	put_attr(j, c, ATTR_agent);
	put_calendar_names(j, p, "during", &c->during);
	if (c->mode != EFFECTS_UNASKED) {
		jcs_open(j, "effects");
		effect_jcs(j, c->mode == EFFECTS_ANY ? "any" : "only", c->effects);
		jcs_close(j);
	}
	put_attr(j, c, ATTR_env);
	put_attr(j, c, ATTR_kind);
	put_calendar_names(j, p, "outside", &c->outside);
	put_attr(j, c, ATTR_owner);
	put_rate(j, &c->rate);
	put_strs(j, "relation", c->relation.v, c->relation.n);
	put_strs(j, "resource", c->resource.v, c->resource.n);
	put_attr(j, c, ATTR_run);
	put_statements(j, c);
	put_attr(j, c, ATTR_target);
	jcs_close(j);
}

static void
put_slots(struct jcs *j, const struct rule *r)
{
	jcs_array(j, "approve");
	for (size_t i = 0; i < r->nslots; i++) {
		jcs_open(j, NULL);
		jcs_int(j, "count", r->slots[i].count);
		jcs_str(j, "role", r->slots[i].role);
		jcs_close(j);
	}
	jcs_array_end(j);
}

/* Keys ascend: approve forbid id limits override overrun permit preview require use_within verify
 * why within. */
static void
put_rule(struct jcs *j, const struct policy *p, const struct rule *r)
{
	static const char *const overrides[] = {[OVERRIDE_NEVER] = "never",
	    [OVERRIDE_EXCEPTION] = "exception",
	    [OVERRIDE_BREAKGLASS] = "breakglass"};

	jcs_open(j, NULL);
	if (r->kind == RULE_REQUIRE)
		put_slots(j, r);
	if (r->kind == RULE_FORBID)
		put_cond(j, p, "forbid", &r->cond);
	jcs_str(j, "id", r->id);
	if (r->max_rows >= 0) {
		jcs_open(j, "limits");
		jcs_int(j, "max_rows", r->max_rows);
		jcs_close(j);
	}
	if (r->kind == RULE_FORBID)
		jcs_z(j, "override", overrides[r->override]);
	if (r->cond.finish)
		jcs_z(j, "overrun", "finish");
	if (r->kind == RULE_PERMIT)
		put_cond(j, p, "permit", &r->cond);
	if (r->kind == RULE_REQUIRE) {
		if (r->preview)
			jcs_z(j, "preview", "required");
		put_cond(j, p, "require", &r->cond);
		put_duration(j, "use_within", r->use_within_s);
		if (r->verify)
			jcs_bool(j, "verify", true);
	}
	put_text(j, "why", r->why);
	if (r->kind == RULE_REQUIRE)
		put_duration(j, "within", r->within_s);
	jcs_close(j);
}

static void
put_attempts(struct jcs *j, const struct policy *p)
{
	if (!p->attempts_given)
		return;
	jcs_open(j, "attempts");
	jcs_int(j, "alarm", p->attempts.alarm);
	if (p->attempts.end != 0)
		jcs_int(j, "end", p->attempts.end);
	jcs_close(j);
}

static void
put_owners(struct jcs *j, const struct policy_owners *o)
{
	if (o->n == 0)
		return;
	jcs_open(j, "owners");
	jcs_int(j, "count", o->count);
	if (o->not_author)
		jcs_bool(j, "not_author", true);
	put_strs(j, "people", o->people, o->n);
	jcs_close(j);
}

void
policy_emit(const struct policy *p, struct buf *out)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	put_attempts(&j, p);
	put_text(&j, "author", p->author);
	jcs_open(&j, "calendars");
	for (size_t i = 0; i < p->ncalendars; i++)
		put_calendar(&j, &p->calendars[i]);
	jcs_close(&j);
	jcs_z(&j, "clock", p->clock == CLOCK_MODE_TRUSTED ? "trusted" : "kernel-sync");
	policy_emit_requires(p, &j);
	policy_emit_emergency(p, &j);
	jcs_str(&j, "engine", p->engine);
	put_owners(&j, &p->owners);
	jcs_open(&j, "people");
	for (size_t i = 0; i < p->npeople; i++)
		put_person(&j, p, &p->people[i]);
	jcs_close(&j);
	jcs_str(&j, "policy", p->name);
	jcs_array(&j, "rules");
	for (size_t i = 0; i < p->nrules; i++)
		put_rule(&j, p, &p->rules[i]);
	jcs_array_end(&j);
	jcs_z(&j, "schema", "cofferdam-bundle/1");
	jcs_int(&j, "serial", p->serial);
	jcs_open(&j, "targets");
	for (size_t i = 0; i < p->ntargets; i++)
		put_target(&j, &p->targets[i]);
	jcs_close(&j);
	jcs_str(&j, "tzdata", p->tzdata);
	if (p->watch.n != 0)
		put_strs(&j, "watch", p->watch.v, p->watch.n);
	jcs_close(&j);
}

int
policy_bundle(const struct policy *p, struct buf *ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(POLICY_BUNDLE_MAX);

	if (p->opaque_keys)
		return err_set(err, ERR_INVALID,
		    "a policy with bare key fingerprints can be tested, not built");
	for (size_t i = 0; i < p->ntargets; i++) {
		const struct target *t = &p->targets[i];

		if (t->pub.host.n == 0)
			return err_set(err, ERR_INVALID,
			    "target %.*s has no host: it can be tested and explained, not built",
			    STR_ARG(t->pub.id));
		if (t->ca_name.n != 0 && t->pub.ca_pem.n == 0)
			return err_set(err, ERR_INVALID, "target %.*s: CA file %.*s was not read",
			    STR_ARG(t->pub.id), STR_ARG(t->ca_name));
	}
	policy_emit(p, &b);
	if (buf_over(&b))
		return err_set(
		    err, ERR_TOO_LARGE, "the bundle is over %zu bytes", POLICY_BUNDLE_MAX);
	buf_put_str(ret, buf_str(&b));
	return 0;
}
