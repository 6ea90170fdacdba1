/* The options of `cofferdam policy calendar`. Runs as the person who types them. */
#include <getopt.h>
#include <string.h>

#include "cmd/cmd_policy.h"
#include "cmd/cmd_policy_calendar.h"

#include "common/banned.h"

#define CHANGES_MAX 1000

/* "2026-12" or "2026" */
static bool
month_read(const char *text, bool month, struct calendar_args *a)
{
	uint64_t y, m = 1;
	struct str s = str_z(text), head;

	if (month &&
	    (!str_cut(&s, '-', &head) || s.n != 2 || head.n != 4 || !str_to_u64(head, 9000, &y)))
		return false;
	if (month && s.p[0] == '0') {
		s.p++;
		s.n--;
	}
	if (month && (!str_to_u64(s, 12, &m) || m < 1))
		return false;
	if (!month && (s.n != 4 || !str_to_u64(s, 9000, &y)))
		return false;
	a->year = (int)y;
	a->month = month ? (int)m : 0;
	*(month ? &a->month_given : &a->year_given) = true;
	return y >= 1970;
}

static int
time_read(const char *name, struct calendar_args *a, int c, struct err *err)
{
	int64_t us;

	if (policy_time_parse(optarg, &us, err) != 0)
		return err_wrap(err, "%s", name);
	if (c == 'a') {
		a->at_us = us;
		return 0;
	}
	*(c == 'f' ? &a->from_s : &a->to_s) = us / 1000000;
	a->from_given = true;
	return 0;
}

static int
option_read(int c, struct calendar_args *a, struct err *err)
{
	uint64_t n;

	switch (c) {
	case 'f': return time_read("--from", a, c, err);
	case 't': return time_read("--to", a, c, err);
	case 'a': return time_read("--at", a, c, err);
	case 'm':
	case 'y':
		return month_read(optarg, c == 'm', a)
			   ? 0
			   : err_set(err, ERR_CONFIG, "--month must be 2026-12, --year 2026, is %s",
				 optarg);
	case 'n':
		if (!str_to_u64(str_z(optarg), CHANGES_MAX, &n))
			return err_set(
			    err, ERR_CONFIG, "--next must be up to %d, is %s", CHANGES_MAX, optarg);
		a->changes = (unsigned)n;
		return 0;
	case 'c': a->colour = optarg; return 0;
	case 'l': a->form = FORM_LIST; return 0;
	case 'i': a->form = FORM_ICS; return 0;
	case 'j': a->form = FORM_JSON; return 0;
	case 'p': a->cases = true; return 0;
	default: return ERR_CONFIG;
	}
}

int
calendar_args_read(int argc, char **argv, struct calendar_args *a, struct err *err)
{
	static const struct option options[] = {
	    {"from", required_argument, NULL, 'f'},
	    {"to", required_argument, NULL, 't'},
	    {"at", required_argument, NULL, 'a'},
	    {"month", required_argument, NULL, 'm'},
	    {"year", required_argument, NULL, 'y'},
	    {"next", required_argument, NULL, 'n'},
	    {"colour", required_argument, NULL, 'c'},
	    {"list", no_argument, NULL, 'l'},
	    {"ics", no_argument, NULL, 'i'},
	    {"json", no_argument, NULL, 'j'},
	    {"cases-policy", no_argument, NULL, 'p'},
	    {0},
	};
	int c, rc;

	*a = (struct calendar_args){.from_s = INT64_MIN,
	    .to_s = INT64_MAX,
	    .at_us = clock_wall_us(),
	    .changes = 8,
	    .colour = "auto"};
	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if ((rc = option_read(c, a, err)) != 0)
			return rc;
	if (optind >= argc || argc - optind > CALENDAR_NAMES_MAX ||
	    (strcmp(a->colour, "auto") != 0 && strcmp(a->colour, "always") != 0 &&
		strcmp(a->colour, "never") != 0))
		return ERR_CONFIG;
	a->file = argv[optind++];
	while (optind < argc)
		a->names[a->n++] = argv[optind++];
	if (a->from_given && a->form == FORM_PEOPLE)
		a->form = FORM_LIST;
	return 0;
}
