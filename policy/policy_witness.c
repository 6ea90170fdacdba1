/*
 * An example action: its signatures, its lifts, its words. Runs in the command line alone, when a
 * policy is reviewed or explained. Judges nothing: whoever shows an example has it judged first.
 */
#include "policy/policy_witness.h"

#include "common/xalloc.h"
#include "policy/policy_internal.h"

#include "common/banned.h"

#define SECOND 1000000

void
policy_request_aim(struct policy_request *r)
{
	r->in.lifts = r->lifts;
	r->in.nlifts = r->nlifts;
	r->in.rates = r->rates;
	r->in.nrates = r->nrates;
}

void
policy_request_rates(const struct policy *p, struct policy_request *r, unsigned n)
{
	for (size_t i = 0; i < policy_rate_total(p); i++) {
		struct str rule = policy_rate_at(p, i)->rule;
		size_t k = 0;

		while (k < r->nrates && !str_eq(r->rates[k].rule, rule))
			k++;
		if (k == r->nrates && k < POLICY_RATES_MAX)
			r->rates[r->nrates++] = (struct policy_rate_count){rule, n};
	}
	policy_request_aim(r);
}

bool
policy_request_lift(struct policy_request *r, const struct str *rule)
{
	struct policy_lift l = {.kind = rule != NULL ? LIFT_EXCEPTION : LIFT_BREAKGLASS,
	    .id = rule != NULL ? *rule : STR("breakglass"),
	    .rule = rule != NULL ? *rule : STR(""),
	    .target = r->in.target,
	    .effects = (1u << EFFECT_COUNT) - 1,
	    .from_us = r->in.at.us,
	    .to_us = r->in.at.us + SECOND};

	for (size_t i = 0; i < r->nlifts; i++)
		if (r->lifts[i].kind == l.kind && str_eq(r->lifts[i].rule, l.rule))
			return true;
	if (r->nlifts == DECISION_LIFTED_MAX)
		return false;
	r->lifts[r->nlifts++] = l;
	policy_request_aim(r);
	return true;
}

/* --- signatures ---------------------------------------------------------------------- */

struct signing {
	const struct policy *p;
	const struct policy_slot *slots;
	size_t n;
	uint16_t *roles; /* by person: slots that are still open to them */
};

/* Could the rest of the slots (`left` of them) still be filled? */
static bool
rest_is_possible(const struct signing *s, const unsigned *left)
{
	struct policy_slot rest[POLICY_SLOTS_MAX];
	struct slot_match m;

	for (size_t i = 0; i < s->n; i++)
		rest[i] = (struct policy_slot){s->slots[i].role, left[i]};
	policy_slots_match(rest, s->n, s->roles, s->p->npeople, &m);
	return m.missing_total == 0;
}

static bool
sign_one(const struct signing *s, size_t slot, unsigned *left, struct policy_request *r)
{
	for (size_t i = 0; i < s->p->npeople; i++) {
		uint16_t held = s->roles[i];

		if ((held & 1u << slot) == 0)
			continue;
		s->roles[i] = 0;
		left[slot]--;
		if (rest_is_possible(s, left)) {
			r->grants[r->ngrants++] =
			    (struct policy_grant){s->p->people[i].id, s->slots[slot].role, true};
			return true;
		}
		s->roles[i] = held;
		left[slot]++;
	}
	return false;
}

bool
policy_request_sign(
    const struct policy *p, struct policy_request *r, const struct policy_slot *slots, size_t n)
{
	AUTO_FREE uint16_t *roles = xcalloc(p->npeople + 1, sizeof(*roles));
	const struct signing s = {p, slots, n, roles};
	unsigned left[POLICY_SLOTS_MAX] = {0};

	for (size_t i = 0; i < p->npeople; i++) {
		const struct policy_person *q = &p->people[i];

		if (q->nkeys != 0 && r->in.owner.p != NULL && !policy_input_own(&r->in, q->id))
			roles[i] = policy_roles_mask(q, slots, n);
	}
	for (size_t i = 0; i < n; i++)
		left[i] = slots[i].count;
	r->ngrants = 0;
	for (size_t i = 0; i < n; i++)
		while (left[i] != 0)
			if (r->ngrants == POLICY_QUORUM_MAX || !sign_one(&s, i, left, r))
				return false;
	return true;
}

/* --- words --------------------------------------------------------------------------- */

void
policy_calendar_words(const struct policy *p, struct instant at, const char *sep, struct buf *out)
{
	for (size_t i = 0; i < p->ncalendars; i++) {
		const struct calendar *c = &p->calendars[i];
		enum tri state = policy_calendar_state(c, at);
		int64_t next = policy_calendar_next(c, at.us / SECOND, state != TRI_YES);
		char until[CLOCK_TEXT_SIZE] = "it is not known";

		if (next != 0)
			clock_format_s(next * SECOND, until);
		buf_printf(out, "%s", i != 0 ? sep : "");
		switch (state) {
		case TRI_YES: buf_printf(out, "inside %.*s until %s", STR_ARG(c->id), until); break;
		case TRI_NO:
			buf_printf(out, next != 0 ? "outside %.*s, next from %s" : "outside %.*s",
			    STR_ARG(c->id), until);
			break;
		case TRI_UNKNOWN:
			buf_printf(out, "%.*s unknown, so counts against it", STR_ARG(c->id));
			break;
		}
	}
}

static void
put_names(struct buf *out, const char *before, const struct str *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%s%.*s", i == 0 ? before : ", ", STR_ARG(v[i]));
}

static void
put_whose(const struct policy_input *in, const char *indent, struct buf *out)
{
	if (in->owner.p != NULL)
		buf_printf(out, "\n%sin a run of %.*s", indent, STR_ARG(in->owner));
	if (in->nwords != 0) {
		buf_printf(out, "\n%s", indent);
		put_names(out, "with words of ", in->words, in->nwords);
	}
	if (in->agent.p != NULL)
		buf_printf(out, "\n%sby agent %.*s", indent, STR_ARG(in->agent));
	if (in->run.p != NULL)
		buf_printf(out, "\n%sin run %.*s", indent, STR_ARG(in->run));
}

void
policy_request_words(
    const struct policy *p, const struct policy_request *r, const char *indent, struct buf *out)
{
	const struct policy_input *in = &r->in;
	char at[CLOCK_TEXT_SIZE];

	buf_put_z(out, "an action with effects ");
	effect_put(out, in->effects != 0 ? in->effects : EFFECT_opaque);
	buf_printf(
	    out, " on %.*s (%.*s, %.*s)", STR_ARG(in->target), STR_ARG(in->kind), STR_ARG(in->env));
	if (in->statements != 1)
		buf_printf(out, "\n%sas %u statements at once", indent, in->statements);
	if (in->nrelations != 0) {
		buf_printf(out, "\n%s", indent);
		put_names(out, "that names ", in->relations, in->nrelations);
	}
	clock_format_s(in->at.us, at);
	if (in->at.known)
		buf_printf(out, "\n%sat %s", indent, at);
	else
		buf_printf(out, "\n%swhile the clock is not known", indent);
	if (in->at.known && p->ncalendars != 0) {
		AUTO_FREE char *sep = xasprintf("\n%s   ", indent);

		buf_put_z(out, sep);
		policy_calendar_words(p, in->at, sep, out);
	}
	put_whose(in, indent, out);
	for (size_t i = 0; i < r->nlifts; i++)
		buf_printf(out,
		    r->lifts[i].kind == LIFT_EXCEPTION ? "\n%swith a signed exception to rule %.*s"
						       : "\n%swith %.*s",
		    indent,
		    STR_ARG(r->lifts[i].kind == LIFT_EXCEPTION ? r->lifts[i].rule
							       : STR("break-glass")));
	for (size_t i = 0; i < r->nrates; i++)
		if (r->rates[i].n != 0)
			buf_printf(out, "\n%safter %u that rule %.*s counts", indent, r->rates[i].n,
			    STR_ARG(r->rates[i].rule));
	for (size_t i = 0; i < r->ngrants; i++)
		buf_printf(out, "\n%ssigned by %.*s as %.*s", indent, STR_ARG(r->grants[i].person),
		    STR_ARG(r->grants[i].role));
}

/* --- JSON ---------------------------------------------------------------------------- */

static void
jcs_strs(struct jcs *j, const char *key, const struct str *v, size_t n)
{
	if (n == 0)
		return;
	jcs_array(j, key);
	for (size_t i = 0; i < n; i++)
		jcs_str(j, NULL, v[i]);
	jcs_array_end(j);
}

static void
jcs_some(struct jcs *j, const char *key, struct str s)
{
	if (s.p != NULL)
		jcs_str(j, key, s);
}

static void
jcs_signed(struct jcs *j, const struct policy_request *r)
{
	if (r->ngrants != 0) {
		jcs_array(j, "grants");
		for (size_t i = 0; i < r->ngrants; i++) {
			jcs_open(j, NULL);
			jcs_str(j, "person", r->grants[i].person);
			jcs_str(j, "role", r->grants[i].role);
			jcs_close(j);
		}
		jcs_array_end(j);
	}
	if (r->nlifts != 0) {
		jcs_array(j, "lifts");
		for (size_t i = 0; i < r->nlifts; i++)
			jcs_str(j, NULL,
			    r->lifts[i].kind == LIFT_EXCEPTION ? r->lifts[i].rule
							       : STR("breakglass"));
		jcs_array_end(j);
	}
}

/* Those that are not none; keys in order. */
static void
jcs_counted(struct jcs *j, const struct policy_request *r)
{
	struct str last = STR_NONE;
	size_t left = 0;

	for (size_t i = 0; i < r->nrates; i++)
		left += r->rates[i].n != 0;
	if (left == 0)
		return;
	jcs_open(j, "rates");
	for (; left != 0; left--) {
		const struct policy_rate_count *next = NULL;

		for (size_t i = 0; i < r->nrates; i++) {
			const struct policy_rate_count *c = &r->rates[i];

			if (c->n != 0 && (last.p == NULL || str_cmp(c->rule, last) > 0) &&
			    (next == NULL || str_cmp(c->rule, next->rule) < 0))
				next = c;
		}
		if (next == NULL)
			break;
		jcs_key(j, next->rule);
		jcs_int(j, NULL, next->n);
		last = next->rule;
	}
	jcs_close(j);
}

void
policy_request_jcs(struct jcs *j, const char *key, const struct policy_request *r)
{
	const struct policy_input *in = &r->in;
	char at[CLOCK_TEXT_SIZE];

	jcs_open(j, key);
	jcs_some(j, "agent", in->agent);
	clock_format_s(in->at.us, at);
	if (in->at.known)
		jcs_z(j, "at", at);
	else
		jcs_z(j, "clock", "unknown");
	if (in->deferred)
		jcs_bool(j, "deferred", true);
	effect_jcs(j, "effects", in->effects);
	jcs_signed(j, r);
	jcs_some(j, "owner", in->owner);
	jcs_counted(j, r);
	jcs_strs(j, "relations", in->relations, in->nrelations);
	jcs_some(j, "run", in->run);
	jcs_int(j, "statements", in->statements);
	jcs_some(j, "target", in->target);
	if (in->nwords != 0)
		jcs_strs(j, "words", in->words, in->nwords);
	jcs_close(j);
}
