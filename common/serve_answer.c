/*
 * What a worker of serve.h says: heads, whole answers and streams. Runs in programs that a person
 * starts. A client that does not take its answer ends its own connection and nothing else.
 */
#include "common/serve_int.h"

#include "common/clock.h"

#include "common/banned.h"

static int
write_all(struct serve_conn *c, struct str s, struct err *err)
{
	size_t at = 0;
	int rc;

	if (c->dead)
		return err_set(err, ERR_UNAVAILABLE, "the client has gone");
	while (at != s.n) {
		ssize_t n = tlsio_write(&c->io, s.p + at, s.n - at, err);

		if (n > 0) {
			at += (size_t)n;
			continue;
		}
		rc = n == TLSIO_AGAIN
			 ? serve_conn_wait(c, false, clock_boot_us() + SERVE_STALL_MS * 1000, err)
			 : err_set(err, ERR_UNAVAILABLE, "the client has gone");
		if (rc != 0) {
			c->dead = true;
			return rc;
		}
	}
	return 0;
}

int
serve_continue(struct serve_conn *c, struct err *err)
{
	return write_all(c, STR("HTTP/1.1 100 Continue\r\n\r\n"), err);
}

void
serve_field(struct serve_conn *c, const char *name, struct str value)
{
	http_put_field(&c->fields, str_z(name), value);
}

void
serve_last(struct serve_conn *c)
{
	c->last = true;
}

bool
serve_answered(const struct serve_conn *c)
{
	return c->answered;
}

static void
head_put(struct serve_conn *c, struct buf *out, unsigned status, const char *type)
{
	char date[30];

	c->answered = true;
	http_date(clock_wall_us() / 1000000, date);
	http_put_status(out, status);
	http_put_field(out, STR("Date"), str_z(date));
	if (type != NULL)
		http_put_field(out, STR("Content-Type"), str_z(type));
	http_put_field(out, STR("X-Content-Type-Options"), STR("nosniff"));
	buf_put_str(out, buf_str(&c->fields));
	if (c->last)
		http_put_field(out, STR("Connection"), STR("close"));
}

int
serve_answer(
    struct serve_conn *c, unsigned status, const char *type, struct str content, struct err *err)
{
	AUTO_BUF struct buf out = BUF(SERVE_HEAD_MAX + content.n + 1024), n = BUF(32);
	bool none = status == 204 || status == 304;

	/* A body that nobody will read is not waited for. */
	if (c->expects && !c->body_done)
		c->last = true;
	head_put(c, &out, status, type);
	buf_printf(&n, "%zu", content.n);
	if (!none)
		http_put_field(&out, STR("Content-Length"), buf_str(&n));
	http_put_end(&out);
	if (!none && !str_eqz(c->rq.method, "HEAD"))
		buf_put_str(&out, content);
	return write_all(c, buf_str(&out), err);
}

void
serve_refuse(struct serve_conn *c, unsigned status, const char *why)
{
	AUTO_BUF struct buf text = BUF(ERR_MSG_MAX + 1);

	buf_printf(&text, "%s\n", why);
	c->last = true;
	(void)serve_answer(c, status, "text/plain; charset=utf-8", buf_str(&text), NULL);
}

int
serve_stream(struct serve_conn *c, unsigned status, const char *type, struct err *err)
{
	AUTO_BUF struct buf out = BUF(SERVE_HEAD_MAX + 1024);

	c->chunked = c->rq.minor == 1;
	if (!c->chunked)
		c->last = true;
	head_put(c, &out, status, type);
	if (c->chunked)
		http_put_field(&out, STR("Transfer-Encoding"), STR("chunked"));
	http_put_end(&out);
	c->streams = true;
	return write_all(c, buf_str(&out), err);
}

int
serve_put(struct serve_conn *c, struct str piece, struct err *err)
{
	AUTO_BUF struct buf out = BUF(piece.n + 64);

	if (!c->chunked)
		return write_all(c, piece, err);
	http_put_chunk(&out, piece);
	return write_all(c, buf_str(&out), err);
}

int
serve_end(struct serve_conn *c, struct err *err)
{
	AUTO_BUF struct buf out = BUF(64);

	c->streams = false;
	if (!c->chunked)
		return 0;
	http_put_last_chunk(&out);
	return write_all(c, buf_str(&out), err);
}
