/*
 * RFC 6962 2.1. Runs in the writer (roots at each size) and in whoever verifies. Proofs may
 * come from anybody: the checkers bound every step by the sizes and use up the proof exactly.
 */
#include "audit/tree.h"

#include <assert.h>

#include "common/banned.h"

struct hash
tree_node(const struct hash *left, const struct hash *right)
{
	/* 0x01 keeps a node from ever being read as a leaf (RFC 6962 2.1). */
	struct str parts[] = {STR("\1"), str_mem(left->b, HASH_LEN), str_mem(right->b, HASH_LEN)};

	return hash_sha256_parts(parts, 3);
}

void
tree_push(struct tree_range *t, const struct hash *leaf)
{
	struct hash h = *leaf;
	unsigned level = 0;

	assert(t->size < (UINT64_C(1) << TREE_LEVELS) - 1);
	for (; (t->size >> level & 1) != 0; level++)
		h = tree_node(&t->node[level], &h);
	t->node[level] = h;
	t->size++;
}

struct hash
tree_root(const struct tree_range *t)
{
	struct hash h;
	unsigned level = 0;

	if (t->size == 0)
		return hash_sha256(STR(""));
	while ((t->size >> level & 1) == 0)
		level++;
	h = t->node[level];
	while (++level < TREE_LEVELS)
		if ((t->size >> level & 1) != 0)
			h = tree_node(&t->node[level], &h);
	return h;
}

struct hash
tree_root_of(const struct hash *leaves, uint64_t n)
{
	struct tree_range t = {0};

	for (uint64_t i = 0; i < n; i++)
		tree_push(&t, &leaves[i]);
	return tree_root(&t);
}

/* --- making proofs ------------------------------------------------------------------- */

/* The largest power of two smaller than n; n > 1. */
static uint64_t
split(uint64_t n)
{
	return UINT64_C(1) << (63 - __builtin_clzll(n - 1));
}

/* Proofs are listed from the leaf upward, and found from the root downward. */
static void
reverse(struct hash *p, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		struct hash t = p[i];

		p[i] = p[n - 1 - i];
		p[n - 1 - i] = t;
	}
}

size_t
tree_inclusion(
    const struct hash *leaves, uint64_t n, uint64_t index, struct hash proof[TREE_PROOF_MAX])
{
	size_t k = 0;

	assert(index < n);
	while (n > 1) {
		uint64_t left = split(n);

		if (index < left) {
			proof[k++] = tree_root_of(leaves + left, n - left);
			n = left;
		} else {
			proof[k++] = tree_root_of(leaves, left);
			leaves += left;
			index -= left;
			n -= left;
		}
	}
	reverse(proof, k);
	return k;
}

size_t
tree_consistency(
    const struct hash *leaves, uint64_t n, uint64_t m, struct hash proof[TREE_PROOF_MAX])
{
	bool whole = true; /* the subtree is one that the old root covers in full from its start */
	size_t k = 0;

	assert(m > 0 && m <= n);
	while (m != n) {
		uint64_t left = split(n);

		if (m <= left) {
			proof[k++] = tree_root_of(leaves + left, n - left);
			n = left;
		} else {
			proof[k++] = tree_root_of(leaves, left);
			leaves += left;
			m -= left;
			n -= left;
			whole = false;
		}
	}
	if (!whole)
		proof[k++] = tree_root_of(leaves, n);
	reverse(proof, k);
	return k;
}

/* --- proofs without leaves ----------------------------------------------------------- */

void
tree_span_begin(struct tree_span *s, const struct tree_range *at)
{
	s->at = *at;
	s->end = at->size;
	s->n = 0;
}

void
tree_span_push(struct tree_span *s, const struct hash *leaf)
{
	assert(s->n < ARRAY_LEN(s->part));
	s->part[s->n++] = (struct tree_part){.begin = s->end++, .hash = *leaf};
	while (s->n >= 2) {
		struct tree_part *a = &s->part[s->n - 2], *b = a + 1;

		/* Two of a size are one where the pair is a subtree of the whole. */
		if (a->level != b->level || (a->begin >> a->level & 1) != 0)
			break;
		a->hash = tree_node(&a->hash, &b->hash);
		a->level++;
		s->n--;
	}
}

/* Of the leaves from lo to hi, which are parts of the span; hi is their end, or that of the span.
 */
static struct hash
span_root(const struct tree_span *s, uint64_t lo, uint64_t hi)
{
	size_t i = s->n;
	struct hash h;

	while (i > 0 && s->part[i - 1].begin >= hi)
		i--;
	assert(i > 0);
	h = s->part[--i].hash;
	while (i > 0 && s->part[i - 1].begin >= lo)
		h = tree_node(&s->part[--i].hash, &h);
	return h;
}

/* As tree_consistency(): what stands to the left of `at` is one of its nodes, what stands to the
 * right parts of the span. */
size_t
tree_span_proof(const struct tree_span *s, struct hash proof[TREE_PROOF_MAX])
{
	uint64_t lo = 0, m = s->at.size, n = s->end;
	bool whole = true;
	size_t k = 0;

	if (m == 0)
		return 0;
	while (m != n) {
		uint64_t left = split(n);

		if (m <= left) {
			proof[k++] = span_root(s, lo + left, lo + n);
			n = left;
		} else {
			proof[k++] = s->at.node[__builtin_ctzll(left)];
			lo += left;
			m -= left;
			n -= left;
			whole = false;
		}
	}
	if (!whole)
		proof[k++] = s->at.node[__builtin_ctzll(s->at.size)];
	reverse(proof, k);
	return k;
}

/* --- checking proofs ----------------------------------------------------------------- */

/* RFC 9162 2.1.3.2 (the same tree as RFC 6962). */
bool
tree_inclusion_ok(const struct hash *leaf, uint64_t index, uint64_t n, const struct hash *proof,
    size_t nproof, const struct hash *root)
{
	uint64_t fn = index, sn = n - 1;
	struct hash h = *leaf;

	if (index >= n)
		return false;
	for (size_t i = 0; i < nproof; i++) {
		if (sn == 0)
			return false;
		if ((fn & 1) != 0 || fn == sn) {
			h = tree_node(&proof[i], &h);
			while ((fn & 1) == 0 && fn != 0) {
				fn >>= 1;
				sn >>= 1;
			}
		} else {
			h = tree_node(&h, &proof[i]);
		}
		fn >>= 1;
		sn >>= 1;
	}
	return sn == 0 && hash_eq(&h, root);
}

/* RFC 9162 2.1.4.2. */
bool
tree_consistency_ok(uint64_t m, const struct hash *root_m, uint64_t n, const struct hash *root_n,
    const struct hash *proof, size_t nproof)
{
	uint64_t fn = m - 1, sn = n - 1;
	struct hash old, new;
	size_t i = 0;

	if (m == 0 || m > n)
		return false;
	if (m == n)
		return nproof == 0 && hash_eq(root_m, root_n);
	while ((fn & 1) != 0) {
		fn >>= 1;
		sn >>= 1;
	}
	if (fn == 0) { /* m is a power of two: its root begins the path */
		old = new = *root_m;
	} else {
		if (nproof == 0)
			return false;
		old = new = proof[i++];
	}
	for (; i < nproof; i++) {
		if (sn == 0)
			return false;
		if ((fn & 1) != 0 || fn == sn) {
			old = tree_node(&proof[i], &old);
			new = tree_node(&proof[i], &new);
			while ((fn & 1) == 0 && fn != 0) {
				fn >>= 1;
				sn >>= 1;
			}
		} else {
			new = tree_node(&new, &proof[i]);
		}
		fn >>= 1;
		sn >>= 1;
	}
	return sn == 0 && hash_eq(&old, root_m) && hash_eq(&new, root_n);
}
