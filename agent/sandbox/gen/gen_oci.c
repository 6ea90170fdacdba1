/*
 * filter_gen, at build time: the rules as "seccomp" of an OCI config.json. That form has one answer
 * for what no entry allows (ENOSYS here) and cannot refuse by argument what another entry allows,
 * so each call that has conditions is written as what remains of it: a list of cubes, "these bits
 * of these arguments are so". It lets pass exactly what the program of gen_bpf.c lets pass
 * (t_filter proves it); what is refused by argument has the error ENOSYS.
 */
#include "agent/sandbox/gen/gen.h"

#include <errno.h>

#include "common/jcs.h"

#include "common/banned.h"

#define CUBES_MAX 8192

struct cube {
	uint64_t mask[6], value[6];
};
struct cubes {
	struct cube c[CUBES_MAX];
	size_t n;
};

static void
cube_add(struct cubes *to, const struct cube *c)
{
	if (to->n == CUBES_MAX)
		gen_die("more than %d ways to allow one call", CUBES_MAX);
	to->c[to->n++] = *c;
}

static uint64_t
mask_of(const struct gen_cond *c)
{
	return c->whole ? UINT64_MAX : c->mask;
}

/* Can the argument have this value in x? */
static bool
may_be(const struct cube *x, const struct gen_cond *c, uint64_t value)
{
	return ((x->value[c->arg] ^ value) & x->mask[c->arg] & mask_of(c)) == 0;
}

/* The order in which bits are split: the kind of an ioctl first, for its lists are apart by it. */
static uint64_t
bit_at(unsigned i)
{
	return (uint64_t)1 << (i < 16 ? 15 - i : 79 - i);
}

static void remains(
    const struct cube *x, const struct gen_rule *r, size_t k, size_t v, struct cubes *out);

/* In x all conditions that list what they refuse hold: it passes by those that list the rest. */
static void
remains_inside(const struct cube *x, const struct gen_rule *r, struct cubes *out)
{
	for (const struct gen_cond *c = r->conds; c < r->conds + GEN_CONDS_MAX; c++)
		for (size_t v = 0; c->negate && v < c->nvalues; v++) {
			struct cube y = *x;

			y.mask[c->arg] |= mask_of(c);
			y.value[c->arg] |= c->value[v];
			if (may_be(x, c, c->value[v]))
				cube_add(out, &y);
		}
}

/* Adds to `out` what r lets pass of x, from condition k's value v on; recursion is as deep as a
 * rule has values. */
static void
remains(const struct cube *x, const struct gen_rule *r, size_t k, size_t v, struct cubes *out)
{
	const struct gen_cond *c = &r->conds[k];
	struct cube y = *x;

	if (k == GEN_CONDS_MAX || c->nvalues == 0) {
		remains_inside(x, r, out);
	} else if (c->negate) {
		remains(x, r, k + 1, 0, out);
	} else if (v == c->nvalues) {
		cube_add(out, x);
	} else if (!may_be(x, c, c->value[v])) {
		remains(x, r, k, v + 1, out);
	} else {
		/* All around the value, bit by bit, then the value itself. */
		for (unsigned i = 0; i < 64; i++) {
			uint64_t bit = bit_at(i) & mask_of(c) & ~y.mask[c->arg];
			struct cube z = y;

			if (bit == 0)
				continue;
			z.mask[c->arg] = y.mask[c->arg] |= bit;
			z.value[c->arg] |= ~(uint64_t)c->value[v] & bit;
			y.value[c->arg] |= c->value[v] & bit;
			remains(&z, r, k, v + 1, out);
		}
		remains(&y, r, k + 1, 0, out);
	}
}

/* Two that differ in one bit of one argument are one without that bit. A mask of 64 bits stays:
 * JSON has no number for what it would become. */
static bool
merges(struct cube *x, const struct cube *y)
{
	uint64_t bit = 0;
	unsigned at = 0, n = 0;

	for (unsigned a = 0; a < 6; a++) {
		uint64_t differ = x->value[a] ^ y->value[a];

		if (x->mask[a] != y->mask[a])
			return false;
		if (differ != 0) {
			at = a;
			bit = differ;
			n++;
		}
	}
	if (n != 1 || (bit & (bit - 1)) != 0 || x->mask[at] == UINT64_MAX)
		return false;
	x->mask[at] &= ~bit;
	x->value[at] &= ~bit;
	return true;
}

/* The run times' library takes the square of their number as its time. */
static void
cubes_merge(struct cubes *c)
{
	bool again = true;

	while (again) {
		again = false;
		for (size_t i = 0; i < c->n; i++)
			for (size_t k = i + 1; k < c->n; k++)
				if (merges(&c->c[i], &c->c[k])) {
					c->c[k--] = c->c[--c->n];
					again = true;
				}
	}
}

static void
cube_write(struct jcs *j, const struct cube *c)
{
	jcs_array(j, "args");
	for (unsigned a = 0; a < 6; a++) {
		bool equal = c->mask[a] == UINT64_MAX;

		if (c->mask[a] == 0)
			continue;
		jcs_open(j, NULL);
		jcs_int(j, "index", a);
		jcs_z(j, "op", equal ? "SCMP_CMP_EQ" : "SCMP_CMP_MASKED_EQ");
		jcs_int(j, "value", (int64_t)(equal ? c->value[a] : c->mask[a]));
		if (!equal)
			jcs_int(j, "valueTwo", (int64_t)c->value[a]);
		jcs_close(j);
	}
	jcs_array_end(j);
}

/* One entry: the calls whose answers are those of number nr; with a cube, only so. */
static void
entry_write(struct jcs *j, const struct gen_machine *m, size_t nr, const struct cube *c)
{
	const struct gen_call *like = &m->call[nr];

	jcs_open(j, NULL);
	jcs_z(j, "action", like->base.allow ? "SCMP_ACT_ALLOW" : "SCMP_ACT_ERRNO");
	if (c != NULL)
		cube_write(j, c);
	if (!like->base.allow)
		jcs_int(j, "errnoRet", like->base.error);
	jcs_array(j, "names");
	for (const struct gen_call *x = m->call; x < m->call + GEN_CALLS_MAX; x++)
		if (x->listed && x->rules == like->rules && x->base.allow == like->base.allow &&
		    x->base.error == like->base.error)
			jcs_z(j, NULL, x->name);
	jcs_array_end(j);
	jcs_close(j);
}

static void
call_write(struct jcs *j, const struct gen_machine *m, size_t nr)
{
	static struct cubes now, next;

	now = (struct cubes){.n = 1};
	if (m->call[nr].rules == 0) {
		entry_write(j, m, nr, NULL);
		return;
	}
	for (size_t i = 0; i < m->nrules; i++) {
		if ((m->call[nr].rules >> i & 1) == 0)
			continue;
		next.n = 0;
		for (size_t x = 0; x < now.n; x++)
			remains(&now.c[x], m->rule[i], 0, 0, &next);
		now = next;
	}
	cubes_merge(&now);
	for (size_t x = 0; x < now.n; x++)
		entry_write(j, m, nr, &now.c[x]);
}

/* Was a call like this one written already? */
static bool
written(const struct gen_machine *m, size_t nr)
{
	for (const struct gen_call *x = m->call; x < m->call + nr; x++)
		if (x->listed && x->rules == m->call[nr].rules &&
		    x->base.allow == m->call[nr].base.allow &&
		    x->base.error == m->call[nr].base.error)
			return true;
	return false;
}

void
gen_oci(const struct gen_machine *m, struct buf *out)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_array(&j, "architectures");
	jcs_z(&j, NULL, m->oci);
	jcs_array_end(&j);
	jcs_z(&j, "defaultAction", "SCMP_ACT_ERRNO");
	jcs_int(&j, "defaultErrnoRet", ENOSYS);
	jcs_array(&j, "syscalls");
	for (size_t nr = 0; nr < GEN_CALLS_MAX; nr++)
		if (m->call[nr].listed && !written(m, nr) &&
		    (m->call[nr].base.allow || m->call[nr].base.error != ENOSYS))
			call_write(&j, m, nr);
	jcs_array_end(&j);
	jcs_close(&j);
}
