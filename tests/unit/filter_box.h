/*
 * A child behind the system call filter and its supervisor, for tests. As root, tests run in mount,
 * uts and pid name spaces of their own (apart).
 */
#ifndef TESTS_UNIT_FILTER_BOX_H
#define TESTS_UNIT_FILTER_BOX_H

#include "agent/sandbox/filter.h"
#include "tests/unit/filter_help.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/json.h"

#define LEN_MAX ((size_t)1 << 16)

struct box {
	pid_t pid;
	int listener; /* -1: plain errors */
	int out;      /* what the child reports */
	struct filter_counts *counts;
};

/* The number by name, of this machine; -1: none. */
static UNUSED long
number(const char *name)
{
	for (unsigned nr = 0; nr < 1024; nr++) {
		const char *z = filter_call_name(nr);

		if (z != NULL && strcmp(z, name) == 0)
			return (long)nr;
	}
	return -1;
}

static void
send_fd(int sock, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_iov = &io,
	    .msg_iovlen = 1,
	    .msg_control = control,
	    .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(sock, &m, 0) != 1)
		_exit(99);
}

static int
recv_fd(int sock)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_iov = &io,
	    .msg_iovlen = 1,
	    .msg_control = control,
	    .msg_controllen = sizeof(control)};
	int fd;

	assert_int_equal(recvmsg(sock, &m, MSG_CMSG_CLOEXEC), 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* fn runs behind the filter and writes to its descriptor; it never returns to the tests. */
static struct box
box_start(bool notify, void (*fn)(int out))
{
	struct box b = {.listener = -1, .counts = filter_counts_new()};
	int sock[2], pipes[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	assert_int_equal(pipe(pipes), 0);
	b.pid = fork();
	if (b.pid == 0) {
		int fd = -2;

		(void)alarm(60);
		(void)setsid(); /* vhangup, if it were allowed, finds no terminal */
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || filter_load(notify, &fd) != 0 ||
		    (fd >= 0) != notify)
			_exit(98);
		if (notify)
			send_fd(sock[1], fd);
		(void)close(fd);
		(void)close(sock[0]);
		(void)close(pipes[0]);
		fn(pipes[1]);
		_exit(0);
	}
	(void)close(sock[1]);
	(void)close(pipes[1]);
	b.out = pipes[0];
	if (notify)
		b.listener = recv_fd(sock[0]);
	(void)close(sock[0]);
	return b;
}

/* Serves until the child closes its report, at most LEN_MAX bytes of it. */
static void
box_serve(struct box *b, struct buf *ret)
{
	for (;;) {
		struct pollfd p[] = {{b->out, POLLIN, 0}, {b->listener, POLLIN, 0}};
		char text[4096];
		ssize_t n;

		assert_true(poll(p, 2, 30000) > 0);
		if (p[1].revents != 0 && !filter_notify_turn(b->listener, b->counts, 16)) {
			(void)close(b->listener);
			b->listener = -1;
		}
		if (p[0].revents == 0)
			continue;
		n = read(b->out, text, sizeof(text));
		if (n <= 0)
			return;
		buf_put(ret, text, (size_t)n);
	}
}

/* Its wait status. */
static int
box_wait(const struct box *b)
{
	int status = -1;

	assert_int_equal(waitpid(b->pid, &status, 0), b->pid);
	return status;
}

static void
box_free(struct box *b)
{
	(void)close(b->out);
	if (b->listener >= 0)
		(void)close(b->listener);
	filter_counts_free(b->counts);
}

static int
box_end(struct box *b)
{
	box_free(b);
	return box_wait(b);
}

/* The counts as a document; the caller frees. */
static UNUSED struct json_doc *
counts_of(struct box *b, bool reset)
{
	AUTO_BUF struct buf text = BUF(LEN_MAX);
	struct json_doc *d = NULL;
	struct err err;

	filter_counts_json(b->counts, reset, &text);
	assert_false(buf_over(&text));
	if (json_parse(buf_str(&text), "counts", &d, &err) != 0)
		fail_msg("%s", err.msg);
	return d;
}

static UNUSED uint64_t
counts_sum(const struct json_doc *d)
{
	uint64_t n = 0;

	for (size_t i = 0; i < json_count(json_root(d)); i++)
		n += (uint64_t)json_int(json_get(json_at(json_root(d), i), "count"));
	return n;
}

/* Goes on in a child; the parent ends as that ends. */
static void
as_child(void)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0)
		return;
	(void)waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* Own name spaces first, when this is root: nothing that gets through may reach the machine. Not
 * as pid 1 of them, which the leak checker could not stop. */
static void
apart(void)
{
	if (geteuid() != 0)
		return;
	if (unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWPID) != 0) {
		perror("unshare");
		exit(1);
	}
	as_child();
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) != 0) {
		perror("mount");
		exit(1);
	}
	as_child();
}

#endif
