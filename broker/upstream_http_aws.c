/*
 * Signs requests to AWS. Runs in upstream, on its own clock. Core has said region and service and
 * has read the body's form; that form is read again here, where the signature is made: a hash that
 * the body does not have is never signed.
 */
#include "broker/upstream_http_aws.h"

#include <stdlib.h>

#include "broker/upstream_rechunk.h"
#include "common/awschunk.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define CANONICAL_MAX (4 * HTTP_TARGET_MAX + 3 * HTTP_HEAD_MAX)

struct aws_signer {
	struct sigv4_scope scope;
	struct secret *key;
	bool s3;
	char payload[HASH_HEX_SIZE];
	struct buf authorization, host;
	struct http_field fields[HTTP_FIELDS_MAX + 4]; /* those of the lease, then ours */
};

/* --- the credential -------------------------------------------------------------- */

static bool
made_of(struct str s, const char *besides, bool capitals)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
		    !(capitals && c >= 'A' && c <= 'Z') &&
		    (c == '\0' || strchr(besides, c) == NULL))
			return false;
	}
	return s.n != 0;
}

static bool
is_visible(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	return s.n != 0;
}

/* token "": none. */
static void
split_secret(struct str secret, struct str *key, struct str *token)
{
	*token = secret;
	if (str_cut(token, ' ', key))
		return;
	*key = secret;
	*token = STR("");
}

bool
aws_credential_ok(const struct upstream_lease *l)
{
	struct str key, token, service = l->field, region;

	split_secret(l->secret, &key, &token);
	return is_visible(key) && (key.n == l->secret.n || is_visible(token)) &&
	       made_of(l->user, "_-.", true) && l->user.n <= 128 &&
	       str_cut(&service, '/', &region) && made_of(region, "-", false) &&
	       made_of(service, "-", false) && l->field.n <= 100 && l->target.p[0] == '/';
}

bool
aws_field_is_ours(struct str name)
{
	return http_name_is(name, "Authorization") || http_name_is(name, "X-Amz-Date") ||
	       http_name_is(name, "X-Amz-Security-Token") || http_name_is(name, "Date");
}

size_t
aws_secrets(const struct upstream_lease *l, struct scrub_secret ret[AWS_SECRETS_MAX])
{
	struct str key, token;
	size_t n = 0;

	split_secret(l->secret, &key, &token);
	ret[n++] = (struct scrub_secret){key, STR(""), l->placeholder, false};
	if (token.n != 0)
		ret[n++] = (struct scrub_secret){token, STR(""), l->placeholder, false};
	if (l->user.n >= AWS_ID_SCRUBBED_MIN)
		ret[n++] = (struct scrub_secret){l->user, STR(""), l->placeholder, false};
	return n;
}

int
aws_signer_new(
    const struct upstream_lease *l, int64_t now_s, struct aws_signer **ret, struct err *err)
{
	struct str service = l->field, region = STR(""), key, token;
	struct aws_signer *s = xcalloc(1, sizeof(*s));
	int rc;

	(void)str_cut(&service, '/', &region);
	split_secret(l->secret, &key, &token);
	s->s3 = str_eqz(service, "s3");
	s->key = secret_new(SIGV4_KEY_LEN);
	buf_init(&s->authorization, SIGV4_NAMES_MAX + 1024);
	buf_init(&s->host, 512);
	rc = sigv4_scope(now_s, region, service, &s->scope, err);
	if (rc != 0) {
		aws_signer_free(s);
		return rc;
	}
	sigv4_key(&s->scope, key, secret_bytes(s->key));
	*ret = s;
	return 0;
}

void
aws_signer_free(struct aws_signer *s)
{
	if (s == NULL)
		return;
	secret_free(s->key);
	buf_free(&s->authorization);
	buf_free(&s->host);
	free(s);
}

struct str
aws_signer_key(const struct aws_signer *s)
{
	return secret_str(s->key);
}

/* --- the body -------------------------------------------------------------------- */

static bool
is_streamed(const struct upstream_lease *l)
{
	return l->body == LEASE_STREAM || l->body == LEASE_CHUNKED;
}

/* The hash that the body has or, of one that is on its way, must have. */
static int
body_hash(const struct upstream_lease *l, struct body *b, struct hash *ret, struct err *err)
{
	if (!is_streamed(l))
		return body_hash_here(b, ret, err);
	if (!l->bound)
		return err_set(err, ERR_CONFIG,
		    "a body that is on its way is to be signed, and its hash is not known");
	*ret = l->sha256;
	return 0;
}

static int
payload_hash(struct aws_signer *s, const struct upstream_lease *l, struct body *b, struct str said,
    struct err *err)
{
	struct hash h = {{0}}, want;
	int rc = body_hash(l, b, &h, err);

	if (rc != 0)
		return rc;
	hash_hex(&h, s->payload);
	if (said.n != 0 && (!hash_from_hex(said, &want) || !hash_eq(&h, &want)))
		return err_set(
		    err, ERR_STATE, "the body is not the one that X-Amz-Content-Sha256 names");
	return 0;
}

/* Nothing of the body is signed: TLS alone keeps it as it is. */
static int
payload_unsigned(const struct upstream_lease *l, struct str word, struct err *err)
{
	return l->tls ? 0 : err_set(err, ERR_UNSUPPORTED, "%.*s is for TLS alone", STR_ARG(word));
}

static bool
decoded_length(const struct upstream_lease *l, uint64_t *ret)
{
	const struct http_field *f =
	    http_field_only(l->fields, l->nfields, "X-Amz-Decoded-Content-Length");

	return f != NULL && str_to_u64(f->value, INT64_MAX, ret);
}

/* What of the body is signed: s->payload, "" where the field's own word says it. */
static int
payload(struct aws_signer *s, const struct upstream_lease *l, struct body *b, struct str *word,
    bool *added, struct err *err)
{
	const struct http_field *f = http_field_only(l->fields, l->nfields, "X-Amz-Content-Sha256");
	uint64_t length;
	int rc;

	*added = f == NULL && s->s3;
	if (f == NULL && http_field_find(l->fields, l->nfields, "X-Amz-Content-Sha256") != NULL)
		return err_set(err, ERR_UNSUPPORTED, "X-Amz-Content-Sha256 stands there twice");
	if (f == NULL && s->s3 && is_streamed(l) && !l->bound) {
		*word = STR("UNSIGNED-PAYLOAD");
		return payload_unsigned(l, *word, err);
	}
	*word = f != NULL ? f->value : STR("");
	if (str_eqz(*word, "UNSIGNED-PAYLOAD") ||
	    str_eqz(*word, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"))
		return payload_unsigned(l, *word, err);
	if (str_eqz(*word, AWSCHUNK_SIGNED)) {
		if (!decoded_length(l, &length))
			return err_set(err, ERR_UNSUPPORTED,
			    "signed chunks without one X-Amz-Decoded-Content-Length");
		return 0;
	}
	rc = payload_hash(s, l, b, *word, err);
	*word = str_z(s->payload);
	return rc;
}

/* --- the head -------------------------------------------------------------------- */

static void
add(struct aws_signer *s, size_t *n, const char *name, struct str value)
{
	s->fields[(*n)++] = (struct http_field){str_z(name), value};
}

int
aws_sign(struct aws_signer *s, const struct upstream_lease *l, struct body *b,
    struct head_more *ret, struct err *err)
{
	AUTO_BUF struct buf canonical = BUF(CANONICAL_MAX);
	AUTO_BUF struct buf names = BUF(SIGV4_NAMES_MAX);
	struct sigv4_request r = {.method = l->method, .target = l->target, .s3 = s->s3};
	const uint8_t *signing = (const uint8_t *)aws_signer_key(s).p;
	struct str key, token, word = STR("");
	char signature[HASH_HEX_SIZE];
	size_t n = l->nfields;
	uint64_t length = 0;
	bool added = false;
	int rc = payload(s, l, b, &word, &added, err);

	if (rc != 0)
		return rc;
	split_secret(l->secret, &key, &token);
	memcpy(s->fields, l->fields, n * sizeof(s->fields[0]));
	add(s, &n, "X-Amz-Date", str_z(s->scope.date));
	if (token.n != 0)
		add(s, &n, "X-Amz-Security-Token", token);
	if (added)
		add(s, &n, "X-Amz-Content-Sha256", word);
	lease_authority(l, &s->host);
	r.host = buf_str(&s->host);
	r.fields = s->fields;
	r.nfields = n;
	r.payload = word;
	sigv4_canonical(&r, &canonical, &names);
	if (buf_over(&canonical) || buf_over(&names))
		return err_set(err, ERR_TOO_LARGE, "the fields to be signed are too many");
	sigv4_sign(&s->scope, signing, buf_str(&canonical), signature);
	sigv4_authorization(&s->scope, l->user, buf_str(&names), signature, &s->authorization);
	add(s, &n, "Authorization", buf_str(&s->authorization));
	*ret = (struct head_more){.fields = s->fields + l->nfields, .nfields = n - l->nfields};
	if (!str_eqz(word, AWSCHUNK_SIGNED) || !decoded_length(l, &length))
		return 0;
	ret->rechunked = true;
	ret->length = rechunk_length(length);
	body_rechunk(b, rechunk_new(&s->scope, signing, signature, length), ret->length);
	return 0;
}
