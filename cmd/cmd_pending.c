/*
 * `cofferdam pending`: what waits for people, as a table, once or redrawn until it is interrupted.
 * Runs as the person. Nothing of what an agent wrote reaches the terminal as it is: it is encoded,
 * and kept to one line.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_control.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_show.h"
#include "common/clock.h"
#include "common/jcs.h"

#include "common/banned.h"

#define WATCH_S 2
#define SHOW_COLUMNS 100
#define QUESTION_COLUMNS 1000

struct pending_args {
	const char *state;
	bool json, watch;
};

static volatile sig_atomic_t interrupted;

static void
on_signal(int sig)
{
	interrupted = sig;
}

#define AT(f) offsetof(struct pending_args, f)

static const struct option_row rows[] = {
    {"--json", OPTION_FLAG, AT(json), 0, 0, NULL, ARG_JSON_IS},
    {"--watch", OPTION_FLAG, AT(watch), 0, 0, NULL,
	"draw it again every 2 seconds, until interrupted"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
    {"--via", ARG_VIA, AT(state), 0, 0, "URL", ARG_VIA_IS},
};

/* --- the table ---------------------------------------------------------------------- */

/* "12s", "4m", "3h": how long ago, or until. */
static void
span(struct str time, bool until, char out[32])
{
	int64_t us, s;

	out[0] = '\0';
	if (clock_parse(time, &us, NULL) != 0)
		return;
	s = (until ? us - clock_wall_us() : clock_wall_us() - us) / 1000000;
	if (s < 0)
		s = 0;
	(void)snprintf(out, 32, "%" PRId64 "%s",
	    s < 120	 ? s
	    : s < 7200	 ? s / 60
	    : s < 172800 ? s / 3600
			 : s / 86400,
	    s < 120	 ? "s"
	    : s < 7200	 ? "m"
	    : s < 172800 ? "h"
			 : "d");
}

/* The action and what it names, where the broker tells them, before its text. */
static char *
one_line(const struct json *r)
{
	struct str does = json_str(json_get(r, "does")), show = json_str(json_get(r, "show"));
	AUTO_BUF struct buf b = BUF(does.n + show.n + 1);

	buf_printf(&b, "%.*s%s", STR_ARG(does), does.n != 0 ? " " : "");
	buf_put_str(&b, show);
	return show_cut(buf_str(&b), SHOW_COLUMNS);
}

static void
print_one(const struct json *r)
{
	const struct json *use_by = json_get(r, "use_by");
	AUTO_FREE char *id = control_text(r, "id"), *state = control_text(r, "state"),
		       *target = control_text(r, "target"), *effects = control_text(r, "effects"),
		       *show = one_line(r), *missing = control_list(r, "missing"),
		       *owner = control_text(r, "owner"),
		       *until = control_text(r, use_by != NULL ? "use_by" : "approve_by");
	char age[32], left[32];

	span(json_str(json_get(r, "asked")), false, age);
	span(json_str(use_by != NULL ? use_by : json_get(r, "approve_by")), true, left);
	(void)printf("%-26s  %-8s %5s %5s  %-16s %-16s %s\n", id, state, age, left, target, effects,
	    use_by != NULL ? "nobody" : missing);
	(void)printf("    run of %s, to be %s until %s\n    %s\n", owner,
	    use_by != NULL ? "used" : "signed", until, show);
}

static void
print_unmet(const struct json *u)
{
	AUTO_FREE char *target = control_text(u, "target"), *effects = control_text(u, "effects"),
		       *needs = control_text(u, "needs"), *owner = control_text(u, "owner"),
		       *show = one_line(u);
	char age[32];

	span(json_str(json_get(u, "at")), false, age);
	(void)printf("%-26s  %-8s %5s %5s  %-16s %-16s %s\n", "NOBODY CAN APPROVE", "refused", age,
	    "", target, effects, needs);
	(void)printf("    run of %s\n    %s\n", owner, show);
}

static void
print_question(const struct json *q)
{
	AUTO_FREE char *run = control_text(q, "run"), *owner = control_text(q, "owner"),
		       *text = show_cut(json_str(json_get(q, "question")), QUESTION_COLUMNS);
	char age[32];

	span(json_str(json_get(q, "asked")), false, age);
	(void)printf("%-28s  asks   %5s  run of %s\n    %s\n"
		     "    cofferdam answer --question %lld %s TEXT\n",
	    run, age, owner, text, (long long)json_int(json_get(q, "id")), run);
}

static void
print_all(const struct json *o)
{
	const struct json *list = json_get(o, "pending"), *unmet = json_get(o, "unmet");
	const struct json *questions = json_get(o, "questions");

	for (size_t i = 0; i < json_count(questions); i++)
		print_question(json_at(questions, i));
	if (json_count(list) + json_count(unmet) == 0) {
		if (json_count(questions) != 0)
			return;
		(void)printf("nothing waits for people\n");
		return;
	}
	(void)printf("%-26s  %-8s %5s %5s  %-16s %-16s %s\n", "REQUEST", "STATE", "AGE", "LEFT",
	    "TARGET", "EFFECTS", "MISSING");
	for (size_t i = 0; i < json_count(list); i++)
		print_one(json_at(list, i));
	for (size_t i = 0; i < json_count(unmet); i++)
		print_unmet(json_at(unmet, i));
}

/* --- once, or again and again --------------------------------------------------------- */

static int
look(const struct pending_args *a, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf b = BUF((size_t)8 << 20);
	struct jcs j;
	int rc = control_call(a->state, "pending", STR("{}"), &doc, err);

	if (rc != 0)
		return rc;
	if (a->json) {
		jcs_init(&j, &b);
		rc = jcs_value(&j, NULL, json_root(doc), err);
		if (rc == 0)
			(void)printf("%.*s\n", STR_ARG(buf_str(&b)));
		return rc;
	}
	if (a->watch && isatty(STDOUT_FILENO))
		(void)printf("\033[H\033[2J");
	print_all(json_root(doc));
	(void)fflush(stdout);
	return 0;
}

static int
watch(const struct pending_args *a, struct err *err)
{
	const struct timespec pause = {.tv_sec = WATCH_S};
	struct sigaction act = {.sa_handler = on_signal};
	int rc = 0;

	(void)sigaction(SIGINT, &act, NULL);
	(void)sigaction(SIGTERM, &act, NULL);
	while (rc == 0 && interrupted == 0) {
		rc = look(a, err);
		if (rc == 0)
			(void)nanosleep(&pause, NULL);
	}
	return interrupted != 0 ? 0 : rc;
}

int
cmd_pending(int argc, char **argv)
{
	struct pending_args a = {0};
	struct err err;
	int rc;

	if (!ARGS_READ("pending", rows, argc, argv, &a))
		return CMD_USAGE;
	if (a.json && a.watch)
		return args_wrong("pending", "--json and --watch are not for one call");
	rc = a.watch ? watch(&a, &err) : look(&a, &err);
	return rc == 0 ? CMD_OK : cmd_fail(&err);
}
