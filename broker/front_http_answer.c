/*
 * What the client is told: answers of upstream, framed anew; refusals of core; the few that are
 * front's own. Runs in front. An answer is never longer or shorter than its head says: where it
 * would be, the connection breaks off. Where core said so, its end waits for the outcome's record.
 */
#include "broker/front_http.h"

#include "common/clock.h"

#include "common/banned.h"

#define ANSWER_MAX ((size_t)1 << 18)

/* --- heads ------------------------------------------------------------------------- */

static bool
lawful(const struct http_field *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!http_is_token(f[i].name) || !http_is_value(f[i].value))
			return false;
	return true;
}

/* Fields of ours, and none that frames: those are written by who frames. */
static void
put_fields(struct buf *b, const struct http_field *f, size_t n, bool with_length)
{
	for (size_t i = 0; i < n; i++) {
		if (http_field_is_hop(f, n, f[i].name))
			continue;
		if (!with_length && http_name_is(f[i].name, "Content-Length"))
			continue;
		http_put_field(b, f[i].name, f[i].value);
	}
}

static void
put_date(struct buf *b, const struct http_field *f, size_t n)
{
	char date[30];

	if (http_field_find(f, n, "Date") != NULL)
		return;
	http_date(clock_wall_us() / 1000000, date);
	http_put_field(b, STR("Date"), str_z(date));
}

static void
put_connection(const struct front_exchange *x, struct buf *b)
{
	if (x->last || !x->keep_alive)
		http_put_field(b, STR("Connection"), STR("close"));
	else if (x->minor == 0)
		http_put_field(b, STR("Connection"), STR("keep-alive"));
}

static void
put_receipt(const struct front_exchange *x, struct buf *b)
{
	if (x->receipt.n != 0)
		http_put_field(b, STR(HTTP_RECEIPT), buf_str(&x->receipt));
}

/* The head came before core's word, by another wire: the field goes behind its first line. */
static void
put_receipt_late(struct front_exchange *x)
{
	AUTO_BUF struct buf b = BUF(x->held.n + ANSWER_MAX);
	struct str rest = buf_str(&x->held), line;

	if (!x->headed || !str_cut(&rest, '\n', &line))
		return;
	buf_put_str(&b, line);
	buf_put_c(&b, '\n');
	put_receipt(x, &b);
	if (x->held_last != 0)
		x->held_last += b.n - line.n - 1;
	buf_put_str(&b, rest);
	buf_reset(&x->held);
	buf_put_str(&x->held, buf_str(&b));
}

/* --- answers that are here as a whole ------------------------------------------------ */

static void
put_whole(struct front_conn *c, const struct front_answer *a)
{
	struct front_exchange *x = &c->http->x;
	AUTO_BUF struct buf b = BUF(ANSWER_MAX + a->body.n);

	http_put_status(&b, a->status);
	put_date(&b, a->fields, a->n);
	put_fields(&b, a->fields, a->n, false);
	buf_printf(&b, "Content-Length: %zu\r\n", a->body.n);
	put_connection(x, &b);
	http_put_end(&b);
	if (!x->to_head)
		buf_put_str(&b, a->body);
	front_conn_put(c, buf_str(&b));
}

bool
front_http_answer(struct front_conn *c, const struct front_answer *a)
{
	struct front_exchange *x = &c->http->x;

	if (a->status < 200 || a->status > 999 || a->status == 204 || a->status == 304 ||
	    !lawful(a->fields, a->n))
		return false;
	x->told = true;
	if (x->begun) {
		front_http_cut(c);
		return true;
	}
	x->last = x->last || a->close || !x->whole;
	put_whole(c, a);
	front_http_next(c);
	return true;
}

void
front_http_problem(struct front_conn *c, unsigned status, const char *detail)
{
	struct front_exchange *x = &c->http->x;
	AUTO_BUF struct buf b = BUF(4096);
	struct front_answer a = {.status = status, .n = status == 503 ? 2 : 1};

	if (x->begun) {
		front_http_cut(c);
		return;
	}
	a.fields[0] = (struct http_field){STR("Content-Type"), STR("application/problem+json")};
	a.fields[1] = (struct http_field){STR("Retry-After"), STR("5")};
	/* The texts are ours, or the reader's, who quotes nothing. */
	buf_printf(&b, "{\"title\":\"%s\",\"status\":%u,\"detail\":\"%s\"}\n", http_reason(status),
	    status, detail);
	a.body = buf_str(&b);
	x->last = true;
	put_whole(c, &a);
	front_conn_close(c);
}

void
front_http_cut(struct front_conn *c)
{
	/* Where the end of the stream is the end of the answer, only a reset is none. */
	front_conn_cut(c, c->http->x.begun && c->http->x.framing == HTTP_BODY_CLOSE);
}

/* --- answers of upstream -------------------------------------------------------------- */

static void
let_go(struct front_conn *c, size_t n)
{
	struct front_exchange *x = &c->http->x;

	if (n == 0)
		return;
	x->begun = true;
	front_conn_put(c, str_mem(x->held.p, n));
	buf_drop(&x->held, n);
	x->held_last = x->held.n;
}

/*
 * One piece of the answer. The last one stays here until the outcome is on record, where that is
 * asked for; all of them, until core has said whether it is.
 */
static bool
put_piece(struct front_conn *c, struct str s)
{
	struct front_exchange *x = &c->http->x;

	if (x->go && (!x->hold || x->stream)) {
		x->begun = true;
		front_conn_put(c, s);
		return true;
	}
	if (x->go)
		let_go(c, x->held.n);
	x->held_last = x->held.n;
	buf_put_str(&x->held, s);
	return !buf_over(&x->held);
}

/* The end, once nothing is missing. */
static void
finish(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;

	if (!x->go || !x->ended || (x->hold && !x->done && !x->stream))
		return;
	let_go(c, x->held.n);
	if (x->framing == HTTP_BODY_CHUNKED && !x->answered)
		front_conn_put(c, STR("0\r\n\r\n"));
	x->answered = true;
	/* Who is to see the stream's end does not wait for the record. */
	if (x->done || x->last)
		front_http_next(c);
}

/* How the answer's end is told. False: it cannot be. */
static bool
frame(struct front_exchange *x, unsigned status, const struct http_field *f, size_t n)
{
	const struct http_field *length = NULL;
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		if (!http_name_is(f[i].name, "Content-Length"))
			continue;
		if (length != NULL || !str_to_u64(f[i].value, INT64_MAX, &bytes))
			return false;
		length = &f[i];
	}
	x->left = bytes;
	if (x->to_head || status == 204 || status == 304)
		x->framing = HTTP_BODY_NONE;
	else if (length != NULL)
		x->framing = HTTP_BODY_LENGTH;
	else
		x->framing = x->minor == 1 ? HTTP_BODY_CHUNKED : HTTP_BODY_CLOSE;
	return true;
}

static void
interim(struct front_conn *c, unsigned status, const struct http_field *f, size_t n)
{
	AUTO_BUF struct buf b = BUF(ANSWER_MAX);

	/* HTTP/1.0 has none; 100 is front's own. */
	if (c->http->x.minor == 0 || status == 100)
		return;
	http_put_status(&b, status);
	put_fields(&b, f, n, false);
	http_put_end(&b);
	front_conn_put(c, buf_str(&b));
}

/* In one piece; what the server sends right behind it follows in the same write. */
static bool
switched(struct front_conn *c, const struct http_field *f, size_t n)
{
	struct front_exchange *x = &c->http->x;
	AUTO_BUF struct buf b = BUF(ANSWER_MAX);
	struct str protocol;

	if (!front_http_stream_head(c, f, n, &protocol))
		return false;
	http_put_status(&b, 101);
	put_receipt(x, &b);
	put_fields(&b, f, n, false);
	http_put_field(&b, STR("Upgrade"), protocol);
	http_put_field(&b, STR("Connection"), STR("Upgrade"));
	http_put_end(&b);
	if (buf_over(&b) || !put_piece(c, buf_str(&b)))
		return false;
	if (x->go)
		front_http_stream_begin(c);
	return true;
}

bool
front_http_head(struct front_conn *c, unsigned status, const struct http_field *f, size_t n)
{
	struct front_exchange *x = &c->http->x;
	AUTO_BUF struct buf b = BUF(ANSWER_MAX);

	if (x->headed || status < 100 || status > 999 || !lawful(f, n))
		return false;
	if (status == 101)
		return switched(c, f, n);
	if (status < 200) {
		interim(c, status, f, n);
		return true;
	}
	if (!frame(x, status, f, n))
		return false;
	x->headed = true;
	/* What is left of the request's body nobody waits for any more. */
	front_http_body_free(c);
	x->last = x->last || !x->whole || x->framing == HTTP_BODY_CLOSE;
	front_conn_deadline(c, 0);
	http_put_status(&b, status);
	put_receipt(x, &b);
	put_fields(&b, f, n, status != 204);
	put_date(&b, f, n);
	if (x->framing == HTTP_BODY_CHUNKED)
		http_put_field(&b, STR("Transfer-Encoding"), STR("chunked"));
	put_connection(x, &b);
	http_put_end(&b);
	return !buf_over(&b) && put_piece(c, buf_str(&b));
}

bool
front_http_data(struct front_conn *c, struct str bytes)
{
	struct front_exchange *x = &c->http->x;
	AUTO_BUF struct buf b = BUF(bytes.n + 64);

	if (!x->headed || x->ended)
		return false;
	if (bytes.n == 0)
		return true;
	switch (x->framing) {
	case HTTP_BODY_NONE: return false;
	case HTTP_BODY_LENGTH:
		if (bytes.n > x->left)
			return false;
		x->left -= bytes.n;
		break;
	case HTTP_BODY_CHUNKED:
		http_put_chunk(&b, bytes);
		bytes = buf_str(&b);
		break;
	case HTTP_BODY_CLOSE: break;
	}
	return put_piece(c, bytes);
}

bool
front_http_end(struct front_conn *c, bool whole)
{
	struct front_exchange *x = &c->http->x;

	if (!x->headed || x->ended)
		return false;
	if (!whole)
		x->told = true; /* core hears it from upstream */
	if (!whole || (x->framing == HTTP_BODY_LENGTH && x->left != 0))
		return false;
	x->ended = true;
	finish(c);
	return true;
}

/* --- core's word ---------------------------------------------------------------------- */

bool
front_http_go(struct front_conn *c, uint8_t body, uint64_t most, bool hold, struct str receipt)
{
	struct front_exchange *x = &c->http->x;

	if (x->faulty || x->go || x->sink != FRONT_SINK_NONE ||
	    (body == 1) == (x->whole && !x->started) || (x->stream && body != 2))
		return false;
	if (body == 1 && !front_http_stream(c, most))
		return true;
	x->go = true;
	x->hold = hold;
	x->upgrade = body == 2;
	if (x->upgrade)
		x->most = most;
	buf_put_str(&x->receipt, receipt);
	put_receipt_late(x);
	let_go(c, hold && !x->stream ? x->held_last : x->held.n);
	if (x->stream && !x->ended)
		front_http_stream_begin(c);
	finish(c);
	if (body == 1)
		front_conn_kick(c);
	return true;
}

void
front_http_done(struct front_conn *c)
{
	c->http->x.done = true;
	finish(c);
}
