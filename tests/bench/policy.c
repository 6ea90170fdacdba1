/*
 * How long a decision takes over so many rules, and how long they take to load. One line of JSON.
 * bench_policy RULES SHAPE ROUNDS: SHAPE is "spread" (rules of many targets, each with its own) or
 * "one" (all of one target, as many effects and agents); bench_policy print RULES: the source.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/xalloc.h"
#include "policy/policy.h"

#include "common/banned.h"

#define TARGETS 200

static uint64_t
now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static size_t
targets_of(const char *shape, size_t rules)
{
	size_t n = rules / 5;

	if (strcmp(shape, "one") == 0)
		return 1;
	return n < 1 ? 1 : n > TARGETS ? TARGETS : n;
}

/* Of five rules two permit, two ask for people (one in a freeze), one forbids; of target i % n. */
static void
put_rule(struct buf *b, size_t i, size_t ntargets)
{
	size_t t = i / 5 % ntargets;

	switch (i % 5) {
	case 0:
		buf_printf(b,
		    "{\"id\":\"r%zu\",\"permit\":{\"target\":\"t%zu\",\"effects\":{\"only\":[\"@"
		    "data\"]}}}",
		    i, t);
		break;
	case 1:
		buf_printf(b,
		    "{\"id\":\"r%zu\",\"permit\":{\"target\":\"t%zu\",\"agent\":\"a%zu\","
		    "\"effects\":{\"only\":[\"@data\",\"@change\",\"@destructive\"]}}}",
		    i, t, i / 5 / ntargets % 10);
		break;
	case 2:
		buf_printf(b,
		    "{\"id\":\"r%zu\",\"require\":{\"target\":\"t%zu\",\"effects\":{\"any\":[\"@"
		    "destructive\"]}},\"approve\":[{\"role\":\"dba\",\"count\":1}],\"within\":"
		    "\"30m\",\"use_within\":\"5m\"}",
		    i, t);
		break;
	case 3:
		buf_printf(b,
		    "{\"id\":\"r%zu\",\"require\":{\"target\":\"t%zu\",\"during\":\"yearend\","
		    "\"effects\":{\"any\":[\"@change\"]}},\"approve\":[{\"role\":\"oncall\","
		    "\"count\":1}],\"within\":\"30m\",\"use_within\":\"5m\"}",
		    i, t);
		break;
	default:
		buf_printf(b,
		    "{\"id\":\"r%zu\",\"forbid\":{\"target\":\"t%zu\",\"effects\":{\"any\":[\"@"
		    "escape\"]}},\"override\":\"never\"}",
		    i, t);
	}
}

static void
put_source(struct buf *b, size_t nrules, const char *shape)
{
	size_t n = targets_of(shape, nrules);

	buf_put_z(b, "{\"schema\":\"cofferdam-policy/1\",\"policy\":\"bench\",\"serial\":1,"
		     "\"clock\":\"trusted\",\"targets\":{");
	for (size_t i = 0; i < n; i++)
		buf_printf(b,
		    "%s\"t%zu\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"db%zu.test\","
		    "\"database\":\"d\",\"user\":\"u\",\"credential\":\"c\"}",
		    i != 0 ? "," : "", i, i);
	buf_put_z(b, "},\"people\":{\"alice\":{\"roles\":[\"dba\",\"oncall\"],\"keys\":[\"ssh-"
		     "ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPqrtzLV31U7aNGkpy7U0IaDobvBj20gHRPAJQfoqjT4"
		     "\"]}},\"calendars\":{\"yearend\":{\"kind\":\"freeze\",\"tz\":\"UTC\","
		     "\"weekly\":[{\"from\":\"Fri 16:00\",\"to\":\"Mon 08:00\"}],\"valid\":[\"2026-"
		     "01-01\",\"2028-01-01\"]}},\"rules\":[\n");
	for (size_t i = 0; i < nrules; i++) {
		put_rule(b, i, n);
		buf_put_z(b, i + 1 < nrules ? ",\n" : "\n]}\n");
	}
}

static int
by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The asks: each target in turn, and of each a read, a write, a delete. */
static struct policy_input *
asks_of(const struct policy *p, size_t n)
{
	static const uint32_t effects[] = {
	    EFFECT_read, EFFECT_read | EFFECT_write, EFFECT_delete, EFFECT_drop | EFFECT_txn};
	struct policy_input *in = xcalloc(n, sizeof(*in));

	for (size_t i = 0; i < n; i++) {
		const struct policy_target *t = policy_target_at(p, i * 7 % policy_target_count(p));

		in[i] = policy_input_for(p, t->id);
		in[i].effects = effects[i % ARRAY_LEN(effects)];
		in[i].agent = STR("a0");
		in[i].run = STR("r-1");
		in[i].owner = STR("olivia");
		in[i].at = (struct instant){1773230400000000 + (int64_t)i * 3600000000, true};
	}
	return in;
}

/* Median of rounds, nanoseconds a decision. */
static double
decide(const struct policy *p, size_t rounds, size_t seen[3])
{
	enum { ASKS = 997 };
	AUTO_FREE struct policy_input *in = asks_of(p, ASKS);
	AUTO_FREE double *took = xcalloc(rounds, sizeof(*took));
	AUTO_FREE struct decision *d = xcalloc(1, sizeof(*d));

	for (size_t r = 0; r < rounds; r++) {
		uint64_t t = now_ns();

		for (size_t i = 0; i < ASKS; i++) {
			policy_judge(p, &in[i], NULL, 0, d);
			seen[d->verdict]++;
		}
		took[r] = (double)(now_ns() - t) / ASKS;
	}
	qsort(took, rounds, sizeof(*took), by_value);
	return took[rounds / 2];
}

int
main(int argc, char **argv)
{
	AUTO_BUF struct buf source = BUF((size_t)8 << 20), bundle = BUF((size_t)8 << 20);
	AUTO(policy) struct policy *p = NULL, *q = NULL;
	size_t seen[3] = {0}, before, after;
	uint64_t parse, load;
	struct err err = {0};
	double ns;

	if (argc == 3 && strcmp(argv[1], "print") == 0) {
		put_source(&source, strtoul(argv[2], NULL, 10), "spread");
		(void)fwrite(source.p, 1, source.n, stdout);
		return 0;
	}
	if (argc != 4) {
		(void)fprintf(stderr, "usage: bench_policy RULES spread|one ROUNDS\n");
		return 2;
	}
	put_source(&source, strtoul(argv[1], NULL, 10), argv[2]);
	parse = now_ns();
	if (policy_parse(buf_str(&source), "bench", NULL, NULL, &p, NULL, &err) != 0 ||
	    policy_bundle(p, &bundle, &err) != 0) {
		(void)fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	parse = now_ns() - parse;
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	load = now_ns();
	if (policy_load(buf_str(&bundle), &q, &err) != 0) {
		(void)fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	load = now_ns() - load;
	after = mallinfo2().uordblks + mallinfo2().hblkhd;
	ns = decide(q, strtoul(argv[3], NULL, 10), seen);
	(void)printf(
	    "{\"rules\":%s,\"shape\":\"%s\",\"ns\":%.1f,\"parse_ms\":%.1f,\"load_ms\":%.1f,"
	    "\"bundle_bytes\":%zu,\"memory_bytes\":%zu,\"deny\":%zu,\"needs\":%zu,"
	    "\"allow\":%zu}\n",
	    argv[1], argv[2], ns, (double)parse / 1e6, (double)load / 1e6, bundle.n, after - before,
	    seen[VERDICT_DENY], seen[VERDICT_NEEDS_APPROVAL], seen[VERDICT_ALLOW]);
	return 0;
}
