/*
 * Reads `erasure` records. Runs in the verifier and in replay, over logs that anybody may have
 * written: a run that is named twice, or in an odd form, is taken for what it is worth and no more.
 */
#include "audit/erasure.h"

#include <stdio.h>

#include "audit/canon.h"
#include "audit/chain.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct erased_run {
	char run[72];
	size_t by; /* index of the record */
};

struct erasures {
	struct erasure *rec;
	size_t nrec;
	struct erased_run *run; /* sorted by name, then record, up to `sorted` */
	size_t nrun, cap, sorted;
};

/* A growing array, doubled at each power of two. */
static void *
room(void *p, size_t n, size_t size)
{
	return (n & (n - 1)) == 0 ? xreallocarray(p, n != 0 ? n * 2 : 1, size) : p;
}

static int
run_cmp(const void *a, const void *b)
{
	const struct erased_run *x = a, *y = b;
	int r = strcmp(x->run, y->run);

	return r != 0 ? r : (x->by > y->by) - (x->by < y->by);
}

/* Sorted, and each run once: the first record stands. */
static void
settle(struct erasures *e)
{
	size_t n = 0;

	if (e->sorted == e->nrun)
		return;
	qsort(e->run, e->nrun, sizeof(*e->run), run_cmp);
	for (size_t i = 0; i < e->nrun; i++)
		if (n == 0 || strcmp(e->run[n - 1].run, e->run[i].run) != 0)
			e->run[n++] = e->run[i];
	e->nrun = e->sorted = n;
}

struct erasures *
erasures_new(void)
{
	return xcalloc(1, sizeof(struct erasures));
}

void
erasures_free(struct erasures *e)
{
	if (e == NULL)
		return;
	free(e->rec);
	free(e->run);
	free(e);
}

void
erasures_record(struct erasures *e, const struct record *r)
{
	struct str runs, v;
	size_t at = 0;

	if (!str_eqz(r->type, "erasure"))
		return;
	runs = canon_get(r->data, "runs");
	e->rec = room(e->rec, e->nrec, sizeof(*e->rec));
	e->rec[e->nrec].seq = r->seq;
	(void)snprintf(e->rec[e->nrec].time, sizeof(e->rec->time), "%.*s", STR_ARG(r->time));
	while (runs.n != 0 && *runs.p == '[' && canon_next(runs, &at, &v)) {
		struct str run = canon_plain(v);

		if (!record_run_ok(run))
			continue;
		if (e->nrun == e->cap) {
			e->cap = e->cap != 0 ? 2 * e->cap : 64;
			e->run = xreallocarray(e->run, e->cap, sizeof(*e->run));
		}
		e->run[e->nrun].by = e->nrec;
		(void)snprintf(e->run[e->nrun].run, sizeof(e->run->run), "%.*s", STR_ARG(run));
		e->nrun++;
	}
	e->nrec++;
}

int
erasures_read(int logdir, struct erasures **ret, struct err *err)
{
	AUTO(erasures) struct erasures *e = erasures_new();
	struct chain *c = NULL;
	struct record rec;
	struct hash leaf;
	int r = chain_open(logdir, 0, &c, err);

	while (r == 0 && (r = chain_next(c, &rec, &leaf, err)) == 1) {
		erasures_record(e, &rec);
		r = 0;
		if (chain_fault(c)->kind != LOG_KIND_NONE)
			break;
	}
	chain_free(c);
	if (r == 0)
		*ret = TAKE_PTR(e);
	return r;
}

const struct erasure *
erasures_find(struct erasures *e, struct str run)
{
	size_t lo = 0, hi;

	settle(e);
	hi = e->sorted;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int d = str_cmp(str_z(e->run[mid].run), run);

		if (d == 0)
			return &e->rec[e->run[mid].by];
		if (d < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

size_t
erasures_records(const struct erasures *e)
{
	return e->nrec;
}

size_t
erasures_runs(struct erasures *e)
{
	settle(e);
	return e->sorted;
}
