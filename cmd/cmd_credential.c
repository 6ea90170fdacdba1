/*
 * `cofferdam credential`: the vault file under its key file. Runs as the operator. A secret
 * never comes from an argument and is never printed.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "cmd/cmd.h"
#include "cmd/cmd_credential.h"
#include "cmd/cmd_file.h"
#include "common/clock.h"

#include "common/banned.h"

static int
cred_usage(void)
{
	(void)fprintf(stderr,
	    "usage: cofferdam credential add NAME --kind KIND --url https://HOST[:PORT]\n"
	    "           [--user USER] [--field FIELD] [--fd N | --command CMD]\n"
	    "       cofferdam credential add NAME --target-host HOST --port N --user USER\n"
	    "           [--fd N | --command CMD]   (kind postgresql-password)\n"
	    "       cofferdam credential list\n"
	    "       cofferdam credential rotate NAME [--fd N | --command CMD]\n"
	    "       cofferdam credential test NAME [--run [--path PATH]]\n"
	    "       cofferdam credential remove NAME\n"
	    "Each takes --state DIR. The secret comes from the terminal, a pipe, a descriptor or\n"
	    "a command's output. Of kind aws it is ID KEY [TOKEN], and HOST may be *.NAME.\n");
	return CMD_USAGE;
}

static bool
number(const char *name, const char *text, uint64_t max, uint64_t *ret)
{
	if (str_to_u64(str_z(text), max, ret))
		return true;
	(void)fprintf(stderr, "cofferdam: %s must be a number up to %llu, is \"%s\"\n", name,
	    (unsigned long long)max, text);
	return false;
}

static bool
option_take(struct cred_args *a, int c)
{
	uint64_t fd = 0;

	switch (c) {
	case 's': a->state = optarg; return true;
	case 'k': a->kind = optarg; return true;
	case 'U': a->url = optarg; return true;
	case 'h': a->host = optarg; return true;
	case 'u': a->user = optarg; return true;
	case 'F': a->field = optarg; return true;
	case 'c': a->command = optarg; return true;
	case 'P': a->path = optarg; return true;
	case 'r': a->run = true; return true;
	case 'p': return number("--port", optarg, 65535, &a->port);
	case 'f':
		if (!number("--fd", optarg, 1023, &fd))
			return false;
		a->fd = (int)fd;
		return true;
	default: return false;
	}
}

static bool
args_read(int argc, char **argv, struct cred_args *a)
{
	static const struct option options[] = {
	    {"state", required_argument, NULL, 's'},
	    {"kind", required_argument, NULL, 'k'},
	    {"url", required_argument, NULL, 'U'},
	    {"target-host", required_argument, NULL, 'h'},
	    {"port", required_argument, NULL, 'p'},
	    {"user", required_argument, NULL, 'u'},
	    {"field", required_argument, NULL, 'F'},
	    {"fd", required_argument, NULL, 'f'},
	    {"command", required_argument, NULL, 'c'},
	    {"run", no_argument, NULL, 'r'},
	    {"path", required_argument, NULL, 'P'},
	    {0},
	};
	int c;

	*a = (struct cred_args){.state = CMD_STATE_DEFAULT, .fd = -1};
	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (!option_take(a, c))
			return false;
	if (optind == argc || argc - optind > 2)
		return false;
	a->verb = argv[optind];
	a->name = optind + 1 < argc ? argv[optind + 1] : NULL;
	return true;
}

/* --- add, rotate ----------------------------------------------------------------- */

/* "https://HOST[:PORT][/]": an origin and nothing else. */
static int
url_take(const char *url, char host[HTTP_HOST_SIZE], struct vault_bind *b, struct err *err)
{
	struct str s = str_z(url), scheme;
	bool any = false;
	uint16_t port = 0;

	if (!str_cut(&s, ':', &scheme) || !str_has_prefix(s, "//") ||
	    (!str_eqz(scheme, "https") && !str_eqz(scheme, "http")))
		return err_set(err, ERR_INVALID,
		    "--url \"%s\" must be https://HOST[:PORT], or http:// for a loopback host",
		    url);
	s.p += 2;
	s.n -= 2;
	if (str_has_suffix(s, "/"))
		s.n--;
	if (s.n != 0 && memchr(s.p, '/', s.n) != NULL)
		return err_set(
		    err, ERR_INVALID, "--url \"%s\" must end behind the host and port", url);
	if (str_eqz(b->kind, "aws") && str_has_prefix(s, "*.")) {
		any = true;
		s = str_mem(s.p + 2, s.n - 2);
	}
	if (http_authority_parse(s, host, &port, err) != 0)
		return err_wrap(err, "--url %s", url);
	if (any) { /* "*." in front of it again, and there is room: a name has 253 bytes */
		memmove(host + 2, host, strlen(host) + 1);
		memcpy(host, "*.", 2);
	}
	b->scheme = scheme;
	b->host = str_z(host);
	b->port = port != 0 ? port : (uint16_t)(str_eqz(scheme, "https") ? 443 : 80);
	return 0;
}

/* Name, kind and where the secret may go; `host` is room for the spelling of an URL's host. */
static int
bind_make(
    const struct cred_args *a, char host[HTTP_HOST_SIZE], struct vault_bind *b, struct err *err)
{
	const char *kind = a->kind != NULL || a->url != NULL ? a->kind : "postgresql-password";
	const struct vault_kind *k = vault_kind(str_z(kind));

	if (k == NULL)
		return err_set(err, ERR_UNSUPPORTED,
		    "--kind must be postgresql-password, bearer, basic, header, query or "
		    "aws, is \"%s\"",
		    kind != NULL ? kind : "");
	*b = (struct vault_bind){.name = str_z(a->name),
	    .kind = str_z(kind),
	    .scheme = STR("postgresql"),
	    .host = str_z(a->host),
	    .user = str_z(a->user),
	    .field = str_z(a->field),
	    .port = (uint16_t)a->port,
	    .set_s = clock_wall_us() / 1000000};
	if (!k->http && (a->url != NULL || a->host == NULL || a->port == 0 || a->user == NULL))
		return err_set(err, ERR_INVALID,
		    "kind %s needs --target-host, --port and --user, and no --url", k->name);
	if (k->http && (a->url == NULL || a->host != NULL || a->port != 0))
		return err_set(err, ERR_INVALID,
		    "kind %s needs --url https://HOST[:PORT], and no --target-host or --port",
		    k->name);
	return k->http ? url_take(a->url, host, b, err) : 0;
}

/* The vault as it is now is written; then people are told. */
static int
save(const struct cred_args *a, struct vault_file *f, const char *done, struct err *err)
{
	AUTO_FREE char *note = NULL;
	const struct vault_entry *e;
	int rc = vault_file_save(f, err);

	if (rc != 0)
		return rc;
	e = vault_find(f->vault, str_z(a->name));
	note = cred_broker_note(a->state);
	(void)printf("%s: %s, version %llu%s\n", a->name, done,
	    (unsigned long long)(e != NULL ? e->version : 0), note);
	return 0;
}

static int
secret_take(const struct cred_args *a, const char *kind, struct secret **ret, struct err *err)
{
	AUTO(secret) struct secret *raw = NULL;
	int rc = cred_secret_read(a->command, a->fd >= 0 ? a->fd : STDIN_FILENO, &raw, err);

	if (rc == 0 && strcmp(kind, "aws") == 0)
		return cred_aws_secret(raw, ret, err);
	if (rc == 0)
		*ret = TAKE_PTR(raw);
	return rc;
}

static int
cred_add(const struct cred_args *a, struct vault_file *f, struct err *err)
{
	AUTO(secret) struct secret *s = NULL;
	char host[HTTP_HOST_SIZE];
	struct vault_bind b = {0};
	int rc;

	if (vault_find(f->vault, str_z(a->name)) != NULL)
		return err_set(err, ERR_STATE,
		    "there is a credential \"%s\" already: `rotate` gives it a new secret; for "
		    "another place `remove` it first",
		    a->name);
	if ((rc = bind_make(a, host, &b, err)) != 0 || (rc = vault_place_check(&b, err)) != 0 ||
	    (rc = secret_take(a, b.kind.p, &s, err)) != 0 ||
	    (rc = vault_put(f->vault, &b, s, err)) != 0)
		return rc;
	(void)TAKE_PTR(s);
	return save(a, f, "added", err);
}

static int
entry_find(const struct cred_args *a, const struct vault_file *f, const struct vault_entry **ret,
    struct err *err)
{
	*ret = vault_find(f->vault, str_z(a->name));
	return *ret != NULL ? 0 : err_set(err, ERR_NOT_FOUND, "no credential \"%s\"", a->name);
}

static int
cred_rotate(const struct cred_args *a, struct vault_file *f, struct err *err)
{
	AUTO(secret) struct secret *s = NULL;
	const struct vault_entry *e;
	int rc;

	if ((rc = entry_find(a, f, &e, err)) != 0 || (rc = secret_take(a, e->kind, &s, err)) != 0 ||
	    (rc = vault_rotate(f->vault, str_z(a->name), s, clock_wall_us() / 1000000, err)) != 0)
		return rc;
	(void)TAKE_PTR(s);
	return save(a, f, "rotated", err);
}

/* --- list, remove, test ----------------------------------------------------------- */

static int
cred_list(const struct cred_args *a UNUSED, struct vault_file *f, struct err *err UNUSED)
{
	for (size_t i = 0; i < vault_count(f->vault); i++) {
		const struct vault_entry *e = vault_at(f->vault, i);
		AUTO_FREE char *binding = cred_binding(e);
		char set[CLOCK_TEXT_SIZE] = "-";

		if (e->set_s != 0)
			clock_format_s(e->set_s * 1000000, set);
		(void)printf("%s\t%s%s%s\tversion %llu\t%s\t%s\n", e->name, e->kind,
		    e->field[0] != '\0' ? " " : "", e->field, (unsigned long long)e->version,
		    binding, set);
	}
	return 0;
}

static int
cred_remove(const struct cred_args *a, struct vault_file *f, struct err *err)
{
	AUTO_FREE char *note = NULL;
	int rc = vault_remove(f->vault, str_z(a->name), err);

	if (rc != 0 || (rc = vault_file_save(f, err)) != 0)
		return rc;
	note = cred_broker_note(a->state);
	(void)printf("%s: removed%s\n", a->name, note);
	return 0;
}

static const struct verb {
	const char *name;
	bool named, secret, binds;
	int (*run)(const struct cred_args *a, struct vault_file *f, struct err *err);
} verbs[] = {
    {"add", true, true, true, cred_add},
    {"rotate", true, true, false, cred_rotate},
    {"list", false, false, false, cred_list},
    {"remove", true, false, false, cred_remove},
    {"test", true, false, false, NULL},
};

/* An option that a verb does not read is a mistake that should not pass for done. */
static const struct verb *
verb_find(const struct cred_args *a)
{
	bool binds = a->kind != NULL || a->url != NULL || a->host != NULL || a->user != NULL ||
		     a->field != NULL || a->port != 0;
	bool secret = a->fd >= 0 || a->command != NULL;
	const struct verb *v = NULL;

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(verbs[i].name, a->verb) == 0)
			v = &verbs[i];
	if (v == NULL || v->named != (a->name != NULL) || (binds && !v->binds) ||
	    (secret && !v->secret) || (a->fd >= 0 && a->command != NULL) ||
	    (v->run != NULL && a->run) || (a->path != NULL && !a->run))
		return NULL;
	return v;
}

int
cmd_credential(int argc, char **argv)
{
	struct vault_file f = {.dir = -1};
	const struct vault_entry *e = NULL;
	const struct verb *v = NULL;
	struct err err = {0};
	struct cred_args a;
	int rc, status = CMD_OK;

	if (!args_read(argc, argv, &a) || (v = verb_find(&a)) == NULL)
		return cred_usage();
	rc = vault_file_open(a.state, &f, &err);
	if (rc == 0 && v->run != NULL)
		rc = v->run(&a, &f, &err);
	else if (rc == 0 && (rc = entry_find(&a, &f, &e, &err)) == 0) {
		(void)flock(f.dir, LOCK_UN); /* nothing will be written; a test may take long */
		status = cred_test(&a, e);
	}
	vault_file_close(&f);
	return rc == 0 ? status : cmd_fail(&err);
}
