/*
 * filter_gen, at build time: compiles one machine's rules to one BPF program. A balanced search
 * tree over the numbers, whose leaves are answers or the checks of arguments; calls with the same
 * checks share them. Written from the end to the beginning, so that each jump's target is known: a
 * conditional jump reaches 255 instructions, and where that is not enough a plain jump beside it
 * goes the rest. The kernel runs the program once for each number when it is loaded (to find what
 * needs no run at all), so depth is what loading costs. Measured on 6.18: 78 us to load, where the
 * same rules as two lists from libseccomp took 128; a call without conditions costs 8 ns, one with
 * conditions 25 (lists: 8 to 40), a told refusal with the supervisor's answer 2 us.
 */
#include "agent/sandbox/gen/gen.h"

#include <linux/audit.h>
#include <linux/seccomp.h>

#include "common/banned.h"

#define PROG_MAX 4096
#define X32_BIT 0x40000000u
#define DATA(field) ((uint32_t)offsetof(struct seccomp_data, field))

static struct sock_filter prog[PROG_MAX];
static size_t begin; /* prog[begin] is the first instruction so far; a label is an index */

static size_t
emit(uint16_t code, uint8_t yes, uint8_t no, uint32_t k)
{
	if (begin == 0)
		gen_die("the program has more than %d instructions", PROG_MAX);
	prog[--begin] = (struct sock_filter){code, yes, no, k};
	return begin;
}

/* How far `to` is from an instruction that is put before `begin`; farther than a conditional jump
 * goes, it becomes a plain jump. One is kept back, for the other side's. */
static size_t
near(size_t to)
{
	return to - begin < 255 ? to : emit(BPF_JMP | BPF_JA, 0, 0, (uint32_t)(to - begin));
}

static size_t
branch(uint16_t op, uint32_t k, size_t yes, size_t no)
{
	yes = near(yes);
	no = near(no);
	if (yes - begin > UINT8_MAX || no - begin > UINT8_MAX)
		gen_die("a jump is too long");
	return emit(
	    (uint16_t)(BPF_JMP | op | BPF_K), (uint8_t)(yes - begin), (uint8_t)(no - begin), k);
}

static size_t
load(uint32_t offset)
{
	return emit(BPF_LD | BPF_W | BPF_ABS, 0, 0, offset);
}

/* --- answers: one instruction each, at the end ------------------------------------------------ */

static struct {
	uint32_t k;
	size_t label;
} answers[32];
static size_t nanswers;

static size_t
answer(uint32_t k)
{
	for (size_t i = 0; i < nanswers; i++)
		if (answers[i].k == k)
			return answers[i].label;
	if (nanswers == ARRAY_LEN(answers))
		gen_die("more than %zu different answers", ARRAY_LEN(answers));
	answers[nanswers].k = k;
	answers[nanswers].label = emit(BPF_RET | BPF_K, 0, 0, k);
	return answers[nanswers++].label;
}

static size_t
answer_of(struct gen_answer a, bool notify)
{
	if (a.allow)
		return answer(SECCOMP_RET_ALLOW);
	if (a.told && notify)
		return answer(SECCOMP_RET_USER_NOTIF);
	return answer(SECCOMP_RET_ERRNO | (uint32_t)a.error);
}

/* --- arguments -------------------------------------------------------------------------------- */

static size_t
condition(const struct gen_cond *c, size_t yes, size_t no)
{
	uint32_t low = DATA(args) + 8 * (uint32_t)c->arg; /* both machines: low half first */
	size_t in = c->negate ? no : yes, out = c->negate ? yes : no, next = out;

	if (c->nvalues == 1 && c->value[0] == 0 && !c->whole) {
		(void)branch(BPF_JSET, c->mask, out, in);
		return load(low);
	}
	for (size_t i = c->nvalues; i-- > 0;)
		next = branch(BPF_JEQ, c->value[i], in, next);
	if (c->mask != UINT32_MAX)
		(void)emit(BPF_ALU | BPF_AND | BPF_K, 0, 0, c->mask);
	next = load(low);
	if (!c->whole)
		return next;
	(void)branch(BPF_JEQ, 0, next, out);
	return load(low + 4);
}

static size_t
arguments(const struct gen_machine *m, uint64_t rules, bool notify)
{
	size_t next = answer(SECCOMP_RET_ALLOW);

	for (size_t i = m->nrules; i-- > 0;) {
		const struct gen_rule *r = m->rule[i];
		size_t yes, no = next;

		if ((rules >> i & 1) == 0)
			continue;
		yes = answer_of(r->answer, notify);
		for (size_t k = GEN_CONDS_MAX; k-- > 0;)
			if (r->conds[k].nvalues != 0)
				next = yes = condition(&r->conds[k], yes, no);
	}
	return next;
}

/* --- the tree --------------------------------------------------------------------------------- */

static struct leaf {
	uint32_t first; /* number; up to the next leaf's */
	size_t label;
} leaves[GEN_CALLS_MAX + 8];
static size_t nleaves;

static void
leaf_add(uint32_t first, size_t label)
{
	if (nleaves == 0 || leaves[nleaves - 1].label != label)
		leaves[nleaves++] = (struct leaf){first, label};
}

static size_t
leaf_of(const struct gen_machine *m, uint32_t nr, bool notify)
{
	const struct gen_call *c = &m->call[nr];

	if (c->rules == 0)
		return answer_of(c->base, notify);
	for (uint32_t other = 0; other < nr; other++)
		if (m->call[other].rules == c->rules)
			for (size_t i = 0; i < nleaves; i++)
				if (leaves[i].first == other)
					return leaves[i].label;
	return arguments(m, c->rules, notify);
}

/* Of the n leaves from l on. */
static size_t
tree(const struct leaf *l, size_t n)
{
	size_t half = n / 2, above;

	if (n == 1)
		return l->label;
	above = tree(l + half, n - half);
	return branch(BPF_JGE, l[half].first, above, tree(l, half));
}

size_t
gen_bpf(const struct gen_machine *m, bool notify, const struct sock_filter **ret)
{
	size_t kill, enosys, root;

	begin = PROG_MAX;
	nanswers = nleaves = 0;
	kill = answer(SECCOMP_RET_KILL_PROCESS);
	enosys = answer(SECCOMP_RET_ERRNO | 38 /* ENOSYS */);
	for (uint32_t nr = 0; nr < GEN_CALLS_MAX; nr++)
		leaf_add(nr, leaf_of(m, nr, notify));
	leaf_add(GEN_CALLS_MAX, enosys);
	if (m->x32) {
		leaf_add(X32_BIT, kill);
		leaf_add(UINT32_MAX, enosys); /* a tracer's word for "skip": not a call */
	}
	root = tree(leaves, nleaves);
	if (root != begin)
		(void)emit(BPF_JMP | BPF_JA, 0, 0, (uint32_t)(root - begin));
	root = load(DATA(nr));
	(void)branch(BPF_JEQ, m->audit, root, kill);
	(void)load(DATA(arch));
	*ret = prog + begin;
	return PROG_MAX - begin;
}
