/*
 * What the verdict function was given, from an action's record. Runs as the person who replays.
 * What does not have the form is not guessed at: the action counts as unknown.
 */
#include "cmd/cmd_replay_input.h"

#include "common/clock.h"
#include "policy/lift.h"

#include "common/banned.h"

static struct str
attribute(const struct canon_node *o, const char *key)
{
	return canon_text(canon_member(o, key));
}

static bool
read_time(const struct canon_node *o, const char *key, int64_t *ret)
{
	struct str s = attribute(o, key);

	return s.p != NULL && clock_parse(s, ret, NULL) == 0;
}

static bool
read_effects(const struct canon_node *o, uint32_t *ret)
{
	const struct canon_node *list = canon_member(o, "effects"), *v = canon_first(list);

	if (list == NULL || list->type != CANON_ARRAY)
		return false;
	*ret = 0;
	for (size_t i = 0; i < canon_count(list); i++, v = canon_behind(v)) {
		uint32_t e = effect_parse(canon_text(v));

		if (e == 0 || str_has_prefix(canon_text(v), "@"))
			return false;
		*ret |= e;
	}
	return true;
}

static bool
read_lift(const struct canon_node *o, struct policy_lift *ret)
{
	enum lift_kind kind;

	*ret = (struct policy_lift){.id = attribute(o, "id"),
	    .rule = attribute(o, "rule"),
	    .target = attribute(o, "target"),
	    .run = attribute(o, "run")};
	if (!lift_kind_parse(attribute(o, "kind"), &kind) || kind == LIFT_KIND_FREEZE)
		return false;
	ret->kind = (enum policy_lift_kind)kind;
	return ret->id.n != 0 && read_effects(o, &ret->effects) &&
	       read_time(o, "from", &ret->from_us) && read_time(o, "to", &ret->to_us);
}

static bool
read_overlay(const struct canon_node *o, struct policy_overlay *ret)
{
	*ret = (struct policy_overlay){.id = attribute(o, "id"),
	    .why = attribute(o, "why"),
	    .target = attribute(o, "target"),
	    .env = attribute(o, "env")};
	return ret->id.n != 0 && read_effects(o, &ret->effects) &&
	       read_time(o, "from", &ret->from_us);
}

static bool
read_beside(const struct canon_node *input, struct replay_input *ret)
{
	const struct canon_node *lifts = canon_member(input, "lifts"), *v = canon_first(lifts);
	const struct canon_node *over = canon_member(input, "overlays");

	if (canon_count(lifts) > REPLAY_LIFTS_MAX || canon_count(over) > REPLAY_LIFTS_MAX)
		return false;
	for (size_t i = 0; i < canon_count(lifts); i++, v = canon_behind(v))
		if (!read_lift(v, &ret->lifts[i]))
			return false;
	v = canon_first(over);
	for (size_t i = 0; i < canon_count(over); i++, v = canon_behind(v))
		if (!read_overlay(v, &ret->overlays[i]))
			return false;
	ret->in.lifts = ret->lifts;
	ret->in.nlifts = canon_count(lifts);
	ret->in.overlays = ret->overlays;
	ret->in.noverlays = canon_count(over);
	return true;
}

static bool
read_lists(
    const struct canon_node *input, const struct canon_node *decision, struct replay_input *ret)
{
	const struct canon_node *rel = canon_member(input, "relations"), *v = canon_first(rel);
	const struct canon_node *g = canon_member(decision, "grants");

	if (rel == NULL || canon_count(rel) > REPLAY_RELATIONS_MAX || g == NULL ||
	    canon_count(g) > REPLAY_GRANTS_MAX)
		return false;
	for (size_t i = 0; i < canon_count(rel); i++, v = canon_behind(v))
		ret->relations[i] = canon_text(v);
	ret->in.relations = ret->relations;
	ret->in.nrelations = canon_count(rel);
	v = canon_first(g);
	for (size_t i = 0; i < canon_count(g); i++, v = canon_behind(v))
		ret->grants[i] = (struct policy_grant){attribute(v, "person"), attribute(v, "role"),
		    canon_true(canon_member(v, "verified"))};
	ret->ngrants = canon_count(g);
	return true;
}

/* What was counted before it, and when what it ends began; both may be missing. */
static bool
read_times(const struct canon_node *input, struct replay_input *ret)
{
	const struct canon_node *rates = canon_member(input, "rates"), *v = canon_first(rates);

	if (canon_count(rates) > POLICY_RATES_MAX ||
	    (canon_member(input, "began") != NULL && !read_time(input, "began", &ret->in.began_us)))
		return false;
	for (size_t i = 0; i < canon_count(rates); i++, v = canon_behind(v)) {
		int64_t n = canon_int(canon_member(v, "n"));

		if (n < 0 || n > UINT32_MAX)
			return false;
		ret->rates[i] = (struct policy_rate_count){attribute(v, "rule"), (unsigned)n};
	}
	ret->in.rates = ret->rates;
	ret->in.nrates = canon_count(rates);
	return true;
}

/* Who besides the owner could not sign; missing: nobody. */
static bool
read_words(const struct canon_node *input, struct replay_input *ret)
{
	const struct canon_node *words = canon_member(input, "words"), *v = canon_first(words);

	if (canon_count(words) > REPLAY_WORDS_MAX)
		return false;
	for (size_t i = 0; i < canon_count(words); i++, v = canon_behind(v))
		ret->words[i] = canon_text(v);
	ret->in.words = ret->words;
	ret->in.nwords = canon_count(words);
	return true;
}

static bool
read_verdict(const struct canon_node *decision, enum verdict *ret)
{
	for (int v = VERDICT_DENY; v <= VERDICT_ALLOW; v++) {
		if (str_eqz(attribute(decision, "verdict"), verdict_name((enum verdict)v))) {
			*ret = (enum verdict)v;
			return true;
		}
	}
	return false;
}

int
replay_input_read(const struct canon_node *data, const struct record *r, struct replay_input *ret,
    struct err *err)
{
	const struct canon_node *d = canon_member(data, "decision");
	const struct canon_node *in = canon_member(canon_member(data, "request"), "input");
	const struct canon_node *clock = canon_member(d, "clock_known");
	const struct canon_node *n = canon_member(in, "statements");

	if (in == NULL || clock == NULL || n == NULL)
		return err_set(err, ERR_NOT_FOUND, "the record holds no input");
	ret->in = (struct policy_input){.target = attribute(in, "target"),
	    .kind = attribute(in, "kind"),
	    .env = attribute(in, "env"),
	    .agent = attribute(in, "agent"),
	    .owner = attribute(in, "owner"),
	    .run = r->run,
	    .statements = (unsigned)canon_int(n),
	    .deferred = canon_true(canon_member(in, "deferred")),
	    .at.known = canon_true(clock)};
	if (!read_effects(in, &ret->in.effects) || !read_time(d, "at", &ret->in.at.us) ||
	    !read_lists(in, d, ret) || !read_times(in, ret) || !read_verdict(d, &ret->verdict) ||
	    !read_beside(in, ret) || !read_words(in, ret))
		return err_set(err, ERR_NOT_FOUND, "the recorded input is not of the form");
	return 0;
}
