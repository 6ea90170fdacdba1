/*
 * Sliding windows. Linked into the writer, which fills them from records, and core, which counts.
 * Times come from records that core made; names come from policies. Must never forget a window
 * silently: what does not fit is lost until it would have run out, and is not known meanwhile.
 */
#include "audit/rates.h"

#include <stdlib.h>

#include "common/jcs.h"
#include "common/json.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define BUCKETS 4096
#define SECOND 1000000

struct mark {
	int64_t at_us;
	uint32_t n;
};

struct window {
	struct window *same; /* next of the bucket */
	char *rule, *key, *per;
	unsigned over;
	int64_t in_us;
	struct mark *ring; /* oldest at `first` */
	size_t first, n, cap;
	uint64_t sum;
	int64_t lost_until_us; /* 0: nothing was lost */
};

struct rates {
	struct window *bucket[BUCKETS];
	size_t nwindows, nmarks;
	int64_t lost_until_us; /* of names that have no window */
};

struct rates *
rates_new(void)
{
	return xcalloc(1, sizeof(struct rates));
}

static void
window_free(struct rates *r, struct window *w)
{
	r->nwindows--;
	r->nmarks -= w->cap;
	free(w->rule);
	free(w->key);
	free(w->per);
	free(w->ring);
	free(w);
}

void
rates_clear(struct rates *r)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		struct window *w;

		while ((w = r->bucket[i]) != NULL) {
			r->bucket[i] = w->same;
			window_free(r, w);
		}
	}
	r->lost_until_us = 0;
}

void
rates_free(struct rates *r)
{
	if (r == NULL)
		return;
	rates_clear(r);
	free(r);
}

/* --- finding ------------------------------------------------------------------------- */

static size_t
bucket_of(const struct rate_name *name)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < name->rule.n; i++)
		h = (h ^ (uint8_t)name->rule.p[i]) * 16777619u;
	for (size_t i = 0; i < name->key.n; i++)
		h = (h ^ (uint8_t)name->key.p[i]) * 16777619u;
	return h % BUCKETS;
}

static struct window *
find(const struct rates *r, const struct rate_name *name)
{
	struct window *w = r->bucket[bucket_of(name)];

	while (w != NULL && (w->over != name->over || w->in_us != name->in_s * SECOND ||
				!str_eqz(name->rule, w->rule) || !str_eqz(name->key, w->key) ||
				!str_eqz(name->per, w->per)))
		w = w->same;
	return w;
}

/* --- windows ------------------------------------------------------------------------- */

static struct mark *
mark_at(const struct window *w, size_t i)
{
	return &w->ring[(w->first + i) % w->cap];
}

static void
drop_first(struct window *w)
{
	w->sum -= mark_at(w, 0)->n;
	w->first = (w->first + 1) % w->cap;
	w->n--;
}

/* Out of the window, or behind so many that they alone are two over. */
static void
prune(struct window *w, int64_t at_us)
{
	while (w->n != 0 && (mark_at(w, 0)->at_us <= at_us - w->in_us ||
				w->sum - mark_at(w, 0)->n >= (uint64_t)w->over + 2))
		drop_first(w);
}

static bool
is_over(const struct window *w, int64_t at_us)
{
	return w->lost_until_us <= at_us &&
	       (w->n == 0 || mark_at(w, w->n - 1)->at_us <= at_us - w->in_us);
}

static void
sweep(struct rates *r, const struct window *but, int64_t at_us)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		struct window **at = &r->bucket[i];

		while (*at != NULL) {
			struct window *w = *at;

			if (w != but && is_over(w, at_us)) {
				*at = w->same;
				window_free(r, w);
			} else {
				at = &w->same;
			}
		}
	}
}

static struct window *
window_new(struct rates *r, const struct rate_name *name, int64_t at_us)
{
	size_t b = bucket_of(name);
	struct window *w;

	if (r->nwindows == RATES_WINDOWS_MAX)
		sweep(r, NULL, at_us);
	if (r->nwindows == RATES_WINDOWS_MAX)
		return NULL;
	w = xcalloc(1, sizeof(*w));
	w->rule = str_dup(name->rule);
	w->key = str_dup(name->key);
	w->per = str_dup(name->per);
	w->over = name->over;
	w->in_us = name->in_s * SECOND;
	w->lost_until_us = at_us < r->lost_until_us ? r->lost_until_us : 0;
	w->same = r->bucket[b];
	r->bucket[b] = w;
	r->nwindows++;
	return w;
}

/* Room for one more mark; false: there is none. */
static bool
make_room(struct rates *r, struct window *w, int64_t at_us)
{
	size_t cap = w->cap != 0 ? 2 * w->cap : 4;
	struct mark *ring;

	if (w->n < w->cap)
		return true;
	if (r->nmarks + cap - w->cap > RATES_MARKS_MAX)
		sweep(r, w, at_us);
	if (r->nmarks + cap - w->cap > RATES_MARKS_MAX)
		return false;
	ring = xcalloc(cap, sizeof(*ring));
	for (size_t i = 0; i < w->n; i++)
		ring[i] = *mark_at(w, i);
	free(w->ring);
	w->ring = ring;
	w->first = 0;
	r->nmarks += cap - w->cap;
	w->cap = cap;
	return true;
}

static int64_t
later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

void
rates_add(struct rates *r, const struct rate_name *name, int64_t at_us, unsigned n)
{
	struct window *w = find(r, name);

	if (w == NULL)
		w = window_new(r, name, at_us);
	if (w == NULL) {
		r->lost_until_us = later(r->lost_until_us, at_us + name->in_s * SECOND);
		return;
	}
	if (w->n != 0)
		at_us = later(at_us, mark_at(w, w->n - 1)->at_us);
	prune(w, at_us);
	if (w->n != 0 && mark_at(w, w->n - 1)->at_us == at_us &&
	    mark_at(w, w->n - 1)->n <= UINT32_MAX - n) {
		mark_at(w, w->n - 1)->n += n;
	} else if (make_room(r, w, at_us)) {
		*mark_at(w, w->n++) = (struct mark){at_us, n};
	} else {
		w->lost_until_us = later(w->lost_until_us, at_us + w->in_us);
		return;
	}
	w->sum += n;
}

bool
rates_whole(const struct rates *r, int64_t at_us)
{
	return r->lost_until_us <= at_us;
}

bool
rates_count(const struct rates *r, const struct rate_name *name, int64_t at_us, unsigned *ret)
{
	const struct window *w = find(r, name);
	uint64_t n;

	if (at_us < (w != NULL ? w->lost_until_us : r->lost_until_us))
		return false;
	n = w != NULL ? w->sum : 0;
	for (size_t i = 0; w != NULL && i < w->n && mark_at(w, i)->at_us <= at_us - w->in_us; i++)
		n -= mark_at(w, i)->n;
	*ret = n < UINT32_MAX ? (unsigned)n : UINT32_MAX;
	return true;
}

/* --- told ---------------------------------------------------------------------------- */

#define MARKS_TOLD 2000 /* in one body */

static void
tell_part(const struct window *w, size_t from, size_t to, rates_fn *fn, void *arg)
{
	AUTO_BUF struct buf b = BUF(RATES_TOLD_MAX);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_open(&j, "data");
	jcs_int(&j, "in", w->in_us / SECOND);
	jcs_z(&j, "key", w->key);
	jcs_int(&j, "lost_until", w->lost_until_us);
	jcs_array(&j, "marks");
	for (size_t i = from; i < to; i++) {
		jcs_array(&j, NULL);
		jcs_int(&j, NULL, mark_at(w, i)->at_us);
		jcs_int(&j, NULL, mark_at(w, i)->n);
		jcs_array_end(&j);
	}
	jcs_array_end(&j);
	jcs_int(&j, "over", w->over);
	jcs_z(&j, "per", w->per);
	jcs_z(&j, "rule", w->rule);
	jcs_close(&j);
	jcs_z(&j, "type", "rate");
	jcs_close(&j);
	fn(arg, buf_str(&b));
}

void
rates_tell(const struct rates *r, int64_t at_us, rates_fn *fn, void *arg)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (const struct window *w = r->bucket[i]; w != NULL; w = w->same)
			for (size_t k = 0; !is_over(w, at_us) && (k == 0 || k < w->n);
			     k += MARKS_TOLD)
				tell_part(
				    w, k, k + MARKS_TOLD < w->n ? k + MARKS_TOLD : w->n, fn, arg);
}

/* A name as a record has it; false: it is not of the form. */
static bool
name_read(const struct json *v, struct rate_name *ret)
{
	int64_t over = json_int(json_get(v, "over")), in = json_int(json_get(v, "in"));

	*ret = (struct rate_name){.rule = json_str(json_get(v, "rule")),
	    .key = json_str(json_get(v, "key")),
	    .per = json_str(json_get(v, "per")),
	    .over = (unsigned)over,
	    .in_s = in};
	return ret->rule.n != 0 && ret->per.n != 0 && over > 0 && over <= UINT32_MAX && in > 0 &&
	       in <= 366 * 86400;
}

bool
rates_told(struct rates *r, const struct json *data)
{
	const struct json *marks = json_get(data, "marks");
	int64_t lost = json_int(json_get(data, "lost_until"));
	struct rate_name name;

	if (!name_read(data, &name) || json_type(marks) != JSON_ARRAY)
		return false;
	for (size_t i = 0; i < json_count(marks); i++) {
		const struct json *m = json_at(marks, i);
		int64_t n;

		if (json_count(m) != 2 || (n = json_int(json_at(m, 1))) <= 0 || n > UINT32_MAX)
			return false;
		rates_add(r, &name, json_int(json_at(m, 0)), (unsigned)n);
	}
	if (lost > 0) {
		struct window *w = find(r, &name);

		if (w == NULL)
			w = window_new(r, &name, lost - name.in_s * SECOND);
		if (w != NULL)
			w->lost_until_us = later(w->lost_until_us, lost);
		else
			r->lost_until_us = later(r->lost_until_us, lost);
	}
	return true;
}

void
rates_counted(struct rates *r, struct str counted, int64_t at_us, unsigned n)
{
	AUTO(json) struct json_doc *doc = NULL;

	if (json_parse(counted, "counted", &doc, NULL) != 0)
		return;
	for (size_t i = 0; i < json_count(json_root(doc)); i++) {
		struct rate_name name;

		if (name_read(json_at(json_root(doc), i), &name))
			rates_add(r, &name, at_us, n);
	}
}
