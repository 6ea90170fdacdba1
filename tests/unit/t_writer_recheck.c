/* The log on disk, read again: what is called damage, once each, and what is not. */
#include "audit/writer_recheck.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <fcntl.h>
#include <seccomp.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "audit/prune_plan.h"
#include "audit/writer_prune.h"
#include "audit/verify.h"
#include "common/cleanup.h"
#include "common/xalloc.h"

#include "tests/unit/temp_help.h"

#include "common/banned.h"

#define RECORDS 60
#define FIRST "seg/00000000000000000000.jsonl"

struct fixture {
	char path[64];
	int dir, fd; /* fd: core's end of the wire */
	struct vkeys keys;
	struct secret *seed;
	struct signer *signer;
	struct store_opts o;
	struct store *store;
	struct loop *loop;
	struct ipc *core;
	struct recheck *recheck;
	/* of the last message */
	uint64_t seq;
	char kind[32], text[256];
};

static int
on_msg(void *arg UNUSED, struct ipc *w UNUSED, uint16_t type UNUSED, struct rd *body UNUSED,
    int *fds UNUSED, size_t nfds UNUSED, struct err *err)
{
	return err_set(err, ERR_INVALID, "core says nothing here");
}

static void
on_gone(void *arg UNUSED, struct ipc *w UNUSED, const char *why)
{
	fail_msg("%s", why);
}

static void
store_start(struct fixture *f)
{
	signer_free(f->signer);
	f->signer = NULL;
	assert_int_equal(signer_new(f->seed, &f->keys.key[0], &f->signer, NULL), 0);
	assert_int_equal(store_open(f->dir, f->signer, &f->o, &f->store, NULL), 0);
}

/* What was ordered is carried out, to its end. */
static void
carry_out(struct fixture *f)
{
	struct prune *p = prune_new(f->store);
	int r;

	while ((r = prune_step(p, NULL)) != PRUNE_IDLE) {
		assert_true(r == PRUNE_MORE || r == PRUNE_COMMIT);
		assert_int_equal(store_commit(f->store, NULL), 0);
		assert_int_equal(store_checkpoint(f->store, NULL), 0);
	}
	prune_free(p);
}

static void
fill(struct fixture *f, int n)
{
	uint64_t seq;

	for (int i = 0; i < n; i++) {
		assert_int_equal(store_append(f->store, "x.y", STR("broker"), STR(""),
				     STR("{\"a\":1}"), &seq, NULL, NULL),
		    0);
		assert_int_equal(store_commit(f->store, NULL), 0);
	}
	assert_int_equal(store_checkpoint(f->store, NULL), 0);
}

static int
setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	uint8_t pub[32], sk[64];
	int sv[2];

	memcpy(f->path, "/tmp/t_writer_recheck.XXXXXX", 29);
	assert_non_null(mkdtemp(f->path));
	f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->seed = secret_new(32);
	crypto_sign_seed_keypair(pub, sk, secret_bytes(f->seed));
	f->keys.n = 1;
	assert_int_equal(vkey_make(STR("o.example"), pub, &f->keys.key[0], NULL), 0);
	f->o = (struct store_opts){.ballast = 65536, .segment_max = 4096};
	store_start(f);
	fill(f, RECORDS);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	f->loop = loop_new();
	f->core = ipc_new(f->loop, sv[0], IPC_ROLE_WRITER, IPC_ROLE_CORE, on_msg, on_gone, f);
	f->fd = sv[1];
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	recheck_free(f->recheck);
	ipc_free(f->core);
	loop_free(f->loop);
	store_free(f->store);
	signer_free(f->signer);
	secret_free(f->seed);
	(void)close(f->fd);
	(void)close(f->dir);
	temp_remove(f->path);
	free(f);
	return 0;
}

/* The next thing that core is told: a fault's name, or "": nothing is damaged. */
static const char *
told(struct fixture *f)
{
	AUTO_BUF struct buf b = BUF(4096);
	int fds[IPC_FDS_MAX];
	size_t nfds = 0;
	struct str kind, text;
	uint16_t type;
	struct rd r;

	for (int turns = 0; turns < 6000; turns++) {
		(void)loop_turn(f->loop);
		if (ipc_sync_recv(f->fd, IPC_ROLE_CORE, IPC_ROLE_WRITER, 10, &type, &b, fds, &nfds,
			NULL) != 0)
			continue;
		assert_int_equal(type, MSG_W_DAMAGE);
		r = rd_init(buf_str(&b));
		f->seq = rd_u64(&r);
		kind = rd_lstr(&r);
		text = rd_lstr(&r);
		(void)snprintf(f->kind, sizeof(f->kind), "%.*s", STR_ARG(kind));
		(void)snprintf(f->text, sizeof(f->text), "%.*s", STR_ARG(text));
		assert_true(rd_end(&r));
		return f->kind;
	}
	return "nobody says anything";
}

static void
begin(struct fixture *f)
{
	f->recheck = recheck_new(f->loop, f->dir, f->store, &f->core, 1);
}

/* --- files ----------------------------------------------------------------------------------- */

static void
get(struct fixture *f, const char *name, struct buf *out)
{
	assert_int_equal(log_read_file(f->dir, name, out, NULL), 0);
}

/* In its place, so that the writer's own descriptor sees it. */
static void
put(struct fixture *f, const char *name, struct str bytes)
{
	AUTO_FD int fd = openat(f->dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes.p, bytes.n, 0), (ssize_t)bytes.n);
	assert_int_equal(ftruncate(fd, (off_t)bytes.n), 0);
}

/* Lines from `at` on say something else and are chained anew, in this segment. */
static void
rehash(struct fixture *f, const char *name, uint64_t at)
{
	AUTO_BUF struct buf was = BUF(1 << 20), is = BUF(1 << 20);
	struct hash leaf = {{0}}, old;
	struct str left, line;
	bool changed = false;

	get(f, name, &was);
	left = buf_str(&was);
	while (str_cut(&left, '\n', &line)) {
		AUTO_BUF struct buf body = BUF(RECORD_BODY_MAX);
		struct record r;
		struct str b;

		assert_int_equal(record_parse_line(str_mem(line.p, line.n + 1), &b, &old, NULL), 0);
		assert_int_equal(record_parse(b, &r, NULL), 0);
		if (changed)
			r.prev = leaf;
		if (r.seq == at)
			r.data = STR("{\"a\":2}");
		changed = changed || r.seq == at;
		record_body(&body, &r);
		record_line(&is, buf_str(&body), &leaf);
	}
	assert_true(changed);
	put(f, name, buf_str(&is));
}

/* As `cofferdam log prune --before-seq` and the writer behind it. */
static void
prune(struct fixture *f, uint64_t before)
{
	AUTO_BUF struct buf text = BUF(PRUNE_ORDER_MAX), note = BUF(PRUNE_ORDER_MAX);
	struct prune_limit limit = {.seq = before, .time_us = INT64_MAX};
	struct prune_plan plan;
	struct verdict v = {0};
	uint8_t pub[32], sk[64], sig[64];

	assert_int_equal(store_close(f->store, NULL), 0);
	store_free(f->store);
	f->store = NULL;
	assert_int_equal(verify_log(f->dir, &f->keys, NULL, 0, &v, NULL), 0);
	assert_int_equal(prune_plan(f->dir, &v, &limit, true, &plan, NULL), 0);
	assert_true(plan.order.from < plan.order.to.size);
	memcpy(plan.order.by, "test", 5);
	memcpy(plan.order.reason, "old", 4);
	prune_order_text(&text, &plan.order);
	buf_put_str(&note, buf_str(&text));
	buf_put_c(&note, '\n');
	crypto_sign_seed_keypair(pub, sk, secret_bytes(f->seed));
	(void)crypto_sign_detached(sig, NULL, text.p, text.n, sk);
	note_put_sig(&note, &f->keys.key[0], sig);
	put(f, "prune", buf_str(&note));
	store_start(f);
	carry_out(f);
	assert_int_not_equal(faccessat(f->dir, FIRST, F_OK, 0), 0);
}

/* The name of the oldest segment that is there. */
static void
oldest(struct fixture *f, char out[64])
{
	AUTO_LOG_FILES struct log_files seg = {0};
	char name[LOG_NAME_SIZE];

	assert_int_equal(log_files_list(f->dir, LOG_SEG, LOG_LINES, LOG_LEAVES, &seg, NULL), 0);
	assert_true(seg.n[0] > 2);
	log_name(name, seg.number[0][0], LOG_LINES);
	(void)snprintf(out, 64, LOG_SEG "/%s", name);
}

/* The records of that type, committed or not. */
static size_t
count(struct fixture *f, const char *type)
{
	struct chain *c = NULL;
	struct record r;
	struct hash leaf;
	size_t n = 0;

	assert_int_equal(store_commit(f->store, NULL), 0);
	assert_int_equal(chain_open(f->dir, 0, &c, NULL), 0);
	while (chain_next(c, &r, &leaf, NULL) == 1)
		n += str_eqz(r.type, type);
	chain_free(c);
	return n;
}

/* --- tests -------------------------------------------------------------------------------------
 */

static void
a_changed_byte_is_told_once_and_so_is_that_it_was_mended(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf was = BUF(1 << 20), is = BUF(1 << 20);

	get(f, FIRST, &was);
	buf_put_str(&is, buf_str(&was));
	is.p[is.n / 2] ^= 1;
	put(f, FIRST, buf_str(&is));
	begin(f);
	assert_string_equal(told(f), "changed");
	assert_true(f->seq > 0 && f->seq < RECORDS);
	for (int i = 0; i < 100; i++) { /* passes that find the same */
		(void)loop_turn(f->loop);
		(void)usleep(1000);
	}
	put(f, FIRST, buf_str(&was));
	assert_string_equal(told(f), "");
	assert_int_equal(count(f, "log.damage"), 1);
}

static void
what_was_rewritten_and_hashed_anew_is_not_what_was_written(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf was = BUF(1 << 20);
	AUTO_LOG_FILES struct log_files seg = {0};
	char name[LOG_NAME_SIZE], path[64];

	/* The last segment to its end: no record behind it tells. */
	assert_int_equal(log_files_list(f->dir, LOG_SEG, LOG_LINES, LOG_LEAVES, &seg, NULL), 0);
	log_name(name, seg.number[0][seg.n[0] - 1], LOG_LINES);
	(void)snprintf(path, sizeof(path), LOG_SEG "/%s", name);
	get(f, path, &was);
	rehash(f, path, RECORDS);
	begin(f);
	assert_string_equal(told(f), "rewritten");
	put(f, path, buf_str(&was));
	assert_string_equal(told(f), "");
}

static void
records_that_are_gone_from_the_end_are_cut(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf was = BUF(1 << 20);
	AUTO_LOG_FILES struct log_files seg = {0};
	char name[LOG_NAME_SIZE], path[64];
	size_t n;

	assert_int_equal(log_files_list(f->dir, LOG_SEG, LOG_LINES, LOG_LEAVES, &seg, NULL), 0);
	log_name(name, seg.number[0][seg.n[0] - 1], LOG_LINES);
	(void)snprintf(path, sizeof(path), LOG_SEG "/%s", name);
	get(f, path, &was);
	for (n = was.n - 1; n > 0 && was.p[n - 1] != '\n'; n--)
		;
	put(f, path, str_mem(was.p, n));
	begin(f);
	assert_string_equal(told(f), "cut");
	assert_int_equal(f->seq, store_size(f->store) - 1);
	put(f, path, buf_str(&was));
	assert_string_equal(told(f), "");
	put(f, path, str_mem(was.p, n + 5)); /* within a record */
	assert_string_equal(told(f), "cut");
	put(f, path, buf_str(&was));
	assert_string_equal(told(f), "");
	assert_int_equal(count(f, "log.damage"), 2);
}

static void
segments_that_are_begun_while_it_reads_change_nothing(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf was = BUF(1 << 20), is = BUF(1 << 20);
	uint64_t first = store_durable(f->store).first;

	get(f, FIRST, &was);
	buf_put_str(&is, buf_str(&was));
	is.p[100] ^= 1;
	begin(f);
	(void)loop_turn(f->loop);
	for (int i = 0; i < 5; i++) {
		fill(f, 20);
		(void)loop_turn(f->loop);
	}
	assert_true(store_durable(f->store).first > first);
	/* The next thing that is said is the damage, and then that there is none. */
	put(f, FIRST, buf_str(&is));
	assert_string_equal(told(f), "changed");
	put(f, FIRST, buf_str(&was));
	assert_string_equal(told(f), "");
	assert_int_equal(count(f, "log.damage"), 1);
}

static void
a_pruned_log_is_as_it_was_written_and_what_is_changed_in_it_is_told(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf was = BUF(1 << 20), is = BUF(1 << 20), leaves = BUF(1 << 20);
	char path[64];

	prune(f, 40);
	oldest(f, path);
	get(f, path, &was);
	buf_put_str(&is, buf_str(&was));
	is.p[is.n / 2] ^= 1;
	put(f, path, buf_str(&is));
	begin(f);
	assert_string_equal(told(f), "changed");
	put(f, path, buf_str(&was));
	assert_string_equal(told(f), "");
	/* Leaf hashes are all that is left of pruned records: they are in the root. */
	get(f, "seg/00000000000000000000.leaves", &leaves);
	leaves.p[3] ^= 1;
	put(f, "seg/00000000000000000000.leaves", buf_str(&leaves));
	assert_string_not_equal(told(f), "");
	leaves.p[3] ^= 1;
	put(f, "seg/00000000000000000000.leaves", buf_str(&leaves));
	assert_string_equal(told(f), "");
}

static void
an_old_segment_that_nobody_pruned_is_missing_from_the_first_pass_on(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf was = BUF(1 << 20);

	get(f, FIRST, &was);
	assert_int_equal(unlinkat(f->dir, FIRST, 0), 0); /* its leaf hashes stay: the root holds */
	begin(f);
	assert_string_equal(told(f), "missing");
	assert_int_equal(f->seq, 0);
	fill(f, 40); /* another segment: still the same damage */
	put(f, FIRST, buf_str(&was));
	assert_string_equal(told(f), "");
	assert_int_equal(count(f, "log.damage"), 1);
}

static void
behind_a_prune_one_segment_more_is_missing(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf was = BUF(1 << 20);
	char path[64];

	prune(f, 40);
	oldest(f, path);
	get(f, path, &was);
	assert_int_equal(unlinkat(f->dir, path, 0), 0);
	begin(f);
	assert_string_equal(told(f), "missing");
	put(f, path, buf_str(&was));
	assert_string_equal(told(f), "");
}

static void
core_that_comes_later_is_told_what_is_damaged_now(void **state)
{
	struct fixture *f = *state;
	AUTO_BUF struct buf was = BUF(1 << 20);

	get(f, FIRST, &was);
	assert_int_equal(unlinkat(f->dir, FIRST, 0), 0);
	begin(f);
	recheck_tell(f->recheck, f->core); /* not known yet: nothing */
	assert_string_equal(told(f), "missing");
	recheck_tell(f->recheck, f->core);
	assert_string_equal(told(f), "missing");
	put(f, FIRST, buf_str(&was));
	assert_string_equal(told(f), "");
	assert_int_equal(count(f, "log.damage"), 1);
}

/* In a child, whose reads fail from here on. */
static int
with_reads_that_fail(struct fixture *f)
{
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);

	if (c == NULL || seccomp_rule_add(c, SCMP_ACT_ERRNO(EIO), SCMP_SYS(pread64), 0) != 0 ||
	    seccomp_load(c) != 0)
		return 2;
	seccomp_release(c);
	begin(f);
	if (strcmp(told(f), "missing") != 0 || strstr(f->text, "cannot be read") == NULL ||
	    strstr(f->text, strerror(EIO)) == NULL)
		return 3;
	return store_pending(f->store) != 0 ? 0 : 4; /* the record of it */
}

static void
what_cannot_be_read_is_damage_and_the_writer_goes_on(void **state)
{
	struct fixture *f = *state;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(with_reads_that_fail(f));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(a_changed_byte_is_told_once_and_so_is_that_it_was_mended),
	    T(what_was_rewritten_and_hashed_anew_is_not_what_was_written),
	    T(records_that_are_gone_from_the_end_are_cut),
	    T(segments_that_are_begun_while_it_reads_change_nothing),
	    T(a_pruned_log_is_as_it_was_written_and_what_is_changed_in_it_is_told),
	    T(an_old_segment_that_nobody_pruned_is_missing_from_the_first_pass_on),
	    T(behind_a_prune_one_segment_more_is_missing),
	    T(core_that_comes_later_is_told_what_is_damaged_now),
	    T(what_cannot_be_read_is_damage_and_the_writer_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
