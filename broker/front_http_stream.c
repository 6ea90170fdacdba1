/*
 * A connection that has switched protocols: what the client sends goes to upstream as far as that
 * asks for it, what the server sends goes to the client as it comes. Runs in front on hostile
 * bytes, which mean nothing here. Only a 101 that core's word allows for begins it.
 */
#include "broker/front_http.h"

#include "common/banned.h"

void
front_http_stream_begin(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;

	front_http_body_free(c);
	http_reader_init(&x->reader, HTTP_BODY_CLOSE, 0);
	buf_init(&x->part, FRONT_HTTP_PART_MAX);
	x->whole = x->expect = false;
	x->sink = FRONT_SINK_STREAM;
	front_conn_deadline(c, 0);
	front_conn_kick(c); /* what came behind the request belongs to it */
}

bool
front_http_stream_head(
    struct front_conn *c, const struct http_field *f, size_t n, struct str *ret_protocol)
{
	struct front_exchange *x = &c->http->x;
	const struct http_field *u = http_field_find(f, n, "Upgrade");

	if ((x->go && !x->upgrade) || x->minor == 0 || !x->whole || u == NULL ||
	    !http_is_protocol(u->value))
		return false;
	*ret_protocol = u->value;
	x->headed = x->stream = x->last = true;
	x->framing = HTTP_BODY_CLOSE;
	return true;
}

bool
front_http_stream_eof(struct front_conn *c)
{
	struct front_exchange *x = &c->http->x;

	if (c->phase != FRONT_OPEN || c->http->state != FRONT_HTTP_ACT || !x->stream || !x->go ||
	    x->sink != FRONT_SINK_STREAM)
		return false;
	x->eof = true;
	return true;
}
