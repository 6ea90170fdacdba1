/*
 * A cell told to its client line by line as JSON (process: a worker of cofferdam-sandboxd): output,
 * results by type, errors. All of it was made by code that nobody trusts; it is passed on and never
 * looked into.
 */
#include "agent/e2b_code.h"

#include <poll.h>
#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define LINE_MAX ((size_t)16 << 20)
#define TYPES_MAX 40

/* Bytes of the character that begins here (it is UTF-8), and what it is. */
static size_t
character(const uint8_t *p, uint32_t *ret)
{
	size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc0 ? 2 : 1;

	*ret = n == 1 ? p[0] : p[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++)
		*ret = *ret << 6 | (p[i] & 0x3fu);
	return n;
}

/* In ASCII: SDKs decode each piece of the stream by itself, and a piece may end anywhere. */
static void
ascii_put(struct buf *out, struct str line)
{
	uint32_t c;

	for (size_t i = 0; i < line.n;) {
		i += character((const uint8_t *)line.p + i, &c);
		if (c < 0x80)
			buf_put_c(out, (char)c);
		else if (c < 0x10000)
			buf_printf(out, "\\u%04x", c);
		else
			buf_printf(out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
			    0xdc00 + ((c - 0x10000) & 0x3ff));
	}
	buf_put_c(out, '\n');
}

static void
line_put(struct e2b_request *q, struct buf *json, struct err *err)
{
	AUTO_BUF struct buf b = BUF(LINE_MAX * 3);

	if (buf_over(json) || err->code != 0)
		return;
	ascii_put(&b, buf_str(json));
	if (buf_over(&b))
		return;
	if (!serve_answered(q->conn) &&
	    serve_stream(q->conn, 200, "application/x-ndjson", err) != 0)
		return;
	(void)serve_put(q->conn, buf_str(&b), err);
}

/* --- output: text that may be cut in the middle of a character -------------------------------- */

struct text {
	char tail[4]; /* of a character that has begun */
	size_t n;
};

/* Bytes at the end of s that may be the begin of a character. */
static size_t
begun_at(struct str s)
{
	for (size_t k = 1; k <= 3 && k <= s.n; k++) {
		unsigned char c = (unsigned char)s.p[s.n - k];
		size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 0;

		if (c < 0x80)
			return 0;
		if (want != 0)
			return want > k ? k : 0;
	}
	return 0;
}

static void
output_put(struct e2b_request *q, const char *type, struct text *t, struct str bytes, bool last,
    struct err *err)
{
	AUTO_BUF struct buf all = BUF(LINE_MAX), b = BUF(LINE_MAX);
	struct str s;
	size_t keep;
	struct jcs j;

	buf_put(&all, t->tail, t->n);
	buf_put_str(&all, bytes);
	s = buf_str(&all);
	keep = last ? 0 : begun_at(s);
	t->n = keep;
	if (keep != 0)
		memcpy(t->tail, s.p + s.n - keep, keep);
	s.n -= keep;
	if (s.n == 0)
		return;
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "text", s);
	jcs_z(&j, "type", type);
	jcs_close(&j);
	line_put(q, &b, err);
}

/* --- results ------------------------------------------------------------------------------------
 */

static const struct {
	const char *mime, *key;
} keys[] = {{"text/plain", "text"}, {"text/html", "html"}, {"text/markdown", "markdown"},
    {"image/svg+xml", "svg"}, {"image/png", "png"}, {"image/jpeg", "jpeg"},
    {"application/pdf", "pdf"}, {"text/latex", "latex"}, {"application/json", "json"},
    {"application/javascript", "javascript"}};

struct shown {
	struct str key, mime;
	const struct json *value;
};

static int
shown_cmp(const void *a, const void *b)
{
	return jcs_key_cmp(((const struct shown *)a)->key, ((const struct shown *)b)->key);
}

static struct str
key_of(struct str mime)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (str_eqz(mime, keys[i].mime))
			return str_z(keys[i].key);
	return mime;
}

/* A line of its own stays one: what is written in more is told as text. */
static bool
is_json_line(struct str s)
{
	AUTO(json) struct json_doc *d = NULL;

	return s.n != 0 && memchr(s.p, '\n', s.n) == NULL && memchr(s.p, '\r', s.n) == NULL &&
	       json_parse_numbers(s, "json", &d, NULL) == 0;
}

static void
shown_put(struct jcs *j, const struct shown *s, bool main_result)
{
	jcs_key(j, s->key);
	if (str_eqz(s->key, "is_main_result"))
		jcs_bool(j, NULL, main_result);
	else if (str_eqz(s->key, "type"))
		jcs_z(j, NULL, "result");
	else if (str_eqz(s->key, "json") && is_json_line(json_str(s->value)))
		jcs_raw(
		    j, NULL, json_str(s->value)); /* with null and fractions, as code has them */
	else
		jcs_str_lossy(j, NULL, json_str(s->value));
}

static void
result_put(struct e2b_request *q, const struct keeper_event *ev, struct err *err)
{
	AUTO_BUF struct buf b = BUF(LINE_MAX);
	AUTO(json) struct json_doc *d = NULL;
	struct shown all[TYPES_MAX + 2] = {{.key = STR("is_main_result")}, {.key = STR("type")}};
	size_t n = 2;
	struct err ignored = {0};
	struct jcs j;

	if (json_parse(ev->bytes, "result", &d, &ignored) != 0)
		return;
	for (size_t i = 0; i < json_count(json_root(d)) && n < ARRAY_LEN(all); i++) {
		struct str mime = json_key(json_root(d), i);

		/* A type is not to stand for what we say ourselves. */
		if (memchr(mime.p, '/', mime.n) != NULL)
			all[n++] =
			    (struct shown){.key = key_of(mime), .value = json_at(json_root(d), i)};
	}
	qsort(all, n, sizeof(all[0]), shown_cmp);
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	for (size_t i = 0; i < n; i++)
		shown_put(&j, &all[i], ev->number == 1);
	jcs_close(&j);
	line_put(q, &b, err);
}

static void
count_put(struct e2b_request *q, uint32_t n, struct err *err)
{
	AUTO_BUF struct buf b = BUF(256);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_int(&j, "execution_count", n);
	jcs_z(&j, "type", "number_of_executions");
	jcs_close(&j);
	line_put(q, &b, err);
}

static void
error_put(
    struct e2b_request *q, struct str name, struct str value, struct str trace, struct err *err)
{
	AUTO_BUF struct buf b = BUF(LINE_MAX);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "name", name);
	jcs_str_lossy(&j, "traceback", trace);
	jcs_z(&j, "type", "error");
	jcs_str_lossy(&j, "value", value);
	jcs_close(&j);
	line_put(q, &b, err);
}

/* --- a cell
 * ----------------------------------------------------------------------------------------- */

/* 0: it goes on; 1: it is over. */
static int
cell_event(struct e2b_request *q, struct keeper_stream *s, struct text text[2], struct err *err)
{
	struct keeper_event ev;
	int rc = keeper_next(s, 0, &ev, err);

	if (rc != 0)
		return rc == ERR_TIMEOUT ? (err->code = 0) : rc;
	switch (ev.type) {
	case KEEPER_STARTED: count_put(q, ev.number, err); return err->code;
	case KEEPER_OUTPUT:
		output_put(q, ev.number == 2 ? "stderr" : "stdout", &text[ev.number == 2], ev.bytes,
		    false, err);
		return err->code;
	case KEEPER_DISPLAY: result_put(q, &ev, err); return err->code;
	case KEEPER_FAILED: error_put(q, STR("CellNotStarted"), ev.bytes, STR(""), err); return 1;
	case KEEPER_ENDED: break;
	}
	output_put(q, "stdout", &text[0], STR(""), true, err);
	output_put(q, "stderr", &text[1], STR(""), true, err);
	if (ev.end != SANDBOX_CELL_OK)
		error_put(
		    q, ev.name.n != 0 ? ev.name : STR("Interrupted"), ev.error, ev.trace, err);
	return 1;
}

int
e2b_cell_follow(struct e2b_request *q, struct keeper_stream *s, struct err *err)
{
	struct text text[2] = {0};
	int rc = 0;

	while (rc == 0) {
		struct pollfd p[2] = {{.fd = keeper_stream_fd(s), .events = POLLIN},
		    {.fd = serve_fd(q->conn), .events = POLLIN}};

		if (poll(p, ARRAY_LEN(p), -1) < 0)
			continue;
		/* Closing the stream interrupts the cell. */
		if (p[1].revents != 0 && serve_gone(q->conn))
			return err_set(err, ERR_UNAVAILABLE, "the client has gone");
		if (p[0].revents != 0)
			rc = cell_event(q, s, text, err);
	}
	return rc;
}
