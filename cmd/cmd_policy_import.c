/*
 * `cofferdam policy import-ics`: windows from a calendar file, for a person to check and paste into
 * a policy. Offline; nothing is written. Two readers must agree: ours, which is strict, and libical
 * in a process of its own, which has a second and no file. What they do not agree on is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_policy.h"
#include "cmd/cmd_policy_calendar.h"
#include "common/arena.h"
#include "common/jcs.h"
#include "common/proc.h"
#include "common/proc_paths.h"
#include "common/xalloc.h"
#include "policy/ics.h"

#include "common/banned.h"

#define SECOND_OPINION_MS 1000
#define MEMORY_MAX ((size_t)64 << 20)

struct import_args {
	const char *file, *zone;
	unsigned open;
	bool json;
	int64_t limit_us; /* INT64_MAX: not said */
};

#define AT(f) offsetof(struct import_args, f)

static const struct option_row rows[] = {
    {"FILE", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(file), 0, 0, NULL, "an iCalendar file"},
    {"--kind", ARG_WORD_OF, AT(open), 0, 0, "freeze|open",
	"freeze (default: the longer reading is taken) or open (the shorter)"},
    {"--tz", OPTION_TEXT, AT(zone), 0, 0, "ZONE", "in which whole days are, as Europe/London"},
    {"--to", ARG_TIME, AT(limit_us), 0, 0, "TIME", "where rules end that have no end of their own"},
    {"--json", OPTION_FLAG, AT(json), 0, 0, NULL, "the calendar alone"},
};

/* --- the second opinion -------------------------------------------------------------- */

/* Sends the question, reads the answer to its end; a helper that is slow or dies has none. */
static int
exchange(int fd, struct str text, int64_t limit_s, struct buf *out, struct err *err)
{
	AUTO_FREE char *limit = NULL;
	char t[CLOCK_TEXT_SIZE] = "";
	uint64_t end = clock_boot_us() + SECOND_OPINION_MS * 1000;

	if (limit_s != INT64_MAX)
		clock_format_s(limit_s * 1000000, t);
	limit = limit_s == INT64_MAX ? xstrdup("-\n")
				     : xasprintf("%.4s%.2s%.2sT%.2s%.2s%.2s\n", t, t + 5, t + 8,
					   t + 11, t + 14, t + 17);
	if (file_write_all(fd, str_z(limit)) != 0 || file_write_all(fd, text) != 0 ||
	    shutdown(fd, SHUT_WR) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "cofferdam-ics");
	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t now = clock_boot_us();
		char chunk[4096];
		ssize_t n;

		if (now >= end || (poll(&p, 1, (int)((end - now) / 1000) + 1) == 0))
			return err_set(err, ERR_INVALID,
			    "libical did not get through with it within %d ms: refused",
			    SECOND_OPINION_MS);
		n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		buf_put(out, chunk, (size_t)n);
	}
}

static int
second_opinion(struct str text, int64_t limit_s, struct buf *out, struct err *err)
{
	AUTO_FREE char *program = proc_program("cofferdam-ics");
	AUTO_FD int ours = -1;
	AUTO_FD int theirs = -1;
	int pair[2], status = 0, rc;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "socketpair");
	ours = pair[0];
	theirs = pair[1];
	rc = proc_spawn(program, "cofferdam-ics", theirs, &pid, err);
	if (rc != 0)
		return rc;
	(void)close(TAKE_FD(theirs));
	rc = exchange(ours, text, limit_s, out, err);
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (rc == 0 && !str_has_suffix(buf_str(out), "end\n"))
		return err_set(err, ERR_INVALID, "libical cannot read it: refused");
	return rc;
}

/* " 20261218T180000" as ours would be. */
static void
start_put(struct buf *out, int64_t wall, bool date)
{
	char t[CLOCK_TEXT_SIZE];

	clock_format_s(wall * 1000000, t);
	buf_printf(out, " %.4s%.2s%.2sT%.2s%.2s%.2s", t, t + 5, t + 8, date ? "00" : t + 11,
	    date ? "00" : t + 14, date ? "00" : t + 17);
}

/* What libical would have to say of one event. */
static int
event_line(const struct ics_event *e, const struct tz *tz, int64_t limit_s, struct buf *out,
    struct err *err)
{
	AUTO_FREE int64_t *starts = xcalloc(ICS_WINDOWS_MAX, sizeof(*starts));
	size_t n = 0;
	int rc = ics_starts(e, tz, limit_s, starts, ICS_WINDOWS_MAX, &n, err);

	buf_put_z(out, "event");
	for (size_t i = 0; rc == 0 && i < n; i++)
		start_put(out, starts[i], e->start.date);
	return rc;
}

/* UNTIL is an instant: libical holds it against the wall clock, so its last day is not compared. */
static bool
same_starts(const struct ics_event *e, struct str ours, struct str theirs)
{
	const size_t one = sizeof(" 20261218T180000") - 1;

	if (str_eq(ours, theirs))
		return true;
	if (!e->rule.has_until || e->start.date || e->start.utc)
		return false;
	for (int k = 0; k < 2; k++) {
		struct str longer = k == 0 ? ours : theirs, other = k == 0 ? theirs : ours;

		if (longer.n == other.n + one && memcmp(longer.p, other.p, other.n) == 0)
			return true;
	}
	return false;
}

static int
compare(const struct ics *ics, const struct ics_how *how, struct str said, struct err *err)
{
	struct str line;

	if (!str_cut(&said, '\n', &line) || !str_eqz(line, "errors 0"))
		return err_set(
		    err, ERR_INVALID, "libical finds errors in it (%.*s): refused", STR_ARG(line));
	for (size_t i = 0; i < ics->n; i++) {
		AUTO_BUF struct buf ours = BUF(65536);
		int rc = event_line(&ics->v[i], how->tz, how->limit_s, &ours, err);

		if (rc != 0)
			return rc;
		if (!str_cut(&said, '\n', &line) || !same_starts(&ics->v[i], buf_str(&ours), line))
			return err_set(err, ERR_INVALID,
			    "line %u: libical sees other occurrences than we do: refused; ours "
			    "%.*s, "
			    "libical's %.*s",
			    ics->v[i].line, 200, (const char *)ours.p,
			    (int)(line.n < 200 ? line.n : 200), line.n != 0 ? line.p : "");
	}
	return 0;
}

/* --- what a person checks ------------------------------------------------------------ */

static void
print_note(bool when, const char *what)
{
	if (when)
		(void)printf("      note: %s\n", what);
}

static void
print_window(const struct ics_window *w, const struct tz *tz, bool open)
{
	AUTO_BUF struct buf line = BUF(2048);
	char from[CLOCK_TEXT_SIZE], to[CLOCK_TEXT_SIZE];

	clock_format_s(w->from * 1000000, from);
	clock_format_s(w->to * 1000000, to);
	buf_printf(&line, "  %s  %s  ", from, to);
	calendar_local_put(&line, tz, w->from);
	buf_put_z(&line, "  to  ");
	calendar_local_put(&line, tz, w->to);
	(void)printf("%.*s  ", STR_ARG(buf_str(&line)));
	policy_print(stdout, w->event->summary);
	(void)printf("\n");
	print_note(w->from_twice,
	    open ? "a clock change makes its start come twice or not at all: the later is taken"
		 : "a clock change makes its start come twice or not at all: the earlier is taken");
	print_note(w->to_twice,
	    open ? "a clock change makes its end come twice or not at all: the earlier is taken"
		 : "a clock change makes its end come twice or not at all: the later is taken");
	print_note(w->two_ends,
	    open ? "by the wall clock and by elapsed time it ends apart: the earlier is taken"
		 : "by the wall clock and by elapsed time it ends apart: the later is taken");
}

static void
jcs_calendar(struct jcs *j, const struct import_args *a, struct str zone,
    const struct ics_window *w, size_t n)
{
	jcs_open(j, NULL);
	jcs_z(j, "kind", a->open ? "open" : "freeze");
	jcs_array(j, "once");
	for (size_t i = 0; i < n; i++) {
		jcs_open(j, NULL);
		jcs_time(j, "from", w[i].from * 1000000);
		jcs_time(j, "to", w[i].to * 1000000);
		jcs_close(j);
	}
	jcs_array_end(j);
	jcs_str(j, "tz", zone);
	jcs_close(j);
}

static void
print_people(const struct import_args *a, const struct ics *ics, struct str zone,
    const struct tz *tz, const struct ics_window *w, size_t n)
{
	char tzdata[16];

	tz_version(NULL, tzdata);
	(void)printf("%s: %zu events, %zu windows, zone %.*s as of tzdata %s (not as the file may "
		     "define it)\n",
	    a->file, ics->n, n, STR_ARG(zone), tzdata);
	for (size_t i = 0; i < ics->n; i++) {
		if (!ics->v[i].cancelled)
			continue;
		(void)printf("  left out, since it is cancelled: ");
		policy_print(stdout, ics->v[i].summary);
		(void)printf("\n");
	}
	for (size_t i = 0; i < n; i++)
		print_window(&w[i], tz, a->open != 0);
	(void)printf(
	    "\nSee that every window is meant. Then paste this into \"calendars\", with a name "
	    "and \"valid\":\n");
}

/* --- all of it ----------------------------------------------------------------------- */

/* The zone that all is read in; whole days have none of their own. */
static int
zone_load(const struct import_args *a, const struct ics *ics, struct str *ret, struct tz **ret_tz,
    struct err *err)
{
	struct str zone = ics->tzid;

	if (a->zone != NULL && zone.n != 0 && !str_eqz(zone, a->zone))
		return err_set(err, ERR_INVALID, "%s: its zone is %.*s, --tz says %s", a->file,
		    STR_ARG(zone), a->zone);
	if (a->zone != NULL)
		zone = str_z(a->zone);
	if (zone.n == 0 && ics->has_days)
		return err_set(err, ERR_INVALID,
		    "%s: whole days have no zone of their own: say --tz Europe/London", a->file);
	if (zone.n == 0)
		zone = STR("UTC");
	*ret = zone;
	return tz_load(NULL, zone, ret_tz, err) != 0
		   ? err_wrap(err, "%s: TZID %.*s", a->file, STR_ARG(zone))
		   : 0;
}

static int
import(const struct import_args *a, struct arena *mem, struct err *err)
{
	AUTO_BUF struct buf text = BUF(ICS_SIZE_MAX + 1);
	AUTO_BUF struct buf said = BUF((size_t)8 << 20);
	AUTO_BUF struct buf out = BUF((size_t)4 << 20);
	AUTO(tz) struct tz *tz = NULL;
	struct ics_how how = {.open = a->open != 0,
	    .limit_s = a->limit_us != INT64_MAX ? a->limit_us / 1000000 : INT64_MAX,
	    .name = a->file};
	struct ics_window *w = NULL;
	struct str zone;
	struct ics ics;
	struct jcs j;
	size_t n = 0;
	int rc = file_read(AT_FDCWD, a->file, &text, err);

	if (rc == 0)
		rc = ics_read(buf_str(&text), a->file, mem, &ics, err);
	if (rc == 0)
		rc = zone_load(a, &ics, &zone, &tz, err);
	how.tz = tz;
	if (rc == 0)
		rc = ics_windows(&ics, &how, mem, &w, &n, err);
	if (rc == 0 && (rc = second_opinion(buf_str(&text), how.limit_s, &said, err)) == 0)
		rc = compare(&ics, &how, buf_str(&said), err);
	if (rc != 0)
		return rc;
	if (n == 0)
		return err_set(err, ERR_INVALID, "%s has no window", a->file);
	if (!a->json)
		print_people(a, &ics, zone, tz, w, n);
	jcs_init(&j, &out);
	jcs_calendar(&j, a, zone, w, n);
	policy_print_json(&out);
	return 0;
}

int
policy_import_main(int argc, char **argv)
{
	struct import_args a = {.limit_us = INT64_MAX};
	struct arena *mem;
	struct err err = {0};
	int rc;

	if (!ARGS_READ("policy import-ics", rows, argc, argv, &a))
		return CMD_USAGE;
	mem = arena_new(MEMORY_MAX);
	rc = import(&a, mem, &err);
	arena_free(mem);
	return rc != 0 ? policy_fail(&err) : CMD_OK;
}
