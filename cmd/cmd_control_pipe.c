/*
 * `cofferdam control-pipe`: the other end of `--via`. sshd starts it, as the login that the person
 * has on the broker's machine; it copies bytes between its standard input and output and the
 * control socket, and knows nothing of them. The broker sees that login, and asks for signatures
 * all the same.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_file.h"
#include "common/ipc.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* What there is, from one to the other. 1: moved; 0: at an end; -1: error. */
static int
move(int from, int to)
{
	uint8_t chunk[16384];
	ssize_t n = read(from, chunk, sizeof(chunk));

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 1 : -1;
	if (n == 0)
		return 0;
	return file_write_all(to, str_mem(chunk, (size_t)n)) == 0 ? 1 : -1;
}

static int
pipe_run(int sock, struct err *err)
{
	struct pollfd p[] = {{STDIN_FILENO, POLLIN, 0}, {sock, POLLIN, 0}};

	for (;;) {
		int rc;

		if (poll(p, ARRAY_LEN(p), -1) < 0) {
			if (errno == EINTR)
				continue;
			return err_sys(err, ERR_SYSTEM, errno, "poll");
		}
		if (p[0].revents != 0) {
			rc = move(STDIN_FILENO, sock);
			if (rc < 0)
				return err_sys(err, ERR_SYSTEM, errno, "to the broker");
			if (rc == 0) {
				(void)shutdown(sock, SHUT_WR);
				p[0].fd = -1;
			}
		}
		if (p[1].revents != 0) {
			rc = move(sock, STDOUT_FILENO);
			if (rc < 0)
				return err_sys(err, ERR_SYSTEM, errno, "from the broker");
			if (rc == 0)
				return 0;
		}
	}
}

static const struct option_row rows[] = {
    {"--state", ARG_STATE, 0, 0, 0, "DIR", ARG_STATE_IS},
};

int
cmd_control_pipe(int argc, char **argv)
{
	const char *state = NULL;
	AUTO_FREE char *path = NULL;
	AUTO_FD int fd = -1;
	struct err err;

	if (!ARGS_READ("control-pipe", rows, argc, argv, &state))
		return CMD_USAGE;
	path = xasprintf("%s/run/control.sock", state != NULL ? state : CMD_STATE_DEFAULT);
	if (ipc_connect(path, &fd, &err) != 0 || pipe_run(fd, &err) != 0)
		return cmd_fail(&err);
	return CMD_OK;
}
