/*
 * Contradictions, collected. Runs in the command line. Each is made from records alone, by the
 * rules of docs/replay.md; what cannot be read is said not to have been compared.
 */
#include "audit/replay_doubt_int.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "audit/canon.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define ID_LEN 28 /* "a-" and 26 digits of base32: 16 random bytes */

struct named {
	uint64_t seq;
	char *run;
	char id[ID_LEN + 1];
};

const char *
doubt_name(enum doubt_kind k)
{
	static const char *const names[DOUBT_KINDS] = {
	    [DOUBT_UNTOLD_ACTION] = "untold action",
	    [DOUBT_UNTOLD_ANSWER] = "untold answer",
	    [DOUBT_UNSEEN_ACTION] = "unseen action",
	    [DOUBT_UNSEEN_WORDS] = "unseen words",
	    [DOUBT_UNSEEN_CODE] = "unseen code",
	    [DOUBT_UNTOLD_EXEC] = "untold execution",
	    [DOUBT_COUNT] = "wrong count",
	    [DOUBT_DURATION] = "impossible duration",
	    [DOUBT_AFTER_END] = "claim after the end",
	    [DOUBT_NO_CLAIMS] = "no account",
	    [DOUBT_NO_TRAFFIC] = "no model traffic",
	    [DOUBT_SEALED] = "not compared",
	};

	return names[k];
}

struct doubts *
doubts_new(struct replay_blobs *blobs, const char *run)
{
	struct doubts *d = xcalloc(1, sizeof(*d));

	d->blobs = blobs;
	d->run = run;
	return d;
}

static void
run_free(struct doubt_run *run)
{
	said_free(&run->said);
	doubt_run_drop(run);
	free(run->id);
	free(run);
}

void
doubts_free(struct doubts *d)
{
	if (d == NULL)
		return;
	while (d->runs != NULL) {
		struct doubt_run *run = d->runs;

		d->runs = run->next;
		run_free(run);
	}
	for (size_t i = 0; i < d->n; i++) {
		free(d->doubt[i].run);
		free(d->doubt[i].text);
	}
	for (size_t i = 0; i < d->nnamed; i++)
		free(d->named[i].run);
	free(d->doubt);
	free(d->named);
	free(d->seen);
	free(d);
}

void
doubt_add(struct doubts *d, const struct doubt_run *run, enum doubt_kind k, uint64_t seq,
    uint64_t other, const char *fmt, ...)
{
	AUTO_FREE char *raw = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&raw, fmt, ap) < 0)
		raw = NULL;
	va_end(ap);
	if (d->n == d->cap) {
		d->cap = d->cap != 0 ? 2 * d->cap : 16;
		d->doubt = xreallocarray(d->doubt, d->cap, sizeof(*d->doubt));
	}
	d->doubt[d->n++] = (struct doubt){.seq = seq,
	    .other = other,
	    .kind = k,
	    .run = xstrdup(run->id),
	    .text = log_vis(str_z(raw))};
}

/* --- actions that the log has, and that the agent names -------------------------------------- */

static uint64_t
place_of(struct str id)
{
	struct hash h = hash_sha256(id);
	uint64_t v;

	memcpy(&v, h.b, sizeof(v));
	return v != 0 ? v : 1;
}

static bool
seen_at(const struct doubts *d, uint64_t v, size_t *ret)
{
	size_t i = (size_t)(v & (d->seen_cap - 1));

	while (d->seen[i] != 0 && d->seen[i] != v)
		i = (i + 1) & (d->seen_cap - 1);
	*ret = i;
	return d->seen[i] == v;
}

static void
seen_put(struct doubts *d, uint64_t v)
{
	size_t i;

	if (seen_at(d, v, &i))
		return;
	d->seen[i] = v;
	d->nseen++;
}

static void
seen_grow(struct doubts *d)
{
	uint64_t *old = d->seen;
	size_t n = d->seen_cap;

	d->seen_cap = n != 0 ? 2 * n : 1024;
	d->seen = xcalloc(d->seen_cap, sizeof(*d->seen));
	d->nseen = 0;
	for (size_t i = 0; i < n; i++)
		if (old[i] != 0)
			seen_put(d, old[i]);
	free(old);
}

void
doubt_seen(struct doubts *d, struct str id)
{
	if (id.n != ID_LEN)
		return;
	if (d->nseen * 2 >= d->seen_cap)
		seen_grow(d);
	seen_put(d, place_of(id));
}

static bool
digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');
}

static bool
word(char c)
{
	return digit(c) || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* An action's id at the front of s, and no longer word. */
static bool
id_at(struct str s)
{
	if (s.n < ID_LEN || s.p[0] != 'a' || s.p[1] != '-')
		return false;
	for (size_t i = 2; i < ID_LEN; i++)
		if (!digit(s.p[i]))
			return false;
	return s.n == ID_LEN || !word(s.p[ID_LEN]);
}

static void
named_add(struct doubts *d, const struct doubt_run *run, uint64_t seq, const char *id)
{
	for (size_t i = 0; i < d->nnamed; i++)
		if (memcmp(d->named[i].id, id, ID_LEN) == 0 &&
		    strcmp(d->named[i].run, run->id) == 0)
			return;
	if (d->nnamed == d->named_cap) {
		d->named_cap = d->named_cap != 0 ? 2 * d->named_cap : 16;
		d->named = xreallocarray(d->named, d->named_cap, sizeof(*d->named));
	}
	d->named[d->nnamed] = (struct named){.seq = seq, .run = xstrdup(run->id)};
	memcpy(d->named[d->nnamed++].id, id, ID_LEN);
}

#define NAMED_MAX 1000 /* an agent that names more is not told of each */

void
doubt_named(struct doubts *d, const struct doubt_run *run, uint64_t seq, struct str text)
{
	const char *end = text.p + text.n;
	size_t i;

	for (const char *p = text.p; text.n != 0 && d->nnamed < NAMED_MAX; p++) {
		p = memmem(p, (size_t)(end - p), "a-", 2);
		if (p == NULL)
			return;
		if (!id_at(str_mem(p, (size_t)(end - p))) || (p != text.p && word(p[-1])))
			continue;
		if (d->seen_cap == 0 || !seen_at(d, place_of(str_mem(p, ID_LEN)), &i))
			named_add(d, run, seq, p);
	}
}

/* --- records ---------------------------------------------------------------------------------- */

static struct doubt_run *
run_of(struct doubts *d, struct str id)
{
	struct doubt_run *run;

	for (run = d->runs; run != NULL; run = run->next)
		if (str_eqz(id, run->id))
			return run;
	run = xcalloc(1, sizeof(*run));
	run->id = str_dup(id);
	run->result = run->untold = run->sealed = run->exec = DOUBT_NONE;
	said_init(&run->said);
	run->next = d->runs;
	d->runs = run;
	return run;
}

void
doubts_record(struct doubts *d, const struct record *r)
{
	if (str_eqz(r->type, "action"))
		doubt_seen(d, canon_plain(canon_get(r->data, "action")));
	if (r->run.n != 0 && (d->run == NULL || str_eqz(r->run, d->run)))
		doubt_run_record(d, run_of(d, r->run), r);
}

static int
by_seq(const void *a, const void *b)
{
	const struct doubt *x = a, *y = b;

	return x->seq != y->seq ? (x->seq < y->seq ? -1 : 1) : (int)x->kind - (int)y->kind;
}

void
doubts_end(struct doubts *d)
{
	for (struct doubt_run *run = d->runs; run != NULL; run = run->next)
		doubt_run_end(d, run);
	for (size_t i = 0; i < d->nnamed; i++) {
		const struct doubt_run run = {.id = d->named[i].run};

		doubt_add(d, &run, DOUBT_UNSEEN_ACTION, d->named[i].seq, DOUBT_NONE,
		    "the agent names action %s, which was not on the record then", d->named[i].id);
	}
	if (d->n != 0)
		qsort(d->doubt, d->n, sizeof(*d->doubt), by_seq);
}

size_t
doubts_count(const struct doubts *d)
{
	return d->n;
}

const struct doubt *
doubts_at(const struct doubts *d, size_t i)
{
	return &d->doubt[i];
}
