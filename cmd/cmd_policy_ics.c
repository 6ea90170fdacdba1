/*
 * Windows as an iCalendar file (RFC 5545), for `cofferdam policy calendar --ics`: so that people
 * see a freeze where they see their meetings. UTC, so that no reader needs to know our zones. Only
 * writes.
 */
#include <string.h>

#include "cmd/cmd_policy_calendar.h"
#include "common/hash.h"

#include "common/banned.h"

#define LINE_MAX_BYTES 75 /* RFC 5545 3.1: without the line end */

/* "20261218T180000Z" */
static void
put_instant(struct buf *out, int64_t us)
{
	char text[CLOCK_TEXT_SIZE];

	clock_format_s(us, text);
	buf_printf(out, "%.4s%.2s%.2sT%.2s%.2s%.2sZ", text, text + 5, text + 8, text + 11,
	    text + 14, text + 17);
}

/* RFC 5545 3.3.11 */
static void
put_text(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\n') {
			buf_put_z(out, "\\n");
			continue;
		}
		if (strchr("\\;,", s.p[i]) != NULL)
			buf_put_c(out, '\\');
		buf_put_c(out, s.p[i]);
	}
}

/* One content line, folded. What we write is ASCII, so no character is cut in two. */
static void
put_line(struct buf *out, const struct buf *line)
{
	size_t at = 0, room = LINE_MAX_BYTES;

	while (at < line->n) {
		size_t n = line->n - at < room ? line->n - at : room;

		buf_put(out, line->p + at, n);
		buf_put_z(out, "\r\n");
		at += n;
		if (at < line->n)
			buf_put_c(out, ' ');
		room = LINE_MAX_BYTES - 1;
	}
}

static void
put_pair(struct buf *out, const char *name, struct str text)
{
	AUTO_BUF struct buf line = BUF(8192);

	buf_printf(&line, "%s:", name);
	put_text(&line, text);
	put_line(out, &line);
}

static void
put_when(struct buf *out, const char *name, int64_t us)
{
	AUTO_BUF struct buf line = BUF(64);

	buf_printf(&line, "%s:", name);
	put_instant(&line, us);
	put_line(out, &line);
}

/* The same window has the same id in every export, so that a second import replaces the first. */
static void
put_uid(struct buf *out, const struct policy *p, struct str calendar, int64_t from_s)
{
	AUTO_BUF struct buf text = BUF(1024);
	AUTO_BUF struct buf uid = BUF(256);
	struct hash h;

	buf_lstr(&text, policy_name(p));
	buf_lstr(&text, calendar);
	buf_u64(&text, (uint64_t)from_s);
	h = hash_sha256(buf_str(&text));
	enc_hex(&uid, str_mem(h.b, 16));
	buf_put_z(&uid, "@cofferdam");
	put_pair(out, "UID", buf_str(&uid));
}

static void
put_event(struct buf *out, const struct policy *p, size_t i, size_t k, int64_t stamp_us)
{
	struct policy_calendar c = policy_calendar_at(p, i);
	AUTO_BUF struct buf text = BUF(1024);
	int64_t from, to;

	policy_calendar_interval(p, i, k, &from, &to);
	buf_put_z(out, "BEGIN:VEVENT\r\n");
	put_uid(out, p, c.id, from);
	put_when(out, "DTSTAMP", stamp_us);
	put_when(out, "DTSTART", from * 1000000);
	put_when(out, "DTEND", to * 1000000);
	buf_printf(&text, "%s: %.*s", c.open ? "Open window" : "Change freeze", STR_ARG(c.id));
	put_pair(out, "SUMMARY", buf_str(&text));
	buf_reset(&text);
	buf_printf(&text, "Calendar %.*s (%.*s) of policy %.*s, serial %lld.%s", STR_ARG(c.id),
	    STR_ARG(c.tz), STR_ARG(policy_name(p)), (long long)policy_serial(p),
	    to == c.valid_to ? " The calendar is valid no longer; after that it counts as frozen."
			     : "");
	put_pair(out, "DESCRIPTION", buf_str(&text));
	put_pair(out, "CATEGORIES", c.open ? STR("OPEN") : STR("FREEZE"));
	buf_put_z(out, "TRANSP:TRANSPARENT\r\nEND:VEVENT\r\n");
}

void
calendar_ics_put(struct buf *out, const struct policy *p, const char *const *names, size_t nnames,
    int64_t stamp_us)
{
	buf_put_z(out, "BEGIN:VCALENDAR\r\nVERSION:2.0\r\n"
		       "PRODID:-//Cofferdam//policy calendar//EN\r\nCALSCALE:GREGORIAN\r\n"
		       "METHOD:PUBLISH\r\n");
	for (size_t i = 0; i < policy_calendar_count(p); i++)
		for (size_t k = 0; calendar_is_chosen(p, i, names, nnames) &&
				   k < policy_calendar_at(p, i).nintervals;
		     k++)
			put_event(out, p, i, k, stamp_us);
	buf_put_z(out, "END:VCALENDAR\r\n");
}
