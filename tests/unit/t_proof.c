/* Proofs of single records: made of a log, checked without it, and no bit of one can be changed. */
#include "audit/proof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <fcntl.h>
#include <sodium.h>

#include <cmocka.h>

#include "audit/segment.h"
#include "audit/writer_store.h"

#include "tests/unit/temp_help.h"

#include "common/banned.h"

#define N 14 /* records */

struct fixture {
	char path[64];
	int dir;
	struct vkeys keys;
	struct buf note;
};

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	AUTO(secret) struct secret *seed = secret_new(32);
	struct store_opts o = {.segment_max = 2000};
	struct signer *signer = NULL;
	struct store *s = NULL;
	uint8_t pub[32], sk[64];
	uint64_t seq = 0;

	assert_non_null(f);
	memcpy(f->path, "/tmp/t_proof.XXXXXX", 20);
	assert_non_null(mkdtemp(f->path));
	f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->note = (struct buf)BUF(CHECKPOINT_MAX);
	crypto_sign_seed_keypair(pub, sk, secret_bytes(seed));
	f->keys.n = 1;
	assert_int_equal(vkey_make(STR("o.example"), pub, &f->keys.key[0], NULL), 0);
	assert_int_equal(signer_new(seed, &f->keys.key[0], &signer, NULL), 0);
	assert_int_equal(store_open(f->dir, signer, &o, &s, NULL), 0);
	while (seq < N - 2) {
		assert_int_equal(store_append(s, "agent.note", STR("agent"), STR("r"),
				     STR("{\"n\":1}"), &seq, NULL, NULL),
		    0);
		assert_int_equal(store_commit(s, NULL), 0);
	}
	assert_int_equal(store_close(s, NULL), 0);
	store_free(s);
	signer_free(signer);
	assert_int_equal(log_read_file(f->dir, LOG_CHECKPOINT, &f->note, NULL), 0);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	(void)close(f->dir);
	buf_free(&f->note);
	temp_remove(f->path);
	free(f);
	return 0;
}

static int
check(const struct fixture *f, struct str file, struct proof *p)
{
	AUTO_BUF struct buf body = BUF(RECORD_BODY_MAX + 2);

	return proof_open(file, &f->keys, &body, p, NULL);
}

static void
each_record_is_proved_and_one_past_the_end_is_not(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf out = BUF(PROOF_MAX);
	const struct vkey *key;
	struct checkpoint cp;
	struct proof p;

	assert_int_equal(checkpoint_open(buf_str(&f->note), &f->keys, &cp, &key, NULL), 0);
	assert_true(cp.size >= N);
	for (uint64_t seq = 0; seq < cp.size; seq++) {
		buf_reset(&out);
		assert_int_equal(
		    proof_make(f->dir, &f->keys, buf_str(&f->note), seq, STR_NONE, &out, NULL), 0);
		assert_int_equal(check(f, buf_str(&out), &p), 0);
		assert_int_equal(p.record.seq, seq);
		assert_int_equal(p.cp.size, cp.size);
	}
	assert_int_equal(
	    proof_make(f->dir, &f->keys, buf_str(&f->note), cp.size, STR_NONE, &out, NULL),
	    ERR_NOT_FOUND);
}

static void
no_bit_can_be_flipped_no_byte_taken_out_and_no_end_cut_off(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf out = BUF(PROOF_MAX), x = BUF(PROOF_MAX);
	struct proof p;

	assert_int_equal(
	    proof_make(f->dir, &f->keys, buf_str(&f->note), 5, STR_NONE, &out, NULL), 0);
	for (size_t i = 0; i < out.n; i++) {
		for (int bit = 0; bit < 8; bit++) {
			out.p[i] ^= (uint8_t)(1 << bit);
			assert_int_not_equal(check(f, buf_str(&out), &p), 0);
			out.p[i] ^= (uint8_t)(1 << bit);
		}
		assert_int_not_equal(check(f, str_mem(out.p, i), &p), 0);
		buf_reset(&x);
		buf_put(&x, out.p, i);
		buf_put(&x, out.p + i + 1, out.n - i - 1);
		assert_int_not_equal(check(f, buf_str(&x), &p), 0);
	}
	assert_int_equal(check(f, buf_str(&out), &p), 0);
	print_message("# %zu bits, %zu cuts, %zu bytes taken out\n", 8 * out.n, out.n, out.n);
}

/* The file with another body or index, path kept. */
static void
refused(const struct fixture *f, struct str file, struct str body, uint64_t index)
{
	AUTO_BUF struct buf x = BUF(PROOF_MAX);
	struct proof p;
	struct str line;

	assert_true(str_cut(&file, '\n', &line) && str_cut(&file, '\n', &line) &&
		    str_cut(&file, '\n', &line));
	buf_put_z(&x, "c2sp.org/tlog-proof@v1\nextra ");
	enc_base64(&x, body);
	buf_printf(&x, "\nindex %llu\n", (unsigned long long)index);
	buf_put_str(&x, file);
	assert_int_equal(check(f, buf_str(&x), &p), ERR_TAMPER);
}

static void
a_record_is_proved_at_its_own_number_and_as_it_was_written(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf out = BUF(PROOF_MAX), body = BUF(RECORD_BODY_MAX + 2),
			    other = BUF(RECORD_BODY_MAX + 2);
	struct proof p;

	assert_int_equal(
	    proof_make(f->dir, &f->keys, buf_str(&f->note), 6, STR_NONE, &out, NULL), 0);
	assert_int_equal(proof_open(buf_str(&out), &f->keys, &other, &p, NULL), 0);
	buf_reset(&out);
	assert_int_equal(
	    proof_make(f->dir, &f->keys, buf_str(&f->note), 5, STR_NONE, &out, NULL), 0);
	assert_int_equal(proof_open(buf_str(&out), &f->keys, &body, &p, NULL), 0);
	refused(f, buf_str(&out), buf_str(&other), 5);
	refused(f, buf_str(&out), buf_str(&other), 6);
	refused(f, buf_str(&out), buf_str(&body), 6);
	refused(f, buf_str(&out), STR("{}"), 5);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		each_record_is_proved_and_one_past_the_end_is_not, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		no_bit_can_be_flipped_no_byte_taken_out_and_no_end_cut_off, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		a_record_is_proved_at_its_own_number_and_as_it_was_written, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
