/*
 * `cofferdam policy calendar`: when windows begin and end, for people, for calendars (iCalendar),
 * for programs (JSON). Reads source or a bundle, changes nothing; the zone of this process is
 * nothing.
 */
#include "cmd/cmd_policy_calendar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_policy.h"
#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* --- asking -------------------------------------------------------------------------- */

bool
calendar_is_chosen(const struct policy *p, size_t i, const char *const *names, size_t nnames)
{
	for (size_t k = 0; k < nnames; k++)
		if (str_eqz(policy_calendar_at(p, i).id, names[k]))
			return true;
	return nnames == 0;
}

enum calendar_state
calendar_state(const struct policy *p, size_t i, int64_t s, int64_t *ret_until)
{
	struct policy_calendar c = policy_calendar_at(p, i);
	int64_t until = s < c.valid_from ? c.valid_from : 0;
	enum calendar_state state = CALENDAR_UNKNOWN;

	if (s >= c.valid_from && s < c.valid_to) {
		state = CALENDAR_OUTSIDE;
		until = c.valid_to;
		for (size_t k = 0; k < c.nintervals; k++) {
			int64_t from, to;

			policy_calendar_interval(p, i, k, &from, &to);
			if (to <= s)
				continue;
			state = from <= s ? CALENDAR_INSIDE : CALENDAR_OUTSIDE;
			until = from <= s ? to : from;
			break;
		}
	}
	if (ret_until != NULL)
		*ret_until = until;
	return state;
}

void
calendar_local_put(struct buf *out, const struct tz *z, int64_t s)
{
	static const char *const days[] = {"Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"};
	int32_t off = tz_offset(z, s), abs_off = off < 0 ? -off : off;
	char text[CLOCK_TEXT_SIZE];
	int64_t local = s + off, day = local / 86400 - (local % 86400 < 0 ? 1 : 0);

	clock_format_s(local * 1000000, text);
	buf_printf(out, "%s %.10s %.8s %c%02d:%02d", days[((day % 7) + 7) % 7], text, text + 11,
	    off < 0 ? '-' : '+', abs_off / 3600, abs_off / 60 % 60);
}

/* --- the list ------------------------------------------------------------------------ */

static void
print_window(const struct tz *z, int64_t f, int64_t t)
{
	AUTO_BUF struct buf line = BUF(512);
	char from[CLOCK_TEXT_SIZE], to[CLOCK_TEXT_SIZE];

	clock_format_s(f * 1000000, from);
	clock_format_s(t * 1000000, to);
	buf_printf(&line, "  %s  %s  ", from, to);
	calendar_local_put(&line, z, f);
	buf_put_z(&line, "  to  ");
	calendar_local_put(&line, z, t);
	(void)printf("%.*s\n", STR_ARG(buf_str(&line)));
}

static void
print_list(const struct policy *p, size_t i, const struct tz *z, const struct calendar_args *a)
{
	struct policy_calendar c = policy_calendar_at(p, i);
	char from[CLOCK_TEXT_SIZE], to[CLOCK_TEXT_SIZE];

	clock_format_s(c.valid_from * 1000000, from);
	clock_format_s(c.valid_to * 1000000, to);
	(void)printf("%.*s: %s, %.*s, valid from %s to %s, %zu windows\n", STR_ARG(c.id),
	    c.open ? "open" : "freeze", STR_ARG(c.tz), from, to, c.nintervals);
	for (size_t k = 0; k < c.nintervals; k++) {
		int64_t f, t;

		policy_calendar_interval(p, i, k, &f, &t);
		if (t > a->from_us / 1000000 && f < a->to_us / 1000000)
			print_window(z, f, t);
	}
}

/* --- for people ---------------------------------------------------------------------- */

static const char *
state_words(bool open, enum calendar_state s)
{
	switch (s) {
	case CALENDAR_INSIDE: return open ? "open" : "FROZEN";
	case CALENDAR_OUTSIDE: return open ? "CLOSED" : "not frozen";
	case CALENDAR_UNKNOWN: break;
	}
	return open ? "UNKNOWN, counts as closed" : "UNKNOWN, counts as frozen";
}

static void
print_state(const struct policy *p, size_t i, const struct tz *z, const struct calendar_args *a)
{
	struct policy_calendar c = policy_calendar_at(p, i);
	AUTO_BUF struct buf line = BUF(1024);
	int64_t until = 0;
	enum calendar_state s = calendar_state(p, i, a->at_us / 1000000, &until);

	buf_printf(&line, "%.*s (%s, %.*s): %s", STR_ARG(c.id), c.open ? "open window" : "freeze",
	    STR_ARG(c.tz), state_words(c.open, s));
	if (until != 0) {
		buf_put_z(&line, until == c.valid_to ? ", valid until " : " until ");
		calendar_local_put(&line, z, until);
	}
	(void)printf("%.*s\n", STR_ARG(buf_str(&line)));
}

static bool
wants_colour(const struct calendar_args *a)
{
	const char *none = getenv("NO_COLOR"), *term = getenv("TERM");

	if (a->colour != COLOUR_AUTO)
		return a->colour == COLOUR_ALWAYS;
	return isatty(STDOUT_FILENO) == 1 && (none == NULL || none[0] == '\0') && term != NULL &&
	       strcmp(term, "dumb") != 0;
}

static unsigned
terminal_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize w;
	uint64_t n;

	if (columns != NULL && str_to_u64(str_z(columns), 1000, &n) && n != 0)
		return (unsigned)n;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col != 0)
		return w.ws_col;
	return 80;
}

static void
print_month(const struct policy *p, size_t i, const struct tz *z, const struct calendar_args *a)
{
	struct calendar_view v = {.year = a->year,
	    .month = a->month,
	    .months = 1,
	    .colour = wants_colour(a),
	    .width = terminal_width()};
	int64_t local = a->at_us / 1000000 + tz_offset(z, a->at_us / 1000000);
	int day;

	if (a->year == 0) {
		clock_civil(local / 86400, &v.year, &v.month, &day);
		v.months = 2;
	}
	calendar_month_print(stdout, p, i, z, &v);
	(void)printf("\n");
}

static void
print_change(const struct policy *p, size_t i, const struct tz *z, int64_t s)
{
	struct policy_calendar c = policy_calendar_at(p, i);
	AUTO_BUF struct buf line = BUF(512);
	char at[CLOCK_TEXT_SIZE];

	clock_format_s(s * 1000000, at);
	buf_printf(&line, "  %s  ", at);
	calendar_local_put(&line, z, s);
	buf_printf(
	    &line, "  %.*s: %s", STR_ARG(c.id), state_words(c.open, calendar_state(p, i, s, NULL)));
	(void)printf("%.*s\n", STR_ARG(buf_str(&line)));
}

/* The next changes of all calendars, in the order in which they come. */
static void
print_changes(const struct policy *p, struct tz *const *zones, const struct calendar_args *a)
{
	size_t count = policy_calendar_count(p);
	AUTO_FREE int64_t *next = xcalloc(count + 1, sizeof(*next));

	(void)printf("next changes\n");
	for (size_t i = 0; i < count; i++)
		(void)calendar_state(p, i, a->at_us / 1000000, &next[i]);
	for (unsigned n = 0; n < a->changes; n++) {
		size_t best = count;

		for (size_t i = 0; i < count; i++)
			if (next[i] != 0 && calendar_is_chosen(p, i, a->names.v, a->names.n) &&
			    (best == count || next[i] < next[best]))
				best = i;
		if (best == count) {
			(void)printf("  no more is known\n");
			return;
		}
		print_change(p, best, zones[best], next[best]);
		(void)calendar_state(p, best, next[best], &next[best]);
	}
}

/* --- JSON ---------------------------------------------------------------------------- */

static void
jcs_calendar(struct jcs *j, const struct policy *p, size_t i, const struct calendar_args *a)
{
	static const char *const states[] = {"outside", "inside", "unknown"};
	struct policy_calendar c = policy_calendar_at(p, i);
	int64_t until = 0;
	enum calendar_state s = calendar_state(p, i, a->at_us / 1000000, &until);

	jcs_open(j, NULL);
	jcs_str(j, "id", c.id);
	jcs_array(j, "intervals");
	for (size_t k = 0; k < c.nintervals; k++) {
		int64_t f, t;

		policy_calendar_interval(p, i, k, &f, &t);
		if (t <= a->from_us / 1000000 || f >= a->to_us / 1000000)
			continue;
		jcs_array(j, NULL);
		jcs_time(j, NULL, f * 1000000);
		jcs_time(j, NULL, t * 1000000);
		jcs_array_end(j);
	}
	jcs_array_end(j);
	jcs_z(j, "kind", c.open ? "open" : "freeze");
	jcs_z(j, "state", states[s]);
	jcs_str(j, "tz", c.tz);
	if (until != 0)
		jcs_time(j, "until", until * 1000000);
	jcs_array(j, "valid");
	jcs_time(j, NULL, c.valid_from * 1000000);
	jcs_time(j, NULL, c.valid_to * 1000000);
	jcs_array_end(j);
	jcs_close(j);
}

static void
print_json(const struct policy *p, const struct calendar_args *a)
{
	AUTO_BUF struct buf out = BUF((size_t)64 << 20);
	struct jcs j;

	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	jcs_time(&j, "at", a->at_us);
	jcs_array(&j, "calendars");
	for (size_t i = 0; i < policy_calendar_count(p); i++)
		if (calendar_is_chosen(p, i, a->names.v, a->names.n))
			jcs_calendar(&j, p, i, a);
	jcs_array_end(&j);
	jcs_str(&j, "policy", policy_name(p));
	jcs_int(&j, "serial", policy_serial(p));
	jcs_str(&j, "tzdata", policy_tzdata(p));
	jcs_close(&j);
	policy_print_json(&out);
}

/* --- all of it ----------------------------------------------------------------------- */

static int
print_ics(const struct policy *p, const struct calendar_args *a, struct err *err)
{
	AUTO_BUF struct buf out = BUF((size_t)256 << 20);

	calendar_ics_put(&out, p, a->names.v, a->names.n, a->at_us);
	return file_write_all(STDOUT_FILENO, buf_str(&out)) != 0
		   ? err_sys(err, ERR_SYSTEM, errno, "stdout")
		   : 0;
}

static int
print_all(const struct policy *p, struct tz **zones, const struct calendar_args *a, struct err *err)
{
	if (a->form == FORM_LIST)
		(void)printf("tzdata %.*s\n", STR_ARG(policy_tzdata(p)));
	for (size_t i = 0; i < policy_calendar_count(p); i++) {
		int rc;

		if (!calendar_is_chosen(p, i, a->names.v, a->names.n))
			continue;
		rc = tz_load(NULL, policy_calendar_at(p, i).tz, &zones[i], err);
		if (rc != 0)
			return rc;
		if (a->form == FORM_LIST) {
			print_list(p, i, zones[i], a);
			continue;
		}
		print_state(p, i, zones[i], a);
		print_month(p, i, zones[i], a);
	}
	if (a->form == FORM_LIST)
		return 0;
	(void)printf("marks: # all of the day, + part of it, ? not known\n");
	print_changes(p, zones, a);
	return 0;
}

static int
calendar(const struct policy *p, const struct calendar_args *a, struct err *err)
{
	size_t count = policy_calendar_count(p);
	AUTO_FREE struct tz **zones = xcalloc(count + 1, sizeof(struct tz *));
	int rc = 0;

	for (size_t k = 0; k < a->names.n; k++) {
		size_t i = 0;

		while (i < count && !str_eqz(policy_calendar_at(p, i).id, a->names.v[k]))
			i++;
		if (i == count)
			return err_set(err, ERR_NOT_FOUND, "%s: no calendar is named \"%s\"",
			    a->file, a->names.v[k]);
	}
	switch (a->form) {
	case FORM_JSON: print_json(p, a); break;
	case FORM_ICS: rc = print_ics(p, a, err); break;
	case FORM_LIST:
	case FORM_PEOPLE: rc = print_all(p, zones, a, err); break;
	}
	for (size_t i = 0; i < count; i++)
		tz_free(zones[i]);
	return rc;
}

int
policy_calendar_main(int argc, char **argv)
{
	AUTO_POLICY_FILE struct policy_file f = {0};
	AUTO_FREE struct calendar_args *a = xcalloc(1, sizeof(*a));
	struct err err = {0};

	if (!calendar_args_read(argc, argv, a))
		return CMD_USAGE;
	if (policy_file_open(
		a->file, a->cases ? POLICY_FILE_CASES : POLICY_FILE_BUNDLE, &f, &err) != 0 ||
	    calendar(f.policy, a, &err) != 0)
		return policy_fail(&err);
	return CMD_OK;
}
