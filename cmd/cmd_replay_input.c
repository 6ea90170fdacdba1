/*
 * What the verdict function was given, from an action's record. Runs as the person who replays.
 * What does not have the form is not guessed at: the action counts as unknown.
 */
#include "cmd/cmd_replay_input.h"

#include "common/clock.h"
#include "policy/lift.h"

#include "common/banned.h"

static struct str
text(const struct json *o, const char *key)
{
	return json_str(json_get(o, key));
}

static bool
read_lift(const struct json *o, struct policy_lift *ret)
{
	enum lift_kind kind;

	*ret = (struct policy_lift){.id = text(o, "id"),
	    .rule = text(o, "rule"),
	    .target = text(o, "target"),
	    .run = text(o, "run")};
	if (!lift_kind_parse(text(o, "kind"), &kind) || kind == LIFT_KIND_FREEZE)
		return false;
	ret->kind = (enum policy_lift_kind)kind;
	return ret->id.n != 0 && effect_from_json(json_get(o, "effects"), &ret->effects) &&
	       clock_parse(text(o, "from"), &ret->from_us, NULL) == 0 &&
	       clock_parse(text(o, "to"), &ret->to_us, NULL) == 0;
}

static bool
read_overlay(const struct json *o, struct policy_overlay *ret)
{
	*ret = (struct policy_overlay){.id = text(o, "id"),
	    .why = text(o, "why"),
	    .target = text(o, "target"),
	    .env = text(o, "env")};
	return ret->id.n != 0 && effect_from_json(json_get(o, "effects"), &ret->effects) &&
	       clock_parse(text(o, "from"), &ret->from_us, NULL) == 0;
}

static bool
read_beside(const struct json *input, struct replay_input *ret)
{
	const struct json *lifts = json_get(input, "lifts"), *over = json_get(input, "overlays");

	if (json_count(lifts) > REPLAY_LIFTS_MAX || json_count(over) > REPLAY_LIFTS_MAX)
		return false;
	for (size_t i = 0; i < json_count(lifts); i++)
		if (!read_lift(json_at(lifts, i), &ret->lifts[i]))
			return false;
	for (size_t i = 0; i < json_count(over); i++)
		if (!read_overlay(json_at(over, i), &ret->overlays[i]))
			return false;
	ret->in.lifts = ret->lifts;
	ret->in.nlifts = json_count(lifts);
	ret->in.overlays = ret->overlays;
	ret->in.noverlays = json_count(over);
	return true;
}

struct str
replay_attribute(const struct json *o, const char *key)
{
	const struct json *v = json_get(o, key);

	return v != NULL ? json_str(v) : STR_NONE;
}

static bool
read_lists(const struct json *input, const struct json *decision, struct replay_input *ret)
{
	const struct json *rel = json_get(input, "relations"), *g = json_get(decision, "grants");

	if (rel == NULL || json_count(rel) > REPLAY_RELATIONS_MAX || g == NULL ||
	    json_count(g) > REPLAY_GRANTS_MAX)
		return false;
	for (size_t i = 0; i < json_count(rel); i++)
		ret->relations[i] = json_str(json_at(rel, i));
	ret->in.relations = ret->relations;
	ret->in.nrelations = json_count(rel);
	for (size_t i = 0; i < json_count(g); i++)
		ret->grants[i] = (struct policy_grant){replay_attribute(json_at(g, i), "person"),
		    replay_attribute(json_at(g, i), "role"),
		    json_bool(json_get(json_at(g, i), "verified"))};
	ret->ngrants = json_count(g);
	return true;
}

/* What was counted before it, and when what it ends began; both may be missing. */
static bool
read_times(const struct json *input, struct replay_input *ret)
{
	const struct json *rates = json_get(input, "rates"), *began = json_get(input, "began");

	if (json_count(rates) > POLICY_RATES_MAX ||
	    (began != NULL && clock_parse(json_str(began), &ret->in.began_us, NULL) != 0))
		return false;
	for (size_t i = 0; i < json_count(rates); i++) {
		const struct json *one = json_at(rates, i);
		int64_t n = json_int(json_get(one, "n"));

		if (n < 0 || n > UINT32_MAX)
			return false;
		ret->rates[i] =
		    (struct policy_rate_count){replay_attribute(one, "rule"), (unsigned)n};
	}
	ret->in.rates = ret->rates;
	ret->in.nrates = json_count(rates);
	return true;
}

static bool
read_verdict(const struct json *decision, enum verdict *ret)
{
	for (int v = VERDICT_DENY; v <= VERDICT_ALLOW; v++) {
		if (str_eqz(replay_attribute(decision, "verdict"), verdict_name((enum verdict)v))) {
			*ret = (enum verdict)v;
			return true;
		}
	}
	return false;
}

int
replay_input_read(
    const struct json *data, const struct record *r, struct replay_input *ret, struct err *err)
{
	const struct json *q = json_get(data, "request"), *d = json_get(data, "decision");
	const struct json *in = q != NULL ? json_get(q, "input") : NULL;
	const struct json *clock = d != NULL ? json_get(d, "clock_known") : NULL;
	const struct json *n = in != NULL ? json_get(in, "statements") : NULL;

	if (in == NULL || clock == NULL || n == NULL)
		return err_set(err, ERR_NOT_FOUND, "the record holds no input");
	ret->in = (struct policy_input){.target = replay_attribute(in, "target"),
	    .kind = replay_attribute(in, "kind"),
	    .env = replay_attribute(in, "env"),
	    .agent = replay_attribute(in, "agent"),
	    .owner = replay_attribute(in, "owner"),
	    .run = r->run,
	    .statements = (unsigned)json_int(n),
	    .deferred = json_bool(json_get(in, "deferred")),
	    .at.known = json_bool(clock)};
	if (json_get(in, "effects") == NULL ||
	    !effect_from_json(json_get(in, "effects"), &ret->in.effects) ||
	    clock_parse(replay_attribute(d, "at"), &ret->in.at.us, NULL) != 0 ||
	    !read_lists(in, d, ret) || !read_times(in, ret) || !read_verdict(d, &ret->verdict) ||
	    !read_beside(in, ret))
		return err_set(err, ERR_NOT_FOUND, "the recorded input is not of the form");
	return 0;
}
