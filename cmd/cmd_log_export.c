/*
 * `cofferdam log export`: records as JSON, OCSF or OTLP lines, or as they stand. Runs as whoever
 * may read the log; writes to a file or to standard output, and connects to nothing: what goes over
 * the network the courier carries. Only what a signed checkpoint covers goes out, so no record that
 * a crash can take back, and none that was changed. The broker does not know of it and never waits
 * for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "audit/covered.h"
#include "audit/export.h"
#include "audit/reader.h"
#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_export_cursor.h"
#include "cmd/cmd_log.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/webhook.h"

#include "common/banned.h"

#define CHUNK_RECORDS 5000 /* written, synced, and then the cursor, at the next mark */
#define CHUNK_BYTES ((size_t)4 << 20)
#define OTLP_RECORDS 200 /* of one line, which is one request */
#define POLL_MS 200
#define TELL_US INT64_C(5000000)

enum format { FORMAT_JSON, FORMAT_OCSF, FORMAT_OTLP, FORMAT_LINES };
static const char *const format_names[] = {"json", "ocsf", "otlp", "lines"};

struct job {
	const char *state, *dir, *keys_file, *cursor_arg, *output;
	struct arg_many type;
	uint64_t from; /* UINT64_MAX: not given */
	bool follow, text;
	enum format format;

	struct cmd_place place;
	struct vkeys keys;
	struct checkpoint head;	 /* the newest that was seen; its signature holds */
	struct covered *covered; /* what it covers */
	struct export_cursor cursor;
	struct canon_tree *tree;
	int fd;
	bool synced; /* fd is a file */
	struct buf out;
	struct reader_place at; /* of record cursor.next, if at.off is known */
	bool placed;
	bool begun; /* where --from says, or behind what was pruned: nothing before it to compare */
	size_t in_line; /* records of the OTLP line that is open */
	size_t in_chunk;
	bool sure; /* all of the records in `out` lead to a mark, see audit/covered.h */
	uint64_t exported;
	int64_t told_us;
};

static volatile sig_atomic_t ended;

static void
on_end(int sig UNUSED)
{
	ended = 1;
}

/* --- the signed end of the log ----------------------------------------------------------- */

static void
take_head(struct job *b, const struct checkpoint *cp)
{
	if (cp->size >= b->head.size)
		b->head = *cp;
}

static int
look_first(struct job *b, struct err *err)
{
	struct checkpoint cp;
	int r = cmd_place_newest(&b->place, b->keys_file, &b->keys, &cp, err);

	if (r == ERR_NOT_FOUND)
		return err_set(
		    err, ERR_STATE, "the log has no checkpoint yet: only what is signed goes out");
	if (r == 0)
		take_head(b, &cp);
	return r;
}

static int
look_again(struct job *b, struct err *err)
{
	struct checkpoint cp;
	int r = cmd_place_head(&b->place, b->keys_file, &b->keys, &cp, err);

	if (r == 0)
		take_head(b, &cp);
	return r == ERR_NOT_FOUND ? (err_clear(err), 0) : r;
}

/* --- writing ----------------------------------------------------------------------------- */

static void
otlp_line_end(struct job *b)
{
	if (b->in_line == 0)
		return;
	export_otlp_tail(&b->out);
	buf_put_c(&b->out, '\n');
	b->in_line = 0;
}

static int
write_out(struct job *b, struct err *err)
{
	if (b->format == FORMAT_OTLP)
		otlp_line_end(b);
	if (buf_over(&b->out))
		return err_set(err, ERR_TOO_LARGE, "record %" PRIu64 ": over %zu bytes to write",
		    b->cursor.next, b->out.max);
	if (file_write_all(b->fd, buf_str(&b->out)) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s",
		    b->output != NULL ? b->output : "standard output");
	buf_reset(&b->out);
	return 0;
}

/* What was written is durable before the cursor says so. */
static int
commit(struct job *b, struct err *err)
{
	int r = write_out(b, err);

	if (r == 0 && b->synced && fdatasync(b->fd) != 0)
		r = err_sys(err, ERR_SYSTEM, errno, "%s", b->output);
	b->in_chunk = 0;
	return r != 0
		   ? r
		   : export_cursor_save(&b->cursor, b->head.origin, format_names[b->format], err);
}

static void
put_record(struct job *b, const struct export *e)
{
	struct hash leaf;

	switch (b->format) {
	case FORMAT_JSON: export_json(e, &b->out); break;
	case FORMAT_OCSF: export_ocsf(e, &b->out); break;
	case FORMAT_LINES: record_line(&b->out, e->r->body, &leaf); return;
	case FORMAT_OTLP:
		if (b->in_line == 0)
			export_otlp_head(e->o, &b->out);
		export_otlp_record(e, b->in_line != 0, &b->out);
		if (++b->in_line == OTLP_RECORDS)
			otlp_line_end(b);
		return;
	}
	buf_put_c(&b->out, '\n');
}

static bool
wanted(const struct job *b, struct str type)
{
	for (size_t i = 0; i < b->type.n; i++)
		if (webhook_type_fits(str_z(b->type.v[i]), type))
			return true;
	return b->type.n == 0;
}

/* --- one turn ----------------------------------------------------------------------------- */

/* Only what leads to a mark goes out. */
static int
check_mark(struct job *b, uint64_t seq, const struct hash *leaf, struct err *err)
{
	const struct hash *mark = covered_mark(b->covered, seq);

	b->sure = mark != NULL;
	if (mark == NULL)
		return 0;
	if (!hash_eq(mark, leaf))
		return err_set(err, ERR_TAMPER,
		    "record %" PRIu64 " or one before it is not the one that was signed", seq);
	return b->in_chunk < CHUNK_RECORDS && b->out.n < CHUNK_BYTES ? 0 : commit(b, err);
}

static int
one_record(struct job *b, const struct record *r, const struct hash *leaf, struct err *err)
{
	struct export_opts o = {.origin = str_z(b->head.origin), .text = b->text};
	struct export e = {&o, r, leaf, canon_tree_set(b->tree, r->data)};

	if (wanted(b, r->type)) {
		put_record(b, &e);
		b->exported++;
	}
	b->cursor.next = r->seq + 1;
	b->cursor.leaf = *leaf;
	b->begun = false;
	b->in_chunk++;
	return check_mark(b, r->seq, leaf, err);
}

/* The record before the cursor must be the one it names, or this is another log. */
static int
check_before(struct job *b, const struct record *r, const struct hash *leaf, struct err *err)
{
	if (r->seq + 1 != b->cursor.next || (!b->begun && hash_eq(leaf, &b->cursor.leaf)))
		return 0;
	if (b->begun) {
		b->cursor.leaf = *leaf;
		return 0;
	}
	return err_set(err, ERR_TAMPER,
	    "record %" PRIu64 " is another one than the cursor saw: the log was set back or "
	    "rewritten",
	    r->seq);
}

/* What the cursor would have come to next was pruned, before this turn or in it. */
static int
pass_pruned(struct job *b, uint64_t seq, struct err *err)
{
	if (!b->sure)
		return err_set(err, ERR_TAMPER, "record %" PRIu64 " stands where %" PRIu64 " must",
		    seq, b->cursor.next);
	(void)fprintf(stderr,
	    "cofferdam: records %" PRIu64 " to %" PRIu64 " are not in the log any more\n",
	    b->cursor.next, seq - 1);
	b->cursor.next = seq;
	b->begun = true;
	return 0;
}

/* Where reading begins: at the cursor's record if its place is known, else with its segment. */
static int
go_there(struct job *b, struct reader *rd, struct err *err)
{
	uint64_t want = b->cursor.next != 0 ? b->cursor.next - 1 : 0;
	struct reader_place p = {.seq = reader_segment(rd, want)};

	if (b->placed && reader_holds(rd, b->at.seq))
		p = b->at;
	else if (b->cursor.next < reader_first(rd))
		p.seq = reader_first(rd);
	return reader_seek(rd, &p, err);
}

static void
tell_lag(struct job *b)
{
	int64_t now = clock_wall_us();

	if (now - b->told_us < TELL_US && now >= b->told_us)
		return;
	b->told_us = now;
	(void)fprintf(stderr, "cofferdam: export: record %" PRIu64 ", %" PRIu64 " behind\n",
	    b->cursor.next, b->head.size - b->cursor.next);
}

/* From the cursor to the signed end, as far as it is there. */
static int
read_on(struct job *b, struct err *err)
{
	AUTO(reader) struct reader *rd = NULL;
	struct reader_place at;
	struct record rec;
	struct hash leaf;
	int r;

	if ((r = reader_open(b->place.logdir, &rd, err)) != 0 || (r = go_there(b, rd, err)) != 0)
		return r;
	while (!(ended && b->sure) && (r = reader_next(rd, &rec, &at, &leaf, err)) == 1) {
		if (rec.seq >= b->head.size)
			break;
		b->at = at;
		b->placed = true;
		if (rec.seq > b->cursor.next && (r = pass_pruned(b, rec.seq, err)) != 0)
			return r;
		r = rec.seq < b->cursor.next ? check_before(b, &rec, &leaf, err)
					     : one_record(b, &rec, &leaf, err);
		if (r != 0)
			return r;
		if (rec.seq + 1 >= b->head.size)
			break;
		tell_lag(b);
	}
	if (r < 0 || r == ERR_TAMPER)
		return r;
	return b->sure ? commit(b, err) : 0;
}

/*
 * What ends before the signed end is looked at again before it is called wrong: what the reader saw
 * may be older than the head, and what was pruned meanwhile may reach behind it.
 */
static int
turn(struct job *b, struct err *err)
{
	uint64_t first = log_first(b->place.logdir);
	unsigned tries = 0;
	int r;

	if (b->head.size < b->cursor.next)
		return err_set(err, ERR_TAMPER,
		    "the log is signed up to %" PRIu64 " records, the cursor has seen %" PRIu64
		    ": an older state was put back",
		    b->head.size, b->cursor.next);
	if (b->head.size == b->cursor.next && b->placed)
		return 0;
	do {
		if (tries != 0 && (r = look_first(b, err)) != 0)
			return r;
		if ((r = covered_to(b->covered, &b->head, b->cursor.next, err)) != 0 ||
		    (r = read_on(b, err)) != 0)
			return r;
		if (ended || b->cursor.next >= b->head.size)
			return 0;
	} while (log_first_moved(b->place.logdir, &first) || ++tries < 2);
	return err_set(err, ERR_TAMPER,
	    "the log ends before record %" PRIu64 ", but %" PRIu64 " were signed", b->cursor.next,
	    b->head.size);
}

static void
pause_ms(int ms)
{
	(void)poll(NULL, 0, ms); /* a signal ends it */
}

static int
go(struct job *b, struct err *err)
{
	int r = turn(b, err);

	while (r == 0 && b->follow && !ended) {
		pause_ms(POLL_MS);
		if (!ended && (r = look_again(b, err)) == 0)
			r = turn(b, err);
	}
	return r;
}

/* --- the start ----------------------------------------------------------------------------- */

/* A line that a kill left unfinished at the end of the file is taken off: it comes again whole. */
static int
cut_torn(struct job *b, struct err *err)
{
	char last[4096];
	struct stat st;
	off_t end, n;
	size_t got;

	if (fstat(b->fd, &st) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", b->output);
	b->synced = S_ISREG(st.st_mode);
	if (!b->synced)
		return 0;
	for (end = st.st_size; end > 0; end -= n) {
		const char *lf;

		n = end < (off_t)sizeof(last) ? end : (off_t)sizeof(last);
		if (log_pread(b->fd, last, (size_t)n, (uint64_t)(end - n), &got, err) != 0)
			return err_wrap(err, "%s", b->output);
		lf = memrchr(last, '\n', got);
		if (lf != NULL) {
			end = end - n + (lf - last) + 1;
			break;
		}
	}
	if (end != st.st_size && ftruncate(b->fd, end) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", b->output);
	return 0;
}

static int
open_output(struct job *b, struct err *err)
{
	AUTO_FD int dir = -1;
	int r;

	if (b->output == NULL) {
		b->fd = STDOUT_FILENO;
		return 0;
	}
	if ((r = cmd_place_outside(&b->place, b->output, O_PATH, &dir, err)) != 0)
		return r;
	b->fd =
	    open(b->output, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
	return b->fd < 0 ? err_sys(err, ERR_CONFIG, errno, "%s", b->output) : cut_torn(b, err);
}

static int
start(struct job *b, struct err *err)
{
	int r = cmd_place_open(b->state, b->dir, &b->place, err);

	b->begun = b->from != UINT64_MAX;
	if (r == 0)
		r = cmd_place_keys(&b->place, b->keys_file, &b->keys, err);
	if (r == 0)
		r = look_first(b, err);
	if (r == 0 && b->cursor_arg != NULL)
		r = export_cursor_open(&b->place, b->cursor_arg, b->head.origin,
		    format_names[b->format], &b->cursor, err);
	if (r == 0 && b->begun && b->cursor.next != 0)
		r = err_set(err, ERR_CONFIG,
		    "--from %" PRIu64 ": the cursor stands at %" PRIu64 " already", b->from,
		    b->cursor.next);
	if (r == 0 && b->begun)
		b->cursor.next = b->from < b->head.size ? b->from : b->head.size;
	return r != 0 ? r : open_output(b, err);
}

#define AT(f) offsetof(struct job, f)

static const struct option_row rows[] = {
    {"DIR", OPTION_TEXT | OPTION_WORD, AT(dir), 0, 0, NULL, ARG_LOG_IS},
    {"--format", ARG_WORD_OF, AT(format), 0, 0, "json|ocsf|otlp|lines",
	"json (default), ocsf, otlp, or lines: the log's own"},
    {"--type", ARG_MANY, AT(type), 0, 0, "TYPE",
	"of that type or family (approval.*) alone; may stand several times"},
    {"--text", OPTION_FLAG, AT(text), 0, 0, NULL, "names of tables and paths, too"},
    {"--from", OPTION_NUMBER, AT(from), 0, INT64_MAX, "SEQ", "begin with that record"},
    {"--output", OPTION_TEXT, AT(output), 0, 0, "FILE", "append to it (default: standard output)"},
    {"--cursor", OPTION_TEXT, AT(cursor_arg), 0, 0, "NAME|PATH",
	"go on where the last one ended, and keep where this one does"},
    {"--follow", OPTION_FLAG, AT(follow), 0, 0, NULL, "go on as the log grows"},
    {"--keys", OPTION_TEXT, AT(keys_file), 0, 0, "FILE", ARG_KEYS_IS},
    {"--vkey", OPTION_TEXT, AT(keys_file), 0, 0, "FILE", NULL},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

int
cmd_log_export(int argc, char **argv)
{
	const struct sigaction end = {.sa_handler = on_end}, ignore = {.sa_handler = SIG_IGN};
	struct job b = {.from = UINT64_MAX,
	    .place = {-1, -1},
	    .cursor = EXPORT_CURSOR_NONE,
	    .fd = -1,
	    .sure = true,
	    .out = BUF(CHUNK_BYTES + (COVERED_STRIDE + 2) * EXPORT_RECORD_MAX)};
	struct err err = {0};
	int r;

	if (!ARGS_READ("log export", rows, argc, argv, &b))
		return CMD_USAGE;
	(void)sigaction(SIGTERM, &end, NULL);
	(void)sigaction(SIGINT, &end, NULL);
	(void)sigaction(SIGPIPE, &ignore, NULL); /* a reader that went is an error to tell */
	b.tree = canon_tree_new();
	b.told_us = clock_wall_us();
	if ((r = start(&b, &err)) == 0) {
		b.covered = covered_new(b.place.logdir);
		r = go(&b, &err);
	}
	if (r == 0)
		(void)fprintf(stderr,
		    "cofferdam: %" PRIu64 " records exported, up to record %" PRIu64 "; %" PRIu64
		    " behind the signed end\n",
		    b.exported, b.cursor.next, b.head.size - b.cursor.next);
	if (b.output != NULL)
		cleanup_close_fd(&b.fd);
	canon_tree_free(b.tree);
	covered_free(b.covered);
	export_cursor_close(&b.cursor);
	cmd_place_close(&b.place);
	buf_free(&b.out);
	return r == 0 ? CMD_OK : log_fail(&err);
}
