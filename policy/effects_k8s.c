/*
 * Kubernetes requests to effects, by method and path, then by what the parser found in the body.
 * Linked into core and the command line; pure. Must never take for harmless what it does not know:
 * a subresource, a group's own form of a dry run, a body that is no JSON.
 */
#include "policy/effects_k8s.h"

#include "policy/effects_k8s_path.h"
#include "policy/webform.h"

#include "common/banned.h"

#define READ EFFECT_read
#define WRITE EFFECT_write
#define SCHEMA EFFECT_schema
#define DELETE EFFECT_delete
#define DROP EFFECT_drop
#define OVERWRITE EFFECT_overwrite
#define DISRUPT EFFECT_disrupt
#define EXEC EFFECT_exec
#define PRIV EFFECT_priv
#define NET EFFECT_net
#define SECRET EFFECT_secret
#define OPAQUE EFFECT_opaque

/* Of the view: what the body is read by. */
enum {
	NOTE_REPLICAS = 1,
	NOTE_SCALE = 2,
	NOTE_PATCH = 4,
	NOTE_DELETE = 8,
	NOTE_DRY = 16,
	NOTE_OWN = 32
};

enum verb { GET, POST, PUT, PATCH, REMOVE, VERB_COUNT, NO_VERB };
static const char *const methods[VERB_COUNT] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
static const uint32_t usual[VERB_COUNT] = {READ, WRITE, OVERWRITE, WRITE, DELETE};

static const struct row {
	const char *group, *resource, *sub;
	uint32_t effects[VERB_COUNT];
} rows[] = {
#define X(group, resource, sub, get, post, put, patch, remove)                      \
	{group, resource, sub,                                                      \
	    {(uint32_t)(get), (uint32_t)(post), (uint32_t)(put), (uint32_t)(patch), \
		(uint32_t)(remove)}},
#include "policy/effects_k8s.tbl"
#undef X
};

static enum verb
verb_of(struct str method)
{
	if (str_eqz(method, "HEAD"))
		return GET;
	for (int i = 0; i < VERB_COUNT; i++)
		if (str_eqz(method, methods[i]))
			return (enum verb)i;
	return NO_VERB;
}

static bool
has_body(const struct http_request *r)
{
	return r->body != HTTP_BODY_NONE && !(r->body == HTTP_BODY_LENGTH && r->length == 0);
}

static bool
fits(const char *pattern, struct str s, bool sub)
{
	if (strcmp(pattern, "*") == 0)
		return !sub || s.n != 0;
	return str_eqz(s, pattern);
}

/* --- by the path ------------------------------------------------------------------------- */

static bool
scales(const struct k8s_path *p)
{
	static const char *const kinds[] = {
	    "deployments", "statefulsets", "replicasets", "replicationcontrollers"};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_eqz(p->resource, kinds[i]))
			return true;
	return !k8s_group_is_built_in(p->group); /* it may have replicas, too */
}

/* Verbs that such a path does not have: the server says no, or does what nobody here knows. */
static bool
verb_is_odd(const struct k8s_path *p, enum verb verb)
{
	if (p->sub.n != 0)
		return false;
	if (p->watch)
		return verb != GET;
	return p->name.n != 0 ? verb == POST : verb == PUT || verb == PATCH;
}

static uint32_t
default_effects(const struct k8s_path *p, enum verb verb)
{
	if (p->sub.n != 0 && !str_eqz(p->sub, "status") && !str_eqz(p->sub, "scale"))
		return OPAQUE;
	return p->sub.n != 0 && (verb == POST || verb == REMOVE) ? OPAQUE : usual[verb];
}

static uint32_t
table_effects(const struct k8s_path *p, enum verb verb)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *w = &rows[i];

		if (!str_eqz(p->group, w->group) || !fits(w->resource, p->resource, false) ||
		    !fits(w->sub, p->sub, true))
			continue;
		return w->effects[verb] != 0 ? w->effects[verb] : usual[verb];
	}
	return default_effects(p, verb);
}

static void
by_object(const struct k8s_path *p, enum verb verb, struct http_view *v)
{
	bool core = p->group.n == 0;

	v->effects = table_effects(p, verb);
	if (verb_is_odd(p, verb))
		effects_http_doubt(v, OPAQUE, "a method that such an object does not have");
	if (verb == REMOVE && p->name.n == 0) {
		v->effects |= EFFECT_bulk;
		if (core && str_eqz(p->resource, "secrets"))
			v->effects |= SECRET; /* the answer lists them */
	}
	v->deferred = str_eqz(p->group, "batch") && str_eqz(p->resource, "cronjobs") &&
		      (verb == POST || verb == PUT || verb == PATCH) && !str_eqz(p->sub, "status");
	if (verb == PUT || verb == PATCH) {
		if (str_eqz(p->sub, "scale"))
			v->note |= NOTE_SCALE | NOTE_REPLICAS;
		else if (p->sub.n == 0 && scales(p))
			v->note |= NOTE_REPLICAS;
	}
	v->note |= verb == PATCH ? NOTE_PATCH : verb == REMOVE ? NOTE_DELETE : 0;
	v->note |= k8s_group_is_built_in(p->group) ? NOTE_OWN : 0;
}

/* NAMESPACE/RESOURCE[.GROUP]/NAME[/SUB]: "-" of the cluster, "*" all. */
static void
name_it(const struct k8s_path *p, enum verb verb, struct http_view *v)
{
	struct str ns = p->ns, name = p->name.n != 0 ? p->name : STR("*");
	bool of_space = str_eqz(p->resource, "namespaces") && p->group.n == 0;

	if (ns.n == 0)
		ns = p->name.n == 0 && !of_space ? STR("*") : STR("-");
	RESOURCES_ADD(&v->resources, ns, STR("/"), p->resource,
	    p->group.n != 0 ? STR(".") : STR(""), p->group, STR("/"), name,
	    p->sub.n != 0 ? STR("/") : STR(""), p->sub);
	if (of_space && (verb == REMOVE || str_eqz(p->sub, "finalize")))
		RESOURCES_ADD(&v->resources, name, STR("/*")); /* and all that is in it */
}

static bool
listed(const struct policy_list *l, struct str s)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i], s))
			return true;
	return false;
}

static void
hold_to_namespaces(const struct policy_target *t, const struct k8s_path *p, struct http_view *v)
{
	const struct policy_list *l = &t->lists[TARGET_LIST_NAMESPACES];
	bool of_space = str_eqz(p->resource, "namespaces") && p->group.n == 0;
	bool review =
	    str_eqz(p->group, "authorization.k8s.io") || str_eqz(p->group, "authentication.k8s.io");

	if (l->n == 0 || listed(l, of_space ? p->name : p->ns) || (review && p->ns.n == 0))
		return;
	effects_http_doubt(v, OPAQUE, "it is not in the target's namespaces");
}

/* --- by query and headers ---------------------------------------------------------------- */

/* Exactly one dryRun, and it says All. */
static bool
is_dry(struct str query)
{
	struct str name, value;
	unsigned said = 0, all = 0;

	while (webform_next(&query, &name, &value)) {
		AUTO_BUF struct buf n = BUF(HTTP_TARGET_MAX);

		if (!webform_decode(name, &n))
			return false;
		if (!str_ieqz(buf_str(&n), "dryRun"))
			continue;
		said++;
		all += str_eqz(name, "dryRun") && str_eqz(value, "All");
	}
	return said == 1 && all == 1;
}

/* What a dry run shows is as secret as what it is of; what runs or connects runs anyway. */
static void
be_dry(struct http_view *v)
{
	const uint32_t stays = SECRET | EXEC | NET | OPAQUE | EFFECT_invalid;

	v->effects = (v->effects & stays) != 0 ? v->effects & stays : READ;
	v->note = NOTE_DRY;
	v->deferred = false;
}

static void
dry_run(const struct k8s_path *p, const struct http_request *r, struct http_view *v)
{
	/* Of a DELETE with a body the server does not read the query. */
	if (!r->has_query || !is_dry(r->query) || !k8s_group_is_built_in(p->group) ||
	    str_eqz(p->sub, "token") || ((v->note & NOTE_DELETE) != 0 && has_body(r)))
		return;
	be_dry(v);
}

/* Names with '_' for '-' count, as for proxies that do not tell them apart. */
static bool
begins(struct str name, const char *z)
{
	for (size_t i = 0; z[i] != '\0'; i++) {
		char c = i < name.n ? name.p[i] : '\0';

		if (c >= 'A' && c <= 'Z')
			c = (char)(c | 0x20);
		if ((c == '_' ? '-' : c) != z[i])
			return false;
	}
	return true;
}

static void
headers(const struct http_request *r, struct http_view *v)
{
	for (size_t i = 0; i < r->nfields; i++) {
		if (begins(r->fields[i].name, "impersonate-"))
			effects_http_doubt(v, PRIV, "it acts as somebody else (Impersonate-*)");
		else if (begins(r->fields[i].name, "x-remote-"))
			effects_http_doubt(v, PRIV, "it says who it is (X-Remote-*)");
	}
}

/* --- the body ---------------------------------------------------------------------------- */

static bool
is_json(struct str type)
{
	static const char *const types[] = {"application/json", "application/merge-patch+json",
	    "application/strategic-merge-patch+json", "application/json-patch+json",
	    "application/apply-patch+yaml", "application/yaml", "application/vnd.kubernetes.json"};
	struct str rest = type, essence;

	essence = str_trim(str_cut(&rest, ';', &essence) ? essence : type);
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_ieqz(essence, types[i]))
			return true;
	return type.n == 0; /* the server takes it for JSON */
}

static bool
is_protobuf(struct str type)
{
	return str_ieqz(type, "application/vnd.kubernetes.protobuf");
}

/* Objects with containers in them. */
static bool
holds_pods(const struct k8s_path *p)
{
	static const char *const kinds[] = {"pods", "podtemplates", "replicationcontrollers",
	    "deployments", "daemonsets", "statefulsets", "replicasets", "jobs", "cronjobs"};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_eqz(p->resource, kinds[i]))
			return true;
	return !k8s_group_is_built_in(p->group);
}

static void
want_body(
    const struct k8s_path *p, const struct http_request *r, enum verb verb, struct http_view *v)
{
	const struct http_field *type = http_field_find(r->fields, r->nfields, "Content-Type");
	const struct http_field *code = http_field_find(r->fields, r->nfields, "Content-Encoding");

	if (!has_body(r)) {
		if ((v->note & NOTE_SCALE) != 0)
			v->effects |= DISRUPT; /* to how many, it does not say */
		return;
	}
	if (verb == GET)
		effects_http_doubt(v, OPAQUE, "a body where the method has none");
	else if (code != NULL && !str_ieqz(code->value, "identity"))
		effects_http_doubt(v, OPAQUE, "a body in a content coding");
	else if (type != NULL && is_protobuf(type->value) && !holds_pods(p))
		return; /* no container is in it: it adds nothing to what the path says */
	else if (type != NULL && !is_json(type->value))
		effects_http_doubt(v, OPAQUE,
		    "a body that is no JSON, which the broker cannot judge: have the client send "
		    "JSON");
	else if (v->fault == NULL) {
		v->api = HTTP_API_K8S;
		v->body_wanted = true;
		v->anew = verb == REMOVE; /* it may be a dry run after all */
	}
}

static bool
reads_only(const struct policy_target *t, const struct http_request *r)
{
	for (size_t i = 0; i < t->nread_posts; i++)
		if (str_eq(t->read_posts[i], r->path))
			return str_eqz(r->method, "POST");
	return false;
}

/*
 * A command, or a connection, inside a pod: what the policy says that such streams do stands in the
 * place of exec and net, which no rule can permit.
 */
static bool
is_stream(const struct k8s_path *p)
{
	return p->place == K8S_RESOURCE && p->group.n == 0 && str_eqz(p->resource, "pods") &&
	       p->name.n != 0 &&
	       (str_eqz(p->sub, "exec") || str_eqz(p->sub, "attach") ||
		   str_eqz(p->sub, "portforward"));
}

void
effects_k8s(const struct policy_target *t, const struct http_request *r, struct http_view *v)
{
	struct k8s_path p = k8s_path_parse(r->path);
	enum verb verb = verb_of(r->method);

	v->effects = verb == NO_VERB ? EFFECT_invalid : OPAQUE;
	if (verb == NO_VERB) {
		v->fault = "the method is none of this API";
	} else if (p.place == K8S_RESOURCE) {
		by_object(&p, verb, v);
		name_it(&p, verb, v);
		if (reads_only(t, r))
			v->effects = READ;
		hold_to_namespaces(t, &p, v);
		if (v->effects == OPAQUE && v->fault == NULL)
			v->fault = "what it does to such an object is not known";
		dry_run(&p, r, v);
	} else if (p.place == K8S_PROXY) {
		v->effects = EXEC;
	} else if (p.place == K8S_DISCOVERY && verb == GET) {
		v->effects = READ;
	} else if (p.place == K8S_INSIDES && verb == GET) {
		v->effects = SECRET;
		v->fault = "logs, profiles and settings of the server are secret";
	} else {
		v->fault = "it is no path of the Kubernetes API";
	}
	if (v->upgrade && is_stream(&p))
		v->effects &= ~(uint32_t)(EXEC | NET);
	headers(r, v);
	want_body(&p, r, verb, v);
}

/* --- what the parser found --------------------------------------------------------------- */

/* {"dry","finalizers","kind"?,"patch","priv","replicas"?} */
static bool
facts_valid(const struct json *k)
{
	size_t n = 4;

	n += json_get(k, "kind") != NULL;
	n += json_get(k, "replicas") != NULL;
	return json_type(k) == JSON_OBJECT && json_count(k) == n &&
	       json_type(json_get(k, "dry")) == JSON_BOOL &&
	       json_type(json_get(k, "finalizers")) == JSON_BOOL &&
	       json_type(json_get(k, "patch")) == JSON_BOOL &&
	       json_type(json_get(k, "priv")) == JSON_BOOL &&
	       (json_get(k, "replicas") == NULL ||
		   json_type(json_get(k, "replicas")) == JSON_INT) &&
	       (json_get(k, "kind") == NULL || json_type(json_get(k, "kind")) == JSON_STRING);
}

void
effects_k8s_body(const struct json *facts, struct http_view *v)
{
	const struct json *k = json_get(facts, "k8s"), *n = json_get(k, "replicas");
	struct str kind = json_str(json_get(k, "kind"));

	if (json_type(facts) != JSON_OBJECT || json_count(facts) != 1 || !facts_valid(k)) {
		effects_http_doubt(
		    v, OPAQUE, "what it asks for was not told in a form that is known");
		return;
	}
	if ((v->note & NOTE_DELETE) != 0 && kind.n != 0 && !str_eqz(kind, "DeleteOptions"))
		effects_http_doubt(v, OPAQUE, "a DELETE with a body that is no DeleteOptions");
	else if ((v->note & (NOTE_DELETE | NOTE_OWN)) == (NOTE_DELETE | NOTE_OWN) &&
		 json_bool(json_get(k, "dry")))
		be_dry(v);
	if ((v->note & (NOTE_DELETE | NOTE_DRY)) != 0)
		return;
	if ((v->note & NOTE_REPLICAS) != 0 &&
	    (n != NULL ? json_int(n) == 0 : (v->note & NOTE_SCALE) != 0))
		v->effects |= DISRUPT;
	if (json_bool(json_get(k, "priv")))
		effects_http_doubt(v, PRIV, "it gives a container the rights of its host");
	if ((v->note & NOTE_PATCH) != 0 && json_bool(json_get(k, "finalizers")))
		v->effects |= DROP;
	if (json_bool(json_get(k, "patch")))
		v->effects |= OVERWRITE;
}
