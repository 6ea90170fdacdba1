/*
 * The operational log. Linked into every process; a child hands its lines to the parent
 * by a sink, the parent writes them to standard error. What is logged may quote bytes
 * of an attacker: no control, bidi or invalid byte leaves here, and one line stays one line.
 * Never fails, never blocks on memory, and must never be given a secret.
 */
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "common/xalloc.h"

#include "common/banned.h"

static const char *log_name = "cofferdam";
static enum log_level log_max = LOG_INFO_;
static log_sink_fn *log_sink;
static void *log_sink_arg;

static const char *const level_text[] = {"error: ", "warning: ", "", "debug: "};

void
log_init(const char *name, enum log_level max)
{
	log_name = name;
	log_max = max;
}

void
log_set_sink(log_sink_fn *fn, void *arg)
{
	log_sink = fn;
	log_sink_arg = arg;
}

/*
 * Code points that show nothing or change how their neighbours show: bidi controls (the
 * "Trojan Source" set), zero-width and line separators, and the tag and variation blocks
 * in which whole sentences can be hidden from the person who reads the line.
 */
static bool
is_deceptive(uint32_t c)
{
	static const struct {
		uint32_t lo, hi;
	} bad[] = {
	    {0x80, 0x9f},
	    {0xad, 0xad},
	    {0x61c, 0x61c},
	    {0x180e, 0x180e},
	    {0x200b, 0x200f},
	    {0x2028, 0x202e},
	    {0x2060, 0x206f},
	    {0xfeff, 0xfeff},
	    {0xfff9, 0xfffb},
	    {0xfffe, 0xffff},
	    {0xe0000, 0xe0fff},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (c >= bad[i].lo && c <= bad[i].hi)
			return true;
	return false;
}

/* Bytes of the character at the front of s that may be shown as they are; 0: encode. */
static size_t
showable(struct str s)
{
	const uint8_t *p = (const uint8_t *)s.p;
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	uint32_t c;

	if (n == 1)
		return p[0] >= 0x20 && p[0] != 0x7f;
	if (s.n < n || !str_is_utf8(str_mem(p, n)))
		return 0;
	c = p[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++)
		c = c << 6 | (p[i] & 0x3fu);
	return is_deceptive(c) ? 0 : n;
}

/* Encode the front of *s into out (4 bytes at most), step over it; returns bytes written. */
static size_t
vis_step(struct str *s, char out[4])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t c = (uint8_t)s->p[0];
	size_t n = showable(*s), used = n != 0 ? n : 1;

	if (n != 0) {
		memcpy(out, s->p, n);
	} else {
		out[0] = '\\';
		out[1] = 'x';
		out[2] = digits[c >> 4];
		out[3] = digits[c & 15];
		n = 4;
	}
	s->p += used;
	s->n -= used;
	return n;
}

/* Returns the length written; cut (with a mark, never inside a character) at cap. */
static size_t
vis_cut(struct str s, char *out, size_t cap)
{
	size_t n = 0, mark = 0; /* mark: where the dots would still fit */

	while (s.n != 0) {
		char one[4];
		size_t k = vis_step(&s, one);

		if (n + k > cap) {
			for (int i = 0; i < 3; i++)
				out[mark++] = '.';
			return mark;
		}
		memcpy(out + n, one, k);
		n += k;
		if (n <= cap - 3)
			mark = n;
	}
	return n;
}

char *
log_vis(struct str s)
{
	char *out = xreallocarray(NULL, s.n + 1, 4);
	size_t n = 0;

	while (s.n != 0) {
		char one[4];
		size_t k = vis_step(&s, one);

		memcpy(out + n, one, k);
		n += k;
	}
	out[n] = '\0';
	return out;
}

/* One write(2) for a line, so that lines of several processes do not mix. */
static void
line_out(const char *name, enum log_level level, struct str raw)
{
	char line[LOG_LINE_MAX + 64];
	int head;
	size_t n;

	head = snprintf(line, 64, "%.40s: %s", name, level_text[level]);
	n = head > 0 ? (size_t)head : 0;
	n += vis_cut(raw, line + n, LOG_LINE_MAX);
	line[n++] = '\n';
	(void)!write(STDERR_FILENO, line, n);
}

static void log_va(enum log_level level, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);

static void
log_va(enum log_level level, const char *fmt, va_list ap)
{
	char raw[LOG_LINE_MAX + 8], vis[LOG_LINE_MAX];
	int saved = errno, n;
	struct str s;

	if (level > log_max)
		return;
	n = vsnprintf(raw, sizeof(raw), fmt, ap);
	if (n < 0)
		n = 0;
	s = str_mem(raw, (size_t)n < sizeof(raw) ? (size_t)n : sizeof(raw) - 1);
	if (log_sink != NULL)
		log_sink(log_sink_arg, level, str_mem(vis, vis_cut(s, vis, sizeof(vis))));
	else
		line_out(log_name, level, s);
	errno = saved;
}

void
log_foreign(const char *name, unsigned level, struct str line)
{
	/* A level that does not exist is a peer gone wrong: show it. */
	enum log_level l = level < ARRAY_LEN(level_text) ? (enum log_level)level : LOG_ERROR_;
	int saved = errno;

	if (l > log_max)
		return;
	line_out(name, l, line);
	errno = saved;
}

void
log_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_va(LOG_ERROR_, fmt, ap);
	va_end(ap);
}

void
log_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_va(LOG_WARN_, fmt, ap);
	va_end(ap);
}

void
log_info(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_va(LOG_INFO_, fmt, ap);
	va_end(ap);
}

void
log_debug(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_va(LOG_DEBUG_, fmt, ap);
	va_end(ap);
}

void
fatal(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_va(LOG_ERROR_, fmt, ap);
	va_end(ap);
	_exit(1);
}

void
fatal_err(const struct err *err)
{
	fatal("%s", err->msg[0] != '\0' ? err->msg : err_text(err->code));
}
