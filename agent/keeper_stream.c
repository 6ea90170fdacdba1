/*
 * What a keeper's callers ask of it once it is there, and the streams of programs and cells. Runs
 * in servers and their workers. What comes out of a stream was written by code that nobody trusts.
 */
#include "agent/keeper.h"

#include "common/xalloc.h"
#include "agent/keeper_client.h"

#include "common/banned.h"

#define GOING_MS 5000

struct keeper_stream {
	int fd;
	struct wire_msg m; /* what the last event borrows from */
};

/* --- the run as a whole --------------------------------------------------------------- */

static int
text_of(struct keeper *k, uint8_t type, const struct buf *body, struct buf *ret, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct rd r;
	struct str s;
	int rc = keeper_ask(k, type, body, &m, err);

	if (rc != 0)
		return rc;
	r = rd_init(buf_str(&m.body));
	s = rd_lstr(&r);
	if (!rd_end(&r))
		return err_set(err, ERR_PROTOCOL, "keeper: malformed answer");
	buf_put_str(ret, s);
	return 0;
}

int
keeper_state(struct keeper *k, struct buf *ret, struct err *err)
{
	return text_of(k, KEEPER_STATE, NULL, ret, err);
}

int
keeper_programs(struct keeper *k, struct buf *ret, struct err *err)
{
	return text_of(k, KEEPER_PROGRAMS, NULL, ret, err);
}

int
keeper_contexts(struct keeper *k, struct buf *ret, struct err *err)
{
	return text_of(k, KEEPER_CONTEXTS, NULL, ret, err);
}

int
keeper_time(struct keeper *k, uint32_t seconds, bool pauses, struct err *err)
{
	AUTO_BUF struct buf b = BUF(16);

	buf_u32(&b, seconds);
	buf_u8(&b, pauses ? 1 : 0);
	return keeper_tell(k, KEEPER_TIME, &b, err);
}

int
keeper_pause(struct keeper *k, struct err *err)
{
	return keeper_tell(k, KEEPER_PAUSE, NULL, err);
}

int
keeper_resume(struct keeper *k, uint32_t seconds, struct err *err)
{
	AUTO_BUF struct buf b = BUF(16);

	buf_u32(&b, seconds);
	return keeper_tell(k, KEEPER_RESUME, &b, err);
}

int
keeper_narrow(struct keeper *k, const char *const *allow, size_t n, struct err *err)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);

	keeper_list_put(&b, allow, n);
	return keeper_tell(k, KEEPER_NARROW, &b, err);
}

int
keeper_event(
    struct keeper *k, const char *type, struct str fields, struct str content, struct err *err)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);

	buf_lz(&b, type);
	buf_lstr(&b, fields);
	buf_lstr(&b, content);
	return keeper_tell(k, KEEPER_EVENT, &b, err);
}

int
keeper_query(struct keeper *k, const char *verb, struct str args, struct buf *ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(16384);

	buf_lz(&b, verb);
	buf_lstr(&b, args);
	return text_of(k, KEEPER_QUERY, &b, ret, err);
}

int
keeper_end(struct keeper *k, const char *status, const char *text, struct err *err)
{
	AUTO_BUF struct buf b = BUF(8192);
	struct str s = str_z(text);
	struct err ignored;
	int rc;

	buf_lz(&b, status);
	buf_lstr(&b, (struct str){s.p, s.n < 3000 ? s.n : 3000});
	rc = keeper_tell(k, KEEPER_END, &b, err);
	/* That was its last word: now it goes itself. */
	if (rc == 0)
		(void)wire_wait(k->fd, POLLIN, wire_now_ms() + GOING_MS, &ignored);
	cleanup_close_fd(&k->fd);
	return rc;
}

/* --- by number ------------------------------------------------------------------------- */

int
keeper_input(struct keeper *k, uint32_t number, struct str bytes, bool close, struct err *err)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);

	buf_u32(&b, number);
	buf_u8(&b, close ? 1 : 0);
	buf_lstr(&b, bytes);
	return keeper_tell(k, KEEPER_INPUT, &b, err);
}

int
keeper_signal(struct keeper *k, uint32_t number, int signal, struct err *err)
{
	AUTO_BUF struct buf b = BUF(16);

	buf_u32(&b, number);
	buf_u32(&b, (uint32_t)signal);
	return keeper_tell(k, KEEPER_SIGNAL, &b, err);
}

int
keeper_resize(struct keeper *k, uint32_t number, uint16_t rows, uint16_t cols, struct err *err)
{
	AUTO_BUF struct buf b = BUF(16);

	buf_u32(&b, number);
	buf_u16(&b, rows);
	buf_u16(&b, cols);
	return keeper_tell(k, KEEPER_RESIZE, &b, err);
}

static int
by_id(struct keeper *k, uint8_t type, const char *id, struct err *err)
{
	AUTO_BUF struct buf b = BUF(256);

	buf_lz(&b, id);
	return keeper_tell(k, type, &b, err);
}

int
keeper_context_close(struct keeper *k, const char *id, struct err *err)
{
	return by_id(k, KEEPER_CLOSE, id, err);
}

int
keeper_context_restart(struct keeper *k, const char *id, struct err *err)
{
	return by_id(k, KEEPER_RESTART, id, err);
}

/* --- streams ----------------------------------------------------------------------------- */

static int
stream_take(struct wire_msg *m, struct keeper_stream **ret, struct err *err)
{
	struct keeper_stream *s;

	if (m->nfds != 1)
		return err_set(err, ERR_PROTOCOL, "keeper: no stream came");
	s = xcalloc(1, sizeof(*s));
	s->fd = TAKE_FD(m->fds[0]);
	s->m = WIRE_MSG;
	*ret = s;
	return 0;
}

static int
stream_ask(struct keeper *k, uint8_t type, const struct buf *b, struct keeper_stream **ret,
    struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	int rc = buf_over(b) ? err_set(err, ERR_TOO_LARGE, "keeper: a request is over %zu bytes",
				   WIRE_BODY_MAX)
			     : keeper_ask(k, type, b, &m, err);

	return rc == 0 ? stream_take(&m, ret, err) : rc;
}

void
keeper_caller_set(struct keeper *k, const struct keeper_caller *c)
{
	k->caller = c;
}

int
keeper_program(struct keeper *k, const struct sandbox_exec *x, const char *label,
    struct keeper_stream **ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);

	keeper_caller_put(&b, k->caller);
	keeper_program_encode(x, label, &b);
	return stream_ask(k, KEEPER_PROGRAM, &b, ret, err);
}

int
keeper_attach(struct keeper *k, uint32_t number, struct keeper_stream **ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(16);

	buf_u32(&b, number);
	return stream_ask(k, KEEPER_ATTACH, &b, ret, err);
}

static int
context_ask(struct keeper *k, const char *language, const char *cwd, bool shared, char *ret_id,
    struct keeper_stream **ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	AUTO_FREE char *id = NULL;
	struct rd r;
	int rc;

	buf_lz(&b, language);
	buf_lz(&b, cwd);
	buf_u8(&b, shared ? 1 : 0);
	if ((rc = keeper_ask(k, KEEPER_CONTEXT, &b, &m, err)) != 0)
		return rc;
	r = rd_init(buf_str(&m.body));
	id = keeper_text_take(&r);
	if (!rd_end(&r) || id == NULL || strlen(id) > KEEPER_ID_MAX)
		return err_set(err, ERR_PROTOCOL, "keeper: malformed answer");
	memcpy(ret_id, id, strlen(id) + 1);
	*ret = NULL;
	return shared && m.nfds == 0 ? 0 : stream_take(&m, ret, err);
}

int
keeper_context_open(struct keeper *k, const char *language, const char *cwd, char *ret_id,
    struct keeper_stream **ret, struct err *err)
{
	return context_ask(k, language, cwd, false, ret_id, ret, err);
}

int
keeper_context_shared(struct keeper *k, const char *language, char *ret_id,
    struct keeper_stream **ret, struct err *err)
{
	return context_ask(k, language, NULL, true, ret_id, ret, err);
}

int
keeper_cell(struct keeper *k, const char *id, struct str code, uint32_t timeout_ms,
    struct keeper_stream **ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);

	keeper_caller_put(&b, k->caller);
	buf_lz(&b, id);
	buf_u32(&b, timeout_ms);
	buf_lstr(&b, code);
	return stream_ask(k, KEEPER_CELL, &b, ret, err);
}

static bool
ended_take(struct rd *r, struct keeper_event *e)
{
	unsigned cause = rd_u8(r), end;

	e->value = (int)rd_u32(r);
	end = rd_u8(r);
	e->total = rd_u64(r);
	e->duration_us = rd_u64(r);
	e->name = rd_lstr(r);
	e->error = rd_lstr(r);
	e->trace = rd_lstr(r);
	e->cause = (enum sandbox_cause)cause;
	e->end = (enum sandbox_cell_end)end;
	return rd_end(r) && cause <= SANDBOX_POLICY && end <= SANDBOX_CELL_LOST;
}

static bool
event_take(const struct wire_msg *m, struct keeper_event *e)
{
	struct rd r = rd_init(buf_str(&m->body));

	*e = (struct keeper_event){.type = (enum keeper_event_type)m->type};
	switch (m->type) {
	case KEEPER_STARTED: e->number = rd_u32(&r); return rd_end(&r);
	case KEEPER_OUTPUT:
	case KEEPER_DISPLAY:
		e->number = rd_u32(&r);
		e->bytes = rd_bytes(&r, r.n);
		return rd_end(&r);
	case KEEPER_FAILED:
		e->code = -(int)rd_u32(&r);
		e->bytes = rd_lstr(&r);
		return rd_end(&r) && e->code < 0 && e->code >= -100;
	case KEEPER_ENDED: return ended_take(&r, e);
	}
	return false;
}

int
keeper_next(struct keeper_stream *s, int timeout_ms, struct keeper_event *ret, struct err *err)
{
	struct err e = {0};
	int rc;

	if (timeout_ms >= 0 &&
	    (rc = wire_wait(s->fd, POLLIN, wire_now_ms() + timeout_ms + 1, err)) != 0)
		return rc;
	if (wire_recv(s->fd, -1, WIRE_BODY_MAX, &s->m, &e) != 0)
		return err_set(err, ERR_UNAVAILABLE, "the run has ended (its keeper is gone)");
	if (!event_take(&s->m, ret))
		return err_set(err, ERR_PROTOCOL, "keeper: malformed event");
	return 0;
}

int
keeper_stream_fd(const struct keeper_stream *s)
{
	return s->fd;
}

void
keeper_stream_close(struct keeper_stream *s)
{
	if (s == NULL)
		return;
	cleanup_close_fd(&s->fd);
	wire_msg_free(&s->m);
	free(s);
}
