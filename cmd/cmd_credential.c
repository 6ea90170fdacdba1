/*
 * `cofferdam credential`: the vault file under its key file. Runs as the operator. A secret
 * never comes from an argument and is never printed.
 */
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_credential.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_help.h"
#include "common/clock.h"

#include "common/banned.h"

/* The verbs, as groups of options. */
enum {
	ADD = 1 << 0,
	ROTATE = 1 << 1,
	LIST = 1 << 2,
	REMOVE = 1 << 3,
	TEST = 1 << 4,
	GIVES = ADD | ROTATE,
	OF_ONE = GIVES | REMOVE | TEST
};

#define AT(f) offsetof(struct cred_args, f)

static const struct option_row rows[] = {
    {"NAME", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED | OPTION_OF(OF_ONE), AT(name), 0, 0, NULL,
	"the credential's"},
    {"--kind", OPTION_TEXT | OPTION_OF(ADD), AT(kind), 0, 0, "KIND",
	"bearer, basic (with --user), header or query (with --field), aws (whose secret is ID KEY "
	"[TOKEN]), or postgresql-password (the default without --url)"},
    {"--url", OPTION_TEXT | OPTION_OF(ADD), AT(url), 0, 0, "URL",
	"origin of the target, as the policy says it; http for loopback alone; of aws also "
	"https://*.NAME, for all hosts below NAME"},
    {"--target-host", OPTION_TEXT | OPTION_OF(ADD), AT(host), 0, 0, "HOST",
	"of postgresql-password: the target's host, as the policy says it"},
    {"--port", OPTION_NUMBER | OPTION_OF(ADD), AT(port), 1, 65535, "N", "and its port"},
    {"--user", OPTION_TEXT | OPTION_OF(ADD), AT(user), 0, 0, "USER",
	"user of postgresql-password (as the policy says it) and basic"},
    {"--field", OPTION_TEXT | OPTION_OF(ADD), AT(field), 0, 0, "FIELD",
	"header's or query parameter's name"},
    {"--fd", OPTION_NUMBER | OPTION_OF(GIVES), AT(fd), 0, 1023, "N",
	"read the secret from this descriptor"},
    {"--command", OPTION_TEXT | OPTION_OF(GIVES), AT(command), 0, 0, "CMD",
	"the secret is the output of sh -c CMD, run once now"},
    {"--run", OPTION_FLAG | OPTION_OF(TEST), AT(run), 0, 0, NULL,
	"also ask each target through the broker, in a run of its own: psql with SELECT "
	"current_user, or curl with GET"},
    {"--path", OPTION_TEXT | OPTION_OF(TEST), AT(path), 0, 0, "PATH",
	"what curl asks for (default: /)"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

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
	int rc = cred_secret_read(
	    a->command, a->fd != CRED_NO_FD ? (int)a->fd : STDIN_FILENO, &raw, err);

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
	const char *words;
	unsigned group;
	int (*run)(const struct cred_args *a, struct vault_file *f, struct err *err);
} verbs[] = {
    {"credential add", ADD, cred_add},
    {"credential rotate", ROTATE, cred_rotate},
    {"credential list", LIST, cred_list},
    {"credential remove", REMOVE, cred_remove},
    {"credential test", TEST, NULL},
};

static const struct verb *
find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(verbs[i].words + strlen("credential "), name) == 0)
			return &verbs[i];
	return NULL;
}

int
cmd_credential(int argc, char **argv)
{
	struct vault_file f = {.dir = -1};
	const struct vault_entry *e = NULL;
	const struct verb *v = argc > 1 ? find(argv[1]) : NULL;
	struct cred_args a = {.state = CMD_STATE_DEFAULT, .fd = CRED_NO_FD};
	struct err err = {0};
	int rc, status = CMD_OK;

	if (v == NULL)
		return cmd_usage("credential");
	if (!args_read(v->words, rows, ARRAY_LEN(rows), v->group, argc - 1, argv + 1, &a))
		return CMD_USAGE;
	if (a.fd != CRED_NO_FD && a.command != NULL)
		return args_wrong(v->words, "--fd and --command: give one of them");
	if (a.path != NULL && !a.run)
		return args_wrong(v->words, "--path goes with --run");
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
