/*
 * A request as JSON, as people and `policy prove` write it for `policy explain`. Runs in the
 * command line alone; the text may come from anywhere. What is not exactly understood is refused.
 */
#include <stddef.h>

#include "common/arena.h"
#include "policy/policy_internal.h"
#include "policy/policy_witness.h"

#include "common/banned.h"

struct request_read {
	const struct policy *p;
	struct policy_request *r;
	struct arena *mem;
	struct str clock;
	bool has_at;
	const struct json *grants, *lifts;
};
#define REQUEST(out) (((struct request_read *)(out))->r)

static int
one_text(struct reader *r, const struct json *v, struct str *ret, struct err *err)
{
	int rc = read_type(r, v, JSON_STRING, "a text", err);

	if (rc != 0)
		return rc;
	if (json_str(v).n == 0 || json_str(v).n > POLICY_TEXT_MAX)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "a text must have from 1 to %d bytes, has %zu", POLICY_TEXT_MAX, json_str(v).n);
	*ret = json_str(v);
	return 0;
}

static int
read_agent(struct reader *r, const struct json *v, void *out, struct err *err)
{
	return one_text(r, v, &REQUEST(out)->in.agent, err);
}

static int
read_run(struct reader *r, const struct json *v, void *out, struct err *err)
{
	return one_text(r, v, &REQUEST(out)->in.run, err);
}

static int
read_owner(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct request_read *q = out;
	int rc = one_text(r, v, &q->r->in.owner, err);

	if (rc == 0 && policy_person(q->p, q->r->in.owner) == NULL)
		return json_err(r->doc, v, err, ERR_INVALID, "no person is named \"%.*s\"",
		    STR_ARG(q->r->in.owner));
	return rc;
}

static int
read_words(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct request_read *q = out;
	struct str *l;
	int rc = read_type(r, v, JSON_ARRAY, "words", err);

	if (rc != 0)
		return rc;
	if (json_count(v) > POLICY_ARRAY_MAX)
		return json_err(r->doc, v, err, ERR_INVALID, "words may be up to %d, are %zu",
		    POLICY_ARRAY_MAX, json_count(v));
	l = arena_alloc(q->mem, (json_count(v) + 1) * sizeof(*l));
	for (size_t i = 0; rc == 0 && i < json_count(v); i++) {
		rc = one_text(r, json_at(v, i), &l[i], err);
		if (rc == 0 && policy_person(q->p, l[i]) == NULL)
			return json_err(r->doc, json_at(v, i), err, ERR_INVALID,
			    "no person is named \"%.*s\"", STR_ARG(l[i]));
	}
	q->r->in.words = l;
	q->r->in.nwords = json_count(v);
	return rc;
}

static int
read_target(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct request_read *q = out;
	struct policy_input of;
	int rc = read_type(r, v, JSON_STRING, "target", err);

	if (rc != 0)
		return rc;
	if (policy_target(q->p, json_str(v)) == NULL)
		return json_err(r->doc, v, err, ERR_INVALID, "no target is named \"%.*s\"",
		    STR_ARG(json_str(v)));
	of = policy_input_for(q->p, json_str(v));
	q->r->in.target = of.target;
	q->r->in.kind = of.kind;
	q->r->in.env = of.env;
	return 0;
}

static int
read_effects(struct reader *r, const struct json *v, void *out, struct err *err)
{
	return read_effect_list(r, v, &REQUEST(out)->in.effects, err);
}

static int
read_statements(struct reader *r, const struct json *v, void *out, struct err *err)
{
	int64_t n = 0;
	int rc = read_int(r, v, "statements", 1, 1000000, &n, err);

	REQUEST(out)->in.statements = (unsigned)n;
	return rc;
}

static int
read_relations(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct request_read *q = out;
	struct str *l;
	int rc = read_type(r, v, JSON_ARRAY, "relations", err);

	if (rc != 0)
		return rc;
	if (json_count(v) > POLICY_ARRAY_MAX)
		return json_err(r->doc, v, err, ERR_INVALID, "relations may be up to %d, are %zu",
		    POLICY_ARRAY_MAX, json_count(v));
	l = arena_alloc(q->mem, (json_count(v) + 1) * sizeof(*l));
	for (size_t i = 0; rc == 0 && i < json_count(v); i++)
		rc = one_text(r, json_at(v, i), &l[i], err);
	q->r->in.relations = l;
	q->r->in.nrelations = json_count(v);
	return rc;
}

static int
read_at(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct request_read *q = out;
	struct err why = {0};

	if (clock_parse(json_str(v), &q->r->in.at.us, &why) != 0)
		return json_err(r->doc, v, err, ERR_INVALID, "%s", why.msg);
	q->has_at = q->r->in.at.known = true;
	return 0;
}

static int
read_clock(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct request_read *q = out;

	q->clock = json_str(v);
	if (str_eqz(q->clock, "unknown"))
		return 0;
	return json_err(
	    r->doc, v, err, ERR_INVALID, "clock can only be \"unknown\"; else say \"at\"");
}

static int
read_grants(struct reader *r UNUSED, const struct json *v, void *out, struct err *err UNUSED)
{
	((struct request_read *)out)->grants = v;
	return 0;
}

static int
read_lifts(struct reader *r UNUSED, const struct json *v, void *out, struct err *err UNUSED)
{
	((struct request_read *)out)->lifts = v;
	return 0;
}

static int
read_rates(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy_request *q = REQUEST(out);
	int rc = read_type(r, v, JSON_OBJECT, "rates", err);

	for (size_t i = 0; rc == 0 && i < json_count(v); i++) {
		int64_t n = 0;

		if (q->nrates == POLICY_RATES_MAX)
			return json_err(
			    r->doc, v, err, ERR_INVALID, "rates may be up to %d", POLICY_RATES_MAX);
		rc = read_int(r, json_at(v, i), "a count", 0, 1000000000, &n, err);
		q->rates[q->nrates++] = (struct policy_rate_count){json_key(v, i), (unsigned)n};
	}
	return rc;
}

static int
read_deferred(struct reader *r, const struct json *v, void *out, struct err *err)
{
	REQUEST(out)->in.deferred = json_bool(v);
	return read_type(r, v, JSON_BOOL, "deferred", err);
}

static const struct read_field request_fields[] = {
    {"agent", read_agent, 0, false},
    {"at", read_at, 0, false},
    {"clock", read_clock, 0, false},
    {"deferred", read_deferred, 0, false},
    {"effects", read_effects, 0, true},
    {"grants", read_grants, 0, false},
    {"lifts", read_lifts, 0, false},
    {"owner", read_owner, 0, false},
    {"rates", read_rates, 0, false},
    {"relations", read_relations, 0, false},
    {"run", read_run, 0, false},
    {"statements", read_statements, 0, false},
    {"target", read_target, 0, true},
    {"words", read_words, 0, false},
};

static const struct read_field grant_fields[] = {
    {"person", read_id, offsetof(struct policy_grant, person), true},
    {"role", read_id, offsetof(struct policy_grant, role), true},
};

static int
finish_grants(struct reader *r, struct request_read *q, struct err *err)
{
	int rc = q->grants != NULL ? read_type(r, q->grants, JSON_ARRAY, "grants", err) : 0;

	for (size_t i = 0; rc == 0 && i < json_count(q->grants); i++) {
		if (i == POLICY_QUORUM_MAX)
			return json_err(r->doc, q->grants, err, ERR_INVALID,
			    "grants may be up to %d", POLICY_QUORUM_MAX);
		rc = read_object(r, json_at(q->grants, i), "a grant", grant_fields,
		    ARRAY_LEN(grant_fields), &q->r->grants[i], err);
		q->r->ngrants = i + 1;
	}
	return rc;
}

/* "breakglass", or the id of the rule that an exception lifts. */
static int
finish_lifts(struct reader *r, struct request_read *q, struct err *err)
{
	int rc = q->lifts != NULL ? read_type(r, q->lifts, JSON_ARRAY, "lifts", err) : 0;

	for (size_t i = 0; rc == 0 && i < json_count(q->lifts); i++) {
		struct str id;

		rc = one_text(r, json_at(q->lifts, i), &id, err);
		if (rc == 0 && !policy_request_lift(q->r, str_eqz(id, "breakglass") ? NULL : &id))
			return json_err(r->doc, q->lifts, err, ERR_INVALID, "lifts may be up to %d",
			    DECISION_LIFTED_MAX);
	}
	return rc;
}

int
policy_request_read(const struct policy *p, const struct json_doc *doc, const struct json *v,
    struct arena *mem, struct policy_request *ret, struct err *err)
{
	/* What read_id keeps is kept in `mem`. */
	struct policy scratch = {.mem = mem};
	struct reader r = {.doc = doc, .p = &scratch};
	struct request_read q = {.p = p, .r = ret, .mem = mem};
	int rc;

	*ret = (struct policy_request){.in = {.statements = 1}};
	rc = read_object(&r, v, "a request", request_fields, ARRAY_LEN(request_fields), &q, err);
	if (rc == 0 && q.has_at == (q.clock.n != 0))
		return json_err(
		    doc, v, err, ERR_INVALID, "a request needs \"at\", or \"clock\": \"unknown\"");
	if (rc == 0)
		rc = finish_grants(&r, &q, err);
	if (rc == 0)
		rc = finish_lifts(&r, &q, err);
	policy_request_aim(ret);
	return rc;
}

/* --- what it names in vain ----------------------------------------------------------- */

static const struct rule *
rule_named(const struct policy *p, struct str id)
{
	for (size_t i = 0; i < p->nrules; i++)
		if (str_eq(p->rules[i].id, id))
			return &p->rules[i];
	return NULL;
}

static void
doubt_grants(const struct policy *p, const struct policy_request *r, struct buf *out)
{
	for (size_t i = 0; i < r->ngrants; i++) {
		const struct policy_person *q = policy_person(p, r->grants[i].person);

		if (q == NULL)
			buf_printf(out,
			    "grants: no person is named \"%.*s\": it counts for nothing\n",
			    STR_ARG(r->grants[i].person));
		else if (!policy_person_has_role(q, r->grants[i].role))
			buf_printf(out,
			    "grants: %.*s does not have role \"%.*s\": it counts for nothing\n",
			    STR_ARG(q->id), STR_ARG(r->grants[i].role));
		else if (str_eq(q->id, r->in.owner))
			buf_printf(out, "grants: %.*s owns the run: it counts for nothing\n",
			    STR_ARG(q->id));
		else if (policy_input_own(&r->in, q->id))
			buf_printf(out, "grants: %.*s gave the run words: it counts for nothing\n",
			    STR_ARG(q->id));
	}
}

void
policy_request_doubts(const struct policy *p, const struct policy_request *r, struct buf *out)
{
	doubt_grants(p, r, out);
	for (size_t i = 0; i < r->nlifts; i++) {
		const struct rule *rule = rule_named(p, r->lifts[i].rule);

		if (r->lifts[i].kind == LIFT_EXCEPTION &&
		    (rule == NULL || rule->kind != RULE_FORBID ||
			rule->override != OVERRIDE_EXCEPTION))
			buf_printf(out, "lifts: no exception lifts a rule \"%.*s\"\n",
			    STR_ARG(r->lifts[i].rule));
	}
	for (size_t i = 0; i < r->nrates; i++) {
		const struct rule *rule = rule_named(p, r->rates[i].rule);

		if (rule == NULL || rule->cond.rate.per == RATE_NONE)
			buf_printf(out, "rates: no rule \"%.*s\" counts anything\n",
			    STR_ARG(r->rates[i].rule));
	}
}
