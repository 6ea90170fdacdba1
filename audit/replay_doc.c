/*
 * Markdown and HTML. Runs in the command line. Recorded text stands in code spans and fenced blocks
 * with more backticks around it than it has, or behind html_put: no link, no heading, no tag of an
 * agent's making.
 */
#include "audit/replay_doc.h"

#include <stdarg.h>
#include <stdio.h>

#include "audit/replay_html.h"
#include "audit/replay_put.h"
#include "common/xalloc.h"

#include "common/banned.h"

static void
lists(struct doc *d, unsigned depth)
{
	if (!d->html) {
		if (depth == 0 && d->lists != 0)
			buf_put_c(d->out, '\n');
		d->lists = depth;
		return;
	}
	for (; d->lists < depth; d->lists++)
		buf_put_z(d->out, "<ul>\n");
	for (; d->lists > depth; d->lists--)
		buf_put_z(d->out, "</ul>\n");
}

void
doc_heading(struct doc *d, unsigned level, const char *words)
{
	lists(d, 0);
	if (d->html) {
		buf_printf(d->out, "<h%u>%s</h%u>\n", level, words, level);
		return;
	}
	for (unsigned i = 0; i < level; i++)
		buf_put_c(d->out, '#');
	buf_printf(d->out, " %s\n\n", words);
}

void
doc_begin(struct doc *d, unsigned depth)
{
	lists(d, depth);
	if (d->html)
		buf_put_z(d->out, depth != 0 ? "<li>" : "<p>");
	else if (depth != 0)
		buf_put_z(d->out, depth == 1 ? "- " : "  - ");
}

void
doc_end(struct doc *d)
{
	if (d->html)
		buf_put_z(d->out, d->lists != 0 ? "</li>\n" : "</p>\n");
	else
		buf_put_z(d->out, d->lists != 0 ? "\n" : "\n\n");
}

void
doc_words(struct doc *d, const char *fmt, ...)
{
	AUTO_FREE char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	buf_put_z(d->out, text != NULL ? text : "");
}

void
doc_strong(struct doc *d, const char *words)
{
	buf_printf(d->out, d->html ? "<strong>%s</strong>" : "**%s**", words);
}

/* The longest run of backticks. */
static size_t
ticks(struct str s)
{
	size_t longest = 0, run = 0;

	for (size_t i = 0; i < s.n; i++) {
		run = s.p[i] == '`' ? run + 1 : 0;
		if (run > longest)
			longest = run;
	}
	return longest;
}

static void
fence(struct doc *d, size_t n)
{
	while (n-- != 0)
		buf_put_c(d->out, '`');
}

void
doc_code(struct doc *d, struct str recorded)
{
	size_t n = ticks(recorded) + 1;

	if (d->html) {
		buf_put_z(d->out, "<code>");
		html_put(d->out, recorded);
		buf_put_z(d->out, "</code>");
		return;
	}
	fence(d, n);
	if (n > 1 || recorded.n == 0)
		buf_put_c(d->out, ' ');
	replay_put_vis(d->out, recorded);
	if (n > 1)
		buf_put_c(d->out, ' ');
	fence(d, n);
}

static void
block_lines(struct doc *d, struct str text)
{
	struct str line;

	while (text.n != 0) {
		if (!str_cut(&text, '\n', &line)) {
			line = text;
			text = STR_NONE;
		}
		replay_put_vis(d->out, line);
		buf_put_c(d->out, '\n');
	}
}

void
doc_block(struct doc *d, struct str recorded)
{
	size_t n = ticks(recorded) < 3 ? 3 : ticks(recorded) + 1;

	lists(d, 0);
	if (d->html) {
		buf_put_z(d->out, "<pre><code>");
		html_put(d->out, recorded);
		buf_put_z(d->out, "</code></pre>\n");
		return;
	}
	fence(d, n);
	buf_put_z(d->out, "text\n");
	block_lines(d, recorded);
	fence(d, n);
	buf_put_z(d->out, "\n\n");
}

void
doc_close(struct doc *d)
{
	lists(d, 0);
}
