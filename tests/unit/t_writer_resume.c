/* A start behind sealed segments: what it reads, what it believes, what it finds again. */
#include "audit/writer_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit/segment.h"
#include "audit/verify.h"
#include "audit/live.h"
#include "common/xalloc.h"

#include "tests/unit/temp_help.h"

#include "common/banned.h"

struct fixture {
	char path[64];
	int dir;
	struct vkeys keys;
	struct secret *seed;
	struct signer *signer;
	struct store *store;
	struct live *live;
	struct store_opts o;
	uint64_t told; /* records told at the last open */
};

static void
on_record(void *arg, const struct record *r, const struct tree_range *tree)
{
	struct fixture *f = arg;

	f->told++;
	live_record(f->live, r, tree);
}

static bool
on_save(void *arg, struct buf *out)
{
	return live_save(((struct fixture *)arg)->live, out);
}

static bool
on_restore(void *arg, struct rd *in)
{
	struct fixture *f = arg;
	struct live *l = live_new();
	bool ok = live_restore(l, in);

	live_free(ok ? f->live : l);
	f->live = ok ? l : f->live;
	return ok;
}

static int
store_start(struct fixture *f, struct err *err)
{
	live_free(f->live);
	f->live = live_new();
	f->told = 0;
	signer_free(f->signer);
	f->signer = NULL;
	assert_int_equal(signer_new(f->seed, &f->keys.key[0], &f->signer, NULL), 0);
	return store_open(f->dir, f->signer, &f->o, &f->store, err);
}

static void
killed(struct fixture *f)
{
	store_free(f->store);
	f->store = NULL;
}

static uint64_t
append(struct fixture *f, const char *type, const char *run, const char *data)
{
	uint64_t seq;

	assert_int_equal(
	    store_append(f->store, type, STR("broker"), str_z(run), str_z(data), &seq, NULL, NULL),
	    0);
	assert_int_equal(store_commit(f->store, NULL), 0);
	return seq;
}

#define ACTION                                                                                   \
	"{\"action\":\"a%d\",\"decision\":{\"at\":\"2026-11-30T07:00:0%d.000000Z\",\"counted\":" \
	"[{\"in\":60,\"key\":\"r-1\",\"over\":5,\"per\":\"run\",\"rule\":\"few\"}]},"            \
	"\"dispatch\":{\"sent\":true},\"request\":{\"input\":{\"statements\":1}}}"

/* Live records in the first of several segments, ended ones between. */
static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint8_t pub[32], sk[64];

	assert_non_null(f);
	memcpy(f->path, "/tmp/t_writer_resume.XXXXXX", 28);
	assert_non_null(mkdtemp(f->path));
	f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->seed = secret_new(32);
	crypto_sign_seed_keypair(pub, sk, secret_bytes(f->seed));
	f->keys.n = 1;
	assert_int_equal(vkey_make(STR("o.example"), pub, &f->keys.key[0], NULL), 0);
	f->o = (struct store_opts){.ballast = 65536,
	    .segment_max = 4000,
	    .record = on_record,
	    .save = on_save,
	    .restore = on_restore,
	    .arg = f};
	assert_int_equal(store_start(f, NULL), 0);
	append(f, "policy.load", "", "{\"policy\":\"p\"}");
	append(f, "run.start", "r-1", "{}");
	append(f, "freeze.begin", "", "{\"id\":\"f-1\"}");
	for (int i = 0; i < 9; i++) {
		AUTO_FREE char *data = NULL;

		assert_true(asprintf(&data, ACTION, i, i) > 0);
		append(f, "action", "r-1", data);
	}
	append(f, "outcome", "r-1", "{\"action\":\"a3\"}");
	for (int i = 0; i < 60; i++)
		append(f, "test", "", "{}");
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	store_free(f->store);
	signer_free(f->signer);
	secret_free(f->seed);
	live_free(f->live);
	(void)close(f->dir);
	temp_remove(f->path);
	free(f);
	return 0;
}

static void
see(void *arg, struct str body, const struct hash *root)
{
	buf_put_str(arg, body);
	buf_put(arg, root->b, HASH_LEN);
}

static void
live_dump(const struct fixture *f, struct buf *out)
{
	live_each(f->live, see, out);
}

static struct verdict
verify(struct fixture *f)
{
	struct verdict v = {0};

	assert_int_equal(verify_log(f->dir, &f->keys, NULL, 0, &v, NULL), 0);
	return v;
}

static struct log_files
list(const struct fixture *f, const char *sub, const char *suffix)
{
	struct log_files files = {0};

	assert_int_equal(log_files_list(f->dir, sub, suffix, NULL, &files, NULL), 0);
	return files;
}

static char *
path_of(const struct fixture *f, const char *sub, uint64_t number, const char *suffix)
{
	char name[LOG_NAME_SIZE], *path;

	log_name(name, number, suffix);
	assert_true(asprintf(&path, "%s/%s/%s", f->path, sub, name) > 0);
	return path;
}

static void
flip(const char *path, off_t at)
{
	AUTO_FD int fd = -1;
	uint8_t c;

	assert_int_equal(chmod(path, 0600), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &c, 1, at), 1);
	c ^= 1;
	assert_int_equal(pwrite(fd, &c, 1, at), 1);
}

static void
a_start_reads_only_the_open_segment_and_finds_everything_live(void **state)
{
	AUTO_BUF struct buf before = BUF(1 << 20), after = BUF(1 << 20), all = BUF(1 << 20);
	struct fixture *f = *state;
	AUTO_LOG_FILES struct log_files segs = list(f, LOG_SEG, LOG_LINES);
	uint64_t size = store_size(f->store);

	assert_true(segs.n[0] > 3);
	live_dump(f, &before);
	assert_non_null(memmem(before.p, before.n, "\"rate\"", 6));
	killed(f);
	assert_int_equal(store_start(f, NULL), 0);
	live_dump(f, &after);
	assert_true(str_eq(buf_str(&before), buf_str(&after)));
	assert_int_equal(f->told, size - segs.number[0][segs.n[0] - 1] + 1);
	killed(f);

	f->o.restore = NULL; /* as if nothing had been kept */
	for (size_t i = 0; i < segs.n[0]; i++) {
		AUTO_FREE char *path = path_of(f, LOG_LIVE, segs.number[0][i], "");

		(void)unlink(path);
	}
	assert_int_equal(store_start(f, NULL), 0);
	assert_int_equal(f->told, size + 2);
	live_dump(f, &all);
	assert_true(str_eq(buf_str(&before), buf_str(&all)));
	assert_int_equal(verify(f).nfaults, 0);
}

static void
two_of_them_are_kept(void **state)
{
	struct fixture *f = *state;
	AUTO_LOG_FILES struct log_files live = list(f, LOG_LIVE, "");

	assert_int_equal(live.n[0], 2);
}

static void
one_that_the_log_does_not_name_is_not_believed(void **state)
{
	struct fixture *f = *state;
	AUTO_LOG_FILES struct log_files live = list(f, LOG_LIVE, "");
	AUTO_FREE char *last = path_of(f, LOG_LIVE, live.number[0][1], "");
	AUTO_FREE char *older = path_of(f, LOG_LIVE, live.number[0][0], "");
	uint64_t size = store_size(f->store);

	killed(f);
	flip(last, 200);
	assert_int_equal(store_start(f, NULL), 0);
	assert_int_equal(f->told, size - live.number[0][0] + 1);
	killed(f);
	flip(older, 12); /* the first byte of the head */
	assert_int_equal(store_start(f, NULL), 0);
	assert_int_equal(f->told, size + 2);
	assert_int_equal(verify(f).nfaults, 0);
}

/* What stands in a segment that is not read is the verifier's; what is read, or signed, is ours. */
static void
a_change_behind_the_beginning_is_refused_and_one_before_it_is_found_by_verify(void **state)
{
	struct fixture *f = *state;
	AUTO_LOG_FILES struct log_files segs = list(f, LOG_SEG, LOG_LINES);
	AUTO_FREE char *first = path_of(f, LOG_SEG, 0, LOG_LINES);
	AUTO_FREE char *last = path_of(f, LOG_SEG, segs.number[0][segs.n[0] - 1], LOG_LINES);
	struct err err = {0};

	killed(f);
	flip(first, 300);
	assert_int_equal(store_start(f, NULL), 0);
	assert_int_equal(verify(f).nfaults, 1);
	killed(f);
	flip(last, 100);
	assert_int_equal(store_start(f, &err), ERR_TAMPER);
	flip(last, 100);
	assert_int_equal(store_start(f, NULL), 0);
}

static void
a_segment_that_is_missing_among_the_sealed_is_refused(void **state)
{
	struct fixture *f = *state;
	AUTO_LOG_FILES struct log_files segs = list(f, LOG_SEG, LOG_LINES);
	AUTO_FREE char *path = path_of(f, LOG_SEG, segs.number[0][1], LOG_LINES);
	AUTO_FREE char *away = xasprintf("%s/kept", f->path);
	struct err err = {0};

	killed(f);
	assert_int_equal(rename(path, away), 0);
	assert_int_equal(store_start(f, &err), ERR_TAMPER);
	assert_non_null(strstr(err.msg, "one is missing"));
	assert_int_equal(rename(away, path), 0);
	assert_int_equal(store_start(f, NULL), 0);
}

static void
a_sealed_segment_can_only_be_read(void **state)
{
	struct fixture *f = *state;
	AUTO_LOG_FILES struct log_files segs = list(f, LOG_SEG, LOG_LINES);

	for (size_t i = 0; i < segs.n[0]; i++) {
		AUTO_FREE char *path = path_of(f, LOG_SEG, segs.number[0][i], LOG_LINES);
		struct stat st;

		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 0777, i + 1 < segs.n[0] ? 0440 : 0600);
	}
}

static void
a_segment_that_is_old_enough_is_sealed(void **state)
{
	struct fixture *f = *state;
	struct log_files before = list(f, LOG_SEG, LOG_LINES), after;

	killed(f);
	f->o.segment_max = 0;
	f->o.segment_age_us = 1;
	assert_int_equal(store_start(f, NULL), 0);
	append(f, "test", "", "{}");
	after = list(f, LOG_SEG, LOG_LINES);
	assert_int_equal(after.n[0], before.n[0] + 2); /* for the start, for the record */
	log_files_free(&before);
	log_files_free(&after);
	assert_int_equal(verify(f).nfaults, 0);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(a_start_reads_only_the_open_segment_and_finds_everything_live),
	    T(two_of_them_are_kept),
	    T(one_that_the_log_does_not_name_is_not_believed),
	    T(a_change_behind_the_beginning_is_refused_and_one_before_it_is_found_by_verify),
	    T(a_segment_that_is_missing_among_the_sealed_is_refused),
	    T(a_sealed_segment_can_only_be_read),
	    T(a_segment_that_is_old_enough_is_sealed),
	};
#undef T

	return cmocka_run_group_tests(tests, NULL, NULL);
}
