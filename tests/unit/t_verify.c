/* The verifier: what each verdict says, and which finding a change becomes (the many:
 * 30-log-attacks.t). */
#include "audit/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "audit/pack.h"
#include "audit/writer_store.h"

#include "tests/unit/temp_help.h"

#include "common/banned.h"

#define SEG "seg/00000000000000000000.jsonl"
#define N 10 /* records: log.open, eight, log.close */

struct fixture {
	char path[64];
	int dir;
	struct vkeys keys;
};

static void
fill(struct store *s, const struct secret *key)
{
	AUTO_BUF struct buf frame = BUF(4096), data = BUF(4096);
	struct blob_ref ref;
	uint64_t seq;
	struct jcs j;

	for (int i = 1; i < N - 1; i++) {
		buf_reset(&data);
		jcs_init(&j, &data);
		jcs_open(&j, NULL);
		if (i == 3) {
			assert_int_equal(
			    blob_seal(key, STR("r"), "t", STR("x"), &frame, &ref, NULL), 0);
			assert_int_equal(store_blob(s, buf_str(&frame), NULL), 0);
			blob_ref_jcs(&j, "content", &ref);
		}
		jcs_int(&j, "n", i);
		jcs_close(&j);
		assert_int_equal(store_append(s, "agent.note", STR("agent"), STR("r"),
				     buf_str(&data), &seq, NULL, NULL),
		    0);
		if (i % 2 == 0) {
			assert_int_equal(store_commit(s, NULL), 0);
			assert_int_equal(store_checkpoint(s, NULL), 0);
		}
	}
}

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	AUTO(secret) struct secret *seed = secret_new(32);
	struct store_opts o = {.ballast = 4096};
	struct signer *signer = NULL;
	struct store *s = NULL;
	uint8_t pub[32], sk[64];

	assert_non_null(f);
	memcpy(f->path, "/tmp/t_verify.XXXXXX", 21);
	assert_non_null(mkdtemp(f->path));
	f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	crypto_sign_seed_keypair(pub, sk, secret_bytes(seed));
	f->keys.n = 1;
	assert_int_equal(vkey_make(STR("o.example"), pub, &f->keys.key[0], NULL), 0);
	assert_int_equal(signer_new(seed, &f->keys.key[0], &signer, NULL), 0);
	assert_int_equal(store_open(f->dir, signer, &o, &s, NULL), 0);
	fill(s, seed);
	assert_int_equal(store_close(s, NULL), 0);
	store_free(s);
	signer_free(signer);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	(void)close(f->dir);
	temp_remove(f->path);
	free(f);
	return 0;
}

static void
read_all(struct fixture *f, const char *name, struct buf *b)
{
	buf_reset(b);
	assert_int_equal(log_read_file(f->dir, name, b, NULL), 0);
}

static void
write_all(struct fixture *f, const char *name, struct str s)
{
	AUTO_FD int fd = -1;

	(void)unlinkat(f->dir, name, 0);
	fd = openat(f->dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, s.p, s.n), (ssize_t)s.n);
}

/* Line k of the segment. */
static struct str
line_at(const struct buf *b, unsigned k)
{
	struct str left = buf_str(b), line = STR_NONE;

	for (unsigned i = 0; i <= k; i++)
		assert_true(str_cut(&left, '\n', &line));
	return str_mem(line.p, line.n + 1);
}

static struct verdict
verify(struct fixture *f, const struct pin *pins, size_t n)
{
	struct verdict v = {0};

	assert_int_equal(verify_log(f->dir, &f->keys, pins, n, &v, NULL), 0);
	return v;
}

static void
assert_finding(struct fixture *f, enum log_kind kind, uint64_t seq)
{
	struct verdict v = verify(f, NULL, 0);

	assert_int_equal(verdict_status(&v), 1);
	assert_true(v.nfaults >= 1);
	assert_string_equal(log_kind_name(v.faults[0].kind), log_kind_name(kind));
	assert_int_equal(v.faults[0].seq, seq);
}

static void
a_whole_log_is_verified_to_its_size_and_says_so(void **state)
{
	struct fixture *f = *state;
	struct verdict v = verify(f, NULL, 0);
	AUTO_BUF struct buf out = BUF(65536);

	assert_int_equal(verdict_status(&v), 0);
	assert_int_equal(v.size, N);
	assert_int_equal(v.verified, N);
	assert_int_equal(v.blobs, 1);
	verdict_put(&out, &v);
	buf_put(&out, "", 1);
	assert_non_null(strstr((char *)out.p, "\nVERIFIED to size 10, root "));
	assert_non_null(strstr((char *)out.p, "signed by o.example"));
}

static void
without_checkpoints(struct fixture *f)
{
	AUTO_LOG_FILES struct log_files cps = {0};

	assert_int_equal(log_files_list(f->dir, LOG_CP, "", NULL, &cps, NULL), 0);
	for (size_t i = 0; i < cps.n[0]; i++) {
		char name[LOG_NAME_SIZE], path[64];

		log_name(name, cps.number[0][i], "");
		(void)snprintf(path, sizeof(path), "cp/%s", name);
		assert_int_equal(unlinkat(f->dir, path, 0), 0);
	}
	assert_int_equal(unlinkat(f->dir, "checkpoint", 0), 0);
}

static void
a_whole_log_without_checkpoints_is_never_called_verified(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf b = BUF(65536), out = BUF(65536);
	struct verdict v;

	without_checkpoints(f);
	assert_finding(f, LOG_KIND_CHECKPOINT, 1); /* that of its log.open was there */
	read_all(f, SEG, &b);
	write_all(f, SEG, line_at(&b, 0));
	v = verify(f, NULL, 0);
	assert_int_equal(verdict_status(&v), 3);
	verdict_put(&out, &v);
	buf_put(&out, "", 1);
	assert_non_null(strstr((char *)out.p, "UNSIGNED"));
	assert_null(strstr((char *)out.p, "VERIFIED"));
}

static void
each_change_of_the_lines_has_its_word_and_place(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf b = BUF(65536), x = BUF(65536);
	struct str five, six, after;

	read_all(f, SEG, &b);
	five = line_at(&b, 5);
	six = line_at(&b, 6);
	after = str_mem(six.p + six.n, b.n - (size_t)(six.p + six.n - (char *)b.p));
	b.p[(size_t)(five.p - (char *)b.p) + 20] ^= 1;
	write_all(f, SEG, buf_str(&b));
	assert_finding(f, LOG_KIND_CHANGED, 5);
	b.p[(size_t)(five.p - (char *)b.p) + 20] ^= 1;
	write_all(f, SEG, str_mem(b.p, (size_t)(five.p - (char *)b.p)));
	assert_finding(f, LOG_KIND_CUT, 5);

#define BUILD(...)                                                \
	do {                                                      \
		const struct str parts[] = {__VA_ARGS__};         \
		buf_reset(&x);                                    \
		buf_put(&x, b.p, (size_t)(five.p - (char *)b.p)); \
		for (size_t i = 0; i < ARRAY_LEN(parts); i++)     \
			buf_put_str(&x, parts[i]);                \
		write_all(f, SEG, buf_str(&x));                   \
	} while (0)
	BUILD(six, after);
	assert_finding(f, LOG_KIND_MISSING, 5);
	BUILD(six, five, after);
	assert_finding(f, LOG_KIND_REORDERED, 5);
	BUILD(five, five, six, after);
	assert_finding(f, LOG_KIND_DUPLICATED, 5);
	BUILD(STR("x\n"), five, six, after);
	assert_finding(f, LOG_KIND_INSERTED, 5);
	BUILD(five, six, after);
	assert_int_equal(verify(f, NULL, 0).nfaults, 0);
}

static void
a_pin_shows_a_log_that_was_rolled_back(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf b = BUF(65536), note = BUF(CHECKPOINT_MAX);
	const struct vkey *key;
	struct pin pin = {.name = "pin"};
	struct verdict v;
	struct str seven;

	read_all(f, "cp/00000000000000000010", &note);
	assert_int_equal(checkpoint_open(buf_str(&note), &f->keys, &pin.cp, &key, NULL), 0);
	read_all(f, SEG, &b);
	seven = line_at(&b, 7);
	write_all(f, SEG, str_mem(b.p, (size_t)(seven.p - (char *)b.p)));
	(void)unlinkat(f->dir, "checkpoint", 0);
	(void)unlinkat(f->dir, "cp/00000000000000000009", 0);
	(void)unlinkat(f->dir, "cp/00000000000000000010", 0);
	v = verify(f, NULL, 0);
	assert_int_equal(verdict_status(&v), 0); /* as theory says */
	v = verify(f, &pin, 1);
	assert_int_equal(verdict_status(&v), 1);
	assert_int_equal(v.faults[0].kind, LOG_KIND_CUT);
	pin.cp.size = 7;
	v = verify(f, &pin, 1);
	assert_int_equal(v.faults[0].kind, LOG_KIND_REWRITTEN);
}

/* A record chained to the last line of b, as anybody can. */
static void
chain_on(struct buf *b, const char *type, const char *data)
{
	AUTO_BUF struct buf body = BUF(65536);
	struct record r;
	struct str left = buf_str(b), line, last = STR_NONE;
	struct hash leaf;

	while (str_cut(&left, '\n', &line))
		last = str_mem(line.p, line.n + 1);
	assert_int_equal(record_parse_line(last, &line, &leaf, NULL), 0);
	assert_int_equal(record_parse(line, &r, NULL), 0);
	r.batch = ++r.seq;
	r.prev = leaf;
	r.type = str_z(type);
	r.data = str_z(data);
	r.run = STR("");
	record_body(&body, &r);
	record_line(b, buf_str(&body), &leaf);
}

static void
behind_a_close_stands_nothing_but_a_start(void **state)
{
	static const char *const bad[] = {
	    "agent.note", "log.heartbeat", "log.close", "policy.load", "log.opened"};
	static const char *const good[] = {"log.open", "log.segment", "log.recovered", "log.full"};
	struct fixture *f = *state;
	AUTO_BUF struct buf b = BUF(65536), x = BUF(65536);

	read_all(f, SEG, &b);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		buf_reset(&x);
		buf_put_str(&x, buf_str(&b));
		chain_on(&x, bad[i], "{}");
		write_all(f, SEG, buf_str(&x));
		assert_finding(f, LOG_KIND_AFTER_CLOSE, N);
		chain_on(&x, bad[i], "{}"); /* named once */
		write_all(f, SEG, buf_str(&x));
		if (strcmp(bad[i], "log.close") != 0)
			assert_int_equal(verify(f, NULL, 0).nfaults, 1);
	}
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct verdict v;

		buf_reset(&x);
		buf_put_str(&x, buf_str(&b));
		chain_on(&x, good[i], "{}");
		write_all(f, SEG, buf_str(&x));
		v = verify(f, NULL, 0);
		for (size_t k = 0; k < v.nfaults; k++)
			assert_int_not_equal(v.faults[k].kind, LOG_KIND_AFTER_CLOSE);
		assert_int_equal(v.nfaults, strcmp(good[i], "log.segment") == 0 ? 1 : 0);
		chain_on(&x, "agent.note", "{}");
		write_all(f, SEG, buf_str(&x));
		assert_int_equal(verdict_status(&v), v.nfaults != 0 ? 1 : 3);
		v = verify(f, NULL, 0);
		/* An open ends that, but its checkpoint is not there; the others do not. */
		assert_int_equal(v.faults[v.nfaults - 1].kind,
		    i == 0 ? LOG_KIND_CHECKPOINT : LOG_KIND_AFTER_CLOSE);
		assert_int_equal(v.faults[v.nfaults - 1].seq, N + 1);
	}
}

static void
what_was_adopted_unsigned_is_said_and_is_no_finding(void **state)
{
	static const char *const none[] = {"{}", "{\"unsigned\":0}", "{\"unsigned\":11}",
	    "{\"unsigned\":-1}", "{\"unsigned\":\"1\"}"};
	struct fixture *f = *state;
	AUTO_BUF struct buf b = BUF(65536), x = BUF(65536), out = BUF(65536);
	struct verdict v;

	read_all(f, SEG, &b);
	buf_put_str(&x, buf_str(&b));
	chain_on(&x, "log.open", "{\"unsigned\":10}");
	write_all(f, SEG, buf_str(&x));
	v = verify(f, NULL, 0);
	assert_int_equal(verdict_status(&v), 3);
	verdict_put(&out, &v);
	buf_put(&out, "", 1);
	assert_non_null(strstr((char *)out.p,
	    "10 records from seq 0 on were adopted unsigned at seq 10 after a crash\n"));
	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		buf_reset(&x);
		buf_put_str(&x, buf_str(&b));
		chain_on(&x, "log.open", none[i]);
		write_all(f, SEG, buf_str(&x));
		assert_int_equal(verify(f, NULL, 0).nadopted, 0);
	}
	buf_reset(&x);
	buf_put_str(&x, buf_str(&b));
	chain_on(&x, "agent.note", "{\"unsigned\":1}");
	write_all(f, SEG, buf_str(&x));
	assert_int_equal(verify(f, NULL, 0).nadopted, 0);
}

static void
a_checkpoint_that_a_start_made_is_missed_and_an_empty_file_is_not_one(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(unlinkat(f->dir, "cp/00000000000000000003", 0), 0);
	assert_int_equal(verify(f, NULL, 0).nfaults, 0); /* nobody can tell */
	assert_int_equal(unlinkat(f->dir, "cp/00000000000000000001", 0), 0);
	assert_finding(f, LOG_KIND_CHECKPOINT, 1);
	write_all(f, "cp/00000000000000000001", STR(""));
	assert_finding(f, LOG_KIND_CHECKPOINT, 1);
	assert_int_equal(verify(f, NULL, 0).nfaults, 1);
}

static void
a_segment_that_was_divided_is_told_by_its_first_record(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf b = BUF(65536), x = BUF(65536);
	struct str five;
	size_t at;

	read_all(f, SEG, &b);
	five = line_at(&b, 5);
	at = (size_t)(five.p - (char *)b.p);
	write_all(f, SEG, str_mem(b.p, at));
	write_all(f, "seg/00000000000000000005.jsonl", str_mem(b.p + at, b.n - at));
	assert_finding(f, LOG_KIND_RESPLIT, 5);
	/* Where a start stands a crash may have divided it. */
	(void)unlinkat(f->dir, "seg/00000000000000000005.jsonl", 0);
	buf_put_str(&x, buf_str(&b));
	chain_on(&x, "log.open", "{}");
	write_all(f, SEG, buf_str(&b));
	write_all(f, "seg/00000000000000000010.jsonl", str_mem(x.p + b.n, x.n - b.n));
	assert_int_equal(verify(f, NULL, 0).nfaults, 0);
}

static void
a_name_that_does_not_belong_in_the_directory_is_foreign(void **state)
{
	struct fixture *f = *state;

	write_all(f, ".tmp-checkpoint", STR("x"));
	assert_int_equal(mkdirat(f->dir, "lost+found", 0700), 0);
	assert_int_equal(verify(f, NULL, 0).nfaults, 0);
	write_all(f, "notes.txt", STR("x"));
	assert_finding(f, LOG_KIND_FOREIGN, 0);
	(void)unlinkat(f->dir, "notes.txt", 0);
	(void)unlinkat(f->dir, "ballast", 0);
	assert_int_equal(verify(f, NULL, 0).nfaults, 0);
	assert_int_equal(mkdirat(f->dir, "ballast", 0700), 0);
	assert_finding(f, LOG_KIND_FOREIGN, 0);
}

static void
bytes_in_a_pack_that_are_no_frame_are_junk_but_at_its_end(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf b = BUF(65536), x = BUF(65536);

	read_all(f, "blob/00000000000000000000.pack", &b);
	buf_put_str(&x, buf_str(&b));
	buf_put_z(&x, "CFB1junk");
	write_all(f, "blob/00000000000000000000.pack", buf_str(&x));
	assert_int_equal(verify(f, NULL, 0).nfaults, 0); /* an unfinished write */
	buf_put_str(&x, buf_str(&b));
	write_all(f, "blob/00000000000000000000.pack", buf_str(&x));
	assert_finding(f, LOG_KIND_JUNK, 0);
	buf_reset(&x);
	buf_put_z(&x, "CFB1junk");
	buf_put_str(&x, buf_str(&b));
	write_all(f, "blob/00000000000000000000.pack", buf_str(&x));
	assert_finding(f, LOG_KIND_JUNK, 0);
	buf_reset(&x);
	buf_put_str(&x, buf_str(&b));
	buf_put_str(&x, buf_str(&b)); /* frames alone */
	write_all(f, "blob/00000000000000000000.pack", buf_str(&x));
	assert_int_equal(verify(f, NULL, 0).nfaults, 0);
}

static void
content_that_was_changed_or_taken_away_is_named_by_its_record(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf b = BUF(65536);

	read_all(f, "blob/00000000000000000000.pack", &b);
	b.p[10] ^= 1; /* the nonce */
	write_all(f, "blob/00000000000000000000.pack", buf_str(&b));
	assert_finding(f, LOG_KIND_BLOB, 3);
	b.p[10] ^= 1;
	write_all(f, "blob/00000000000000000000.pack", STR(""));
	assert_finding(f, LOG_KIND_BLOB, 3);

	write_all(f, "blob/00000000000000000000.pack", buf_str(&b));
	assert_int_equal(verify(f, NULL, 0).nfaults, 0);
}

static void
references_stand_only_where_the_format_says(void **state)
{
#define H "0000000000000000000000000000000000000000000000000000000000000000"
#define REF "{\"c\":\"" H "\",\"ct\":\"" H "\",\"kid\":\"r\",\"len\":1,\"media\":\"t\"}"
	static const struct {
		const char *type, *data;
		bool is;
	} cases[] = {
	    {"agent.exec", "{\"content\":" REF "}", true},
	    {"agent.exec", "{\"other\":" REF "}", false},
	    {"agent.exec", "{\"content\":\"" H "\"}", false},
	    {"action", "{\"request\":{\"head\":" REF "}}", true},
	    {"action", "{\"head\":" REF "}", false},
	    {"run.start", "{\"task\":" REF "}", true},
	    {"run.end", "{\"task\":" REF "}", false},
	    {"policy.load", "{\"bundle\":" REF "}", true},
	    {"approval.request", "{\"show\":" REF "}", true},
	    {"approval.grant", "{\"show\":" REF "}", false},
	    {"outcome", "{\"answer\":" REF "}", true},
	    {"outcome", "{\"content\":" REF "}", false},
	};
	struct hash ct;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct record r = {.type = str_z(cases[i].type), .data = str_z(cases[i].data)};

		assert_int_equal(pack_ref_ct(&r, &ct), cases[i].is);
	}
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(a_whole_log_is_verified_to_its_size_and_says_so),
	    T(a_whole_log_without_checkpoints_is_never_called_verified),
	    T(each_change_of_the_lines_has_its_word_and_place),
	    T(a_pin_shows_a_log_that_was_rolled_back),
	    T(behind_a_close_stands_nothing_but_a_start),
	    T(what_was_adopted_unsigned_is_said_and_is_no_finding),
	    T(a_checkpoint_that_a_start_made_is_missed_and_an_empty_file_is_not_one),
	    T(a_segment_that_was_divided_is_told_by_its_first_record),
	    T(a_name_that_does_not_belong_in_the_directory_is_foreign),
	    T(bytes_in_a_pack_that_are_no_frame_are_junk_but_at_its_end),
	    T(content_that_was_changed_or_taken_away_is_named_by_its_record),
	    T(references_stand_only_where_the_format_says),
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
