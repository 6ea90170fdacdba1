/*
 * Orders to prune and handovers of keys, laid into a log by whoever can write there, and by whoever
 * has its key. Without the key's signature none is one. With it the writer carries out what is
 * right, and nothing else: whatever it says, and whatever lies in kept/, the log that is there
 * afterwards verifies, and every record that was to stay is where it was.
 */
#include "tests/fuzz/log_dir.h"

#include "audit/handover.h"
#include "audit/prune_plan.h"
#include "audit/pruned.h"
#include "audit/verify.h"
#include "audit/writer_prune.h"

#include "common/banned.h"

#define RECORDS 60

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct image log_;
static struct prune_plan plan; /* of an order that is right: its files lie in kept/ */
static struct hash leaf[4 * RECORDS];
static size_t leaves;

static int
fill(struct store *s)
{
	dir_fill(s, RECORDS);
	return dir_close(s);
}

static void
look(struct verdict *v)
{
	memset(v, 0, sizeof(*v));
	assert(verify_log(dir_.fd, &dir_.keys, NULL, 0, v, NULL) == 0);
}

static void
make(void)
{
	struct prune_limit limit = {.seq = 40, .time_us = INT64_MAX};
	struct chain *c = NULL;
	struct record rec;
	struct verdict v;

	dir_make();
	assert(dir_open(fill, NULL) == 0);
	look(&v);
	assert(prune_plan(dir_.fd, &v, &limit, true, &plan, NULL) == 0);
	assert(plan.order.from < plan.order.to.size);
	memcpy(plan.order.by, "test", 5);
	memcpy(plan.order.reason, "old", 4);
	image_take(&log_);
	assert(chain_open(dir_.fd, 0, &c, NULL) == 0);
	while (leaves < ARRAY_LEN(leaf) && chain_next(c, &rec, &leaf[leaves], NULL) == 1)
		leaves++;
	chain_free(c);
}

/* --- as text ------------------------------------------------------------------------------------
 */

static void
sign_by(struct buf *note, struct str text, const uint8_t sk[64], const struct vkey *key)
{
	uint8_t sig[64];

	(void)crypto_sign_detached(sig, NULL, (const uint8_t *)text.p, text.n, sk);
	note_put_sig(note, key, sig);
}

/* What the parser behind the signature is given: the input, signed as it is. */
static void
sign(struct buf *note, struct str text)
{
	buf_put_str(note, text);
	buf_put_c(note, '\n');
	sign_by(note, text, dir_.sk, &dir_.keys.key[0]);
}

static void
as_text(struct str text)
{
	AUTO_BUF struct buf note = BUF((size_t)1 << 20), again = BUF(PRUNE_ORDER_MAX);
	struct prune_order o;

	if (prune_order_open(text, &dir_.keys, &o, NULL) == 0) {
		/* Ed25519 gives one signature: only what a holder of the key made passes. */
		prune_order_text(&again, &o);
		assert(again.n < text.n && memcmp(again.p, text.p, again.n) == 0);
	}
	buf_reset(&again);
	sign(&note, text);
	if (prune_order_open(buf_str(&note), &dir_.keys, &o, NULL) != 0)
		return;
	prune_order_text(&again, &o);
	assert(str_eq(buf_str(&again), text) && o.from < o.to.size); /* one spelling only */
}

/* From the log's key to the next one, signed by both. */
static void
as_handover(struct str text)
{
	AUTO_BUF struct buf note = BUF((size_t)1 << 20), again = BUF(HANDOVER_MAX);
	uint8_t seed[32] = {1}, pub[32], sk[64];
	struct handover h;
	struct vkey next;

	(void)crypto_sign_seed_keypair(pub, sk, seed);
	assert(vkey_make(STR("o.example"), pub, &next, NULL) == 0);
	sign(&note, text);
	sign_by(&note, text, sk, &next);
	if (handover_open(buf_str(&note), &h, NULL) != 0)
		return;
	handover_text(&again, &h);
	assert(str_eq(buf_str(&again), text) && h.old.last <= h.at.size);
}

/* --- in a log --------------------------------------------------------------------------------- */

/* A byte of what is kept, or of the leaf hashes that stay. */
static void
change_file(unsigned k, unsigned at)
{
	const struct image_file *f = &log_.file[k % log_.n];
	AUTO_BUF struct buf b = BUF((size_t)16 << 20);

	if (!str_has_prefix(str_z(f->name), LOG_KEPT) || f->bytes.n == 0)
		return;
	buf_put_str(&b, buf_str(&f->bytes));
	b.p[at % b.n] ^= 1;
	dir_put(f->name, buf_str(&b));
}

/* Fields of the right order changed; which, and to what, the input says. */
static void
change(struct prune_order *o, struct rd *in)
{
	uint64_t *const number[] = {&o->to.size, &o->from, &o->segments, &o->bytes, &o->kept};

	while (in->n >= 2 && !in->bad) {
		uint8_t op = rd_u8(in), v = rd_u8(in);

		if (op == 'r')
			o->to.root.b[v & 31] ^= 1;
		else if (op == 'k')
			o->kept_sha256.b[v & 31] ^= 1;
		else if (op == 'f')
			change_file(v, rd_u16(in));
		else if (op == 'd') /* the digest of what is there */
			(void)kept_digest(dir_.fd, o->from, o->to.size, &o->kept_sha256, NULL);
		else if (op == 's') /* another end, with its own root */
			o->to.root = tree_root_of(leaf, o->to.size = v % (leaves + 1));
		else
			*number[op % ARRAY_LEN(number)] = v;
	}
}

static bool
is_there(struct image *now, const struct image_file *f)
{
	const struct image_file *is = image_find(now, f->name);

	return is != NULL && is->bytes.n >= f->bytes.n &&
	       memcmp(is->bytes.p, f->bytes.p, f->bytes.n) == 0;
}

/* Segments from `first` on are what they were, and so are all leaf hashes. */
static void
check_stays(uint64_t first)
{
	struct image now = {.n = 0};
	char name[LOG_NAME_SIZE], begin[64];

	log_name(name, first, LOG_LINES);
	(void)snprintf(begin, sizeof(begin), LOG_SEG "/%s", name);
	image_take(&now);
	assert(image_find(&now, begin) != NULL);
	for (size_t i = 0; i < log_.n; i++) {
		const struct image_file *f = &log_.file[i];

		if (str_has_prefix(str_z(f->name), LOG_CP) ||
		    (str_has_prefix(str_z(f->name), LOG_SEG) &&
			(str_has_suffix(str_z(f->name), LOG_LEAVES) ||
			    strcmp(f->name, begin) >= 0)))
			assert(is_there(&now, f));
	}
	image_free(&now);
}

/* As the writer does between its batches. */
static int
carry_out(struct store *s)
{
	struct prune *p = prune_new(s);
	int r;

	while ((r = prune_step(p, NULL)) > PRUNE_IDLE)
		if (r == PRUNE_COMMIT)
			assert(store_commit(s, NULL) == 0 && store_checkpoint(s, NULL) == 0);
	prune_free(p);
	return r;
}

/* A writer with that order in its place. */
static void
as_order(struct rd *in)
{
	AUTO_BUF struct buf text = BUF((size_t)1 << 16), note = BUF((size_t)1 << 16);
	struct prune_order o = plan.order;
	struct verdict before, after;

	image_put(&log_);
	look(&before);
	change(&o, in);
	prune_order_text(&text, &o);
	sign(&note, buf_str(&text));
	dir_put(LOG_PRUNE, buf_str(&note));
	assert(before.nfaults == 0 && dir_open(carry_out, NULL) == 0);
	look(&after);
	assert(after.nfaults == 0 && verdict_status(&after) == 0 && after.size > before.size);
	assert(after.pruned == 0 || after.pruned == o.to.size);
	check_stays(after.pruned);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd in = rd_init(str_mem(data, size));

	if (log_.n == 0)
		make();
	if (size != 0 && data[0] == 0xff) {
		(void)rd_u8(&in);
		as_order(&in);
	} else {
		as_text(str_mem(data, size));
		as_handover(str_mem(data, size));
	}
	return 0;
}
