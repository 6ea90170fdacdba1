/*
 * Calendars as compiled intervals: reading them from a bundle, and asking them. Runs in core
 * and the command line. Trusts no order: overlapping or unsorted intervals are refused, since
 * the search relies on them. Beyond `valid`, or without a clock, the answer is "unknown".
 */
#include "policy/calendar.h"
#include "policy/policy_internal.h"

#include <assert.h>

#include "common/banned.h"

#define CALENDAR_INTERVALS_MAX 65536

enum tri
policy_calendar_state(const struct calendar *c, struct instant at)
{
	int64_t s = at.us / 1000000 - (at.us % 1000000 < 0 ? 1 : 0);
	size_t lo = 0, hi = c->n;

	if (!at.known || s < c->valid.from || s >= c->valid.to)
		return TRI_UNKNOWN;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->iv[mid].to <= s)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < c->n && c->iv[lo].from <= s ? TRI_YES : TRI_NO;
}

int64_t
policy_calendar_next(const struct calendar *c, int64_t at_s, bool into)
{
	size_t lo = 0, hi = c->n;
	int64_t edge;

	if (at_s < c->valid.from || at_s >= c->valid.to)
		return 0;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if ((into ? c->iv[mid].from : c->iv[mid].to) <= at_s)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == c->n)
		return 0;
	edge = into ? c->iv[lo].from : c->iv[lo].to;
	/* The end of `valid` is where we stop knowing, not where a window ends. */
	return edge < c->valid.to ? edge : 0;
}

size_t
policy_calendar_count(const struct policy *p)
{
	return p->ncalendars;
}

struct policy_calendar
policy_calendar_at(const struct policy *p, size_t i)
{
	const struct calendar *c = &p->calendars[i];

	assert(i < p->ncalendars);
	return (struct policy_calendar){.id = c->id,
	    .tz = c->tz,
	    .open = c->open,
	    .valid_from = c->valid.from,
	    .valid_to = c->valid.to,
	    .nintervals = c->n};
}

void
policy_calendar_interval(
    const struct policy *p, size_t c, size_t i, int64_t *ret_from, int64_t *ret_to)
{
	assert(c < p->ncalendars && i < p->calendars[c].n);
	*ret_from = p->calendars[c].iv[i].from;
	*ret_to = p->calendars[c].iv[i].to;
}

static int
read_interval(struct reader *r, const struct json *v, struct interval *ret, struct err *err)
{
	const int64_t limit = (int64_t)1 << 40;
	int rc = read_type(r, v, JSON_ARRAY, "an interval", err);

	if (rc != 0)
		return rc;
	if (json_count(v) != 2)
		return json_err(r->doc, v, err, ERR_INVALID, "an interval must be [from,to]");
	rc = read_int(r, json_at(v, 0), "from", -limit, limit, &ret->from, err);
	if (rc == 0)
		rc = read_int(r, json_at(v, 1), "to", -limit, limit, &ret->to, err);
	if (rc == 0 && ret->from >= ret->to)
		return json_err(r->doc, v, err, ERR_INVALID, "an interval must not be empty");
	return rc;
}

static int
read_valid(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct calendar *c = out;

	return read_interval(r, v, &c->valid, err);
}

static int
read_intervals(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct calendar *c = out;
	int rc = read_type(r, v, JSON_ARRAY, "intervals", err);

	if (rc != 0)
		return rc;
	if (json_count(v) > CALENDAR_INTERVALS_MAX)
		return json_err(r->doc, v, err, ERR_INVALID, "intervals may be up to %d, are %zu",
		    CALENDAR_INTERVALS_MAX, json_count(v));
	c->iv = arena_alloc(r->p->mem, (json_count(v) + 1) * sizeof(*c->iv));
	for (size_t i = 0; i < json_count(v); i++) {
		rc = read_interval(r, json_at(v, i), &c->iv[i], err);
		if (rc != 0)
			return rc;
		if (i > 0 && c->iv[i].from <= c->iv[i - 1].to)
			return json_err(r->doc, json_at(v, i), err, ERR_INVALID,
			    "intervals must ascend and be apart");
		c->n++;
	}
	return 0;
}

static int
read_kind(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct calendar *c = out;

	if (!str_eqz(json_str(v), "freeze") && !str_eqz(json_str(v), "open"))
		return json_err(
		    r->doc, v, err, ERR_INVALID, "a calendar's kind must be freeze or open");
	c->open = str_eqz(json_str(v), "open");
	return 0;
}

static int
read_tz(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct calendar *c = out;

	return read_text(r, v, &c->tz, err);
}

static const struct read_field bundle_fields[] = {
    {"intervals", read_intervals, 0, true},
    {"kind", read_kind, 0, true},
    {"tz", read_tz, 0, true},
    {"valid", read_valid, 0, true},
};

static int
load_calendar(struct reader *r, const struct json *v, struct calendar *c, struct err *err)
{
	int rc = read_object(r, v, "a calendar", bundle_fields, ARRAY_LEN(bundle_fields), c, err);

	if (rc == 0 && c->n != 0 &&
	    (c->iv[0].from < c->valid.from || c->iv[c->n - 1].to > c->valid.to))
		return json_err(r->doc, v, err, ERR_INVALID, "intervals must lie inside valid");
	return rc;
}

static int
by_id(const void *a, const void *b)
{
	const struct calendar *x = a, *y = b;

	return str_cmp(x->id, y->id);
}

static void
calendars_alloc(struct policy *p, size_t n)
{
	p->calendars = arena_alloc(p->mem, (n + 1) * sizeof(*p->calendars));
}

static int
calendars_one(struct reader *r, struct str name, const struct json *v, struct err *err)
{
	struct calendar *c = &r->p->calendars[r->p->ncalendars];
	int rc = read_check_id(r, v, name, "a calendar's name", err);

	if (rc != 0)
		return rc;
	c->id = read_keep(r, name);
	rc = r->source == NULL ? load_calendar(r, v, c, err) : r->source->calendar(r, v, c, err);
	if (rc == 0)
		r->p->ncalendars++;
	return rc;
}

static int
calendars_done(struct reader *r, struct err *err UNUSED)
{
	qsort(r->p->calendars, r->p->ncalendars, sizeof(*r->p->calendars), by_id);
	return 0;
}

const struct section policy_calendars_section = {.key = "calendars",
    .type = JSON_OBJECT,
    .id = SECTION_CALENDARS,
    .max = POLICY_CALENDARS_MAX,
    .alloc = calendars_alloc,
    .one = calendars_one,
    .done = calendars_done};
