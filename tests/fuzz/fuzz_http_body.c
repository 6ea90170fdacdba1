/*
 * Fuzzes the reader of bodies. The first byte chooses: 0 chunked, 1 of a known length (the second
 * byte), 2 until the connection closes, 3 none. However the input is cut, the same content comes
 * out, it ends at the same byte or is refused after the same content; and content that is written
 * in chunks is read again as it was.
 */
#include "tests/fuzz/http_pieces.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	struct buf content;
	size_t end;
	int rc;
};

/* In pieces of at most `piece` bytes, each a copy of its own. */
static void
read_body(struct str in, enum http_body kind, uint64_t length, size_t piece, struct outcome *o)
{
	struct http_reader r;
	struct err err = {0};

	http_reader_init(&r, kind, length);
	do {
		size_t n = in.n - o->end < piece ? in.n - o->end : piece;
		AUTO_FREE char *copy = exact_copy((struct str){in.p + o->end, n});
		struct str rest = {copy, n}, run;

		do {
			size_t before = rest.n;

			o->rc = http_reader_next(&r, &rest, &run, &err);
			assert(o->rc == err.code || o->rc == 1 || o->rc == 0);
			assert(run.n == 0 || (run.p >= copy && run.p + run.n <= copy + n));
			assert(o->rc != 0 || rest.n < before || before == 0);
			buf_put_str(&o->content, run);
		} while (o->rc == 0 && rest.n != 0);
		o->end += n - rest.n;
	} while (o->rc == 0 && o->end < in.n);
	assert(r.total == o->content.n && !buf_over(&o->content));
	/* The end stays the end. */
	if (o->rc == 1) {
		struct str rest = STR("0\r\n\r\n"), run;

		assert(http_reader_next(&r, &rest, &run, NULL) == 1);
		assert(rest.n == 5 && run.n == 0);
	}
}

static void
written_again(struct str content, size_t piece)
{
	AUTO_BUF struct buf b = BUF(32 * content.n + 64);
	struct outcome o = {.content = BUF(content.n)};

	for (size_t at = 0; at < content.n; at += piece) {
		size_t n = content.n - at < piece ? content.n - at : piece;

		http_put_chunk(&b, (struct str){content.p + at, n});
	}
	http_put_last_chunk(&b);
	read_body(buf_str(&b), HTTP_BODY_CHUNKED, 0, 7, &o);
	assert(o.rc == 1 && o.end == b.n && str_eq(buf_str(&o.content), content));
	buf_free(&o.content);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum http_body kinds[] = {
	    HTTP_BODY_CHUNKED, HTTP_BODY_LENGTH, HTTP_BODY_CLOSE, HTTP_BODY_NONE};
	static const size_t pieces[] = {1, 2, 3, 5, 17, 64};
	struct outcome whole = {.content = BUF(size)};
	struct str in;

	if (size < 2)
		return 0;
	in = str_mem(data + 2, size - 2);
	read_body(in, kinds[data[0] % 4], data[1], in.n, &whole);
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		struct outcome o = {.content = BUF(size)};

		read_body(in, kinds[data[0] % 4], data[1], pieces[i], &o);
		assert(o.rc == whole.rc && (o.rc < 0 || o.end == whole.end));
		assert(str_eq(buf_str(&o.content), buf_str(&whole.content)));
		buf_free(&o.content);
	}
	if (whole.content.n != 0)
		written_again(buf_str(&whole.content), (size_t)data[1] % 64 + 1);
	buf_free(&whole.content);
	return 0;
}
