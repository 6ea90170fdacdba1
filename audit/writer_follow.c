/*
 * Reading along. Runs in the writer. The courier connects to the outside and may be taken over: it
 * can ask for public records again and again, and is given a piece each few milliseconds, whatever
 * it asks; it can write nothing. Only what is synced is shown, and each line is held against its
 * hash.
 */
#include "audit/writer_follow.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "audit/segment.h"
#include "audit/writer_witness.h"
#include "common/log.h"
#include "common/webhook.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define TICK_MS 5
#define READ_MAX ((size_t)256 << 10)   /* bytes of a segment looked at for one question */
#define ANSWER_MAX ((size_t)256 << 10) /* of records in one answer; the last may go over it */
#define NAME_MAX_ 64
#define WHY_MAX 512

struct reader {
	bool asked, parked; /* parked: there was nothing more when it was looked at */
	uint64_t from;
	size_t npatterns;
	char *patterns[FOLLOW_PATTERNS];
	int fd;			  /* of a segment; -1: none */
	uint64_t first, seq, off; /* that segment; the record that begins at off */
};

struct took {
	char *name;
	struct buf body;
};

struct follow {
	struct loop *loop;
	int logdir;
	const struct store *store;
	uint64_t start;
	struct ipc *wire;
	struct loop_timer *timer;
	size_t turn;
	struct reader readers[FOLLOW_READERS];
	struct took took[FOLLOW_READERS];
	follow_took_fn *on_took;
	void *arg;
	struct witnesses *witnesses;
};

/* --- where a reader stands ---------------------------------------------------------- */

static void
patterns_free(struct reader *r)
{
	for (size_t i = 0; i < r->npatterns; i++)
		free(r->patterns[i]);
	r->npatterns = 0;
}

static void
reader_close(struct reader *r)
{
	cleanup_close_fd(&r->fd);
	r->first = r->seq = r->off = 0;
}

static int
segment_at(struct follow *f, struct reader *r, uint64_t first, struct err *err)
{
	char name[LOG_NAME_SIZE];
	int rc;

	reader_close(r);
	log_name(name, first, LOG_LINES);
	rc = log_open_file(store_durable(f->store).segdir, name, O_RDONLY, &r->fd, err);
	if (rc != 0)
		return rc;
	r->first = r->seq = first;
	return 0;
}

/* The segment that has the record; of one that is not there any more the next that is. */
static int
seek(struct follow *f, struct reader *r, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	uint64_t best = 0;
	int rc;

	if (r->fd >= 0 && r->seq == r->from)
		return 0;
	rc = log_files_list(f->logdir, LOG_SEG, LOG_LINES, NULL, &files, err);
	if (rc != 0)
		return rc;
	if (files.n[0] == 0)
		return err_set(err, ERR_STATE, "the log has no segment");
	best = files.number[0][0];
	for (size_t i = 0; i < files.n[0] && files.number[0][i] <= r->from; i++)
		best = files.number[0][i];
	if (best > r->from)
		r->from = best;
	if (r->fd >= 0 && r->first == best && r->seq <= r->from)
		return 0;
	return segment_at(f, r, best, err);
}

/* To the next segment, unless it was pruned meanwhile. */
static int
reader_on(struct follow *f, struct reader *r, struct err *err)
{
	uint64_t at = r->seq;
	int rc = segment_at(f, r, at, err);

	if (rc != ERR_NOT_FOUND)
		return rc;
	err_clear(err);
	r->from = at > r->from ? at : r->from;
	return seek(f, r, err);
}

/* "type" stands before "v" at the end of each BODY. */
static struct str
type_of(struct str body)
{
	static const struct str tail = {"\",\"v\":1}", 8}, head = {"\"type\":\"", 8};
	size_t end = body.n, at;

	if (!str_has_suffix(body, tail.p))
		return STR("");
	end -= tail.n;
	for (at = end; at > 0 && body.p[at - 1] != '"'; at--)
		;
	if (at < head.n || memcmp(body.p + at - head.n, head.p, head.n) != 0)
		return STR("");
	return str_mem(body.p + at, end - at);
}

static bool
wanted(const struct reader *r, struct str body)
{
	struct str type = type_of(body);

	for (size_t i = 0; i < r->npatterns; i++)
		if (webhook_type_fits(str_z(r->patterns[i]), type))
			return true;
	return false;
}

/* --- one piece ------------------------------------------------------------------------ */

struct piece {
	uint32_t n;
	struct buf bodies;
};

/* Lines of what was read, as far as they are whole. */
static int
take_lines(struct reader *r, struct str text, uint64_t size, struct piece *p, struct err *err)
{
	struct str line, body;
	struct hash leaf;

	while (r->seq < size && p->bodies.n < ANSWER_MAX && str_cut(&text, '\n', &line)) {
		line.n++; /* with its LF */
		if (record_parse_line(line, &body, &leaf, err) != 0)
			return err_wrap(err, "record %" PRIu64, r->seq);
		if (r->seq >= r->from && wanted(r, body)) {
			buf_lstr(&p->bodies, body);
			p->n++;
		}
		r->seq++;
		r->off += line.n;
	}
	return 0;
}

static int
read_piece(struct follow *f, struct reader *r, struct piece *p, struct err *err)
{
	struct store_durable d = store_durable(f->store);
	AUTO_FREE char *window = xmalloc(READ_MAX);
	size_t n = 0;
	uint64_t had;
	int rc = seek(f, r, err);

	if (rc != 0)
		return rc;
	had = r->seq;
	/* What stands there beyond the committed records is not looked at. */
	rc = log_pread(r->fd, window, READ_MAX, r->off, &n, err);
	if (rc == 0)
		rc = take_lines(r, str_mem(window, n), d.size, p, err);
	if (rc == 0 && r->seq == had && r->seq < d.size && r->first != d.first)
		return reader_on(f, r, err); /* the end of a sealed segment */
	if (rc == 0 && r->seq == had && r->seq < d.size)
		return err_set(err, ERR_TAMPER, "record %" PRIu64 " is not where it was", r->seq);
	return rc;
}

static void
answer(struct follow *f, uint32_t i, struct reader *r, struct piece *p)
{
	AUTO_BUF struct buf b = BUF((size_t)1 << 19);
	uint64_t next = r->seq > r->from ? r->seq : r->from;

	buf_u32(&b, i);
	buf_u64(&b, r->from);
	buf_u64(&b, next);
	buf_u64(&b, store_size(f->store));
	buf_u32(&b, p->n);
	buf_put_str(&b, buf_str(&p->bodies));
	r->asked = false;
	ipc_send(f->wire, MSG_W_SOME, &b, NULL, 0);
}

static void
wire_drop(struct follow *f)
{
	ipc_free(TAKE_PTR(f->wire));
	for (size_t i = 0; i < FOLLOW_READERS; i++) {
		patterns_free(&f->readers[i]);
		reader_close(&f->readers[i]);
		f->readers[i].asked = f->readers[i].parked = false;
	}
}

static void
serve(struct follow *f, uint32_t i)
{
	struct reader *r = &f->readers[i];
	struct piece p = {.bodies = BUF(ANSWER_MAX + RECORD_LINE_MAX + 8)};
	struct err err = {0};

	if (r->from == store_size(f->store)) {
		r->parked = true;
	} else if (r->from > store_size(f->store)) {
		reader_close(r); /* it knows more than there is: it must see that */
		answer(f, i, r, &p);
	} else if (read_piece(f, r, &p, &err) == 0) {
		answer(f, i, r, &p);
	} else {
		log_error("the courier is not told of record %" PRIu64 ": %s", r->from, err.msg);
		wire_drop(f);
		witnesses_wire(f->witnesses, false);
	}
	buf_free(&p.bodies);
}

static void timer_start(struct follow *f);

/* One reader a turn, so that what is asked for takes a small part of the writer's time. */
static void
on_tick(void *arg)
{
	struct follow *f = arg;

	f->timer = NULL;
	for (size_t k = 0; k < FOLLOW_READERS; k++) {
		size_t i = (f->turn + k) % FOLLOW_READERS;

		if (!f->readers[i].asked || f->readers[i].parked)
			continue;
		serve(f, (uint32_t)i);
		f->turn = i + 1;
		break;
	}
	timer_start(f);
}

static void
timer_start(struct follow *f)
{
	bool due = false;

	for (size_t i = 0; i < FOLLOW_READERS; i++)
		due = due || (f->readers[i].asked && !f->readers[i].parked);
	if (due && f->timer == NULL)
		f->timer = loop_timer_add(f->loop, TICK_MS, on_tick, f);
}

void
follow_committed(struct follow *f)
{
	if (f->wire == NULL)
		return;
	for (size_t i = 0; i < FOLLOW_READERS; i++)
		f->readers[i].parked = false;
	timer_start(f);
}

/* --- what the courier says -------------------------------------------------------------- */

static int
on_ask(struct follow *f, struct rd *body, struct err *err)
{
	uint32_t i = rd_u32(body), n;
	struct reader *r = &f->readers[i % FOLLOW_READERS];
	uint64_t from = rd_u64(body);

	n = rd_u32(body);
	if (i >= FOLLOW_READERS || n == 0 || n > FOLLOW_PATTERNS || r->asked)
		return err_set(err, ERR_PROTOCOL, "reader %u with %u types, or asked twice", i, n);
	patterns_free(r);
	for (uint32_t k = 0; k < n && !body->bad; k++)
		r->patterns[r->npatterns++] = str_dup(rd_lstr(body));
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "malformed");
	r->from = from == FOLLOW_START ? f->start : from;
	r->asked = true;
	r->parked = false;
	timer_start(f);
	return 0;
}

static int
on_took(struct follow *f, struct rd *body, struct err *err)
{
	struct str name = rd_lstr(body), why;
	uint64_t from = rd_u64(body), through = rd_u64(body);
	struct took *t = NULL;

	why = rd_lstr(body);
	if (!rd_end(body) || name.n == 0 || name.n > NAME_MAX_ || why.n > WHY_MAX ||
	    from > through || through > store_size(f->store))
		return err_set(err, ERR_PROTOCOL, "malformed");
	for (size_t i = 0; t == NULL && i < FOLLOW_READERS; i++)
		if (f->took[i].name == NULL || str_eqz(name, f->took[i].name))
			t = &f->took[i];
	if (t == NULL)
		return err_set(err, ERR_PROTOCOL, "more than %d webhooks", FOLLOW_READERS);
	if (t->name == NULL) {
		t->name = str_dup(name);
		buf_init(&t->body, 1024);
	}
	buf_reset(&t->body);
	buf_lstr(&t->body, name);
	buf_u64(&t->body, from);
	buf_u64(&t->body, through);
	buf_lstr(&t->body, why);
	f->on_took(f->arg, &t->body);
	return 0;
}

static int
on_msg(void *arg, struct ipc *w UNUSED, uint16_t type, struct rd *body, int *fds UNUSED,
    size_t nfds UNUSED, struct err *err)
{
	struct follow *f = arg;

	if (type == MSG_W_ASK)
		return on_ask(arg, body, err);
	if (type == MSG_W_TOOK)
		return on_took(arg, body, err);
	if (type == MSG_W_CARRIED)
		return witnesses_carried(f->witnesses, body, err);
	return err_set(err, ERR_PROTOCOL, "not expected here");
}

static void
on_gone(void *arg, struct ipc *w UNUSED, const char *why)
{
	struct follow *f = arg;

	log_info("courier is gone: %s", why);
	wire_drop(f);
	witnesses_wire(f->witnesses, false);
}

void
follow_wire(struct follow *f, int fd)
{
	wire_drop(f);
	f->wire = ipc_new(f->loop, fd, IPC_ROLE_WRITER, IPC_ROLE_COURIER, on_msg, on_gone, f);
	witnesses_wire(f->witnesses, true);
}

void
follow_carry(struct follow *f, const struct buf *body)
{
	if (f->wire != NULL)
		ipc_send(f->wire, MSG_W_CARRY, body, NULL, 0);
}

void
follow_tell(const struct follow *f)
{
	for (size_t i = 0; i < FOLLOW_READERS; i++)
		if (f->took[i].name != NULL)
			f->on_took(f->arg, &f->took[i].body);
}

struct follow *
follow_new(struct loop *loop, int logdir, const struct store *s, follow_took_fn *took, void *arg,
    struct witnesses *witnesses)
{
	struct follow *f = xcalloc(1, sizeof(*f));

	f->loop = loop;
	f->logdir = logdir;
	f->store = s;
	f->start = store_size(s);
	f->on_took = took;
	f->arg = arg;
	f->witnesses = witnesses;
	for (size_t i = 0; i < FOLLOW_READERS; i++)
		f->readers[i].fd = -1;
	return f;
}

void
follow_free(struct follow *f)
{
	if (f == NULL)
		return;
	wire_drop(f);
	loop_timer_del(f->timer);
	for (size_t i = 0; i < FOLLOW_READERS; i++) {
		free(f->took[i].name);
		buf_free(&f->took[i].body);
	}
	free(f);
}
