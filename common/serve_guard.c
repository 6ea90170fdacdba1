/*
 * Who may speak to a server of serve.h. Runs in programs that a person starts. Of tokens only
 * hashes are held, and compared; a request that a web page can have sent is refused before anything
 * of it is looked at.
 */
#include "common/serve_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/hash.h"
#include "common/serve_int.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define FILE_MAX ((size_t)256 << 10)

struct token {
	char *name;
	struct hash hash;
};

struct serve_tokens {
	size_t n;
	struct token list[SERVE_TOKENS_MAX];
};

void
serve_tokens_free(struct serve_tokens *t)
{
	if (t == NULL)
		return;
	for (size_t i = 0; i < t->n; i++)
		free(t->list[i].name);
	free(t);
}

/* --- the file ------------------------------------------------------------------------- */

static int
file_read(const char *path, struct buf *out, struct err *err)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", path);
	if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0))
		return err_set(
		    err, ERR_CONFIG, "%s: must be a file of this user's or root's", path);
	if ((st.st_mode & 077) != 0)
		return err_set(err, ERR_CONFIG,
		    "%s: mode %04o lets others read the tokens (chmod 600 %s)", path,
		    (unsigned)(st.st_mode & 07777), path);
	do {
		uint8_t *p = buf_grow(out, 4096);

		if (p == NULL)
			return err_set(err, ERR_CONFIG, "%s: over %zu bytes", path, FILE_MAX);
		n = read(fd, p, 4096);
		out->n -= 4096 - (n > 0 ? (size_t)n : 0);
	} while (n > 0);
	return n == 0 ? 0 : err_sys(err, ERR_CONFIG, errno, "%s", path);
}

static bool
name_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9') ||
			s.p[i] == '.' || s.p[i] == '_' || s.p[i] == '-'))
			return false;
	return s.n >= 1 && s.n <= SERVE_NAME_MAX;
}

static bool
token_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] >= 0x7f)
			return false;
	return s.n >= SERVE_TOKEN_MIN && s.n <= SERVE_TOKEN_MAX;
}

static int
line_take(struct serve_tokens *t, struct str line, const char *where, struct err *err)
{
	struct str name, token = str_trim(line);
	struct hash hash;

	if (token.n == 0 || token.p[0] == '#')
		return 0;
	if (!str_cut(&token, ' ', &name) || !name_ok(name) || !token_ok(str_trim(token)))
		return err_set(err, ERR_CONFIG,
		    "%s: a line is NAME TOKEN: 1 to %d of [a-z0-9._-], and %d to %d printable "
		    "characters",
		    where, SERVE_NAME_MAX, SERVE_TOKEN_MIN, SERVE_TOKEN_MAX);
	hash = hash_sha256(str_trim(token));
	for (size_t i = 0; i < t->n; i++)
		if (str_eqz(name, t->list[i].name) || hash_eq(&hash, &t->list[i].hash))
			return err_set(
			    err, ERR_CONFIG, "%s: that name or token stands there twice", where);
	if (t->n == SERVE_TOKENS_MAX)
		return err_set(err, ERR_CONFIG, "%s: more than %d tokens", where, SERVE_TOKENS_MAX);
	t->list[t->n++] = (struct token){str_dup(name), hash};
	return 0;
}

int
serve_tokens_load(const char *path, struct serve_tokens **ret, struct err *err)
{
	AUTO(serve_tokens) struct serve_tokens *t = xcalloc(1, sizeof(*t));
	AUTO_BUF struct buf text = BUF(FILE_MAX);
	struct str rest, line;
	int rc = file_read(path, &text, err);

	rest = buf_str(&text);
	for (unsigned n = 1; rc == 0 && rest.n != 0; n++) {
		AUTO_FREE char *where = xasprintf("%s:%u", path, n);

		if (!str_cut(&rest, '\n', &line)) {
			line = rest;
			rest = STR("");
		}
		rc = line_take(t, line, where, err);
	}
	if (rc == 0 && t->n == 0)
		rc = err_set(err, ERR_CONFIG, "%s: no token stands there", path);
	if (rc == 0)
		*ret = TAKE_PTR(t);
	return rc;
}

const char *
serve_tokens_who(const struct serve_tokens *t, struct str token)
{
	struct hash hash = hash_sha256(token);
	const char *who = NULL;

	for (size_t i = 0; i < t->n; i++)
		if (hash_eq(&hash, &t->list[i].hash))
			who = t->list[i].name;
	return who;
}

struct str
serve_bearer(const struct serve_conn *c)
{
	struct str v = serve_field_get(c, "Authorization"), scheme;

	if (!str_cut(&v, ' ', &scheme) || !str_ieqz(scheme, "Bearer"))
		return STR("");
	return str_trim(v);
}

/* --- web pages ------------------------------------------------------------------------ */

static bool
listed(const char *const *list, struct str s)
{
	for (; list != NULL && *list != NULL; list++)
		if (str_ieqz(s, *list))
			return true;
	return false;
}

static bool
host_is_ours(const struct serve_conn *c, struct str host)
{
	return str_eqz(host, c->local) || (c->loopback && str_eqz(host, "localhost"));
}

/* "http://127.0.0.1:8931", and with TLS "https:". */
static bool
origin_is_ours(const struct serve_conn *c, struct str origin)
{
	char host[HTTP_HOST_SIZE];
	struct str scheme = c->io.ssl != NULL ? STR("https://") : STR("http://");
	uint16_t port = 0;

	if (!c->loopback || origin.n < scheme.n || memcmp(origin.p, scheme.p, scheme.n) != 0 ||
	    http_authority_parse(
		str_mem(origin.p + scheme.n, origin.n - scheme.n), host, &port, NULL) != 0)
		return false;
	return port == c->port && host_is_ours(c, str_z(host));
}

unsigned
serve_guard_check(const struct serve_guard *g, const struct serve_conn *c, struct err *err)
{
	struct str origin = serve_field_get(c, "Origin"), host = str_z(c->rq.host);

	if (!host_is_ours(c, host) && !listed(g->hosts, host)) {
		(void)err_set(err, ERR_DENIED, "Host %s is not this server's name: %s%s",
		    c->rq.host[0] != '\0' ? c->rq.host : "(none)",
		    c->loopback ? "localhost or " : "", c->local);
		return 421;
	}
	if (http_field_find(c->rq.fields, c->rq.nfields, "Origin") != NULL &&
	    !origin_is_ours(c, origin) && !listed(g->origins, origin)) {
		(void)err_set(
		    err, ERR_DENIED, "Origin %.*s may not ask this server", STR_ARG(origin));
		return 403;
	}
	return 0;
}
