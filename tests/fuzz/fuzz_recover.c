/*
 * A log directory whose end was changed at will: the last segment's bytes, the newest checkpoint,
 * the last pack. A start and the verifier, which know nothing of each other, must say the same:
 * what one refuses the other calls tampered with. What stood before the damage is there afterwards;
 * of what was refused nothing is changed. A run of the verifier that goes on at a head that was
 * signed before says the same as one from the beginning.
 */
#include "tests/fuzz/log_dir.h"

#include "audit/verify.h"
#include "tests/fuzz/resume_same.h"

#include "common/banned.h"

#define RECORDS 40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct image closed, killed;

static int
fill_more(struct store *s)
{
	dir_fill(s, 3);
	return 0;
}

static int
fill(struct store *s)
{
	dir_fill(s, RECORDS);
	return dir_close(s);
}

/* One that was ended, and the same with a start that was killed behind it: with an unsigned end. */
static void
make(void)
{
	dir_make();
	assert(dir_open(fill, NULL) == 0);
	image_take(&closed);
	assert(dir_open(fill_more, NULL) == 0);
	image_take(&killed);
}

/* --- what the input does -------------------------------------------------------------------- */

/* The record that would follow, chained and hashed: anybody can do that. */
static void
next_record(struct buf *seg, struct rd *in)
{
	static const char *const types[] = {"agent.note", "log.open", "log.close", "log.segment",
	    "log.recovered", "log.full", "log.key", "log.prune", "log.heartbeat", "x.y"};
	AUTO_BUF struct buf body = BUF(RECORD_BODY_MAX), was = BUF(RECORD_LINE_MAX);
	struct str all = buf_str(seg), line = STR_NONE, b;
	uint8_t type = rd_u8(in), batch = rd_u8(in);
	struct record r;
	struct hash leaf;
	size_t end = all.n;

	/* Behind the last line, if that is one. */
	if (end != 0 && all.p[end - 1] == '\n') {
		size_t from = end - 1;

		while (from != 0 && all.p[from - 1] != '\n')
			from--;
		line = str_mem(all.p + from, end - from);
	}
	if (record_parse_line(line, &b, &leaf, NULL) != 0 || b.n >= RECORD_BODY_MAX)
		return;
	buf_put_str(&was, b);
	if (record_parse(buf_str(&was), &r, NULL) != 0)
		return;
	r.prev = leaf;
	r.seq++;
	if (batch < r.seq)
		r.batch = batch == 255 ? r.batch : r.seq - batch;
	r.type = str_z(types[type % ARRAY_LEN(types)]);
	r.src = STR("broker");
	r.data = STR("{}");
	record_body(&body, &r);
	record_line(seg, buf_str(&body), &leaf);
}

static void
copy_line(struct buf *seg, struct str was, unsigned k)
{
	struct str line;

	while (str_cut(&was, '\n', &line))
		if (k-- == 0) {
			buf_put_str(seg, line);
			buf_put_c(seg, '\n');
		}
}

/* Step by step behind `keep` bytes of what was there. */
static void
damage(struct buf *seg, struct str was, struct rd *in)
{
	struct hash leaf;

	while (in->n != 0 && seg->n < (size_t)1 << 20) {
		uint8_t op = rd_u8(in), n = 0;

		if (op != 'n' && op != 'r')
			n = rd_u8(in);
		if (op == 'n')
			next_record(seg, in);
		else if (op == 'l')
			copy_line(seg, was, n);
		else if (op == 'z')
			for (unsigned i = 0; i < n; i++)
				buf_put_c(seg, '\0');
		else if (op == 'b') /* hashed as it is */
			record_line(seg, rd_bytes(in, n < in->n ? n : in->n), &leaf);
		else
			buf_put_str(seg, rd_bytes(in, in->n));
	}
}

enum { KEEP, BYTES, GONE, OLDER };

static void
checkpoints(struct image *m, unsigned how, bool copy_alone, struct str bytes)
{
	struct image_file *f[2] = {image_find(m, LOG_CHECKPOINT), image_last(m, LOG_CP "/", "")};
	struct image_file *old = image_find(m, LOG_CP "/00000000000000000001");

	assert(f[0] != NULL && old != NULL);
	for (int i = 0; i < (copy_alone ? 1 : 2); i++) {
		if (how == KEEP)
			continue;
		if (how == GONE) {
			assert(unlinkat(dir_.fd, f[i]->name, 0) == 0);
			continue;
		}
		dir_put(f[i]->name, how == OLDER ? buf_str(&old->bytes) : bytes);
	}
}

/* --- what must hold --------------------------------------------------------------------------- */

static void
look(struct verdict *v)
{
	memset(v, 0, sizeof(*v));
	assert(verify_log(dir_.fd, &dir_.keys, NULL, 0, v, NULL) == 0);
}

static void
go_on(struct image *was)
{
	const struct image_file *f[] = {
	    image_find(was, LOG_CHECKPOINT), image_find(was, LOG_CP "/00000000000000000001")};

	for (size_t i = 0; i < ARRAY_LEN(f); i++) {
		struct pin at = {.name = "resume"};
		const struct vkey *key;
		bool resumed;

		assert(checkpoint_open(buf_str(&f[i]->bytes), &dir_.keys, &at.cp, &key, NULL) == 0);
		assert(resume_differs(dir_.fd, &dir_.keys, &at, &resumed) == NULL);
	}
}

/* Of the records that stood before the damage none is another or gone. */
static void
nothing_lost(struct image *was, const char *seg, size_t same)
{
	const struct image_file *w = image_find(was, seg);
	AUTO_BUF struct buf is = BUF((size_t)16 << 20);

	while (same != 0 && w->bytes.p[same - 1] != '\n')
		same--;
	assert(log_read_file(dir_.fd, seg, &is, NULL) == 0);
	assert(is.n >= same && memcmp(is.p, w->bytes.p, same) == 0);
}

static void
start(struct image *was, const char *seg, size_t same)
{
	struct image before = {.n = 0}, after = {.n = 0};
	struct verdict v, now;
	struct err err = {0};
	int rc;

	image_take(&before);
	look(&v);
	go_on(was);
	rc = dir_open(NULL, &err);
	if (rc != 0) {
		assert(v.nfaults != 0 || v.config[0] != '\0');
		image_take(&after);
		assert(image_eq(&before, &after));
	} else {
		assert(v.nfaults == 0 && v.config[0] == '\0');
		look(&now);
		assert(now.nfaults == 0 && verdict_status(&now) == 0 && now.size > v.size);
		assert(now.torn == 0);
	}
	nothing_lost(was, seg, same);
	image_free(&before);
	image_free(&after);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd in = rd_init(str_mem(data, size));
	AUTO_BUF struct buf seg = BUF((size_t)2 << 20);
	struct image_file *f;
	struct image *m;
	struct str cp, was;
	uint8_t how, n;
	size_t keep, same = 0;

	if (closed.n == 0)
		make();
	how = rd_u8(&in);
	keep = rd_u16(&in);
	n = rd_u8(&in);
	if (in.bad)
		return 0;
	cp = rd_bytes(&in, n < in.n ? n : in.n);
	m = (how & 1) != 0 ? &killed : &closed;
	f = image_last(m, LOG_SEG "/", LOG_LINES);
	was = buf_str(&f->bytes);
	keep = was.n - (keep < was.n ? keep : was.n); /* counted from the end */
	image_put(m);
	buf_put(&seg, was.p, keep);
	damage(&seg, was, &in);
	dir_put(f->name, buf_str(&seg));
	checkpoints(m, how >> 1 & 3, (how & 8) != 0, cp);
	while (same < seg.n && same < was.n && seg.p[same] == (uint8_t)was.p[same])
		same++;
	start(m, f->name, same);
	return 0;
}
