/*
 * What a document means as a whole: spreads find their fragments, an operation is selected, its
 * fields are gathered. Linear in the size of the document, without recursion. Must never leave out
 * a field that some server could run.
 */
#include "policy/graphql_internal.h"

#include <stdlib.h>

#include "common/banned.h"

static int
bad(struct err *err, const char *what, struct str name)
{
	return err_set(err, ERR_SYNTAX, "GraphQL: %s \"%.*s\"", what, STR_ARG(name));
}

struct named {
	struct str name;
	uint32_t def;
};

static int
by_name(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	return str_cmp(x->name, y->name);
}

/* The definitions that are (or are not) fragments, sorted; no name twice. */
static int
names_sort(
    const struct graphql_doc *d, bool fragments, struct named *v, uint32_t *ret_n, struct err *err)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < d->ndefs; i++)
		if ((d->defs[i].type == GRAPHQL_NONE) == fragments)
			v[n++] = (struct named){d->defs[i].name, i};
	qsort(v, n, sizeof(*v), by_name);
	for (uint32_t i = 1; i < n; i++)
		if (str_eq(v[i - 1].name, v[i].name))
			return bad(err,
			    fragments ? "two fragments have the name"
				      : "two operations have the name",
			    v[i].name);
	*ret_n = n;
	return 0;
}

/* Section 5.2.2.1: an anonymous operation stands alone. */
static int
operations_check(const struct graphql_doc *d, struct err *err)
{
	if (d->noperations == 0)
		return err_set(err, ERR_SYNTAX, "GraphQL: there is no operation");
	for (uint32_t i = 0; d->noperations > 1 && i < d->ndefs; i++)
		if (d->defs[i].type != GRAPHQL_NONE && d->defs[i].name.n == 0)
			return err_set(err, ERR_SYNTAX,
			    "GraphQL: an operation without a name stands beside others");
	return 0;
}

static int
spreads_find(struct graphql_doc *d, const struct named *v, uint32_t n, struct err *err)
{
	for (uint32_t i = 0; i < d->nitems; i++) {
		struct named key = {.name = d->items[i].name};
		const struct named *found;

		if (!d->items[i].spread)
			continue;
		found = bsearch(&key, v, n, sizeof(*v), by_name);
		if (found == NULL)
			return bad(err, "there is no fragment", key.name);
		d->items[i].fragment = found->def;
	}
	return 0;
}

/* A fragment that is being walked, and how far. */
struct step {
	uint32_t def, next;
};
enum { UNSEEN = 0, OPEN, CLOSED };

/* Depth first, the path in steps[]; a spread into the path is a circle. */
static int
circle_from(const struct graphql_doc *d, uint32_t start, struct step *steps, uint8_t *state,
    struct err *err)
{
	uint32_t n = 1;

	steps[0] = (struct step){start, 0};
	state[start] = OPEN;
	while (n != 0) {
		struct step *s = &steps[n - 1];
		const struct definition *def = &d->defs[s->def];
		const struct item *it;

		if (s->next == def->n) {
			state[s->def] = CLOSED;
			n--;
			continue;
		}
		it = &d->items[def->first + s->next++];
		if (!it->spread || state[it->fragment] == CLOSED)
			continue;
		if (state[it->fragment] == OPEN)
			return bad(err, "a circle of fragments through", it->name);
		state[it->fragment] = OPEN;
		steps[n++] = (struct step){it->fragment, 0};
	}
	return 0;
}

int
graphql_link(struct arena *a, struct graphql_doc *d, struct err *err)
{
	struct named *v = arena_alloc(a, (d->ndefs + 1) * sizeof(*v));
	struct step *steps = arena_alloc(a, (d->ndefs + 1) * sizeof(*steps));
	uint8_t *state = arena_alloc(a, d->ndefs + 1);
	uint32_t n;
	int rc = operations_check(d, err);

	if (rc == 0)
		rc = names_sort(d, false, v, &n, err);
	if (rc == 0)
		rc = names_sort(d, true, v, &n, err);
	if (rc == 0)
		rc = spreads_find(d, v, n, err);
	for (uint32_t i = 0; rc == 0 && i < d->ndefs; i++)
		if (state[i] == UNSEEN)
			rc = circle_from(d, i, steps, state, err);
	return rc;
}

/* --- an operation's fields ----------------------------------------------------------- */

enum { AT_ROOT = 1, BENEATH = 2 }; /* how a definition was reached */

struct gather {
	const struct graphql_doc *d;
	struct graphql_op *op;
	uint8_t *reached;
	struct step *todo; /* next: how */
	uint32_t ntodo;
};

static void
reach(struct gather *g, uint32_t def, uint8_t how)
{
	if ((g->reached[def] & how) != 0)
		return;
	g->reached[def] |= how;
	g->todo[g->ntodo++] = (struct step){def, how};
}

static void
gather_one(struct gather *g, struct step s)
{
	const struct definition *def = &g->d->defs[s.def];

	for (uint32_t i = 0; i < def->n; i++) {
		const struct item *it = &g->d->items[def->first + i];
		bool root = it->root && s.next == AT_ROOT;

		if (it->spread)
			reach(g, it->fragment, root ? AT_ROOT : BENEATH);
		else if (root)
			g->op->fields[g->op->nfields++] = it->name;
		else
			g->op->nested[g->op->nnested++] = it->name;
	}
}

static int
by_str(const void *a, const void *b)
{
	return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static size_t
sort_unique(struct str *v, size_t n)
{
	size_t kept = 0;

	qsort(v, n, sizeof(*v), by_str);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || !str_eq(v[kept - 1], v[i]))
			v[kept++] = v[i];
	return kept;
}

static const struct definition *
operation_find(const struct graphql_doc *d, struct str name)
{
	for (uint32_t i = 0; i < d->ndefs; i++)
		if (d->defs[i].type != GRAPHQL_NONE &&
		    (name.n == 0 || str_eq(d->defs[i].name, name)))
			return &d->defs[i];
	return NULL;
}

int
graphql_select(struct arena *a, const struct graphql_doc *d, struct str name,
    struct graphql_op *ret, struct err *err)
{
	const struct definition *def = operation_find(d, name);
	struct graphql_op op = {.operations = d->noperations};
	struct gather g = {.d = d, .op = &op};

	if (name.n == 0 && d->noperations > 1)
		return err_set(err, ERR_SYNTAX,
		    "GraphQL: %u operations, and no operationName says which", d->noperations);
	if (def == NULL)
		return bad(err, "there is no operation", name);
	op.type = def->type;
	/* Each item is met once at the root and once beneath it, at most. */
	op.fields = arena_alloc(a, (d->nitems + 1) * sizeof(*op.fields));
	op.nested = arena_alloc(a, (2 * (size_t)d->nitems + 1) * sizeof(*op.nested));
	g.reached = arena_alloc(a, d->ndefs + 1);
	g.todo = arena_alloc(a, (2 * (size_t)d->ndefs + 1) * sizeof(*g.todo));
	reach(&g, (uint32_t)(def - d->defs), AT_ROOT);
	while (g.ntodo != 0)
		gather_one(&g, g.todo[--g.ntodo]);
	op.nfields = sort_unique(op.fields, op.nfields);
	op.nnested = sort_unique(op.nested, op.nnested);
	*ret = op;
	return 0;
}
