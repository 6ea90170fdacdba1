/*
 * The body of a request: beside its head, into a sealed file for core, past a hash, or in parts to
 * upstream as far as that asks for them. Runs in front on hostile bytes. What a body says of its
 * own size is believed nowhere: bytes are counted as they come, and one too many ends it.
 */
#include "broker/front_http.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "common/log.h"

#include "common/banned.h"

#define CREDIT_MAX ((uint64_t)1 << 20)

void
front_http_body_free(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;

	if (x->memfd >= 0)
		(void)close(TAKE_FD(x->memfd));
	if (x->spooled != 0 && c->listener != NULL)
		front_listen_unspool(c->listener, x->spooled);
	x->spooled = 0;
	if (x->hash != NULL)
		(void)hash_end(TAKE_PTR(x->hash));
	buf_free(&x->part);
	x->sink = FRONT_SINK_NONE;
}

static void
start_message(const struct front_conn *c, struct buf *b)
{
	buf_u64(b, c->id);
	buf_u64(b, c->http->act);
}

/* --- a part's way ------------------------------------------------------------------ */

static bool
spool(struct front_conn *c, struct str s)
{
	struct front_exchange *x = &c->http->x;

	if (!front_listen_spool(c->listener, s.n)) {
		front_http_problem(c, 503, "too many bodies wait to be judged");
		return false;
	}
	x->spooled += s.n;
	while (s.n != 0) {
		ssize_t n = write(x->memfd, s.p, s.n);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			log_error("a body cannot be kept: %s", strerror(errno));
			front_http_problem(c, 503, "the body cannot be kept");
			return false;
		}
		s.p += n;
		s.n -= (size_t)n;
	}
	return true;
}

/* As much as upstream wants, in one message; the last one may be empty. */
static void
send_part(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;
	size_t n = x->part.n < x->credit ? x->part.n : (size_t)x->credit;
	bool last = x->whole && n == x->part.n;
	AUTO_BUF struct buf b = BUF(FRONT_HTTP_PART_MAX + 64);

	/* Upstream hears of the request from core, and then asks for its body. */
	if (!x->granted || (n == 0 && !last))
		return;
	start_message(c, &b);
	buf_u8(&b, last);
	buf_lstr(&b, str_mem(x->part.p, n));
	front_hub_upstream(c->hub, MSG_FU_BODY, &b);
	buf_drop(&x->part, n);
	x->credit -= n;
	if (last)
		front_http_body_free(c);
}

static bool
take(struct front_conn *c, struct str s)
{
	struct front_exchange *x = &c->http->x;

	switch (x->sink) {
	case FRONT_SINK_MEMFD:
	case FRONT_SINK_START: return spool(c, s);
	case FRONT_SINK_HASH: hash_add(x->hash, s.p, s.n); break;
	case FRONT_SINK_INLINE:
	case FRONT_SINK_STREAM: buf_put_str(&x->part, s); break;
	case FRONT_SINK_NONE: break;
	}
	return true;
}

static void
hand_over(struct front_conn *c)
{
	const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	struct front_exchange *x = &c->http->x;
	AUTO_BUF struct buf b = BUF(64);

	x->started = x->sink == FRONT_SINK_START;
	if (fcntl(x->memfd, F_ADD_SEALS, seals) != 0) {
		log_error("a body cannot be sealed: %s", strerror(errno));
		front_http_problem(c, 503, "the body cannot be kept");
		return;
	}
	start_message(c, &b);
	buf_u64(&b, x->spooled);
	if (c->hub->core != NULL)
		ipc_send(c->hub->core, MSG_H_BODY, &b, &x->memfd, 1);
	front_http_body_free(c);
}

static void
hashed(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;
	struct hash sum = hash_end(TAKE_PTR(x->hash));
	AUTO_BUF struct buf b = BUF(128);

	start_message(c, &b);
	buf_u64(&b, x->reader.total);
	buf_put(&b, sum.b, sizeof(sum.b));
	front_hub_core(c->hub, MSG_H_HASHED, &b);
	front_http_body_free(c);
}

static void
ended(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;

	x->whole = true;
	front_conn_deadline(c, 0);
	switch (x->sink) {
	case FRONT_SINK_INLINE:
		front_http_act(c, 1, buf_str(&x->part));
		front_http_body_free(c);
		break;
	case FRONT_SINK_MEMFD:
	case FRONT_SINK_START: hand_over(c); break;
	case FRONT_SINK_HASH: hashed(c); break;
	case FRONT_SINK_STREAM: send_part(c); break;
	case FRONT_SINK_NONE: break;
	}
}

/* --- reading ----------------------------------------------------------------------- */

/*
 * A chunked body goes out in parts, so that what is wrong with a later chunk can only break the
 * request off. The first one is looked at, with what else is here, before anybody hears of it.
 */
static void
look_ahead(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;
	struct http_reader r = x->reader;
	struct str in = front_conn_in(c), run;
	struct err err = {0};
	bool some = false;
	int rc = 0;

	while (rc == 0 && in.n != 0) {
		rc = http_reader_next(&r, &in, &run, &err);
		some = some || run.n != 0 || rc == 1;
	}
	if (rc < 0)
		front_http_fault(c, err.msg, str_mem(x->ask.p + x->head_at, x->ask.n - x->head_at));
	else if (some)
		front_http_act(c, 3, STR_NONE);
}

/* False: nothing more can be done now. */
static bool
step(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;
	struct str in = front_conn_in(c), rest, run;
	struct err err = {0};
	size_t room = x->part.max - x->part.n;
	int rc;

	if (x->sink == FRONT_SINK_STREAM && in.n > room)
		in.n = room;
	if (x->sink == FRONT_SINK_START && in.n > x->most - x->spooled)
		in.n = (size_t)(x->most - x->spooled);
	rest = in;
	rc = http_reader_next(&x->reader, &rest, &run, &err);
	c->in_at += in.n - rest.n;
	if (rc < 0) {
		front_http_problem(c, 400, err.msg);
		return false;
	}
	if (x->sink != FRONT_SINK_START && x->reader.total > x->most) {
		front_http_problem(c, 413, "the body is larger than may be sent there");
		return false;
	}
	if (!take(c, run))
		return false;
	if (rc == 1)
		ended(c);
	else if (x->sink == FRONT_SINK_START && x->spooled == x->most)
		hand_over(c);
	return rc == 0 && in.n != 0;
}

/* Small chunks are gathered: a part goes out when it is full, or there is no more for now. */
static bool
advance(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;

	if (x->sink == FRONT_SINK_STREAM && x->part.n == x->part.max)
		send_part(c);
	return x->sink != FRONT_SINK_NONE && !x->whole && step(c);
}

/* Only a client that we want something of can be too slow. */
static void
set_clock(struct front_conn *c)
{
	const struct front_exchange *x = &c->http->x;
	bool wants =
	    c->http->state == FRONT_HTTP_BODY ||
	    (x->sink != FRONT_SINK_NONE && x->part.n < x->part.max && (!x->expect || x->continued));

	if (c->phase == FRONT_OPEN && !x->stream) /* a stream may be silent */
		front_conn_deadline(c, wants && !x->whole ? c->hub->clocks.body : 0);
}

void
front_http_body(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;

	if (c->http->state == FRONT_HTTP_BODY && x->sink == FRONT_SINK_NONE)
		look_ahead(c);
	if (x->sink == FRONT_SINK_STREAM && front_hub_busy(c, c->hub->upstream))
		return;
	while (advance(c))
		;
	x->whole |= x->eof && front_conn_in(c).n == 0;
	if (x->sink == FRONT_SINK_STREAM)
		send_part(c);
	set_clock(c);
}

/* --- what core and upstream ask for ------------------------------------------------ */

static void
go_on(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;

	if (x->expect && !x->continued)
		front_conn_put(c, STR("HTTP/1.1 100 Continue\r\n\r\n"));
	x->continued = true;
}

/* False: it is known already to be too much. */
static bool
limit(struct front_conn *c, uint64_t most)
{
	struct front_exchange *x = &c->http->x;

	x->most = most;
	if (x->body != HTTP_BODY_LENGTH || x->length <= most)
		return true;
	front_http_problem(c, 413, "the body is larger than may be sent there");
	return false;
}

bool
front_http_need(struct front_conn *c, uint8_t how, uint64_t most)
{
	struct front_exchange *x = &c->http->x;

	if (x->faulty || x->go || x->whole || x->sink != FRONT_SINK_NONE || how < 1 || how > 3)
		return false;
	if (how == 3)
		x->most = most;
	else if (!limit(c, most))
		return true;
	if (how == 2) {
		x->sink = FRONT_SINK_HASH;
		x->hash = hash_begin();
	} else {
		x->sink = how == 3 ? FRONT_SINK_START : FRONT_SINK_MEMFD;
		x->memfd = memfd_create("cofferdam-body", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (x->memfd < 0) {
			log_error("memfd_create: %s", strerror(errno));
			front_http_problem(c, 503, "the body cannot be kept");
			return true;
		}
	}
	go_on(c);
	front_conn_kick(c);
	return true;
}

bool
front_http_stream(struct front_conn *c, uint64_t most)
{
	struct front_exchange *x = &c->http->x;

	if (!limit(c, most))
		return false;
	x->sink = FRONT_SINK_STREAM;
	x->part.max = FRONT_HTTP_PART_MAX; /* nothing is in it yet */
	if (x->granted)
		go_on(c);
	return true;
}

void
front_http_more(struct front_conn *c, uint32_t bytes)
{
	struct front_exchange *x = &c->http->x;

	/* It may be here before core's word is: the two come on different wires. */
	x->granted = true;
	x->credit += bytes;
	if (x->credit > CREDIT_MAX)
		x->credit = CREDIT_MAX;
	if (x->sink != FRONT_SINK_STREAM)
		return;
	go_on(c);
	front_conn_kick(c);
}
