/* Starts parts of cofferdam-inside as processes in a directory of the test's own. */
#ifndef TESTS_UNIT_INSIDE_HELP_H
#define TESTS_UNIT_INSIDE_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "agent/sandbox/sandbox_frame.h"
#include "common/proc_paths.h"
#include "common/xalloc.h"

#define HANGS_MS 60000

static char top[64];
static char *program;

struct answer {
	struct frame_reader reader;
	struct buf data, json;
	struct err err;
	int rc;
};

static int
keep_data(void *arg, struct str bytes, struct err *err UNUSED)
{
	buf_put_str(&((struct answer *)arg)->data, bytes);
	return 0;
}

static int
keep_entry(void *arg, const struct frame_entry *e, struct err *err UNUSED)
{
	frame_entry_json(e, &((struct answer *)arg)->json);
	return 0;
}

static int
keep_change(void *arg, const struct frame_change *c, struct err *err UNUSED)
{
	frame_change_json(c, &((struct answer *)arg)->json);
	buf_put_c(&((struct answer *)arg)->json, '\n');
	return 0;
}

static const struct frame_ops keep = {keep_data, keep_entry, keep_change};

struct part {
	pid_t pid;
	int in, out;
};

static struct part UNUSED
part_start(const char *const *argv)
{
	int in[2], out[2];
	struct part p;
	char *args[8] = {NULL};

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	for (size_t i = 0; argv[i] != NULL; i++)
		args[i] = xstrdup(argv[i]);
	p = (struct part){.pid = fork(), .in = in[1], .out = out[0]};
	if (p.pid == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		if (chdir(top) == 0)
			(void)execv(program, args);
		_exit(99);
	}
	(void)close(in[0]);
	(void)close(out[1]);
	for (size_t i = 0; args[i] != NULL; i++)
		free(args[i]);
	return p;
}

static void UNUSED
answer_init(struct answer *a)
{
	*a = (struct answer){.data = BUF((size_t)64 << 20), .json = BUF((size_t)16 << 20)};
	frame_reader_init(&a->reader, &keep, a);
}

static void UNUSED
answer_free(struct answer *a)
{
	frame_reader_free(&a->reader);
	buf_free(&a->data);
	buf_free(&a->json);
}
#define AUTO_ANSWER __attribute__((cleanup(answer_free)))

static void UNUSED
part_ended(struct part *p)
{
	int st;

	if (p->in >= 0)
		(void)close(p->in);
	(void)close(p->out);
	assert_int_equal(waitpid(p->pid, &st, 0), p->pid);
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) <= 1);
}

/* Runs a part to its end with this input, and fails the test if it does not end. */
static void UNUSED
part_run(struct answer *a, struct str input, const char *const *argv)
{
	struct part p = part_start(argv);
	bool more = true;

	answer_init(a);
	while (more) {
		struct pollfd f[] = {{.fd = p.out, .events = POLLIN},
		    {.fd = input.n != 0 ? p.in : -1, .events = POLLOUT}};
		char room[32768];

		if (poll(f, 2, HANGS_MS) <= 0) {
			(void)kill(p.pid, SIGKILL);
			fail_msg("%s %s hangs", argv[0], argv[1]);
		}
		if (f[1].revents != 0) {
			ssize_t k = write(p.in, input.p, input.n < 4096 ? input.n : 4096);

			k = k < 0 ? (ssize_t)input.n : k;
			input.p += k;
			input.n -= (size_t)k;
		}
		if (input.n == 0 && p.in >= 0) {
			(void)close(p.in);
			p.in = -1;
		}
		if (f[0].revents != 0) {
			ssize_t k = read(p.out, room, sizeof(room));

			more = k > 0;
			if (more && a->rc == 0)
				a->rc = frame_feed(&a->reader, str_mem(room, (size_t)k), &a->err);
		}
	}
	assert_true(a->reader.ended);
	part_ended(&p);
}
#define RUN(a, input, ...) part_run(a, input, (const char *const[]){__VA_ARGS__, NULL})

static void UNUSED
says(struct answer *a, int rc, const char *words)
{
	if (a->rc != rc || (rc != 0 && strstr(a->err.msg, words) == NULL))
		fail_msg("%d \"%s\", wanted %d \"%s\"", a->rc, a->err.msg, rc, words);
}

static char *UNUSED
in_top(const char *name)
{
	return xasprintf("%s/%s", top, name);
}

static void UNUSED
put(const char *name, const char *text, mode_t mode)
{
	AUTO_FREE char *path = in_top(name);
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
}

static void UNUSED
is(const char *name, const char *text)
{
	AUTO_FREE char *path = in_top(name);
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	char room[256];
	ssize_t n;

	if (text == NULL) {
		assert_int_equal(fd, -1);
		return;
	}
	assert_true(fd >= 0);
	n = read(fd, room, sizeof(room));
	assert_int_equal(n, (ssize_t)strlen(text));
	assert_memory_equal(room, text, (size_t)n);
}

static void UNUSED
framed(struct buf *out, struct str data)
{
	AUTO_BUF struct buf n = BUF(8);

	buf_u64(&n, data.n);
	for (size_t k; data.n != 0; data.p += k, data.n -= k) {
		k = data.n < FRAME_DATA_MAX ? data.n : FRAME_DATA_MAX;
		frame_put(out, FRAME_DATA, (struct str){data.p, k});
	}
	frame_put(out, FRAME_END, buf_str(&n));
}

static int UNUSED
inside_setup(void **state UNUSED)
{
	(void)snprintf(top, sizeof(top), "/tmp/cofferdam-t_inside.XXXXXX");
	program = proc_program("cofferdam-inside");
	(void)signal(SIGPIPE, SIG_IGN);
	return program != NULL && mkdtemp(top) != NULL ? 0 : -1;
}

static int UNUSED
inside_teardown(void **state UNUSED)
{
	AUTO_FREE char *all = xstrdup(top);
	struct part p = part_start((const char *const[]){"remove", all, "tree", NULL});
	int st;

	(void)close(p.in);
	(void)close(p.out);
	(void)waitpid(p.pid, &st, 0);
	free(program);
	return access(top, F_OK) != 0 ? 0 : -1;
}

#endif
