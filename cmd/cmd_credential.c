/*
 * `cofferdam credential`: the vault file under its key file. Runs as the operator. A secret
 * comes from a terminal without echo, a pipe or a descriptor, never from an argument; it is
 * never printed.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <termios.h>

#include "broker/core_vault.h"
#include "cmd/cmd.h"
#include "cmd/cmd_file.h"

#include "common/banned.h"

struct cred_args {
	const char *state, *kind, *host, *user, *verb, *name;
	uint64_t port;
	int fd;
};

static int
cred_usage(void)
{
	(void)fprintf(stderr,
	    "usage: cofferdam credential add NAME --target-host HOST --port N --user USER\n"
	    "           [--kind postgresql-password] [--fd N] [--state DIR]   (secret from "
	    "terminal, pipe or descriptor)\n"
	    "       cofferdam credential list [--state DIR]\n"
	    "       cofferdam credential remove NAME [--state DIR]\n");
	return CMD_USAGE;
}

static bool
args_read(int argc, char **argv, struct cred_args *a)
{
	static const struct option options[] = {
	    {"state", required_argument, NULL, 's'},
	    {"kind", required_argument, NULL, 'k'},
	    {"target-host", required_argument, NULL, 'h'},
	    {"port", required_argument, NULL, 'p'},
	    {"user", required_argument, NULL, 'u'},
	    {"fd", required_argument, NULL, 'f'},
	    {0},
	};
	uint64_t fd;
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's': a->state = optarg; break;
		case 'k': a->kind = optarg; break;
		case 'h': a->host = optarg; break;
		case 'u': a->user = optarg; break;
		case 'p':
			if (!str_to_u64(str_z(optarg), 65535, &a->port))
				return false;
			break;
		case 'f':
			if (!str_to_u64(str_z(optarg), 1023, &fd))
				return false;
			a->fd = (int)fd;
			break;
		default: return false;
		}
	}
	if (optind == argc || argc - optind > 2)
		return false;
	a->verb = argv[optind];
	a->name = optind + 1 < argc ? argv[optind + 1] : NULL;
	return true;
}

/* One line without echo. */
static int
secret_from_terminal(int tty, struct buf *out, struct err *err)
{
	struct termios old, quiet;
	ssize_t n;
	char c;
	int e;

	if (tcgetattr(tty, &old) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "terminal");
	quiet = old;
	quiet.c_lflag &= (tcflag_t)~ECHO;
	(void)fprintf(stderr, "secret: ");
	if (tcsetattr(tty, TCSAFLUSH, &quiet) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "terminal");
	while ((n = read(tty, &c, 1)) == 1 && c != '\n')
		buf_put_c(out, c);
	e = errno;
	(void)tcsetattr(tty, TCSAFLUSH, &old);
	(void)fprintf(stderr, "\n");
	/* What was cut off is not the secret. */
	return n < 0 ? err_sys(err, ERR_SYSTEM, e, "terminal") : 0;
}

static int
secret_read(int fd, struct secret **ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(VAULT_SECRET_MAX + 1);
	struct str s;
	int rc;

	rc = isatty(fd) ? secret_from_terminal(fd, &b, err)
			: file_read_fd(fd, "the secret", &b, err);
	if (rc != 0)
		return rc;
	s = buf_str(&b);
	if (s.n != 0 && s.p[s.n - 1] == '\n')
		s.n--;
	if (s.n == 0)
		return err_set(err, ERR_INVALID, "the secret is empty");
	if (s.n > VAULT_SECRET_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "the secret is longer than %d bytes", VAULT_SECRET_MAX);
	*ret = secret_copy(s);
	return 0;
}

struct vault_file {
	int dir; /* locked while we hold it, so that two commands do not lose an entry */
	struct secret *key;
	struct vault *vault;
};

static void
vault_file_close(struct vault_file *f)
{
	vault_free(f->vault);
	secret_free(f->key);
	cleanup_close_fd(&f->dir);
}

static int
vault_file_open(const char *state, struct vault_file *ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF(VAULT_FILE_MAX);
	AUTO_FD int key = -1;
	int rc;

	*ret = (struct vault_file){.dir = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	if (ret->dir < 0 || flock(ret->dir, LOCK_EX) != 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", state);
	key = openat(ret->dir, "keys/vault.key", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (key < 0)
		return err_sys(err, ERR_CONFIG, errno, "%s/keys/vault.key", state);
	rc = secret_read_fd(key, VAULT_KEY_LEN, &ret->key, err);
	if (rc != 0)
		return err_wrap(err, "%s/keys/vault.key", state);
	rc = file_read(ret->dir, "vault", &text, err);
	if (rc == 0)
		rc = vault_open(buf_str(&text), ret->key, &ret->vault, err);
	return rc != 0 ? err_wrap(err, "%s", state) : 0;
}

static int
vault_file_save(struct vault_file *f, struct err *err)
{
	AUTO_BUF struct buf out = BUF(VAULT_FILE_MAX);
	int rc = vault_seal(f->vault, f->key, &out, err);

	return rc != 0 ? rc : file_replace(f->dir, "vault", buf_str(&out), 0600, err);
}

static int
cred_add(const struct cred_args *a, struct vault_file *f, struct err *err)
{
	struct vault_bind b = {.name = str_z(a->name),
	    .kind = str_z(a->kind),
	    .scheme = STR("postgresql"),
	    .host = str_z(a->host),
	    .user = str_z(a->user),
	    .port = (uint16_t)a->port};
	struct secret *s = NULL;
	int rc;

	if (strcmp(a->kind, "postgresql-password") != 0)
		return err_set(err, ERR_UNSUPPORTED,
		    "--kind %s: only postgresql-password is supported", a->kind);
	rc = secret_read(a->fd, &s, err);
	if (rc != 0)
		return rc;
	rc = vault_put(f->vault, &b, s, err);
	if (rc != 0) {
		secret_free(s);
		return rc;
	}
	rc = vault_file_save(f, err);
	if (rc == 0)
		(void)printf("%s: version %llu; a running broker takes it on SIGHUP\n", a->name,
		    (unsigned long long)vault_find(f->vault, b.name)->version);
	return rc;
}

static void
cred_list(const struct vault_file *f)
{
	for (size_t i = 0; i < vault_count(f->vault); i++) {
		const struct vault_entry *e = vault_at(f->vault, i);

		(void)printf("%s\t%s\tversion %llu\t%s://%s@%s:%u\n", e->name, e->kind,
		    (unsigned long long)e->version, e->scheme, e->user, e->host, (unsigned)e->port);
	}
}

int
cmd_credential(int argc, char **argv)
{
	struct cred_args a = {.state = CMD_STATE_DEFAULT, .kind = "postgresql-password"};
	struct vault_file f = {.dir = -1};
	struct err err = {0};
	bool add, list;
	int rc;

	if (!args_read(argc, argv, &a))
		return cred_usage();
	add = strcmp(a.verb, "add") == 0;
	list = strcmp(a.verb, "list") == 0;
	if (list != (a.name == NULL) || (!list && !add && strcmp(a.verb, "remove") != 0) ||
	    (add && (a.host == NULL || a.user == NULL || a.port == 0)))
		return cred_usage();
	rc = vault_file_open(a.state, &f, &err);
	if (rc == 0 && add)
		rc = cred_add(&a, &f, &err);
	else if (rc == 0 && list)
		cred_list(&f);
	else if (rc == 0 && (rc = vault_remove(f.vault, str_z(a.name), &err)) == 0)
		rc = vault_file_save(&f, &err);
	vault_file_close(&f);
	return rc == 0 ? CMD_OK : cmd_fail(&err);
}
