/*
 * Requests that the broker signs for AWS (process: core). A client signs with its placeholder; that
 * signature says nothing to anybody and is taken away with what belongs to it. What is signed anew,
 * and for which service and region, is said here: by the target, never by the client alone.
 */
#include "broker/core_http.h"

#include <stdlib.h>

#include "common/awschunk.h"
#include "common/xalloc.h"
#include "policy/effects_aws.h"
#include "policy/webform.h"

#include "common/banned.h"

#define V4 "AWS4-HMAC-SHA256"
#define UNSUPPORTED "signature_unsupported"

void
core_http_aws_free(struct core_aws *a)
{
	if (a == NULL)
		return;
	buf_free(&a->content);
	free(a);
}

/* --- the client's signature ------------------------------------------------------ */

static bool
is_key(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~' || s.p[i] == '/' || s.p[i] == ',')
			return false;
	return s.n != 0;
}

/* "AWS4-... Credential=KEY/DATE/...", "AWS KEY:SIGNATURE". */
struct str
core_http_aws_key(struct str authorization)
{
	static const struct str mark = STR("Credential=");
	struct str rest = authorization, scheme, key;
	const char *at;

	if (!str_cut(&rest, ' ', &scheme))
		return authorization;
	if (str_eqz(scheme, "AWS") && str_cut(&rest, ':', &key) && is_key(str_trim(key)))
		return str_trim(key);
	at = memmem(authorization.p, authorization.n, mark.p, mark.n);
	if (!str_has_prefix(scheme, "AWS4-") || at == NULL)
		return str_trim(rest);
	rest = str_mem(at + mark.n, (size_t)(authorization.p + authorization.n - at) - mark.n);
	return str_cut(&rest, '/', &key) && is_key(key) ? key : rest;
}

static void
read_authorization(struct core_http *h, const char *own)
{
	const struct http_field *f =
	    http_field_find(h->req->fields, h->req->nfields, "Authorization");

	if (f == NULL || !str_eqz(core_http_aws_key(f->value), own))
		return;
	h->aws->own = str_has_prefix(f->value, V4 " ");
	if (h->aws->own)
		return;
	if (str_has_prefix(f->value, "AWS4-ECDSA-"))
		core_http_refuse(h, 501, UNSUPPORTED,
		    "a signature of version 4A (AWS4-ECDSA-P256-SHA256) is not made anew: use "
		    "version 4");
	else if (str_has_prefix(f->value, "AWS "))
		core_http_refuse(h, 501, UNSUPPORTED,
		    "a signature of version 2 is not made anew: use version 4");
}

/* Whoever has such an URL has a credential; one that is made here says nothing to the server. */
static void
read_query(struct core_http *h, const char *own)
{
	struct str query = h->req->has_query ? h->req->query : STR(""), name, value;

	while (webform_next(&query, &name, &value)) {
		AUTO_BUF struct buf n = BUF(HTTP_TARGET_MAX);
		AUTO_BUF struct buf v = BUF(HTTP_TARGET_MAX);

		core_http_unescape(name, &n);
		core_http_unescape(value, &v);
		if (!str_has_prefix(buf_str(&v), own))
			continue;
		if (str_ieqz(buf_str(&n), "X-Amz-Credential"))
			core_http_refuse(h, 501, UNSUPPORTED,
			    "a presigned URL is not signed anew: send the request itself");
		else if (str_ieqz(buf_str(&n), "AWSAccessKeyId"))
			core_http_refuse(h, 501, UNSUPPORTED,
			    "a signature of version 2 in the URL is not made anew: use version 4 "
			    "in "
			    "the head");
	}
}

bool
core_http_aws_drops(const struct core_http *h, struct str name)
{
	if (h->aws == NULL)
		return false;
	return http_name_is(name, "X-Amz-Date") || http_name_is(name, "Date") ||
	       (h->aws->own && (http_name_is(name, "Authorization") ||
				   http_name_is(name, "X-Amz-Security-Token")));
}

/* --- what is signed -------------------------------------------------------------- */

static void
read_scope(struct core_http *h, const struct policy_target *t)
{
	AUTO_BUF struct buf b = BUF(sizeof(h->aws->scope));
	const char *why = NULL;
	struct str service, region;

	if (effects_aws_scope(t, h->req, &region, &service, &why)) {
		h->aws->s3 = str_eqz(service, "s3");
		buf_printf(&b, "%.*s/%.*s", STR_ARG(region), STR_ARG(service));
		buf_put_c(&b, '\0');
		if (buf_over(&b))
			why = "its service and region are too long";
		else
			memcpy(h->aws->scope, b.p, b.n);
	}
	if (why != NULL) {
		AUTO_FREE char *text = xasprintf("it is not signed: %s", why);

		core_http_refuse(h, 403, "signature_scope", text);
	}
}

static void
refuse_payload(struct core_http *h, struct str word)
{
	AUTO_BUF struct buf text = BUF(512);
	AUTO_FREE char *z = NULL;

	buf_put_z(&text, "X-Amz-Content-Sha256: ");
	enc_percent(&text, str_mem(word.p, word.n < 100 ? word.n : 100));
	buf_put_z(&text,
	    " is not signed anew: what is, is a hash in 64 lower-case digits, UNSIGNED-PAYLOAD and "
	    "STREAMING-UNSIGNED-PAYLOAD-TRAILER over TLS, and " AWSCHUNK_SIGNED);
	z = buf_dup_z(&text);
	core_http_refuse(h, 501, UNSUPPORTED, z);
}

static void
read_chunked(struct core_http *h)
{
	static const char name[] = "X-Amz-Decoded-Content-Length";
	const struct http_field *f = http_field_only(h->req->fields, h->req->nfields, name);

	h->aws->payload = CORE_AWS_CHUNKED;
	if (f == NULL || !str_to_u64(f->value, INT64_MAX, &h->aws->length))
		core_http_refuse(h, 400, "invalid_request",
		    "signed chunks need one X-Amz-Decoded-Content-Length");
	else if (h->body == CORE_BODY_NONE)
		core_http_refuse(h, 400, "invalid_request", "signed chunks without a body");
}

static void
read_payload(struct core_http *h)
{
	static const char name[] = "X-Amz-Content-Sha256";
	const struct http_field *f = http_field_find(h->req->fields, h->req->nfields, name);
	struct core_aws *a = h->aws;

	if (f == NULL)
		return;
	if (http_field_only(h->req->fields, h->req->nfields, name) == NULL)
		core_http_refuse(
		    h, 400, "invalid_request", "X-Amz-Content-Sha256 stands there twice");
	else if (hash_from_hex(f->value, &a->hash))
		a->payload = CORE_AWS_HASHED;
	else if (str_eqz(f->value, AWSCHUNK_SIGNED))
		read_chunked(h);
	else if (h->tls && (str_eqz(f->value, "UNSIGNED-PAYLOAD") ||
			       str_eqz(f->value, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")))
		a->payload = CORE_AWS_UNSIGNED;
	else
		refuse_payload(h, f->value);
}

void
core_http_aws_begin(struct core_http *h, const struct policy_target *t, const struct vault_entry *e,
    const char *own)
{
	if (t == NULL || e == NULL || strcmp(e->kind, "aws") != 0)
		return;
	h->aws = xcalloc(1, sizeof(*h->aws));
	buf_init(&h->aws->content, CORE_HTTP_SHOWN_MAX);
	read_authorization(h, own);
	read_query(h, own);
	read_scope(h, t);
	read_payload(h);
}

/* --- the body -------------------------------------------------------------------- */

bool
core_http_aws_wants_body(const struct core_http *h)
{
	return h->aws != NULL && h->aws->payload == CORE_AWS_PLAIN && !(h->aws->s3 && h->tls);
}

void
core_http_aws_body(struct core_http *h)
{
	struct core_aws *a = h->aws;
	struct err err = {0};

	if (a == NULL || !(h->in_hand || h->hashed) || h->why != NULL || a->read)
		return;
	if (a->payload == CORE_AWS_HASHED && !hash_eq(&a->hash, &h->sha)) {
		core_http_refuse(h, 400, "body_differs",
		    "the body is not the one that X-Amz-Content-Sha256 names");
		return;
	}
	if (a->payload != CORE_AWS_CHUNKED || !h->in_hand)
		return;
	if (awschunk_read(h->bytes, a->length, &a->content, &err) != 0 || buf_over(&a->content)) {
		core_http_refuse(h, 400, "invalid_request",
		    err.code != 0 ? err.msg : "the content of its chunks is too long");
		return;
	}
	a->read = true;
	a->content_sha = hash_sha256(buf_str(&a->content));
}

const struct hash *
core_http_aws_hash(const struct core_http *h)
{
	return h->aws != NULL && h->aws->payload == CORE_AWS_HASHED && !h->in_hand ? &h->aws->hash
										   : NULL;
}
