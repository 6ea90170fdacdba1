/*
 * Any recorded byte, put into a page. Runs in the command line. Nothing that comes out can end an
 * element, begin one, or be a control or bidirectional character: only &, letters and our own tags.
 */
#include "audit/replay_html.h"

#include "common/log.h"

#include "common/banned.h"

static const char *
entity(char c)
{
	return c == '<'	   ? "&lt;"
	       : c == '>'  ? "&gt;"
	       : c == '&'  ? "&amp;"
	       : c == '"'  ? "&quot;"
	       : c == '\'' ? "&#39;"
			   : NULL;
}

/* Bytes of the well-formed character at the front, 1 where there is none. */
static size_t
character(struct str s)
{
	uint8_t c = (uint8_t)s.p[0];
	size_t n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

	return n <= s.n && str_is_utf8(str_mem(s.p, n)) ? n : 1;
}

static void
put_one(struct buf *b, struct str one)
{
	AUTO_FREE char *vis = log_vis(one);

	if (str_eqz(one, vis)) {
		buf_put_str(b, one);
		return;
	}
	buf_put_z(b, "<b class=\"byte\">");
	buf_put_z(b, vis);
	buf_put_z(b, "</b>");
}

void
html_put(struct buf *b, struct str s)
{
	size_t i = 0, plain = 0;

	while (i < s.n) {
		char c = s.p[i];
		size_t n = 1;

		if (((c >= ' ' && c < 0x7f) || c == '\n' || c == '\t') && entity(c) == NULL) {
			i++;
			continue;
		}
		buf_put(b, s.p + plain, i - plain);
		if (entity(c) != NULL) {
			buf_put_z(b, entity(c));
		} else {
			n = character(str_mem(s.p + i, s.n - i));
			put_one(b, str_mem(s.p + i, n));
		}
		i += n;
		plain = i;
	}
	buf_put(b, s.p + plain, s.n - plain);
}

void
html_put_z(struct buf *b, const char *z)
{
	html_put(b, str_z(z));
}
