/*
 * What consistency proofs for witnesses are made from. Runs in the writer. Each witness has a span
 * from the size it cosigned last, and each new leaf is pushed onto it; a size that lies before what
 * this start has read is found by reading the log's leaves again, a few thousand a turn, so that no
 * record waits for it. Leaves read from files are believed only once a proof from them holds.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/writer_witness_int.h"
#include "common/log.h"

#include "common/banned.h"

#define READ_TICK_MS 2
#define READ_LEAVES 4096

/* --- feeding ---------------------------------------------------------------------------- */

static void
begin_where_it_is(struct witnesses *w, struct one *o)
{
	if (o->spanned || o->size != w->fed.size || w->reading.of == o)
		return;
	tree_span_begin(o->span, &w->fed);
	o->spanned = true;
}

void
wit_feed(struct witnesses *w, uint64_t size)
{
	size_t n = 0;

	for (; n < w->queue.n && w->fed.size < size; n++) {
		for (size_t i = 0; i < w->n; i++) {
			struct one *o = &w->one[i];

			begin_where_it_is(w, o);
			if (o->spanned && o->size != 0)
				tree_span_push(o->span, &w->queue.p[n]);
			if (o->asked)
				tree_span_push(o->next, &w->queue.p[n]);
		}
		tree_push(&w->fed, &w->queue.p[n]);
	}
	w->queue.n -= n;
	memmove(w->queue.p, w->queue.p + n, w->queue.n * sizeof(struct hash));
	for (size_t i = 0; i < w->n; i++)
		begin_where_it_is(w, &w->one[i]);
}

/* --- reading again ------------------------------------------------------------------------- */

static void
file_close(struct reading *r)
{
	segment_free(TAKE_PTR(r->lines));
	cleanup_close_fd(&r->leaves);
}

void
wit_read_stop(struct witnesses *w)
{
	struct reading *r = &w->reading;

	file_close(r);
	log_files_free(&r->files);
	loop_timer_del(TAKE_PTR(r->timer));
	r->of = NULL;
}

/* The segment that begins at r->tree.size, or more of the one that is being written. */
static int
file_open(struct witnesses *w, struct err *err)
{
	struct reading *r = &w->reading;
	char name[LOG_NAME_SIZE];
	int rc;

	log_files_free(&r->files);
	rc = log_files_list(w->logdir, LOG_SEG, LOG_LINES, LOG_LEAVES, &r->files, err);
	if (rc != 0)
		return rc;
	if (r->off != 0 && !log_files_has(&r->files, 0, r->tree.size)) {
		rc = segment_open(w->segdir, r->first, &r->lines, err);
		if (rc == 0)
			segment_skip(r->lines, r->off);
		return rc;
	}
	r->first = r->tree.size;
	r->off = 0;
	log_name(name, r->first, LOG_LEAVES);
	if (log_files_has(&r->files, 1, r->first))
		return log_open_file(w->segdir, name, O_RDONLY, &r->leaves, err);
	return segment_open(w->segdir, r->first, &r->lines, err);
}

static void
take_leaf(struct witnesses *w, const struct hash *leaf)
{
	struct reading *r = &w->reading;
	struct one *o = r->of;

	if (r->tree.size == o->size)
		tree_span_begin(o->span, &r->tree);
	if (r->tree.size >= o->size)
		tree_span_push(o->span, leaf);
	tree_push(&r->tree, leaf);
}

/* How many were taken, or an error. */
static int
take_leaves(struct witnesses *w, struct err *err)
{
	struct reading *r = &w->reading;
	uint64_t left = w->fed.size - r->tree.size;
	size_t want = left < READ_LEAVES ? (size_t)left : READ_LEAVES, got = 0;
	struct hash some[64], leaf;
	struct str line, body;
	int n = 0, rc = 0;
	uint64_t off;

	if (r->lines != NULL) {
		for (; (size_t)n < want && rc == 0; n++) {
			if (segment_next(r->lines, &line, &off, err) != SEGMENT_LINE)
				break;
			if ((rc = record_parse_line(line, &body, &leaf, err)) != 0)
				break;
			take_leaf(w, &leaf);
			r->off = off + line.n;
		}
		return rc != 0 ? rc : n;
	}
	while ((size_t)n < want) {
		size_t k = want - (size_t)n < 64 ? want - (size_t)n : 64;

		rc = log_pread(
		    r->leaves, some, k * HASH_LEN, (r->tree.size - r->first) * HASH_LEN, &got, err);
		if (rc != 0)
			return rc;
		for (size_t i = 0; i < got / HASH_LEN; i++)
			take_leaf(w, &some[i]);
		n += (int)(got / HASH_LEN);
		if (got < k * HASH_LEN)
			break;
	}
	return n;
}

/* One turn: 1 there is more, 0 all is read, or an error. */
static int
read_some(struct witnesses *w, struct err *err)
{
	struct reading *r = &w->reading;
	int n;

	if (r->tree.size == w->fed.size)
		return 0;
	if (r->lines == NULL && r->leaves < 0) {
		if ((n = file_open(w, err)) != 0)
			return n;
	}
	n = take_leaves(w, err);
	if (n > 0)
		r->ended = 0;
	if (n != 0)
		return n < 0 ? n : 1;
	file_close(r); /* the end of it, as it was when it was opened */
	if (++r->ended > 2)
		return err_set(err, ERR_TAMPER, "record %" PRIu64 " is not there", r->tree.size);
	return 1;
}

static void
read_whole(struct witnesses *w)
{
	struct reading *r = &w->reading;
	struct one *o = r->of;
	struct hash is = tree_root(&r->tree), root = tree_root(&w->fed);

	wit_read_stop(w);
	if (!hash_eq(&is, &root)) {
		wit_failed(w, o,
		    "the log's own files are not what was signed: cofferdam log verify says where");
		return;
	}
	if (o->size == w->fed.size)
		tree_span_begin(o->span, &w->fed);
	o->spanned = true;
	o->due_ms = 0;
	wit_next(w);
}

static void
on_tick(void *arg)
{
	struct witnesses *w = arg;
	struct reading *r = &w->reading;
	struct one *o = r->of;
	struct err err = {0};
	int rc = read_some(w, &err);

	r->timer = NULL;
	if (rc == 1) {
		r->timer = loop_timer_add(w->loop, READ_TICK_MS, on_tick, w);
	} else if (rc == 0) {
		read_whole(w);
	} else {
		wit_read_stop(w);
		wit_failed(w, o, "the log cannot be read for its proof: %s", err.msg);
	}
}

void
wit_locate(struct witnesses *w, struct one *o)
{
	struct reading *r = &w->reading;

	begin_where_it_is(w, o);
	if (o->spanned || r->of != NULL || o->size > w->fed.size)
		return;
	r->of = o;
	r->off = 0;
	r->ended = 0;
	r->tree = o->size >= w->from.size ? w->from : (struct tree_range){0};
	r->timer = loop_timer_add(w->loop, 0, on_tick, w);
}
