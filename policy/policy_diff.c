/*
 * Two policies beside each other: every action that either tells apart is judged by both. Runs in
 * the command line alone. Must miss no action that the new one lets through more easily; the words
 * for what it found come from policy_eval() on both sides.
 */
#include "policy/policy_diff.h"

#include "common/hash.h"
#include "common/xalloc.h"
#include "policy/policy_space.h"

#include "common/banned.h"

#define REASONS_MAX 4096

struct diff {
	struct policy *p[2]; /* before, after */
	struct space *space;
	size_t first[2], n; /* of their rules among the conditions */
	uint64_t *permits[2], *forbids[2], *never[2];
	uint64_t *changed; /* rules without an equal on the other side */
	size_t *twin;	   /* by condition: the other's; SIZE_MAX: none */
	policy_change_fn *say;
	void *arg;
	struct policy_diff_sum *sum;
	/* One direction: an action that `loose` lets through more easily than `tight`. */
	int loose, tight;
	enum policy_change_kind kind;
	struct hash *reasons;
	size_t nreasons;
};

/* --- judging both -------------------------------------------------------------------- */

static struct rule *
rule_at(const struct diff *d, size_t cond)
{
	int side = cond >= d->first[1];

	return &d->p[side]->rules[cond - d->first[side]];
}

static const struct rule *
rule_find(const struct policy *p, struct str id)
{
	for (size_t i = 0; i < p->nrules; i++)
		if (str_eq(p->rules[i].id, id))
			return &p->rules[i];
	return NULL;
}

static void
rate_put(struct policy_request *r, struct str rule, unsigned n)
{
	if (r->nrates < POLICY_RATES_MAX)
		r->rates[r->nrates++] = (struct policy_rate_count){rule, n};
}

/*
 * How much was counted: as much as the tighter policy needs to match, if the looser one's rule of
 * the same name does not match then as well. Other windows are other counts.
 */
static void
rates(const struct diff *d, struct policy_request *tight, struct policy_request *loose)
{
	const struct policy *p = d->p[d->tight];
	unsigned weight = tight->in.statements;

	for (size_t i = 0; i < policy_rate_total(p); i++) {
		const struct policy_rate *a = policy_rate_at(p, i);
		const struct rule *twin = rule_find(d->p[d->loose], a->rule);
		const struct policy_rate *b =
		    twin != NULL && twin->cond.rate.per != RATE_NONE ? &twin->cond.rate : NULL;
		unsigned n = a->over + 1 > weight ? a->over + 1 - weight : 0;
		bool same = b != NULL && a->in_s == b->in_s && a->per == b->per;

		if (same && n + weight > b->over)
			n = 0;
		rate_put(tight, a->rule, n);
		if (same)
			rate_put(loose, a->rule, n);
	}
	policy_request_rates(d->p[d->loose], loose, 0);
	policy_request_aim(tight);
}

static bool
lifts(const struct diff *d, const struct space_point *pt, struct policy_request *r)
{
	size_t from = d->first[d->loose], n = d->p[d->loose]->nrules;

	for (size_t i = from; i < from + n; i++) {
		const struct rule *rule = rule_at(d, i);

		if (rule->kind != RULE_FORBID || !space_bit(pt->match, i) ||
		    !space_rate_bites(&rule->cond, r->in.statements))
			continue;
		if (rule->override == OVERRIDE_NEVER ||
		    !policy_request_lift(
			r, rule->override == OVERRIDE_EXCEPTION ? &rule->id : NULL))
			return false;
	}
	return true;
}

static unsigned
slot_count(const struct decision *d, struct str role)
{
	for (size_t i = 0; i < d->nslots; i++)
		if (str_eq(d->slots[i].role, role))
			return d->slots[i].count;
	return 0;
}

static bool
passes(const struct decision *d)
{
	return d->verdict == VERDICT_ALLOW ||
	       (d->verdict == VERDICT_NEEDS_APPROVAL && !d->unsatisfiable);
}

/* Fewer people, more time, more rows than before. */
static bool
asks_less(const struct decision *loose, const struct decision *tight)
{
	for (size_t i = 0; i < tight->nslots; i++)
		if (slot_count(loose, tight->slots[i].role) < tight->slots[i].count)
			return true;
	if (tight->verify && loose->nslots != 0 && !loose->verify)
		return true;
	if (tight->preview && loose->nslots != 0 && !loose->preview)
		return true;
	if (tight->max_rows >= 0 && (loose->max_rows < 0 || loose->max_rows > tight->max_rows))
		return true;
	return loose->nslots != 0 && tight->nslots != 0 &&
	       (loose->within_s > tight->within_s || loose->use_within_s > tight->use_within_s);
}

/* What it was and is: the same for two actions that differ in nothing that a rule says. */
static bool
reason_is_new(struct diff *d, const struct decision *tight, const struct decision *loose)
{
	AUTO_BUF struct buf text = BUF(65536);
	struct hash h;

	buf_u8(&text, (uint8_t)tight->verdict);
	buf_u8(&text, (uint8_t)loose->verdict);
	for (size_t i = 0; i < tight->nrules; i++)
		buf_lstr(&text, tight->rules[i]);
	buf_u32(&text, UINT32_MAX);
	for (size_t i = 0; i < loose->nrules; i++)
		buf_lstr(&text, loose->rules[i]);
	h = hash_sha256(buf_str(&text));
	for (size_t i = 0; i < d->nreasons; i++)
		if (hash_eq(&d->reasons[i], &h))
			return false;
	if (d->nreasons < REASONS_MAX)
		d->reasons[d->nreasons++] = h;
	return true;
}

/* As its own policy has the target. */
static void
own_target(const struct policy *p, struct policy_input *in)
{
	struct policy_input own = policy_input_for(p, in->target);

	if (policy_target(p, in->target) == NULL)
		return;
	in->kind = own.kind;
	in->env = own.env;
}

static bool
compare(void *ctx, const struct space_point *pt)
{
	struct diff *d = ctx;
	struct policy_request loose = {.in = space_input(pt)}, tight;
	struct decision dl, dt;
	struct policy_change c = {.kind = d->kind,
	    .widens = d->kind == CHANGE_ACCESS,
	    .request = &tight,
	    .words = d->p[d->loose]};

	if (!lifts(d, pt, &loose))
		return false;
	tight = loose;
	rates(d, &tight, &loose);
	policy_request_aim(&loose);
	own_target(d->p[d->loose], &loose.in);
	own_target(d->p[d->tight], &tight.in);
	policy_eval(d->p[d->loose], &loose.in, NULL, 0, &dl);
	if (!passes(&dl))
		return false;
	policy_eval(d->p[d->tight], &tight.in, NULL, 0, &dt);
	if (passes(&dt) && !asks_less(&dl, &dt))
		return false;
	c.before = d->kind == CHANGE_ACCESS ? &dt : &dl;
	c.after = d->kind == CHANGE_ACCESS ? &dl : &dt;
	if (reason_is_new(d, &dt, &dl))
		policy_diff_tell(&c, d->say, d->arg, d->sum);
	return false;
}

/* Nothing that differs can match any more: both say the same. */
static bool
is_same(void *ctx, const uint64_t *match, const uint64_t *sure, enum space_dim last)
{
	struct diff *d = ctx;

	(void)sure;
	if (last < SPACE_TIME)
		return false;
	for (size_t i = 0; i < d->n; i++) {
		bool here = space_bit(match, i);

		if (here && space_bit(d->changed, i))
			return false;
		if (d->twin[i] != SIZE_MAX && here != space_bit(match, d->twin[i]))
			return false;
	}
	return true;
}

/* --- one direction ------------------------------------------------------------------- */

static int
walk(struct diff *d, int loose, enum policy_change_kind kind, struct err *err)
{
	struct space_query q = {.permits = d->permits[loose],
	    .care = d->space->all,
	    .cut = is_same,
	    .leaf = compare,
	    .ctx = d};
	int rc;

	d->loose = loose;
	d->tight = !loose;
	d->kind = kind;
	d->nreasons = 0;
	/* First what needs no lift; then what does, unless the same was told. */
	q.mustnot = d->forbids[loose];
	rc = space_walk(d->space, &q, err);
	if (rc != 0)
		return rc;
	q.mustnot = d->never[loose];
	return space_walk(d->space, &q, err);
}

/* --- rules that are the same --------------------------------------------------------- */

static bool
same_names(const struct policy *a, const struct indices *x, const struct policy *b,
    const struct indices *y)
{
	if (x->n != y->n)
		return false;
	for (size_t i = 0; i < x->n; i++)
		if (!str_eq(a->calendars[x->v[i]].id, b->calendars[y->v[i]].id))
			return false;
	return true;
}

static bool
same_strs(const struct strs *a, const struct strs *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!str_eq(a->v[i], b->v[i]))
			return false;
	return true;
}

static bool
same_cond(
    const struct policy *pa, const struct cond *a, const struct policy *pb, const struct cond *b)
{
	for (size_t i = 0; i < ATTR_COUNT; i++)
		if (!same_strs(&a->attr[i], &b->attr[i]))
			return false;
	return same_strs(&a->relation, &b->relation) && same_strs(&a->resource, &b->resource) &&
	       a->mode == b->mode && a->effects == b->effects && a->gt == b->gt && a->lt == b->lt &&
	       a->eq == b->eq && a->finish == b->finish && a->rate.per == b->rate.per &&
	       a->rate.over == b->rate.over && a->rate.in_s == b->rate.in_s &&
	       same_names(pa, &a->during, pb, &b->during) &&
	       same_names(pa, &a->outside, pb, &b->outside);
}

static bool
same_rule(
    const struct policy *pa, const struct rule *a, const struct policy *pb, const struct rule *b)
{
	if (a->kind != b->kind || a->override != b->override || a->nslots != b->nslots ||
	    a->within_s != b->within_s || a->use_within_s != b->use_within_s ||
	    a->max_rows != b->max_rows || a->verify != b->verify || a->preview != b->preview)
		return false;
	for (size_t i = 0; i < a->nslots; i++)
		if (!str_eq(a->slots[i].role, b->slots[i].role) ||
		    a->slots[i].count != b->slots[i].count)
			return false;
	return same_cond(pa, &a->cond, pb, &b->cond);
}

static void
twins(struct diff *d)
{
	for (size_t i = 0; i < d->n; i++)
		d->twin[i] = SIZE_MAX;
	for (size_t i = 0; i < d->p[0]->nrules; i++) {
		const struct rule *a = &d->p[0]->rules[i];
		const struct rule *b = rule_find(d->p[1], a->id);

		if (b == NULL || !same_rule(d->p[0], a, d->p[1], b))
			continue;
		d->twin[i] = d->first[1] + (size_t)(b - d->p[1]->rules);
		d->twin[d->twin[i]] = i;
	}
	for (size_t i = 0; i < d->n; i++)
		if (d->twin[i] == SIZE_MAX)
			space_set(d->changed, i);
}

static void
masks(struct diff *d)
{
	for (int side = 0; side < 2; side++) {
		d->permits[side] = space_mask(d->space);
		d->forbids[side] = space_mask(d->space);
		d->never[side] = space_mask(d->space);
	}
	d->changed = space_mask(d->space);
	for (size_t i = 0; i < d->n; i++) {
		int side = i >= d->first[1];
		const struct rule *rule = rule_at(d, i);

		if (rule->kind == RULE_PERMIT)
			space_set(d->permits[side], i);
		if (rule->kind != RULE_FORBID || rule->cond.rate.per != RATE_NONE)
			continue;
		space_set(d->forbids[side], i);
		if (rule->override == OVERRIDE_NEVER)
			space_set(d->never[side], i);
	}
}

void
policy_diff_tell(
    const struct policy_change *c, policy_change_fn *say, void *arg, struct policy_diff_sum *ret)
{
	ret->n[c->kind]++;
	ret->widens += c->widens;
	if (c->request != NULL && ret->n[c->kind] > POLICY_DIFF_EXAMPLES_MAX)
		ret->left_out[c->kind]++;
	else
		say(arg, c);
}

const char *
policy_change_name(enum policy_change_kind k)
{
	static const char *const names[CHANGE_KINDS] = {
	    "access", "tightened", "rule", "target", "person", "calendar", "theorem", "other"};

	return names[k];
}

int
policy_diff(struct policy *before, struct policy *after, int64_t now_s, policy_change_fn *say,
    void *arg, struct policy_diff_sum *ret, struct err *err)
{
	const struct space_how how = {.now_s = now_s, .several = true, .to_come = true};
	size_t n = before->nrules + after->nrules;
	AUTO_FREE struct space_cond *conds = xcalloc(n + 1, sizeof(*conds));
	AUTO_FREE size_t *twin = xcalloc(n + 1, sizeof(*twin));
	AUTO_FREE struct hash *reasons = xcalloc(REASONS_MAX, sizeof(*reasons));
	AUTO(space) struct space *s = NULL;
	struct diff d = {.p = {before, after},
	    .first = {0, before->nrules},
	    .n = n,
	    .twin = twin,
	    .reasons = reasons,
	    .say = say,
	    .arg = arg,
	    .sum = ret};
	int rc;

	*ret = (struct policy_diff_sum){0};
	for (size_t i = 0; i < n; i++) {
		const struct rule *rule = rule_at(&d, i);

		conds[i] = (struct space_cond){d.p[i >= d.first[1]], &rule->cond, rule->kind};
	}
	rc = space_build(conds, n, &how, &s, err);
	if (rc != 0)
		return rc;
	d.space = s;
	masks(&d);
	twins(&d);
	rc = walk(&d, 1, CHANGE_ACCESS, err);
	if (rc == 0)
		rc = walk(&d, 0, CHANGE_TIGHTENED, err);
	return rc == 0 ? policy_diff_parts(before, after, now_s, say, arg, ret, err) : rc;
}
