/*
 * Fuzzes policy source: it does not crash the reader; a source and its bundle have one digest and
 * judge alike. Bundles are fuzz_bundle's.
 */
#include <assert.h>

#include "common/json.h"
#include "policy/calendar.h"
#include "policy/policy_source.h"

#include "common/banned.h"

#define SOURCE_MAX 16384

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
judge_alike(const struct policy *p, const struct policy *q, struct str target, uint32_t effects,
    int64_t at_s)
{
	const struct str rel[] = {STR("public.t"), STR("u")};
	struct policy_input in = policy_input_for(p, target);
	AUTO_BUF struct buf table = BUF(1 << 20);
	struct decision a, b;

	in.effects = effects;
	in.agent = STR("script");
	in.relations = rel;
	in.nrelations = 2;
	in.at = (struct instant){at_s * 1000000, true};
	policy_eval(p, &in, NULL, 0, &a);
	policy_eval(q, &in, NULL, 0, &b);
	assert(a.verdict == b.verdict && a.nrules == b.nrules && a.nslots == b.nslots);
	assert(strcmp(a.text, b.text) == 0);
	policy_explain(p, &in, &table);
	assert(a.verdict != VERDICT_ALLOW || (effects & EFFECT_SET_ESCAPE) == 0);
}

static void
compare(const struct policy *p, const struct policy *q)
{
	int64_t at = 1773230400;

	assert(hash_eq(policy_digest(p), policy_digest(q)));
	for (size_t i = 0; i < policy_calendar_count(p); i++) {
		struct policy_calendar c = policy_calendar_at(p, i);

		assert(c.valid_from < c.valid_to);
		at = c.valid_from;
		for (size_t k = 0; k < c.nintervals && k < 8; k++) {
			int64_t from, to;

			policy_calendar_interval(p, i, k, &from, &to);
			assert(at <= from && from < to && to <= c.valid_to);
			at = to;
		}
	}
	for (unsigned e = 0; e < EFFECT_COUNT; e++)
		judge_alike(p, q, policy_target_at(p, 0)->id, 1u << e, at - (int64_t)e);
}

static void
fuzz_source(struct str text)
{
	AUTO(policy) struct policy *p = NULL, *q = NULL;
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf warnings = BUF(1 << 16);
	AUTO_BUF struct buf bundle = BUF(JSON_SIZE_MAX);
	const struct policy_source src = {.name = "fuzz", .opaque_keys = true};
	struct err e = {0};

	if (json_parse(text, "fuzz", &doc, &e) != 0)
		return;
	if (policy_parse_value(doc, json_root(doc), &src, &p, &warnings, &e) != 0) {
		assert(e.code < 0 && str_has_prefix(str_z(e.msg), "fuzz:"));
		return;
	}
	if (policy_bundle(p, &bundle, &e) != 0) {
		compare(p, p);
		return;
	}
	assert(policy_load(buf_str(&bundle), &q, &e) == 0);
	compare(p, q);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > SOURCE_MAX)
		return 0;
	fuzz_source(str_mem(data, size));
	return 0;
}
