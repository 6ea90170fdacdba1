/*
 * HTTP requests to effects, by tables alone. Linked into core and the command line; pure. Must
 * never call a request harmless because its method says so where something else says otherwise.
 */
#include "policy/effects_http.h"

#include "policy/effects_aws.h"
#include "policy/effects_git.h"
#include "policy/effects_graphql.h"
#include "policy/effects_http_path.h"
#include "policy/effects_k8s.h"
#include "policy/effects_mcp.h"
#include "policy/effects_upgrade.h"
#include "policy/facts.h"
#include "policy/webform.h"

#include "common/banned.h"

#define NOT_JUDGED "what it asks for was not told in a form that is known"

uint8_t
http_api_dialect(enum http_api a)
{
	switch (a) {
	case HTTP_API_NONE:
	case HTTP_API_MODEL: break;
	case HTTP_API_GRAPHQL: return 2;
	case HTTP_API_FORM: return 3;
	case HTTP_API_K8S: return 4;
	case HTTP_API_GIT: return 5;
	case HTTP_API_AWS: return 6;
	case HTTP_API_MCP: return 7;
	}
	return 0;
}

size_t
http_api_body_max(enum http_api a)
{
	switch (a) {
	case HTTP_API_NONE:
	case HTTP_API_MODEL: break;
	case HTTP_API_GRAPHQL: return FACTS_GRAPHQL_MAX;
	case HTTP_API_FORM: return FACTS_FORM_MAX;
	case HTTP_API_K8S: return FACTS_K8S_MAX;
	case HTTP_API_GIT: return FACTS_GIT_MAX;
	case HTTP_API_AWS: return FACTS_AWS_MAX;
	case HTTP_API_MCP: return FACTS_MCP_MAX;
	}
	return 0;
}

const char *
http_api_name(enum http_api a)
{
	switch (a) {
	case HTTP_API_NONE: return "none";
	case HTTP_API_GRAPHQL: return "graphql";
	case HTTP_API_FORM: return "form";
	case HTTP_API_MODEL: return "model";
	case HTTP_API_K8S: return "k8s";
	case HTTP_API_GIT: return "git";
	case HTTP_API_AWS: return "aws";
	case HTTP_API_MCP: return "mcp";
	}
	return "none";
}

/* Case matters (RFC 9110 9.1). */
static uint32_t
method_effects(struct str method)
{
	static const struct {
		const char *name;
		uint32_t effects;
	} methods[] = {
	    {"GET", EFFECT_read},
	    {"HEAD", EFFECT_read},
	    {"OPTIONS", EFFECT_read},
	    {"POST", EFFECT_write},
	    {"PUT", EFFECT_overwrite},
	    {"PATCH", EFFECT_write},
	    {"DELETE", EFFECT_delete},
	    {"CONNECT", EFFECT_net},
	    {"TRACE", EFFECT_net},
	};

	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (str_eqz(method, methods[i].name))
			return methods[i].effects;
	return EFFECT_invalid;
}

static bool
is_get(const struct http_request *r)
{
	return str_eqz(r->method, "GET") || str_eqz(r->method, "HEAD");
}

static bool
has_body(const struct http_request *r)
{
	return r->body != HTTP_BODY_NONE && !(r->body == HTTP_BODY_LENGTH && r->length == 0);
}

void
effects_http_doubt(struct http_view *v, uint32_t effect, const char *why)
{
	v->effects |= effect;
	if (v->fault == NULL)
		v->fault = why;
}

/* --- what makes any request doubtful ------------------------------------------------- */

/* '_' for '-', as CGI and its like take them. */
static bool
field_is(struct str name, const char *z)
{
	size_t n = strlen(z);

	if (name.n != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		int c = (uint8_t)name.p[i];

		if (c >= 'A' && c <= 'Z')
			c += 'a' - 'A';
		if (c != z[i] && !(c == '_' && z[i] == '-'))
			return false;
	}
	return true;
}

static void
doubt_fields(const struct policy_target *t, const struct http_request *r, struct http_view *v)
{
	static const struct {
		const char *name, *why;
	} fields[] = {
	    {"x-http-method-override", "a header names another method"},
	    {"x-http-method", "a header names another method"},
	    {"x-method-override", "a header names another method"},
	    {"x-http-verb", "a header names another method"},
	    {"x-tunneled-method", "a header names another method"},
	    {"x-original-method", "a header names another method"},
	    {"x-original-url", "a header names another path"},
	    {"x-rewrite-url", "a header names another path"},
	};
	const char *why;

	for (size_t i = 0; i < r->nfields; i++)
		for (size_t k = 0; k < ARRAY_LEN(fields); k++)
			if (field_is(r->fields[i].name, fields[k].name))
				effects_http_doubt(v, EFFECT_opaque, fields[k].why);
	if (r->upgrade && effects_upgrade(t, r, &why) == NULL)
		effects_http_doubt(v, EFFECT_opaque, why);
}

/* path_fault: NULL, servers agree on what the path names. */
static void
doubt_request(const struct policy_target *t, const struct http_request *r, const char *path_fault,
    struct http_view *v)
{
	bool whole = r->form == HTTP_ORIGIN || r->form == HTTP_ABSOLUTE;

	if ((v->effects & EFFECT_invalid) != 0)
		effects_http_doubt(v, EFFECT_invalid, "the method is not known");
	if (whole && path_fault != NULL)
		effects_http_doubt(v, EFFECT_invalid, path_fault);
	if (r->form == HTTP_ASTERISK && !str_eqz(r->method, "OPTIONS"))
		effects_http_doubt(v, EFFECT_invalid, "only OPTIONS may ask for \"*\"");
	doubt_fields(t, r, v);
	if (r->has_query && webform_query_overrides(r->query))
		effects_http_doubt(v, EFFECT_opaque, "the query names another method");
}

/* --- what targets say ---------------------------------------------------------------- */

static bool
listed_exactly(const struct str *v, size_t n, struct str path)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(v[i], path))
			return true;
	return false;
}

static bool
listed_alike(const struct str *v, size_t n, struct str path)
{
	for (size_t i = 0; i < n; i++)
		if (http_path_alike(v[i], path))
			return true;
	return false;
}

/*
 * Calls that make a model answer. A provider may serve them beneath a path of its own, so that the
 * end of the path counts.
 */
/* Google's: "NAME:CALL" behind the version and "models/". */
static bool
is_google_call(struct str parent, struct str last)
{
	static const char *const calls[] = {
	    "generateContent", "streamGenerateContent", "countTokens", "embedContent"};
	struct str name;

	if (!str_has_suffix(parent, "/v1beta/models/") && !str_has_suffix(parent, "/v1/models/"))
		return false;
	if (!str_cut(&last, ':', &name) || name.n == 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		if (str_eqz(last, calls[i]))
			return true;
	return false;
}

static bool
is_model_call(enum target_model model, const struct http_request *r)
{
	static const struct {
		enum target_model model;
		const char *path;
	} posts[] = {
	    {TARGET_MODEL_ANTHROPIC, "/v1/messages"},
	    {TARGET_MODEL_ANTHROPIC, "/v1/messages/count_tokens"},
	    {TARGET_MODEL_OPENAI, "/v1/chat/completions"},
	    {TARGET_MODEL_OPENAI, "/v1/responses"},
	    {TARGET_MODEL_OPENAI, "/v1/embeddings"},
	};
	struct str parent = r->path;

	if (model == TARGET_MODEL_NONE)
		return false;
	while (parent.n != 0 && parent.p[parent.n - 1] != '/')
		parent.n--;
	if (str_eqz(r->method, "GET"))
		return str_has_suffix(r->path, "/v1/models") ||
		       str_has_suffix(parent, "/v1/models/") ||
		       (model == TARGET_MODEL_GOOGLE &&
			   (str_has_suffix(r->path, "/v1beta/models") ||
			       str_has_suffix(parent, "/v1beta/models/")));
	if (model == TARGET_MODEL_GOOGLE)
		return str_eqz(r->method, "POST") &&
		       is_google_call(parent, str_mem(r->path.p + parent.n, r->path.n - parent.n));
	for (size_t i = 0; i < ARRAY_LEN(posts); i++)
		if (posts[i].model == model && str_eqz(r->method, "POST") &&
		    str_has_suffix(r->path, posts[i].path))
			return true;
	return false;
}

static struct media_type
content_type(const struct http_request *r)
{
	const struct http_field *f = http_field_find(r->fields, r->nfields, "Content-Type");

	return media_type_parse(f != NULL ? f->value : STR(""));
}

static bool
is_encoded(const struct http_request *r)
{
	const struct http_field *f = http_field_find(r->fields, r->nfields, "Content-Encoding");

	return f != NULL && !str_ieqz(f->value, "identity");
}

/* --- GraphQL and forms --------------------------------------------------------------- */

static bool
is_graphql(const struct policy_target *t, const struct http_request *r)
{
	return http_path_is_graphql(r->path) ||
	       listed_alike(t->graphql_paths, t->ngraphql_paths, r->path);
}

/* Until it is judged it counts as opaque: facts set its effects anew. */
static void
want_graphql(struct http_view *v, bool *which)
{
	v->api = HTTP_API_GRAPHQL;
	v->anew = true;
	v->effects |= EFFECT_opaque;
	*which = true;
}

static void
graphql_get(const struct http_request *r, struct http_view *v)
{
	if (has_body(r))
		effects_http_doubt(v, EFFECT_opaque, "a GraphQL request by GET with a body");
	else if (r->has_query && r->query.n != 0)
		want_graphql(v, &v->query_wanted);
}

static void
graphql_post(const struct http_request *r, struct http_view *v)
{
	struct media_type m = content_type(r);

	if (r->has_query && webform_query_is_graphql(r->query))
		effects_http_doubt(
		    v, EFFECT_opaque, "a GraphQL request in the query and in the body");
	else if (!has_body(r))
		effects_http_doubt(v, EFFECT_opaque, "a GraphQL request without a body");
	else if (is_encoded(r))
		effects_http_doubt(v, EFFECT_opaque, "a GraphQL request in a content coding");
	else if (m.odd ||
		 (m.media != MEDIA_JSON && m.media != MEDIA_GRAPHQL && m.media != MEDIA_FORM))
		effects_http_doubt(v, EFFECT_opaque, "a GraphQL request of another Content-Type");
	else
		want_graphql(v, &v->body_wanted);
}

/*
 * Servers look for another method in forms, some also where no Content-Type was given; in POST
 * alone.
 */
static void
form_post(const struct http_request *r, struct http_view *v)
{
	struct media_type m = content_type(r);

	if (!has_body(r) || m.media == MEDIA_JSON || m.media == MEDIA_GRAPHQL ||
	    m.media == MEDIA_OTHER)
		return;
	if (m.odd || m.media == MEDIA_MIXED) {
		effects_http_doubt(v, EFFECT_opaque, "a form of a kind that is not known");
	} else if (is_encoded(r)) {
		effects_http_doubt(v, EFFECT_opaque, "a form in a content coding");
	} else {
		v->api = HTTP_API_FORM;
		v->body_wanted = true;
	}
}

/* --- the whole ----------------------------------------------------------------------- */

/* A query or a body may name more than the path does. */
static bool
delete_is_bounded(const struct http_request *r)
{
	return http_path_names_one(r->path) && !(r->has_query && r->query.n != 0) && !has_body(r);
}

/*
 * Its method's effects, and beside them what the policy says of the stream. A server that answers
 * without switching must not have been asked for more: GraphQL in the query is that.
 */
static void
judge_upgrade(const struct policy_target *t, const struct http_request *r, struct http_view *v)
{
	if (is_get(r) && listed_alike(t->unsafe_gets, t->nunsafe_gets, r->path))
		v->effects |= EFFECT_write;
	if (is_graphql(t, r) && r->has_query && r->query.n != 0)
		effects_http_doubt(
		    v, EFFECT_opaque, "a GraphQL request that asks for another protocol");
}

static void
judge_on_target(const struct policy_target *t, const struct http_request *r, struct http_view *v)
{
	bool post = str_eqz(r->method, "POST");

	if (is_get(r) && listed_alike(t->unsafe_gets, t->nunsafe_gets, r->path)) {
		v->effects = EFFECT_write;
	} else if (is_model_call(t->model, r)) {
		v->effects = EFFECT_read;
		v->api = HTTP_API_MODEL;
	} else if (is_graphql(t, r)) {
		if (is_get(r))
			graphql_get(r, v);
		else if (post)
			graphql_post(r, v);
	} else if (v->effects == EFFECT_read && has_body(r)) {
		if (!listed_exactly(t->read_posts, t->nread_posts, r->path))
			effects_http_doubt(v, EFFECT_opaque, "a body where the method has none");
	} else if (post) {
		if (listed_exactly(t->read_posts, t->nread_posts, r->path))
			v->effects = EFFECT_read;
		form_post(r, v);
	}
}

static void
judge_on_http(const struct policy_target *t, const struct http_request *r, struct http_view *v)
{
	v->effects = method_effects(r->method);
	doubt_request(t, r, http_path_fault(r->path), v);
	if (v->fault == NULL && v->effects == EFFECT_delete && !delete_is_bounded(r))
		v->effects |= EFFECT_bulk;
	if (v->upgrade)
		judge_upgrade(t, r, v);
	else if (v->fault == NULL && t != NULL && r->form != HTTP_ASTERISK)
		judge_on_target(t, r, v);
}

/*
 * Documentation, a search API: it is read, or the request is opaque, which no policy can permit.
 * What its method claims stands beside that.
 */
static void
judge_on_reference(const struct policy_target *t, const struct http_request *r, struct http_view *v)
{
	bool search =
	    str_eqz(r->method, "POST") && listed_exactly(t->read_posts, t->nread_posts, r->path);

	v->effects = search ? EFFECT_read : method_effects(r->method);
	doubt_request(t, r, http_path_fault(r->path), v);
	if (v->fault != NULL)
		return;
	if (search)
		form_post(r, v);
	else if (!is_get(r) || has_body(r) || r->form == HTTP_ASTERISK)
		effects_http_doubt(v, EFFECT_opaque,
		    "a reference is only read: GET and HEAD, and POST of what read_posts names");
}

/* Protocols of their own: what the method would claim elsewhere counts for nothing. */
static void
judge_on_kind(const struct policy_target *t, const struct http_request *r, struct http_view *v)
{
	struct http_view doubts = {.effects = 0, .upgrade = v->upgrade};
	const char *fault =
	    t->kind == TARGET_AWS ? effects_aws_path_fault(t, r) : http_path_fault(r->path);

	doubt_request(t, r, fault, &doubts);
	v->fault = doubts.fault;
	v->effects = EFFECT_invalid;
	if (r->form == HTTP_ASTERISK || fault != NULL) {
		if (v->fault == NULL)
			v->fault = "it names no path";
		return;
	}
	switch (t->kind) {
	case TARGET_K8S: effects_k8s(t, r, v); break;
	case TARGET_GIT: effects_git(t, r, v); break;
	case TARGET_AWS: effects_aws(t, r, v); break;
	case TARGET_MCP: effects_mcp(r, v); break;
	case TARGET_POSTGRES:
	case TARGET_HTTP:
	case TARGET_REFERENCE:
	case TARGET_REDIS: break;
	}
	v->effects |= doubts.effects;
	if (v->resources.over)
		effects_http_doubt(v, EFFECT_opaque, "it names more than can be judged at once");
}

void
effects_http(const struct policy_target *t, const struct http_request *r, struct http_view *ret)
{
	const char *why;
	const struct policy_upgrade *u = effects_upgrade(t, r, &why);
	struct http_view v = {.statements = 1, .upgrade = u != NULL};

	if (t == NULL || t->kind == TARGET_HTTP)
		judge_on_http(t, r, &v);
	else if (t->kind == TARGET_REFERENCE)
		judge_on_reference(t, r, &v);
	else
		judge_on_kind(t, r, &v);
	if (u != NULL)
		v.effects |= u->effects;
	*ret = v;
}

void
effects_http_fault(struct str method_claim, struct http_view *ret)
{
	*ret = (struct http_view){.effects = EFFECT_invalid | method_effects(method_claim),
	    .fault = "the request is malformed",
	    .statements = 1};
}

/* --- what the parser found ----------------------------------------------------------- */

static bool
form_valid(const struct json *f)
{
	struct str form = json_str(json_get(f, "form"));

	return json_type(f) == JSON_OBJECT && json_count(f) == 3 &&
	       (str_eqz(form, "urlencoded") || str_eqz(form, "multipart")) &&
	       json_type(json_get(f, "override")) == JSON_BOOL &&
	       json_type(json_get(f, "parts")) == JSON_INT;
}

static void
judge_form(const struct json *facts, struct http_view *v)
{
	if (!form_valid(facts))
		effects_http_doubt(v, EFFECT_opaque, NOT_JUDGED);
	else if (json_bool(json_get(facts, "override")))
		effects_http_doubt(v, EFFECT_opaque, "a field of the form names another method");
}

static void
judge_graphql(const struct policy_target *t, const struct json *facts, struct http_view *v)
{
	struct graphql_view g;

	effects_graphql(t, facts, &g);
	v->effects = g.effects;
	v->statements = g.requests;
	if (g.fault != NULL)
		effects_http_doubt(v, EFFECT_opaque, g.fault);
	/* A server must not run it (GraphQL over HTTP); if it does, it does not mind such rules. */
	if (v->query_wanted && g.changes)
		effects_http_doubt(v, EFFECT_opaque, "a mutation by GET");
}

void
effects_http_body(const struct policy_target *t, enum http_api api, const struct json *facts,
    struct http_view *view)
{
	if (t != NULL && api == view->api && api == HTTP_API_GRAPHQL)
		judge_graphql(t, facts, view);
	else if (api == view->api && api == HTTP_API_FORM)
		judge_form(facts, view);
	else if (t != NULL && api == view->api && api == HTTP_API_K8S)
		effects_k8s_body(facts, view);
	else if (t != NULL && api == view->api && api == HTTP_API_GIT)
		effects_git_push(t, facts, NULL, 0, view);
	else if (t != NULL && api == view->api && api == HTTP_API_AWS)
		effects_aws_facts(t, facts, view);
	else if (t != NULL && api == view->api && api == HTTP_API_MCP)
		effects_mcp_message(t, facts, view);
	else
		effects_http_doubt(view, EFFECT_opaque, NOT_JUDGED);
	if (t != NULL && t->kind == TARGET_REFERENCE && view->effects != EFFECT_read)
		effects_http_doubt(view, EFFECT_opaque, "a form that does more than read");
}

void
effects_http_body_fault(const char *why, struct http_view *view)
{
	view->effects &= ~(uint32_t)EFFECT_opaque;
	effects_http_doubt(view, EFFECT_invalid, why);
}
