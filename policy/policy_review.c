/*
 * A policy with all its conditions and theorems in one space. Runs in the command line alone. What
 * it shows as an example was judged by policy_eval() itself: the space only finds it.
 */
#include "policy/policy_review_internal.h"

#include <stddef.h>

#include "common/xalloc.h"

#include "common/banned.h"

/* --- theorems ------------------------------------------------------------------------ */

static int
read_never(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct theorem *t = out;

	return policy_read_cond(r, v, &t->never, err);
}

static int
read_people(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct theorem *t = out;
	int64_t n = 0;
	int rc = read_int(r, v, "people", 1, POLICY_QUORUM_MAX, &n, err);

	t->pub.people = (unsigned)n;
	return rc;
}

static int
read_breakglass(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct theorem *t = out;

	t->pub.breakglass = json_bool(v);
	return read_type(r, v, JSON_BOOL, "breakglass", err);
}

static int
read_unless(struct reader *r, const struct json *v, void *out, struct err *err)
{
	static const struct read_field fields[] = {
	    {"people", read_people, 0, false},
	    {"breakglass", read_breakglass, 0, false},
	};

	return read_object(r, v, "unless", fields, ARRAY_LEN(fields), out, err);
}

static bool
names(const struct strs *patterns, struct str name)
{
	for (size_t i = 0; i < patterns->n; i++)
		if (str_glob(patterns->v[i], name))
			return true;
	return patterns->n == 0;
}

static bool
is_idle(const struct policy *p, const struct cond *c)
{
	for (size_t i = 0; i < p->ntargets; i++) {
		const struct policy_target *t = &p->targets[i].pub;

		if (names(&c->attr[ATTR_target], t->id) && names(&c->attr[ATTR_env], t->env) &&
		    names(&c->attr[ATTR_kind], str_z(target_kind_name(t->kind))))
			return false;
	}
	return p->ntargets != 0;
}

static int
theorems_of(struct policy_review *r, const struct policy_part *part, struct err *err)
{
	static const struct read_field fields[] = {
	    {"id", read_id, offsetof(struct theorem, pub.id), true},
	    {"never", read_never, 0, true},
	    {"unless", read_unless, 0, false},
	    {"why", read_text, offsetof(struct theorem, pub.why), false},
	};
	const struct json *prove = json_get(part->v, "prove");
	struct reader reader = {.doc = part->doc, .p = r->p};

	for (size_t i = 0; i < json_count(prove); i++) {
		int rc = read_object(&reader, json_at(prove, i), "prove", fields, ARRAY_LEN(fields),
		    &r->theorems[r->n], err);

		if (rc != 0)
			return rc;
		r->theorems[r->n].pub.idle = is_idle(r->p, &r->theorems[r->n].never);
		r->n++;
	}
	return 0;
}

static int
theorems(struct policy_review *r, struct err *err)
{
	size_t total = 0;
	int rc = 0;

	for (size_t i = 0; i < r->nparts; i++)
		total += json_count(json_get(r->parts[i].v, "prove"));
	r->theorems = arena_alloc(r->p->mem, (total + 1) * sizeof(*r->theorems));
	for (size_t i = 0; rc == 0 && i < r->nparts; i++)
		rc = theorems_of(r, &r->parts[i], err);
	return rc;
}

size_t
policy_theorem_count(const struct policy_review *r)
{
	return r->n;
}

const struct policy_theorem *
policy_theorem_at(const struct policy_review *r, size_t i)
{
	return &r->theorems[i].pub;
}

/* --- the space ----------------------------------------------------------------------- */

static void
conds(struct policy_review *r)
{
	r->conds = arena_alloc(r->p->mem, (r->p->nrules + r->n + 1) * sizeof(*r->conds));
	for (size_t i = 0; i < r->p->nrules; i++)
		r->conds[i] = (struct space_cond){r->p, &r->p->rules[i].cond, r->p->rules[i].kind};
	/* What is not known may be what the theorem speaks of: as in a forbid. */
	for (size_t i = 0; i < r->n; i++)
		r->conds[r->p->nrules + i] =
		    (struct space_cond){r->p, &r->theorems[i].never, RULE_FORBID};
}

static void
masks(struct policy_review *r)
{
	r->permits = space_mask(r->space);
	r->requires = space_mask(r->space);
	r->forbids = space_mask(r->space);
	for (size_t o = 0; o < ARRAY_LEN(r->of); o++)
		r->of[o] = space_mask(r->space);
	for (size_t i = 0; i < r->p->nrules; i++) {
		const struct rule *rule = &r->p->rules[i];

		switch (rule->kind) {
		case RULE_PERMIT: space_set(r->permits, i); break;
		case RULE_REQUIRE: space_set(r->requires, i); break;
		case RULE_FORBID:
			space_set(r->forbids, i);
			/* One with a rate may be below it, so nothing can be said of it alone. */
			if (rule->cond.rate.per == RATE_NONE)
				space_set(r->of[rule->override], i);
			break;
		}
	}
}

int
policy_review_new(struct policy *p, const struct policy_part *parts, size_t nparts, int64_t now_s,
    struct policy_review **ret, struct err *err)
{
	const struct space_how how = {.now_s = now_s, .several = true};
	AUTO(policy_review) struct policy_review *r = xcalloc(1, sizeof(*r));
	int rc;

	r->p = p;
	r->parts = parts;
	r->nparts = nparts;
	rc = theorems(r, err);
	if (rc != 0)
		return rc;
	conds(r);
	rc = space_build(r->conds, p->nrules + r->n, &how, &r->space, err);
	if (rc != 0)
		return rc;
	masks(r);
	*ret = TAKE_PTR(r);
	return 0;
}

void
policy_review_free(struct policy_review *r)
{
	if (r == NULL)
		return;
	space_free(r->space);
	free(r);
}

void
policy_review_size(const struct policy_review *r, struct buf *out)
{
	for (int d = 0; d < SPACE_DIMS; d++)
		buf_printf(out, "%s%zu %s", d != 0 ? ", " : "", r->space->n[d], space_dim_names[d]);
}

static bool
is_named(const struct json *section, size_t i, struct str id)
{
	const struct json *v = json_at(section, i);

	return str_eq(
	    json_type(section) == JSON_OBJECT ? json_key(section, i) : json_str(json_get(v, "id")),
	    id);
}

struct policy_part
policy_review_place(const struct policy_review *r, const char *key, struct str id)
{
	for (size_t k = 0; k < r->nparts; k++) {
		const struct json *section = json_get(r->parts[k].v, key);

		for (size_t i = 0; i < json_count(section); i++)
			if (is_named(section, i, id))
				return (struct policy_part){r->parts[k].doc, json_at(section, i)};
	}
	return r->parts[0];
}

struct policy_part
policy_review_rule(const struct policy_review *r, size_t i)
{
	for (size_t k = 0; k < r->nparts; k++) {
		const struct json *rules = json_get(r->parts[k].v, "rules");

		if (i < json_count(rules))
			return (struct policy_part){r->parts[k].doc, json_at(rules, i)};
		i -= json_count(rules);
	}
	return r->parts[0];
}

/* --- examples ------------------------------------------------------------------------ */

/* Lifts for every forbid that matches. */
static bool
lift_all(const struct policy_review *r, const struct space_point *pt, bool breakglass,
    struct policy_request *ret)
{
	for (size_t i = 0; i < r->p->nrules; i++) {
		const struct rule *rule = &r->p->rules[i];

		if (rule->kind != RULE_FORBID || !space_bit(pt->match, i) ||
		    !space_rate_bites(&rule->cond, ret->in.statements))
			continue;
		if (rule->override == OVERRIDE_NEVER ||
		    (rule->override == OVERRIDE_BREAKGLASS && !breakglass) ||
		    !policy_request_lift(
			ret, rule->override == OVERRIDE_EXCEPTION ? &rule->id : NULL))
			return false;
	}
	return true;
}

bool
policy_review_confirm(const struct policy_review *r, const struct space_point *pt, bool breakglass,
    struct policy_request *ret, struct decision *d)
{
	*ret = (struct policy_request){.in = space_input(pt)};
	if (!lift_all(r, pt, breakglass, ret))
		return false;
	policy_request_rates(r->p, ret, 0);
	policy_eval(r->p, &ret->in, NULL, 0, d);
	if (d->verdict != VERDICT_NEEDS_APPROVAL)
		return d->verdict == VERDICT_ALLOW;
	if (!policy_request_sign(r->p, ret, d->slots, d->nslots))
		return false;
	policy_eval(r->p, &ret->in, ret->grants, ret->ngrants, d);
	return d->verdict == VERDICT_ALLOW;
}
