/*
 * A model's server played by a forked child on a unix socket: one canned answer a connection, in
 * order, its bytes cut as the test wants. What it was sent lies in a file.
 */
#ifndef TESTS_UNIT_MODEL_HELP_H
#define TESTS_UNIT_MODEL_HELP_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent/agent_socket.h"
#include "agent/model_remote.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/xalloc.h"

struct played {
	const char *text;  /* the whole answer; NULL: the connection is closed at once */
	size_t step;	   /* bytes of a write; 0: all at once */
	unsigned delay_ms; /* before the first byte */
	bool hang;	   /* then stay silent, with the connection open */
};

struct server {
	struct agent_socket sock;
	pid_t pid;
	int log; /* requests, one after another, each behind a line "== N bytes" */
};

static inline void
server_all(int fd, const char *p, size_t n, size_t step)
{
	while (n != 0) {
		ssize_t k = send(fd, p, step != 0 && step < n ? step : n, MSG_NOSIGNAL);

		if (k <= 0)
			return;
		p += k;
		n -= (size_t)k;
	}
}

/* A request with its body; returns what came. */
static inline void
server_request(int fd, struct buf *in)
{
	size_t scanned = 0, head = 0, want = 0;
	struct http_request r;
	struct err e;

	for (;;) {
		char room[4096];
		ssize_t k;

		if (head == 0 && http_head_end(buf_str(in), &scanned, &head, &e) == 0 &&
		    head != 0) {
			if (http_request_parse((struct str){(char *)in->p, head}, &r, &e) != 0)
				_exit(3);
			want = head + r.length;
		}
		if (head != 0 && in->n >= want)
			return;
		k = recv(fd, room, sizeof(room), 0);
		if (k <= 0)
			return;
		buf_put(in, room, (size_t)k);
	}
}

static inline void
server_main(int listen_fd, int log, const struct played *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		AUTO_BUF struct buf in = BUF((size_t)4 << 20);
		int fd;

		while ((fd = accept(listen_fd, NULL, NULL)) < 0)
			(void)usleep(1000);
		if (p[i].text == NULL) {
			(void)close(fd);
			continue;
		}
		server_request(fd, &in);
		(void)dprintf(log, "\n== %zu bytes\n", in.n);
		(void)!write(log, in.p, in.n);
		(void)usleep(p[i].delay_ms * 1000);
		server_all(fd, p[i].text, strlen(p[i].text), p[i].step);
		if (p[i].hang)
			(void)pause();
		(void)close(fd);
	}
	_exit(0);
}

static inline void
server_start(struct server *s, const struct played *p, size_t n)
{
	struct err e;
	FILE *f = tmpfile();

	assert_non_null(f);
	s->log = dup(fileno(f));
	(void)fclose(f);
	assert_int_equal(agent_socket_make(&s->sock, &e), 0);
	s->pid = fork();
	/* A test that fails jumps out of its clean-up: the child must not stay behind. */
	if (s->pid == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
		server_main(s->sock.listen, s->log, p, n);
}

static inline void
server_stop(struct server *s)
{
	(void)kill(s->pid, SIGKILL);
	(void)waitpid(s->pid, NULL, 0);
	(void)close(s->log);
	agent_socket_free(&s->sock);
}
#define AUTO_SERVER __attribute__((cleanup(server_stop)))

/* All requests so far; the caller frees. */
static inline char *
server_log(const struct server *s)
{
	AUTO_BUF struct buf b = BUF((size_t)8 << 20);
	char room[4096];
	off_t at = 0;
	ssize_t k;

	while ((k = pread(s->log, room, sizeof(room), at)) > 0) {
		buf_put(&b, room, (size_t)k);
		at += k;
	}
	return buf_dup_z(&b);
}

static inline int
server_connect(void *arg, int *ret_fd, struct err *err)
{
	return agent_socket_connect(arg, ret_fd, err);
}

static inline struct model_http
server_http(struct server *s)
{
	return (struct model_http){.connect = server_connect, .connect_arg = &s->sock};
}

/* The body of request number i, parsed. */
static inline struct json_doc *
server_body(const struct server *s, unsigned i)
{
	AUTO_FREE char *log = server_log(s);
	struct json_doc *d = NULL;
	struct err e = {0};
	char *at = log, *end;

	for (unsigned k = 0; k <= i; k++) {
		at = strstr(k == 0 ? at : at + 1, "\n== ");
		if (at == NULL)
			fail_msg("there is no request %u", i);
	}
	end = strstr(at + 1, "\n== ");
	at = strstr(at, "\r\n\r\n") + 4;
	if (json_parse_numbers((struct str){at, end != NULL ? (size_t)(end - at) : strlen(at)},
		"body", &d, &e) != 0)
		fail_msg("%s", e.msg);
	return d;
}

#define SSE_OK "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
#define JSON_STATUS(line, extra, body)                                                          \
	"HTTP/1.1 " line "\r\nContent-Type: application/json\r\n" extra "Connection: close\r\n" \
	"\r\n" body

static inline uint64_t
soon(unsigned s)
{
	return clock_boot_us() + s * 1000000ULL;
}

static inline struct model *
remote_open(struct server *s, const char *name, uint64_t retries)
{
	struct model_remote c = {.model = name,
	    .base_url = "http://model.test:8080",
	    .task = "do it",
	    .system = "be good",
	    .retries = retries,
	    .http = server_http(s)};
	struct model *m = NULL;
	struct err e = {0};

	if (model_remote_open(&c, &m, &e) != 0)
		fail_msg("%s", e.msg);
	return m;
}

static inline int
remote_turn(
    struct model *m, const struct model_answer *a, size_t n, struct model_turn *t, struct err *e)
{
	struct model_ask ask = {.answers = a, .nanswers = n, .until_us = soon(20)};

	*t = (struct model_turn){0};
	return m->next(m, &ask, t, e);
}

#endif
