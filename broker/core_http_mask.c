/*
 * Heads as the log keeps them (process: core). Even sealed they hold no credential: where one stood
 * there is its keyed fingerprint, so that two uses of one token can be told to be that. A head that
 * was not well-formed is masked by the same rules, line by line.
 */
#include "broker/core_http.h"

#include "broker/core_cred.h"
#include "broker/core_token.h"
#include "common/token.h"

#include "common/banned.h"

struct mask {
	const struct core *c;
	struct buf *out;
	const char *field, *parameter; /* where this target's own credential goes; NULL */
};

static void
masked(const struct mask *m, struct str secret)
{
	char fp[17];

	core_cred_fingerprint(m->c, secret, fp);
	buf_printf(m->out, "<masked %s>", fp);
}

static bool
is_placeholder(struct str s)
{
	struct str found;

	return core_token_placeholder(s, &found) && found.n == s.n;
}

/* A placeholder is no secret: it stays readable. */
static void
secret_put(const struct mask *m, struct str s)
{
	if (s.n == 0 || is_placeholder(s))
		buf_put_str(m->out, s);
	else
		masked(m, s);
}

static void
text_put(const struct mask *m, struct str s)
{
	struct str found;

	while (token_find(s, &found)) {
		size_t before = (size_t)(found.p - s.p);

		buf_put(m->out, s.p, before);
		masked(m, found);
		s = str_mem(found.p + found.n, s.n - before - found.n);
	}
	buf_put_str(m->out, s);
}

/* --- request line ---------------------------------------------------------------- */

static bool
is_secret_parameter(const struct mask *m, struct str name, struct str value)
{
	AUTO_BUF struct buf plain = BUF(HTTP_HEAD_MAX);
	struct str found;

	core_http_unescape(name, &plain);
	if (core_token_parameter(buf_str(&plain)) ||
	    (m->parameter != NULL &&
		core_token_alike(core_token_parameter_stem(buf_str(&plain)), m->parameter)))
		return true;
	buf_reset(&plain);
	core_http_unescape(value, &plain);
	return token_find(buf_str(&plain), &found);
}

static void
query_put(const struct mask *m, struct str query)
{
	struct str one, name;
	bool more = true;

	while (more) {
		more = str_cut(&query, '&', &one);
		if (!more)
			one = query;
		if (str_cut(&one, '=', &name)) {
			AUTO_BUF struct buf plain = BUF(HTTP_HEAD_MAX);

			text_put(m, name);
			buf_put_c(m->out, '=');
			core_http_unescape(one, &plain);
			if (is_secret_parameter(m, name, one))
				secret_put(m, buf_str(&plain));
			else
				buf_put_str(m->out, one);
		} else {
			text_put(m, one);
		}
		if (more)
			buf_put_c(m->out, '&');
	}
}

/* What is before '?': user information of an authority, and escapes that hide a token. */
static void
path_put(const struct mask *m, struct str path)
{
	AUTO_BUF struct buf plain = BUF(HTTP_HEAD_MAX);
	const char *slashes = path.n != 0 ? memmem(path.p, path.n, "//", 2) : NULL;
	const char *at =
	    slashes != NULL ? memrchr(slashes, '@', path.n - (size_t)(slashes - path.p)) : NULL;
	struct str found;

	if (at != NULL) {
		buf_put(m->out, path.p, (size_t)(slashes - path.p) + 2);
		masked(m, str_mem(slashes + 2, (size_t)(at - slashes) - 2));
		path = str_mem(at, path.n - (size_t)(at - path.p));
	}
	core_http_unescape(path, &plain);
	text_put(m, token_find(buf_str(&plain), &found) ? buf_str(&plain) : path);
}

static void
line_put(const struct mask *m, struct str line)
{
	struct str path;

	if (str_cut(&line, '?', &path)) {
		struct str version = STR("");
		const char *sp = memrchr(line.p, ' ', line.n);

		path_put(m, path);
		buf_put_c(m->out, '?');
		if (sp != NULL) {
			version = str_mem(sp, line.n - (size_t)(sp - line.p));
			line.n = (size_t)(sp - line.p);
		}
		query_put(m, line);
		text_put(m, version);
	} else {
		path_put(m, line);
	}
}

/* --- fields ---------------------------------------------------------------------- */

static bool
is_carrier(const struct mask *m, struct str name)
{
	return core_token_field(name) || http_name_is(name, "Proxy-Authorization") ||
	       (m->field != NULL && core_token_alike(name, m->field));
}

static void
carrier_put(const struct mask *m, struct str name, struct str value)
{
	AUTO_BUF struct buf plain = BUF(HTTP_HEAD_MAX);
	bool auth =
	    http_name_is(name, "Authorization") || http_name_is(name, "Proxy-Authorization");
	struct str scheme;

	if (auth && str_cut(&value, ' ', &scheme)) {
		text_put(m, scheme);
		buf_put_c(m->out, ' ');
		value = str_trim(value);
		if (http_name_is(scheme, "Basic"))
			value = core_http_basic_secret(value, &plain);
	}
	secret_put(m, value);
}

/* *carried: the field that a line without a name goes on with. */
static void
field_put(const struct mask *m, struct str line, bool *carried)
{
	struct str name, end = STR("");

	if (line.n != 0 && line.p[line.n - 1] == '\r') {
		line.n--;
		end = STR("\r");
	}
	if (line.n != 0 && (line.p[0] == ' ' || line.p[0] == '\t') && *carried) {
		secret_put(m, str_trim(line));
	} else if (str_cut(&line, ':', &name)) {
		*carried = is_carrier(m, str_trim(name));
		text_put(m, name);
		buf_put_z(m->out, ": ");
		if (*carried)
			carrier_put(m, str_trim(name), str_trim(line));
		else
			text_put(m, str_trim(line));
	} else {
		text_put(m, line);
	}
	buf_put_str(m->out, end);
}

void
core_http_mask(const struct core_http *h, struct buf *out)
{
	const struct policy_target *t = core_http_policy(h);
	const struct vault_entry *e = NULL;
	struct mask m = {.c = h->from.run->core, .out = out};
	struct str rest = buf_str(&h->head), line;
	bool first = true, carried = false, more = true;
	struct err err;

	if (t != NULL && t->credential.n != 0 && core_cred_find(m.c, t, &e, &err) == 0) {
		m.field = strcmp(e->kind, "header") == 0 ? e->field : NULL;
		m.parameter = strcmp(e->kind, "query") == 0 ? e->field : NULL;
	}
	while (more) {
		more = str_cut(&rest, '\n', &line);
		if (!more)
			line = rest;
		if (first)
			line_put(&m, line);
		else
			field_put(&m, line, &carried);
		if (more)
			buf_put_c(out, '\n');
		first = false;
	}
}

void
core_http_mask_target(const struct core_http *h, struct str target, struct buf *out)
{
	struct mask m = {.c = h->from.run->core, .out = out};

	line_put(&m, target);
}
