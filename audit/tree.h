/*
 * The Merkle tree of RFC 6962 2.1 over the leaf hashes of records: the compact range that the
 * writer keeps (a root at each appended size), and proofs made from and checked without leaves.
 */
#ifndef AUDIT_TREE_H
#define AUDIT_TREE_H

#include "common/hash.h"

#define TREE_LEVELS 63
#define TREE_PROOF_MAX 64 /* hashes in one proof */

/* node[i] is the root of a full subtree of 2^i leaves where bit i of size is set. {0} is empty. */
struct tree_range {
	uint64_t size;
	struct hash node[TREE_LEVELS];
};
void tree_push(struct tree_range *t, const struct hash *leaf);
struct hash tree_root(const struct tree_range *t); /* of size 0: SHA-256("") */

struct hash tree_node(const struct hash *left, const struct hash *right); /* SHA-256(1 || l || r) */
struct hash tree_root_of(const struct hash *leaves, uint64_t n);

/*
 * A tree that was `at`, and how it went on to `end`: full subtrees of what came behind, aligned as
 * in the whole, the leaves of neither. From it the proof that one extends the other is made at each
 * size, in memory that does not grow with the log.
 */
struct tree_span {
	struct tree_range at;
	uint64_t end;
	size_t n;
	struct tree_part {
		uint64_t begin;
		unsigned level;
		struct hash hash;
	} part[2 * TREE_LEVELS];
};
void tree_span_begin(struct tree_span *s, const struct tree_range *at);
void tree_span_push(struct tree_span *s, const struct hash *leaf);
/* RFC 6962 2.1.2 from `at` to `end`; none if `at` is empty. Returns how many hashes were written.
 */
size_t tree_span_proof(const struct tree_span *s, struct hash proof[TREE_PROOF_MAX]);

/* RFC 6962 2.1.1 and 2.1.2. index < n; 0 < m <= n. Return how many hashes were written. */
size_t tree_inclusion(
    const struct hash *leaves, uint64_t n, uint64_t index, struct hash proof[TREE_PROOF_MAX]);
size_t tree_consistency(
    const struct hash *leaves, uint64_t n, uint64_t m, struct hash proof[TREE_PROOF_MAX]);
bool tree_inclusion_ok(const struct hash *leaf, uint64_t index, uint64_t n,
    const struct hash *proof, size_t nproof, const struct hash *root);
bool tree_consistency_ok(uint64_t m, const struct hash *root_m, uint64_t n,
    const struct hash *root_n, const struct hash *proof, size_t nproof);

#endif
