/*
 * `cofferdam policy explain` and `calendar`: what a policy would say, and when. Reads
 * source or a bundle, changes nothing. Times are printed in UTC first: that is what counts.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/cmd_policy.h"
#include "common/tz.h"
#include "policy/calendar.h"

#include "common/banned.h"

struct explain_args {
	const char *file, *target, *sql, *at, *owner, *agent;
};

static bool
explain_args_read(int argc, char **argv, struct explain_args *a)
{
	static const struct option options[] = {
	    {"target", required_argument, NULL, 't'},
	    {"sql", required_argument, NULL, 's'},
	    {"at", required_argument, NULL, 'a'},
	    {"owner", required_argument, NULL, 'o'},
	    {"agent", required_argument, NULL, 'g'},
	    {0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 't': a->target = optarg; break;
		case 's': a->sql = optarg; break;
		case 'a': a->at = optarg; break;
		case 'o': a->owner = optarg; break;
		case 'g': a->agent = optarg; break;
		default: return false;
		}
	}
	if (optind + 1 != argc || a->target == NULL || a->sql == NULL)
		return false;
	a->file = argv[optind];
	return true;
}

static void
print_input(const struct policy_sql *s, struct str sql, bool refused)
{
	AUTO_BUF struct buf effects = BUF(256);
	char at[CLOCK_TEXT_SIZE];

	effect_put(&effects, s->input.effects);
	clock_format_s(s->input.at.us, at);
	(void)printf("target     %.*s (%.*s, %.*s)\n", STR_ARG(s->input.target),
	    STR_ARG(s->input.kind), STR_ARG(s->input.env));
	(void)printf("sql        %.*s\n", STR_ARG(sql));
	(void)printf("at         %s%s\n", at, s->input.at.known ? "" : " (clock not known)");
	(void)printf("facts      %.*s\n", STR_ARG(buf_str(&s->facts.json)));
	(void)printf("effects    %.*s\n", STR_ARG(buf_str(&effects)));
	if (refused)
		(void)printf(
		    "broker     refuses it itself, as opaque (0A000): %s\n", s->unapprovable);
}

static void
print_decision(const struct decision *d)
{
	char until[CLOCK_TEXT_SIZE];

	(void)printf("verdict    %s\nrules     ", verdict_name(d->verdict));
	for (size_t i = 0; i < d->nrules; i++)
		(void)printf(" %.*s", STR_ARG(d->rules[i]));
	(void)printf("\n");
	if (d->nslots != 0) {
		(void)printf("slots     ");
		for (size_t i = 0; i < d->nslots; i++)
			(void)printf(" %.*s:%u", STR_ARG(d->slots[i].role), d->slots[i].count);
		(void)printf("\n");
	}
	if (d->calendar.n != 0) {
		clock_format_s(d->until_us, until);
		(void)printf("calendar   %.*s until %s\n", STR_ARG(d->calendar),
		    d->until_us != 0 ? until : "not known");
	}
	(void)printf("says       %s\n\n", d->text);
}

static int
explain(const struct explain_args *a, const struct policy *p, struct err *err)
{
	AUTO(cmd_parser) struct cmd_parser *parser = NULL;
	AUTO_POLICY_SQL struct policy_sql s = {0};
	AUTO_BUF struct buf table = BUF((size_t)4 << 20);
	struct decision d;
	bool refused;
	int rc;

	if (policy_target(p, str_z(a->target)) == NULL)
		return err_set(
		    err, ERR_NOT_FOUND, "%s: no target is named \"%s\"", a->file, a->target);
	if (a->owner != NULL && policy_person(p, str_z(a->owner)) == NULL)
		return err_set(
		    err, ERR_NOT_FOUND, "%s: no person is named \"%s\"", a->file, a->owner);
	rc = cmd_parser_start(&parser, err);
	if (rc == 0)
		rc = policy_sql_input(p, parser, str_z(a->target), str_z(a->sql), &s, err);
	if (rc != 0)
		return rc;
	s.input.at = clock_now(policy_clock(p), 0);
	if (a->at != NULL) {
		s.input.at.known = true;
		rc = policy_time_parse(a->at, &s.input.at.us, err);
		if (rc != 0)
			return err_wrap(err, "--at");
	}
	s.input.owner = a->owner != NULL ? str_z(a->owner) : STR_NONE;
	s.input.agent = a->agent != NULL ? str_z(a->agent) : STR_NONE;
	refused = policy_sql_judge(p, s.unapprovable, &s.input, &d);
	print_input(&s, str_z(a->sql), refused);
	print_decision(&d);
	policy_explain(p, &s.input, &table);
	(void)printf("%.*s", STR_ARG(buf_str(&table)));
	return 0;
}

int
policy_explain_main(int argc, char **argv)
{
	AUTO_POLICY_FILE struct policy_file f = {0};
	struct explain_args a = {0};
	struct err err = {0};

	if (!explain_args_read(argc, argv, &a)) {
		(void)fprintf(stderr,
		    "usage: cofferdam policy explain FILE --target T --sql TEXT [--at TIME] "
		    "[--owner PERSON] [--agent NAME]\n");
		return CMD_USAGE;
	}
	if (policy_file_open(a.file, POLICY_FILE_BUNDLE, &f, &err) != 0 ||
	    explain(&a, f.policy, &err) != 0)
		return policy_fail(&err);
	return CMD_OK;
}

/* --- calendar ------------------------------------------------------------------------ */

struct calendar_args {
	const char *file, *name;
	int64_t from_s, to_s;
};

static int
calendar_args_read(int argc, char **argv, struct calendar_args *a, struct err *err)
{
	static const struct option options[] = {
	    {"from", required_argument, NULL, 'f'},
	    {"to", required_argument, NULL, 't'},
	    {0},
	};
	int c, rc;
	int64_t us;

	*a = (struct calendar_args){.from_s = INT64_MIN, .to_s = INT64_MAX};
	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != 'f' && c != 't')
			return ERR_CONFIG;
		rc = policy_time_parse(optarg, &us, err);
		if (rc != 0)
			return err_wrap(err, c == 'f' ? "--from" : "--to");
		*(c == 'f' ? &a->from_s : &a->to_s) = us / 1000000;
	}
	if (optind >= argc || argc - optind > 2)
		return ERR_CONFIG;
	a->file = argv[optind];
	a->name = optind + 1 < argc ? argv[optind + 1] : NULL;
	return 0;
}

/* "Fri 2026-12-18 18:00:00 +00:00" */
static void
print_local(const struct tz *z, int64_t s)
{
	static const char *const days[] = {"Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"};
	int32_t off = tz_offset(z, s), abs_off = off < 0 ? -off : off;
	char text[CLOCK_TEXT_SIZE];
	int64_t local = s + off, day = local / 86400 - (local % 86400 < 0 ? 1 : 0);

	clock_format_s(local * 1000000, text);
	(void)printf("%s %.10s %.8s %c%02d:%02d", days[((day % 7) + 7) % 7], text, text + 11,
	    off < 0 ? '-' : '+', abs_off / 3600, abs_off / 60 % 60);
}

static int
print_calendar(const struct policy *p, size_t i, const struct calendar_args *a, struct err *err)
{
	struct policy_calendar c = policy_calendar_at(p, i);
	AUTO(tz) struct tz *z = NULL;
	char from[CLOCK_TEXT_SIZE], to[CLOCK_TEXT_SIZE];
	int rc = tz_load(NULL, c.tz, &z, err);

	if (rc != 0)
		return rc;
	clock_format_s(c.valid_from * 1000000, from);
	clock_format_s(c.valid_to * 1000000, to);
	(void)printf("%.*s: %s, %.*s, valid from %s to %s, %zu windows\n", STR_ARG(c.id),
	    c.open ? "open" : "freeze", STR_ARG(c.tz), from, to, c.nintervals);
	for (size_t k = 0; k < c.nintervals; k++) {
		int64_t f, t;

		policy_calendar_interval(p, i, k, &f, &t);
		if (t <= a->from_s || f >= a->to_s)
			continue;
		clock_format_s(f * 1000000, from);
		clock_format_s(t * 1000000, to);
		(void)printf("  %s  %s  ", from, to);
		print_local(z, f);
		(void)printf("  to  ");
		print_local(z, t);
		(void)printf("\n");
	}
	return 0;
}

static int
print_calendars(const struct policy *p, const struct calendar_args *a, struct err *err)
{
	size_t n = 0;

	(void)printf("tzdata %.*s\n", STR_ARG(policy_tzdata(p)));
	for (size_t i = 0; i < policy_calendar_count(p); i++) {
		int rc;

		if (a->name != NULL && !str_eqz(policy_calendar_at(p, i).id, a->name))
			continue;
		n++;
		rc = print_calendar(p, i, a, err);
		if (rc != 0)
			return rc;
	}
	if (a->name != NULL && n == 0)
		return err_set(
		    err, ERR_NOT_FOUND, "%s: no calendar is named \"%s\"", a->file, a->name);
	return 0;
}

int
policy_calendar_main(int argc, char **argv)
{
	AUTO_POLICY_FILE struct policy_file f = {0};
	struct calendar_args a;
	struct err err = {0};

	if (calendar_args_read(argc, argv, &a, &err) != 0) {
		if (err.msg[0] != '\0')
			(void)fprintf(stderr, "cofferdam: %s\n", err.msg);
		(void)fprintf(stderr,
		    "usage: cofferdam policy calendar FILE [NAME] [--from TIME] [--to TIME]\n");
		return CMD_USAGE;
	}
	if (policy_file_open(a.file, POLICY_FILE_BUNDLE, &f, &err) != 0 ||
	    print_calendars(f.policy, &a, &err) != 0)
		return policy_fail(&err);
	return CMD_OK;
}
