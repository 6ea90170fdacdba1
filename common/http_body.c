/*
 * Bodies: where they end, and what is content in them. Runs in front on bytes from hostile clients
 * and in the agent's loop. Takes input in any pieces and gives the same content for all of them;
 * must never take a byte that stands behind the end.
 */
#include "common/http.h"

#include "common/hash.h"

#include "common/banned.h"

#define SIZE_DIGITS 16
#define TRAILER_MAX 8192

enum state {
	CHUNK_SIZE = 0,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	TRAILER_START, /* of a line */
	TRAILER_NAME,
	TRAILER_VALUE,
	TRAILER_LF,
	END_LF,
	ENDED,
};

/* What would frame, route or end a message, had it stood in the head. */
static const char *const banned_trailers[] = {"connection", "content-length", "expect", "host",
    "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"};

void
http_reader_init(struct http_reader *r, enum http_body kind, uint64_t length)
{
	*r = (struct http_reader){.kind = kind};
	if (kind == HTTP_BODY_LENGTH)
		r->left = length;
}

static int
bad(struct err *err, const char *what)
{
	return err_set(err, ERR_SYNTAX, "chunked body: %s", what);
}

static int
step_size(struct http_reader *r, char c, struct err *err)
{
	int v = enc_hex_digit(c);

	if (v >= 0) {
		if (++r->line > SIZE_DIGITS)
			return bad(err, "a size of more than 16 digits");
		r->left = r->left << 4 | (uint64_t)v;
		return 0;
	}
	if (c != '\r' || r->line == 0)
		return bad(err, "a size is not hex digits and CRLF");
	if (r->left > INT64_MAX - r->total)
		return bad(err, "its size is over 2^63");
	r->state = CHUNK_SIZE_LF;
	return 0;
}

static int
step_trailer_name(struct http_reader *r, char c, struct err *err)
{
	if (c == ':') {
		for (size_t i = 0; i < ARRAY_LEN(banned_trailers); i++)
			if ((r->names & 1u << i) != 0 && banned_trailers[i][r->name] == '\0')
				return bad(err, "a trailer that would frame a message");
		r->state = TRAILER_VALUE;
		return r->name != 0 ? 0 : bad(err, "a trailer without a name");
	}
	if (!http_is_token((struct str){&c, 1}))
		return bad(err, "the name of a trailer is not a token");
	c = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
	for (size_t i = 0; i < ARRAY_LEN(banned_trailers); i++)
		if ((r->names & 1u << i) != 0 && banned_trailers[i][r->name] != c)
			r->names &= (uint16_t) ~(1u << i);
	r->name++;
	return 0;
}

static int
step_trailer(struct http_reader *r, char c, struct err *err)
{
	if (++r->line > TRAILER_MAX)
		return bad(err, "more than 8192 bytes of trailers");
	if (r->state == TRAILER_START) {
		r->state = c == '\r' ? END_LF : TRAILER_NAME;
		r->names = UINT16_MAX;
		r->name = 0;
		return c == '\r' ? 0 : step_trailer_name(r, c, err);
	}
	if (r->state == TRAILER_NAME)
		return step_trailer_name(r, c, err);
	if (c == '\r')
		r->state = TRAILER_LF;
	else if (!http_is_value((struct str){&c, 1}))
		return bad(err, "a control character in a trailer");
	return 0;
}

/* One byte that is exactly `want`, and what comes behind it. */
static int
step_exact(struct http_reader *r, char c, char want, enum state next, struct err *err)
{
	if (c != want)
		return bad(err, "a line does not end in CRLF");
	r->state = (uint8_t)next;
	return 0;
}

/* One byte that is not content. */
static int
step(struct http_reader *r, char c, struct err *err)
{
	switch ((enum state)r->state) {
	case CHUNK_SIZE: return step_size(r, c, err);
	case CHUNK_SIZE_LF:
		r->line = 0;
		return step_exact(r, c, '\n', r->left != 0 ? CHUNK_DATA : TRAILER_START, err);
	case CHUNK_DATA_CR: return step_exact(r, c, '\r', CHUNK_DATA_LF, err);
	case CHUNK_DATA_LF: return step_exact(r, c, '\n', CHUNK_SIZE, err);
	case TRAILER_START:
	case TRAILER_NAME:
	case TRAILER_VALUE: return step_trailer(r, c, err);
	case TRAILER_LF: return step_exact(r, c, '\n', TRAILER_START, err);
	case END_LF: return step_exact(r, c, '\n', ENDED, err);
	case CHUNK_DATA:
	case ENDED: break;
	}
	return err_set(err, ERR_INTERNAL, "chunked body: no such state");
}

static struct str
take(struct http_reader *r, struct str *in)
{
	uint64_t n = r->kind == HTTP_BODY_CLOSE || in->n < r->left ? in->n : r->left;
	struct str out = {in->p, (size_t)n};

	if (n == 0)
		return STR_NONE;
	if (r->kind != HTTP_BODY_CLOSE)
		r->left -= n;
	r->total += n;
	in->p += n;
	in->n -= (size_t)n;
	return out;
}

static int
next_chunked(struct http_reader *r, struct str *in, struct str *out, struct err *err)
{
	while (in->n != 0 && r->state != ENDED) {
		if (r->state == CHUNK_DATA) {
			*out = take(r, in);
			if (r->left == 0)
				r->state = CHUNK_DATA_CR;
			return 0;
		}
		int rc = step(r, in->p[0], err);

		if (rc != 0)
			return rc;
		in->p++;
		in->n--;
	}
	return r->state == ENDED;
}

int
http_reader_next(struct http_reader *r, struct str *in, struct str *out, struct err *err)
{
	*out = STR_NONE;
	if (r->kind == HTTP_BODY_CHUNKED)
		return next_chunked(r, in, out, err);
	if (r->kind == HTTP_BODY_NONE)
		return 1;
	*out = take(r, in);
	return r->kind == HTTP_BODY_LENGTH && r->left == 0;
}
