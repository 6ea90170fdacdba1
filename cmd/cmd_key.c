/*
 * `cofferdam key new | show`: keys for people who have none of SSH. Runs as the person, on the
 * person's own machine; the secret half never leaves its file but to sign (cmd_sign_native.c).
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_credential.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_help.h"
#include "cmd/cmd_sign.h"
#include "cmd/cmd_sign_native.h"
#include "common/sig.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct key_args {
	const char *file;
	uint64_t fd; /* UINT64_MAX: not given */
	bool open;
};

#define AT(f) offsetof(struct key_args, f)
enum { NEW = 1, SHOW = 2 };

static const struct option_row rows[] = {
    {"FILE", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(file), 0, 0, NULL,
	"the secret half; its public half stands in FILE.pub"},
    {"--no-passphrase", OPTION_FLAG | OPTION_OF(NEW), AT(open), 0, 0, NULL,
	"leave the file open: for tests"},
    {"--fd", OPTION_NUMBER | OPTION_OF(NEW), AT(fd), 0, 1000000, "N",
	"read the passphrase from this descriptor, once"},
};

/* Twice from a terminal: what was mistyped is lost for good. */
static int
passphrase_new(const struct key_args *a, struct secret **ret, struct err *err)
{
	AUTO(secret) struct secret *first = NULL;
	AUTO(secret) struct secret *again = NULL;
	int rc = sign_passphrase(a->file, a->fd != UINT64_MAX ? (int)a->fd : -1, &first, err);

	if (rc == 0 && a->fd == UINT64_MAX) {
		(void)fprintf(stderr, "once more\n");
		rc = sign_passphrase(a->file, -1, &again, err);
		if (rc == 0 && !str_eq(secret_str(first), secret_str(again)))
			return err_set(err, ERR_INVALID, "the passphrases differ");
	}
	if (rc == 0)
		*ret = TAKE_PTR(first);
	return rc;
}

static int
key_new(const struct key_args *a, struct err *err)
{
	AUTO(secret) struct secret *passphrase = NULL;
	AUTO_BUF struct buf file = BUF(SIGN_NATIVE_FILE_MAX);
	AUTO_BUF struct buf line = BUF(SIGN_NATIVE_FILE_MAX);
	AUTO_FREE char *pub = xasprintf("%s.pub", a->file);
	int rc = a->open ? 0 : passphrase_new(a, &passphrase, err);

	if (rc == 0)
		rc = sign_native_new(passphrase, &file, &line, err);
	buf_put_c(&line, '\n');
	if (rc == 0)
		rc = file_create(AT_FDCWD, a->file, buf_str(&file), 0600, err);
	if (rc == 0)
		rc = file_create(AT_FDCWD, pub, buf_str(&line), 0644, err);
	if (rc == 0)
		(void)printf("%.*s", STR_ARG(buf_str(&line)));
	return rc;
}

static int
key_show(const struct key_args *a, struct err *err)
{
	AUTO_BUF struct buf file = BUF(SIGN_NATIVE_FILE_MAX);
	AUTO_BUF struct buf line = BUF(SIGN_NATIVE_FILE_MAX);
	struct sig_pubkey k;
	char fp[64];
	int rc = file_read(AT_FDCWD, a->file, &file, err);

	if (rc != 0)
		return rc;
	rc = sign_native_line(buf_str(&file), &line, err);
	if (rc == 0)
		rc = sig_pubkey_parse(buf_str(&line), &k, err);
	if (rc != 0)
		return err_wrap(err, "%s", a->file);
	sig_pubkey_fingerprint(&k, fp);
	(void)printf("%.*s\n%s\n", STR_ARG(buf_str(&line)), fp);
	return 0;
}

int
cmd_key(int argc, char **argv)
{
	struct key_args a = {.fd = UINT64_MAX};
	bool new = argc > 1 && strcmp(argv[1], "new") == 0;
	struct err err;

	if (!new && (argc < 2 || strcmp(argv[1], "show") != 0))
		return cmd_usage("key");
	if (!args_read(new ? "key new" : "key show", rows, ARRAY_LEN(rows), new ? NEW : SHOW,
		argc - 1, argv + 1, &a))
		return CMD_USAGE;
	if (a.open && a.fd != UINT64_MAX)
		return args_wrong("key new", "--no-passphrase and --fd: give one of them");
	return (new ? key_new(&a, &err) : key_show(&a, &err)) == 0 ? CMD_OK : cmd_fail(&err);
}
