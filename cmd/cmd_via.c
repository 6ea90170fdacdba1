/*
 * The control socket of a broker on another machine. Runs as the person, on the person's own
 * machine: ssh, which the person has set up, carries the bytes; on the other side `cofferdam
 * control-pipe` runs with that login's rights, and the broker sees that login. Keys stay here: only
 * signatures go over. What the URL holds goes to ssh as arguments, so it may look like nothing
 * else.
 */
#include "cmd/cmd_via.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/cmd_file.h"
#include "common/str.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define SCHEME "ssh://"

struct via {
	char *host, *port, *remote; /* host: with USER@ */
};

static int via_fd = -1;

bool
via_is(const char *state)
{
	return state != NULL && strncmp(state, SCHEME, strlen(SCHEME)) == 0;
}

int
via_place(const char **state, const char *arg, bool via, struct err *err)
{
	if (via != via_is(arg))
		return err_set(err, ERR_INVALID, "--%s must be %s, is \"%s\"",
		    via ? "via" : "state",
		    via ? "ssh://[USER@]HOST[:PORT][/STATE-DIR]" : "a directory", arg);
	if (*state != NULL && via_is(*state) != via)
		return err_set(
		    err, ERR_INVALID, "--state and --via name two brokers: give one of them");
	*state = arg;
	return 0;
}

/* Letters, digits and what names and paths are made of; no dash in front, that would be an option.
 */
static bool
plain(struct str s, const char *also)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') &&
		    (c == '\0' || strchr(also, c) == NULL))
			return false;
	}
	return s.n != 0 && s.n < 512 && s.p[0] != '-';
}

static int
url_read(const char *url, struct via *v, struct err *err)
{
	struct str s = str_z(url + strlen(SCHEME)), where = s, user = STR(""), host,
		   port = STR("22");
	const char *slash = memchr(s.p, '/', s.n);
	struct str dir = slash != NULL ? str_z(slash) : STR(CMD_STATE_DEFAULT);
	uint64_t n;

	if (slash != NULL)
		where = str_mem(s.p, (size_t)(slash - s.p));
	if (str_cut(&where, '@', &user) && !plain(user, "._-"))
		return err_set(err, ERR_CONFIG, "\"%s\": the user's name is not a plain one", url);
	host = where;
	if (str_cut(&where, ':', &host))
		port = where;
	if (!plain(host, ".-") || !str_to_u64(port, 65535, &n) || n == 0 || !plain(dir, "/._-"))
		return err_set(err, ERR_CONFIG,
		    "--via must be ssh://[USER@]HOST[:PORT][/STATE-DIR], is \"%s\"", url);
	v->host = xasprintf("%.*s%s%.*s", STR_ARG(user), user.n != 0 ? "@" : "", STR_ARG(host));
	v->port = str_dup(port);
	v->remote = xasprintf("cofferdam control-pipe --state %.*s", STR_ARG(dir));
	return 0;
}

static void __attribute__((noreturn)) ssh_exec(const struct via *v, int fd)
{
	const char *argv[] = {"ssh", "-T", "-p", v->port, "--", v->host, v->remote, NULL};

	if (dup2(fd, STDIN_FILENO) >= 0 && dup2(fd, STDOUT_FILENO) >= 0)
		(void)execvp(argv[0], (char *const *)(uintptr_t)argv);
	(void)fprintf(stderr, "cofferdam: ssh: %s\n", strerror(errno));
	_exit(127);
}

/* ssh ends when this process does: its input is at an end then. */
int
via_connect(const char *url, int *ret_fd, struct err *err)
{
	struct via v = {NULL, NULL, NULL};
	int pair[2], rc;
	pid_t pid;

	if (via_fd >= 0) {
		*ret_fd = via_fd;
		return 0;
	}
	rc = url_read(url, &v, err);
	if (rc != 0)
		return rc;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "socketpair");
	pid = fork();
	if (pid == 0)
		ssh_exec(&v, pair[1]);
	(void)close(pair[1]);
	free(v.host);
	free(v.port);
	free(v.remote);
	if (pid < 0) {
		(void)close(pair[0]);
		return err_sys(err, ERR_SYSTEM, errno, "fork");
	}
	*ret_fd = via_fd = pair[0];
	return 0;
}
