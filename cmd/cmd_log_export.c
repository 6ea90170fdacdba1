/*
 * `cofferdam log export`: records as JSON, OCSF or OTLP lines, or as they stand. Runs as whoever
 * may read the log; writes to a file or to standard output, and connects to nothing: what goes over
 * the network the courier carries. Only what a signed checkpoint covers goes out, so no record that
 * a crash can take back. The broker does not know of it and never waits for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

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

#define CHUNK_RECORDS 5000 /* written, synced, and then the cursor */
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
	char origin[ORIGIN_MAX + 1];
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
	uint64_t exported, size;
	int64_t told_us;
};

static volatile sig_atomic_t ended;

static void
on_end(int sig UNUSED)
{
	ended = 1;
}

/* --- the signed end of the log ----------------------------------------------------------- */

static int
signed_size_of(struct job *b, struct str note, struct err *err)
{
	const struct vkey *key;
	struct checkpoint cp;
	int r = checkpoint_open(note, &b->keys, &cp, &key, err);

	/* The key may have changed since: those it handed over to are read again. */
	if (r == ERR_CONFIG && cmd_place_keys(&b->place, b->keys_file, &b->keys, err) == 0)
		r = checkpoint_open(note, &b->keys, &cp, &key, err);
	if (r != 0)
		return r;
	(void)snprintf(b->origin, sizeof(b->origin), "%s", cp.origin);
	b->size = cp.size > b->size ? cp.size : b->size;
	return 0;
}

/* Of a log that nobody has signed yet the size is 0. */
static int
look_first(struct job *b, struct err *err)
{
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	int r = log_newest(b->place.logdir, &b->keys, &note, err);

	if (r == ERR_NOT_FOUND)
		return err_set(
		    err, ERR_STATE, "the log has no checkpoint yet: only what is signed goes out");
	return r != 0 ? r : signed_size_of(b, buf_str(&note), err);
}

static int
look_again(struct job *b, struct err *err)
{
	AUTO_BUF struct buf note = BUF(CHECKPOINT_MAX);
	int r = log_read_file(b->place.logdir, LOG_CHECKPOINT, &note, err);

	return r == ERR_NOT_FOUND ? 0 : r != 0 ? r : signed_size_of(b, buf_str(&note), err);
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
	return r != 0 ? r : export_cursor_save(&b->cursor, b->origin, format_names[b->format], err);
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

/* --- one turn: from the cursor to the signed end ------------------------------------------ */

static int
one_record(struct job *b, const struct record *r, const struct hash *leaf, struct err *err)
{
	struct export_opts o = {.origin = str_z(b->origin), .text = b->text};
	struct export e = {&o, r, leaf, canon_tree_set(b->tree, r->data)};

	if (wanted(b, r->type)) {
		put_record(b, &e);
		b->exported++;
	}
	b->cursor.next = r->seq + 1;
	b->cursor.leaf = *leaf;
	if (++b->in_chunk < CHUNK_RECORDS && b->out.n < CHUNK_BYTES)
		return 0;
	return commit(b, err);
}

/* The record before the cursor must be the one it names, or this is another log. */
static int
check_before(struct job *b, const struct record *r, const struct hash *leaf, struct err *err)
{
	if (r->seq + 1 != b->cursor.next || b->begun || hash_eq(leaf, &b->cursor.leaf))
		return 0;
	return err_set(err, ERR_TAMPER,
	    "record %" PRIu64 " is another one than the cursor saw: the log was set back or "
	    "rewritten",
	    r->seq);
}

/* What the cursor would have come to next was pruned, before this turn or in it. */
static void
pass_pruned(struct job *b, uint64_t seq)
{
	(void)fprintf(stderr,
	    "cofferdam: records %" PRIu64 " to %" PRIu64 " are not in the log any more\n",
	    b->cursor.next, seq - 1);
	b->cursor.next = seq;
	b->begun = true;
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
	    b->cursor.next, b->size - b->cursor.next);
}

static int
turn(struct job *b, struct err *err)
{
	AUTO(reader) struct reader *rd = NULL;
	struct reader_place at;
	struct record rec;
	struct hash leaf;
	int r;

	if (b->size < b->cursor.next)
		return err_set(err, ERR_TAMPER,
		    "the log is signed up to %" PRIu64 " records, the cursor has seen %" PRIu64
		    ": an older state was put back",
		    b->size, b->cursor.next);
	if (b->size == b->cursor.next && b->placed)
		return 0;
	if ((r = reader_open(b->place.logdir, &rd, err)) != 0 || (r = go_there(b, rd, err)) != 0)
		return r;
	while (!ended && (r = reader_next(rd, &rec, &at, &leaf, err)) == 1) {
		b->at = at;
		b->placed = true;
		if (rec.seq > b->cursor.next)
			pass_pruned(b, rec.seq);
		if (rec.seq < b->cursor.next)
			r = check_before(b, &rec, &leaf, err);
		else if (rec.seq < b->size)
			r = one_record(b, &rec, &leaf, err);
		else
			break;
		if (r != 0)
			return r;
		if (rec.seq + 1 >= b->size)
			break;
		tell_lag(b);
	}
	return r < 0 || r == ERR_TAMPER ? r : commit(b, err);
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
	if (b->output == NULL) {
		b->fd = STDOUT_FILENO;
		return 0;
	}
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
		r = export_cursor_open(
		    &b->place, b->cursor_arg, b->origin, format_names[b->format], &b->cursor, err);
	if (r == 0 && b->begun && b->cursor.next != 0)
		r = err_set(err, ERR_CONFIG,
		    "--from %" PRIu64 ": the cursor stands at %" PRIu64 " already", b->from,
		    b->cursor.next);
	if (r == 0 && b->begun)
		b->cursor.next = b->from < b->size ? b->from : b->size;
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
	    .out = BUF(CHUNK_BYTES + 2 * EXPORT_RECORD_MAX)};
	struct err err = {0};
	int r;

	if (!ARGS_READ("log export", rows, argc, argv, &b))
		return CMD_USAGE;
	(void)sigaction(SIGTERM, &end, NULL);
	(void)sigaction(SIGINT, &end, NULL);
	(void)sigaction(SIGPIPE, &ignore, NULL); /* a reader that went is an error to tell */
	b.tree = canon_tree_new();
	b.told_us = clock_wall_us();
	if ((r = start(&b, &err)) == 0)
		r = go(&b, &err);
	if (r == 0)
		(void)fprintf(stderr,
		    "cofferdam: %" PRIu64 " records exported, up to record %" PRIu64 "; %" PRIu64
		    " behind the signed end\n",
		    b.exported, b.cursor.next, b.size - b.cursor.next);
	if (b.output != NULL)
		cleanup_close_fd(&b.fd);
	canon_tree_free(b.tree);
	export_cursor_close(&b.cursor);
	cmd_place_close(&b.place);
	buf_free(&b.out);
	return r == 0 ? CMD_OK : log_fail(&err);
}
