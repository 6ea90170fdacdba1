/*
 * Credentials in a request (process: core). A client in the sandbox has none of its own: what it
 * sends is a placeholder in the place where the broker injects the real one, or a find. A find is
 * refused and recorded by a keyed fingerprint, never by its value. What is left is the lease.
 */
#include "broker/core_http.h"

#include <stdio.h>
#include <stdlib.h>

#include "broker/core_cred.h"
#include "broker/core_token.h"
#include "common/token.h"
#include "common/xalloc.h"
#include "policy/webform.h"

#include "common/hash.h"

#include "common/banned.h"

struct scan {
	struct core_http *h;
	const struct policy_target *t;
	const struct vault_entry *e; /* NULL: nothing is injected */
	bool searched;		     /* the answer, for this credential or others of the run */
	char own[CORE_PLACEHOLDER_SIZE];
};

/* --- finds ----------------------------------------------------------------------- */

static void
place_set(struct core_found *f, const char *kind, struct str name)
{
	(void)snprintf(f->place, sizeof(f->place), "%s%s%.*s", kind, name.n != 0 ? " " : "",
	    (int)(name.n < 64 ? name.n : 64), name.n != 0 ? name.p : "");
}

static void
foreign(struct core_http *h, const char *kind, struct str name, struct str secret)
{
	struct core_found *f = &h->found;

	if (f->what != CORE_FOUND_NONE)
		return;
	f->what = CORE_FOUND_FOREIGN;
	place_set(f, kind, name);
	core_cred_fingerprint(h->from.run->core, secret, f->fingerprint);
	core_http_refuse(h, 403, "credential_foreign",
	    "the request carries a credential that the broker did not give to this run");
}

/* Whose is it? Only placeholders of this run and of targets in the policy can be told. */
static void
owner_find(struct core_http *h, struct str placeholder)
{
	const struct policy *p = h->from.run->core->policy;

	for (size_t i = 0; p != NULL && i < policy_target_count(p); i++) {
		const struct policy_target *t = policy_target_at(p, i);
		char value[CORE_PLACEHOLDER_SIZE];

		if (t->credential.n == 0 || t->credential.n > POLICY_ID_MAX)
			continue;
		core_cred_placeholder(h->from.run, t->credential, value);
		if (!str_eqz(placeholder, value))
			continue;
		memcpy(h->found.credential, t->credential.p, t->credential.n);
		h->found.bound = xasprintf("%.*s:%u", STR_ARG(t->host), (unsigned)t->port);
		return;
	}
}

static void
scope(struct core_http *h, const char *kind, struct str name, struct str placeholder)
{
	struct core_found *f = &h->found;
	AUTO_FREE char *why = NULL;

	if (f->what != CORE_FOUND_NONE)
		return;
	f->what = CORE_FOUND_SCOPE;
	place_set(f, kind, name);
	owner_find(h, placeholder);
	if (f->bound == NULL)
		why = xasprintf("a placeholder that is none of this run was sent to %s in %s",
		    h->from.address, f->place);
	else
		why = xasprintf(
		    "the placeholder of credential %s, which is bound to %s, was sent to %s in %s, "
		    "where the broker does not put that credential",
		    f->credential, f->bound, h->from.address, f->place);
	core_http_refuse(h, 403, "credential_scope", why);
}

/* Text that carries no credential by its place. */
static void
look(struct core_http *h, const char *kind, struct str name, struct str text)
{
	struct str found;

	if (core_token_placeholder(text, &found))
		scope(h, kind, name, found);
	else if (token_find(text, &found))
		foreign(h, kind, name, found);
}

/* Its place says that it is one. */
static void
carrier(struct core_http *h, const char *kind, struct str name, struct str secret)
{
	struct str found;

	if (core_token_placeholder(secret, &found))
		scope(h, kind, name, found);
	else if (secret.n != 0)
		foreign(h, kind, name, secret);
}

/* --- fields ---------------------------------------------------------------------- */

static bool
is_kind(const struct scan *s, const char *kind)
{
	return s->e != NULL && strcmp(s->e->kind, kind) == 0;
}

struct str
core_http_basic_secret(struct str b64, struct buf *plain)
{
	struct str s, user;

	if (!enc_unbase64(b64, plain))
		return b64;
	s = buf_str(plain);
	if (!str_cut(&s, ':', &user))
		return b64;
	return s.n != 0 ? s : user; /* some services take a key as the user */
}

static void
authorization(struct scan *s, struct str name, struct str value)
{
	AUTO_BUF struct buf plain = BUF(HTTP_HEAD_MAX);
	struct str rest = value, scheme, secret = value;
	bool may = is_kind(s, "bearer") || is_kind(s, "basic");

	if (str_cut(&rest, ' ', &scheme)) {
		secret = str_trim(rest);
		if (http_name_is(scheme, "Basic"))
			secret = core_http_basic_secret(secret, &plain);
		else
			may = may &&
			      (http_name_is(scheme, "Bearer") || http_name_is(scheme, "token"));
		if (s->t != NULL && s->t->kind == TARGET_AWS)
			secret = core_http_aws_key(value);
	} else {
		may = false;
	}
	if (!may || !str_eqz(secret, s->own))
		carrier(s->h, "field", name, secret);
}

static bool
own_field(const struct scan *s, struct str name)
{
	return is_kind(s, "header") && core_token_alike(name, s->e->field);
}

/* To a model: the client's name for its conversation, by which no provider knows anybody. */
static bool
names_talk(const struct scan *s, struct str name)
{
	return s->h->model && http_name_is(name, "X-Session-Id");
}

/*
 * Of an upgrade: extensions would change the frames, in which the run's secrets are looked for; and
 * a subprotocol by that name is a bearer token, as browsers bring it to Kubernetes.
 */
static bool
upgrade_field(struct scan *s, const struct http_field *f)
{
	static const char bearer[] = "base64url.bearer.";

	if (http_name_is(f->name, "Sec-WebSocket-Extensions"))
		return false;
	if (http_name_is(f->name, "Sec-WebSocket-Protocol") && f->value.n != 0 &&
	    memmem(f->value.p, f->value.n, bearer, sizeof(bearer) - 1) != NULL) {
		carrier(s->h, "field", f->name, f->value);
		return false;
	}
	return true;
}

/* False: it does not go out. */
static bool
field_scan(struct scan *s, const struct http_field *f)
{
	const struct http_request *r = s->h->req;

	if (http_field_is_hop(r->fields, r->nfields, f->name) || http_name_is(f->name, "Host") ||
	    http_name_is(f->name, "Content-Length") || http_name_is(f->name, "Expect"))
		return false;
	if (core_http_aws_drops(s->h, f->name))
		return false;
	if (own_field(s, f->name)) {
		if (!str_eqz(f->value, s->own))
			carrier(s->h, "field", f->name, f->value);
		return false;
	}
	if (http_name_is(f->name, "Authorization")) {
		authorization(s, f->name, f->value);
		return false;
	}
	if (http_name_is(f->name, "Cookie") && s->t != NULL && s->t->cookies) {
		struct str found;

		if (core_token_placeholder(f->value, &found))
			scope(s->h, "field", f->name, found);
		return true;
	}
	if (core_token_field(f->name) && !names_talk(s, f->name)) {
		carrier(s->h, "field", f->name, f->value);
		return false;
	}
	if (s->h->view.upgrade && !upgrade_field(s, f))
		return false;
	look(s->h, "field", f->name, f->value);
	look(s->h, "field name", STR(""), f->name);
	if (http_name_is(f->name, HTTP_RECEIPT)) /* only the broker gives those */
		return false;
	/* A compressed answer could hide the secret that is looked for in it. */
	return !s->searched || !http_name_is(f->name, "Accept-Encoding");
}

static void
fields_scan(struct scan *s)
{
	struct core_http *h = s->h;
	struct str protocol;

	h->fields = xcalloc(h->req->nfields + 4, sizeof(*h->fields)); /* and what a look adds */
	for (size_t i = 0; i < h->req->nfields; i++)
		if (field_scan(s, &h->req->fields[i]))
			h->fields[h->nfields++] = h->req->fields[i];
	if (s->searched)
		h->fields[h->nfields++] =
		    (struct http_field){STR("Accept-Encoding"), STR("identity")};
	/* The one field of a connection that goes out: what people sign, and what was leased. */
	if (h->view.upgrade && http_upgrade_asks(h->req, &protocol))
		h->fields[h->nfields++] = (struct http_field){STR("Upgrade"), protocol};
}

/* --- target ---------------------------------------------------------------------- */

void
core_http_unescape(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.n; i++) {
		int hi = s.p[i] == '%' && i + 2 < s.n ? enc_hex_digit(s.p[i + 1]) : -1;
		int lo = hi >= 0 ? enc_hex_digit(s.p[i + 2]) : -1;

		if (lo >= 0) {
			buf_put_c(out, (char)(hi << 4 | lo));
			i += 2;
		} else if (s.p[i] == '+') {
			buf_put_c(out, ' ');
		} else {
			buf_put_c(out, s.p[i]);
		}
	}
}

static void
pair_scan(struct scan *s, struct str name, struct str value)
{
	AUTO_BUF struct buf n = BUF(HTTP_TARGET_MAX);
	AUTO_BUF struct buf v = BUF(HTTP_TARGET_MAX);
	bool own;

	core_http_unescape(name, &n);
	core_http_unescape(value, &v);
	own = is_kind(s, "query") &&
	      core_token_alike(core_token_parameter_stem(buf_str(&n)), s->e->field);
	if (own && v.n == 0) /* upstream puts its own there: two would be a riddle */
		foreign(s->h, "query parameter", name, buf_str(&n));
	else if (own || core_token_parameter(buf_str(&n)))
		carrier(s->h, "query parameter", name, buf_str(&v));
	else
		look(s->h, "query parameter", name, buf_str(&v));
	look(s->h, "query", STR(""), buf_str(&n));
}

/* "field=PLACEHOLDER" as it stands: upstream puts the credential's parameter in its place. */
static bool
own_parameter(const struct scan *s, struct str raw)
{
	AUTO_BUF struct buf own = BUF(1024);

	if (!is_kind(s, "query"))
		return false;
	buf_printf(&own, "%s=%s", s->e->field, s->own);
	return str_eq(raw, buf_str(&own));
}

/* As the servers do that split at ';' too. */
static void
pairs_scan(struct scan *s, struct str raw)
{
	struct str name, value;

	while (webform_next(&raw, &name, &value))
		pair_scan(s, name, value);
}

static void
target_scan(struct scan *s)
{
	struct core_http *h = s->h;
	struct str rest = h->req->query, one;
	bool more = h->req->has_query;
	AUTO_BUF struct buf path = BUF(HTTP_TARGET_MAX);
	char sep = '?';

	look(h, "path", STR(""), h->req->path);
	core_http_unescape(h->req->path, &path);
	look(h, "path", STR(""), buf_str(&path));
	buf_put_str(&h->target, h->req->path);
	while (more) {
		more = str_cut(&rest, '&', &one);
		if (!more)
			one = rest;
		if (own_parameter(s, one))
			continue;
		pairs_scan(s, one);
		buf_put_c(&h->target, sep);
		for (size_t i = 0; i < one.n; i++)
			if (h->aws != NULL && one.p[i] == '+')
				buf_put_z(&h->target,
				    "%20"); /* as it is judged; signed, it has one form */
			else
				buf_put_c(&h->target, one.p[i]);
		sep = '&';
	}
}

/* --- the whole ------------------------------------------------------------------- */

void
core_http_scan(struct core_http *h)
{
	struct scan s = {.h = h, .t = core_http_policy(h)};
	struct core_others others;
	struct err err;

	if (s.t != NULL && s.t->credential.n != 0) {
		core_cred_placeholder(h->from.run, s.t->credential, s.own);
		if (core_cred_find(h->from.run->core, s.t, &s.e, &err) != 0)
			s.e = NULL; /* refused already */
	}
	s.searched =
	    s.e != NULL || core_cred_others(h->from.run, NULL, &others, &err) != 0 || others.n != 0;
	core_http_aws_begin(h, s.t, s.e, s.own);
	fields_scan(&s);
	target_scan(&s);
}

void
core_http_scan_body(struct core_http *h)
{
	struct str found;

	/* A model may read of placeholders: they are in the environment it asks for. */
	if (h->model)
		return;
	if (h->why == NULL && h->bytes.n != 0 && core_token_placeholder(h->bytes, &found))
		scope(h, "body", STR(""), found);
}
