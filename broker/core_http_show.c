/*
 * An HTTP request as people are shown it, as it is sealed into the log, and its digest (process:
 * core). People see what goes out, in its order; what of it changes at each try is shown but not
 * part of what they sign.
 */
#include "broker/core_http.h"
#include "policy/digest.h"

#include "broker/core_plan.h"
#include "broker/core_token.h"

#include "common/banned.h"

#define SHOW_MAX ((size_t)1 << 20)
#define BODY_TEXT_MAX ((size_t)24576) /* more is shown by its hash */

static const char *
scheme(const struct core_http *h)
{
	if (h->from.target != NULL)
		return h->from.target->scheme;
	return h->tls ? "https" : "http";
}

/* --- for people ------------------------------------------------------------------ */

static bool
is_text(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (((uint8_t)s.p[i] < 0x20 && strchr("\t\r\n", s.p[i]) == NULL) ||
		    s.p[i] == '\0' || s.p[i] == 0x7f)
			return false;
	return str_is_utf8(s);
}

/* GraphQL stands inside a JSON string: the same once more with its line ends and quotes. */
static void
graphql_show(struct buf *b, struct str s)
{
	static const char from[] = "nt\"\\/", to[] = "\n\t\"\\/";

	buf_put_z(b, "\n\nas text:\n");
	for (size_t i = 0; i < s.n; i++) {
		const char *at = NULL;

		if (s.p[i] == '\\' && i + 1 < s.n && s.p[i + 1] != '\0')
			at = strchr(from, s.p[i + 1]);
		if (at == NULL) {
			buf_put_c(b, s.p[i]);
			continue;
		}
		buf_put_c(b, to[at - from]);
		i++;
	}
}

/* Old and new ids in full: they name everything that is pushed. */
static void
push_show(struct buf *b, const struct json *g)
{
	const struct json *commands = json_get(g, "commands"), *options = json_get(g, "options");

	buf_put_z(b, "\n");
	if (json_count(commands) == 0)
		buf_put_z(b, "\n(no commands: git sees whether it may push)");
	for (size_t i = 0; i < json_count(commands); i++) {
		const struct json *c = json_at(commands, i);

		buf_put_z(b, "\nref: ");
		enc_percent(b, json_str(json_get(c, "ref")));
		buf_printf(b, "\n  old %.*s\n  new %.*s", STR_ARG(json_str(json_get(c, "old"))),
		    STR_ARG(json_str(json_get(c, "new"))));
	}
	for (size_t i = 0; i < json_count(options); i++) {
		buf_put_z(b, "\npush option: ");
		enc_percent(b, json_str(json_at(options, i)));
	}
}

static void
body_show(struct buf *b, const struct core_http *h)
{
	const struct hash *sha = &h->sha;
	uint64_t length = h->length;
	struct str bytes = h->bytes;
	char hex[HASH_HEX_SIZE];

	if (h->body == CORE_BODY_NONE)
		return;
	if (core_http_by_facts(h)) {
		push_show(b, json_get(json_root(h->facts->doc), "git"));
		return;
	}
	if (!h->have_sha) {
		buf_put_z(b, "\n\n(a body that has not been read)");
		return;
	}
	if (h->aws != NULL && h->aws->read) {
		bytes = buf_str(&h->aws->content);
		length = bytes.n;
		sha = &h->aws->content_sha;
	}
	hash_hex(sha, hex);
	buf_printf(b, "\n\nbody: %llu bytes, sha256 %s", (unsigned long long)length, hex);
	if (!h->in_hand || bytes.n > BODY_TEXT_MAX) {
		buf_printf(b, "\n(NOT SHOWN: over %zu bytes; who signs, signs what has that hash)",
		    BODY_TEXT_MAX);
		return;
	}
	if (!is_text(bytes)) {
		buf_put_z(b, "\n(not text: escaped)\n");
		enc_percent(b, bytes);
		return;
	}
	buf_put_z(b, "\n");
	buf_put_str(b, bytes);
	if (h->view.api == HTTP_API_GRAPHQL && memchr(h->bytes.p, '\\', h->bytes.n) != NULL)
		graphql_show(b, h->bytes);
}

char *
core_http_show(const struct core_http *h)
{
	AUTO_BUF struct buf b = BUF(SHOW_MAX);

	if (h->act == 0)
		buf_printf(&b, "CONNECT %s", h->connect);
	else if (h->req == NULL)
		buf_put_z(&b, "(a request that is not well-formed)");
	if (h->req == NULL)
		return buf_dup_z(&b);
	buf_printf(&b, "%.*s %s://%s%.*s", STR_ARG(h->req->method), scheme(h), h->from.address,
	    STR_ARG(buf_str(&h->target)));
	for (size_t i = 0; i < h->nfields; i++) {
		const struct http_field *f = &h->fields[i];

		buf_printf(&b, "\n%.*s: ", STR_ARG(f->name));
		if (core_token_field(f->name)) /* a cookie that the policy lets pass */
			buf_printf(&b, "(%zu bytes, masked)", f->value.n);
		else
			enc_percent(&b, f->value);
	}
	if (h->aws != NULL && h->aws->scope[0] != '\0')
		buf_printf(&b, "\n(the broker signs it for %s)", h->aws->scope);
	if (h->view.upgrade)
		buf_put_z(&b,
		    "\n\n(it asks to switch protocols: what passes then, in both directions, is "
		    "neither shown nor judged)");
	body_show(&b, h);
	return buf_dup_z(&b);
}

/* --- sealed into the log --------------------------------------------------------- */

int
core_http_head(const struct core_http *h, struct buf *frame, struct blob_ref *ret, struct err *err)
{
	const struct core_run *run = h->from.run;
	AUTO_BUF struct buf b = BUF(BLOB_PLAIN_MAX);

	core_http_mask(h, &b);
	if ((h->in_hand || h->start) && h->bytes.n <= BLOB_PLAIN_MAX - b.n)
		buf_put_str(&b, h->bytes);
	return blob_seal(
	    run->key, str_z(run->id), "application/http", buf_str(&b), frame, ret, err);
}

/* --- digest ---------------------------------------------------------------------- */

/* What clients make anew at each try (docs/format-approval.md); everything else is bound. */
static bool
changes(struct str name)
{
	static const char *const names[] = {"Date", "X-Request-Id", "Request-Id",
	    "X-Correlation-Id", "Traceparent", "Tracestate", "X-Amzn-Trace-Id", "X-B3-TraceId",
	    "X-B3-SpanId", "X-B3-ParentSpanId", "X-B3-Sampled", "X-B3-Flags", "Kubectl-Session",
	    HTTP_WEBSOCKET_KEY, "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (http_name_is(name, names[i]))
			return true;
	return false;
}

static char
lower(char c)
{
	if (c >= 'A' && c <= 'Z')
		c = (char)(c | 0x20);
	return c;
}

static bool
name_before(struct str a, struct str b)
{
	for (size_t i = 0; i < a.n && i < b.n; i++)
		if (lower(a.p[i]) != lower(b.p[i]))
			return lower(a.p[i]) < lower(b.p[i]);
	return a.n < b.n;
}

static void
field_digest(struct buf *b, const struct http_field *f)
{
	AUTO_BUF struct buf name = BUF(HTTP_HEAD_MAX);
	struct str boundary = STR_NONE, v = f->value;

	for (size_t i = 0; i < f->name.n; i++)
		buf_put_c(&name, lower(f->name.p[i]));
	if (str_eqz(buf_str(&name), "content-type"))
		boundary = core_http_boundary(v);
	buf_lstr(b, buf_str(&name));
	if (boundary.n != 0)
		v.n = (size_t)(boundary.p - v.p); /* and what stands behind it is bound too */
	buf_lstr(b, v);
	if (boundary.n != 0)
		buf_lstr(b, str_mem(boundary.p + boundary.n, f->value.n - v.n - boundary.n));
}

/* By name; fields of one name in their order. */
static void
fields_digest(const struct core_http *h, struct buf *b)
{
	bool done[HTTP_FIELDS_MAX + 1] = {false};

	for (;;) {
		size_t best = h->nfields;

		for (size_t i = 0; i < h->nfields; i++)
			if (!done[i] && !changes(h->fields[i].name) &&
			    (best == h->nfields ||
				name_before(h->fields[i].name, h->fields[best].name)))
				best = i;
		if (best == h->nfields)
			return;
		done[best] = true;
		field_digest(b, &h->fields[best]);
	}
}

/* Addresses and certificates change under way: what is pinned is what the policy says of them. */
static void
upstream_id(const struct core_http *h, struct buf *b)
{
	const struct policy_target *t = core_http_policy(h);
	struct hash ca;

	if (t == NULL)
		return;
	ca = hash_sha256(t->ca_pem);
	buf_put_str(b, t->address);
	buf_put_c(b, ' ');
	enc_hex(b, str_mem(ca.b, HASH_LEN));
	if (t->files.n != 0) {
		buf_put_z(b, " files:");
		buf_put_str(b, t->files);
	}
	if (h->aws != NULL) {
		buf_put_z(b, " aws:");
		buf_put_z(b, h->aws->scope);
	}
	if (t->via.n == 0)
		return;
	buf_put_c(b, ' ');
	buf_put_str(b, t->via);
	buf_put_c(b, ' ');
	buf_put_str(b, t->via_credential);
}

struct hash
core_http_digest(const struct core_http *h, struct digest_parts *parts)
{
	AUTO_BUF struct buf fields = BUF(4 * HTTP_HEAD_MAX);
	AUTO_BUF struct buf id = BUF(2048);
	AUTO_BUF struct buf body = BUF(FACTS_JSON_MAX + 64);
	AUTO_BUF struct buf effects = BUF(512);
	struct digest *d = digest_begin();

	fields_digest(h, &fields);
	upstream_id(h, &id);
	core_http_body_put(h, &body);
	effect_put(&effects, h->a != NULL ? h->a->effects : h->view.effects);
	buf_put_z(&effects, " " EFFECTS_ENGINE);
	digest_field(d, DIGEST_PROTOCOL, str_z(scheme(h)));
	digest_field(d, DIGEST_TARGET, str_z(core_from_target(&h->from)));
	digest_field(d, DIGEST_UPSTREAM, str_z(h->from.address));
	digest_field(d, DIGEST_UPSTREAM_ID, buf_str(&id));
	digest_field(d, DIGEST_CREDENTIAL, str_z(h->from.credential));
	digest_field(d, DIGEST_AGENT, str_z(h->from.run->agent));
	digest_field(d, DIGEST_RUN, str_z(h->from.run->id));
	digest_field(d, DIGEST_OPERATION,
	    h->req != NULL ? h->req->method : http_method_claim(buf_str(&h->head)));
	digest_field(d, DIGEST_RESOURCE, h->req != NULL ? buf_str(&h->target) : STR(""));
	digest_field(d, DIGEST_HEADERS, buf_str(&fields));
	digest_field(d, DIGEST_BODY, buf_str(&body));
	digest_field(d, DIGEST_EFFECTS, buf_str(&effects));
	return digest_end_parts(d, parts);
}
