/*
 * The holder of one context (a process of the keeper's): an interpreter that keeps its variables,
 * and the cells that wait for it. One cell at a time, in the order they came; one whose stream is
 * closed is interrupted, or passed over.
 */
#include "agent/keeper_run.h"

#include <sys/epoll.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define CELLS_MAX 64 /* that wait */
#define KEPT 65536   /* of output for the record, at each end */

struct cell {
	uint64_t turn;
	uint32_t timeout_ms;
	struct str code;
	int stream;
};

struct context {
	struct keeper_holder h;
	struct sandbox_context *context;
	char *id; /* on the record */
	struct cell cells[CELLS_MAX];
	size_t ncells;
	int stream; /* of the cell that runs; -1: nobody is there any more */
	int watch;
	bool restart, stop;
	uint32_t begun; /* cells */
};

static void
cell_free(struct cell *c)
{
	free((void *)(uintptr_t)c->code.p);
	cleanup_close_fd(&c->stream);
}

static void
failed_put(struct buf *b, int code, const char *words)
{
	struct err e = {0};

	(void)err_set(&e, code, "%s", words);
	keeper_error_put(b, &e);
}

static void
refuse(int stream, int code, const char *words)
{
	AUTO_BUF struct buf b = BUF(8192);
	struct err e = {0};

	failed_put(&b, code, words);
	(void)wire_send(stream, KEEPER_FAILED, &b, NULL, 0, &e);
}

static void
cell_take(struct context *c, struct wire_msg *m)
{
	struct rd r = rd_init(buf_str(&m->body));
	struct cell cell = {.turn = rd_u64(&r), .timeout_ms = rd_u32(&r)};
	struct str code = rd_lstr(&r);

	if (!rd_end(&r) || m->nfds != 1)
		return;
	cell.stream = TAKE_FD(m->fds[0]);
	if (c->ncells == CELLS_MAX) {
		refuse(cell.stream, ERR_BUSY, "64 cells wait for this context, the limit");
		(void)close(cell.stream);
		return;
	}
	cell.code = (struct str){.p = str_dup(code), .n = code.n};
	c->cells[c->ncells++] = cell;
}

static void
other(void *arg, struct wire_msg *m)
{
	struct context *c = arg;

	if (m->type == HOLD_CELL)
		cell_take(c, m);
	if (m->type == HOLD_RESTART) {
		c->restart = true;
		c->stop = true;
	}
}

/* --- a cell -------------------------------------------------------------------------------- */

static void
tell(struct context *c, uint8_t type, const struct buf *b)
{
	if (c->stream >= 0 && !keeper_holder_send(&c->h, c->stream, type, b, other, c, &c->stop))
		cleanup_close_fd(&c->stream);
}

static void
on_output(void *arg, int stream, struct str bytes)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);

	buf_u32(&b, (uint32_t)stream);
	buf_put_str(&b, bytes);
	tell(arg, KEEPER_OUTPUT, &b);
}

static void
on_display(void *arg, bool result, struct str json)
{
	struct context *c = arg;
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);

	buf_u32(&b, result ? 1 : 0);
	buf_put_str(&b, json);
	if (buf_over(&b)) {
		static const char words[] = "{\"text/plain\":\"(a result of over 4 MiB)\"}";

		buf_reset(&b);
		buf_u32(&b, result ? 1 : 0);
		buf_put_z(&b, words);
	}
	tell(c, KEEPER_DISPLAY, &b);
}

/* True: the cell is to end. */
static bool
on_watch(void *arg)
{
	struct context *c = arg;
	struct pollfd p[2] = {
	    {.fd = c->h.wire, .events = POLLIN}, {.fd = c->stream, .events = POLLIN | POLLRDHUP}};
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct err e = {0};

	if (poll(p, ARRAY_LEN(p), 0) > 0 && p[0].revents != 0) {
		if (wire_recv(c->h.wire, WIRE_SEND_MS, WIRE_BODY_MAX, &m, &e) != 0)
			c->h.gone = true;
		else
			other(c, &m);
	}
	return c->h.gone || c->stop || c->stream < 0 || p[1].revents != 0;
}

static int
watch_open(struct context *c, struct err *err)
{
	struct epoll_event in = {.events = EPOLLIN}, gone = {.events = EPOLLIN | EPOLLRDHUP};

	c->watch = epoll_create1(EPOLL_CLOEXEC);
	if (c->watch < 0 || epoll_ctl(c->watch, EPOLL_CTL_ADD, c->h.wire, &in) != 0 ||
	    (c->stream >= 0 && epoll_ctl(c->watch, EPOLL_CTL_ADD, c->stream, &gone) != 0))
		return err_sys(err, ERR_SYSTEM, errno, "epoll");
	return 0;
}

static int
cell_run(struct context *c, const struct cell *cell, struct sandbox_cell_result *r, struct err *err)
{
	struct sandbox_cell x = {.code = cell->code,
	    .timeout_ms = cell->timeout_ms,
	    .output = on_output,
	    .display = on_display,
	    .arg = c,
	    .watch_fd = &c->watch,
	    .watch = on_watch,
	    .watch_arg = c,
	    .head = KEPT,
	    .tail = KEPT};
	int rc = watch_open(c, err);

	return rc == 0 ? sandbox_context_run(c->context, &x, r, err) : rc;
}

static void
tell_ended(struct context *c, struct sandbox_cell_result *r)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);

	r->out.cause = r->cause;
	keeper_ended_put(&b, &r->out, r->end, r->error_name, r->error_value, r->traceback);
	if (buf_over(&b)) {
		buf_reset(&b);
		keeper_ended_put(&b, &r->out, r->end, r->error_name, "", "");
	}
	tell(c, KEEPER_ENDED, &b);
}

/* A cell has no exit status: an error is 1. */
static void
cell_record(struct context *c, const struct cell *cell, struct sandbox_cell_result *r)
{
	struct sandbox_result out = r->out;

	out.cause = r->cause != SANDBOX_NONE ? r->cause : SANDBOX_EXITED;
	out.value = r->end == SANDBOX_CELL_OK ? 0 : r->value != 0 ? r->value : 1;
	keeper_holder_result(&c->h, &out, cell->turn, c->id, other, c);
}

static void
tell_begun(struct context *c)
{
	AUTO_BUF struct buf b = BUF(16);

	buf_u32(&b, ++c->begun);
	tell(c, KEEPER_STARTED, &b);
}

static void
cell_do(struct context *c, struct cell *cell)
{
	struct sandbox_cell_result r = {0};
	AUTO_BUF struct buf b = BUF(8192);
	struct err e = {0};
	int rc;

	c->stream = TAKE_FD(cell->stream);
	tell_begun(c);
	rc = cell_run(c, cell, &r, &e);
	cleanup_close_fd(&c->watch);
	c->stop = false;
	if (rc == 0) {
		cell_record(c, cell, &r);
		tell_ended(c, &r);
		sandbox_cell_free(&r);
	} else {
		keeper_holder_refused(&c->h, e.msg, cell->turn, c->id, other, c);
		failed_put(&b, e.code, e.msg);
		tell(c, KEEPER_FAILED, &b);
	}
	cleanup_close_fd(&c->stream);
	if (rc == ERR_UNAVAILABLE && !c->h.gone)
		c->h.gone = wire_send(c->h.wire, HOLD_GONE, NULL, NULL, 0, &e) != 0;
}

/* --- its life --------------------------------------------------------------------------------- */

static int
opened(struct context *c, const struct keeper_run *k, const char *language, const char *cwd,
    struct err *err)
{
	AUTO_BUF struct buf b = BUF(256);
	struct sandbox_result none = {.cause = SANDBOX_EXITED};
	struct err e = {0};
	int rc = sandbox_attach(k->ask.id, &c->h.sandbox, err);

	if (rc != 0 ||
	    (rc = sandbox_context_open(c->h.sandbox, language, cwd, 0, &c->context, err)) != 0)
		return rc;
	buf_u32(&b, 0);
	(void)wire_send(c->stream, KEEPER_STARTED, &b, NULL, 0, &e);
	buf_reset(&b);
	keeper_ended_put(&b, &none, SANDBOX_CELL_OK, "", "", "");
	(void)wire_send(c->stream, KEEPER_ENDED, &b, NULL, 0, &e);
	return 0;
}

static void
turn(struct context *c)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct cell cell;
	struct err e = {0};

	if (c->restart) {
		c->restart = c->stop = false;
		c->begun = 0;
		if (sandbox_context_restart(c->context, &e) == ERR_UNAVAILABLE)
			c->h.gone = true;
	} else if (c->ncells != 0) {
		cell = c->cells[0];
		memmove(c->cells, c->cells + 1, --c->ncells * sizeof(c->cells[0]));
		cell_do(c, &cell);
		cell_free(&cell);
	} else if (wire_recv(c->h.wire, -1, WIRE_BODY_MAX, &m, &e) != 0) {
		c->h.gone = true;
	} else {
		other(c, &m);
	}
}

void
keeper_context_hold(
    struct keeper_run *k, const char *language, const char *cwd, int wire, int stream)
{
	struct context *c = xcalloc(1, sizeof(*c));
	struct err e = {0};

	keeper_holder_enter(&wire, &stream, k->self);
	c->id = xasprintf("c%u", k->next_context + 1);
	c->h.wire = wire;
	c->stream = stream;
	c->watch = -1;
	if (opened(c, k, language, cwd, &e) != 0) {
		refuse(c->stream, e.code, e.msg);
		_exit(1);
	}
	cleanup_close_fd(&c->stream);
	while (!c->h.gone)
		turn(c);
	_exit(0);
}
