/*
 * Linked by core, which shows people what such a body says, and upstream, which signs it anew. Both
 * must read the same: there is one reading of every byte, or none.
 */
#include "common/awschunk.h"

#include <string.h>

#include "common/hash.h"

#include "common/banned.h"

enum { LINE = 0, CONTENT, CR, LF, END };

#define EXTENSION ";chunk-signature="
#define SIGNATURE_LEN 64

void
awschunk_init(struct awschunk *c)
{
	*c = (struct awschunk){.state = LINE};
}

/* The whole line, less its CRLF. */
static int
read_line(struct awschunk *c, struct str line, struct err *err)
{
	struct str rest = line, digits;
	uint64_t size = 0;

	if (!str_cut(&rest, ';', &digits) || digits.n == 0 || digits.n > 16 ||
	    line.n != digits.n + sizeof(EXTENSION) - 1 + SIGNATURE_LEN ||
	    !str_has_prefix(str_mem(line.p + digits.n, line.n - digits.n), EXTENSION))
		return err_set(err, ERR_SYNTAX, "a chunk without size and signature");
	for (size_t i = 0; i < digits.n; i++) {
		if (enc_hex_digit(digits.p[i]) < 0)
			return err_set(err, ERR_SYNTAX, "the size of a chunk is no number");
		size = size << 4 | (uint64_t)enc_hex_digit(digits.p[i]);
		if (size > AWSCHUNK_SIZE_MAX)
			return err_set(err, ERR_SYNTAX, "a chunk of over 2^40 bytes");
	}
	for (size_t i = line.n - SIGNATURE_LEN; i < line.n; i++)
		if (enc_hex_digit(line.p[i]) < 0)
			return err_set(err, ERR_SYNTAX, "the signature of a chunk is none");
	c->left = size;
	c->line = size == 0; /* from here on: whether it is the last one */
	c->state = size == 0 ? CR : CONTENT;
	return 0;
}

static int
take_line(struct awschunk *c, struct str *in, struct err *err)
{
	while (in->n != 0) {
		char ch = in->p[0];

		in->p++;
		in->n--;
		if (ch == '\n' && c->line != 0 && c->text[c->line - 1] == '\r')
			return read_line(c, str_mem(c->text, c->line - 1), err);
		if (ch == '\n' || c->line == sizeof(c->text))
			return err_set(err, ERR_SYNTAX, "the line of a chunk does not end");
		c->text[c->line++] = ch;
	}
	return 0;
}

/* The CRLF behind a chunk's content. */
static int
take_end(struct awschunk *c, struct str *in, struct err *err)
{
	if (in->p[0] != (c->state == CR ? '\r' : '\n'))
		return err_set(err, ERR_SYNTAX, "a chunk is longer than it says");
	in->p++;
	in->n--;
	if (c->state == CR) {
		c->state = LF;
		return 0;
	}
	c->state = c->line != 0 ? END : LINE;
	c->line = 0;
	return 0;
}

int
awschunk_next(struct awschunk *c, struct str *in, struct str *out, struct err *err)
{
	int rc = 0;

	*out = STR("");
	while (rc == 0 && in->n != 0 && c->state != END && out->n == 0) {
		if (c->state == LINE) {
			rc = take_line(c, in, err);
		} else if (c->state == CONTENT) {
			size_t n = c->left < in->n ? (size_t)c->left : in->n;

			*out = str_mem(in->p, n);
			in->p += n;
			in->n -= n;
			c->left -= n;
			c->total += n;
			if (c->left == 0)
				c->state = CR;
		} else {
			rc = take_end(c, in, err);
		}
	}
	return rc != 0 ? rc : c->state == END;
}

int
awschunk_read(struct str body, uint64_t length, struct buf *out, struct err *err)
{
	struct awschunk c;
	struct str some;
	int rc = 0;

	awschunk_init(&c);
	while (rc == 0 && body.n != 0) {
		rc = awschunk_next(&c, &body, &some, err);
		if (rc >= 0 && out != NULL)
			buf_put_str(out, some);
	}
	if (rc < 0)
		return rc;
	if (rc != 1 || body.n != 0)
		return err_set(err, ERR_SYNTAX, "the chunks do not end with the body");
	if (c.total != length)
		return err_set(err, ERR_SYNTAX, "the chunks hold %llu bytes, announced are %llu",
		    (unsigned long long)c.total, (unsigned long long)length);
	return 0;
}
