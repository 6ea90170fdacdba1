/*
 * Text of others on a terminal. Runs as the person who reads it. What an agent wrote may hold
 * control sequences, characters that turn the line around, and lines so long that their rest would
 * begin at the left margin and look like a line of ours.
 */
#include "cmd/cmd_show.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/log.h"

#include "common/banned.h"

#define PREFIX "    | "
#define COLUMNS_LEAST 20
#define COLUMNS_DEFAULT 100
#define BREAK_NEAR 24

static size_t
columns(void)
{
	struct winsize w = {0};
	size_t n = COLUMNS_DEFAULT;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col != 0)
		n = w.ws_col;
	n = n > sizeof(PREFIX) ? n - sizeof(PREFIX) : 0;
	return n > COLUMNS_LEAST ? n : COLUMNS_LEAST;
}

/* Bytes of the first characters of s that surely fit: what is not ASCII may be two columns wide. */
static size_t
fitting(struct str s, size_t most)
{
	size_t n = 0, width = 0;

	while (n < s.n) {
		uint8_t c = (uint8_t)s.p[n];
		size_t k = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

		width += c < 0x80 ? 1 : 2;
		if (width > most && n != 0)
			break;
		n += k < s.n - n ? k : s.n - n;
	}
	return n;
}

char *
show_cut(struct str s, size_t most)
{
	AUTO_FREE char *vis = log_vis(s);
	AUTO_BUF struct buf b = BUF((size_t)4 * s.n + 16);
	struct str v = str_z(vis);
	size_t n = fitting(v, most);

	buf_put(&b, v.p, n);
	if (n < v.n)
		buf_put_z(&b, "...");
	return buf_dup_z(&b);
}

/* A line of the n bytes of v that fit ends behind a blank or a separator, if one is near its end.
 */
static size_t
broken_at(struct str v, size_t n)
{
	size_t k = n;

	if (n == v.n)
		return n;
	while (k > 1 && n - k < BREAK_NEAR && strchr(" &,;", v.p[k - 1]) == NULL)
		k--;
	return k > 1 && n - k < BREAK_NEAR ? k : n;
}

static void
show_line(struct str line)
{
	AUTO_FREE char *vis = log_vis(line);
	struct str v = str_z(vis);
	size_t most = columns();

	do {
		size_t n = broken_at(v, fitting(v, most));

		(void)printf(PREFIX "%.*s\n", (int)n, v.p);
		v.p += n;
		v.n -= n;
	} while (v.n != 0);
}

void
show_block(struct str text)
{
	struct str line;

	while (str_cut(&text, '\n', &line))
		show_line(line);
	if (text.n != 0)
		show_line(text);
}
