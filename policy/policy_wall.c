/*
 * Wall-clock times as written, their readings as instants, and the window between two of
 * them. Runs in the command line when a policy is checked or built. Must never guess: a
 * time that is not exactly of the form is refused by the caller.
 */
#include "policy/policy_wall.h"

#include "common/xalloc.h"

#include "common/banned.h"

struct reading
wall_read(const struct compiler *c, int64_t local_s)
{
	int64_t out[2];
	int n = tz_local(c->tz, local_s, out);

	return (struct reading){out[0], n == 1 ? out[0] : out[1]};
}

void
wall_window_put(struct compiler *c, struct reading start, struct reading end)
{
	struct interval iv = {
	    c->cal->open ? start.late : start.early, c->cal->open ? end.early : end.late};

	if (iv.from < c->cal->valid.from)
		iv.from = c->cal->valid.from;
	if (iv.to > c->cal->valid.to)
		iv.to = c->cal->valid.to;
	if (iv.from >= iv.to)
		return;
	if (c->n == c->cap) {
		c->cap = c->cap != 0 ? 2 * c->cap : 256;
		c->iv = xreallocarray(c->iv, c->cap, sizeof(*c->iv));
	}
	c->iv[c->n++] = iv;
}

bool
wall_parse_clock(struct str *s, bool is_end, int64_t *ret)
{
	int h, m, sec = 0;

	if (!str_digits(s, 2, &h) || !str_skip(s, ':') || !str_digits(s, 2, &m))
		return false;
	if (str_skip(s, ':') && !str_digits(s, 2, &sec))
		return false;
	if (m > 59 || sec > 59 || h > 24 || (h == 24 && (!is_end || m != 0 || sec != 0)))
		return false;
	*ret = (int64_t)h * 3600 + m * 60 + sec;
	return true;
}

bool
wall_parse_date(struct str *s, int64_t *ret_days)
{
	int y, m, d;

	if (!str_digits(s, 4, &y) || !str_skip(s, '-') || !str_digits(s, 2, &m) ||
	    !str_skip(s, '-') || !str_digits(s, 2, &d))
		return false;
	if (y < 1970 || y > 9000 || m < 1 || m > 12 || d < 1 || d > clock_month_days(y, m))
		return false;
	*ret_days = clock_days(y, m, d);
	return true;
}

static const char *const day_names[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};

bool
wall_parse_day(struct str *s, unsigned *ret)
{
	for (unsigned i = 0; i < 7; i++) {
		if (!str_has_prefix(*s, day_names[i]))
			continue;
		s->p += 3;
		s->n -= 3;
		*ret = i;
		return true;
	}
	return false;
}
