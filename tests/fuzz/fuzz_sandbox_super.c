/*
 * Fuzz target: what the supervisor of a sandbox reads. The first byte picks the reader: a spec, an
 * order to run a program, what pid 1 says (at its start, or with three programs asked for), what a
 * caller says. For the last three the second byte says where the bytes are cut in two and the third
 * how many descriptors (read ends of a pipe) come with each part. Whatever comes, the supervisor
 * ends with all its descriptors closed.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/xalloc.h"
#include "agent/sandbox/super_state.h"

#include "common/banned.h"

#define INPUT_MAX ((size_t)64 << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
fake_end(struct backend_box *b UNUSED)
{
}

static const struct backend fake = {.name = "native", .end = fake_end};

static void
send_part(int fd, const uint8_t *p, size_t n, size_t nfds, int some)
{
	union {
		char b[CMSG_SPACE(sizeof(int) * 8)];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {(void *)(uintptr_t)p, n};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n == 0)
		return;
	if (nfds != 0) {
		struct cmsghdr *h;

		m.msg_control = control.b;
		m.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		h = CMSG_FIRSTHDR(&m);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		for (size_t i = 0; i < nfds; i++)
			memcpy(CMSG_DATA(h) + i * sizeof(int), &some, sizeof(int));
	}
	if (sendmsg(fd, &m, MSG_NOSIGNAL) != (ssize_t)n)
		abort();
}

/* A socket that holds the whole input and then the end; *ret_far may be NULL: closed. */
static int
filled(const uint8_t *data, size_t size, int *ret_far)
{
	size_t cut = data[1] < size - 3 ? data[1] : size - 3;
	int sv[2], p[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) != 0 || pipe2(p, O_CLOEXEC) != 0)
		abort();
	send_part(sv[1], data + 3, cut, (data[2] & 15u) % 8, p[0]);
	send_part(sv[1], data + 3 + cut, size - 3 - cut, (data[2] >> 4) % 8u, p[0]);
	(void)close(p[0]);
	(void)close(p[1]);
	if (ret_far == NULL) {
		(void)close(sv[1]);
	} else {
		(void)shutdown(sv[1], SHUT_WR);
		*ret_far = sv[1];
	}
	return sv[0];
}

/* Only the caller's end decides the turn's end; a sandbox that is gone has nothing to wait for. */
static void
on_turn_end(void *arg)
{
	struct super *s = arg;

	super_conns_sweep(s);
	super_execs_sweep(s);
	if (s->state == SUPER_DEAD || super_conns_count(s) == 0)
		loop_stop(s->loop, 0);
}

static struct super *
super_make(int inside)
{
	struct super *s = xcalloc(1, sizeof(*s));
	AUTO_BUF struct buf b = BUF(1 << 16);
	struct err e;

	sandbox_spec_encode(&(struct sandbox_spec){.limits.output_mib = 1}, &b);
	if (super_spec_decode(buf_str(&b), &s->spec, &e) != 0)
		abort();
	s->listener = s->name.lock = -1;
	s->box = (struct backend_box){
	    .backend = &fake, .inside = inside, .pidfd = -1, .notify = -1, .level = BUF(4096)};
	s->state = SUPER_LIVE;
	s->loop = loop_new();
	loop_before_sleep(s->loop, on_turn_end, s);
	super_inside_begin(s);
	return s;
}

static void
super_unmake(struct super *s)
{
	super_end(s, SANDBOX_KILLED, "over");
	super_execs_free(s);
	while (s->conns != NULL) {
		super_conn_drop(s->conns);
		super_conns_sweep(s);
	}
	loop_timer_del(s->timer);
	loop_free(s->loop);
	super_spec_free(&s->spec);
	free(s->in);
	free(s->facts);
	free(s->level);
	free(s->why);
	free(s);
}

/* One that goes to its caller, one that is kept, one with a terminal. */
static void
three_execs(struct super_conn *c)
{
	static const char *const none[] = {NULL};
	char name[] = "a", *argv[] = {name, NULL};

	for (unsigned i = 0; i < 3; i++) {
		struct sandbox_exec x = {.argv = argv, .pipe_stdin = i == 1, .tty = i == 2};
		AUTO_BUF struct buf exec = BUF(4096), b = BUF(8192);

		sandbox_exec_encode(&x, none, &exec);
		buf_u32(&b, i + 1);
		buf_lstr(&b, buf_str(&exec));
		buf_u8(&b, i != 0 ? 1 : 0);
		if (!super_call(c, CALL_EXEC, buf_str(&b), NULL, 0))
			abort();
	}
}

static void
from_pid1(const uint8_t *data, size_t size, bool starting)
{
	struct super *s = super_make(filled(data, size, NULL));
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) != 0)
		abort();
	super_conn_new(s, sv[0], SUPER_WHOLE);
	s->conns->known = true;
	if (starting) {
		s->state = SUPER_STARTING;
		s->creator = s->conns;
	} else {
		three_execs(s->conns);
	}
	(void)loop_run(s->loop);
	super_unmake(s);
	(void)close(sv[1]);
}

static void
from_caller(const uint8_t *data, size_t size)
{
	int far = -1, inside[2];
	struct super *s;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, inside) != 0)
		abort();
	s = super_make(inside[0]);
	s->level = xstrdup("{}");
	super_conn_new(s, filled(data, size, &far), SUPER_WHOLE);
	s->conns->known = true;
	(void)loop_run(s->loop);
	super_unmake(s);
	(void)close(far);
	(void)close(inside[1]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct super_spec spec;
	struct super_order order;
	struct err e;
	int lowest;

	if (size < 3 || size > INPUT_MAX)
		return 0;
	log_init("fuzz", LOG_ERROR_);
	lowest = dup(0);
	(void)close(lowest);
	switch (data[0] % 5) {
	case 0:
		if (super_spec_decode(str_mem(data + 1, size - 1), &spec, &e) == 0)
			super_spec_free(&spec);
		break;
	case 1:
		if (super_order_make(str_mem(data + 1, size - 1), 1, &order, &e) == 0)
			super_order_free(&order);
		break;
	case 2: from_pid1(data, size, true); break;
	case 3: from_pid1(data, size, false); break;
	default: from_caller(data, size);
	}
	if (dup(0) != lowest)
		abort(); /* a descriptor was left open */
	(void)close(lowest);
	return 0;
}
