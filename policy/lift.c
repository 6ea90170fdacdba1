/*
 * What people sign beside the policy. Runs in core and in the command line. Pure. An object that
 * could loosen more than its kind may (a rule with "never", a window without an end) is refused
 * here, before anybody is asked to sign it.
 */
#include "policy/lift.h"

#include <stdio.h>

#include "policy/policy_internal.h"
#include "policy/statement.h"

#include "common/banned.h"

#define ROLE_MANAGER "change-manager"
#define ROLE_GLASS "breakglass"
#define ROLE_ANY "any"

/* --- names --------------------------------------------------------------------------- */

static const char *const kinds[] = {
    [LIFT_KIND_FREEZE] = "freeze",
    [LIFT_KIND_EXCEPTION] = "exception",
    [LIFT_KIND_BREAKGLASS] = "breakglass",
};

static const char *const decisions[ARRAY_LEN(kinds)][LIFT_CLOSE + 1] = {
    [LIFT_KIND_FREEZE] = {[LIFT_START] = "start", [LIFT_STOP] = "lift"},
    [LIFT_KIND_EXCEPTION] = {[LIFT_START] = "grant", [LIFT_STOP] = "revoke"},
    [LIFT_KIND_BREAKGLASS] = {[LIFT_START] = "start",
	[LIFT_CONFIRM] = "confirm",
	[LIFT_STOP] = "end",
	[LIFT_CLOSE] = "close"},
};

const char *
lift_kind_name(enum lift_kind k)
{
	return kinds[k];
}

bool
lift_kind_parse(struct str name, enum lift_kind *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_eqz(name, kinds[i])) {
			*ret = (enum lift_kind)i;
			return true;
		}
	return false;
}

const char *
lift_decision_name(enum lift_kind k, enum lift_decision d)
{
	return decisions[k][d];
}

enum lift_decision
lift_decision_parse(enum lift_kind k, struct str name)
{
	for (size_t d = 0; d < ARRAY_LEN(decisions[k]); d++)
		if (decisions[k][d] != NULL && str_eqz(name, decisions[k][d]))
			return (enum lift_decision)d;
	return LIFT_NOTHING;
}

/* --- the statement ------------------------------------------------------------------- */

struct lines {
	struct statement_line v[24];
	size_t n;
};

static void
line(struct lines *l, const char *name, struct str value)
{
	l->v[l->n++] = (struct statement_line){name, value, STATEMENT_LIST_MAX};
}

/* "*" is no id and no name of an environment: it stands for all of them. */
static void
line_or_all(struct lines *l, const char *name, struct str value)
{
	line(l, name, value.n != 0 ? value : STR("*"));
}

static struct str
number(char out[24], int64_t n)
{
	(void)snprintf(out, 24, "%lld", (long long)n);
	return str_z(out);
}

int
lift_bytes(const struct lift *l, const struct lift_signer *s, struct buf *out, struct err *err)
{
	AUTO_BUF struct buf b = BUF(STATEMENT_MAX), effects = BUF(512);
	char from[CLOCK_TEXT_SIZE], to[CLOCK_TEXT_SIZE], by[CLOCK_TEXT_SIZE], n[24];
	const char *decision = lift_decision_name(l->kind, s->decision);
	struct lines x = {.n = 0};
	int rc;

	if (decision == NULL)
		return err_set(err, ERR_INVALID, "%s statement: no such decision", kinds[l->kind]);
	effect_put(&effects, l->effects);
	clock_format_s(l->sign_by_us, by);
	line(&x, "decision", str_z(decision));
	line(&x, "broker", l->broker);
	line(&x, "id", l->id);
	line(&x, "policy", l->policy);
	line(&x, "log-head", l->log_head);
	if (l->kind == LIFT_KIND_EXCEPTION)
		line(&x, "rule", l->rule);
	line_or_all(&x, "target", l->target);
	if (l->kind == LIFT_KIND_FREEZE)
		line_or_all(&x, "env", l->env);
	else
		line_or_all(&x, "run", l->run);
	line(&x, "effects", buf_str(&effects));
	if (l->kind == LIFT_KIND_EXCEPTION) {
		clock_format_s(l->from_us, from);
		clock_format_s(l->to_us, to);
		line(&x, "from", str_z(from));
		line(&x, "to", str_z(to));
		line(&x, "uses", number(n, l->uses));
		line(&x, "ticket", l->ticket);
	}
	if (l->kind == LIFT_KIND_BREAKGLASS)
		line(&x, "seconds", number(n, l->seconds));
	line(&x, "reason", l->reason);
	line(&x, "sign-by", str_z(by));
	line(&x, "role", s->role);
	line(&x, "signer", s->person);
	line(&x, "note", s->note.n != 0 ? s->note : STR("-"));
	buf_printf(&b, "cofferdam-%s v1\n", kinds[l->kind]);
	rc = statement_lines(kinds[l->kind], x.v, x.n, &b, err);
	if (rc != 0)
		return rc;
	buf_put_z(&b, "end\n");
	if (buf_over(&b))
		return err_set(err, ERR_TOO_LARGE, "%s statement is over %zu bytes", kinds[l->kind],
		    STATEMENT_MAX);
	buf_put_str(out, buf_str(&b));
	return 0;
}

/* --- who must sign --------------------------------------------------------------------- */

static const struct rule *
rule_find(const struct policy *p, struct str id)
{
	for (size_t i = 0; i < p->nrules; i++)
		if (str_eq(p->rules[i].id, id))
			return &p->rules[i];
	return NULL;
}

static bool
may_match_effects(
    const struct policy *p, const struct lift *l, const struct rule *rule, uint32_t effects)
{
	struct policy_input in = policy_input_for(p, l->target);
	struct cond_match m;

	in.effects = effects; /* agent, run, owner: any, so not known, which matches */
	in.statements = 1;
	policy_cond_match(p, &rule->cond, &in, rule->kind, &m);
	return m.untimed != TRI_NO;
}

/*
 * Would this rule concern, at some time, an action that the lift covers? Such an action may have
 * all of the effects or some of them: "any" holds of all if of some, "only" of one alone.
 */
static bool
may_match(const struct policy *p, const struct lift *l, const struct rule *rule)
{
	if (may_match_effects(p, l, rule, l->effects))
		return true;
	for (unsigned bit = 0; bit < EFFECT_COUNT; bit++)
		if ((l->effects & 1u << bit) != 0 && may_match_effects(p, l, rule, 1u << bit))
			return true;
	return false;
}

/* False: together these rules have more roles than one requirement may. */
static bool
join(struct policy_slot *out, size_t *n, const struct rule *rule)
{
	if (*n + rule->nslots > POLICY_SLOTS_MAX)
		return false;
	policy_slots_join(out, n, rule);
	return true;
}

bool
lift_slots(const struct policy *p, const struct lift *l, struct policy_slot out[POLICY_SLOTS_MAX],
    size_t *ret_n)
{
	struct rule manager = {.nslots = 1, .slots = {{STR(ROLE_MANAGER), 1}}};
	bool fits = true;

	*ret_n = 0;
	for (size_t i = 0; i < p->nrules; i++)
		if (p->rules[i].kind == RULE_REQUIRE && may_match(p, l, &p->rules[i]))
			fits = fits && join(out, ret_n, &p->rules[i]);
	return fits && join(out, ret_n, &manager);
}

static bool
freeze_role_fits(const struct policy *p, const struct policy_person *q, struct str role)
{
	const struct strs *roles = &p->emergency.freeze_roles;

	if (roles->n == 0)
		return str_eqz(role, ROLE_ANY);
	for (size_t i = 0; i < roles->n; i++)
		if (str_eq(roles->v[i], role))
			return policy_person_has_role(q, role);
	return false;
}

static bool
slot_fits(
    const struct policy *p, const struct lift *l, const struct policy_person *q, struct str role)
{
	struct policy_slot slots[POLICY_SLOTS_MAX];
	size_t n;

	if (!lift_slots(p, l, slots, &n))
		return false;
	for (size_t i = 0; i < n; i++)
		if (str_eq(slots[i].role, role))
			return policy_person_has_role(q, role);
	return false;
}

/* To end what loosens, to confirm it or to look at it afterwards, any person will do. */
bool
lift_role_fits(const struct policy *p, const struct lift *l, enum lift_decision d,
    const struct policy_person *q, struct str role)
{
	if (l->kind == LIFT_KIND_FREEZE)
		return freeze_role_fits(p, q, role);
	if (d != LIFT_START)
		return str_eqz(role, ROLE_ANY);
	if (l->kind == LIFT_KIND_EXCEPTION)
		return slot_fits(p, l, q, role);
	return str_eqz(role, ROLE_GLASS) && policy_person_has_role(q, role);
}

bool
lift_roles(const struct policy *p, const struct lift *l, enum lift_decision d, struct buf *out)
{
	const struct strs *freeze = &p->emergency.freeze_roles;
	struct policy_slot slots[POLICY_SLOTS_MAX];
	size_t n = 0;

	if (l->kind == LIFT_KIND_FREEZE) {
		for (size_t i = 0; i < freeze->n; i++)
			buf_printf(out, "%s%.*s", i != 0 ? ", " : "", STR_ARG(freeze->v[i]));
		return freeze->n != 0;
	}
	if (d != LIFT_START)
		return false;
	if (l->kind == LIFT_KIND_EXCEPTION && lift_slots(p, l, slots, &n))
		for (size_t i = 0; i < n; i++)
			buf_printf(out, "%s%.*s", i != 0 ? ", " : "", STR_ARG(slots[i].role));
	else
		buf_put_z(out, ROLE_GLASS);
	return true;
}

/* --- what may be asked for ------------------------------------------------------------ */

static int
check_rule(const struct lift *l, const struct policy *p, struct err *err)
{
	const struct rule *rule = rule_find(p, l->rule);
	struct policy_slot slots[POLICY_SLOTS_MAX];
	size_t n;

	if (rule == NULL || rule->kind != RULE_FORBID)
		return err_set(
		    err, ERR_NOT_FOUND, "the policy has no forbid rule \"%.*s\"", STR_ARG(l->rule));
	if (!lift_slots(p, l, slots, &n))
		return err_set(err, ERR_TOO_LARGE,
		    "the quorum of rule %.*s and a change-manager are over %d roles",
		    STR_ARG(l->rule), POLICY_SLOTS_MAX);
	if (rule->override != OVERRIDE_EXCEPTION)
		return err_set(err, ERR_INVALID,
		    "rule %.*s does not have \"override\":\"exception\": no exception lifts it",
		    STR_ARG(l->rule));
	if (!may_match(p, l, rule))
		return err_set(err, ERR_INVALID,
		    "rule %.*s forbids none of these effects on %.*s: nothing would be lifted",
		    STR_ARG(l->rule), STR_ARG(l->target));
	return 0;
}

/* Broken glass that lets nothing through would be believed to. */
static int
check_glass(const struct lift *l, const struct policy *p, struct err *err)
{
	bool lifts = false;

	for (size_t i = 0; i < p->nrules && !lifts; i++)
		lifts = p->rules[i].kind == RULE_FORBID &&
			p->rules[i].override == OVERRIDE_BREAKGLASS &&
			may_match(p, l, &p->rules[i]);
	if (!lifts)
		return err_set(err, ERR_INVALID,
		    "no rule with \"override\":\"breakglass\" forbids any of these effects on "
		    "%.*s: "
		    "nothing would be lifted",
		    STR_ARG(l->target));
	if (l->seconds < 1 || l->seconds > p->emergency.glass_max_s)
		return err_set(err, ERR_INVALID,
		    "break-glass must last from 1 to %lld seconds, is %lld",
		    (long long)p->emergency.glass_max_s, (long long)l->seconds);
	return 0;
}

static int
check_times(const struct lift *l, int64_t now_us, struct err *err)
{
	if (l->to_us <= l->from_us || l->to_us <= now_us)
		return err_set(
		    err, ERR_INVALID, "the window must end after it begins, and after now");
	if (l->to_us - l->from_us > (int64_t)LIFT_WINDOW_MAX_S * 1000000)
		return err_set(err, ERR_INVALID, "the window has %lld seconds, limit %d",
		    (long long)((l->to_us - l->from_us) / 1000000), LIFT_WINDOW_MAX_S);
	if (l->uses < 1 || l->uses > LIFT_USES_MAX)
		return err_set(err, ERR_INVALID, "uses must be from 1 to %d, is %lld",
		    LIFT_USES_MAX, (long long)l->uses);
	return str_text_check("ticket", l->ticket, 1, LIFT_REASON_MAX, err);
}

/* A freeze that nothing can fall under is a slip of the pen, and would be taken for a freeze. */
static int
check_env(const struct lift *l, const struct policy *p, struct err *err)
{
	AUTO_BUF struct buf all = BUF(1024);
	const struct policy_target *t = policy_target(p, l->target);

	if (l->env.n == 0)
		return 0;
	if (t != NULL && !str_eq(t->env, l->env))
		return err_set(err, ERR_INVALID,
		    "target %.*s is in env %.*s, not in \"%.*s\": nothing would be frozen",
		    STR_ARG(t->id), STR_ARG(t->env), STR_ARG(l->env));
	for (size_t i = 0; i < p->ntargets; i++) {
		if (str_eq(p->targets[i].pub.env, l->env))
			return 0;
		if (i < 8)
			buf_printf(&all, "%s%.*s is in %.*s", i != 0 ? ", " : "",
			    STR_ARG(p->targets[i].pub.id), STR_ARG(p->targets[i].pub.env));
	}
	return err_set(err, ERR_NOT_FOUND, "no target of the policy is in env \"%.*s\" (%.*s%s)",
	    STR_ARG(l->env), STR_ARG(buf_str(&all)), p->ntargets > 8 ? ", ..." : "");
}

static int
check_scope(const struct lift *l, const struct policy *p, struct err *err)
{
	if (l->effects == 0)
		return err_set(err, ERR_INVALID, "effects must not be empty");
	if (l->target.n != 0 && policy_target(p, l->target) == NULL)
		return err_set(
		    err, ERR_NOT_FOUND, "the policy has no target \"%.*s\"", STR_ARG(l->target));
	if (l->kind == LIFT_KIND_FREEZE)
		return check_env(l, p, err);
	if (l->target.n == 0)
		return err_set(err, ERR_INVALID, "target must be one of the policy's");
	if (l->run.n != 0 && !read_is_id(l->run))
		return err_set(err, ERR_INVALID, "run must be a run's id");
	return 0;
}

int
lift_check(const struct lift *l, const struct policy *p, int64_t now_us, struct err *err)
{
	int rc = check_scope(l, p, err);

	if (rc == 0)
		rc = str_text_check("reason", l->reason, 1, LIFT_REASON_MAX, err);
	if (rc == 0 && l->kind == LIFT_KIND_EXCEPTION)
		rc = check_rule(l, p, err);
	if (rc == 0 && l->kind == LIFT_KIND_EXCEPTION)
		rc = check_times(l, now_us, err);
	if (rc == 0 && l->kind == LIFT_KIND_BREAKGLASS)
		rc = check_glass(l, p, err);
	return rc;
}
