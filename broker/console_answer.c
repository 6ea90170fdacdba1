/*
 * Answers on the wire (process: console): each has the same security fields, whatever it is, so
 * that no page can be without them.
 */
#include "broker/console.h"

#include "common/log.h"

#include "common/banned.h"

#define SEND_MS 30000	 /* an answer, to its last byte */
#define STREAM_MS 300000 /* then the session is looked at again */

static void
fields_put(struct console_conn *c)
{
	static const char policy[] =
	    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
	    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
	    "require-trusted-types-for 'script'; trusted-types 'none'";
	static const struct {
		const char *name, *value;
	} all[] = {
	    {"Cache-Control", "no-store"},
	    {"Content-Security-Policy", policy},
	    {"Cross-Origin-Opener-Policy", "same-origin"},
	    {"Cross-Origin-Resource-Policy", "same-origin"},
	    {"Permissions-Policy", "publickey-credentials-get=(self), "
				   "publickey-credentials-create=(self), camera=(), "
				   "geolocation=(), microphone=()"},
	    {"Referrer-Policy", "no-referrer"},
	    {"X-Content-Type-Options", "nosniff"},
	    {"X-Frame-Options", "DENY"},
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		http_put_field(&c->out, str_z(all[i].name), str_z(all[i].value));
}

void
console_conn_answer(
    struct console_conn *c, unsigned status, const char *type, struct str extra, struct str content)
{
	AUTO_BUF struct buf length = BUF(32);
	bool to_head = c->rq.method == CONSOLE_HEAD;

	buf_printf(&length, "%zu", content.n);
	http_put_status(&c->out, status);
	http_put_field(&c->out, STR("Content-Type"), str_z(type));
	http_put_field(&c->out, STR("Content-Length"), buf_str(&length));
	fields_put(c);
	buf_put_str(&c->out, extra);
	if (c->close)
		http_put_field(&c->out, STR("Connection"), STR("close"));
	http_put_end(&c->out);
	if (!to_head)
		buf_put_str(&c->out, content);
	if (buf_over(&c->out)) {
		log_error("console: an answer is over %zu bytes", c->out.max);
		buf_reset(&c->out);
		c->close = true;
	}
	c->phase = c->close ? CONSOLE_CLOSES : CONSOLE_READS;
	console_conn_drop(c);
	console_conn_deadline(c, SEND_MS);
	if (c->ev == NULL)
		console_conn_watch(c);
	else
		loop_io_events(c->ev, EPOLLOUT);
}

void
console_conn_stream(struct console_conn *c)
{
	c->phase = CONSOLE_STREAM;
	c->close = true;
	c->k->nstreams++;
	http_put_status(&c->out, 200);
	http_put_field(&c->out, STR("Content-Type"), STR("text/event-stream"));
	fields_put(c);
	http_put_field(&c->out, STR("Connection"), STR("close"));
	http_put_end(&c->out);
	buf_put_z(&c->out, "retry: 2000\n\n");
	console_conn_drop(c);
	c->stream_until = loop_now_ms(c->k->loop) + STREAM_MS;
	console_conn_deadline(c, CONSOLE_BEAT_MS);
	console_conn_watch(c);
	if (c->ev != NULL)
		loop_io_events(c->ev, EPOLLIN | EPOLLOUT);
}
