/*
 * The first walk. Runs in the command line. What it counts comes from records alone; an agent's
 * claims are counted as claims.
 */
#include "audit/replay_scan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "audit/canon.h"
#include "audit/outcome.h"
#include "audit/replay_put.h"
#include "common/clock.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define WORD_MAX 4096

void
replay_scan_init(struct replay_scan *s, const char *run, struct replay_blobs *blobs, bool proofs)
{
	struct buf *words[] = {
	    &s->agent, &s->owner, &s->login, &s->level, &s->parent, &s->status, &s->text};

	*s = (struct replay_scan){.run = run, .from = UINT64_MAX};
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		buf_init(words[i], WORD_MAX);
	s->doubts = doubts_new(blobs, run);
	s->proofs = proofs ? proofs_new() : NULL;
}

#define FREE_LIST(list, what, ...)                               \
	while ((list) != NULL) {                                 \
		struct what *one_ = (list);                      \
                                                                 \
		(list) = one_->next;                             \
		void *part_[] = {__VA_ARGS__};                   \
		for (size_t i_ = 0; i_ < ARRAY_LEN(part_); i_++) \
			free(part_[i_]);                         \
		free(one_);                                      \
	}

void
replay_scan_free(struct replay_scan *s)
{
	struct buf *words[] = {
	    &s->agent, &s->owner, &s->login, &s->level, &s->parent, &s->status, &s->text};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		buf_free(words[i]);
	FREE_LIST(s->gaps, replay_gap, one_->text)
	FREE_LIST(s->rules, replay_rule, one_->id)
	FREE_LIST(s->policies, replay_policy, one_->digest, one_->name)
	FREE_LIST(s->freezes, replay_freeze, one_->id)
	FREE_LIST(s->children, replay_child, one_->id, one_->status)
	replay_open_free(&s->open);
	free(s->marks);
	doubts_free(s->doubts);
	proofs_free(s->proofs);
}

/* --- what is kept ----------------------------------------------------------------------------- */

static void PRINTF_LIKE(3, 4) gap(struct replay_scan *s, uint64_t seq, const char *fmt, ...)
{
	struct replay_gap *g = xcalloc(1, sizeof(*g)), **at = &s->gaps;
	AUTO_BUF struct buf b = BUF(WORD_MAX);
	AUTO_FREE char *raw = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&raw, fmt, ap) < 0)
		raw = NULL;
	va_end(ap);
	replay_put_vis(&b, str_z(raw));
	g->seq = seq;
	g->text = buf_dup_z(&b);
	while (*at != NULL && (*at)->seq <= seq)
		at = &(*at)->next;
	g->next = *at;
	*at = g;
}

static void
rule(struct replay_scan *s, struct str id, unsigned verdict, uint64_t seq)
{
	struct replay_rule **at = &s->rules;

	while (*at != NULL && !str_eqz(id, (*at)->id))
		at = &(*at)->next;
	if (*at == NULL) {
		*at = xcalloc(1, sizeof(**at));
		(*at)->id = str_dup(id);
		(*at)->first = seq;
	}
	(*at)->n[verdict]++;
	(*at)->last = seq;
}

static char *
word(struct str value)
{
	AUTO_BUF struct buf b = BUF(WORD_MAX);

	replay_put_value(&b, value);
	return buf_dup_z(&b);
}

/* Before the run only the last one counts. */
static void
policy(struct replay_scan *s, const struct record *r)
{
	struct replay_policy **at = &s->policies;

	if (!s->found)
		FREE_LIST(s->policies, replay_policy, one_->digest, one_->name)
	while (*at != NULL)
		at = &(*at)->next;
	*at = xcalloc(1, sizeof(**at));
	(*at)->seq = r->seq;
	(*at)->digest = word(canon_get(r->data, "digest"));
	(*at)->name = word(canon_get(r->data, "policy"));
	if (!s->found)
		s->from = r->seq;
}

static int64_t
instant(struct str value, int64_t missing)
{
	int64_t us;

	return clock_parse(canon_plain(value), &us, NULL) == 0 ? us : missing;
}

static void
freeze(struct replay_scan *s, const struct record *r)
{
	struct replay_freeze **at = &s->freezes;
	struct str id = canon_plain(canon_get(r->data, "id"));
	int64_t now = instant(STR_NONE, 0);

	(void)clock_parse(r->time, &now, NULL);
	while (*at != NULL && !str_eqz(id, (*at)->id))
		at = &(*at)->next;
	if (*at == NULL) {
		*at = xcalloc(1, sizeof(**at));
		(*at)->id = str_dup(id);
		(*at)->from_us = instant(canon_get(r->data, "from"), now);
		(*at)->to_us = INT64_MAX;
	}
	if (str_eqz(r->type, "freeze.end"))
		(*at)->to_us = now;
}

/* The run is among those whose keys it destroyed. */
static bool
erases(const struct replay_scan *s, const struct record *r)
{
	struct str runs = canon_get(r->data, "runs"), v;
	size_t at = 0;

	if (!str_eqz(r->type, "erasure"))
		return false;
	while (canon_next(runs, &at, &v))
		if (str_eqz(canon_plain(v), s->run))
			return true;
	return false;
}

/* --- the run's records ------------------------------------------------------------------------ */

static void
on_start(struct replay_scan *s, const struct record *r)
{
	replay_put_value(&s->agent, canon_get(r->data, "agent"));
	replay_put_value(&s->owner, canon_get(r->data, "owner"));
	replay_put_value(&s->login, canon_get(r->data, "login"));
	replay_put_value(&s->level, canon_get(canon_get(r->data, "level"), "back_end"));
	replay_put_value(&s->parent, canon_get(r->data, "parent"));
}

static void
on_end(struct replay_scan *s, const struct record *r)
{
	replay_put_value(&s->status, canon_get(r->data, "status"));
	replay_put_value(&s->text, canon_get(r->data, "text"));
}

static void
on_action(struct replay_scan *s, const struct record *r)
{
	struct str d = canon_get(r->data, "decision"), rules = canon_get(d, "rules"), v;
	struct str verdict = canon_plain(canon_get(d, "verdict"));
	unsigned k = str_eqz(verdict, "allow") ? 2 : str_eqz(verdict, "needs_approval") ? 1 : 0;
	static const enum replay_count counts[] = {COUNT_DENIED, COUNT_WAITED, COUNT_ALLOWED};
	size_t at = 0;

	s->n[counts[k]]++;
	while (canon_next(rules, &at, &v))
		rule(s, canon_plain(v), k, r->seq);
	if (str_eqz(canon_get(canon_get(r->data, "dispatch"), "sent"), "true"))
		replay_open_add(&s->open, false, canon_plain(canon_get(r->data, "action")), r->seq);
}

static void
on_outcome(struct replay_scan *s, const struct record *r)
{
	struct str status = canon_plain(canon_get(r->data, "status"));

	replay_open_drop(&s->open, false, canon_plain(canon_get(r->data, "action")));
	if (outcome_in_doubt(r->data)) {
		s->n[COUNT_DOUBT]++;
		gap(s, r->seq, "the outcome is in doubt: it may have happened");
	} else if (!str_eqz(status, "ok")) {
		s->n[COUNT_FAILED]++;
	}
}

/* A person has looked: what was in doubt is now what that person says. */
static void
on_settled(struct replay_scan *s, const struct record *r)
{
	struct replay_gap *g = s->gaps;
	AUTO_BUF struct buf b = BUF(WORD_MAX);
	uint64_t seq;

	if (!canon_u64(canon_get(r->data, "outcome_seq"), &seq))
		return;
	while (g != NULL && g->seq != seq)
		g = g->next;
	if (g == NULL)
		return;
	buf_put_z(&b, "the outcome was in doubt; by record ");
	buf_printf(&b, "%" PRIu64 " ", r->seq);
	replay_put_value(&b, canon_get(r->data, "by"));
	buf_put_z(&b, " looked, and says: ");
	replay_put_value(&b, canon_get(r->data, "status"));
	free(g->text);
	g->text = buf_dup_z(&b);
}

static const struct {
	const char *type;
	void (*on)(struct replay_scan *s, const struct record *r);
	enum replay_count count;
} handlers[] = {
    {"run.start", on_start, COUNTS},
    {"run.end", on_end, COUNTS},
    {"action", on_action, COUNTS},
    {"outcome", on_outcome, COUNTS},
    {"outcome.settled", on_settled, COUNTS},
    {"agent.model", NULL, COUNT_TURNS},
    {"agent.exec", NULL, COUNT_EXECS},
    {"approval.grant", NULL, COUNT_SIGNED},
    {"approval.deny", NULL, COUNT_SIGNED},
};

static void
mark(struct replay_scan *s, const struct record *r, int64_t us)
{
	struct told t;

	told_init(&t);
	replay_tell(r, &t);
	if (s->nmarks == s->marks_cap) {
		s->marks_cap = s->marks_cap != 0 ? 2 * s->marks_cap : 256;
		s->marks = xreallocarray(s->marks, s->marks_cap, sizeof(*s->marks));
	}
	s->marks[s->nmarks++] = (struct replay_mark){r->seq, us, t.lane, t.tone};
	told_free(&t);
}

static void
of_run(struct replay_scan *s, const struct record *r)
{
	int64_t us = s->end_us;

	(void)clock_parse(r->time, &us, NULL);
	if (!s->found) {
		s->found = true;
		s->first = r->seq;
		s->begin_us = us;
		if (s->from > r->seq)
			s->from = r->seq;
	}
	s->until = r->seq;
	if (s->status.n == 0) { /* what people do days later is no part of its time */
		s->last = r->seq;
		if (us > s->end_us)
			s->end_us = us;
	}
	s->n[COUNT_RECORDS]++;
	if (s->proofs != NULL)
		mark(s, r, us);
	for (size_t i = 0; i < ARRAY_LEN(handlers); i++) {
		if (!str_eqz(r->type, handlers[i].type))
			continue;
		if (handlers[i].on != NULL)
			handlers[i].on(s, r);
		if (handlers[i].count != COUNTS)
			s->n[handlers[i].count]++;
	}
}

static bool
starts_child(const struct replay_scan *s, const struct record *r)
{
	return str_eqz(r->type, "run.start") &&
	       str_eqz(canon_plain(canon_get(r->data, "parent")), s->run);
}

/* Runs that it started, and how they ended. */
static void
of_child(struct replay_scan *s, const struct record *r)
{
	struct replay_child **at = &s->children;

	while (*at != NULL && !str_eqz(r->run, (*at)->id))
		at = &(*at)->next;
	if (*at == NULL && starts_child(s, r)) {
		*at = xcalloc(1, sizeof(**at));
		(*at)->id = str_dup(r->run);
		(*at)->seq = r->seq;
	} else if (*at != NULL && str_eqz(r->type, "run.end") && (*at)->status == NULL) {
		(*at)->status = word(canon_get(r->data, "status"));
	}
}

void
replay_scan_record(struct replay_scan *s, const struct record *r, const struct hash *leaf)
{
	if (s->proofs != NULL)
		proofs_leaf(s->proofs, leaf);
	doubts_record(s->doubts, r);
	if (str_eqz(r->run, s->run))
		of_run(s, r);
	else if (r->run.n != 0)
		of_child(s, r);
	if (s->found && erases(s, r)) {
		gap(s, r->seq, "the keys of what was said and sent in this run are destroyed");
		s->until = r->seq;
	}
	if (s->found && s->status.n != 0)
		return;
	if (str_eqz(r->type, "policy.load"))
		policy(s, r);
	if (str_eqz(r->type, "freeze.begin") || str_eqz(r->type, "freeze.end"))
		freeze(s, r);
	if (s->found && str_eqz(r->type, "log.recovered"))
		gap(s, r->seq, "an unfinished write was cut off here");
	if (s->found && str_eqz(r->type, "log.full"))
		gap(s, r->seq, "the disk was full: what followed was refused");
}

void
replay_scan_end(struct replay_scan *s, uint64_t verified, uint64_t torn)
{
	doubts_end(s->doubts);
	if (s->proofs != NULL)
		proofs_seal(s->proofs, verified);
	for (const struct replay_open *o = s->open; o != NULL; o = o->next)
		gap(s, o->seq, "action %s was sent and has no outcome: it may have happened",
		    o->id);
	if (s->found && s->status.n == 0)
		gap(s, s->last, "the run has not ended");
	if (s->found && s->last >= verified)
		gap(s, s->first > verified ? s->first : verified,
		    "from here on no checkpoint covers the records");
	if (torn != 0)
		gap(s, s->last,
		    "%" PRIu64 " bytes of an unfinished write stand behind the log's last record",
		    torn);
}

bool
replay_scan_shows(const struct replay_scan *s, const struct record *r)
{
	if (str_eqz(r->run, s->run))
		return !str_eqz(r->type, "log.heartbeat");
	if (str_eqz(r->type, "erasure"))
		return erases(s, r);
	if (starts_child(s, r))
		return true;
	return s->found && r->seq >= s->from && r->seq <= s->last && replay_around(r) &&
	       (r->seq >= s->first || r->seq == s->from);
}
