/* The store: batches, refusals, signing, rotation, recovery, the live records. */
#include "audit/writer_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "audit/canon.h"
#include "audit/verify.h"
#include "audit/live.h"

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
};

static void
on_record(void *arg, const struct record *r, const struct tree_range *tree)
{
	struct fixture *f = arg;

	live_record(f->live, r, tree);
}

static int
store_start(struct fixture *f, struct err *err)
{
	live_free(f->live);
	f->live = live_new();
	signer_free(f->signer);
	f->signer = NULL;
	assert_int_equal(signer_new(f->seed, &f->keys.key[0], &f->signer, NULL), 0);
	return store_open(f->dir, f->signer, &f->o, &f->store, err);
}

static void
store_stop(struct fixture *f)
{
	store_free(f->store);
	f->store = NULL;
}

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint8_t pub[32], sk[64];

	assert_non_null(f);
	memcpy(f->path, "/tmp/t_writer_store.XXXXXX", 27);
	assert_non_null(mkdtemp(f->path));
	f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->seed = secret_new(32);
	crypto_sign_seed_keypair(pub, sk, secret_bytes(f->seed));
	f->keys.n = 1;
	assert_int_equal(vkey_make(STR("o.example"), pub, &f->keys.key[0], NULL), 0);
	f->o = (struct store_opts){.ballast = 65536, .record = on_record, .arg = f};
	assert_int_equal(store_start(f, NULL), 0);
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

static int
append(struct fixture *f, const char *type, const char *run, const char *data)
{
	uint64_t seq;

	return store_append(
	    f->store, type, STR("broker"), str_z(run), str_z(data), &seq, NULL, NULL);
}

static struct verdict
verify(struct fixture *f)
{
	struct verdict v = {0};

	assert_int_equal(verify_log(f->dir, &f->keys, NULL, 0, &v, NULL), 0);
	return v;
}

static void
a_record_counts_only_once_its_batch_is_committed(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(append(f, "test", "", "{}"), 0);
	assert_int_equal(append(f, "test", "", "{}"), 0);
	assert_int_equal(store_size(f->store), 1); /* log.open */
	assert_int_equal(verify(f).size, 1);
	assert_int_equal(store_commit(f->store, NULL), 0);
	assert_int_equal(store_size(f->store), 3);
	assert_int_equal(verify(f).size, 3);

	assert_int_equal(store_unsigned(f->store), 2);
	assert_int_equal(store_checkpoint(f->store, NULL), 0);
	assert_int_equal(store_unsigned(f->store), 0);
	assert_int_equal(verify(f).verified, 3);
}

static void
what_is_not_a_record_is_refused_and_leaves_the_log_as_it_was(void **state)
{
	static const char *const data[] = {"", "[]", "1", "{\"b\":1,\"a\":1}", "{\"a\": 1}",
	    "{\"a\":1.5}", "{\"a\":null}", "{\"a\":\"\xff\"}", "{}x", "{\"a\":1,\"a\":1}"};
	struct fixture *f = *state;
	uint64_t seq;

	for (size_t i = 0; i < ARRAY_LEN(data); i++)
		assert_int_equal(append(f, "test", "", data[i]), ERR_INVALID);
	assert_int_equal(append(f, "Test", "", "{}"), ERR_INVALID);
	assert_int_equal(append(f, "test", "a b", "{}"), ERR_INVALID);
	assert_int_equal(
	    store_append(f->store, "test", STR("root"), STR(""), STR("{}"), &seq, NULL, NULL),
	    ERR_INVALID);
	assert_int_equal(store_pending(f->store), 0);
	assert_int_equal(append(f, "test", "r-1", "{\"a\":1}"), 0);
	assert_int_equal(store_commit(f->store, NULL), 0);
	assert_int_equal(verify(f).size, 2);
}

static void
the_largest_body_is_stored_and_one_byte_more_is_refused(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf data = BUF(70000);
	size_t room;

	/* Find the room there is beside the envelope, then fill it to the byte. */
	for (room = RECORD_BODY_MAX; room > 0; room--) {
		buf_reset(&data);
		buf_put_z(&data, "{\"x\":\"");
		memset(buf_grow(&data, room), 'x', room);
		buf_put_z(&data, "\"}");
		buf_put(&data, "", 1);
		if (append(f, "test", "", (const char *)data.p) == 0)
			break;
	}
	assert_true(room > RECORD_BODY_MAX - 400);
	assert_int_equal(store_commit(f->store, NULL), 0);
	assert_int_equal(verify(f).size, 2);
}

static void
a_batch_never_exceeds_what_may_be_torn(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf data = BUF(70000);

	buf_put_z(&data, "{\"x\":\"");
	memset(buf_grow(&data, 60000), 'x', 60000);
	buf_put_z(&data, "\"}");
	buf_put(&data, "", 1);
	for (int i = 0; i < 40; i++) {
		assert_int_equal(append(f, "test", "", (const char *)data.p), 0);
		assert_true(store_pending(f->store) <= STORE_BATCH_MAX);
	}
	assert_true(store_size(f->store) > 1); /* some went ahead */
	assert_int_equal(store_commit(f->store, NULL), 0);
	assert_int_equal(store_size(f->store), 41);
	assert_int_equal(verify(f).nfaults, 0);
}

static void
segments_rotate_and_stay_one_log(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	store_stop(f);
	f->o.segment_max = 2000;
	assert_int_equal(store_start(f, NULL), 0);
	for (int i = 0; i < 30; i++) {
		assert_int_equal(append(f, "test", "r", "{\"a\":1}"), 0);
		assert_int_equal(store_commit(f->store, NULL), 0);
	}
	assert_int_equal(store_close(f->store, NULL), 0);

	assert_int_equal(verify(f).nfaults, 0);
	assert_int_equal(verify(f).verified, verify(f).size);
	assert_int_equal(fstatat(f->dir, "seg/00000000000000000000.leaves", &st, 0), 0);
	assert_int_equal(st.st_size % HASH_LEN, 0);
	store_stop(f);
	assert_int_equal(store_start(f, NULL), 0);
	assert_int_equal(verify(f).nfaults, 0);
}

static void
an_old_segment_is_left_after_its_day(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	store_stop(f);
	f->o.segment_age_us = 1;
	assert_int_equal(store_start(f, NULL), 0); /* log.open goes to the next one already */
	assert_int_equal(fstatat(f->dir, "seg/00000000000000000001.jsonl", &st, 0), 0);
	assert_int_equal(verify(f).nfaults, 0);
}

static void
somebody_elses_byte_ends_the_store(void **state)
{
	struct fixture *f = *state;
	AUTO_FD int fd =
	    openat(f->dir, "seg/00000000000000000000.jsonl", O_WRONLY | O_APPEND | O_CLOEXEC);

	assert_int_equal(append(f, "test", "", "{}"), 0);
	assert_int_equal(store_commit(f->store, NULL), 0);
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(append(f, "test", "", "{}"), 0);
	assert_int_equal(store_commit(f->store, NULL), ERR_TAMPER);
	assert_int_equal(store_commit(f->store, NULL), ERR_STATE); /* and stays dead */
	assert_int_equal(append(f, "test", "", "{}"), ERR_STATE);
	assert_int_equal(store_checkpoint(f->store, NULL), ERR_STATE);
}

static void
a_segment_that_was_replaced_or_deleted_ends_the_store(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf copy = BUF(65536);
	AUTO_FD int fd = -1;

	assert_int_equal(log_read_file(f->dir, "seg/00000000000000000000.jsonl", &copy, NULL), 0);
	fd = openat(f->dir, "seg/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, copy.p, copy.n), (ssize_t)copy.n);
	assert_int_equal(renameat(f->dir, "seg/new", f->dir, "seg/00000000000000000000.jsonl"), 0);
	assert_int_equal(append(f, "test", "", "{}"), 0);
	assert_int_equal(store_commit(f->store, NULL), ERR_TAMPER);
}

static void
a_second_store_on_the_same_directory_is_refused(void **state)
{
	struct fixture *f = *state;
	struct signer *signer = NULL;
	struct store *other = NULL;

	assert_int_equal(signer_new(f->seed, &f->keys.key[0], &signer, NULL), 0);
	assert_int_equal(store_open(f->dir, signer, &f->o, &other, NULL), ERR_EXISTS);
	assert_int_equal(unlinkat(f->dir, "LOCK", 0), 0);
	assert_int_equal(store_open(f->dir, signer, &f->o, &other, NULL), ERR_EXISTS);
	signer_free(signer);
	store_stop(f);
	assert_int_equal(store_start(f, NULL), 0);
}

/* Chain a record to the only segment, as anybody who can write there can. */
static void
chain_on(struct fixture *f, const char *type)
{
	AUTO_BUF struct buf b = BUF(65536), body = BUF(65536), line = BUF(RECORD_LINE_MAX);
	AUTO_FD int fd =
	    openat(f->dir, "seg/00000000000000000000.jsonl", O_WRONLY | O_APPEND | O_CLOEXEC);
	struct str left, cut, last = STR_NONE;
	struct record r;
	struct hash leaf;

	assert_int_equal(log_read_file(f->dir, "seg/00000000000000000000.jsonl", &b, NULL), 0);
	left = buf_str(&b);
	while (str_cut(&left, '\n', &cut))
		last = str_mem(cut.p, cut.n + 1);
	assert_int_equal(record_parse_line(last, &cut, &leaf, NULL), 0);
	assert_int_equal(record_parse(cut, &r, NULL), 0);
	r.batch = ++r.seq;
	r.prev = leaf;
	r.type = str_z(type);
	r.data = STR("{}");
	record_body(&body, &r);
	record_line(&line, buf_str(&body), &leaf);
	assert_int_equal(write(fd, line.p, line.n), (ssize_t)line.n);
}

static void
a_record_behind_the_close_of_the_log_is_refused_at_start(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};

	assert_int_equal(append(f, "test", "", "{}"), 0);
	assert_int_equal(store_close(f->store, NULL), 0);
	assert_int_equal(append(f, "test", "", "{}"), ERR_STATE); /* not by us either */
	store_stop(f);
	chain_on(f, "test");
	assert_int_equal(store_start(f, &err), ERR_TAMPER);
	assert_non_null(strstr(err.msg, "record 3 stands behind the close of the log (record 2)"));
	assert_int_equal(verify(f).size, 4); /* nothing was changed */
	assert_int_equal(verify(f).faults[0].kind, LOG_KIND_AFTER_CLOSE);
}

static void
a_start_behind_the_close_goes_on_and_so_does_one_that_nobody_signed(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(store_close(f->store, NULL), 0);
	store_stop(f);
	assert_int_equal(store_start(f, NULL), 0);
	assert_int_equal(store_adopted(f->store), 0);
	assert_int_equal(store_close(f->store, NULL), 0);
	store_stop(f);
	chain_on(f, "log.open"); /* as of a start that was killed before it signed */
	chain_on(f, "log.full");
	assert_int_equal(store_start(f, NULL), 0);
	assert_int_equal(store_adopted(f->store), 2);
	assert_int_equal(verify(f).nfaults, 0);
}

static void
a_record_behind_a_start_that_nobody_signed_is_refused(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};

	assert_int_equal(store_close(f->store, NULL), 0);
	store_stop(f);
	chain_on(f, "log.open");
	chain_on(f, "test");
	assert_int_equal(store_start(f, &err), ERR_TAMPER);
	assert_non_null(
	    strstr(err.msg, "record 3 stands behind the opening of the log (record 2)"));
	assert_int_equal(verify(f).faults[0].kind, LOG_KIND_CHECKPOINT);
}

static void
an_unsigned_record_that_only_begins_a_segment_is_refused_within_one(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};

	assert_int_equal(store_close(f->store, NULL), 0);
	store_stop(f);
	chain_on(f, "log.segment");
	assert_int_equal(store_start(f, &err), ERR_TAMPER);
	assert_non_null(strstr(err.msg, "refused: resplit at seq 2"));
	assert_int_equal(verify(f).size, 3); /* nothing was changed */
	assert_int_equal(verify(f).faults[0].kind, LOG_KIND_RESPLIT);
}

static void
first_starts_that_were_killed_before_they_signed_are_taken_up(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};

	store_stop(f);
	assert_int_equal(unlinkat(f->dir, "cp/00000000000000000001", 0), 0);
	assert_int_equal(unlinkat(f->dir, "checkpoint", 0), 0);
	chain_on(f, "log.open");
	assert_int_equal(store_start(f, NULL), 0);
	assert_int_equal(store_adopted(f->store), 2);
	store_stop(f);
	assert_int_equal(unlinkat(f->dir, "cp/00000000000000000003", 0), 0);
	assert_int_equal(unlinkat(f->dir, "checkpoint", 0), 0);
	chain_on(f, "test");
	assert_int_equal(store_start(f, &err), ERR_TAMPER);
	assert_non_null(strstr(err.msg, "the log has 4 records and no checkpoint"));
}

static void
a_start_says_how_many_unsigned_records_it_went_on_from(void **state)
{
	struct fixture *f = *state;
	struct verdict v;

	assert_int_equal(append(f, "test", "", "{}"), 0);
	assert_int_equal(append(f, "test", "", "{}"), 0);
	assert_int_equal(store_commit(f->store, NULL), 0);
	store_stop(f); /* killed */
	assert_int_equal(store_start(f, NULL), 0);
	assert_int_equal(store_adopted(f->store), 2);
	v = verify(f);
	assert_int_equal(verdict_status(&v), 0);
	assert_int_equal(v.nadopted, 1);
	assert_int_equal(v.adopted[0].seq, 3);
	assert_int_equal(v.adopted[0].first, 1);
	assert_int_equal(v.adopted[0].n, 2);
	assert_int_equal(append(f, "test", "", "{}"), 0);
	assert_int_equal(store_commit(f->store, NULL), 0);
	assert_int_equal(store_checkpoint(f->store, NULL), 0);
	store_stop(f); /* killed, but all was signed */
	assert_int_equal(store_start(f, NULL), 0);
	assert_int_equal(store_adopted(f->store), 0);
	assert_int_equal(verify(f).nadopted, 1);
}

/* --- the signer ---------------------------------------------------------------------------- */

static void
the_signer_signs_no_head_but_one_that_extends_the_last(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	struct signer *s = NULL;
	struct tree_range t = {0}, other = {0};
	struct hash leaf[4], root, wrong;

	assert_int_equal(signer_new(f->seed, &f->keys.key[0], &s, NULL), 0);
	for (size_t i = 0; i < 4; i++)
		leaf[i] = record_leaf(str_mem(&i, sizeof(i)));
	tree_push(&t, &leaf[0]);
	tree_push(&t, &leaf[1]);
	root = tree_root(&t);
	assert_int_equal(signer_sign(s, leaf, 2, 2, &root, &note, NULL), 0);
	tree_push(&other, &leaf[3]); /* another history of size 3 */
	tree_push(&other, &leaf[1]);
	tree_push(&other, &leaf[2]);
	wrong = tree_root(&other);
	assert_int_equal(signer_sign(s, &leaf[2], 1, 3, &wrong, &note, NULL), ERR_TAMPER);
	assert_int_equal(signer_sign(s, leaf, 0, 1, &leaf[0], &note, NULL), ERR_TAMPER); /* back */
	tree_push(&t, &leaf[2]);
	root = tree_root(&t);
	assert_int_equal(signer_sign(s, &leaf[2], 1, 4, &root, &note, NULL), ERR_TAMPER);
	assert_int_equal(signer_sign(s, &leaf[2], 1, 3, &root, &note, NULL), 0);
	signer_free(s);
}

static void
a_seed_that_is_not_the_keys_is_refused(void **state)
{
	struct fixture *f = *state;
	AUTO(secret) struct secret *wrong = secret_new(32), *brief = secret_new(31);
	struct signer *s = NULL;

	secret_bytes(wrong)[0] = 1;
	assert_int_equal(signer_new(wrong, &f->keys.key[0], &s, NULL), ERR_CONFIG);
	assert_int_equal(signer_new(brief, &f->keys.key[0], &s, NULL), ERR_CONFIG);
	assert_int_equal(signer_new(f->seed, &f->keys.key[0], &s, NULL), 0);
	signer_free(s);
}

/* --- live records ---------------------------------------------------------------------------- */

struct seen {
	char types[512];
};

static void
see(void *arg, struct str body, const struct hash *root)
{
	struct seen *s = arg;
	struct record r;
	size_t n = strlen(s->types);

	(void)root;
	assert_int_equal(record_parse(body, &r, NULL), 0);
	(void)snprintf(
	    s->types + n, sizeof(s->types) - n, "%.*s/%.*s ", STR_ARG(r.type), STR_ARG(r.run));
}

static void
assert_live(struct fixture *f, const char *want)
{
	struct seen s = {0};

	live_each(f->live, see, &s);
	assert_string_equal(s.types, want);
}

static void
live_are_open_runs_their_approvals_and_actions_without_outcome(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(append(f, "policy.load", "", "{\"digest\":\"1\"}"), 0);
	assert_int_equal(append(f, "run.start", "r-1", "{}"), 0);
	assert_int_equal(append(f, "run.start", "r-2", "{}"), 0);
	assert_int_equal(append(f, "agent.note", "r-1", "{}"), 0);
	assert_int_equal(append(f, "approval.request", "r-1", "{\"id\":\"q\"}"), 0);
	assert_int_equal(
	    append(f, "action", "r-1", "{\"action\":\"a-1\",\"dispatch\":{\"sent\":true}}"), 0);
	assert_int_equal(
	    append(f, "action", "r-1", "{\"action\":\"a-2\",\"dispatch\":{\"sent\":true}}"), 0);
	assert_int_equal(
	    append(f, "action", "r-1", "{\"action\":\"a-3\",\"dispatch\":{\"sent\":false}}"), 0);
	assert_int_equal(append(f, "outcome", "r-1", "{\"action\":\"a-1\"}"), 0);
	assert_int_equal(append(f, "policy.load", "", "{\"digest\":\"2\"}"), 0);
	assert_int_equal(append(f, "approval.grant", "r-2", "{\"id\":\"p\"}"), 0);
	assert_live(f, "run.start/r-1 run.start/r-2 approval.request/r-1 action/r-1 policy.load/ "
		       "approval.grant/r-2 ");
	assert_int_equal(append(f, "run.end", "r-1", "{}"), 0);
	assert_live(f, "run.start/r-2 action/r-1 policy.load/ approval.grant/r-2 ");
	assert_int_equal(store_commit(f->store, NULL), 0);
	store_stop(f);
	assert_int_equal(store_start(f, NULL), 0); /* read back from disk */
	assert_live(f, "run.start/r-2 action/r-1 policy.load/ approval.grant/r-2 ");
	assert_int_equal(append(f, "outcome", "r-1", "{\"action\":\"a-2\"}"), 0);
	assert_int_equal(append(f, "run.end", "r-2", "{}"), 0);
	assert_live(f, "policy.load/ ");
	/* The one that was withdrawn stays: its successor is held to its serial and owners. */
	assert_int_equal(append(f, "policy.unload", "", "{}"), 0);
	assert_live(f, "policy.load/ policy.unload/ ");
	assert_int_equal(append(f, "policy.load", "", "{\"digest\":\"3\"}"), 0);
	assert_live(f, "policy.load/ ");
}

static void
many_live_actions_are_found_again(void **state)
{
	struct fixture *f = *state;
	char data[96];

	for (int i = 0; i < 1000; i++) {
		(void)snprintf(
		    data, sizeof(data), "{\"action\":\"a-%d\",\"dispatch\":{\"sent\":true}}", i);
		assert_int_equal(append(f, "action", "r", data), 0);
	}
	assert_int_equal(live_count(f->live), 1000);
	for (int i = 0; i < 1000; i++) {
		(void)snprintf(data, sizeof(data), "{\"action\":\"a-%d\"}", (i * 7) % 1000);
		assert_int_equal(append(f, "outcome", "r", data), 0);
	}
	assert_int_equal(live_count(f->live), 0);
}

static void
the_root_handed_back_is_that_of_the_record(void **state)
{
	struct fixture *f = *state;
	struct hash a, b, again;
	struct verdict v;
	uint64_t seq;

	assert_int_equal(
	    store_append(f->store, "test", STR("broker"), STR(""), STR("{}"), &seq, &a, NULL), 0);
	assert_int_equal(
	    store_append(f->store, "test", STR("broker"), STR(""), STR("{}"), &seq, &b, NULL), 0);
	assert_false(hash_eq(&a, &b));
	assert_int_equal(store_commit(f->store, NULL), 0);
	assert_int_equal(store_checkpoint(f->store, NULL), 0);
	v = verify(f);
	again = v.root;
	assert_true(v.verified == seq + 1 && hash_eq(&again, &b));
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(a_record_counts_only_once_its_batch_is_committed),
	    T(what_is_not_a_record_is_refused_and_leaves_the_log_as_it_was),
	    T(the_largest_body_is_stored_and_one_byte_more_is_refused),
	    T(a_batch_never_exceeds_what_may_be_torn),
	    T(segments_rotate_and_stay_one_log),
	    T(an_old_segment_is_left_after_its_day),
	    T(somebody_elses_byte_ends_the_store),
	    T(a_segment_that_was_replaced_or_deleted_ends_the_store),
	    T(a_second_store_on_the_same_directory_is_refused),
	    T(a_record_behind_the_close_of_the_log_is_refused_at_start),
	    T(a_start_behind_the_close_goes_on_and_so_does_one_that_nobody_signed),
	    T(a_record_behind_a_start_that_nobody_signed_is_refused),
	    T(an_unsigned_record_that_only_begins_a_segment_is_refused_within_one),
	    T(first_starts_that_were_killed_before_they_signed_are_taken_up),
	    T(a_start_says_how_many_unsigned_records_it_went_on_from),
	    T(the_signer_signs_no_head_but_one_that_extends_the_last),
	    T(a_seed_that_is_not_the_keys_is_refused),
	    T(live_are_open_runs_their_approvals_and_actions_without_outcome),
	    T(many_live_actions_are_found_again),
	    T(the_root_handed_back_is_that_of_the_record),
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
