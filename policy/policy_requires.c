/*
 * The section "effect_requires": what the log must have before an action with an effect is sent.
 * Runs in the command line on source and in core on bundles. It can only ask for more than is the
 * rule anyway (a durable record; beyond @data a signed checkpoint that covers it): less is an
 * error.
 */
#include "policy/policy_internal.h"

#include "common/banned.h"

#define WITHIN_DEFAULT_S 5
#define WITHIN_MAX_S 60

struct level {
	bool checkpoint;
	unsigned witnesses;
};

/* "durable", "checkpoint", "witness(2)". */
static bool
level_parse(struct str s, struct level *ret)
{
	uint64_t n;

	*ret = (struct level){.checkpoint = !str_eqz(s, "durable")};
	if (str_eqz(s, "durable") || str_eqz(s, "checkpoint"))
		return true;
	if (!str_has_prefix(s, "witness(") || !str_has_suffix(s, ")") || s.n != 10 ||
	    !str_to_u64(str_mem(s.p + 8, 1), POLICY_WITNESSES_MAX, &n) || n == 0)
		return false;
	ret->witnesses = (unsigned)n;
	return true;
}

static int
read_level(
    struct reader *r, struct str key, const struct json *v, struct requires *q, struct err *err)
{
	uint32_t effects = effect_parse(key);
	struct level l;

	if (effects == 0)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "effect_requires: \"%.*s\" is no effect, no built-in set and not \"within\"",
		    STR_ARG(key));
	if (!level_parse(json_str(v), &l))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "effect_requires: %.*s must be \"durable\", \"checkpoint\" or \"witness(N)\" "
		    "with "
		    "N from 1 to %d",
		    STR_ARG(key), POLICY_WITNESSES_MAX);
	if (!l.checkpoint && (effects & ~EFFECT_SET_DATA) != 0)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "effect_requires: %.*s: what is beyond @data always waits for a checkpoint, "
		    "\"durable\" is for @data",
		    STR_ARG(key));
	if ((effects & q->said) != 0)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "effect_requires: %.*s has an effect that stands there already", STR_ARG(key));
	q->said |= effects;
	q->checkpoint |= l.checkpoint ? effects : 0;
	for (unsigned i = 0; i < EFFECT_COUNT; i++)
		if ((effects & 1u << i) != 0)
			q->witnesses[i] = (uint8_t)l.witnesses;
	return 0;
}

int
policy_read_requires(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy *p = out;
	struct requires *q = &p->requires;
	int rc = read_type(r, v, JSON_OBJECT, "effect_requires", err);

	q->within_s = WITHIN_DEFAULT_S;
	for (size_t i = 0; rc == 0 && i < json_count(v); i++) {
		struct str key = json_key(v, i);

		rc = str_eqz(key, "within") ? read_duration(r, json_at(v, i), "within", 1,
						  WITHIN_MAX_S, &q->within_s, err)
					    : read_level(r, key, json_at(v, i), q, err);
	}
	return rc;
}

static void
put_one(struct jcs *j, const struct requires *q, uint32_t effect)
{
	AUTO_BUF struct buf level = BUF(32);
	AUTO_BUF struct buf name = BUF(32);
	AUTO_FREE char *key = NULL;
	unsigned bit = (unsigned)__builtin_ctz(effect);

	if (q->witnesses[bit] != 0)
		buf_printf(&level, "witness(%u)", q->witnesses[bit]);
	else
		buf_put_z(&level, (q->checkpoint & effect) != 0 ? "checkpoint" : "durable");
	effect_put(&name, effect);
	key = buf_dup_z(&name);
	jcs_str(j, key, buf_str(&level));
}

/* Effects spelled out, as everywhere in a bundle; "within" stands before "write". */
void
policy_emit_requires(const struct policy *p, struct jcs *j)
{
	const struct requires *q = &p->requires;
	AUTO_BUF struct buf names = BUF(512), within = BUF(32);
	struct str rest, name;

	if (q->said == 0)
		return;
	effect_put(&names, q->said & ~(uint32_t)EFFECT_write);
	buf_put_c(&names, ' ');
	buf_printf(&within, "%llds", (long long)q->within_s);
	jcs_open(j, "effect_requires");
	for (rest = buf_str(&names); str_cut(&rest, ' ', &name);)
		if (name.n != 0)
			put_one(j, q, effect_parse(name));
	jcs_str(j, "within", buf_str(&within));
	if ((q->said & EFFECT_write) != 0)
		put_one(j, q, EFFECT_write);
	jcs_close(j);
}

struct policy_requires
policy_requires(const struct policy *p, uint32_t effects)
{
	const struct requires *q = &p->requires;
	struct policy_requires r = {.within_s = q->within_s};

	effects = effects != 0 ? effects : EFFECT_opaque;
	r.checkpoint = (effects & (~EFFECT_SET_DATA | q->checkpoint)) != 0;
	for (unsigned i = 0; i < EFFECT_COUNT; i++)
		if ((effects & 1u << i) != 0 && q->witnesses[i] > r.witnesses)
			r.witnesses = q->witnesses[i];
	return r;
}
