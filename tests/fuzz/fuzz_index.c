/*
 * The index's file, as somebody who can write to it would leave it: bytes of a good one are changed
 * at will. Whatever it says, what a query shows is a record of the log, as it stands there, that
 * matches, once and in order; and nothing crashes.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/index.h"
#include "common/xalloc.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RECORDS 4400u /* one block, and some behind it */
#define IMAGE_MAX ((size_t)16 << 20)
#define PATCH 5 /* bytes of the input for each change: where, what */

static struct {
	char dir[64];
	int logdir;
	struct hash leaf[RECORDS];
	struct buf image;
} log_;

static void
put_record(int fd, uint64_t seq, const struct hash *prev, struct hash *ret)
{
	AUTO_BUF struct buf body = BUF(RECORD_BODY_MAX), line = BUF(RECORD_LINE_MAX),
			    data = BUF(256);
	struct record r = {.batch = 0,
	    .seq = seq,
	    .mono = 1,
	    .prev = *prev,
	    .src = STR("broker"),
	    .time = STR("2026-11-29T14:31:13.123456Z"),
	    .type = seq % 3 == 0 ? STR("action") : STR("outcome"),
	    .run = seq % 500 == 7 ? STR("r-7") : STR("r-1")};

	buf_printf(&data, "{\"action\":\"a-%llu\",\"status\":\"%s\"}", (unsigned long long)seq / 2,
	    seq % 5 == 0 ? "error" : "ok");
	r.data = buf_str(&data);
	record_body(&body, &r);
	record_line(&line, buf_str(&body), ret);
	assert(write(fd, line.p, line.n) == (ssize_t)line.n);
}

static void
path(char out[128], const char *name)
{
	(void)snprintf(out, 128, "%s/%s", log_.dir, name);
}

static void
tidy(void)
{
	static const char *const names[] = {
	    "log.db", "log.db.lock", "log.db-journal", "seg/00000000000000000000.jsonl", "seg", ""};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char p[128];

		path(p, names[i]);
		(void)remove(p);
	}
}

/* A log without signatures, which the index does not look at; its index, as bytes. */
static void
make(void)
{
	static const struct hash zero;
	struct index *x = NULL;
	struct err err = {0};
	char p[128];
	int fd;

	(void)snprintf(log_.dir, sizeof(log_.dir), "/tmp/cofferdam-fuzz-index.XXXXXX");
	assert(mkdtemp(log_.dir) != NULL);
	(void)atexit(tidy);
	path(p, "seg");
	assert(mkdir(p, 0700) == 0);
	path(p, "seg/00000000000000000000.jsonl");
	fd = open(p, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (uint32_t i = 0; i < RECORDS; i++)
		put_record(fd, i, i != 0 ? &log_.leaf[i - 1] : &zero, &log_.leaf[i]);
	(void)close(fd);
	log_.logdir = open(log_.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	path(p, "log.db");
	assert(index_open(p, log_.logdir, &x, NULL, &err) == 0 &&
	       index_update(x, log_.logdir, NULL, &err) == 0);
	index_close(x);
	buf_init(&log_.image, IMAGE_MAX);
	assert(log_read_file(log_.logdir, "log.db", &log_.image, &err) == 0);
}

/* The good file with the input's changes. */
static void
forge(const char *file, const uint8_t *data, size_t size)
{
	AUTO_FREE uint8_t *p = xmalloc(log_.image.n);
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	memcpy(p, log_.image.p, log_.image.n);
	for (; size >= PATCH; size -= PATCH, data += PATCH) {
		size_t at =
		    (size_t)data[0] << 24 | (size_t)data[1] << 16 | (size_t)data[2] << 8 | data[3];

		p[at % log_.image.n] = data[4];
	}
	assert(fd >= 0 && write(fd, p, log_.image.n) == (ssize_t)log_.image.n);
	(void)close(fd);
}

struct seen {
	const struct index_query *q;
	bool any;
	uint64_t last;
};

static bool
show(void *arg, const struct record *r, const struct hash *leaf)
{
	struct seen *s = arg;

	assert(r->seq < RECORDS && hash_eq(leaf, &log_.leaf[r->seq]));
	assert(!s->any || (s->q->oldest ? r->seq > s->last : r->seq < s->last));
	if (s->q->n != 0)
		assert(str_eq(r->run, s->q->term[0].value));
	s->any = true;
	s->last = r->seq;
	return true;
}

static void
ask(struct index *x, bool filter, bool oldest)
{
	struct index_query q = {
	    .to_us = INT64_MAX, .last = INT64_MAX, .oldest = oldest, .limit = 200};
	struct seen s = {.q = &q};
	struct index_found found;
	struct err err = {0};
	int r;

	if (filter) {
		q.n = 1;
		q.term[0].kind = INDEX_RUN;
		q.term[0].value = STR("r-7");
	}
	r = index_query(x, log_.logdir, &q, show, &s, &found, &err);
	/* Of the index's fault it says so; the log itself is whole. */
	assert(r == 0 || r == ERR_STATE || r == ERR_SYSTEM || r == ERR_NOT_FOUND);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct index *x = NULL;
	struct err err = {0};
	char file[128];

	if (log_.image.n == 0)
		make();
	path(file, "log.db");
	forge(file, data, size);
	if (index_open(file, log_.logdir, &x, NULL, &err) == 0) {
		ask(x, true, false);
		ask(x, true, true);
		ask(x, false, false);
	}
	index_close(x);
	(void)index_remove(file, &err);
	return 0;
}
