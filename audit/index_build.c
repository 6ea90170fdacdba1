/*
 * Brings an index up to date: reads on in the log, a block of records at a time. Runs in the
 * command line. A block is there whole or not at all, so whoever is killed here leaves an index
 * that lags.
 */
#include "audit/index_int.h"
#include "common/clock.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define COMMIT_BLOCKS 16
#define SLOTS_FIRST ((size_t)1 << 14)

/* One term of the block that is being read: which of its records have it. */
struct slot {
	uint64_t term;
	uint32_t first, last; /* into entries, 0: none */
};
struct entry {
	uint32_t next;
	uint16_t at;
};

struct build {
	struct index *x;
	struct canon_tree *tree;
	struct slot *slot; /* open addressing, a power of two */
	size_t room, used;
	struct entry *entry; /* from 1 on */
	size_t nentries, entry_room;
	uint64_t n;  /* the block that is being read */
	uint16_t at; /* record within it */
	int64_t tmin, tmax;
	uint8_t places[INDEX_BLOCK * 4];
	bool in_txn;
	unsigned blocks; /* since the last commit */
};

static struct slot *
slot_of(struct slot *slots, size_t room, uint64_t term)
{
	size_t i = (size_t)term & (room - 1);

	while (slots[i].first != 0 && slots[i].term != term)
		i = (i + 1) & (room - 1);
	return &slots[i];
}

static void
grow(struct build *b)
{
	size_t room = 2 * b->room;
	struct slot *to = xcalloc(room, sizeof(*to));

	for (size_t i = 0; i < b->room; i++)
		if (b->slot[i].first != 0)
			*slot_of(to, room, b->slot[i].term) = b->slot[i];
	free(b->slot);
	b->slot = to;
	b->room = room;
}

static void
add_term(void *arg, enum index_kind kind, struct str value)
{
	struct build *b = arg;
	uint64_t term = index_term_hash(kind, value);
	struct slot *s = slot_of(b->slot, b->room, term);

	if (s->first != 0 && b->entry[s->last].at == b->at)
		return;
	if (b->nentries + 1 >= b->entry_room) {
		b->entry_room *= 2;
		b->entry = xreallocarray(b->entry, b->entry_room, sizeof(*b->entry));
	}
	b->entry[++b->nentries] = (struct entry){.at = b->at};
	if (s->first != 0) {
		b->entry[s->last].next = (uint32_t)b->nentries;
		s->last = (uint32_t)b->nentries;
		return;
	}
	*s = (struct slot){term, (uint32_t)b->nentries, (uint32_t)b->nentries};
	if (++b->used > b->room / 2)
		grow(b);
}

static void
begin_block(struct build *b)
{
	memset(b->slot, 0, b->room * sizeof(*b->slot));
	memset(b->places, 0xff, sizeof(b->places)); /* INDEX_NO_PLACE */
	b->used = b->nentries = 0;
	b->tmin = INT64_MAX;
	b->tmax = INT64_MIN;
}

static int
put_post(struct build *b, uint64_t n, const struct slot *s, struct err *err)
{
	uint8_t bits[INDEX_BITS] = {0}, list[INDEX_BITS];
	sqlite3_stmt *st = b->x->put_post;
	size_t count = 0;
	int rc;

	for (uint32_t e = s->first; e != 0; e = b->entry[e].next) {
		uint16_t at = b->entry[e].at;

		bits[at / 8] |= (uint8_t)(1u << (at % 8));
		if (count < INDEX_LIST_MAX) {
			list[2 * count] = (uint8_t)(at >> 8);
			list[2 * count + 1] = (uint8_t)at;
		}
		count++;
	}
	(void)sqlite3_bind_int64(st, 1, (int64_t)n);
	(void)sqlite3_bind_int64(st, 2, (int64_t)s->term);
	if (count < INDEX_LIST_MAX)
		(void)sqlite3_bind_blob(st, 3, list, (int)(2 * count), SQLITE_STATIC);
	else
		(void)sqlite3_bind_blob(st, 3, bits, sizeof(bits), SQLITE_STATIC);
	rc = sqlite3_step(st);
	(void)sqlite3_reset(st);
	return rc == SQLITE_DONE ? 0 : index_sql_err(b->x, "post", err);
}

static int
slot_cmp(const void *a, const void *b)
{
	int64_t x = (int64_t)((const struct slot *)a)->term,
		y = (int64_t)((const struct slot *)b)->term;

	return (x > y) - (x < y);
}

/* In the order of the table, so that its tree only grows at the end. */
static int
put_block(struct build *b, uint64_t n, const struct hash *leaf, struct err *err)
{
	sqlite3_stmt *st = b->x->put_block;
	size_t used = 0;
	int r = 0, rc;

	for (size_t i = 0; i < b->room; i++)
		if (b->slot[i].first != 0)
			b->slot[used++] = b->slot[i];
	qsort(b->slot, used, sizeof(*b->slot), slot_cmp);
	for (size_t i = 0; r == 0 && i < used; i++)
		r = put_post(b, n, &b->slot[i], err);
	if (r != 0)
		return r;
	(void)sqlite3_bind_int64(st, 1, (int64_t)n);
	(void)sqlite3_bind_int64(st, 2, b->tmin);
	(void)sqlite3_bind_int64(st, 3, b->tmax);
	(void)sqlite3_bind_blob(st, 4, leaf->b, HASH_LEN, SQLITE_STATIC);
	(void)sqlite3_bind_blob(st, 5, b->places, sizeof(b->places), SQLITE_STATIC);
	rc = sqlite3_step(st);
	(void)sqlite3_reset(st);
	return rc == SQLITE_DONE ? 0 : index_sql_err(b->x, "block", err);
}

static int
add_record(struct build *b, const struct record *r, const struct reader_place *at, struct err *err)
{
	uint8_t *p = b->places + (size_t)b->at * 4;
	int64_t us;

	if (at->off >= INDEX_NO_PLACE)
		return err_set(err, ERR_TOO_LARGE, "a segment over 4 GiB cannot be indexed");
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(at->off >> (24 - 8 * i));
	if (clock_parse(r->time, &us, NULL) == 0) {
		b->tmin = us < b->tmin ? us : b->tmin;
		b->tmax = us > b->tmax ? us : b->tmax;
	}
	index_terms(r, b->tree, add_term, b);
	return 0;
}

static int
commit(struct build *b, struct err *err)
{
	int r;

	b->blocks = 0;
	if (!b->in_txn)
		return 0;
	b->in_txn = false;
	r = index_exec(b->x, "COMMIT", err);
	index_unlock(b->x);
	return r;
}

/*
 * Takes the lock and puts the reader behind the newest block: another may have been here between
 * two of our transactions.
 */
static int
begin(struct build *b, struct reader *rd, struct err *err)
{
	struct reader_place last, next;
	struct hash leaf, is;
	struct record rec;
	uint64_t n;
	int r = index_lock(b->x, LOCK_EX, err);

	if (r == 0)
		r = index_exec(b->x, "BEGIN IMMEDIATE", err);
	if (r != 0)
		return r;
	b->in_txn = true;
	begin_block(b);
	if ((r = index_newest(b->x, &n, &last, &leaf, err)) <= 0)
		return r;
	if ((r = reader_seek(rd, &last, err)) == 0)
		r = reader_next(
		    rd, &rec, &next, &is, err); /* the next is checked against this one */
	if (r == ERR_NOT_FOUND || (r == 1 && next.seq != last.seq)) /* pruned meanwhile */
		return err_set(err, ERR_STATE, "index: ends before the log begins");
	if (r == 1)
		return 0;
	return r != 0 ? r : err_set(err, ERR_STATE, "index: is ahead of the log");
}

static int
read_on(struct build *b, struct reader *rd, const struct index_watch *w, struct err *err)
{
	struct reader_place at;
	struct hash leaf;
	struct record rec;
	uint64_t done = 0;
	int r;

	while ((r = b->in_txn ? 0 : begin(b, rd, err)) == 0 &&
	       (r = reader_next(rd, &rec, &at, &leaf, err)) == 1) {
		if (at.seq / INDEX_BLOCK != b->n) {
			begin_block(b); /* of the one before, the rest was pruned meanwhile */
			b->n = at.seq / INDEX_BLOCK;
		}
		b->at = (uint16_t)(at.seq % INDEX_BLOCK);
		if ((r = add_record(b, &rec, &at, err)) != 0)
			return r;
		done++;
		if (b->at != INDEX_BLOCK - 1)
			continue;
		if ((r = put_block(b, at.seq / INDEX_BLOCK, &leaf, err)) != 0)
			return r;
		begin_block(b);
		b->n++;
		if (w != NULL && w->fn != NULL)
			w->fn(w->arg, done, at.seq + 1);
		if (++b->blocks == COMMIT_BLOCKS && (r = commit(b, err)) != 0)
			return r;
	}
	return r;
}

int
index_update(struct index *x, int logdir, const struct index_watch *w, struct err *err)
{
	AUTO(reader) struct reader *rd = NULL;
	struct build *b;
	int r = reader_open(logdir, &rd, err), rc;

	if (r != 0)
		return r;
	b = xcalloc(1, sizeof(*b));
	b->x = x;
	b->tree = canon_tree_new();
	b->room = SLOTS_FIRST;
	b->slot = xcalloc(b->room, sizeof(*b->slot));
	b->entry_room = SLOTS_FIRST;
	b->entry = xcalloc(b->entry_room, sizeof(*b->entry));
	r = read_on(b, rd, w, err);
	/* Whole blocks before a fault stay. */
	if (r == 0 || r == ERR_TAMPER)
		rc = commit(b, r == 0 ? err : NULL);
	else
		rc = b->in_txn ? index_exec(x, "ROLLBACK", NULL) : 0;
	index_unlock(x);
	canon_tree_free(b->tree);
	free(b->slot);
	free(b->entry);
	free(b);
	return r != 0 ? r : rc;
}
