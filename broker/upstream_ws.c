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
#define MARKS_MAX                                                                       \
	((size_t)1 << 20) /* bytes of them; who needs more splits a message for no good \
			   */

enum { OP_MORE = 0, OP_TEXT = 1, OP_BINARY = 2, OP_CLOSE = 8, OP_PING = 9, OP_PONG = 10 };

/* Bytes that go out as they are, before the message's byte at that place. */
struct mark {
	uint64_t at;
	uint8_t n;
};

struct ws {
	struct scrub *text, *control; /* NULL: nothing is looked for */
	uint8_t head[HEAD_MAX];
	size_t nhead;
	uint64_t left; /* content of the frame in hand */
	bool in_frame, final, open;
	uint8_t control_frame[HEAD_MAX + CONTROL_MAX]; /* one that is not whole yet */
	size_t ncontrol;
	bool in_control;
	uint64_t fed, came; /* bytes of the message in hand: into the scrubber, and out of it */
	struct buf marks;   /* each a struct mark and its bytes */
	size_t marks_at;
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
	buf_init(&w->marks, MARKS_MAX);
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
	buf_free(&w->marks);
	explicit_bzero(w, sizeof(*w));
	free(w);
}

uint32_t
ws_replaced(const struct ws *w)
{
	return w->text != NULL ? scrub_count(w->text) + scrub_count(w->control) : 0;
}

/* --- out --------------------------------------------------------------------------------- */

/* False: there is none. */
static bool
next_mark(const struct ws *w, struct mark *ret)
{
	if (w->marks_at == w->marks.n)
		return false;
	memcpy(ret, w->marks.p + w->marks_at, sizeof(*ret));
	return true;
}

static void
put_marks(struct ws *w, struct buf *out)
{
	struct mark m;

	while (next_mark(w, &m) && m.at == w->came) {
		buf_put(out, w->marks.p + w->marks_at + sizeof(m), m.n);
		w->marks_at += sizeof(m) + m.n;
	}
	if (w->marks_at == w->marks.n)
		buf_reset(&w->marks);
	else if (w->marks_at < MARKS_MAX / 2)
		return;
	else
		buf_drop(&w->marks, w->marks_at);
	w->marks_at = 0;
}

/* What came out of the scrubber, with the heads of frames at their places. */
static void
put_settled(struct ws *w, struct buf *out)
{
	struct str s = buf_str(&w->tmp);
	struct mark m;

	while (s.n != 0) {
		uint64_t room = next_mark(w, &m) ? m.at - w->came : s.n;
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
	struct mark m = {.at = w->fed, .n = (uint8_t)n};

	if (w->came == w->fed) {
		buf_put(out, b, n);
		return;
	}
	buf_put(&w->marks, &m, sizeof(m));
	buf_put(&w->marks, b, n);
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
		put_between(w, w->control_frame, w->ncontrol, out);
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
		w->ncontrol = w->nhead;
		memcpy(w->control_frame, w->head, w->nhead);
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

	memcpy(w->control_frame + w->ncontrol, s.p, s.n);
	w->ncontrol += s.n;
	if (w->left != 0 || w->control == NULL)
		return;
	scrub_text(w->control, str_mem(w->control_frame + head, w->ncontrol - head), &clean);
	memcpy(w->control_frame + head, clean.p, w->ncontrol - head);
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
		if (rc == 0 && buf_over(&w->marks))
			rc = bad(err, "is one of too many that hold nothing");
	}
	return rc;
}

void
ws_end(struct ws *w, struct buf *out)
{
	text_over(w, out);
}
