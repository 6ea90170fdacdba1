/*
 * The log on disk, read again. Runs in the writer, between batches and never for long: a slice,
 * then a rest of nine times as long. A pass ends at the size that was committed when it began; its
 * chain is checked record by record, its root against the one that the writer remembers, which
 * nobody who can only write to the disk can change. What is found is told and recorded; the log
 * goes on, since what is written now is chained to what was there. It must never write or mend
 * anything.
 */
#include "audit/writer_recheck.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/jcs.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define RECHECK_SLICE 256
#define RECHECK_REST_MS 20	/* at least, between two slices */
#define RECHECK_PASS_MAX 600000 /* at most */

struct recheck {
	struct loop *loop;
	struct loop_timer *timer;
	uint64_t pass_ms;
	int logdir;
	struct store *store;
	struct ipc *const *core;
	struct chain *chain;  /* of the pass that is under way */
	struct tree_range to; /* what was written up to its beginning */
	uint64_t took_us;     /* of this pass */
	struct log_fault damage;
	bool is_damaged;
};

static void on_timer(void *arg);

static bool
same(const struct log_fault *a, const struct log_fault *b)
{
	return a->kind == b->kind && a->seq == b->seq && a->segment == b->segment;
}

/* Nothing: what was damaged reads as it was written again. */
static void
send(struct ipc *core, const struct log_fault *f)
{
	AUTO_BUF struct buf b = BUF(512);

	if (core == NULL)
		return;
	buf_u64(&b, f != NULL ? f->seq : 0);
	buf_lz(&b, f != NULL ? log_kind_name(f->kind) : "");
	buf_lz(&b, f != NULL ? f->text : "");
	ipc_send(core, MSG_W_DAMAGE, &b, NULL, 0);
}

void
recheck_tell(const struct recheck *k, struct ipc *core)
{
	if (k->is_damaged)
		send(core, &k->damage);
}

/* The log goes on: what is written now is chained to what was there, and says that it is there no
 * more. */
static void
record(struct recheck *k)
{
	const struct log_fault *f = &k->damage;
	AUTO_BUF struct buf data = BUF(1024);
	struct err err = {0};
	uint64_t seq;
	struct jcs j;

	jcs_init(&j, &data);
	jcs_open(&j, NULL);
	jcs_z(&j, "kind", log_kind_name(f->kind));
	jcs_int(&j, "seq", (int64_t)f->seq);
	jcs_str_lossy(&j, "text", str_z(f->text));
	jcs_close(&j);
	if (store_append(k->store, "log.damage", STR("broker"), STR(""), buf_str(&data), &seq, NULL,
		&err) != 0)
		fatal("the decision log stops: %s", err.msg);
}

static void
damaged(struct recheck *k, const struct log_fault *f)
{
	bool known = k->is_damaged && same(&k->damage, f);

	k->damage = *f;
	k->is_damaged = true;
	if (known)
		return;
	log_error("the decision log on disk is not what was written: %s at record %" PRIu64 ": %s",
	    log_kind_name(f->kind), f->seq, f->text);
	record(k);
	send(*k->core, f);
}

/* Directory or file that cannot be read is damage like any other. */
static void
unreadable(struct recheck *k, const struct err *why)
{
	struct log_fault f = {.kind = LOG_KIND_MISSING,
	    .seq = k->chain != NULL ? chain_size(k->chain) : 0,
	    .segment = k->chain != NULL ? chain_segment(k->chain) : 0};

	(void)snprintf(f.text, sizeof(f.text), "cannot be read: %.140s", why->msg);
	damaged(k, &f);
}

static void
pass_end(struct recheck *k)
{
	uint64_t rest = k->took_us / 1000 * 9;

	chain_free(k->chain);
	k->chain = NULL;
	k->took_us = 0;
	rest = rest < k->pass_ms ? k->pass_ms : rest;
	rest = rest > RECHECK_PASS_MAX ? RECHECK_PASS_MAX : rest;
	k->timer = loop_timer_add(k->loop, rest, on_timer, k);
}

static void
compare(struct recheck *k)
{
	struct hash root = tree_root(chain_tree(k->chain)), want = tree_root(&k->to);
	struct log_fault f = {.kind = LOG_KIND_REWRITTEN, .last = k->to.size - 1};

	(void)snprintf(f.text, sizeof(f.text),
	    "the first %" PRIu64 " records are other ones than were written", k->to.size);
	if (!hash_eq(&root, &want)) {
		damaged(k, &f);
	} else if (!chain_pruned_ok(k->chain)) {
		/* leaf hashes are there, so the root holds: segments are gone that nobody pruned */
		f = *chain_fault(k->chain);
		f.segment = 0; /* wherever the end is now, it is the same damage */
		damaged(k, &f);
	} else if (k->is_damaged) {
		k->is_damaged = false;
		send(*k->core, NULL);
	}
}

/* False: the pass is over. */
static bool
read_slice(struct recheck *k)
{
	struct record rec;
	struct hash leaf;
	struct err why = {0};
	int r = 1;

	for (size_t i = 0; i < RECHECK_SLICE && chain_size(k->chain) < k->to.size; i++)
		if ((r = chain_next(k->chain, &rec, &leaf, &why)) != 1)
			break;
	if (r < 0) {
		unreadable(k, &why);
		return false;
	}
	if (r == 0) { /* before the size that was committed: whatever it is, it is not all there */
		struct log_fault f = *chain_fault(k->chain);

		if (f.kind == LOG_KIND_NONE || f.kind == LOG_KIND_TORN)
			f = (struct log_fault){.kind = LOG_KIND_CUT,
			    .seq = chain_size(k->chain),
			    .last = k->to.size - 1,
			    .text = "records are gone from the end"};
		damaged(k, &f);
		return false;
	}
	if (chain_size(k->chain) < k->to.size)
		return true;
	compare(k);
	return false;
}

static void
on_timer(void *arg)
{
	struct recheck *k = arg;
	uint64_t begin = clock_boot_us(), us;
	struct err why = {0};
	bool more;

	k->timer = NULL;
	if (k->chain == NULL) {
		k->to = *store_tree(k->store);
		if (k->to.size == 0 || chain_open(k->logdir, k->to.size, &k->chain, &why) != 0) {
			if (k->to.size != 0)
				unreadable(k, &why);
			pass_end(k);
			return;
		}
	}
	more = read_slice(k);
	us = clock_boot_us() - begin;
	k->took_us += us;
	if (!more)
		pass_end(k);
	else
		k->timer = loop_timer_add(k->loop, us * 9 / 1000 + RECHECK_REST_MS, on_timer, k);
}

void
recheck_again(struct recheck *k)
{
	chain_free(k->chain); /* it was to end before the record that says so */
	k->chain = NULL;
	loop_timer_del(k->timer);
	k->timer = loop_timer_add(k->loop, RECHECK_REST_MS, on_timer, k);
}

struct recheck *
recheck_new(
    struct loop *loop, int logdir, struct store *s, struct ipc *const *core, uint64_t pass_ms)
{
	struct recheck *k = xcalloc(1, sizeof(*k));

	*k = (struct recheck){
	    .loop = loop, .logdir = logdir, .store = s, .core = core, .pass_ms = pass_ms};
	k->timer = loop_timer_add(loop, RECHECK_REST_MS, on_timer, k);
	return k;
}

void
recheck_free(struct recheck *k)
{
	if (k == NULL)
		return;
	loop_timer_del(k->timer);
	chain_free(k->chain);
	free(k);
}
