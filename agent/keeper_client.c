/*
 * A keeper's caller: starts one, finds it by its id, asks. Runs in servers and their workers. The
 * other end is a process of the same user, which the kernel says; nothing here is a boundary.
 */
#include "agent/keeper.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/proc_paths.h"
#include "common/xalloc.h"
#include "agent/keeper_client.h"

#include "common/banned.h"

/* --- a request and its answer ------------------------------------------------------------ */

int
keeper_ask(
    struct keeper *k, uint8_t type, const struct buf *body, struct wire_msg *ret, struct err *err)
{
	int rc;

	if (k->fd < 0)
		return err_set(err, ERR_UNAVAILABLE, "keeper: the connection is over");
	rc = wire_send(k->fd, type, body, NULL, 0, err);
	if (rc == 0)
		rc = wire_recv(k->fd, KEEPER_ASK_MS, WIRE_BODY_MAX, ret, err);
	if (rc == 0 && ret->type == KEEPER_ERROR)
		return wire_take_error(ret, err);
	if (rc == 0 && ret->type == KEEPER_DONE)
		return 0;
	/* What comes later would be taken for the answer to something else. */
	cleanup_close_fd(&k->fd);
	if (rc == 0 || rc == ERR_TIMEOUT)
		return err_set(err, ERR_UNAVAILABLE, "keeper: no answer that fits");
	return err_set(err, ERR_UNAVAILABLE, "the run has ended (its keeper is gone)");
}

int
keeper_tell(struct keeper *k, uint8_t type, const struct buf *body, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;

	return keeper_ask(k, type, body, &m, err);
}

static int
hello_take(struct keeper *k, const struct wire_msg *m, struct err *err)
{
	struct rd r = rd_init(buf_str(&m->body));

	k->id = keeper_text_take(&r);
	k->run = keeper_text_take(&r);
	k->owner = keeper_text_take(&r);
	k->pid = (int)rd_u32(&r);
	if (rd_end(&r) && k->id != NULL && k->run != NULL)
		return 0;
	return err_set(err, ERR_PROTOCOL, "keeper: malformed greeting");
}

/* --- start -------------------------------------------------------------------------------- */

static char *
id_make(struct err *err)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint8_t room[20];
	char id[sizeof(room) + 1];

	if (getrandom(room, sizeof(room), 0) != (ssize_t)sizeof(room))
		return (void)err_sys(err, ERR_SYSTEM, errno, "random bytes"), NULL;
	for (size_t i = 0; i < sizeof(room); i++)
		id[i] = set[room[i] & 31];
	id[sizeof(room)] = '\0';
	return xstrdup(id);
}

/* In the child: no more than what may stand between fork and exec. */
static void
become_keeper(const char *path, int wire, int life)
{
	char name[] = "cofferdam-agent", word[] = "keep";
	char *argv[] = {name, word, NULL};
	extern char **environ;
	int w = fcntl(wire, F_DUPFD, 10), l = fcntl(life, F_DUPFD, 10);
	int none = open("/dev/null", O_RDWR);
	sigset_t empty;

	(void)sigemptyset(&empty);
	(void)sigprocmask(SIG_SETMASK, &empty, NULL);
	if (w < 0 || l < 0 || none < 0 || setsid() < 0 || fork() != 0)
		_exit(w < 0 || l < 0 || none < 0 ? 1 : 0);
	if (dup2(none, 0) < 0 || dup2(none, 1) < 0 || dup2(w, KEEPER_WIRE_FD) < 0 ||
	    dup2(l, KEEPER_LIFE_FD) < 0)
		_exit(1);
	(void)close_range(KEEPER_LIFE_FD + 1, ~0u, 0);
	(void)execve(path, argv, environ);
	_exit(1);
}

static int
spawn(int wire, int life, struct err *err)
{
	AUTO_FREE char *path = proc_program("cofferdam-agent");
	pid_t pid = fork();
	int st = 0;

	if (pid < 0)
		return err_sys(err, ERR_SYSTEM, errno, "fork");
	if (pid == 0)
		become_keeper(path, wire, life);
	while (waitpid(pid, &st, 0) < 0)
		if (errno != EINTR)
			return 0; /* SIGCHLD is ignored here */
	if (WIFEXITED(st) && WEXITSTATUS(st) == 0)
		return 0;
	return err_set(err, ERR_UNAVAILABLE, "%s: could not be started", path);
}

int
keeper_start(const struct keeper_ask *ask, int life_fd, struct keeper **ret, struct err *err)
{
	AUTO(keeper) struct keeper *k = xcalloc(1, sizeof(*k));
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	AUTO_FREE char *id = NULL;
	AUTO_FD int theirs = -1;
	struct keeper_ask a = *ask;
	int pair[2], rc;

	k->fd = -1;
	if (a.id == NULL && (a.id = id = id_make(err)) == NULL)
		return err->code;
	keeper_ask_encode(&a, &b);
	if (buf_over(&b))
		return err_set(err, ERR_TOO_LARGE, "keeper: the order is over %zu bytes", b.max);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "socketpair");
	k->fd = pair[0];
	theirs = pair[1];
	if ((rc = spawn(theirs, life_fd, err)) != 0)
		return rc;
	cleanup_close_fd(&theirs);
	if ((rc = keeper_ask(k, KEEPER_ASK, &b, &m, err)) != 0 ||
	    (rc = hello_take(k, &m, err)) != 0)
		return rc;
	*ret = TAKE_PTR(k);
	return 0;
}

/* --- one that is there -------------------------------------------------------------------- */

/* *ret_n: the address's length. */
int
keeper_address(const char *id, struct sockaddr_un *ret, socklen_t *ret_n, struct err *err)
{
	size_t n = strlen(id);

	if (n < 8 || n > KEEPER_ID_MAX || strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789") != n)
		return err_set(err, ERR_NOT_FOUND,
		    "there is no run \"%.40s\": an id is 8 to %d small letters and digits", id,
		    KEEPER_ID_MAX);
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	(void)snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "%s%s", KEEPER_SOCKET, id);
	*ret_n =
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(ret->sun_path + 1));
	return 0;
}

int
keeper_open(const char *id, struct keeper **ret, struct err *err)
{
	AUTO(keeper) struct keeper *k = xcalloc(1, sizeof(*k));
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct sockaddr_un a;
	socklen_t n;
	int rc = keeper_address(id, &a, &n, err);

	k->fd = -1;
	if (rc != 0)
		return rc;
	k->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (k->fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "socket");
	if (connect(k->fd, (const struct sockaddr *)&a, n) != 0 || !keeper_peer_is_ours(k->fd))
		return err_set(err, ERR_NOT_FOUND, "there is no run \"%s\" (any more)", id);
	if ((rc = keeper_ask(k, KEEPER_HELLO, NULL, &m, err)) != 0 ||
	    (rc = hello_take(k, &m, err)) != 0)
		return rc == ERR_UNAVAILABLE
			   ? err_set(err, ERR_NOT_FOUND, "there is no run \"%s\" any more", id)
			   : rc;
	*ret = TAKE_PTR(k);
	return 0;
}

void
keeper_close(struct keeper *k)
{
	if (k == NULL)
		return;
	cleanup_close_fd(&k->fd);
	free(k->id);
	free(k->run);
	free(k->owner);
	free(k);
}

const char *
keeper_id(const struct keeper *k)
{
	return k->id;
}

const char *
keeper_run(const struct keeper *k)
{
	return k->run;
}

const char *
keeper_owner(const struct keeper *k)
{
	return k->owner;
}

int
keeper_pid(const struct keeper *k)
{
	return k->pid;
}

int
keeper_fd(const struct keeper *k)
{
	return k->fd;
}

int
keeper_sandbox(struct keeper *k, struct sandbox **ret, struct err *err)
{
	return sandbox_attach(k->id, ret, err);
}
