/*
 * `cofferdam key new | show`: keys for people who have none of SSH. Runs as the person, on the
 * person's own machine; the secret half never leaves its file but to sign (cmd_sign_native.c).
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_credential.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_sign.h"
#include "cmd/cmd_sign_native.h"
#include "common/sig.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct key_args {
	const char *verb, *file;
	uint64_t fd;
	bool fd_given, open;
};

static bool
args_read(int argc, char **argv, struct key_args *a)
{
	static const struct option options[] = {
	    {"fd", required_argument, NULL, 'f'},
	    {"no-passphrase", no_argument, NULL, 'n'},
	    {0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'n')
			a->open = true;
		else if (c == 'f' && str_to_u64(str_z(optarg), 1000000, &a->fd))
			a->fd_given = true;
		else
			return false;
	}
	if (optind + 2 != argc || (a->open && a->fd_given))
		return false;
	a->verb = argv[optind];
	a->file = argv[optind + 1];
	return strcmp(a->verb, "new") == 0 || (strcmp(a->verb, "show") == 0 && !a->open);
}

/* Twice from a terminal: what was mistyped is lost for good. */
static int
passphrase_new(const struct key_args *a, struct secret **ret, struct err *err)
{
	AUTO(secret) struct secret *first = NULL;
	AUTO(secret) struct secret *again = NULL;
	int rc = sign_passphrase(a->file, a->fd_given ? (int)a->fd : -1, &first, err);

	if (rc == 0 && !a->fd_given) {
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

	if (rc == 0)
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
	struct key_args a = {0};
	struct err err;
	int rc;

	if (!args_read(argc, argv, &a)) {
		(void)fprintf(stderr, "usage: cofferdam key new FILE [--no-passphrase | --fd N]\n"
				      "       cofferdam key show FILE\n");
		return CMD_USAGE;
	}
	rc = strcmp(a.verb, "new") == 0 ? key_new(&a, &err) : key_show(&a, &err);
	return rc == 0 ? CMD_OK : cmd_fail(&err);
}
