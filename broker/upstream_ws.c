/*
 * The reader of a WebSocket server's frames. Runs in upstream on bytes of servers that may lie.
 * Lengths never change: what stands in the place of a secret has its length, so a frame's head is
 * passed on as it came, at its place between the bytes that the scrubber still holds back.
 */
#include "broker/upstream_ws.h"

#include "common/xalloc.h"

#include "common/banned.h"

#define HEAD_MAX 10	/* of a frame that is not masked */
#define CONTROL_MAX 125 /* content of a control frame (section 5.5) */
#define MARKS_MAX 32

enum { OP_MORE = 0, OP_TEXT = 1, OP_BINARY = 2, OP_CLOSE = 8, OP_PING = 9, OP_PONG = 10 };

/* Bytes that go out as they are, before the message's byte at that place. */
struct mark {
	uint64_t at;
	uint8_t n, b[HEAD_MAX + CONTROL_MAX];
};

struct ws {
	struct scrub *text, *control; /* NULL: nothing is looked for */
	uint8_t head[HEAD_MAX];
	size_t nhead;
	uint64_t left; /* content of the frame in hand */
	bool in_frame, final, open;
	struct mark frame; /* a control frame that is not whole yet */
	bool in_control;
	uint64_t fed, came; /* bytes of the message in hand: into the scrubber, and out of it */
	struct mark marks[MARKS_MAX];
	size_t nmarks;
	struct buf tmp;
};

struct ws *
ws_new(struct scrub_set *set)
{
	struct ws *w = xcalloc(1, sizeof(*w));

	if (set != NULL) {
		w->text = scrub_new(scrub_set_hold(set));
		w->control = scrub_new(scrub_set_hold(set));
	}
	buf_init(&w->tmp, UPSTREAM_WS_OUT);
	return w;
}

void
ws_free(struct ws *w)
{
	if (w == NULL)
		return;
	scrub_free(w->text);
	scrub_free(w->control);
	buf_free(&w->tmp);
	explicit_bzero(w, sizeof(*w));
	free(w);
}

uint32_t
ws_replaced(const struct ws *w)
{
	return w->text != NULL ? scrub_count(w->text) + scrub_count(w->control) : 0;
}

/* --- out --------------------------------------------------------------------------------- */

static void
put_marks(struct ws *w, struct buf *out)
{
	size_t n = 0;

	while (n < w->nmarks && w->marks[n].at == w->came) {
		buf_put(out, w->marks[n].b, w->marks[n].n);
		n++;
	}
	w->nmarks -= n;
	memmove(w->marks, w->marks + n, w->nmarks * sizeof(w->marks[0]));
}

/* What came out of the scrubber, with the heads of frames at their places. */
static void
put_settled(struct ws *w, struct buf *out)
{
	struct str s = buf_str(&w->tmp);

	while (s.n != 0) {
		uint64_t room = w->nmarks != 0 ? w->marks[0].at - w->came : s.n;
		size_t n = room < s.n ? (size_t)room : s.n;

		buf_put(out, s.p, n);
		w->came += n;
		s = str_mem(s.p + n, s.n - n);
		put_marks(w, out);
	}
	put_marks(w, out);
	buf_reset(&w->tmp);
}

static void
text_over(struct ws *w, struct buf *out)
{
	if (w->text != NULL)
		scrub_end(w->text, &w->tmp);
	put_settled(w, out);
}

static void
put_between(struct ws *w, const uint8_t *b, size_t n, struct buf *out)
{
	struct mark *m;

	/* Who sends so many frames with nothing in them splits nothing by it that it could not. */
	if (w->nmarks == MARKS_MAX)
		text_over(w, out);
	if (w->came == w->fed) {
		buf_put(out, b, n);
		return;
	}
	m = &w->marks[w->nmarks++];
	m->at = w->fed;
	m->n = (uint8_t)n;
	memcpy(m->b, b, n);
}

/* --- frames ------------------------------------------------------------------------------ */

static int
bad(struct err *err, const char *what)
{
	return err_set(err, ERR_SYNTAX, "the server's frame %s", what);
}

static int
check_first(const struct ws *w, struct err *err)
{
	uint8_t op = w->head[0] & 0x0f, length = w->head[1] & 0x7f;
	bool final = (w->head[0] & 0x80) != 0;

	if ((w->head[0] & 0x70) != 0)
		return bad(err, "uses an extension that was not agreed to");
	if ((w->head[1] & 0x80) != 0)
		return bad(err, "is masked");
	if (op > OP_PONG || (op > OP_BINARY && op < OP_CLOSE))
		return bad(err, "has a kind that nobody knows");
	if (op >= OP_CLOSE && (!final || length > CONTROL_MAX))
		return bad(err, "is a control frame in parts, or over 125 bytes");
	if (op < OP_CLOSE && (op == OP_MORE) != w->open)
		return bad(err, "begins a message within another, or goes on with none");
	return 0;
}

static size_t
head_size(const struct ws *w)
{
	uint8_t length = w->nhead >= 2 ? w->head[1] & 0x7f : 0;

	return length == 127 ? 10 : length == 126 ? 4 : 2;
}

/* Big endian, and in the shortest form. */
static int
read_length(struct ws *w, struct err *err)
{
	size_t n = head_size(w);
	uint64_t v = w->head[1] & 0x7f;

	if (n > 2)
		v = 0;
	for (size_t i = 2; i < n; i++)
		v = v << 8 | w->head[i];
	if ((n == 4 && v < 126) || (n == 10 && (v <= UINT16_MAX || v > INT64_MAX)))
		return bad(err, "has a length in a form that is not the shortest");
	w->left = v;
	return 0;
}

static void
frame_over(struct ws *w, struct buf *out)
{
	w->in_frame = false;
	w->nhead = 0;
	if (w->in_control) {
		put_between(w, w->frame.b, w->frame.n, out);
		return;
	}
	w->open = !w->final;
	if (w->open)
		return;
	text_over(w, out);
	w->fed = w->came = 0;
}

static void
frame_begin(struct ws *w, struct buf *out)
{
	uint8_t op = w->head[0] & 0x0f;

	w->in_frame = true;
	w->in_control = op >= OP_CLOSE;
	w->final = (w->head[0] & 0x80) != 0;
	if (w->in_control) {
		w->frame.n = (uint8_t)w->nhead;
		memcpy(w->frame.b, w->head, w->nhead);
	} else {
		put_between(w, w->head, w->nhead, out);
	}
}

static void
take_text(struct ws *w, struct str s, struct buf *out)
{
	w->fed += s.n;
	if (w->text != NULL)
		scrub_feed(w->text, s, &w->tmp);
	else
		buf_put_str(&w->tmp, s);
	put_settled(w, out);
}

/* At most CONTROL_MAX bytes, which are a text of their own once they are all here. */
static void
take_control(struct ws *w, struct str s)
{
	AUTO_BUF struct buf clean = BUF(UPSTREAM_WS_OUT);
	size_t head = w->nhead;

	memcpy(w->frame.b + w->frame.n, s.p, s.n);
	w->frame.n = (uint8_t)(w->frame.n + s.n);
	if (w->left != 0 || w->control == NULL)
		return;
	scrub_text(w->control, str_mem(w->frame.b + head, w->frame.n - head), &clean);
	memcpy(w->frame.b + head, clean.p, w->frame.n - head);
}

int
ws_feed(struct ws *w, struct str in, struct buf *out, struct err *err)
{
	int rc = 0;

	while (rc == 0 && in.n != 0) {
		struct str run = str_mem(in.p, w->left < in.n ? (size_t)w->left : in.n);

		if (!w->in_frame) {
			w->head[w->nhead++] = (uint8_t)in.p[0];
			in = str_mem(in.p + 1, in.n - 1);
			rc = w->nhead == 2 ? check_first(w, err) : 0;
			if (rc != 0 || w->nhead < 2 || w->nhead < head_size(w))
				continue;
			rc = read_length(w, err);
			if (rc == 0)
				frame_begin(w, out);
		} else {
			in = str_mem(in.p + run.n, in.n - run.n);
			w->left -= run.n;
			if (w->in_control)
				take_control(w, run);
			else
				take_text(w, run, out);
		}
		if (rc == 0 && w->in_frame && w->left == 0)
			frame_over(w, out);
	}
	return rc;
}

void
ws_end(struct ws *w, struct buf *out)
{
	text_over(w, out);
}
