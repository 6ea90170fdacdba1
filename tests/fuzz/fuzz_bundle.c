/*
 * Fuzzes what core is handed with a policy: the bundle, and the file of its owners' signatures.
 * Neither crashes its reader; a bundle that is taken is byte for byte what we would write, and
 * judges with its index as without; what is read of signatures is what is written again.
 */
#include <assert.h>

#include "policy/policy_internal.h"
#include "policy/succession.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
judge(struct policy *p)
{
	struct rule_index *x = p->index;
	struct decision with, without;

	for (unsigned e = 0; e < EFFECT_COUNT; e++) {
		const struct policy_target *t = policy_target_at(p, e % policy_target_count(p));
		struct policy_input in = policy_input_for(p, t->id);

		in.effects = 1u << e;
		in.agent = in.run = STR("script");
		in.owner = p->npeople != 0 ? p->people[0].id : STR_NONE;
		in.at = (struct instant){1773230400000000 + (int64_t)e * 86400000000, true};
		if (e % 2 != 0)
			policy_input_uncounted(p, &in);
		policy_eval(p, &in, NULL, 0, &with);
		p->index = NULL;
		policy_eval(p, &in, NULL, 0, &without);
		p->index = x;
		assert(memcmp(&with, &without, sizeof(with)) == 0);
		assert(with.verdict != VERDICT_ALLOW || (in.effects & EFFECT_SET_ESCAPE) == 0);
	}
}

static void
fuzz_bundle(struct str text)
{
	AUTO(policy) struct policy *p = NULL;
	AUTO_BUF struct buf again = BUF(JSON_SIZE_MAX);
	const struct policy_owners *o;
	struct hash h = hash_sha256(text);
	struct err err = {0};

	if (policy_load(text, &p, &err) != 0) {
		assert(err.code < 0 && err.msg[0] != '\0');
		return;
	}
	assert(policy_bundle(p, &again, NULL) == 0);
	assert(str_eq(buf_str(&again), text));
	assert(hash_eq(&h, policy_digest(p)));
	o = policy_owners(p);
	assert(o == NULL || (o->count >= 1 && o->count <= o->n));
	for (size_t i = 0; i < policy_rate_total(p); i++)
		assert(policy_rate_at(p, i)->over > 0 && policy_rate_at(p, i)->in_s > 0);
	assert(succession_check(p, p, NULL, 0, NULL) == 0);
	judge(p);
}

static void
fuzz_signatures(struct str text)
{
	AUTO_SUCCESSION struct succession s = {0}, t = {0};
	AUTO_BUF struct buf once = BUF(2 * SUCCESSION_FILE_MAX),
			    twice = BUF(2 * SUCCESSION_FILE_MAX);

	if (succession_parse(text, &s, NULL) != 0)
		return;
	succession_put(&s, &once);
	assert(succession_parse(buf_str(&once), &t, NULL) == 0 && t.n == s.n);
	succession_put(&t, &twice);
	assert(str_eq(buf_str(&once), buf_str(&twice)));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_bundle(str_mem(data, size));
	fuzz_signatures(str_mem(data, size));
	return 0;
}
