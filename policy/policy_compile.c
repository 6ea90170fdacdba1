/*
 * Wall clock and zone to intervals of instants. Runs in the command line when a policy is
 * checked or built, never in core. Where a clock change makes a time happen twice or not at
 * all, a freeze takes the reading that makes it longer, an open window the one that makes
 * it shorter. An unknown zone is an error: it must never become UTC.
 */
#include "policy/policy_wall.h"

#include "common/banned.h"

#define DAY 86400
#define WEEK (7 * DAY)
#define VALID_DAYS_MAX (20 * 366)
#define WEEKLY_MAX 64
#define ONCE_MAX 1024
#define COMPILED_MAX 65536

/* --- once ---------------------------------------------------------------------------- */

struct once {
	struct compiler *c;
	struct reading from, to;
	int64_t from_wall, to_wall; /* for comparison when both are wall clock */
	bool from_utc, to_utc, has_to;
	int64_t dur;
};

static int
read_instant(struct reader *r, const struct json *v, const struct compiler *c, bool is_end,
    struct reading *ret, int64_t *ret_wall, bool *ret_utc, struct err *err)
{
	struct str s;
	int64_t days, tod;
	int rc = read_type(r, v, JSON_STRING, "a time", err);

	if (rc != 0)
		return rc;
	s = json_str(v);
	if (!wall_parse_date(&s, &days) || !str_skip(&s, 'T') ||
	    !wall_parse_clock(&s, is_end, &tod))
		goto bad;
	*ret_utc = str_skip(&s, 'Z');
	if (s.n != 0)
		goto bad;
	*ret_wall = days * DAY + tod;
	*ret = *ret_utc ? (struct reading){*ret_wall, *ret_wall} : wall_read(c, *ret_wall);
	return 0;
bad:
	return json_err(r->doc, v, err, ERR_INVALID,
	    "a time must be \"2026-12-18T18:00[:SS]\" (wall clock) or with Z behind (UTC), is "
	    "\"%.*s\"",
	    STR_ARG(json_str(v)));
}

static int
once_from(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct once *o = out;

	return read_instant(r, v, o->c, false, &o->from, &o->from_wall, &o->from_utc, err);
}

static int
once_to(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct once *o = out;

	o->has_to = true;
	return read_instant(r, v, o->c, true, &o->to, &o->to_wall, &o->to_utc, err);
}

static int
once_for(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct once *o = out;

	return read_duration(r, v, "for", 1, 366 * DAY, &o->dur, err);
}

static const struct read_field once_fields[] = {
    {"from", once_from, 0, true},
    {"to", once_to, 0, false},
    {"for", once_for, 0, false},
};

static int
compile_once_one(struct compiler *c, const struct json *v, struct err *err)
{
	struct once o = {.c = c};
	struct interval valid = c->cal->valid;
	int rc = read_object(c->r, v, "a window", once_fields, ARRAY_LEN(once_fields), &o, err);

	if (rc != 0)
		return rc;
	if (o.has_to == (o.dur != 0))
		return json_err(
		    c->r->doc, v, err, ERR_INVALID, "a window must have one of \"to\" and \"for\"");
	if (!o.has_to)
		o.to = (struct reading){o.from.early + o.dur, o.from.late + o.dur};
	else if (o.from_utc == o.to_utc ? o.from_wall >= o.to_wall : o.from.late >= o.to.early)
		return json_err(
		    c->r->doc, v, err, ERR_INVALID, "a window must begin before it ends");
	if (o.from.early < valid.from || o.to.late > valid.to)
		read_warn(c->r, v,
		    "calendar %.*s: the window reaches beyond \"valid\", where it counts as "
		    "unknown",
		    STR_ARG(c->cal->id));
	wall_window_put(c, o.from, o.to);
	return 0;
}

static int
compile_once(struct reader *r UNUSED, const struct json *v, void *out, struct err *err)
{
	struct compiler *c = out;
	int rc = read_type(c->r, v, JSON_ARRAY, "once", err);

	if (rc != 0)
		return rc;
	if (json_count(v) > ONCE_MAX)
		return json_err(c->r->doc, v, err, ERR_INVALID, "once may list up to %d, lists %zu",
		    ONCE_MAX, json_count(v));
	for (size_t i = 0; i < json_count(v); i++) {
		rc = compile_once_one(c, json_at(v, i), err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* --- weekly -------------------------------------------------------------------------- */

struct weekly {
	unsigned days; /* bit 0: Monday */
	bool from_has_day, to_has_day, has_from, has_to;
	unsigned from_day, to_day;
	int64_t from, to; /* seconds of the wall clock's day */
	int64_t dur;	  /* elapsed seconds, 0: `to` is used */
};

static int
read_week_time(struct reader *r, const struct json *v, bool is_end, bool *ret_has_day,
    unsigned *ret_day, int64_t *ret, struct err *err)
{
	struct str s;
	int rc = read_type(r, v, JSON_STRING, "a time of the week", err);

	if (rc != 0)
		return rc;
	s = json_str(v);
	*ret_has_day = wall_parse_day(&s, ret_day);
	if ((*ret_has_day && !str_skip(&s, ' ')) || !wall_parse_clock(&s, is_end, ret) || s.n != 0)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "a time of the week must be \"Fri 16:00[:SS]\", or \"16:00\" beside \"days\", "
		    "is \"%.*s\"",
		    STR_ARG(json_str(v)));
	return 0;
}

static int
week_from(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct weekly *w = out;

	return read_week_time(r, v, false, &w->from_has_day, &w->from_day, &w->from, err);
}

static int
week_to(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct weekly *w = out;

	w->has_to = true;
	return read_week_time(r, v, true, &w->to_has_day, &w->to_day, &w->to, err);
}

static int
week_for(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct weekly *w = out;

	return read_duration(r, v, "for", 1, WEEK, &w->dur, err);
}

static int
week_days(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct weekly *w = out;

	if (str_eqz(json_str(v), "daily")) {
		w->days = 0x7f;
		return 0;
	}
	if (json_type(v) != JSON_ARRAY || json_count(v) == 0)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "days must be \"daily\" or a list of Mon Tue Wed Thu Fri Sat Sun");
	for (size_t i = 0; i < json_count(v); i++) {
		struct str s = json_str(json_at(v, i));
		unsigned day;

		if (!wall_parse_day(&s, &day) || s.n != 0 || (w->days & 1u << day) != 0)
			return json_err(r->doc, json_at(v, i), err, ERR_INVALID,
			    "a day must be one of Mon Tue Wed Thu Fri Sat Sun, each once, is "
			    "\"%.*s\"",
			    STR_ARG(json_str(json_at(v, i))));
		w->days |= 1u << day;
	}
	return 0;
}

static const struct read_field week_fields[] = {
    {"from", week_from, 0, true},
    {"to", week_to, 0, false},
    {"for", week_for, 0, false},
    {"days", week_days, 0, false},
};

/* `to` becomes seconds after the midnight that begins the starting day. */
static int
finish_weekly(struct compiler *c, const struct json *v, struct weekly *w, struct err *err)
{
	int64_t period = w->from_has_day ? WEEK : DAY;

	if (w->has_to == (w->dur != 0))
		return json_err(
		    c->r->doc, v, err, ERR_INVALID, "a window must have one of \"to\" and \"for\"");
	if (w->from_has_day == (w->days != 0))
		return json_err(c->r->doc, v, err, ERR_INVALID,
		    "a window must either begin on a day (\"Fri 16:00\") or have \"days\"");
	if (w->has_to && w->from_has_day != w->to_has_day)
		return json_err(c->r->doc, v, err, ERR_INVALID,
		    "\"from\" and \"to\" must both have a day, or neither");
	if (w->from_has_day)
		w->days = 1u << w->from_day;
	if (!w->has_to)
		return 0;
	if (w->from_has_day)
		w->to += (int64_t)((w->to_day + 7 - w->from_day) % 7) * DAY;
	if (w->to == w->from)
		return json_err(c->r->doc, v, err, ERR_INVALID,
		    "a window must not begin and end at the same time: say \"for\"");
	if (w->to < w->from)
		w->to += period;
	return 0;
}

static int64_t
local_day(const struct compiler *c, int64_t utc_s)
{
	int64_t local = utc_s + tz_offset(c->tz, utc_s);

	return local / DAY - (local % DAY < 0 ? 1 : 0);
}

static int
compile_weekly_one(struct compiler *c, const struct json *v, struct err *err)
{
	struct weekly w = {0};
	int64_t first = local_day(c, c->cal->valid.from) - 9;
	int64_t last = local_day(c, c->cal->valid.to) + 1;
	int rc = read_object(c->r, v, "a window", week_fields, ARRAY_LEN(week_fields), &w, err);

	if (rc == 0)
		rc = finish_weekly(c, v, &w, err);
	if (rc != 0)
		return rc;
	for (int64_t d = first; d <= last; d++) {
		struct reading from, to;

		/* 1970-01-01 was a Thursday. */
		if ((w.days & 1u << (unsigned)((d + 700003) % 7)) == 0)
			continue;
		from = wall_read(c, d * DAY + w.from);
		to = w.dur != 0 ? (struct reading){from.early + w.dur, from.late + w.dur}
				: wall_read(c, d * DAY + w.to);
		wall_window_put(c, from, to);
	}
	return 0;
}

static int
compile_weekly(struct reader *r UNUSED, const struct json *v, void *out, struct err *err)
{
	struct compiler *c = out;
	int rc = read_type(c->r, v, JSON_ARRAY, "weekly", err);

	if (rc != 0)
		return rc;
	if (json_count(v) > WEEKLY_MAX)
		return json_err(c->r->doc, v, err, ERR_INVALID,
		    "weekly may list up to %d, lists %zu", WEEKLY_MAX, json_count(v));
	for (size_t i = 0; i < json_count(v); i++) {
		rc = compile_weekly_one(c, json_at(v, i), err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* --- a calendar ---------------------------------------------------------------------- */

static int
read_kind(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct compiler *c = out;

	if (!str_eqz(json_str(v), "freeze") && !str_eqz(json_str(v), "open"))
		return json_err(
		    r->doc, v, err, ERR_INVALID, "a calendar's kind must be freeze or open");
	c->cal->open = str_eqz(json_str(v), "open");
	return 0;
}

static int
read_tz(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct compiler *c = out;
	struct err why = {0};
	int rc = read_text(r, v, &c->cal->tz, err);

	if (rc != 0)
		return rc;
	if (tz_load(r->source->src->zoneroot, c->cal->tz, &c->tz, &why) != 0)
		return json_err(r->doc, v, err, ERR_INVALID, "%s", why.msg);
	return 0;
}

static int
read_valid(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct compiler *c = out;
	int64_t days[2] = {0};
	int rc = read_type(r, v, JSON_ARRAY, "valid", err);

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < 2; i++) {
		struct str s = json_count(v) == 2 ? json_str(json_at(v, i)) : STR("");

		if (!wall_parse_date(&s, &days[i]) || s.n != 0)
			return json_err(r->doc, v, err, ERR_INVALID,
			    "valid must be [\"2026-01-01\",\"2027-12-31\"]: first day, and the day "
			    "it ends before");
	}
	if (days[0] >= days[1] || days[1] - days[0] > VALID_DAYS_MAX)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "valid must span from 1 to %d days, spans %lld", VALID_DAYS_MAX,
		    (long long)(days[1] - days[0]));
	c->cal->valid.from = wall_read(c, days[0] * DAY).late;
	c->cal->valid.to = wall_read(c, days[1] * DAY).early;
	return 0;
}

static int
by_start(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

/* Sorted, and merged where they overlap or touch. */
static void
merge(struct compiler *c)
{
	struct interval *out = arena_alloc(c->r->p->mem, (c->n + 1) * sizeof(*out));
	size_t n = 0;

	if (c->n != 0)
		qsort(c->iv, c->n, sizeof(*c->iv), by_start);
	for (size_t i = 0; i < c->n; i++) {
		if (n != 0 && c->iv[i].from <= out[n - 1].to) {
			if (c->iv[i].to > out[n - 1].to)
				out[n - 1].to = c->iv[i].to;
		} else {
			out[n++] = c->iv[i];
		}
	}
	c->cal->iv = out;
	c->cal->n = n;
}

/* The zone and kind are read first, whatever order the file has. */
static const struct {
	const char *key;
	read_fn *fn;
	bool required;
} order[] = {
    {"kind", read_kind, true},
    {"tz", read_tz, true},
    {"valid", read_valid, true},
    {"once", compile_once, false},
    {"weekly", compile_weekly, false},
};
static const struct read_field calendar_fields[] = {
    {"kind", read_ignore, 0, true},
    {"tz", read_ignore, 0, true},
    {"valid", read_ignore, 0, true},
    {"once", read_ignore, 0, false},
    {"weekly", read_ignore, 0, false},
    {"why", read_ignore, 0, false},
};

static int
compile(struct compiler *c, const struct json *v, struct err *err)
{
	int rc =
	    read_object(c->r, v, "a calendar", calendar_fields, ARRAY_LEN(calendar_fields), c, err);

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(order); i++) {
		const struct json *m = json_get(v, order[i].key);

		if (m != NULL)
			rc = order[i].fn(c->r, m, c, err);
	}
	if (rc != 0)
		return rc;
	merge(c);
	if (c->cal->n > COMPILED_MAX)
		return json_err(c->r->doc, v, err, ERR_TOO_LARGE,
		    "calendar %.*s has %zu windows, limit %d", STR_ARG(c->cal->id), c->cal->n,
		    COMPILED_MAX);
	if (c->cal->n == 0 && !c->cal->open)
		return json_err(c->r->doc, v, err, ERR_INVALID,
		    "calendar %.*s never freezes anything inside \"valid\"", STR_ARG(c->cal->id));
	if (c->cal->n == 0)
		read_warn(
		    c->r, v, "calendar %.*s never opens inside \"valid\"", STR_ARG(c->cal->id));
	return 0;
}

int
policy_compile_calendar(
    struct reader *r, const struct json *v, struct calendar *cal, struct err *err)
{
	struct compiler c = {.r = r, .cal = cal};
	int rc = compile(&c, v, err);

	tz_free(c.tz);
	free(c.iv);
	return rc;
}
