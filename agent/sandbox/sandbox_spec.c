/*
 * What a sandbox is asked to be: checked here in the caller's process, and once more by the
 * supervisor, which trusts only the sizes and the form. A path, an address or a limit that is
 * not exactly understood is refused: the words may come from a configuration or a person,
 * never from the model, but a mistake must not widen the sandbox.
 */
#include "agent/sandbox/sandbox.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>

#include "agent/sandbox/call.h"

#include "common/banned.h"

static const struct limit_row {
	const char *name;
	size_t at;
	uint32_t def, min, max;
} limit_rows[] = {
    {"wall", offsetof(struct sandbox_limits, wall_s), 3600, 1, 86400},
    {"cpu", offsetof(struct sandbox_limits, cpu_percent), 200, 1, 6400},
    {"memory", offsetof(struct sandbox_limits, memory_mib), 1024, 16, 1 << 20},
    {"pids", offsetof(struct sandbox_limits, pids), 256, 4, 32768},
    {"output", offsetof(struct sandbox_limits, output_mib), 64, 1, 4096},
    {"workspace", offsetof(struct sandbox_limits, workspace_mib), 512, 1, 1 << 20},
    {"open files", offsetof(struct sandbox_limits, open_files), 8192, 16, 1 << 20},
    {"linger", offsetof(struct sandbox_limits, linger_s), 600, 1, 86400},
};

static uint32_t *
limit_at(struct sandbox_limits *l, const struct limit_row *r)
{
	return (uint32_t *)(void *)((char *)l + r->at);
}

struct sandbox_limits
sandbox_limits_default(void)
{
	struct sandbox_limits l = {0};

	for (size_t i = 0; i < ARRAY_LEN(limit_rows); i++)
		*limit_at(&l, &limit_rows[i]) = limit_rows[i].def;
	return l;
}

static int
limits_check(struct sandbox_limits l, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(limit_rows); i++) {
		const struct limit_row *r = &limit_rows[i];
		uint32_t v = *limit_at(&l, r);

		if (v != 0 && (v < r->min || v > r->max))
			return err_set(err, ERR_INVALID,
			    "sandbox: limit %s must be from %u to %u, is %u", r->name, r->min,
			    r->max, v);
	}
	return 0;
}

/* Absolute, no empty, "." or ".." component, no trailing slash, printable. */
static bool
path_is_plain(const char *p)
{
	struct str rest = str_z(p), part;

	if (rest.n < 2 || rest.n >= PATH_MAX || rest.p[0] != '/' || rest.p[rest.n - 1] == '/')
		return false;
	for (size_t i = 0; i < rest.n; i++)
		if ((unsigned char)rest.p[i] < 0x20 || rest.p[i] == 0x7f)
			return false;
	rest.p++;
	rest.n--;
	while (str_cut(&rest, '/', &part))
		if (part.n == 0 || str_eqz(part, ".") || str_eqz(part, ".."))
			return false;
	return rest.n != 0 && !str_eqz(rest, ".") && !str_eqz(rest, "..");
}

/* Where the sandbox puts its own things; a bind there could undo them. */
static bool
inside_is_taken(const char *p)
{
	static const char *const own[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64",
	    "/libx32", "/etc", "/dev", "/proc", "/sys", "/tmp", "/work", "/var", "/run"};
	size_t n = strlen(p);

	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		size_t k = strlen(own[i]);

		if (n >= k && memcmp(p, own[i], k) == 0 && (p[k] == '\0' || p[k] == '/'))
			return true;
	}
	return false;
}

static int
binds_check(const struct sandbox_spec *s, struct err *err)
{
	if (s->nbinds > SANDBOX_BINDS_MAX)
		return err_set(err, ERR_TOO_LARGE, "sandbox: %zu binds, limit %d", s->nbinds,
		    SANDBOX_BINDS_MAX);
	for (size_t i = 0; i < s->nbinds; i++) {
		const struct sandbox_bind *b = &s->binds[i];

		if (!path_is_plain(b->host_path))
			return err_set(err, ERR_INVALID,
			    "sandbox: bind source \"%s\" is not a plain absolute path",
			    b->host_path);
		if (!path_is_plain(b->inside) || inside_is_taken(b->inside))
			return err_set(err, ERR_INVALID,
			    "sandbox: bind destination \"%s\" must be a plain absolute path "
			    "outside "
			    "the sandbox's own directories (use /opt, /srv, /mnt or /home)",
			    b->inside);
		for (size_t j = 0; j < i; j++)
			if (strcmp(s->binds[j].inside, b->inside) == 0)
				return err_set(err, ERR_INVALID,
				    "sandbox: bind destination \"%s\" is given twice", b->inside);
	}
	return 0;
}

/* Letters, digits, '-', '_' and '.': what may stand in a hosts file without a second meaning. */
static bool
host_is_plain(const char *h)
{
	size_t n = strlen(h);

	if (n == 0 || n > 253 || h[0] == '.' || h[0] == '-' || h[n - 1] == '.')
		return false;
	for (size_t i = 0; i < n; i++)
		if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.",
			h[i]) == NULL)
			return false;
	return true;
}

static int
targets_check(const struct sandbox_spec *s, struct err *err)
{
	if (s->ntargets > SANDBOX_TARGETS_MAX)
		return err_set(err, ERR_TOO_LARGE, "sandbox: %zu targets, limit %d", s->ntargets,
		    SANDBOX_TARGETS_MAX);
	for (size_t i = 0; i < s->ntargets; i++) {
		const struct sandbox_target *t = &s->targets[i];
		struct in_addr a;

		if ((t->host[0] != '\0' && !host_is_plain(t->host)) ||
		    strcmp(t->host, "localhost") == 0)
			return err_set(err, ERR_INVALID,
			    "sandbox: target host \"%s\" is not a host name", t->host);
		if (inet_pton(AF_INET, t->address, &a) != 1 || ntohl(a.s_addr) >> 24 != 127 ||
		    (ntohl(a.s_addr) & 0xffffff) < 2)
			return err_set(err, ERR_INVALID,
			    "sandbox: address \"%s\" of target %s must be in 127.0.0.0/8 above "
			    "127.0.0.1",
			    t->address, t->host);
		if (t->port == 0)
			return err_set(err, ERR_INVALID, "sandbox: target %s: port 0", t->host);
		for (size_t j = 0; j < i; j++)
			if (strcmp(s->targets[j].address, t->address) == 0 &&
			    s->targets[j].port == t->port)
				return err_set(err, ERR_INVALID,
				    "sandbox: targets %s and %s share %s:%u", s->targets[j].host,
				    t->host, t->address, (unsigned)t->port);
	}
	return 0;
}

static int
env_check(const struct sandbox_spec *s, struct err *err)
{
	size_t n = 0;

	for (; s->env != NULL && s->env[n] != NULL; n++) {
		const char *e = s->env[n], *eq = strchr(e, '=');

		if (n >= SANDBOX_ENV_MAX)
			return err_set(
			    err, ERR_TOO_LARGE, "sandbox: more than %d variables", SANDBOX_ENV_MAX);
		if (eq == NULL || eq == e || strlen(e) > 65536)
			return err_set(err, ERR_INVALID,
			    "sandbox: variable %zu is not NAME=value of at most 65536 bytes",
			    n + 1);
		for (const char *q = e; q < eq; q++)
			if (strchr(
				"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_",
				*q) == NULL)
				return err_set(err, ERR_INVALID,
				    "sandbox: variable name \"%.*s\" has other than letters, "
				    "digits "
				    "and _",
				    (int)(eq - e), e);
	}
	return 0;
}

static int
workspace_check(const struct sandbox_spec *s, struct err *err)
{
	static const char *const never[] = {"/bin", "/boot", "/dev", "/etc", "/home", "/lib",
	    "/proc", "/root", "/run", "/sbin", "/sys", "/tmp", "/usr", "/var", "/var/tmp",
	    "/var/lib"};

	static const char *const kernel[] = {"/dev/", "/proc/", "/sys/"};

	if (s->workspace == NULL)
		return 0;
	if (!path_is_plain(s->workspace))
		return err_set(err, ERR_INVALID,
		    "sandbox: workspace \"%s\" is not a plain absolute path", s->workspace);
	for (size_t i = 0; i < ARRAY_LEN(kernel); i++)
		if (strncmp(s->workspace, kernel[i], strlen(kernel[i])) == 0)
			return err_set(err, ERR_INVALID,
			    "sandbox: workspace \"%s\" is the kernel's own: make a directory for "
			    "it",
			    s->workspace);
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (strcmp(s->workspace, never[i]) == 0)
			return err_set(err, ERR_INVALID,
			    "sandbox: workspace \"%s\" is a directory of the system: make one of "
			    "its own",
			    s->workspace);
	return 0;
}

/* The hash becomes a file's name. */
static int
trust_check(const struct sandbox_spec *s, struct err *err)
{
	struct str ca = str_z(s->ca_pem), roots = str_z(s->roots_pem), hash = str_z(s->ca_hash);

	if (ca.n > SANDBOX_TRUST_MAX || roots.n > SANDBOX_TRUST_MAX ||
	    s->keystore.n > SANDBOX_TRUST_MAX)
		return err_set(err, ERR_TOO_LARGE,
		    "sandbox: certificates of %zu, %zu and %zu bytes, limit %zu each", ca.n,
		    roots.n, s->keystore.n, SANDBOX_TRUST_MAX);
	if (s->ca_hash != NULL && (hash.n != 8 || strspn(s->ca_hash, "0123456789abcdef") != 8))
		return err_set(err, ERR_INVALID,
		    "sandbox: CA hash \"%s\" must be 8 hexadecimal digits", s->ca_hash);
	return 0;
}

static bool
made_of(const char *p, const char *chars, size_t max)
{
	size_t n = strspn(p, chars);

	return n != 0 && n <= max && p[n] == '\0';
}

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"

/* The name becomes a file's. */
static int
name_check(const struct sandbox_spec *s, struct err *err)
{
	if (s->name == NULL || (s->name[0] != '-' && made_of(s->name, LOWER "-", SANDBOX_NAME_MAX)))
		return 0;
	return err_set(err, ERR_INVALID,
	    "sandbox: name \"%s\" must be of 1 to %d small letters, digits and -, and not begin "
	    "with -",
	    s->name, SANDBOX_NAME_MAX);
}

static int
label_check(const char *l, struct err *err)
{
	struct str value = str_z(l), key;
	AUTO_FREE char *k = NULL;
	bool plain = str_is_utf8(value) && str_cut(&value, '=', &key) && value.n <= 256;

	for (size_t i = 0; i < value.n; i++)
		plain = plain && (unsigned char)value.p[i] >= 0x20 && value.p[i] != 0x7f;
	k = plain ? str_dup(key) : NULL;
	if (plain && made_of(k, LOWER "._-/", 64))
		return 0;
	return err_set(err, ERR_INVALID,
	    "sandbox: label \"%.100s\" must be key=value: a key of 1 to 64 small letters, digits "
	    "and "
	    "._-/, a value of at most 256 bytes of text in one line",
	    l);
}

static int
labels_check(const struct sandbox_spec *s, struct err *err)
{
	for (size_t i = 0; s->labels != NULL && s->labels[i] != NULL; i++) {
		int rc = label_check(s->labels[i], err);

		if (rc != 0)
			return rc;
		if (i >= SANDBOX_LABELS_MAX)
			return err_set(
			    err, ERR_TOO_LARGE, "sandbox: more than %d labels", SANDBOX_LABELS_MAX);
	}
	return 0;
}

static int
backend_check(const struct sandbox_spec *s, struct err *err)
{
	static const char *const known[] = {"native", "crun", "runc", "runsc"};
	const unsigned layers = SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_LANDLOCK |
				SANDBOX_LAYER_FREEZER | SANDBOX_LAYER_NOTIFY;
	bool found = s->backend == NULL;

	for (size_t i = 0; !found && i < ARRAY_LEN(known); i++)
		found = strcmp(s->backend, known[i]) == 0;
	if (!found)
		return err_set(err, ERR_INVALID,
		    "sandbox: there is no back end \"%s\" (native, crun, runc, runsc)", s->backend);
	if ((s->may_lack & ~layers) != 0)
		return err_set(err, ERR_INVALID, "sandbox: layers 0x%x are not known, 0x%x are",
		    s->may_lack, layers);
	if (s->image != NULL && !path_is_plain(s->image))
		return err_set(err, ERR_INVALID,
		    "sandbox: image \"%s\" is not a plain absolute path", s->image);
	if (s->overlay && s->workspace == NULL)
		return err_set(
		    err, ERR_INVALID, "sandbox: an overlay needs a workspace to lie over");
	return 0;
}

int
sandbox_spec_check(const struct sandbox_spec *s, struct err *err)
{
	static int (*const checks[])(const struct sandbox_spec *, struct err *) = {name_check,
	    backend_check, labels_check, workspace_check, binds_check, targets_check, env_check,
	    trust_check};
	int rc = limits_check(s->limits, err);

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(checks); i++)
		rc = checks[i](s, err);
	return rc;
}

static void
list_encode(const char *const *list, struct buf *out)
{
	uint32_t n = 0;

	while (list != NULL && list[n] != NULL)
		n++;
	buf_u32(out, n);
	for (uint32_t i = 0; i < n; i++)
		buf_lz(out, list[i]);
}

/*
 * u8 CALL_VERSION, u8 (1 overlay, 2 tied, 4 home), u32 layers that it may lack, u32 each limit in
 * the order of limit_rows, str back end, str name, str image, str workspace, str CA, str CA hash,
 * str roots, str keystore, list(str label), list(str host path, str inside), list(str host, str
 * address, u16 port), list(str NAME=value): the environment, empty unless named. An empty str is
 * NULL.
 */
void
sandbox_spec_encode(const struct sandbox_spec *s, struct buf *out)
{
	struct sandbox_limits l = s->limits;
	const char *const text[] = {
	    s->backend, s->name, s->image, s->workspace, s->ca_pem, s->ca_hash, s->roots_pem};

	buf_u8(out, CALL_VERSION);
	buf_u8(out, (uint8_t)((s->overlay ? 1u : 0u) | (s->tied ? 2u : 0u) | (s->home ? 4u : 0u)));
	buf_u32(out, s->may_lack);
	for (size_t i = 0; i < ARRAY_LEN(limit_rows); i++) {
		uint32_t v = *limit_at(&l, &limit_rows[i]);

		buf_u32(out, v != 0 ? v : limit_rows[i].def);
	}
	for (size_t i = 0; i < ARRAY_LEN(text); i++)
		buf_lz(out, text[i]);
	buf_lstr(out, s->keystore);
	list_encode(s->labels, out);
	buf_u32(out, (uint32_t)s->nbinds);
	for (size_t i = 0; i < s->nbinds; i++) {
		buf_lz(out, s->binds[i].host_path);
		buf_lz(out, s->binds[i].inside);
	}
	buf_u32(out, (uint32_t)s->ntargets);
	for (size_t i = 0; i < s->ntargets; i++) {
		buf_lz(out, s->targets[i].host);
		buf_lz(out, s->targets[i].address);
		buf_u16(out, s->targets[i].port);
	}
	list_encode(s->name != NULL ? s->env : NULL, out);
}

const char *
sandbox_interpreter(const char *language, const char **ret_ext)
{
	static const struct {
		const char *name, *ext, *program;
	} rows[] = {
	    {"bash", "sh", "/bin/bash"},
	    {"sh", "sh", "/bin/sh"},
	    {"shell", "sh", "/bin/bash"},
	    {"python", "py", "/usr/bin/python3"},
	    {"python3", "py", "/usr/bin/python3"},
	    {"javascript", "js", "/usr/bin/node"},
	    {"node", "js", "/usr/bin/node"},
	    {"perl", "pl", "/usr/bin/perl"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(rows[i].name, language) != 0)
			continue;
		if (ret_ext != NULL)
			*ret_ext = rows[i].ext;
		return rows[i].program;
	}
	return NULL;
}

/*
 * u8 flags (1 merge, 2 background, 4 stdin, 8 tty, 16 helper, 32 tied), u32 timeout ms (0 none),
 * u16 rows, u16 cols, str cwd, str extension ("" no code), str code, list(str argument), list(str
 * NAME=value)
 */
void
sandbox_exec_encode(const struct sandbox_exec *x, const char *const *env, struct buf *out)
{
	const char *ext = "", *one[2] = {NULL, NULL};
	unsigned flags = x->merge || x->tty ? 1 : 0;

	flags |= x->background ? 2 : 0;
	flags |= x->pipe_stdin ? 4 : 0;
	flags |= x->tty ? 8 : 0;
	flags |= x->helper ? 16 : 0;
	flags |= x->tied ? 32 : 0;
	if (x->language != NULL)
		one[0] = sandbox_interpreter(x->language, &ext);
	buf_u8(out, (uint8_t)flags);
	buf_u32(out, x->timeout_s > 86400 ? 86400000u : x->timeout_s * 1000u);
	buf_u16(out, x->rows);
	buf_u16(out, x->cols);
	buf_lz(out, x->cwd != NULL ? x->cwd : "/work");
	buf_lz(out, ext);
	buf_lstr(out, x->language != NULL ? x->code : STR_NONE);
	list_encode(one[0] != NULL ? one : (const char *const *)x->argv, out);
	list_encode(env, out);
}
