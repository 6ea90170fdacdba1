/*
 * Two times the same run: where they first part. Runs in the command line as the reviewer. What the
 * programs of the sandbox printed stands in both records; it is shown as text, never obeyed.
 */
#include "cmd/cmd_rerun.h"

#include <ctype.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define ID_LEN 26     /* of an action's id behind "a-" */
#define LINK " link=" /* of a refusal: the one before it */
#define LINK_LEN (sizeof(LINK) - 1)
#define LINE_MAX_ 200
#define LINE_BEFORE ((size_t)80)
#define CUT_SLACK ((size_t)256)

struct walk {
	const struct rerun_run *then, *now;
	size_t i, j;
	unsigned execs, actions, refused;  /* the same so far */
	const struct rerun_event *missing; /* the first that had no answer */
	unsigned nmissing;
};

/* --- what is another each time --------------------------------------------------- */

static bool
id_at(struct str s, size_t at)
{
	if (at + 2 + ID_LEN > s.n || memcmp(s.p + at, "a-", 2) != 0)
		return false;
	for (size_t i = at + 2; i < at + 2 + ID_LEN; i++)
		if (!islower((unsigned char)s.p[i]) && !isdigit((unsigned char)s.p[i]))
			return false;
	return true;
}

static size_t
digits(struct str s, size_t at)
{
	size_t n = 0;

	while (at + n < s.n && isdigit((unsigned char)s.p[at + n]))
		n++;
	return n;
}

/* "#SEQ:HASH:SIZE" of a receipt (docs/format-log.md, "Receipts"): its length, or 0. */
static size_t
receipt_at(struct str s, size_t at)
{
	size_t seq = at < s.n && s.p[at] == '#' ? digits(s, at + 1) : 0, hash = at + seq + 2, size;

	if (seq == 0 || hash + 2 * HASH_LEN + 1 >= s.n || s.p[hash - 1] != ':' ||
	    s.p[hash + 2 * HASH_LEN] != ':')
		return 0;
	for (size_t i = 0; i < 2 * HASH_LEN; i++)
		if (!isxdigit((unsigned char)s.p[hash + i]))
			return 0;
	size = digits(s, hash + 2 * HASH_LEN + 1);
	return size != 0 ? hash + 2 * HASH_LEN + 1 + size - at : 0;
}

/*
 * The second time a refusal is the recorded one, which has none: left out with the origin before it
 * and whatever it stands in. *ret_behind is what of the text behind it goes with it.
 */
static void
receipt_drop(struct buf *out, const char **ret_behind)
{
	static const struct {
		const char *before, *behind;
	} in[] = {{",\"receipt\":\"", "\""}, {"Cofferdam-Receipt: ", "\r\n"},
	    {"cofferdam-receipt: ", "\r\n"}, {"NOTICE:  cofferdam receipt: ", "\n"}};

	while (out->n != 0 && strchr(" \t\n\"'=", out->p[out->n - 1]) == NULL)
		out->n--;
	*ret_behind = "";
	for (size_t i = 0; i < ARRAY_LEN(in); i++)
		if (str_has_suffix(buf_str(out), in[i].before)) {
			out->n -= strlen(in[i].before);
			*ret_behind = in[i].behind;
			return;
		}
	buf_put_z(out, "receipt-*");
}

/* Ids of actions, the run's own and receipts are made anew; a refusal by a standing rule stands
 * alone the second time, and then names no other before it. */
static void
normal_put(struct buf *out, struct str s, const char *run)
{
	size_t n = run != NULL ? strlen(run) : 0, receipt;
	const char *behind = "";

	for (size_t i = 0; i < s.n;) {
		if ((receipt = receipt_at(s, i)) != 0) {
			receipt_drop(out, &behind);
			i += receipt;
			if (str_has_prefix(str_mem(s.p + i, s.n - i), behind))
				i += strlen(behind);
		} else if (id_at(s, i)) {
			buf_put_z(out, "a-*");
			i += 2 + ID_LEN;
		} else if (s.n - i > LINK_LEN && memcmp(s.p + i, LINK, LINK_LEN) == 0) {
			for (i += LINK_LEN; i < s.n && isdigit((unsigned char)s.p[i]); i++)
				;
		} else if (n != 0 && s.n - i >= n && memcmp(s.p + i, run, n) == 0) {
			buf_put_z(out, "r-*");
			i += n;
		} else {
			buf_put_c(out, s.p[i++]);
		}
	}
}

/* An output of which the middle was left out (agent/agent_output.c,
 * agent/sandbox/sandbox_result.c). */
static bool
cut_find(struct str s, struct str *ret_head, struct str *ret_tail)
{
	static const char begin[] = "\n[... ", end[] = "]\n";
	const char *p = s.n != 0 ? memmem(s.p, s.n, begin, sizeof(begin) - 1) : NULL, *q;

	if (p == NULL)
		return false;
	*ret_head = str_mem(s.p, (size_t)(p - s.p));
	q = memmem(p, s.n - ret_head->n, end, sizeof(end) - 1);
	if (q == NULL)
		return false;
	q += sizeof(end) - 1;
	*ret_tail = str_mem(q, s.n - (size_t)(q - s.p));
	return true;
}

/* Where they were cut depends on what was made equal since: as long as the shorter one, and no
 * shorter than by CUT_SLACK. */
static void
cut_level(struct str *a, struct str *b, bool front)
{
	struct str *longer = a->n > b->n ? a : b;
	size_t over = a->n > b->n ? a->n - b->n : b->n - a->n;

	if (over > CUT_SLACK)
		return;
	if (front)
		longer->p += over;
	longer->n -= over;
}

/* The first line that is another, from a little before where it is: both, as text. */
static void
line_find(struct str p, struct str q, char **ret_a, char **ret_b)
{
	struct str l = STR_NONE, m = STR_NONE;
	size_t same = 0;
	bool more_p = true, more_q = true;

	do {
		if (!(more_p = more_p && str_cut(&p, '\n', &l)))
			l = p;
		if (!(more_q = more_q && str_cut(&q, '\n', &m)))
			m = q;
	} while (str_eq(l, m) && (more_p || more_q));
	while (same < l.n && same < m.n && l.p[same] == m.p[same])
		same++;
	same = same > LINE_BEFORE ? same - LINE_BEFORE : 0;
	l = str_mem(l.p + same, l.n - same);
	m = str_mem(m.p + same, m.n - same);
	l.n = l.n < LINE_MAX_ ? l.n : LINE_MAX_;
	m.n = m.n < LINE_MAX_ ? m.n : LINE_MAX_;
	*ret_a = log_vis(l);
	*ret_b = log_vis(m);
}

static bool
content_differs(const struct walk *w, const struct rerun_event *a, const struct rerun_event *b,
    char **ret_a, char **ret_b)
{
	AUTO_BUF struct buf x = BUF(2 * BLOB_PLAIN_MAX), y = BUF(2 * BLOB_PLAIN_MAX);
	struct str p, q, p_tail = STR_NONE, q_tail = STR_NONE;

	normal_put(&x, buf_str(&a->content), w->then->id);
	normal_put(&y, buf_str(&b->content), w->now->id);
	p = buf_str(&x);
	q = buf_str(&y);
	if (cut_find(buf_str(&x), &p, &p_tail) && cut_find(buf_str(&y), &q, &q_tail)) {
		cut_level(&p, &q, false);
		cut_level(&p_tail, &q_tail, true);
	} else {
		p = buf_str(&x);
		q = buf_str(&y);
		p_tail = q_tail = STR_NONE;
	}
	if (str_eq(p, q) && str_eq(p_tail, q_tail))
		return false;
	if (str_eq(p, q))
		line_find(p_tail, q_tail, ret_a, ret_b);
	else
		line_find(p, q, ret_a, ret_b);
	return true;
}

/* --- telling --------------------------------------------------------------------- */

static void
counted(const struct walk *w, const char *how)
{
	(void)printf("-- %u executions and %u actions %s, %u of them refused as then\n", w->execs,
	    w->actions, how, w->refused);
	if (w->nmissing != 0)
		(void)printf(
		    "-- %u answers were not recorded, the first to record %llu: its client "
		    "was told so\n",
		    w->nmissing, (unsigned long long)w->missing->seq);
	if (w->then->skipped != 0) {
		AUTO_FREE char *names = log_vis(buf_str(&w->then->skipping));

		(void)printf("-- %u calls were not made again: %s\n", w->then->skipped, names);
	}
}

static const char *
name_of(const struct rerun_event *e)
{
	static const char *const names[] = {"execution", "action", "result of execution"};

	return e == NULL ? "end" : names[e->what];
}

static void
told(const char *when, const struct rerun_event *e, bool numbered)
{
	AUTO_FREE char *text = NULL;
	AUTO_FREE char *at = NULL;

	if (e == NULL) {
		(void)printf("  %s the run was over\n", when);
		return;
	}
	text = log_vis(str_z(e->text != NULL ? e->text : "the execution was over"));
	at = numbered ? xasprintf("  (record %llu)", (unsigned long long)e->seq) : xstrdup("");
	(void)printf("  %s %s%s\n", when, text, at);
}

/* They part at a, b; what differs in words, and the two lines of it, if there are any. */
static int
parted(const struct walk *w, const struct rerun_event *a, const struct rerun_event *b,
    const char *what, const char *line_a, const char *line_b)
{
	const struct rerun_event *e =
	    a == NULL || (b != NULL && a->what != RERUN_ACTION && b->what == RERUN_ACTION) ? b : a;
	bool result = e != NULL && e->what == RERUN_RESULT;
	unsigned number =
	    e != NULL && e->what == RERUN_ACTION ? w->actions + 1 : w->execs + (result ? 0 : 1);

	(void)printf("DIVERGED at %s %u: %s\n", name_of(e), number, what);
	if (e != NULL && e->what == RERUN_ACTION)
		(void)printf("  in execution %u\n", w->execs);
	told("then:", a, true);
	told("now: ", b, false);
	if (line_a != NULL)
		(void)printf("  line then: %s\n  line now:  %s\n", line_a, line_b);
	counted(w, "before it were the same");
	if (w->nmissing == 0)
		return CMD_FAILED;
	(void)printf("UNDECIDED: an answer that is not on the record came before it\n");
	return RERUN_UNDECIDED;
}

/* --- one pair -------------------------------------------------------------------- */

static bool
comes_later(const struct rerun_run *r, size_t from, const char *request)
{
	for (size_t i = from; i < r->n && r->v[i].what == RERUN_ACTION; i++)
		if (strcmp(r->v[i].request, request) == 0)
			return true;
	return false;
}

/* NULL: the same. */
static const char *
action_differs(const struct walk *w, const struct rerun_event *a, const struct rerun_event *b)
{
	if (strcmp(a->request, b->request) != 0)
		return comes_later(w->then, w->i + 1, b->request) &&
			       comes_later(w->now, w->j + 1, a->request)
			   ? "the same actions in another order"
		       : comes_later(w->then, w->i + 1, b->request) ? "an action is missing"
		       : comes_later(w->now, w->j + 1, a->request)  ? "one action more"
								    : "another request";
	if (a->body != NULL && b->body != NULL && strcmp(a->body, b->body) != 0)
		return "the request has another body";
	/* Of a refusal the broker's own reasons count as an effect. */
	if (a->then == RERUN_ALLOWED && strcmp(a->effects, b->effects) != 0)
		return "the request has other effects";
	return NULL;
}

/* What stood behind a refusal in its exchange was not judged the first time. */
static void
skip_behind(struct walk *w)
{
	const struct rerun_event *a = &w->then->v[w->i], *b = &w->now->v[w->j];

	if (a->what != RERUN_ACTION || a->then != RERUN_DENIED || b->group == 0)
		return;
	while (w->j + 1 < w->now->n && w->now->v[w->j + 1].what == RERUN_ACTION &&
	       w->now->v[w->j + 1].group == b->group)
		w->j++;
}

static int
step(struct walk *w, bool *ret_parted)
{
	const struct rerun_event *a = w->i < w->then->n ? &w->then->v[w->i] : NULL;
	const struct rerun_event *b = w->j < w->now->n ? &w->now->v[w->j] : NULL;
	AUTO_FREE char *l = NULL, *m = NULL;
	const char *what;

	*ret_parted = true;
	if (a == NULL || b == NULL || a->what != b->what) {
		what = b == NULL		 ? "it ended earlier"
		       : a == NULL		 ? "it went on"
		       : a->what == RERUN_ACTION ? "an action is missing"
		       : b->what == RERUN_ACTION ? "one action more"
						 : "another step";
		return parted(w, a, b, what, NULL, NULL);
	}
	if (a->what == RERUN_ACTION && (what = action_differs(w, a, b)) != NULL)
		return parted(w, a, b, what, NULL, NULL);
	if (a->what == RERUN_RESULT && strcmp(a->cause, b->cause) != 0)
		return parted(w, a, b, "it ended otherwise", a->cause, b->cause);
	if (a->what != RERUN_ACTION && content_differs(w, a, b, &l, &m))
		return parted(
		    w, a, b, a->what == RERUN_EXEC ? "other code" : "another output", l, m);
	*ret_parted = false;
	w->execs += a->what == RERUN_EXEC;
	w->actions += a->what == RERUN_ACTION;
	w->refused += a->what == RERUN_ACTION && a->then == RERUN_DENIED;
	if (a->missing && w->nmissing++ == 0)
		w->missing = a;
	skip_behind(w);
	w->i++;
	w->j++;
	return CMD_OK;
}

int
rerun_compare(const struct rerun_run *then, const struct rerun_run *now)
{
	struct walk w = {.then = then, .now = now};
	bool apart = false;
	int rc = CMD_OK;

	while (!apart && (w.i < then->n || w.j < now->n))
		rc = step(&w, &apart);
	if (apart)
		return rc;
	(void)printf("SAME\n");
	counted(&w, "were the same");
	return CMD_OK;
}
