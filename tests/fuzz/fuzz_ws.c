/*
 * Fuzzes the reader of a WebSocket server's frames. The first byte gives the length of the secret,
 * the second the size of the pieces; the secret and the frames follow. Pieces make no difference,
 * what comes out has the very heads that came in, and no message that is whole shows the secret.
 */
#include <assert.h>

#include "broker/upstream_ws.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
feed(struct str secret, struct str text, size_t step, struct buf *out, int *ret_rc)
{
	struct scrub_secret one = {.secret = secret, .user = STR(""), .placeholder = STR("")};
	struct scrub_set *set = scrub_set_new(&one, 1);
	struct ws *w = ws_new(set);
	struct err err = {0};
	int rc = 0;

	while (rc == 0 && text.n != 0) {
		struct str piece = str_mem(text.p, text.n < step ? text.n : step);

		rc = ws_feed(w, piece, out, &err);
		text = str_mem(text.p + piece.n, text.n - piece.n);
	}
	ws_end(w, out);
	ws_free(w);
	scrub_set_drop(set);
	*ret_rc = rc;
}

/* Bytes of a frame's head, and of its content; 0: not whole. */
static size_t
frame_at(struct str s, size_t *ret_content)
{
	size_t head = 2, n;

	if (s.n < 2)
		return 0;
	n = (uint8_t)s.p[1] & 0x7f;
	if (n >= 126)
		head = n == 126 ? 4 : 10;
	if (s.n < head)
		return 0;
	if (n >= 126) {
		n = 0;
		for (size_t i = 2; i < head; i++)
			n = n << 8 | (uint8_t)s.p[i];
	}
	*ret_content = n;
	return n <= s.n - head ? head : 0;
}

static void
must_lack(struct str text, struct str secret)
{
	for (size_t i = 0; i < secret.n; i++)
		if (secret.p[i] == '*') /* what stands for it could make it anew */
			return;
	assert(text.n == 0 || memmem(text.p, text.n, secret.p, secret.n) == NULL);
}

static void
check(struct str in, struct str out, struct str secret)
{
	AUTO_BUF struct buf message = BUF((size_t)1 << 20);
	size_t head, content = 0, content_out = 0;

	while ((head = frame_at(out, &content_out)) != 0) {
		assert(frame_at(in, &content) == head && content == content_out);
		assert(memcmp(in.p, out.p, head) == 0);
		if (((uint8_t)out.p[0] & 0x0f) < 8) {
			buf_put(&message, out.p + head, content);
			if (((uint8_t)out.p[0] & 0x80) != 0) {
				must_lack(buf_str(&message), secret);
				buf_reset(&message);
			}
		} else {
			must_lack(str_mem(out.p + head, content), secret);
		}
		in = str_mem(in.p + head + content, in.n - head - content);
		out = str_mem(out.p + head + content, out.n - head - content);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf whole = BUF((size_t)1 << 20), parts = BUF((size_t)1 << 20);
	size_t n, step;
	struct str secret, text;
	int rc_whole = 0, rc_parts = 0;

	if (size < 3)
		return 0;
	n = 1 + (size_t)data[0] % 24;
	step = 1 + (size_t)data[1];
	if (size - 2 <= n)
		return 0;
	secret = str_mem(data + 2, n);
	text = str_mem(data + 2 + n, size - 2 - n);
	feed(secret, text, UPSTREAM_WS_PIECE, &whole, &rc_whole);
	feed(secret, text, step, &parts, &rc_parts);
	assert(rc_whole == rc_parts && whole.n <= text.n);
	assert(str_eq(buf_str(&whole), buf_str(&parts)));
	check(text, buf_str(&whole), secret);
	return 0;
}
