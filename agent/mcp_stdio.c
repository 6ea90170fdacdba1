/*
 * MCP over standard input and output. Runs in cofferdam-mcp and in the fixture of the conformance
 * tests. Nothing but messages goes to standard output; a client that does not read them ends its
 * own server.
 */
#include "agent/mcp_stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "common/log.h"

#include "common/banned.h"

#define READ_CHUNK ((size_t)16384)
#define OUT_MAX ((size_t)64 << 20)

static struct {
	struct loop *loop;
	struct mcp_session *s;
	struct loop_io *in_io, *out_io;
	struct buf in, out;
	size_t out_at, looked;
	bool blocking; /* standard output is nothing that epoll takes */
	bool skipping; /* what is left of a line that was too long */
} io;

static void
flush(void)
{
	while (io.out_at < io.out.n) {
		ssize_t n = write(STDOUT_FILENO, io.out.p + io.out_at, io.out.n - io.out_at);

		if (n > 0) {
			io.out_at += (size_t)n;
		} else if (errno == EAGAIN) {
			loop_io_events(io.out_io, EPOLLOUT);
			return;
		} else if (errno != EINTR) {
			loop_stop(io.loop, 0); /* nobody reads */
			return;
		}
	}
	buf_reset(&io.out);
	io.out_at = 0;
	if (!io.blocking)
		loop_io_events(io.out_io, 0);
}

static void
line_put(struct str message)
{
	buf_put_str(&io.out, message);
	buf_put_c(&io.out, '\n');
	if (buf_over(&io.out)) {
		log_error("the client does not read its answers");
		loop_stop(io.loop, 1);
		return;
	}
	flush();
}

static void
out_send(void *exchange UNUSED, struct str message)
{
	line_put(message);
}

static void
out_answer(void *exchange UNUSED, unsigned status UNUSED, struct str message)
{
	if (message.n != 0)
		line_put(message);
}

const struct mcp_out mcp_stdio_out = {.send = out_send, .answer = out_answer};

static void
on_out(void *arg UNUSED, uint32_t events)
{
	if ((events & (EPOLLHUP | EPOLLERR)) != 0)
		loop_stop(io.loop, 0);
	else
		flush();
}

/*
 * A line over the limit is refused once, by what of it is here: a message that is cut has no id
 * that could be told. The rest of it goes by unread, and the session goes on.
 */
static void
too_long(void)
{
	if (!io.skipping)
		mcp_session_take(io.s, buf_str(&io.in), NULL, MCP_STDIO);
	io.skipping = true;
	buf_reset(&io.in);
	io.looked = 0;
}

static void
lines_take(void)
{
	const uint8_t *end;

	while ((end = memchr(io.in.p + io.looked, '\n', io.in.n - io.looked)) != NULL) {
		size_t n = (size_t)(end - io.in.p);
		struct str line = str_trim(str_mem(io.in.p, n));

		if (line.n != 0 && !io.skipping)
			mcp_session_take(io.s, line, NULL, MCP_STDIO);
		io.skipping = false;
		buf_drop(&io.in, n + 1);
		io.looked = 0;
	}
	io.looked = io.in.n;
	if (io.in.n > MCP_MESSAGE_MAX || io.skipping)
		too_long();
}

static void
on_in(void *arg UNUSED, uint32_t events UNUSED)
{
	uint8_t room[READ_CHUNK];
	ssize_t n = read(STDIN_FILENO, room, sizeof(room));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		loop_stop(io.loop, 0);
		return;
	}
	buf_put(&io.in, room, (size_t)n);
	lines_take();
}

static void
on_signal(void *arg UNUSED, int signo UNUSED)
{
	loop_stop(io.loop, 0);
}

static bool
can_wait(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 &&
	       (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(fd) != 0);
}

int
mcp_stdio_run(struct loop *loop, struct mcp_session *s, struct err *err)
{
	int flags = fcntl(STDOUT_FILENO, F_GETFL), rc;

	if (!can_wait(STDIN_FILENO))
		return err_set(err, ERR_INVALID,
		    "standard input must be a pipe, a socket or a terminal: an MCP client starts "
		    "this (or give --listen)");
	io.loop = loop;
	io.s = s;
	io.blocking = !can_wait(STDOUT_FILENO);
	buf_init(&io.in, MCP_MESSAGE_MAX + READ_CHUNK + 1);
	buf_init(&io.out, OUT_MAX);
	(void)signal(SIGPIPE, SIG_IGN);
	loop_signal_add(loop, SIGTERM, on_signal, NULL);
	loop_signal_add(loop, SIGINT, on_signal, NULL);
	if (!io.blocking) {
		(void)fcntl(STDOUT_FILENO, F_SETFL, flags | O_NONBLOCK);
		io.out_io = loop_io_add(loop, STDOUT_FILENO, 0, on_out, NULL);
	}
	io.in_io = loop_io_add(loop, STDIN_FILENO, EPOLLIN, on_in, NULL);
	rc = loop_run(loop);
	loop_io_del(io.in_io);
	loop_io_del(io.out_io);
	if (!io.blocking)
		(void)fcntl(STDOUT_FILENO, F_SETFL, flags);
	buf_free(&io.in);
	buf_free(&io.out);
	return rc == 0 ? 0 : err_set(err, ERR_PROTOCOL, "the client did not keep to the protocol");
}
