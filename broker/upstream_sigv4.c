/*
 * AWS Signature Version 4. Runs in upstream. What is signed here is what goes out, byte by byte: a
 * path or a query that is made canonical in another way than the server does it is refused there,
 * by an error that nobody understands.
 */
#include "broker/upstream_sigv4.h"

#include "common/ossl.h"
#include <openssl/hmac.h>
#include <stdlib.h>
#include <time.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define ALGORITHM "AWS4-HMAC-SHA256"

/* --- scope and key --------------------------------------------------------------- */

int
sigv4_scope(
    int64_t unix_s, struct str region, struct str service, struct sigv4_scope *ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(SIGV4_SCOPE_MAX);
	time_t t = (time_t)unix_s;
	struct tm tm;

	if (gmtime_r(&t, &tm) == NULL || tm.tm_year < 70 || tm.tm_year > 8099 ||
	    strftime(ret->date, sizeof(ret->date), "%Y%m%dT%H%M%SZ", &tm) != SIGV4_DATE_SIZE - 1)
		return err_set(err, ERR_INVALID, "the clock says %lld s", (long long)unix_s);
	buf_put(&b, ret->date, 8);
	buf_printf(&b, "/%.*s/%.*s/aws4_request", STR_ARG(region), STR_ARG(service));
	buf_put_c(&b, '\0');
	if (buf_over(&b))
		return err_set(err, ERR_TOO_LARGE, "region and service have %zu bytes together",
		    region.n + service.n);
	memcpy(ret->text, b.p, b.n);
	return 0;
}

static void
hmac(struct str key, struct str text, uint8_t ret[static HASH_LEN])
{
	unsigned n = 0;

	if (HMAC(EVP_sha256(), key.n != 0 ? key.p : "", (int)key.n,
		(const uint8_t *)(text.n != 0 ? text.p : ""), text.n, ret, &n) == NULL ||
	    n != HASH_LEN)
		fatal("HMAC-SHA256 is not to be had");
}

void
sigv4_key(const struct sigv4_scope *scope, struct str secret, uint8_t ret[static SIGV4_KEY_LEN])
{
	AUTO_BUF struct buf first = BUF(secret.n + 4);
	struct str rest = str_z(scope->text), part;
	bool more = true;

	buf_put_z(&first, "AWS4");
	buf_put_str(&first, secret);
	for (struct str key = buf_str(&first); more; key = str_mem(ret, SIGV4_KEY_LEN)) {
		uint8_t next[HASH_LEN];

		more = str_cut(&rest, '/', &part);
		hmac(key, more ? part : rest, next);
		memcpy(ret, next, sizeof(next));
		explicit_bzero(next, sizeof(next));
	}
}

/* --- escapes --------------------------------------------------------------------- */

/* UriEncode() of the reference: all but unreserved characters (RFC 3986), and '/' if it may. */
static void
put_escaped(struct buf *out, uint8_t c, bool slash)
{
	uint8_t letter = c | 0x20;

	if ((c >= '0' && c <= '9') || (letter >= 'a' && letter <= 'z') || c == '-' || c == '.' ||
	    c == '_' || c == '~' || (slash && c == '/'))
		buf_put_c(out, (char)c);
	else
		buf_printf(out, "%%%02X", c);
}

/* What it says, escaped in the one way: "%7e" is '~', and '=' is "%3D". */
static void
put_again(struct buf *out, struct str s, bool slash)
{
	AUTO_BUF struct buf plain = BUF(s.n);

	enc_unpercent(&plain, s);
	for (size_t i = 0; i < plain.n; i++)
		put_escaped(out, plain.p[i], slash);
}

/* --- path ------------------------------------------------------------------------ */

/* RFC 3986 section 5.2.4, and without empty segments; every segment is escaped once more. */
static void
put_path_twice(struct buf *out, struct str path)
{
	struct str *segment = xcalloc(path.n + 1, sizeof(*segment)), one;
	bool more = true, dir = path.n != 0 && path.p[path.n - 1] == '/';
	size_t n = 0;

	while (more) {
		more = str_cut(&path, '/', &one);
		if (!more)
			one = path;
		if (str_eqz(one, ".."))
			n -= n != 0;
		else if (one.n != 0 && !str_eqz(one, "."))
			segment[n++] = one;
	}
	for (size_t i = 0; i < n; i++) {
		buf_put_c(out, '/');
		for (size_t k = 0; k < segment[i].n; k++)
			put_escaped(out, (uint8_t)segment[i].p[k], false);
	}
	if (n == 0 || dir)
		buf_put_c(out, '/');
	free(segment);
}

/* --- query ----------------------------------------------------------------------- */

struct pair {
	size_t at, name, value; /* in one buffer: name, then value, both escaped */
	const struct buf *in;
};

static int
pair_cmp(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	int rc = str_cmp(str_mem(x->in->p + x->at, x->name), str_mem(y->in->p + y->at, y->name));

	return rc != 0 ? rc
		       : str_cmp(str_mem(x->in->p + x->at + x->name, x->value),
			     str_mem(y->in->p + y->at + y->name, y->value));
}

/* By name, then by value, once they are escaped; "acl" is "acl=". */
static void
put_query(struct buf *out, struct str query)
{
	AUTO_BUF struct buf all = BUF(3 * query.n + 1);
	struct pair *pair = xcalloc(query.n + 1, sizeof(*pair));
	struct str one, name;
	bool more = query.n != 0;
	size_t n = 0;

	while (more) {
		struct pair *p = &pair[n];

		more = str_cut(&query, '&', &one);
		if (!more)
			one = query;
		if (one.n == 0)
			continue;
		if (!str_cut(&one, '=', &name)) {
			name = one;
			one = STR("");
		}
		*p = (struct pair){.at = all.n, .in = &all};
		put_again(&all, name, false);
		p->name = all.n - p->at;
		put_again(&all, one, false);
		p->value = all.n - p->at - p->name;
		n++;
	}
	qsort(pair, n, sizeof(*pair), pair_cmp);
	for (size_t i = 0; i < n; i++) {
		if (i != 0)
			buf_put_c(out, '&');
		buf_put(out, all.p + pair[i].at, pair[i].name);
		buf_put_c(out, '=');
		buf_put(out, all.p + pair[i].at + pair[i].name, pair[i].value);
	}
	free(pair);
}

/* --- fields ---------------------------------------------------------------------- */

static bool
is_signed(struct str name)
{
	return http_name_is(name, "Content-Type") || http_name_is(name, "Content-MD5") ||
	       (name.n > 6 && http_name_is(str_mem(name.p, 6), "X-Amz-"));
}

static char
lower(char c)
{
	if (c >= 'A' && c <= 'Z')
		c = (char)(c | 0x20);
	return c;
}

static int
name_cmp(struct str a, struct str b)
{
	for (size_t i = 0; i < a.n && i < b.n; i++)
		if (lower(a.p[i]) != lower(b.p[i]))
			return lower(a.p[i]) < lower(b.p[i]) ? -1 : 1;
	return a.n < b.n ? -1 : a.n > b.n;
}

/* Runs of white space inside are one blank. */
static void
put_value(struct buf *out, struct str v)
{
	bool blank = false;

	v = str_trim(v);
	for (size_t i = 0; i < v.n; i++) {
		bool is = v.p[i] == ' ' || v.p[i] == '\t';

		if (!is && blank)
			buf_put_c(out, ' ');
		if (!is)
			buf_put_c(out, v.p[i]);
		blank = is;
	}
}

/* A field again under its name's first place is a value behind a comma. */
static void
put_field(const struct sigv4_request *r, struct str name, struct buf *out, struct buf *names)
{
	bool first = true;

	if (names->n != 0)
		buf_put_c(names, ';');
	for (size_t i = 0; i < name.n; i++) {
		buf_put_c(names, lower(name.p[i]));
		buf_put_c(out, lower(name.p[i]));
	}
	buf_put_c(out, ':');
	if (http_name_is(name, "Host"))
		put_value(out, r->host);
	for (size_t i = 0; i < r->nfields; i++) {
		if (name_cmp(r->fields[i].name, name) != 0 || http_name_is(name, "Host"))
			continue;
		if (!first)
			buf_put_c(out, ',');
		put_value(out, r->fields[i].value);
		first = false;
	}
	buf_put_c(out, '\n');
}

/* The next name in order behind `last`; empty: there is none. */
static struct str
next_name(const struct sigv4_request *r, struct str last)
{
	struct str best = name_cmp(STR("host"), last) > 0 ? STR("host") : STR("");

	for (size_t i = 0; i < r->nfields; i++) {
		struct str name = r->fields[i].name;

		if (is_signed(name) && name_cmp(name, last) > 0 &&
		    (best.n == 0 || name_cmp(name, best) < 0))
			best = name;
	}
	return best;
}

/* --- the whole ------------------------------------------------------------------- */

void
sigv4_canonical(const struct sigv4_request *r, struct buf *out, struct buf *names)
{
	struct str query = r->target, path, name = STR("");

	if (!str_cut(&query, '?', &path)) {
		path = r->target;
		query = STR("");
	}
	buf_put_str(out, r->method);
	buf_put_c(out, '\n');
	if (r->s3)
		put_again(out, path, true);
	else
		put_path_twice(out, path);
	buf_put_c(out, '\n');
	put_query(out, query);
	buf_put_c(out, '\n');
	while ((name = next_name(r, name)).n != 0)
		put_field(r, name, out, names);
	buf_put_c(out, '\n');
	buf_put_str(out, buf_str(names));
	buf_put_c(out, '\n');
	buf_put_str(out, r->payload);
}

static void
sign(
    const uint8_t key[static SIGV4_KEY_LEN], const struct buf *text, char ret[static HASH_HEX_SIZE])
{
	struct hash mac;

	if (buf_over(text))
		fatal("what is to be signed does not fit its buffer");
	hmac(str_mem(key, SIGV4_KEY_LEN), buf_str(text), mac.b);
	hash_hex(&mac, ret);
}

void
sigv4_sign(const struct sigv4_scope *scope, const uint8_t key[static SIGV4_KEY_LEN],
    struct str canonical, char ret[static HASH_HEX_SIZE])
{
	AUTO_BUF struct buf text = BUF(1024);
	struct hash h = hash_sha256(canonical);
	char hex[HASH_HEX_SIZE];

	hash_hex(&h, hex);
	buf_printf(&text, ALGORITHM "\n%s\n%s\n%s", scope->date, scope->text, hex);
	sign(key, &text, ret);
}

void
sigv4_sign_chunk(const struct sigv4_scope *scope, const uint8_t key[static SIGV4_KEY_LEN],
    const struct hash *content, char signature[static HASH_HEX_SIZE])
{
	AUTO_BUF struct buf text = BUF(1024);
	struct hash none = hash_sha256(STR(""));
	char empty[HASH_HEX_SIZE], hex[HASH_HEX_SIZE];

	hash_hex(&none, empty);
	hash_hex(content, hex);
	buf_printf(&text, ALGORITHM "-PAYLOAD\n%s\n%s\n%s\n%s\n%s", scope->date, scope->text,
	    signature, empty, hex);
	sign(key, &text, signature);
}

void
sigv4_authorization(const struct sigv4_scope *scope, struct str id, struct str names,
    const char *signature, struct buf *out)
{
	buf_printf(out, ALGORITHM " Credential=%.*s/%s, SignedHeaders=%.*s, Signature=%s",
	    STR_ARG(id), scope->text, STR_ARG(names), signature);
}
