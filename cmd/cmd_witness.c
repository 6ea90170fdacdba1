/*
 * `cofferdam witness init | add | serve`: a witness of logs. Runs as whoever keeps the directory,
 * on a machine that is not the broker's; needs no broker and no root. serve becomes
 * cofferdam-witness.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/cosign.h"
#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_help.h"
#include "common/log.h"
#include "common/proc_paths.h"
#include "common/secret.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct args {
	const char *dir, *name, *vkey;
};

#define AT(f) offsetof(struct args, f)

static const struct option_row init_rows[] = {
    {"DIR", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(dir), 0, 0, NULL,
	"where; one that exists is refused"},
    {"NAME", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(name), 0, 0, NULL,
	"its name in each cosignature, as witness.example/w1"},
};

static const struct option_row add_rows[] = {
    {"DIR", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(dir), 0, 0, NULL,
	"what witness init made"},
    {"VKEY", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(vkey), 0, 0, NULL,
	"the log's verifier key itself, the line in keys/log/vkey of a state directory"},
};

static int
dir_open(const char *path, int *ret, struct err *err)
{
	*ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret >= 0 ? 0 : err_sys(err, ERR_CONFIG, errno, "%s", path);
}

/* --- init ---------------------------------------------------------------------------- */

static int
init_files(int dir, struct str name, struct err *err)
{
	AUTO(secret) struct secret *seed = secret_new(crypto_sign_SEEDBYTES);
	AUTO(secret) struct secret *sk = secret_new(crypto_sign_SECRETKEYBYTES);
	AUTO_BUF struct buf line = BUF(1024);
	uint8_t pub[crypto_sign_PUBLICKEYBYTES];
	struct cosigner me;
	int rc;

	rand_bytes(secret_bytes(seed), crypto_sign_SEEDBYTES);
	if (crypto_sign_seed_keypair(pub, secret_bytes(sk), secret_bytes(seed)) != 0)
		return err_set(err, ERR_CRYPTO, "libsodium: no key");
	rc = cosigner_make(name, pub, &me, err);
	if (rc != 0)
		return rc;
	cosigner_put(&line, &me);
	buf_put_c(&line, '\n');
	if (mkdirat(dir, "log", 0700) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "log");
	rc = file_create(dir, "LOCK", STR(""), 0600, err);
	if (rc == 0)
		rc = file_create(dir, "key", secret_str(seed), 0600, err);
	if (rc == 0)
		rc = file_create(dir, "vkey", buf_str(&line), 0644, err);
	if (rc == 0)
		(void)printf("%.*s", STR_ARG(buf_str(&line)));
	return rc;
}

static int
witness_init(const struct args *a, struct err *err)
{
	AUTO_FREE char *vis = log_vis(str_z(a->name));
	AUTO_FD int dir = -1;
	int rc;

	if (!vkey_name_ok(str_z(a->name)))
		return err_set(err, ERR_CONFIG,
		    "NAME must be 1 to %d bytes without spaces and plus signs, such as "
		    "witness.example/w1, is \"%s\"",
		    ORIGIN_MAX, vis);
	if (mkdir(a->dir, 0700) != 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", a->dir);
	rc = dir_open(a->dir, &dir, err);
	return rc == 0 ? init_files(dir, str_z(a->name), err) : rc;
}

/* --- add ----------------------------------------------------------------------------- */

/* A log that is known keeps its head: its keys alone become more. */
static int
add_files(int logs, const char *name, struct str line, struct err *err)
{
	AUTO_BUF struct buf keys = BUF(16384);
	AUTO_FD int dir = -1;
	bool known = mkdirat(logs, name, 0700) != 0;
	int rc;

	if (known && errno != EEXIST)
		return err_sys(err, ERR_SYSTEM, errno, "%s", name);
	dir = openat(logs, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", name);
	/* Made in this order: what was cut off in between is known to nobody, and is made again. */
	if (faccessat(dir, "head", F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
		if (faccessat(dir, "keys", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return err_set(err, ERR_TAMPER, "log/%s has keys and no head", name);
		rc = file_create(dir, "head", STR(""), 0600, err);
	} else {
		rc = faccessat(dir, "keys", F_OK, AT_SYMLINK_NOFOLLOW) == 0
			 ? file_read(dir, "keys", &keys, err)
			 : 0;
	}
	if (rc != 0)
		return rc;
	if (memmem(keys.p != NULL ? (const char *)keys.p : "", keys.n, line.p, line.n) != NULL)
		return err_set(err, ERR_EXISTS, "this key is known already");
	buf_put_str(&keys, line);
	buf_put_c(&keys, '\n');
	return file_replace(dir, "keys", buf_str(&keys), 0600, err);
}

static int
witness_add_log(const struct args *a, struct err *err)
{
	AUTO_FREE char *vis = log_vis(str_z(a->vkey));
	AUTO_FD int dir = -1;
	AUTO_FD int logs = -1;
	char name[HASH_HEX_SIZE];
	struct vkey key;
	struct hash id;
	int rc = vkey_parse(str_z(a->vkey), &key, err);

	if (rc != 0)
		return err_wrap(err, "VKEY \"%s\"", vis);
	if ((rc = dir_open(a->dir, &dir, err)) != 0)
		return rc;
	logs = openat(dir, "log", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (logs < 0)
		return err_sys(err, ERR_CONFIG, errno, "%s/log", a->dir);
	id = hash_sha256(str_z(key.name));
	hash_hex(&id, name);
	return add_files(logs, name, str_z(a->vkey), err);
}

/* --- serve --------------------------------------------------------------------------- */

static int
serve(int argc, char **argv)
{
	AUTO_FREE char *path = proc_program("cofferdam-witness");
	AUTO_FREE char **args = xcalloc((size_t)argc + 1, sizeof(*args));

	args[0] = path;
	for (int i = 1; i < argc; i++)
		args[i] = argv[i];
	(void)fflush(stdout); /* of the help of the verbs before it */
	(void)execv(path, args);
	log_error("%s: %s", path, strerror(errno));
	return CMD_FAILED;
}

int
cmd_witness(int argc, char **argv)
{
	bool init = argc > 1 && strcmp(argv[1], "init") == 0;
	struct args a = {0};
	struct err err = {0};

	if (argc > 1 && strcmp(argv[1], "serve") == 0)
		return serve(argc - 1, argv + 1);
	if (!init && (argc < 2 || strcmp(argv[1], "add") != 0))
		return cmd_usage("witness");
	if (init ? !ARGS_READ("witness init", init_rows, argc - 1, argv + 1, &a)
		 : !ARGS_READ("witness add", add_rows, argc - 1, argv + 1, &a))
		return CMD_USAGE;
	return (init ? witness_init(&a, &err) : witness_add_log(&a, &err)) == 0 ? CMD_OK
										: cmd_fail(&err);
}
