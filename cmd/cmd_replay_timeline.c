/*
 * `cofferdam replay timeline`: the decision path as it was recorded, on a terminal or as a page.
 * Runs as the reviewer; reads the log, and content as far as its keys can be read. Verifies first:
 * a timeline over a log that does not hold says so before and after.
 */
#include "audit/replay_timeline.h"

#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_replay.h"
#include "cmd/cmd_replay_case.h"
#include "cmd/cmd_replay_pager.h"

#include "common/banned.h"

#define LINES 24
#define BYTES ((size_t)65536)

struct args {
	const char *state, *vkey, *run, *html;
	bool full, no_pager;
};

#define AT(f) offsetof(struct args, f)

static const struct option_row rows[] = {
    {"RUN", OPTION_TEXT | OPTION_WORD, AT(run), 0, 0, NULL, ARG_RUN_IS},
    {"--vkey", OPTION_TEXT, AT(vkey), 0, 0, "FILE",
	"keys to trust (default: those of the state directory)"},
    {"--full", OPTION_FLAG, AT(full), 0, 0, NULL, "long texts in full"},
    {"--no-pager", OPTION_FLAG, AT(no_pager), 0, 0, NULL, "straight to the terminal"},
    {"--html", OPTION_TEXT, AT(html), 0, 0, "FILE", "of one run, a page that needs nothing else"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

/* --- terminal --------------------------------------------------------------------------------- */

static void
print(void *arg UNUSED, struct str text)
{
	(void)fwrite(text.p, 1, text.n, stdout);
}

static void
print_record(void *arg, const struct record *r)
{
	timeline_record(arg, r);
}

static int
on_terminal(const struct args *a, const struct replay_case *c)
{
	struct replay_opts o = {.scan = a->run != NULL ? &c->scan : NULL,
	    .doubts = replay_case_doubts(c),
	    .verified = c->verified,
	    .lines = a->full ? 0 : LINES};
	AUTO_BUF struct buf last = BUF(131072);
	struct timeline *t;
	struct pager pager;
	struct err err = {0};
	int n;

	pager_begin(&pager, a->no_pager);
	o.width = pager.width;
	o.colour = pager.colour;
	if (c->status == 1)
		print(NULL, buf_str(&c->verdict));
	t = timeline_new(&o, c->blobs, print, NULL);
	n = replay_case_walk(c, print_record, t, &err);
	(void)timeline_end(t);
	buf_printf(&last, "\nlog: %.*s", STR_ARG(buf_str(&c->verdict)));
	timeline_say(t, buf_str(&last));
	timeline_free(t);
	pager_end(&pager);
	return n != 0 ? replay_fail(&err) : replay_case_status(c);
}

/* --- page ------------------------------------------------------------------------------------- */

static void
keep(void *arg, struct str text)
{
	buf_put_str(arg, text);
}

static void
page_one(void *arg, const struct record *r)
{
	page_record(arg, r);
}

static int
as_page(const struct args *a, const struct replay_case *c)
{
	AUTO_BUF struct buf html = BUF(REPLAY_OUT_MAX);
	AUTO_FREE char *why = NULL;
	struct page_opts o = {.scan = &c->scan,
	    .verdict = buf_str(&c->verdict),
	    .holds = replay_case_status(c) == CMD_OK,
	    .checkpoint = buf_str(&c->checkpoint),
	    .origin = c->origin,
	    .verified = c->verified,
	    .lines = a->full ? 0 : LINES,
	    .bytes = a->full ? 0 : BYTES};
	struct replay_band *bands = replay_case_bands(c, &o.nbands, &why);
	struct err err = {0};
	struct page *p;
	int n;

	o.bands = bands;
	o.bands_why = why;
	p = page_new(&o, c->blobs, keep, &html);
	n = replay_case_walk(c, page_one, p, &err);
	page_end(p);
	page_free(p);
	replay_case_bands_free(bands, o.nbands);
	if (n == 0)
		n = replay_write(&c->place, a->html, &html, &err);
	return n != 0 ? replay_fail(&err) : replay_case_status(c);
}

int
replay_timeline(int argc, char **argv)
{
	AUTO_CASE struct replay_case c = CASE_EMPTY;
	struct args a = {0};
	struct err err = {0};

	if (!ARGS_READ("replay timeline", rows, argc, argv, &a))
		return CMD_USAGE;
	if (a.html != NULL && a.run == NULL)
		return args_wrong(
		    "replay timeline", "--html %s is of one run: RUN is missing", a.html);
	if (replay_case_open(a.state, a.vkey, a.run, a.html != NULL, &c, &err) != 0)
		return replay_fail(&err);
	if (!replay_case_found(&c))
		return CMD_FAILED;
	return a.html != NULL ? as_page(&a, &c) : on_terminal(&a, &c);
}
