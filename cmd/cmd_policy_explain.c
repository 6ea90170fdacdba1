/*
 * `cofferdam policy explain` and `calendar`: what a policy would say, and when. Reads
 * source or a bundle, changes nothing. Times are printed in UTC first: that is what counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/cmd_policy.h"
#include "common/tz.h"
#include "common/xalloc.h"
#include "policy/calendar.h"

#include "common/banned.h"

struct explain_args {
	const char *file, *target, *sql, *at, *owner, *agent, *body;
	struct policy_http_request http;
};

#define BODY_MAX (FACTS_FORM_MAX + 1) /* more is not judged, and said to be so */

/* "Name: value" */
static bool
header_read(struct policy_http_request *q, const char *text)
{
	struct http_field *f = &q->headers[q->nheaders];

	f->value = str_z(text);
	if (q->nheaders == HTTP_FIELDS_MAX || !str_cut(&f->value, ':', &f->name))
		return false;
	f->value = str_trim(f->value);
	q->nheaders++;
	return true;
}

static bool
option_read(struct explain_args *a, int c)
{
	switch (c) {
	case 't': a->target = optarg; return true;
	case 's': a->sql = optarg; return true;
	case 'm': a->http.method = str_z(optarg); return true;
	case 'p': a->http.path = str_z(optarg); return true;
	case 'h': return header_read(&a->http, optarg);
	case 'b': a->body = optarg; return true;
	case 'a': a->at = optarg; return true;
	case 'o': a->owner = optarg; return true;
	case 'g': a->agent = optarg; return true;
	default: return false;
	}
}

/* Either a statement or a request. */
static bool
is_one_action(const struct explain_args *a)
{
	if (a->sql != NULL)
		return a->http.method.n == 0 && a->http.path.n == 0 && a->http.nheaders == 0 &&
		       a->body == NULL;
	return a->http.method.n != 0 && a->http.path.n != 0;
}

static bool
explain_args_read(int argc, char **argv, struct explain_args *a)
{
	static const struct option options[] = {
	    {"target", required_argument, NULL, 't'},
	    {"sql", required_argument, NULL, 's'},
	    {"method", required_argument, NULL, 'm'},
	    {"path", required_argument, NULL, 'p'},
	    {"header", required_argument, NULL, 'h'},
	    {"body", required_argument, NULL, 'b'},
	    {"at", required_argument, NULL, 'a'},
	    {"owner", required_argument, NULL, 'o'},
	    {"agent", required_argument, NULL, 'g'},
	    {0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (!option_read(a, c))
			return false;
	if (optind + 1 != argc || a->target == NULL || !is_one_action(a))
		return false;
	a->http.target = str_z(a->target);
	a->file = argv[optind];
	return true;
}

static void
print_input(const struct policy_input *in, const char *kind, struct str action)
{
	char at[CLOCK_TEXT_SIZE];

	clock_format_s(in->at.us, at);
	(void)printf("target     %.*s (%.*s, %.*s)\n", STR_ARG(in->target), STR_ARG(in->kind),
	    STR_ARG(in->env));
	(void)printf("%-10s ", kind);
	policy_print(stdout, action);
	(void)printf("\nat         %s%s\n", at, in->at.known ? "" : " (clock not known)");
}

static void
print_effects(struct str facts, uint32_t effects)
{
	AUTO_BUF struct buf names = BUF(256);

	effect_put(&names, effects);
	(void)printf("facts      ");
	policy_print(stdout, facts);
	(void)printf("\neffects    %.*s\n", STR_ARG(buf_str(&names)));
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
input_finish(
    const struct explain_args *a, const struct policy *p, struct policy_input *in, struct err *err)
{
	int rc;

	in->at = clock_now(policy_clock(p), 0);
	in->owner = a->owner != NULL ? str_z(a->owner) : STR_NONE;
	in->agent = a->agent != NULL ? str_z(a->agent) : STR_NONE;
	if (a->at == NULL)
		return 0;
	in->at.known = true;
	rc = policy_time_parse(a->at, &in->at.us, err);
	return rc != 0 ? err_wrap(err, "--at") : 0;
}

static void
print_rules(const struct policy *p, const struct policy_input *in, const struct decision *d)
{
	AUTO_BUF struct buf table = BUF((size_t)4 << 20);

	print_decision(d);
	policy_explain(p, in, &table);
	(void)printf("%.*s", STR_ARG(buf_str(&table)));
}

static int
explain_sql(const struct explain_args *a, const struct policy *p, struct cmd_parser *parser,
    struct err *err)
{
	AUTO_POLICY_SQL struct policy_sql s = {0};
	struct decision d;
	int rc = policy_sql_input(p, parser, str_z(a->target), str_z(a->sql), &s, err);
	bool refused;

	if (rc == 0)
		rc = input_finish(a, p, &s.input, err);
	if (rc != 0)
		return rc;
	refused = policy_sql_judge(p, s.unapprovable, &s.input, &d);
	print_input(&s.input, "sql", str_z(a->sql));
	print_effects(buf_str(&s.facts.json), s.input.effects);
	if (refused)
		(void)printf(
		    "broker     refuses it itself, as opaque (0A000): %s\n", s.unapprovable);
	print_rules(p, &s.input, &d);
	return 0;
}

/* "-": standard input. */
static int
body_read(const char *name, struct buf *out, struct err *err)
{
	AUTO_FD int fd =
	    strcmp(name, "-") == 0 ? dup(STDIN_FILENO) : open(name, O_RDONLY | O_CLOEXEC);
	uint8_t chunk[4096];
	ssize_t n;

	if (fd < 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", name);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0 && !buf_over(out))
		buf_put(out, chunk, (size_t)n);
	if (n < 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", name);
	return buf_over(out) ? err_set(err, ERR_TOO_LARGE, "%s is over %zu bytes", name, BODY_MAX)
			     : 0;
}

static int
explain_http(
    struct explain_args *a, const struct policy *p, struct cmd_parser *parser, struct err *err)
{
	AUTO_POLICY_HTTP struct policy_http h = {.facts.parsed = false};
	AUTO_BUF struct buf body = BUF(BODY_MAX);
	AUTO_BUF struct buf line = BUF(HTTP_HEAD_MAX);
	struct decision d;
	int rc = a->body != NULL ? body_read(a->body, &body, err) : 0;

	a->http.body = buf_str(&body);
	a->http.has_body = a->body != NULL;
	if (rc == 0)
		rc = policy_http_input(p, parser, &a->http, &h, err);
	if (rc == 0)
		rc = input_finish(a, p, &h.input, err);
	if (rc != 0)
		return rc;
	policy_eval(p, &h.input, NULL, 0, &d);
	buf_printf(&line, "%.*s %.*s", STR_ARG(a->http.method), STR_ARG(a->http.path));
	print_input(&h.input, "request", buf_str(&line));
	(void)printf("api        %s\n", http_api_name(h.view.api));
	print_effects(buf_str(&h.facts.text), h.input.effects);
	if (h.view.fault != NULL)
		(void)printf("fault      %s\n", h.view.fault);
	print_rules(p, &h.input, &d);
	return 0;
}

static int
explain(struct explain_args *a, const struct policy *p, struct err *err)
{
	AUTO(cmd_parser) struct cmd_parser *parser = NULL;
	int rc;

	if (policy_target(p, str_z(a->target)) == NULL)
		return err_set(
		    err, ERR_NOT_FOUND, "%s: no target is named \"%s\"", a->file, a->target);
	if (a->owner != NULL && policy_person(p, str_z(a->owner)) == NULL)
		return err_set(
		    err, ERR_NOT_FOUND, "%s: no person is named \"%s\"", a->file, a->owner);
	rc = cmd_parser_start(&parser, err);
	if (rc != 0)
		return rc;
	return a->sql != NULL ? explain_sql(a, p, parser, err) : explain_http(a, p, parser, err);
}

int
policy_explain_main(int argc, char **argv)
{
	AUTO_POLICY_FILE struct policy_file f = {0};
	AUTO_FREE struct explain_args *a = xcalloc(1, sizeof(*a));
	struct err err = {0};

	if (!explain_args_read(argc, argv, a)) {
		(void)fprintf(stderr,
		    "usage: cofferdam policy explain FILE --target T --sql TEXT\n"
		    "       cofferdam policy explain FILE --target T --method M --path P "
		    "[--header 'NAME: VALUE']... [--body FILE|-]\n"
		    "       [--at TIME] [--owner PERSON] [--agent NAME]\n");
		return CMD_USAGE;
	}
	if (policy_file_open(a->file, POLICY_FILE_BUNDLE, &f, &err) != 0 ||
	    explain(a, f.policy, &err) != 0)
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
