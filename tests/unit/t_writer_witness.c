/* The leaves that proofs for witnesses are made from, read again over many segments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit/writer_witness_int.h"
#include "common/xalloc.h"

#include "tests/unit/temp_help.h"

#include "common/banned.h"

#define RECORDS 200

struct fixture {
	char path[64];
	int dir;
	struct secret *seed;
	struct signer *signer;
	struct store *store;
	struct witnesses w;
	struct tree_span span;
	size_t n;
	struct hash leaf[4 * RECORDS];
};

static void
on_record(void *arg, const struct record *r, const struct tree_range *tree UNUSED)
{
	struct fixture *f = arg;

	assert_true(f->n < 4 * RECORDS);
	f->leaf[f->n++] = record_leaf(r->body);
}

static int
setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	struct store_opts o = {
	    .ballast = 65536, .segment_max = 4096, .record = on_record, .arg = f};
	uint8_t pub[32], sk[64];
	struct vkey key;
	uint64_t seq;

	memcpy(f->path, "/tmp/t_writer_witness.XXXXXX", 29);
	assert_non_null(mkdtemp(f->path));
	f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->seed = secret_new(32);
	crypto_sign_seed_keypair(pub, sk, secret_bytes(f->seed));
	assert_int_equal(vkey_make(STR("o.example"), pub, &key, NULL), 0);
	assert_int_equal(signer_new(f->seed, &key, &f->signer, NULL), 0);
	assert_int_equal(store_open(f->dir, f->signer, &o, &f->store, NULL), 0);
	for (int i = 0; i < RECORDS; i++) {
		assert_int_equal(store_append(f->store, "x.y", STR("broker"), STR(""),
				     STR("{\"a\":1}"), &seq, NULL, NULL),
		    0);
		assert_int_equal(store_commit(f->store, NULL), 0);
	}
	f->w.loop = loop_new();
	f->w.logdir = f->dir;
	assert_int_equal(log_open_dir(f->dir, LOG_SEG, &f->w.segdir, NULL), 0);
	f->w.reading.leaves = -1;
	f->w.n = 1;
	f->w.one[0].span = &f->span;
	for (size_t i = 0; i < f->n; i++)
		tree_push(&f->w.fed, &f->leaf[i]);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	wit_read_stop(&f->w);
	loop_free(f->w.loop);
	store_free(f->store);
	signer_free(f->signer);
	secret_free(f->seed);
	(void)close(f->w.segdir);
	(void)close(f->dir);
	temp_remove(f->path);
	free(f);
	return 0;
}

static void
locate(struct fixture *f, uint64_t size)
{
	struct one *o = &f->w.one[0];

	o->size = size;
	o->spanned = false;
	o->failed = 0;
	wit_locate(&f->w, o);
	for (int i = 0; i < 60000 && f->w.reading.of != NULL; i++) {
		(void)loop_turn(f->w.loop);
		(void)usleep(1000); /* it is done in turns, by a timer */
	}
	assert_null(f->w.reading.of);
}

static void
leaves_are_read_again_across_sealed_segments_from_any_size(void **state)
{
	struct fixture *f = *state;
	AUTO_LOG_FILES struct log_files files = {0};

	assert_int_equal(log_files_list(f->dir, LOG_SEG, LOG_LINES, LOG_LEAVES, &files, NULL), 0);
	assert_true(files.n[0] > 5 && files.n[1] > 5); /* sealed ones, and one in lines alone */
	for (uint64_t size = 1; size < f->n; size += 29) {
		struct hash want = tree_root_of(f->leaf, size), is, proof[TREE_PROOF_MAX];
		struct hash again[TREE_PROOF_MAX];
		size_t n;

		locate(f, size);
		assert_true(f->w.one[0].spanned);
		is = tree_root(&f->span.at);
		assert_true(hash_eq(&is, &want));
		n = tree_span_proof(&f->span, proof);
		assert_int_equal(n, tree_consistency(f->leaf, f->n, size, again));
		assert_memory_equal(proof, again, n * sizeof(struct hash));
	}
}

static void
leaves_that_are_not_those_that_were_signed_prove_nothing(void **state)
{
	struct fixture *f = *state;

	f->w.fed = (struct tree_range){0};
	for (size_t i = f->n; i-- > 0;)
		tree_push(&f->w.fed, &f->leaf[i]);
	locate(f, 3);
	assert_false(f->w.one[0].spanned);
	assert_int_equal(f->w.one[0].failed, 1);
	assert_non_null(strstr(f->w.one[0].why, "not what was signed"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		leaves_are_read_again_across_sealed_segments_from_any_size, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		leaves_that_are_not_those_that_were_signed_prove_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
