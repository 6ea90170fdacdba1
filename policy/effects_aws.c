/*
 * Requests to AWS to effects: whose they are by the signature's scope and the host, which action
 * they are by X-Amz-Target, path, query or body. Linked into core and the command line; pure. Where
 * two places name an action, nobody here knows which one counts: opaque.
 */
#include "policy/effects_aws.h"

#include "policy/aws_action.h"
#include "policy/effects_http_path.h"
#include "policy/webform.h"

#include "common/hash.h"

#include "common/banned.h"

/* Of the view: the action is known by the head, the body only says to what. */
enum { NOTE_KNOWN = 1 };

struct whose {
	struct str service, region;
};

static bool
has_body(const struct http_request *r)
{
	return r->body != HTTP_BODY_NONE && !(r->body == HTTP_BODY_LENGTH && r->length == 0);
}

static void
doubt(struct http_view *v, const char *why)
{
	effects_http_doubt(v, EFFECT_opaque, why);
}

/* --- service and region ------------------------------------------------------------------ */

/* Credential=KEY/DATE/REGION/SERVICE/aws4_request (SigV4). False: no such scope. */
static bool
scope(struct str authorization, struct whose *ret)
{
	static const struct str mark = STR("Credential=");
	const char *at =
	    authorization.n != 0 ? memmem(authorization.p, authorization.n, mark.p, mark.n) : NULL;
	struct str rest, part;

	if (at == NULL || !str_has_prefix(authorization, "AWS4-"))
		return false;
	rest = str_mem(at + mark.n, (size_t)(authorization.p + authorization.n - at) - mark.n);
	if (!str_cut(&rest, '/', &part) || !str_cut(&rest, '/', &part) ||
	    !str_cut(&rest, '/', &ret->region) || !str_cut(&rest, '/', &ret->service))
		return false;
	return ret->service.n != 0 && str_has_prefix(rest, "aws4_request");
}

static bool
is_region(struct str s)
{
	struct str rest = s, area, part;

	return s.n >= 9 && s.p[s.n - 1] >= '0' && s.p[s.n - 1] <= '9' &&
	       str_cut(&rest, '-', &area) && area.n == 2 && str_cut(&rest, '-', &part);
}

/* "rds.eu-west-1.amazonaws.com", "BUCKET.s3.eu-west-1.amazonaws.com", "iam.amazonaws.com". */
static void
by_host(struct str host, struct whose *ret, struct str *ret_bucket)
{
	struct str s = host, rest, label, before = STR("");
	static const char *const ends[] = {".amazonaws.com", ".amazonaws.com.cn", ".api.aws"};
	size_t end = 0;

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (str_has_suffix(s, ends[i]))
			end = strlen(ends[i]);
	if (end == 0)
		return;
	s.n -= end;
	rest = s;
	while (rest.n != 0) {
		const char *at = rest.p;

		if (!str_cut(&rest, '.', &label)) {
			label = rest;
			rest.n = 0;
		}
		if (is_region(label)) {
			ret->region = label;
		} else if (!str_eqz(label, "dualstack")) {
			ret->service = label;
			before = str_mem(s.p, (size_t)(at - s.p));
		}
	}
	if (str_eqz(ret->service, "s3") && before.n != 0)
		*ret_bucket = str_mem(before.p, before.n - 1); /* less its dot */
}

static bool
listed(const struct policy_list *l, struct str s)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i], s))
			return true;
	return l->n == 0;
}

static bool
same_service(struct str a, struct str host)
{
	static const char *const alike[][2] = {{"memorydb", "memory-db"}, {"ses", "email"}};

	for (size_t i = 0; i < ARRAY_LEN(alike); i++)
		if (str_eqz(a, alike[i][0]) && str_eqz(host, alike[i][1]))
			return true;
	return str_eq(a, host);
}

static void
find_whose(const struct policy_target *t, const struct http_request *r, struct http_view *v,
    struct whose *ret, struct str *ret_bucket)
{
	const struct http_field *f = http_field_find(r->fields, r->nfields, "Authorization");
	const struct policy_list *services = &t->lists[TARGET_LIST_SERVICES];
	const struct policy_list *regions = &t->lists[TARGET_LIST_REGIONS];
	struct whose host = {STR(""), STR("")};

	by_host(str_z(r->host), &host, ret_bucket);
	*ret = host;
	if (f != NULL && !scope(f->value, ret))
		doubt(v, "an Authorization that is no signature of version 4");
	else if (host.service.n != 0 && !same_service(ret->service, host.service))
		doubt(v, "it is signed for another service than it is sent to");
	else if (host.region.n != 0 && f != NULL && !str_eq(ret->region, host.region))
		doubt(v, "it is signed for another region than it is sent to");
	if (ret->service.n == 0 && services->n == 1)
		ret->service = services->v[0];
	if (ret->service.n == 0)
		doubt(v, "which service it is for is not to be told");
	else if (!listed(services, ret->service))
		doubt(v, "a service that is none of the target's");
	if (ret->region.n == 0 && regions->n == 1)
		ret->region = regions->v[0];
	if (!listed(regions, ret->region))
		doubt(v, "a region that is none of the target's");
}

/* As signatures name it: the host name of SES begins with "email". */
static struct str
signing_service(struct str service)
{
	if (str_eqz(service, "email"))
		return STR("ses");
	return str_eqz(service, "memory-db") ? STR("memorydb") : service;
}

bool
effects_aws_scope(const struct policy_target *t, const struct http_request *r,
    struct str *ret_region, struct str *ret_service, const char **why)
{
	const struct policy_list *regions = &t->lists[TARGET_LIST_REGIONS];
	struct whose w, host = {STR(""), STR("")};
	struct http_view v = {.effects = 0};
	struct str bucket = STR("");

	find_whose(t, r, &v, &w, &bucket);
	by_host(str_z(r->host), &host, &bucket);
	*why = v.fault;
	if (*why == NULL && host.service.n == 0 && t->lists[TARGET_LIST_SERVICES].n == 0)
		*why = "neither its host name nor \"services\" of the target says the service";
	*ret_service = signing_service(w.service);
	*ret_region = w.region;
	if (*why != NULL)
		return false;
	if (regions->n != 0 || host.region.n != 0)
		*why = ret_region->n == 0 ? "which of the target's \"regions\" is not to be told"
					  : NULL;
	else if (host.service.n == 0)
		*why = "neither its host name nor \"regions\" of the target says the region";
	else if (w.region.n != 0 && !str_eqz(w.region, "us-east-1"))
		*why = "a host without a region is signed for us-east-1, or for the target's "
		       "\"regions\"";
	else
		*ret_region = STR("us-east-1");
	return *why == NULL;
}

struct str
effects_aws_region(const struct policy_target *t)
{
	const struct policy_list *regions = &t->lists[TARGET_LIST_REGIONS];
	struct whose host = {STR(""), STR("")};
	struct str bucket = STR("");

	by_host(t->host, &host, &bucket);
	if (host.region.n != 0 || regions->n > 1)
		return host.region;
	if (regions->n == 1)
		return regions->v[0];
	return host.service.n != 0 && !t->wildcard ? STR("us-east-1") : STR("");
}

const char *
effects_aws_path_fault(const struct policy_target *t, const struct http_request *r)
{
	struct http_view v = {.effects = 0};
	struct str bucket = STR("");
	struct whose w;

	find_whose(t, r, &v, &w, &bucket);
	return str_eqz(w.service, "s3") ? http_path_fault_once(r->path) : http_path_fault(r->path);
}

/* --- the action -------------------------------------------------------------------------- */

static void
set_action(struct http_view *v, struct str service, struct str action, const struct aws_action *a)
{
	v->effects = a->effects;
	v->deferred = a->later;
	v->resources = (struct resources){.n = 0};
	RESOURCES_ADD(&v->resources, service, STR(":"), action, STR("/*"));
	if (!a->known)
		doubt(v, a->odd ? "an action in another spelling" : "an action that is not known");
}

/* How often the query names an action, in any case; *ret: exactly. */
static unsigned
query_actions(struct str query, struct buf *ret, bool *odd)
{
	struct str name, value;
	unsigned n = 0;

	while (webform_next(&query, &name, &value)) {
		AUTO_BUF struct buf b = BUF(HTTP_TARGET_MAX);

		if (!webform_decode(name, &b) || !str_ieqz(buf_str(&b), "Action"))
			continue;
		*odd = *odd || !str_eqz(buf_str(&b), "Action");
		buf_reset(ret);
		*odd = !webform_decode(value, ret) || *odd;
		n++;
	}
	return n;
}

static void
by_target(const struct http_request *r, const struct http_field *f, const struct whose *w,
    struct http_view *v)
{
	struct str prefix, action = f->value;
	size_t dot = 0;
	struct aws_action a;

	for (size_t i = 0; i < action.n; i++)
		if (action.p[i] == '.')
			dot = i + 1;
	prefix = str_mem(f->value.p, dot != 0 ? dot - 1 : 0);
	action = str_mem(f->value.p + dot, f->value.n - dot);
	a = aws_action_find(w->service, action);
	set_action(v, w->service, action, &a);
	if (!str_eq(aws_target_service(prefix), w->service))
		doubt(v, "X-Amz-Target names another service");
	if (!str_eqz(r->method, "POST") || !str_eqz(r->path, "/"))
		doubt(v, "X-Amz-Target on what is no POST to /");
	/* Of two, who knows which counts; and some services take the query's action as well. */
	if (http_field_only(r->fields, r->nfields, "X-Amz-Target") == NULL)
		doubt(v, "X-Amz-Target more than once");
	if (r->has_query && r->query.n != 0)
		doubt(v, "X-Amz-Target and a query beside it");
	if (v->fault == NULL && has_body(r)) {
		v->api = HTTP_API_AWS;
		v->note = NOTE_KNOWN;
		v->body_wanted = true;
	}
}

/* What the copy is made of: "BUCKET/KEY", with or without '/' before it, and a version. */
static void
name_source(struct str value, struct str action, struct http_view *v)
{
	AUTO_BUF struct buf b = BUF(HTTP_TARGET_MAX);
	struct str name = str_trim(value), path = name;

	if (str_cut(&path, '?', &name) && !str_has_prefix(path, "versionId="))
		doubt(v, "a source that is no name of an object");
	enc_unpercent(&b, str_has_prefix(name, "/") ? str_mem(name.p + 1, name.n - 1) : name);
	name = buf_str(&b);
	if (buf_over(&b) || !str_is_utf8(name) || memchr(name.p, '/', name.n) == NULL)
		doubt(v, "a source that is no name of an object");
	else if (str_has_prefix(name, "arn:")) /* of an access point: nobody here knows whose */
		RESOURCES_ADD(&v->resources, STR("s3:"), action, STR("/*"));
	else
		RESOURCES_ADD(&v->resources, STR("s3:"), action, STR("/"), name);
}

/* Two calls that only a header tells apart, and what they read. */
static const char *
s3_name(const struct http_request *r, const char *name)
{
	bool copies = http_field_find(r->fields, r->nfields, "X-Amz-Copy-Source") != NULL;

	if (strcmp(name, "PutObject") == 0 || strcmp(name, "CopyObject") == 0)
		return copies ? "CopyObject" : "PutObject";
	if (strcmp(name, "UploadPart") == 0 || strcmp(name, "UploadPartCopy") == 0)
		return copies ? "UploadPartCopy" : "UploadPart";
	return name;
}

static void
s3_resources(const struct http_request *r, struct str name, struct str path, struct http_view *v)
{
	RESOURCES_ADD(&v->resources, STR("s3:"), name, path);
	/* Its keys are in the body, which is not read. */
	if (str_eqz(name, "DeleteObjects"))
		RESOURCES_ADD(&v->resources, STR("s3:"), name, path, STR("/*"));
	for (size_t i = 0; i < r->nfields; i++)
		if (http_name_is(r->fields[i].name, "X-Amz-Copy-Source"))
			name_source(r->fields[i].value, name, v);
		else if (http_name_is(r->fields[i].name, "X-Amz-Rename-Source"))
			RESOURCES_ADD(&v->resources, STR("s3:"), name, STR("/*"));
}

static void
by_path(const struct http_request *r, const struct whose *w, struct str bucket, struct http_view *v)
{
	AUTO_BUF struct buf path = BUF(HTTP_TARGET_MAX + 512);
	const char *name;
	struct str first;
	struct aws_action a;

	if (bucket.n != 0)
		buf_printf(&path, "/%.*s", STR_ARG(bucket));
	if (bucket.n == 0 || !str_eqz(r->path, "/"))
		enc_unpercent(&path, r->path); /* names are what the service reads */
	a = aws_rest_find(w->service, r->method, buf_str(&path), r->has_query ? r->query : STR(""),
	    &name, &first);
	if (name != NULL && str_eqz(w->service, "s3"))
		name = s3_name(r, name);
	set_action(v, w->service, str_z(name != NULL ? name : "?"), &a);
	if (first.n == 0 || name == NULL)
		return;
	v->resources = (struct resources){.n = 0};
	RESOURCES_ADD(&v->resources, w->service, STR(":"), str_z(name), STR("/"), first);
	if (str_eqz(w->service, "s3"))
		s3_resources(r, str_z(name), buf_str(&path), v);
}

static bool
is_form(const struct http_request *r)
{
	const struct http_field *f = http_field_find(r->fields, r->nfields, "Content-Type");
	struct media_type m = media_type_parse(f != NULL ? f->value : STR(""));

	return m.media == MEDIA_FORM && !m.odd;
}

static void
by_form(const struct http_request *r, const struct whose *w, struct http_view *v)
{
	AUTO_BUF struct buf action = BUF(HTTP_TARGET_MAX);
	bool odd = false;
	unsigned n = r->has_query ? query_actions(r->query, &action, &odd) : 0;
	struct aws_action a;

	v->effects = EFFECT_opaque;
	RESOURCES_ADD(&v->resources, w->service, STR(":*/*"));
	if (n > 1 || odd)
		doubt(v, "an action that is named twice, or in another spelling");
	else if (has_body(r) && (!str_eqz(r->method, "POST") || !is_form(r)))
		doubt(v, "a body that is no form of the query protocol");
	else if (has_body(r) && n != 0)
		doubt(v, "an action in the query and a body beside it");
	else if (n == 1 && (str_eqz(r->method, "GET") || str_eqz(r->method, "POST"))) {
		a = aws_action_find(w->service, buf_str(&action));
		set_action(v, w->service, buf_str(&action), &a);
		if (v->fault == NULL && r->query.n != 0) {
			v->api = HTTP_API_AWS;
			v->note = NOTE_KNOWN;
			v->query_wanted = true;
		}
	} else if (has_body(r) && v->fault == NULL) {
		v->api = HTTP_API_AWS;
		v->body_wanted = v->anew = true;
	} else {
		doubt(v, "no action is named");
	}
}

/* Headers by which an ordinary action of S3 does more. */
static void
s3_headers(const struct http_request *r, struct http_view *v)
{
	for (size_t i = 0; i < r->nfields; i++) {
		struct str name = r->fields[i].name;

		if (http_name_is(name, "x-amz-bypass-governance-retention"))
			effects_http_doubt(
			    v, EFFECT_audit, "it goes around the retention of objects");
		else if (http_name_is(name, "x-amz-acl") ||
			 (name.n >= 12 && http_name_is(str_mem(name.p, 12), "x-amz-grant-")))
			effects_http_doubt(v, EFFECT_priv, "it gives rights to an object");
	}
}

static bool
is_presigned(const struct http_request *r)
{
	return r->has_query && r->query.n != 0 &&
	       (memmem(r->query.p, r->query.n, "X-Amz-Signature", 15) != NULL ||
		   memmem(r->query.p, r->query.n, "x-amz-signature", 15) != NULL);
}

void
effects_aws(const struct policy_target *t, const struct http_request *r, struct http_view *v)
{
	const struct http_field *f = http_field_find(r->fields, r->nfields, "X-Amz-Target");
	const struct http_field *code = http_field_find(r->fields, r->nfields, "Content-Encoding");
	struct str bucket = STR("");
	struct whose w;

	v->effects = EFFECT_opaque;
	find_whose(t, r, v, &w, &bucket);
	if (is_presigned(r))
		doubt(v, "a presigned request");
	if (v->fault != NULL)
		return;
	if (f != NULL)
		by_target(r, f, &w, v);
	else if (aws_service_is_rest(w.service))
		by_path(r, &w, bucket, v);
	else
		by_form(r, &w, v);
	if (str_eqz(w.service, "s3"))
		s3_headers(r, v);
	if (v->body_wanted && code != NULL && !str_ieqz(code->value, "identity")) {
		v->body_wanted = false;
		v->api = HTTP_API_NONE;
		doubt(v, "a body in a content coding");
	}
}

void
effects_aws_action(struct str action, struct http_view *v)
{
	struct str service, name = action;
	struct aws_action a = {.effects = EFFECT_opaque};

	*v = (struct http_view){.effects = EFFECT_opaque, .statements = 1};
	if (!str_cut(&name, ':', &service)) {
		doubt(v, "it is not SERVICE:ACTION");
		return;
	}
	a = aws_action_find(service, name);
	set_action(v, service, name, &a);
	v->deferred = false; /* when, only a request says */
}

/* --- what the parser found --------------------------------------------------------------- */

static bool
is_strings(const struct json *v)
{
	if (json_type(v) != JSON_ARRAY)
		return false;
	for (size_t i = 0; i < json_count(v); i++)
		if (json_type(json_at(v, i)) != JSON_STRING)
			return false;
	return true;
}

static bool
facts_valid(const struct json *facts, const struct json *a)
{
	return json_type(facts) == JSON_OBJECT && json_count(facts) == 1 && json_count(a) == 5 &&
	       is_strings(json_get(a, "accounts")) && is_strings(json_get(a, "actions")) &&
	       is_strings(json_get(a, "flags")) && is_strings(json_get(a, "names")) &&
	       json_type(json_get(a, "odd")) == JSON_BOOL;
}

/* "rds:DeleteDBInstance/..." as the head or the body told it. */
static void
split_name(const struct resources *r, struct buf *service, struct buf *action)
{
	struct str s = str_mem(r->text + r->at[0], r->n != 0 ? r->len[0] : 0), part;

	if (str_cut(&s, ':', &part))
		buf_put_str(service, part);
	if (str_cut(&s, '/', &part))
		buf_put_str(action, part);
}

static void
judge_flags(const struct json *flags, struct http_view *v)
{
	static const struct {
		const char *flag;
		uint32_t effect;
		const char *why;
	} known[] = {
	    {"BackupRetentionPeriod=0", EFFECT_audit, "it ends the backups"},
	    {"DeletionProtection=false", EFFECT_audit,
		"it takes the protection from deletion away"},
	    {"MasterUserPassword", EFFECT_priv, "it sets a master password"},
	    {"PubliclyAccessible=true", EFFECT_net, "it opens a database to the internet"},
	};

	for (size_t i = 0; i < json_count(flags); i++)
		for (size_t k = 0; k < ARRAY_LEN(known); k++)
			if (str_eqz(json_str(json_at(flags, i)), known[k].flag))
				effects_http_doubt(v, known[k].effect, known[k].why);
}

static void
judge_accounts(const struct policy_target *t, const struct json *accounts, struct http_view *v)
{
	for (size_t i = 0; i < json_count(accounts); i++)
		if (!listed(&t->lists[TARGET_LIST_ACCOUNTS], json_str(json_at(accounts, i))))
			doubt(v, "an account that is none of the target's");
}

void
effects_aws_facts(const struct policy_target *t, const struct json *facts, struct http_view *v)
{
	const struct json *a = json_get(facts, "aws"), *actions = json_get(a, "actions");
	const struct json *names = json_get(a, "names");
	AUTO_BUF struct buf service = BUF(RESOURCES_TEXT_MAX);
	AUTO_BUF struct buf action = BUF(RESOURCES_TEXT_MAX);
	bool known = v->note == NOTE_KNOWN;

	if (!facts_valid(facts, a)) {
		doubt(v, "what it asks for was not told in a form that is known");
		return;
	}
	split_name(&v->resources, &service, &action);
	if (json_bool(json_get(a, "odd")) || json_count(actions) > 1 ||
	    (v->body_wanted && known && json_count(actions) != 0)) {
		doubt(v, "an action that is named twice or in another spelling, or a signature "
			 "beside it");
		return;
	}
	if (!known && json_count(actions) == 0) {
		doubt(v, "no action is named");
		return;
	}
	if (!known) {
		struct str said = json_str(json_at(actions, 0));
		struct aws_action found = aws_action_find(buf_str(&service), said);

		buf_reset(&action);
		buf_put_str(&action, said);
		set_action(v, buf_str(&service), said, &found);
	}
	if (json_count(names) != 0)
		v->resources = (struct resources){.n = 0};
	for (size_t i = 0; i < json_count(names); i++)
		RESOURCES_ADD(&v->resources, buf_str(&service), STR(":"), buf_str(&action),
		    STR("/"), json_str(json_at(names, i)));
	judge_flags(json_get(a, "flags"), v);
	judge_accounts(t, json_get(a, "accounts"), v);
	if (v->resources.over)
		doubt(v, "it names more than can be judged at once");
}
