/* The tree of RFC 6962: published vectors, and every size to 300 against a naive reading. */
#include "audit/tree.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "audit/record.h"

#include "common/banned.h"

#define N_MAX 300

static struct hash leaves[N_MAX];

/* MTH of RFC 6962 2.1, word for word. */
static struct hash
naive_root(const struct hash *l, size_t n)
{
	struct hash left, right;
	size_t k = 1;

	if (n == 0)
		return hash_sha256(STR(""));
	if (n == 1)
		return l[0];
	while (k * 2 < n)
		k *= 2;
	left = naive_root(l, k);
	right = naive_root(l + k, n - k);
	return tree_node(&left, &right);
}

static void
the_roots_of_the_reference_leaves_are_those_published(void **state)
{
	/* The eight leaves of the Certificate Transparency reference implementation. */
	static const struct str input[] = {{"", 0}, {"\0", 1}, {"\x10", 1}, {" !", 2}, {"01", 2},
	    {"@ABC", 4}, {"PQRSTUVW", 8}, {"`abcdefghijklmno", 16}};
	static const char *const want[] = {
	    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
	    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
	    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
	    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
	    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
	    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
	    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
	    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"};
	struct tree_range t = {0};

	(void)state;
	for (size_t n = 0; n <= 8; n++) {
		struct hash root = tree_root(&t), leaf;
		char hex[HASH_HEX_SIZE];

		hash_hex(&root, hex);
		assert_string_equal(hex, want[n]);
		if (n < 8) {
			leaf = record_leaf(input[n]);
			tree_push(&t, &leaf);
		}
	}
}

static void
the_root_at_every_size_is_the_naive_one(void **state)
{
	struct tree_range t = {0};

	(void)state;
	for (size_t n = 0; n <= N_MAX; n++) {
		struct hash a = tree_root(&t), b = naive_root(leaves, n);

		assert_true(hash_eq(&a, &b));
		assert_int_equal(t.size, n);
		if (n < N_MAX)
			tree_push(&t, &leaves[n]);
	}
}

static void
inclusion_holds_at_its_own_place_only(void **state)
{
	struct hash p[TREE_PROOF_MAX + 1];

	(void)state;
	for (uint64_t n = 1; n <= N_MAX; n++) {
		struct hash root = naive_root(leaves, n);

		for (uint64_t i = 0; i < n; i++) {
			size_t k = tree_inclusion(leaves, n, i, p);

			assert_true(tree_inclusion_ok(&leaves[i], i, n, p, k, &root));
			assert_false(
			    tree_inclusion_ok(&leaves[(i + 1) % N_MAX], i, n, p, k, &root));
			assert_false(tree_inclusion_ok(&leaves[i], n, n, p, k, &root));
			if (n > 1) {
				assert_false(
				    tree_inclusion_ok(&leaves[i], (i + 1) % n, n, p, k, &root));
				assert_false(tree_inclusion_ok(&leaves[i], i, n, p, k - 1, &root));
			}
			p[k] = root;
			assert_false(tree_inclusion_ok(&leaves[i], i, n, p, k + 1, &root));
		}
	}
}

static void
consistency_holds_between_all_sizes_and_not_with_a_changed_hash(void **state)
{
	struct hash p[TREE_PROOF_MAX + 1];

	(void)state;
	for (uint64_t n = 1; n <= N_MAX; n++) {
		struct hash new = naive_root(leaves, n);

		for (uint64_t m = 1; m <= n; m++) {
			struct hash old = naive_root(leaves, m);
			size_t k = tree_consistency(leaves, n, m, p);

			assert_true(tree_consistency_ok(m, &old, n, &new, p, k));
			assert_false(
			    tree_consistency_ok(m, &leaves[N_MAX - 1], n, &new, p, k) && n < N_MAX);
			for (size_t i = 0; i < k; i++) {
				p[i].b[0] ^= 1;
				assert_false(tree_consistency_ok(m, &old, n, &new, p, k));
				p[i].b[0] ^= 1;
			}
			if (k != 0)
				assert_false(tree_consistency_ok(m, &old, n, &new, p, k - 1));
			p[k] = old;
			assert_false(tree_consistency_ok(m, &old, n, &new, p, k + 1));
		}
		assert_false(tree_consistency_ok(0, &new, n, &new, p, 0));
		assert_false(tree_consistency_ok(n + 1, &new, n, &new, p, 0));
	}
}

/* As a writer has it: the tree at m, and leaves as they come. */
static void
a_span_makes_the_same_proof_without_leaves(void **state)
{
	struct hash want[TREE_PROOF_MAX], got[TREE_PROOF_MAX];
	struct tree_range at = {0};
	struct tree_span s;

	(void)state;
	for (uint64_t m = 0; m <= N_MAX; m++) {
		tree_span_begin(&s, &at);
		assert_int_equal(tree_span_proof(&s, got), 0);
		for (uint64_t n = m + 1; n <= N_MAX; n++) {
			tree_span_push(&s, &leaves[n - 1]);
			if (m != 0) {
				size_t k = tree_consistency(leaves, n, m, want);

				assert_int_equal(tree_span_proof(&s, got), k);
				assert_memory_equal(got, want, k * sizeof(got[0]));
			}
		}
		if (m < N_MAX)
			tree_push(&at, &leaves[m]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_roots_of_the_reference_leaves_are_those_published),
	    cmocka_unit_test(the_root_at_every_size_is_the_naive_one),
	    cmocka_unit_test(inclusion_holds_at_its_own_place_only),
	    cmocka_unit_test(consistency_holds_between_all_sizes_and_not_with_a_changed_hash),
	    cmocka_unit_test(a_span_makes_the_same_proof_without_leaves),
	};

	for (size_t i = 0; i < N_MAX; i++)
		leaves[i] = record_leaf(str_mem(&i, sizeof(i)));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
