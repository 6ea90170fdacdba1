/*
 * Proofs for a page of records. Runs in the command line. Keeps each full subtree's hash, 64 bytes
 * a record, so that a proof does not hash the log again.
 */
#include "audit/replay_proof.h"

#include <assert.h>

#include "common/xalloc.h"

#include "common/banned.h"

struct proofs {
	struct hash *level[TREE_LEVELS]; /* level[k][i]: the leaves i * 2^k up to (i + 1) * 2^k */
	size_t n, cap;			 /* leaves */
	uint64_t size;
};

struct proofs *
proofs_new(void)
{
	return xcalloc(1, sizeof(struct proofs));
}

void
proofs_free(struct proofs *p)
{
	if (p == NULL)
		return;
	for (size_t k = 0; k < TREE_LEVELS; k++)
		free(p->level[k]);
	free(p);
}

void
proofs_leaf(struct proofs *p, const struct hash *leaf)
{
	if (p->n == p->cap) {
		p->cap = p->cap != 0 ? 2 * p->cap : 1024;
		p->level[0] = xreallocarray(p->level[0], p->cap, sizeof(*leaf));
	}
	p->level[0][p->n++] = *leaf;
}

void
proofs_seal(struct proofs *p, uint64_t size)
{
	assert(size <= p->n);
	p->size = size;
	for (size_t k = 1; k < TREE_LEVELS && size >> k != 0; k++) {
		size_t n = (size_t)(size >> k);

		p->level[k] = xreallocarray(NULL, n, sizeof(struct hash));
		for (size_t i = 0; i < n; i++)
			p->level[k][i] =
			    tree_node(&p->level[k - 1][2 * i], &p->level[k - 1][2 * i + 1]);
	}
}

/* The largest power of two below n, as an exponent; n > 1. */
static unsigned
split(uint64_t n)
{
	return 63 - (unsigned)__builtin_clzll(n - 1);
}

/* The root of n leaves from `first` on; first is a multiple of the power of two at or above n. */
static struct hash
range(const struct proofs *p, uint64_t first, uint64_t n)
{
	struct hash h, left;
	unsigned k;

	if ((n & (n - 1)) == 0) {
		k = (unsigned)__builtin_ctzll(n);
		return p->level[k][first >> k];
	}
	k = split(n);
	left = range(p, first, (uint64_t)1 << k);
	h = range(p, first + ((uint64_t)1 << k), n - ((uint64_t)1 << k));
	return tree_node(&left, &h);
}

struct hash
proofs_root(const struct proofs *p)
{
	return p->size != 0 ? range(p, 0, p->size) : hash_sha256(STR(""));
}

size_t
proofs_get(const struct proofs *p, uint64_t index, struct hash out[TREE_PROOF_MAX])
{
	struct hash down[TREE_PROOF_MAX];
	uint64_t first = 0, n = p->size;
	size_t depth = 0;

	if (index >= n)
		return 0;
	while (n > 1) {
		uint64_t k = (uint64_t)1 << split(n);

		if (index - first < k) {
			down[depth++] = range(p, first + k, n - k);
			n = k;
		} else {
			down[depth++] = range(p, first, k);
			first += k;
			n -= k;
		}
	}
	for (size_t i = 0; i < depth; i++)
		out[i] = down[depth - 1 - i];
	return depth;
}

const struct hash *
proofs_leaf_at(const struct proofs *p, uint64_t index)
{
	return index < p->n ? &p->level[0][index] : NULL;
}
