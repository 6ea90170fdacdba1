/*
 * Lines for a terminal. Runs in the command line. The only escape sequences are made here, around
 * whole lines; what the lines hold was encoded before.
 */
#include "audit/replay_term.h"

#include "common/banned.h"

#define MORE "                     : "
#define MORE_COLUMNS (sizeof(MORE) - 1)
#define WIDTH_MIN 60 /* narrower ones are treated as this */

static const char *const sgr[] = {
    [TERM_PLAIN] = NULL,
    [TERM_CLAIM] = "\x1b[36m",
    [TERM_ALLOW] = "\x1b[32m",
    [TERM_WAIT] = "\x1b[33m",
    [TERM_DENY] = "\x1b[1;31m",
    [TERM_GAP] = "\x1b[35m",
    [TERM_DOUBT] = "\x1b[1;7;31m",
};

/* The character at the front: its bytes and its columns. */
static size_t
step(struct str s, unsigned *ret_columns)
{
	uint8_t c = (uint8_t)s.p[0];
	size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	uint32_t u = c < 0x80 ? c : c & (0xffu >> (n + 1));

	if (n > s.n)
		n = s.n;
	for (size_t i = 1; i < n; i++)
		u = u << 6 | ((uint8_t)s.p[i] & 0x3f);
	*ret_columns = (u >= 0x300 && u <= 0x36f) || (u >= 0xfe00 && u <= 0xfe0f) ? 0
		       : (u >= 0x1100 && u <= 0x115f) || (u >= 0x2e80 && u <= 0xa4cf) ||
			       (u >= 0xac00 && u <= 0xd7a3) || (u >= 0xf900 && u <= 0xfaff) ||
			       (u >= 0xfe30 && u <= 0xfe6f) || (u >= 0xff00 && u <= 0xff60) ||
			       (u >= 0x1f300 && u <= 0x1faff) || (u >= 0x20000 && u <= 0x3fffd)
			   ? 2
			   : 1;
	return n;
}

size_t
term_columns(struct str text)
{
	size_t columns = 0;
	unsigned one;

	while (text.n != 0) {
		size_t n = step(text, &one);

		columns += one;
		text = str_mem(text.p + n, text.n - n);
	}
	return columns;
}

/* As much as fits, up to a space where there is one in its second half. */
static struct str
fit(struct str s, size_t columns)
{
	size_t at = 0, used = 0, space = 0;

	while (at < s.n) {
		unsigned one;
		size_t n = step(str_mem(s.p + at, s.n - at), &one);

		if (used + one > columns)
			return str_mem(s.p, space != 0 ? space : at);
		used += one;
		at += n;
		if (s.p[at - 1] == ' ' && used * 2 > columns)
			space = at;
	}
	return s;
}

static void
put(const struct term *t, enum term_tone tone, const char *before, struct str part)
{
	bool colour = t->colour && sgr[tone] != NULL;

	if (colour)
		buf_put_z(t->out, sgr[tone]);
	buf_put_z(t->out, before);
	buf_put_str(t->out, part);
	if (colour)
		buf_put_z(t->out, "\x1b[0m");
	buf_put_c(t->out, '\n');
}

void
term_line(const struct term *t, enum term_tone tone, struct str line)
{
	size_t width = t->width < WIDTH_MIN ? WIDTH_MIN : t->width;
	const char *before = "";
	size_t taken = 0;

	while (t->width != 0 && term_columns(line) > width - taken) {
		struct str part = fit(line, width - taken);

		put(t, tone, before, part);
		line = str_mem(line.p + part.n, line.n - part.n);
		before = MORE;
		taken = MORE_COLUMNS;
	}
	put(t, tone, before, line);
}
