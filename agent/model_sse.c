/*
 * Reads a stream of server-sent events (process: cofferdam-agent). The bytes come from a model's
 * server by way of the broker: the size of a line and of an event are limited, what is unknown is
 * passed over as the standard says.
 */
#include "agent/model_sse.h"

#include <string.h>

#include "common/banned.h"

void
sse_init(struct sse *s)
{
	*s = (struct sse){.line = BUF(SSE_EVENT_MAX), .data = BUF(SSE_EVENT_MAX)};
}

void
sse_free(struct sse *s)
{
	buf_free(&s->line);
	buf_free(&s->data);
}

static void
field_take(struct sse *s, struct str line)
{
	struct str name = line, value = line;

	if (!str_cut(&value, ':', &name))
		value = STR("");
	else if (str_has_prefix(value, " "))
		value = (struct str){value.p + 1, value.n - 1};
	if (str_eqz(name, "data")) {
		if (s->data_seen)
			buf_put_c(&s->data, '\n');
		buf_put_str(&s->data, value);
		s->data_seen = true;
	} else if (str_eqz(name, "event")) {
		size_t n = value.n < sizeof(s->name) ? value.n : 0;

		if (n != 0)
			memcpy(s->name, value.p, n);
		s->name[n] = '\0';
	}
}

static int
dispatch(struct sse *s, sse_event_fn *fn, void *arg, struct err *err)
{
	int rc = 0;

	if (s->data_seen)
		rc = fn(arg, str_z(s->name), buf_str(&s->data), err);
	s->data.n = 0;
	s->data_seen = false;
	s->name[0] = '\0';
	return rc;
}

static int
line_take(struct sse *s, sse_event_fn *fn, void *arg, struct err *err)
{
	struct str line = buf_str(&s->line);
	int rc = 0;

	if (!s->begun && str_has_prefix(line, "\xef\xbb\xbf"))
		line = (struct str){line.p + 3, line.n - 3};
	s->begun = true;
	if (line.n == 0)
		rc = dispatch(s, fn, arg, err);
	else if (line.p[0] != ':')
		field_take(s, line);
	s->line.n = 0;
	if (buf_over(&s->data))
		return err_set(err, ERR_TOO_LARGE,
		    "an event of the model's stream is over %zu bytes", SSE_EVENT_MAX);
	return rc;
}

/* Up to the next CR or LF. */
static size_t
plain_run(struct str s)
{
	size_t n = 0;

	while (n < s.n && s.p[n] != '\r' && s.p[n] != '\n')
		n++;
	return n;
}

int
sse_feed(struct sse *s, struct str bytes, sse_event_fn *fn, void *arg, struct err *err)
{
	while (bytes.n != 0) {
		size_t n = plain_run(bytes);
		int rc;

		if (n == 0 && s->cr && bytes.p[0] == '\n') { /* the second half of CR LF */
			s->cr = false;
			bytes = (struct str){bytes.p + 1, bytes.n - 1};
			continue;
		}
		s->cr = false;
		buf_put(&s->line, bytes.p, n);
		if (buf_over(&s->line))
			return err_set(err, ERR_TOO_LARGE,
			    "a line of the model's stream is over %zu bytes", SSE_EVENT_MAX);
		if (n == bytes.n)
			return 0;
		s->cr = bytes.p[n] == '\r';
		bytes = (struct str){bytes.p + n + 1, bytes.n - n - 1};
		if ((rc = line_take(s, fn, arg, err)) != 0)
			return rc;
	}
	return 0;
}
