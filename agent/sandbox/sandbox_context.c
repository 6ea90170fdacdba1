/*
 * Contexts: an interpreter that stays, one program inside whose pipes and socket this process
 * holds. Runs in the caller. What the interpreter says comes from a process full of hostile code;
 * it is believed about its own cell and nothing else. No wait here is without an end.
 */
#include "agent/sandbox/sandbox_context.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>

#include "common/xalloc.h"

#include "common/banned.h"

/* driver_py, driver_sh, driver_js and their sizes: made at build time. */
#include "agent/sandbox/context_drivers.h"

#define SHOWN 48 /* bytes of a driver that tell it from other code */

static const struct context_driver drivers[] = {
    {"python", {"python3", "-u", "-c"}, driver_py, &driver_py_size, {"MPLBACKEND=Agg"}, NULL},
    {"bash", {"bash", "--noprofile", "--norc", "-c"}, driver_sh, &driver_sh_size, {NULL},
	"/dev/fd/211:"},
    {"javascript", {"node", "-e"}, driver_js, &driver_js_size, {NULL}, NULL},
};

const struct context_driver *
context_driver(const char *language)
{
	for (size_t i = 0; i < ARRAY_LEN(drivers); i++)
		if (strcmp(drivers[i].language, language) == 0)
			return &drivers[i];
	return NULL;
}

const char *
sandbox_context_language(const char *program, const char *last)
{
	for (size_t i = 0; i < ARRAY_LEN(drivers); i++)
		if (strcmp(program, drivers[i].argv[0]) == 0 && *drivers[i].size > SHOWN &&
		    strncmp(last, (const char *)drivers[i].text, SHOWN) == 0)
			return drivers[i].language;
	return NULL;
}

static int
interpreter_start(struct sandbox_context *c, struct err *err)
{
	AUTO_FREE char *text = str_dup(str_mem(c->driver->text, *c->driver->size));
	const char *argv[ARRAY_LEN(c->driver->argv) + 2];
	struct sandbox_exec x = {
	    .cwd = c->cwd, .stdin_fd = -1, .env = c->driver->env, .nfds = 1, .tied = true};
	AUTO_FD int theirs = -1;
	int pair[2];
	size_t n = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: socketpair");
	c->wire = pair[0];
	theirs = pair[1];
	(void)fcntl(c->wire, F_SETFL, O_NONBLOCK);
	while (n < ARRAY_LEN(c->driver->argv) && c->driver->argv[n] != NULL) {
		argv[n] = c->driver->argv[n];
		n++;
	}
	argv[n++] = text;
	argv[n] = NULL;
	memcpy(&x.argv, &(const char *const *){argv}, sizeof(x.argv));
	x.fds = &theirs;
	client_leave(c->sb);
	return client_start(c->sb, &x, false, &c->st, err);
}

void
context_begin_limit(struct sandbox_context *c, uint32_t timeout_ms)
{
	c->begin_ms =
	    timeout_ms != 0 && timeout_ms < CONTEXT_BEGIN_MS ? timeout_ms : CONTEXT_BEGIN_MS;
}

/* The supervisor's own words: a name or a label in them cannot look like this. */
static uint64_t
number_in(const struct buf *json, const char *object, const char *name)
{
	const char *at = memmem(json->p, json->n, object, strlen(object));
	size_t left = at != NULL ? json->n - (size_t)(at - (const char *)json->p) : 0;

	at = at != NULL ? memmem(at, left, name, strlen(name)) : NULL;
	return at != NULL ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* *err with what is likely behind it: an interpreter that cannot make its threads may say so, or
 * wait for them for ever. */
static int
begin_failed(struct sandbox_context *c, const char *said, struct err *err)
{
	AUTO_BUF struct buf json = BUF(WIRE_BODY_MAX);
	struct err why = *err, ignored;
	uint64_t pids, max;

	if (sandbox_inspect(c->sb, &json, &ignored) != 0)
		return why.code;
	buf_put_c(&json, '\0');
	pids = number_in(&json, "\"usage\":{", "\"pids\":");
	max = number_in(&json, "\"limits\":{", "\"pids\":");
	if (max == 0 || (pids + 1 < max && strstr(said, "temporarily unavailable") == NULL &&
			    strstr(said, "EAGAIN") == NULL))
		return why.code;
	return err_set(err, why.code,
	    "%s; it could not make a process or thread: the limit pids is %llu, %llu are there: "
	    "end some, or create a sandbox with more",
	    why.msg, (unsigned long long)max, (unsigned long long)pids);
}

static const char *
stderr_take(struct sandbox_context *c, char *said, size_t room)
{
	ssize_t k = read(c->st.errs, said, room - 1);

	said[k > 0 ? k : 0] = '\0';
	for (ssize_t i = 0; i < k; i++)
		if (said[i] < 0x20 || said[i] > 0x7e)
			said[i] = ' ';
	return said;
}

/* Reads until the greeting. What the interpreter prints meanwhile is why it does not come. */
static int
greeting_take(struct sandbox_context *c, struct err *err)
{
	int64_t deadline = wire_now_ms() + c->begin_ms;
	char said[201];

	while (!c->reader.greeted) {
		int64_t left = deadline - wire_now_ms();
		struct pollfd p[] = {
		    {.fd = c->wire, .events = POLLIN}, {.fd = c->sb->wire, .events = POLLIN}};
		ssize_t k;

		if (left <= 0) {
			(void)err_set(err, ERR_TIMEOUT,
			    "sandbox: %s has not begun in %u ms, and was ended",
			    c->driver->language, c->begin_ms);
			return begin_failed(c, stderr_take(c, said, sizeof(said)), err);
		}
		if (poll(p, ARRAY_LEN(p), (int)left) < 0 && errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "sandbox: poll");
		if (p[1].revents != 0 && client_turn(c->sb, err) != 0)
			return err->code;
		k = recv(c->wire, c->room, sizeof(c->room), 0);
		if (k > 0 && cell_feed(&c->reader, str_mem(c->room, (size_t)k), err) != 0)
			return err->code;
		if (k == 0 || client_has(c->sb, c->st.tag)) {
			(void)err_set(err, ERR_UNAVAILABLE, "sandbox: %s ended at its begin: %s",
			    c->driver->language, stderr_take(c, said, sizeof(said)));
			return begin_failed(c, said, err);
		}
	}
	return 0;
}

int
context_begin(struct sandbox_context *c, struct err *err)
{
	struct sandbox_result r = {0};
	int rc;

	cell_reader_free(&c->reader);
	cell_reader_init(&c->reader, &context_cell_ops, c);
	rc = interpreter_start(c, err);
	if (rc == 0) {
		c->alive = true;
		rc = greeting_take(c, err);
	}
	if (rc != 0) {
		context_end(c, SANDBOX_KILLED, 0, &r);
		free(r.refused);
	}
	return rc;
}

void
context_end(
    struct sandbox_context *c, enum sandbox_cause why, int wait_ms, struct sandbox_result *ret)
{
	struct err e = {0};

	if (c->alive) {
		if (client_ended(c->sb, &c->st, wait_ms, ret, &e) == ERR_TIMEOUT) {
			client_kill(c->sb, &c->st, why);
			(void)client_ended(c->sb, &c->st, CLIENT_ANSWER_MS, ret, &e);
		}
	}
	c->alive = false;
	client_started_free(&c->st);
	cleanup_close_fd(&c->wire);
}

int
sandbox_context_open(struct sandbox *sb, const char *language, const char *cwd, uint32_t timeout_ms,
    struct sandbox_context **ret, struct err *err)
{
	const struct context_driver *d = context_driver(language);
	AUTO(sandbox_context) struct sandbox_context *c = NULL;
	struct err e = {0};

	if (d == NULL)
		return err_set(err, ERR_NOT_FOUND,
		    "sandbox: no context for language \"%s\" (python bash javascript)", language);
	c = xcalloc(1, sizeof(*c));
	c->sb = sb;
	c->driver = d;
	c->cwd = cwd != NULL ? xstrdup(cwd) : NULL;
	c->st = CLIENT_STARTED;
	c->wire = -1;
	context_begin_limit(c, timeout_ms);
	cell_reader_init(&c->reader, &context_cell_ops, c);
	if (context_begin(c, &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	*ret = TAKE_PTR(c);
	return 0;
}

int
sandbox_context_restart(struct sandbox_context *c, struct err *err)
{
	struct sandbox_result r = {0};
	struct err e = {0};

	context_end(c, SANDBOX_KILLED, 0, &r);
	free(r.refused);
	return context_begin(c, &e) == 0 ? 0 : err_set(err, e.code, "%s", e.msg);
}

void
sandbox_context_close(struct sandbox_context *c)
{
	struct sandbox_result r = {0};

	if (c == NULL)
		return;
	context_end(c, SANDBOX_KILLED, 0, &r);
	free(r.refused);
	cell_reader_free(&c->reader);
	free(c->cwd);
	free(c);
}
