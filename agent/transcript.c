/*
 * The run as lines on a terminal. Runs in cofferdam-agent. The text was written by a model
 * or by code in a sandbox: an escape sequence in it must not reach the person's terminal, so
 * every line goes through the same encoding as the log (tabs apart).
 */
#include "agent/transcript.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/log.h"

#include "common/banned.h"

static void
put(const struct transcript *t, struct str s)
{
	while (t->fd >= 0 && s.n != 0) {
		ssize_t k = write(t->fd, s.p, s.n);

		if (k < 0 && errno != EINTR)
			return; /* nobody looks any more: the run does not depend on that */
		if (k > 0) {
			s.p += k;
			s.n -= (size_t)k;
		}
	}
}

/* Tabs are harmless and common in output; they stay. */
static void
put_line(const struct transcript *t, const char *mark, struct str line)
{
	AUTO_BUF struct buf b = BUF((size_t)16 << 20);
	struct str part;

	buf_put_z(&b, mark);
	if (line.n != 0 && line.p[line.n - 1] == '\r')
		line.n--;
	for (bool more = true; more;) {
		AUTO_FREE char *vis = NULL;

		more = str_cut(&line, '\t', &part);
		if (!more)
			part = line;
		vis = log_vis(part);
		buf_put_z(&b, vis);
		if (more)
			buf_put_c(&b, '\t');
	}
	buf_put_c(&b, '\n');
	put(t, buf_str(&b));
}

void
transcript_text(const struct transcript *t, const char *mark, struct str text)
{
	struct str line;

	while (text.n != 0) {
		if (!str_cut(&text, '\n', &line)) {
			line = text;
			text = STR_NONE;
		}
		put_line(t, mark, line);
	}
}

void
transcript_line(const struct transcript *t, const char *fmt, ...)
{
	char text[4096];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n > 0)
		put_line(
		    t, "", str_mem(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1));
}

void
transcript_head(const struct transcript *t, const char *run, const char *owner, const char *agent,
    const char *task)
{
	transcript_line(t, "run %s  agent %s  owner %s", run, agent, owner);
	transcript_text(t, "task: ", str_z(task));
}

void
transcript_turn(const struct transcript *t, unsigned turn)
{
	transcript_line(t, "-- turn %u", turn);
}
