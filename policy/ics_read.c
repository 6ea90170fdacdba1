/*
 * An iCalendar file, line by line. Runs in the command line alone, on foreign bytes. Every
 * component and property is known and read, known and harmless, or refused: a property that moves
 * or cancels an occurrence must never be passed over.
 */
#include "policy/ics.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/banned.h"

#define DEPTH_MAX 4

struct ics_reader {
	const char *name;
	struct arena *mem;
	struct ics *ics;
	struct str rest;
	unsigned line, next_line; /* where the content line began; of what follows */
	struct str component[DEPTH_MAX];
	size_t depth;
	struct ics_event *event; /* that is open; NULL: none */
	unsigned seen;		 /* properties of it, bits of `properties` */
	bool calendar;		 /* one is, or was, there */
	bool version;
};

static int fail(const struct ics_reader *r, struct err *err, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
static int
fail(const struct ics_reader *r, struct err *err, const char *fmt, ...)
{
	char msg[ERR_MSG_MAX / 2];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	return err_set(err, ERR_INVALID, "%s:%u: %s", r->name, r->line, msg);
}

/* --- lines --------------------------------------------------------------------------- */

static bool
physical(struct ics_reader *r, struct str *ret)
{
	if (r->rest.n == 0)
		return false;
	if (!str_cut(&r->rest, '\n', ret)) {
		*ret = r->rest;
		r->rest.n = 0;
	}
	r->next_line++;
	if (ret->n != 0 && ret->p[ret->n - 1] == '\r')
		ret->n--;
	return true;
}

/* One content line, unfolded (RFC 5545 3.1). *ret_n 0: the end. */
static int
content_line(struct ics_reader *r, char out[ICS_LINE_MAX], size_t *ret_n, struct err *err)
{
	struct str s;
	size_t n = 0;

	r->line = r->next_line;
	if (!physical(r, &s)) {
		*ret_n = 0;
		return 0;
	}
	if (s.n == 0 || s.p[0] == ' ' || s.p[0] == '\t')
		return fail(r, err, "a line is empty, or continues nothing");
	for (;;) {
		if (n + s.n > ICS_LINE_MAX)
			return fail(r, err, "a line is over %d bytes", ICS_LINE_MAX);
		(void)memcpy(out + n, s.p, s.n);
		n += s.n;
		if (r->rest.n == 0 || (r->rest.p[0] != ' ' && r->rest.p[0] != '\t'))
			break;
		(void)physical(r, &s);
		s.p++;
		s.n--;
	}
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)out[i] < 0x20 && out[i] != '\t')
			return fail(r, err, "a line has a control character");
	*ret_n = n;
	return 0;
}

struct property {
	struct str name, value, tzid, type; /* type: VALUE=... */
};

/* NAME *(;PARAM=VALUE) : VALUE */
static int
property_split(struct ics_reader *r, struct str s, struct property *ret, struct err *err)
{
	size_t i = 0, from;
	bool quoted = false;

	*ret = (struct property){0};
	while (i < s.n && s.p[i] != ';' && s.p[i] != ':')
		i++;
	ret->name = (struct str){s.p, i};
	while (i < s.n && s.p[i] == ';') {
		struct str param, key;

		for (from = ++i; i < s.n && (quoted || (s.p[i] != ';' && s.p[i] != ':')); i++)
			if (s.p[i] == '"')
				quoted = !quoted;
		param = (struct str){s.p + from, i - from};
		if (!str_cut(&param, '=', &key))
			return fail(r, err, "a parameter is not NAME=VALUE");
		if (param.n >= 2 && param.p[0] == '"' && param.p[param.n - 1] == '"')
			param = (struct str){param.p + 1, param.n - 2};
		if (str_ieqz(key, "TZID"))
			ret->tzid = param;
		else if (str_ieqz(key, "VALUE"))
			ret->type = param;
		else if (str_ieqz(key, "RANGE"))
			return fail(r, err, "RANGE moves occurrences: not supported");
	}
	if (i == s.n || ret->name.n == 0)
		return fail(r, err, "a line is not NAME:VALUE");
	ret->value = (struct str){s.p + i + 1, s.n - i - 1};
	return 0;
}

/* --- times --------------------------------------------------------------------------- */

/* The zone of all events: a policy's calendar has one. */
static int
zone(struct ics_reader *r, struct str tzid, struct err *err)
{
	if (r->ics->tzid.n == 0)
		r->ics->tzid = arena_str(r->mem, tzid);
	if (!str_eq(r->ics->tzid, tzid))
		return fail(r, err,
		    "zone %.*s beside %.*s: a calendar has one zone, import them one by one",
		    STR_ARG(tzid), STR_ARG(r->ics->tzid));
	return 0;
}

static int
read_time(struct ics_reader *r, const struct property *p, struct str value, struct ics_time *ret,
    struct err *err)
{
	bool date = str_ieqz(p->type, "DATE");
	int rc = 0;

	if (p->type.n != 0 && !date && !str_ieqz(p->type, "DATE-TIME"))
		return fail(r, err, "VALUE=%.*s is not supported", STR_ARG(p->type));
	if (!ics_parse_time(value, date, ret))
		return fail(r, err, "\"%.*s\" is no %s that there is", STR_ARG(value),
		    date ? "date (20261218)" : "time (20261218T180000)");
	if (date || ret->utc) {
		if (p->tzid.n != 0)
			return fail(r, err, "TZID stands beside a %s", date ? "date" : "UTC time");
	} else if (p->tzid.n == 0) {
		return fail(r, err,
		    "a time without a zone: write DTSTART;TZID=Europe/London:..., or a Z behind it "
		    "for UTC (--tz says where whole days are, and no more)");
	} else {
		rc = zone(r, p->tzid, err);
		ret->tzid = r->ics->tzid;
	}
	r->ics->has_days = r->ics->has_days || date;
	return rc;
}

static int
read_start(struct ics_reader *r, const struct property *p, struct err *err)
{
	return read_time(r, p, p->value, &r->event->start, err);
}

static int
read_end(struct ics_reader *r, const struct property *p, struct err *err)
{
	r->event->has_end = true;
	return read_time(r, p, p->value, &r->event->end, err);
}

static int
read_duration(struct ics_reader *r, const struct property *p, struct err *err)
{
	r->event->has_duration = ics_parse_duration(p->value, &r->event->days, &r->event->seconds);
	return r->event->has_duration
		   ? 0
		   : fail(r, err, "\"%.*s\" is no duration over nothing", STR_ARG(p->value));
}

static int
read_rule(struct ics_reader *r, const struct property *p, struct err *err)
{
	const char *why = ics_parse_rule(p->value, &r->event->rule);

	return why == NULL ? 0 : fail(r, err, "RRULE: %s", why);
}

static int
read_except(struct ics_reader *r, const struct property *p, struct err *err)
{
	struct ics_event *e = r->event;
	struct str rest = p->value, one;
	size_t n = 1, k = e->nexcept;
	struct ics_time *all;

	for (size_t i = 0; i < rest.n; i++)
		n += rest.p[i] == ',';
	all = arena_alloc(r->mem, (k + n) * sizeof(*all));
	if (k != 0)
		(void)memcpy(all, e->except, k * sizeof(*all));
	e->except = all;
	for (bool more = true; more;) {
		int rc;

		more = str_cut(&rest, ',', &one);
		rc = read_time(r, p, more ? one : rest, &e->except[e->nexcept], err);
		if (rc != 0)
			return rc;
		e->nexcept++;
	}
	return 0;
}

static int
read_status(struct ics_reader *r, const struct property *p, struct err *err)
{
	r->event->cancelled = str_ieqz(p->value, "CANCELLED");
	if (r->event->cancelled || str_ieqz(p->value, "CONFIRMED"))
		return 0;
	return fail(
	    r, err, "STATUS:%.*s: only CONFIRMED and CANCELLED are read", STR_ARG(p->value));
}

static int
read_uid(struct ics_reader *r, const struct property *p, struct err *err)
{
	for (size_t i = 0; i + 1 < r->ics->n; i++)
		if (str_eq(r->ics->v[i].uid, p->value))
			return fail(r, err,
			    "two events have the UID %.*s: which one holds is not said",
			    STR_ARG(p->value));
	r->event->uid = arena_str(r->mem, p->value);
	return 0;
}

static int
read_summary(struct ics_reader *r, const struct property *p, struct err *err)
{
	(void)err;
	r->event->summary = arena_str(r->mem, p->value);
	return 0;
}

static int
refuse(struct ics_reader *r, const struct property *p, struct err *err)
{
	return fail(r, err, "%.*s is not supported: it would move, add or cancel occurrences",
	    STR_ARG(p->name));
}

static const struct {
	const char *name;
	int (*read)(struct ics_reader *r, const struct property *p, struct err *err);
	bool many;
} properties[] = {{"DTSTART", read_start, false}, {"DTEND", read_end, false},
    {"DURATION", read_duration, false}, {"RRULE", read_rule, false}, {"EXDATE", read_except, true},
    {"STATUS", read_status, false}, {"UID", read_uid, false}, {"SUMMARY", read_summary, false},
    {"RECURRENCE-ID", refuse, false}, {"EXRULE", refuse, false}, {"RDATE", refuse, false},
    {"X-LIC-ERROR", refuse, false}};

/* Say nothing of when. */
static const char *const harmless[] = {"DTSTAMP", "CREATED", "LAST-MODIFIED", "DESCRIPTION",
    "LOCATION", "CATEGORIES", "CLASS", "PRIORITY", "SEQUENCE", "TRANSP", "URL", "ORGANIZER",
    "ATTENDEE", "COMMENT", "CONTACT", "GEO", "RESOURCES", "ATTACH", "RELATED-TO", "COLOR",
    "CONFERENCE", "IMAGE"};

static int
event_property(struct ics_reader *r, const struct property *p, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(properties); i++) {
		if (!str_ieqz(p->name, properties[i].name))
			continue;
		if ((r->seen & 1u << i) != 0 && !properties[i].many)
			return fail(r, err, "%s stands twice", properties[i].name);
		r->seen |= 1u << i;
		return properties[i].read(r, p, err);
	}
	for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
		if (str_ieqz(p->name, harmless[i]))
			return 0;
	if (p->name.n > 2 && (p->name.p[0] == 'X' || p->name.p[0] == 'x') && p->name.p[1] == '-')
		return 0;
	return fail(r, err, "property %.*s is not known", STR_ARG(p->name));
}

static int
calendar_property(struct ics_reader *r, const struct property *p, struct err *err)
{
	if (str_ieqz(p->name, "VERSION")) {
		r->version = str_eqz(p->value, "2.0");
		return r->version ? 0 : fail(r, err, "VERSION must be 2.0");
	}
	if (str_ieqz(p->name, "CALSCALE") && !str_ieqz(p->value, "GREGORIAN"))
		return fail(r, err, "CALSCALE must be GREGORIAN");
	if (str_ieqz(p->name, "METHOD") && !str_ieqz(p->value, "PUBLISH") &&
	    !str_ieqz(p->value, "REQUEST"))
		return fail(r, err, "METHOD:%.*s is not supported", STR_ARG(p->value));
	return 0;
}

/* --- components ---------------------------------------------------------------------- */

static bool
inside(const struct ics_reader *r, const char *name)
{
	for (size_t i = 0; i < r->depth; i++)
		if (str_ieqz(r->component[i], name))
			return true;
	return false;
}

static int
begin(struct ics_reader *r, struct str name, struct err *err)
{
	bool top = r->depth == 0;

	if (r->depth == DEPTH_MAX)
		return fail(r, err, "components more than %d deep", DEPTH_MAX);
	if (top != str_ieqz(name, "VCALENDAR") || (top && r->calendar))
		return fail(r, err, "there must be exactly one VCALENDAR, around all");
	r->calendar = true;
	if (str_ieqz(name, "VEVENT")) {
		if (r->event != NULL || r->depth != 1)
			return fail(r, err, "an event inside another component");
		if (r->ics->n == ICS_EVENTS_MAX)
			return fail(r, err, "more than %d events", ICS_EVENTS_MAX);
		r->event = &r->ics->v[r->ics->n++];
		r->event->line = r->line;
		r->seen = 0;
	} else if (!top && !inside(r, "VTIMEZONE") && !str_ieqz(name, "VTIMEZONE") &&
		   !str_ieqz(name, "VALARM")) {
		return fail(r, err, "component %.*s is not supported", STR_ARG(name));
	}
	r->component[r->depth++] = arena_str(r->mem, name);
	return 0;
}

static int
event_done(struct ics_reader *r, struct err *err)
{
	const struct ics_event *e = r->event;

	r->line = e->line;
	if ((r->seen & 1u) == 0)
		return fail(r, err, "the event has no DTSTART");
	if (e->has_end && e->has_duration)
		return fail(r, err, "DTEND and DURATION exclude one another");
	if (!e->has_end && !e->has_duration && !e->start.date)
		return fail(r, err, "the event has no end: say DTEND or DURATION");
	if (e->has_end && (e->end.date != e->start.date || e->end.utc != e->start.utc))
		return fail(r, err, "DTSTART and DTEND are not of one kind");
	if (e->has_end && e->end.s <= e->start.s)
		return fail(r, err, "the event ends before or when it begins");
	if (e->start.date && e->has_duration && e->seconds != 0)
		return fail(r, err, "an event of whole days needs a DURATION of days");
	if (e->rule.has_until && e->rule.until.date != e->start.date)
		return fail(
		    r, err, "UNTIL must be a %s as DTSTART is", e->start.date ? "date" : "time");
	if (e->rule.has_until && !e->start.date && !e->rule.until.utc)
		return fail(r, err, "UNTIL must be in UTC");
	for (size_t i = 0; i < e->nexcept; i++)
		if (e->except[i].date != e->start.date)
			return fail(r, err, "EXDATE must be a %s as DTSTART is",
			    e->start.date ? "date" : "time");
	if (e->nexcept != 0 && e->rule.freq == ICS_ONCE)
		return fail(r, err, "EXDATE without RRULE");
	return 0;
}

static int
end(struct ics_reader *r, struct str name, struct err *err)
{
	int rc = 0;

	if (r->depth == 0 || !str_eq(r->component[r->depth - 1], name))
		return fail(r, err, "END:%.*s ends nothing", STR_ARG(name));
	r->depth--;
	if (r->event != NULL && r->depth == 1) {
		rc = event_done(r, err);
		r->event = NULL;
	}
	return rc;
}

static int
one_line(struct ics_reader *r, struct str line, struct err *err)
{
	struct property p;
	int rc = property_split(r, line, &p, err);

	if (rc != 0)
		return rc;
	if (str_ieqz(p.name, "BEGIN"))
		return begin(r, p.value, err);
	if (str_ieqz(p.name, "END"))
		return end(r, p.value, err);
	if (r->depth == 0)
		return fail(r, err, "it does not begin with BEGIN:VCALENDAR");
	if (r->event != NULL && r->depth == 2)
		return event_property(r, &p, err);
	return r->depth == 1 ? calendar_property(r, &p, err) : 0;
}

int
ics_read(struct str text, const char *name, struct arena *mem, struct ics *ret, struct err *err)
{
	struct ics_reader r = {.name = name, .mem = mem, .ics = ret, .rest = text, .next_line = 1};
	char *line = arena_alloc(mem, ICS_LINE_MAX);
	size_t n = 1;
	int rc = 0;

	*ret = (struct ics){.v = arena_alloc(mem, ICS_EVENTS_MAX * sizeof(*ret->v))};
	r.line = 1;
	if (text.n > ICS_SIZE_MAX)
		return fail(&r, err, "the file is over %zu bytes", ICS_SIZE_MAX);
	if (!str_is_utf8(text))
		return fail(&r, err, "the file is not UTF-8");
	while (rc == 0 && n != 0) {
		rc = content_line(&r, line, &n, err);
		if (rc == 0 && n != 0)
			rc = one_line(&r, (struct str){line, n}, err);
	}
	if (rc == 0 && (r.depth != 0 || !r.calendar))
		return fail(&r, err, "the file ends before END:VCALENDAR");
	if (rc == 0 && !r.version)
		return fail(&r, err, "VERSION:2.0 is missing");
	return rc == 0 && ret->n == 0 ? fail(&r, err, "the file has no event") : rc;
}
