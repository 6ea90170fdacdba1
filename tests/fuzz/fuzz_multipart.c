/*
 * Uploads as sandboxd reads them: the same parts however the stream is cut, contents never more
 * than came in, no part open behind its end. First line of the input: the content type; then the
 * body.
 */
#include <assert.h>
#include <stdlib.h>

#include "agent/e2b_multipart.h"

#include "common/banned.h"

struct seen {
	struct buf log; /* what was called, with its bytes */
	size_t bytes;
	bool open;
};

static int
on_begin(void *arg, struct str name, struct str filename, struct err *err UNUSED)
{
	struct seen *s = arg;

	assert(!s->open);
	s->open = true;
	buf_put_c(&s->log, '<');
	buf_put_str(&s->log, name);
	buf_put_c(&s->log, filename.p != NULL ? ':' : '.');
	buf_put_str(&s->log, filename);
	buf_put_c(&s->log, '>');
	return 0;
}

static int
on_data(void *arg, struct str bytes, struct err *err UNUSED)
{
	struct seen *s = arg;

	assert(s->open && bytes.n != 0);
	s->bytes += bytes.n;
	buf_put_str(&s->log, bytes);
	return 0;
}

static int
on_end(void *arg, struct err *err UNUSED)
{
	struct seen *s = arg;

	assert(s->open);
	s->open = false;
	buf_put_c(&s->log, '|');
	return 0;
}

static const struct multipart_ops ops = {on_begin, on_data, on_end};

/* In pieces of `step` bytes; 0 for all at once. */
static int
read_all(struct str type, struct str body, size_t step, struct seen *s)
{
	AUTO_MULTIPART struct multipart m;
	struct err e = {0};
	int rc = multipart_init(&m, type, &ops, s, &e);
	size_t all = body.n;

	while (rc == 0 && body.n != 0) {
		size_t n = step == 0 || step > body.n ? body.n : step;

		rc = multipart_feed(&m, str_mem(body.p, n), &e);
		body.p += n;
		body.n -= n;
	}
	if (rc == 0)
		rc = multipart_end(&m, &e);
	assert(rc != 0 || !s->open);
	assert(s->bytes <= all);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct str body = str_mem(data, n), type;
	struct seen a = {.log = BUF(n * 4 + 64)};
	int rc;

	if (!str_cut(&body, '\n', &type))
		return 0;
	rc = read_all(type, body, 0, &a);
	for (size_t step = 1; step <= 7; step += 3) {
		struct seen b = {.log = BUF(n * 4 + 64)};

		assert(read_all(type, body, step, &b) == rc);
		assert(rc != 0 || str_eq(buf_str(&a.log), buf_str(&b.log)));
		buf_free(&b.log);
	}
	buf_free(&a.log);
	return 0;
}
