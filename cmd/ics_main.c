/*
 * cofferdam-ics: what libical makes of a calendar file, as a second opinion for `cofferdam policy
 * import-ics`. One thread, no file, no network, one second: libical is large, and reads foreign
 * bytes. Speaks of nothing but starts by the wall clock and of what libical itself calls an error;
 * its zones are never asked, since it takes an unknown one for UTC.
 */
#include <errno.h>
#include <libical/ical.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/proc.h"

#include "common/banned.h"

#define WIRE 3
#define TEXT_MAX ((size_t)1 << 20)
#define STARTS_MAX 1100 /* more than a calendar takes */

/* The text up to the end that the other side shuts. */
static int
text_read(struct buf *text)
{
	char chunk[4096];
	ssize_t n;

	while ((n = read(WIRE, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno != EINTR)
			return -1;
		if (n > 0)
			buf_put(text, chunk, (size_t)n);
	}
	return buf_over(text) ? -1 : 0;
}

/* X-LIC-ERROR anywhere beneath. */
static unsigned
errors(icalcomponent *c)
{
	unsigned n = 0;

	for (icalproperty *p = icalcomponent_get_first_property(c, ICAL_XLICERROR_PROPERTY);
	     p != NULL; p = icalcomponent_get_next_property(c, ICAL_XLICERROR_PROPERTY))
		n++;
	for (icalcomponent *k = icalcomponent_get_first_component(c, ICAL_ANY_COMPONENT); k != NULL;
	     k = icalcomponent_get_next_component(c, ICAL_ANY_COMPONENT))
		n += errors(k); /* as deep as the reader before us let it be: four */
	return n;
}

static void
start_put(struct buf *out, struct icaltimetype t)
{
	buf_printf(
	    out, " %04d%02d%02dT%02d%02d%02d", t.year, t.month, t.day, t.hour, t.minute, t.second);
}

/* "event YYYYMMDDTHHMMSS ..." up to the limit, by the wall clock of its own zone. */
static void
event_put(struct buf *out, icalcomponent *event, struct icaltimetype limit)
{
	icalproperty *start = icalcomponent_get_first_property(event, ICAL_DTSTART_PROPERTY);
	icalproperty *rule = icalcomponent_get_first_property(event, ICAL_RRULE_PROPERTY);
	struct icaltimetype from, t;
	icalrecur_iterator *it;

	buf_put_z(out, "event");
	if (start == NULL)
		return;
	from = icalproperty_get_dtstart(start);
	from.zone = NULL;
	if (rule == NULL) {
		start_put(out, from);
		buf_put_z(out, "\n");
		return;
	}
	it = icalrecur_iterator_new(icalproperty_get_rrule(rule), from);
	for (unsigned n = 0; it != NULL && n < STARTS_MAX; n++) {
		t = icalrecur_iterator_next(it);
		if (icaltime_is_null_time(t) ||
		    (!icaltime_is_null_time(limit) && icaltime_compare(t, limit) >= 0))
			break;
		start_put(out, t);
	}
	buf_put_z(out, it != NULL ? "\n" : " bad\n");
	icalrecur_iterator_free(it);
}

static int
answer(const struct buf *text, struct buf *out)
{
	char *z = buf_dup_z(text), *body = strchr(z, '\n');
	icalcomponent *root;
	struct icaltimetype limit = icaltime_null_time();

	if (body == NULL)
		return -1;
	*body++ = '\0'; /* the first line: the limit, or "-" */
	if (z[0] != '-')
		limit = icaltime_from_string(z);
	root = icalparser_parse_string(body);
	if (root == NULL || icalcomponent_isa(root) != ICAL_VCALENDAR_COMPONENT)
		return -1;
	buf_printf(out, "errors %u\n", errors(root));
	for (icalcomponent *e = icalcomponent_get_first_component(root, ICAL_VEVENT_COMPONENT);
	     e != NULL; e = icalcomponent_get_next_component(root, ICAL_VEVENT_COMPONENT))
		event_put(out, e, limit);
	buf_put_z(out, "end\n");
	icalcomponent_free(root);
	free(z);
	return buf_over(out) ? -1 : 0;
}

/* What libical (and ICU beneath it) opens on a first rule it opens before the doors shut. */
static void
warm_up(void)
{
	static const char first[] = "-\nBEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\n"
				    "DTSTART:20260101T000000Z\r\nRRULE:FREQ=MONTHLY;BYDAY=1TH;"
				    "COUNT=2\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
	AUTO_BUF struct buf text = BUF(sizeof(first));
	AUTO_BUF struct buf out = BUF(4096);

	(void)icaltimezone_get_builtin_timezones();
	buf_put_z(&text, first);
	(void)answer(&text, &out);
}

static int
confine(struct err *err)
{
	static const char *const none[] = {NULL};
	const struct rlimit cpu = {1, 1}, mem = {(rlim_t)512 << 20, (rlim_t)512 << 20};
	int rc = proc_harden(err);

	if (setrlimit(RLIMIT_CPU, &cpu) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "RLIMIT_CPU");
#ifndef MODE_SANITIZED
	if (setrlimit(RLIMIT_AS, &mem) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "RLIMIT_AS");
#else
	(void)mem;
#endif
	if (rc == 0)
		rc = proc_landlock(NULL, 0, err);
	return rc == 0 ? proc_seccomp(none, err) : rc;
}

int
main(void)
{
	AUTO_BUF struct buf text = BUF(TEXT_MAX + 64);
	AUTO_BUF struct buf out = BUF((size_t)8 << 20);
	struct err err = {0};

	icalerror_set_errors_are_fatal(0);
	warm_up();
	if (confine(&err) != 0) {
		(void)fprintf(stderr, "cofferdam-ics: %s\n", err.msg);
		return 2;
	}
	if (text_read(&text) != 0 || answer(&text, &out) != 0)
		return 1;
	for (size_t at = 0; at < out.n;) {
		ssize_t n = write(WIRE, out.p + at, out.n - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 1;
		at += (size_t)n;
	}
	return 0;
}
