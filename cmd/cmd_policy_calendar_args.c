/* The options of `cofferdam policy calendar`. Runs as the person who types them. */
#include "cmd/cmd.h"
#include "cmd/cmd_policy.h"
#include "cmd/cmd_policy_calendar.h"

#include "common/banned.h"

#define CHANGES_MAX 1000

#define AT(f) offsetof(struct calendar_args, f)

static const struct option_row rows[] = {
    {"FILE", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(file), 0, 0, NULL,
	ARG_POLICY_OR_BUNDLE_IS},
    {"NAME", ARG_MANY | OPTION_WORD | OPTION_MANY, AT(names), 0, 0, NULL,
	"these calendars alone (default: all)"},
    {"--month", OPTION_TEXT, AT(month_text), 0, 0, "2026-12",
	"this month (default: the one of --at and the next)"},
    {"--year", OPTION_TEXT, AT(year_text), 0, 0, "2026", "all of a year"},
    {"--next", OPTION_NUMBER32, AT(changes), 0, CHANGES_MAX, "N",
	"how many changes are listed (default: 8)"},
    {"--colour", ARG_WORD_OF, AT(colour), 0, 0, "auto|always|never",
	"default: auto: not in a pipe"},
    {"--list", ARG_SET | OPTION_BARE, AT(form), FORM_LIST, 0, NULL,
	"every window as instants and in its zone"},
    {"--from", ARG_TIME, AT(from_us), 0, 0, "TIME", "the same without what ends before"},
    {"--to", ARG_TIME, AT(to_us), 0, 0, "TIME", "and without what begins after"},
    {"--ics", ARG_SET | OPTION_BARE, AT(form), FORM_ICS, 0, NULL, "an iCalendar file, UTC"},
    {"--json", ARG_SET | OPTION_BARE, AT(form), FORM_JSON, 0, NULL, ARG_PROGRAMS_IS},
    {"--at", ARG_TIME, AT(at_us), 0, 0, "TIME", ARG_AT_IS},
    {"--cases-policy", OPTION_FLAG, AT(cases), 0, 0, NULL, ARG_CASES_IS},
};

/* "2026-12", or without `month` "2026" */
static bool
month_read(const char *text, bool month, struct calendar_args *a)
{
	struct str s = str_z(text), y = s;
	uint64_t year, m = 0;

	if (month && (!str_cut(&s, '-', &y) || s.n != 2))
		return false;
	if (month && s.p[0] == '0')
		s = str_mem(s.p + 1, 1);
	if (y.n != 4 || !str_to_u64(y, 9000, &year) || year < 1970 ||
	    (month && (!str_to_u64(s, 12, &m) || m == 0)))
		return false;
	a->year = (int)year;
	a->month = (int)m;
	return true;
}

/* CMD_OK, or what is wrong was said. */
static int
month_judge(struct calendar_args *a)
{
	static const char words[] = "policy calendar";

	if (a->month_text != NULL && a->year_text != NULL)
		return args_wrong(words, "--month and --year: give one of them");
	if (a->month_text != NULL && !month_read(a->month_text, true, a))
		return args_wrong(words, "--month must be as 2026-12, is \"%s\"", a->month_text);
	if (a->year_text != NULL && !month_read(a->year_text, false, a))
		return args_wrong(words, "--year must be as 2026, is \"%s\"", a->year_text);
	return CMD_OK;
}

bool
calendar_args_read(int argc, char **argv, struct calendar_args *a)
{
	*a = (struct calendar_args){
	    .from_us = INT64_MIN, .to_us = INT64_MAX, .at_us = clock_wall_us(), .changes = 8};
	if (!ARGS_READ("policy calendar", rows, argc, argv, a) || month_judge(a) != CMD_OK)
		return false;
	if ((a->from_us != INT64_MIN || a->to_us != INT64_MAX) && a->form == FORM_PEOPLE)
		a->form = FORM_LIST;
	return true;
}
