/*
 * Fuzzes the two streams that hostile code can write to a caller: answers about files, and what a
 * context's interpreter says. The first byte chooses the stream and the cut, the rest is the
 * stream. Any cut must give the same calls and the same end; JSON made of it must be JSON.
 */
#include <assert.h>

#include "agent/sandbox/sandbox_cell.h"
#include "agent/sandbox/sandbox_frame.h"
#include "common/json.h"

#include "common/banned.h"

#define SAID_MAX ((size_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
said(struct buf *b, struct str json)
{
	AUTO(json) struct json_doc *d = NULL;

	assert(json_parse(json, "made", &d, NULL) == 0);
	buf_put_str(b, json);
}

static int
on_data(void *arg, struct str bytes, struct err *err UNUSED)
{
	buf_put_str(arg, bytes);
	return 0;
}

static int
on_entry(void *arg, const struct frame_entry *e, struct err *err UNUSED)
{
	AUTO_BUF struct buf b = BUF(FRAME_BODY_MAX * 8);

	frame_entry_json(e, &b);
	said(arg, buf_str(&b));
	return 0;
}

static int
on_change(void *arg, const struct frame_change *c, struct err *err UNUSED)
{
	AUTO_BUF struct buf b = BUF(FRAME_BODY_MAX * 8);

	frame_change_json(c, &b);
	said(arg, buf_str(&b));
	return 0;
}

static void
on_bundle(void *arg, bool result, struct str json)
{
	buf_put_c(arg, result ? 'V' : 'B');
	said(arg, json);
}

static void
on_end(void *arg, enum cell_status s, struct str name, struct str value, struct str trace)
{
	buf_u8(arg, (uint8_t)s);
	assert(str_is_utf8(name) && str_is_utf8(value) && str_is_utf8(trace));
	buf_lstr(arg, name);
	buf_lstr(arg, value);
	buf_lstr(arg, trace);
}

static int
feed(bool cells, struct str s, size_t step, struct buf *out)
{
	static const struct frame_ops frames = {on_data, on_entry, on_change};
	static const struct cell_ops ops = {on_bundle, on_end};
	AUTO_BUF struct buf sent = BUF(64);
	struct frame_reader f;
	struct cell_reader c;
	struct err err = {0};
	int rc = 0;

	frame_reader_init(&f, &frames, out);
	cell_reader_init(&c, &ops, out);
	if (cells) {
		rc = cell_feed(&c, STR("H0000000019\n" CELL_HELLO), &err);
		assert(rc == 0);
		cell_begin(&c, STR("1"), &sent);
	}
	while (rc == 0 && s.n != 0) {
		size_t n = step < s.n ? step : s.n;

		rc = cells ? cell_feed(&c, (struct str){s.p, n}, &err)
			   : frame_feed(&f, (struct str){s.p, n}, &err);
		s = (struct str){s.p + n, s.n - n};
	}
	assert(rc == 0 || (err.code == rc && err.msg[0] != '\0' && str_is_utf8(str_z(err.msg))));
	frame_reader_free(&f);
	cell_reader_free(&c);
	return rc;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf whole = BUF(SAID_MAX), cut = BUF(SAID_MAX);
	struct str s;
	bool cells;
	int rc;

	if (size < 1)
		return 0;
	cells = (data[0] & 1) != 0;
	s = str_mem(data + 1, size - 1);
	rc = feed(cells, s, s.n, &whole);
	assert(feed(cells, s, (size_t)(data[0] >> 1) + 1, &cut) == rc);
	if (rc == 0)
		assert(str_eq(buf_str(&whole), buf_str(&cut)));
	return 0;
}
