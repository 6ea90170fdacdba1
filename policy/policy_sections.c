/*
 * The sections of a policy, over the files that it stands in. Runs in the command line on source,
 * where they are several, and in core on bundles, which are one. A name stands once in all of them:
 * of two rules with one id a reviewer would see one.
 */
#include <stdlib.h>

#include "common/xalloc.h"
#include "policy/policy_internal.h"

#include "common/banned.h"

static int
by_name(const void *a, const void *b)
{
	const struct named_place *x = a, *y = b;
	int r = str_cmp(x->id, y->id);

	return r != 0 ? r : (x->order > y->order) - (x->order < y->order);
}

static int
refuse_twice(struct reader *r, const struct section *s, struct err *err)
{
	const struct named_places *l = &r->named[s->id];
	const struct named_place *first = NULL;
	unsigned line = 0, col = 0;

	/* The second of the pair that is complete first as one reads. */
	for (size_t i = 1; i < l->n; i++)
		if (str_eq(l->v[i - 1].id, l->v[i].id) &&
		    (first == NULL || l->v[i].order < first->order))
			first = &l->v[i];
	if (first == NULL)
		return 0;
	json_where(first[-1].at.doc, first[-1].at.v, &line, &col);
	return json_err(first->at.doc, first->at.v, err, ERR_INVALID,
	    "\"%.*s\" stands twice in %s: also in %s:%u:%u", STR_ARG(first->id), s->key,
	    json_name(first[-1].at.doc), line, col);
}

static int
count(struct reader *r, const struct section *s, size_t *ret, struct err *err)
{
	const struct json *last = NULL;
	size_t n = 0;

	for (size_t i = 0; i < r->nparts; i++) {
		const struct json *v = json_get(r->parts[i].v, s->key);
		int rc;

		if (v == NULL)
			continue;
		r->doc = r->parts[i].doc;
		rc = read_type(r, v, s->type, s->key, err);
		if (rc != 0)
			return rc;
		last = v;
		n += json_count(v);
	}
	if (last == NULL && s->required)
		return json_err(r->parts[0].doc, r->parts[0].v, err, ERR_INVALID,
		    "the policy has no \"%s\"", s->key);
	if (last != NULL && (n < s->min || n > s->max))
		return json_err(r->doc, last, err, ERR_INVALID,
		    "%s must be from %zu to %zu, are %zu", s->key, s->min, s->max, n);
	*ret = n;
	return 0;
}

static int
read_part(struct reader *r, const struct section *s, const struct place *part, struct err *err)
{
	const struct json *v = json_get(part->v, s->key);
	struct named_places *l = &r->named[s->id];

	r->doc = part->doc;
	for (size_t i = 0; i < json_count(v); i++) {
		const struct json *one = json_at(v, i);
		struct str key = json_key(v, i);
		int rc = s->one(r, key, one, err);

		if (rc != 0)
			return rc;
		l->v[l->n] =
		    (struct named_place){.id = key.n != 0 ? key : json_str(json_get(one, "id")),
			.at = {part->doc, one},
			.order = l->n};
		l->n++;
	}
	return 0;
}

static int
read_section(struct reader *r, const struct section *s, struct err *err)
{
	struct named_places *l = &r->named[s->id];
	size_t n = 0;
	int rc = count(r, s, &n, err);

	if (rc != 0)
		return rc;
	if (s->alloc != NULL)
		s->alloc(r->p, n);
	l->v = xcalloc(n + 1, sizeof(*l->v));
	for (size_t i = 0; i < r->nparts; i++) {
		rc = read_part(r, s, &r->parts[i], err);
		if (rc != 0)
			return rc;
	}
	qsort(l->v, l->n, sizeof(*l->v), by_name);
	rc = refuse_twice(r, s, err);
	return rc == 0 && s->done != NULL ? s->done(r, err) : rc;
}

int
policy_read_sections(
    struct reader *r, const struct section *const *sections, size_t n, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = read_section(r, sections[i], err);
	if (rc == 0)
		rc = policy_check_whole(r, err);
	if (rc == 0)
		policy_index_build(r->p);
	for (size_t i = 0; i < ARRAY_LEN(r->named); i++)
		free(r->named[i].v);
	return rc;
}

const struct json *
read_place(struct reader *r, enum section_id s, struct str id)
{
	const struct named_place key = {.id = id};
	const struct named_places *l = &r->named[s];
	size_t lo = 0, hi = l->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (by_name(&l->v[mid], &key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == l->n) /* not reached: what was read has its place */
		return r->parts[0].v;
	r->doc = l->v[lo].at.doc;
	return l->v[lo].at.v;
}
