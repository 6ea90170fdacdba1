/*
 * Signing with a person's own key. Runs on the person's machine, as the person: ssh-keygen (or the
 * agent behind it) makes the signature, and this program never sees the key; only one of
 * `cofferdam key new` is opened here, by cmd_sign_native.c.
 */
#include "cmd/cmd_sign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd_credential.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_sign_native.h"
#include "common/xalloc.h"
#include "policy/statement.h"

#include "common/banned.h"

char *
sign_key_default(void)
{
	const char *home = getenv("HOME");

	return xasprintf("%s/.ssh/id_ed25519", home != NULL ? home : "");
}

int
sign_ready(const char *key, struct err *err)
{
	AUTO_FREE char *file = key != NULL ? xstrdup(key) : sign_key_default();
	AUTO_FREE char *pub = xasprintf("%s.pub", file);

	if (access(file, R_OK) == 0 || access(pub, R_OK) == 0)
		return 0;
	return err_sys(err, ERR_CONFIG, errno,
	    "the key %s (--key FILE names one of yours, or the public half of one that an agent "
	    "has)",
	    file);
}

int
sign_can_ask(bool yes, struct err *err)
{
	if (yes || isatty(STDIN_FILENO))
		return 0;
	return err_set(err, ERR_DENIED,
	    "not a terminal: say --yes to sign without being asked; nothing was signed");
}

int
sign_ask(const char *what, const char *person, bool yes, struct err *err)
{
	char line[16];
	int rc = sign_can_ask(yes, err);

	(void)fflush(stdout);
	if (yes || rc != 0)
		return rc;
	(void)printf("\n%s this as %s? [y/N] ", what, person);
	(void)fflush(stdout);
	if (fgets(line, sizeof(line), stdin) != NULL && (line[0] == 'y' || line[0] == 'Y'))
		return 0;
	return err_set(err, ERR_DENIED, "nothing was signed");
}

static void __attribute__((noreturn)) keygen_exec(int in, int out, const char *key, const char *ns)
{
	const char *argv[] = {"ssh-keygen", "-q", "-Y", "sign", "-n", ns, "-f", key, NULL};

	if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
		(void)execvp(argv[0], (char *const *)(uintptr_t)argv);
	(void)fprintf(stderr, "cofferdam: ssh-keygen: %s\n", strerror(errno));
	_exit(127);
}

static int
keygen_wait(pid_t pid, struct err *err)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(err, ERR_SIGNATURE, "ssh-keygen did not sign (exit status %d)",
		    WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	return 0;
}

/* Through pipes: no file of ours ever holds statement or signature. */
static int
keygen(const char *key, const char *ns, struct str text, struct buf *ret, struct err *err)
{
	int in[2], out[2], rc;
	pid_t pid;

	if (pipe2(in, O_CLOEXEC) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "pipe");
	if (pipe2(out, O_CLOEXEC) != 0) {
		(void)close(in[0]);
		(void)close(in[1]);
		return err_sys(err, ERR_SYSTEM, errno, "pipe");
	}
	pid = fork();
	if (pid == 0)
		keygen_exec(in[0], out[1], key, ns);
	(void)close(in[0]);
	(void)close(out[1]);
	/* A statement is at most 32 KiB, what a pipe takes: no need to read meanwhile. */
	rc = pid < 0 ? err_sys(err, ERR_SYSTEM, errno, "fork") : 0;
	if (rc == 0 && file_write_all(in[1], text) != 0)
		rc = err_sys(err, ERR_SYSTEM, errno, "writing to ssh-keygen");
	(void)close(in[1]);
	if (rc == 0)
		rc = file_read_fd(out[0], "ssh-keygen", ret, err);
	(void)close(out[0]);
	if (pid > 0) {
		struct err own;
		int rc2 = keygen_wait(pid, &own);

		if (rc2 != 0 && rc == 0)
			rc = err_set(err, rc2, "%s", own.msg);
	}
	return rc;
}

/* --- keys of our own --------------------------------------------------------------- */

int
sign_passphrase(const char *file, int fd, struct secret **ret, struct err *err)
{
	AUTO_FD int tty = fd < 0 ? open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY) : -1;

	if (fd < 0 && tty < 0)
		return err_sys(err, ERR_CONFIG, errno,
		    "the passphrase of %s is asked on the terminal, and there is none", file);
	if (fd < 0)
		(void)fprintf(stderr, "passphrase of %s\n", file);
	return cred_secret_read(NULL, fd < 0 ? tty : fd, ret, err);
}

/* False: it is no key of ours; ssh-keygen says what is wrong with it. */
static bool
native_read(const char *key, struct buf *file)
{
	return file_read(AT_FDCWD, key, file, NULL) == 0 && sign_native_is(buf_str(file));
}

int
sign_bytes_in(const char *key, const char *ns, struct str text, struct buf *ret, struct err *err)
{
	AUTO_BUF struct buf file = BUF(SIGN_NATIVE_FILE_MAX);
	AUTO(secret) struct secret *passphrase = NULL;
	int rc = 0;

	if (!native_read(key, &file))
		return keygen(key, ns, text, ret, err);
	if (sign_native_is_sealed(buf_str(&file)))
		rc = sign_passphrase(key, -1, &passphrase, err);
	if (rc == 0)
		rc = sign_native(buf_str(&file), passphrase, ns, text, ret, err);
	return rc != 0 ? err_wrap(err, "%s", key) : 0;
}

int
sign_bytes(const char *key, struct str statement, struct buf *ret, struct err *err)
{
	return sign_bytes_in(key, STATEMENT_NAMESPACE, statement, ret, err);
}
