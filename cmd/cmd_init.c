/*
 * `cofferdam init`: a new state directory with keys, CA, vault and an empty log. Runs as
 * the operator who will run the broker. The whole directory appears at once, complete and synced,
 * or not at all; one that exists is never touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/checkpoint.h"
#include "broker/core_vault.h"
#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_ca.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_policy.h"
#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct init_args {
	const char *state, *origin, *policy;
};

#define AT(f) offsetof(struct init_args, f)

static const struct option_row rows[] = {
    {"--state", ARG_STATE | OPTION_NEEDED, AT(state), 0, 0, "DIR", "where"},
    {"--origin", OPTION_TEXT | OPTION_NEEDED, AT(origin), 0, 0, "NAME",
	"name of the log in every checkpoint, as ops.example/log"},
    {"--policy", OPTION_TEXT, AT(policy), 0, 0, "FILE", "build this policy and make it active"},
};

static int
make_dirs(int dir, struct err *err)
{
	static const char *const dirs[] = {"keys", "keys/log", "keys/ca", "keys/blob", "log",
	    "log/seg", "log/cp", "log/blob", "log/torn", "policy", "run"};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(dir, dirs[i], 0700) != 0)
			return err_sys(err, ERR_SYSTEM, errno, "%s", dirs[i]);
	return 0;
}

/* The log's signing seed, and the line by which others verify. */
static int
make_log_key(int dir, const char *origin, struct err *err)
{
	AUTO(secret) struct secret *seed = secret_new(crypto_sign_SEEDBYTES);
	AUTO(secret) struct secret *full = secret_new(crypto_sign_SECRETKEYBYTES);
	AUTO_BUF struct buf line = BUF(1024);
	uint8_t pub[crypto_sign_PUBLICKEYBYTES];
	struct vkey k;
	int rc;

	rand_bytes(secret_bytes(seed), crypto_sign_SEEDBYTES);
	if (crypto_sign_seed_keypair(pub, secret_bytes(full), secret_bytes(seed)) != 0)
		return err_set(err, ERR_CRYPTO, "cannot make the log's key");
	rc = vkey_make(str_z(origin), pub, &k, err);
	if (rc != 0)
		return err_wrap(err, "--origin %s", origin);
	vkey_put(&line, &k);
	buf_put_c(&line, '\n');
	rc = file_create(dir, "keys/log/seed", secret_str(seed), 0600, err);
	return rc != 0 ? rc : file_create(dir, "keys/log/vkey", buf_str(&line), 0600, err);
}

static int
make_vault(int dir, struct err *err)
{
	AUTO(secret) struct secret *key = secret_new(VAULT_KEY_LEN);
	AUTO(vault) struct vault *v = vault_new();
	AUTO_BUF struct buf file = BUF(VAULT_FILE_MAX);
	int rc;

	rand_bytes(secret_bytes(key), VAULT_KEY_LEN);
	rc = vault_seal(v, key, &file, err);
	if (rc == 0)
		rc = file_create(dir, "keys/vault.key", secret_str(key), 0600, err);
	return rc != 0 ? rc : file_create(dir, "vault", buf_str(&file), 0600, err);
}

static int
make_ca(int dir, const char *origin, struct err *err)
{
	AUTO_BUF struct buf key = BUF(16384);
	AUTO_BUF struct buf cert = BUF(16384);
	int rc = ca_make(origin, &key, &cert, err);

	if (rc == 0)
		rc = file_create(dir, "keys/ca/key.pem", buf_str(&key), 0600, err);
	return rc != 0 ? rc : file_create(dir, "keys/ca/cert.pem", buf_str(&cert), 0600, err);
}

static int
make_config(int dir, const char *origin, struct err *err)
{
	AUTO_BUF struct buf out = BUF(4096);
	struct jcs j;
	int rc;

	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	jcs_z(&j, "origin", origin);
	jcs_z(&j, "schema", "cofferdam-broker/1");
	jcs_close(&j);
	buf_put_c(&out, '\n');
	rc = file_create(dir, "broker.json", buf_str(&out), 0600, err);
	return rc != 0 ? rc : file_create(dir, "VERSION", STR("1\n"), 0600, err);
}

static int
make_state(const char *path, const struct init_args *a, struct err *err)
{
	AUTO_FD int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int rc;

	if (dir < 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", path);
	rc = make_dirs(dir, err);
	if (rc == 0)
		rc = make_log_key(dir, a->origin, err);
	if (rc == 0)
		rc = make_vault(dir, err);
	if (rc == 0)
		rc = make_ca(dir, a->origin, err);
	if (rc == 0)
		rc = make_config(dir, a->origin, err);
	if (rc == 0 && fsync(dir) != 0)
		rc = err_sys(err, ERR_SYSTEM, errno, "%s", path);
	return rc;
}

/* Policy build says itself what is wrong with a policy. */
static int
make_policy(const char *path, const char *policy)
{
	AUTO_FREE char *dir = xasprintf("%s/policy", path);
	char build[] = "build", o[] = "-o";
	AUTO_FREE char *file = xstrdup(policy);
	char *argv[] = {build, o, dir, file, NULL};

	return policy_build_main(4, argv);
}

static int
remove_entry(const char *path, const struct stat *sb UNUSED, int type UNUSED, struct FTW *f UNUSED)
{
	return remove(path);
}

/* A half-made directory is of our own making, under a name nobody else uses. */
static void
remove_tree(const char *path)
{
	(void)nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

int
cmd_init(int argc, char **argv)
{
	AUTO_FREE char *tmp = NULL;
	struct init_args a = {0};
	struct err err = {0};
	struct stat sb;
	size_t n;
	int rc;

	if (!ARGS_READ("init", rows, argc, argv, &a))
		return CMD_USAGE;
	if (lstat(a.state, &sb) == 0) {
		(void)err_set(&err, ERR_CONFIG,
		    "%s exists already; init never touches what is there", a.state);
		return cmd_fail(&err);
	}
	n = strlen(a.state);
	while (n > 1 && a.state[n - 1] == '/')
		n--;
	tmp = xasprintf("%.*s.init-%ld", (int)n, a.state, (long)getpid());
	(void)umask(077);
	if (mkdir(tmp, 0700) != 0) {
		(void)err_sys(&err, ERR_CONFIG, errno, "%s", tmp);
		return cmd_fail(&err);
	}
	rc = make_state(tmp, &a, &err);
	if (rc != 0) {
		remove_tree(tmp);
		return cmd_fail(&err);
	}
	if (a.policy != NULL && (rc = make_policy(tmp, a.policy)) != CMD_OK) {
		remove_tree(tmp);
		return rc;
	}
	if (renameat2(AT_FDCWD, tmp, AT_FDCWD, a.state, RENAME_NOREPLACE) != 0) {
		(void)err_sys(&err, ERR_CONFIG, errno, "%s", a.state);
		remove_tree(tmp);
		return cmd_fail(&err);
	}
	(void)printf(
	    "made %s\nverifier key: %.*s/keys/log/vkey (give it to whoever checks the log)\n",
	    a.state, (int)n, a.state);
	return CMD_OK;
}
