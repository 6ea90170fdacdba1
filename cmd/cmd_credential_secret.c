/*
 * Where a secret comes from: a terminal without echo, a pipe, a descriptor, the output of a
 * command. Runs as the operator. Never from an argument or the environment, which other users
 * can read; kept in guarded memory alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>

#include "cmd/cmd_credential.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define TERMINAL_LINE 4095	    /* what the kernel keeps of one, silently */
#define ROOM (VAULT_SECRET_MAX + 2) /* its line feed, and one byte that is too many */

static volatile sig_atomic_t interrupted;

static void
on_signal(int sig)
{
	interrupted = sig;
}

/* Up to end of file or, from a terminal, end of line. What was cut off is not the secret. */
static int
take_bytes(int fd, bool line, uint8_t *room, size_t *n, struct err *err)
{
	for (*n = 0; *n < ROOM;) {
		ssize_t k = read(fd, room + *n, line ? 1 : ROOM - *n);

		if (k < 0 && errno == EINTR && interrupted == 0)
			continue;
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "reading the secret");
		if (k == 0)
			return 0;
		*n += (size_t)k;
		if (line && room[*n - 1] == '\n')
			return 0;
	}
	return err_set(err, ERR_TOO_LARGE, "the secret is longer than %d bytes", VAULT_SECRET_MAX);
}

/* Whatever ends the wait, the terminal gets its echo back. */
static int
terminal_line(int tty, uint8_t *room, size_t *n, struct err *err)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGTSTP};
	struct sigaction old[ARRAY_LEN(signals)], act = {.sa_handler = on_signal};
	struct termios was, quiet;
	int rc;

	if (tcgetattr(tty, &was) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "terminal");
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		(void)sigaction(signals[i], &act, &old[i]);
	quiet = was;
	quiet.c_lflag &= (tcflag_t)~ECHO;
	/* First: what is typed at the prompt is neither shown nor thrown away. */
	rc = tcsetattr(tty, TCSAFLUSH, &quiet) != 0 ? err_sys(err, ERR_SYSTEM, errno, "terminal")
						    : 0;
	(void)fprintf(stderr, "secret: ");
	if (rc == 0)
		rc = take_bytes(tty, true, room, n, err);
	if (rc == 0 && *n >= TERMINAL_LINE)
		rc = err_set(err, ERR_TOO_LARGE,
		    "a terminal cuts a line at %d bytes: give this secret by a pipe",
		    TERMINAL_LINE);
	(void)tcsetattr(tty, TCSAFLUSH, &was);
	(void)fprintf(stderr, "\n");
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		(void)sigaction(signals[i], &old[i], NULL);
	return rc;
}

/* The shell's standard input and error stay the caller's: a password manager may ask. */
static int
command_start(const char *command, int *ret_fd, pid_t *ret_pid, struct err *err)
{
	static char sh[] = "sh", c[] = "-c";
	char *argv[] = {sh, c, xstrdup(command), NULL};
	posix_spawn_file_actions_t fa;
	int out[2] = {-1, -1}, rc;

	if (pipe2(out, O_CLOEXEC) != 0) {
		free(argv[2]);
		return err_sys(err, ERR_SYSTEM, errno, "pipe");
	}
	(void)posix_spawn_file_actions_init(&fa);
	(void)posix_spawn_file_actions_adddup2(&fa, out[1], STDOUT_FILENO);
	rc = posix_spawn(ret_pid, "/bin/sh", &fa, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&fa);
	free(argv[2]);
	(void)close(out[1]);
	if (rc != 0) {
		(void)close(out[0]);
		return err_sys(err, ERR_SYSTEM, rc, "/bin/sh");
	}
	*ret_fd = out[0];
	return 0;
}

static int
command_output(const char *command, uint8_t *room, size_t *n, struct err *err)
{
	AUTO_FD int fd = -1;
	pid_t pid = 0;
	int status = 0, rc = command_start(command, &fd, &pid, err);

	if (rc != 0)
		return rc;
	rc = take_bytes(fd, false, room, n, err);
	cleanup_close_fd(&fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (rc != 0)
		return rc;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(err, ERR_INVALID,
		    "--command ended with %s %d: its output is not taken as the secret",
		    WIFEXITED(status) ? "status" : "signal",
		    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	return 0;
}

int
cred_secret_read(const char *command, int fd, struct secret **ret, struct err *err)
{
	AUTO(secret) struct secret *room = secret_new(ROOM);
	uint8_t *p = secret_bytes(room);
	size_t n = 0;
	int rc;

	if (command != NULL)
		rc = command_output(command, p, &n, err);
	else if (isatty(fd))
		rc = terminal_line(fd, p, &n, err);
	else
		rc = take_bytes(fd, false, p, &n, err);
	if (rc != 0)
		return rc;
	if (n != 0 && p[n - 1] == '\n')
		n--;
	if (n == 0)
		return err_set(err, ERR_INVALID, "the secret is empty");
	*ret = secret_copy(str_mem(p, n));
	return 0;
}
