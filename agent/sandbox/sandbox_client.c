/*
 * Requests to a supervisor and their answers (any caller's process). Answers come in any order;
 * those for others are kept, so that a program's end is never lost while something else is asked.
 * Never waits without a deadline, unless its caller said so.
 */
#include "agent/sandbox/sandbox_client.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define SEND_FITS ((size_t)16384) /* into the socket, whoever reads it */

struct client_parked {
	uint32_t tag;
	struct wire_msg m; /* without the tag */
};

struct sandbox *
client_new(void)
{
	struct sandbox *sb = xcalloc(1, sizeof(*sb));

	sb->wire = -1;
	sb->ahead = WIRE_AHEAD;
	return sb;
}

static int
gone(struct err *err, const struct err *why)
{
	return err_set(err, ERR_UNAVAILABLE, "sandbox: it went away (%s)", why->msg);
}

/* What sandbox_create, sandbox_exec and sandbox_destroy ask for: they give it its turns. */
static bool
is_of_one_command(uint8_t type)
{
	return type == CALL_CREATE || type == CALL_EXEC || type == CALL_KILL ||
	       type == CALL_PROCS || type == CALL_END;
}

void
client_leave(struct sandbox *sb)
{
	if (sb->turn != NULL)
		sb->leave(sb);
}

/* What does not wait is done at once. Not every file can say whether it would. */
ssize_t
client_read(struct sandbox *sb, int fd, void *p, size_t n)
{
	struct iovec iov = {p, n};
	ssize_t k;

	if (sb->turn != NULL) {
		k = syscall(SYS_preadv2, fd, &iov, 1, -1L, -1L, RWF_NOWAIT);
		if (k >= 0)
			return k;
		client_leave(sb);
	}
	return read(fd, p, n);
}

ssize_t
client_write(struct sandbox *sb, int fd, const void *p, size_t n)
{
	struct iovec iov = {(void *)(uintptr_t)p, n};
	ssize_t k;

	if (sb->turn != NULL) {
		k = syscall(SYS_pwritev2, fd, &iov, 1, -1L, -1L, RWF_NOWAIT);
		if (k >= 0)
			return k;
		client_leave(sb);
	}
	return write(fd, p, n);
}

static int
request_send(struct sandbox *sb, uint8_t type, uint32_t tag, const struct buf *body, const int *fds,
    size_t nfds, struct err *err)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	struct err e = {0};

	if (sb->wire < 0)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: already ended");
	buf_u32(&b, tag);
	if (body != NULL)
		buf_put_str(&b, buf_str(body));
	if (buf_over(&b) || (body != NULL && buf_over(body)))
		return err_set(
		    err, ERR_TOO_LARGE, "sandbox: a request of more than %zu bytes", WIRE_BODY_MAX);
	if (b.n > SEND_FITS || !is_of_one_command(type))
		client_leave(sb);
	if (wire_send(sb->wire, type, &b, fds, nfds, &e) != 0)
		return gone(err, &e);
	return 0;
}

int
client_send(struct sandbox *sb, uint8_t type, const struct buf *body, const int *fds, size_t nfds,
    uint32_t *ret_tag, struct err *err)
{
	uint32_t tag = sb->tag + 1 != 0 ? sb->tag + 1 : 1;
	int rc = request_send(sb, type, tag, body, fds, nfds, err);

	sb->tag = tag;
	if (rc == 0)
		*ret_tag = tag;
	return rc;
}

int
client_tell(struct sandbox *sb, uint8_t type, const struct buf *body, struct err *err)
{
	return request_send(sb, type, 0, body, NULL, 0, err);
}

static void
parked_drop(struct sandbox *sb, size_t i)
{
	wire_msg_free(&sb->parked[i].m);
	memmove(&sb->parked[i], &sb->parked[i + 1], (sb->nparked - i - 1) * sizeof(sb->parked[0]));
	sb->nparked--;
}

static int
park(struct sandbox *sb, struct wire_msg *m, struct err *err)
{
	struct rd r = rd_init(buf_str(&m->body));
	uint32_t tag = rd_u32(&r);

	if (r.bad)
		return err_set(err, ERR_PROTOCOL, "sandbox: an answer without a tag");
	buf_drop(&m->body, sizeof(tag));
	/* Answers that came too late for who asked; nobody will. */
	if (sb->nparked == CLIENT_PARKED_MAX)
		parked_drop(sb, 0);
	sb->parked = xreallocarray(sb->parked, sb->nparked + 1, sizeof(*sb->parked));
	sb->parked[sb->nparked++] = (struct client_parked){.tag = tag, .m = *m};
	*m = WIRE_MSG;
	return 0;
}

int
client_turn(struct sandbox *sb, struct err *err)
{
	struct err e = {0};

	if (sb->wire < 0)
		return err_set(err, ERR_UNAVAILABLE, "sandbox: already ended");
	/* Nobody tells of what is here already. */
	do {
		AUTO_WIRE struct wire_msg m = WIRE_MSG;

		if (wire_recv_ahead(sb->wire, WIRE_SEND_MS, WIRE_BODY_MAX, &sb->ahead, &m, &e) != 0)
			return gone(err, &e);
		if (park(sb, &m, err) != 0)
			return err->code;
	} while (wire_ahead_whole(&sb->ahead));
	return 0;
}

static size_t
parked_find(const struct sandbox *sb, uint32_t tag)
{
	size_t i = 0;

	while (i < sb->nparked && sb->parked[i].tag != tag)
		i++;
	return i;
}

bool
client_has(const struct sandbox *sb, uint32_t tag)
{
	return parked_find(sb, tag) < sb->nparked;
}

static int
something_there(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0 ? 0 : ERR_TIMEOUT;
}

/* As wire_wait, and meanwhile a supervisor of this thread has its turns. */
static int
answer_wait(struct sandbox *sb, int64_t deadline, struct err *err)
{
	while (sb->turn != NULL) {
		struct pollfd p[2] = {
		    {.fd = sb->wire, .events = POLLIN}, {.fd = sb->turn_fd, .events = POLLIN}};
		int64_t left = deadline < 0 ? 60000 : deadline - wire_now_ms();
		int rc;

		if (left <= 0)
			return err_set(err, ERR_TIMEOUT, "sandbox wire: no progress in time");
		rc = poll(p, 2, left > 60000 ? 60000 : (int)left);
		if (rc < 0 && errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "sandbox wire: poll");
		if (rc > 0 && p[0].revents != 0)
			return 0;
		if (rc > 0)
			sb->turn(sb);
	}
	return wire_wait(sb->wire, POLLIN, deadline, err);
}

int
client_answer(struct sandbox *sb, uint32_t tag, uint8_t want, int timeout_ms, struct wire_msg *ret,
    struct err *err)
{
	int64_t deadline = timeout_ms < 0 ? -1 : wire_now_ms() + timeout_ms;
	size_t i;
	int rc;

	while ((i = parked_find(sb, tag)) == sb->nparked) {
		struct err e = {0};

		if (sb->wire < 0)
			return err_set(err, ERR_UNAVAILABLE, "sandbox: already ended");
		rc = timeout_ms == 0 ? something_there(sb->wire) : answer_wait(sb, deadline, &e);
		if (rc == ERR_TIMEOUT)
			return err_set(err, ERR_TIMEOUT, "sandbox: no answer in %d ms", timeout_ms);
		if ((rc = client_turn(sb, err)) != 0)
			return rc;
	}
	wire_msg_free(ret);
	*ret = sb->parked[i].m;
	sb->parked[i].m = WIRE_MSG;
	parked_drop(sb, i);
	if (ret->type == CALL_ERROR)
		return wire_take_error(ret, err);
	if (ret->type != want)
		return err_set(err, ERR_PROTOCOL, "sandbox: answer of type %u, not %u",
		    (unsigned)ret->type, (unsigned)want);
	return 0;
}

int
client_ask(
    struct sandbox *sb, uint8_t type, const struct buf *body, struct wire_msg *ret, struct err *err)
{
	uint32_t tag = 0;
	int rc = client_send(sb, type, body, NULL, 0, &tag, err);

	return rc != 0 ? rc : client_answer(sb, tag, CALL_DONE, CLIENT_ANSWER_MS, ret, err);
}

void
client_free(struct sandbox *sb)
{
	for (size_t i = 0; i < sb->nlisteners; i++)
		if (sb->listeners[i] >= 0)
			(void)close(sb->listeners[i]);
	wire_ahead_free(&sb->ahead);
	while (sb->nparked != 0)
		wire_msg_free(&sb->parked[--sb->nparked].m);
	free(sb->parked);
	for (size_t i = 0; sb->env != NULL && sb->env[i] != NULL; i++)
		free(sb->env[i]);
	free(sb->env);
	buf_free(&sb->order);
	free(sb->level);
	free(sb);
}
