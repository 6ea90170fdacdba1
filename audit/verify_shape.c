/*
 * The rules of a log that follow from how its writer works, not from hashes: chained records and a
 * good signature cannot show that somebody wrote behind the last record of a writer that had ended,
 * or that checkpoints were taken away. Runs in the verifier; trusts no file, only asks if it is
 * there.
 */
#include "audit/verify_shape.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "common/banned.h"

static void PRINTF_LIKE(4, 5)
    add(struct log_fault *f, enum log_kind kind, uint64_t seq, const char *fmt, ...)
{
	va_list ap;

	*f = (struct log_fault){.kind = kind, .seq = seq, .last = seq};
	va_start(ap, fmt);
	(void)vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
}

/*
 * Asked when the record is read, not of a list made before: the file was there before the record
 * was, also in a log that is being written.
 */
static size_t
check_checkpoint(const struct shape *s, uint64_t size, uint64_t seq, struct log_fault *f)
{
	char name[LOG_NAME_SIZE];
	AUTO_FD int dir = -1;

	log_name(name, size, "");
	if (log_open_dir(s->logdir, LOG_CP, &dir, NULL) == 0 &&
	    faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	add(f, LOG_KIND_CHECKPOINT, size,
	    LOG_CP "/%s is not there, but was signed before record %" PRIu64, name, seq);
	return 1;
}

/* A start signs its log.open, and a segment's end is signed, before anything else is recorded. */
static size_t
check_signed(struct shape *s, const struct record *r, struct log_fault *f)
{
	uint64_t size = s->owed;

	if (str_eqz(r->type, "log.segment") && r->seq != 0) {
		s->owed = s->owed == r->seq ? 0 : s->owed;
		return check_checkpoint(s, r->seq, r->seq, f);
	}
	if (str_eqz(r->type, "log.open"))
		s->owed = r->seq + 1;
	if (size == 0 || record_of_start(r->type))
		return 0;
	s->owed = 0;
	return check_checkpoint(s, size, r->seq, f);
}

static size_t
check_end(struct shape *s, const struct record *r, struct log_fault *f)
{
	bool start = record_of_start(r->type), after = s->ended && !start;

	if (after)
		add(f, LOG_KIND_AFTER_CLOSE, r->seq,
		    "record %" PRIu64 " stands behind the close of the log (record %" PRIu64 ")",
		    r->seq, s->close);
	if (after || str_eqz(r->type, "log.open"))
		s->ended = false;
	if (record_ends(r->type)) {
		s->ended = true;
		s->close = r->seq;
	}
	return after;
}

static size_t
check_segment(const struct record *r, uint64_t segment, struct log_fault *f)
{
	bool first = r->seq == segment, says = str_eqz(r->type, "log.segment");

	if (says && !first) {
		add(f, LOG_KIND_RESPLIT, r->seq,
		    "record %" PRIu64 " begins a segment, but stands within %" PRIu64, r->seq,
		    segment);
		return 1;
	}
	if (first && r->seq != 0 && !record_of_start(r->type)) {
		add(f, LOG_KIND_RESPLIT, r->seq,
		    "segment %" PRIu64 " begins with no record that begins one", segment);
		return 1;
	}
	return 0;
}

size_t
shape_record(struct shape *s, const struct record *r, uint64_t segment,
    struct log_fault out[SHAPE_FAULTS_MAX])
{
	size_t n = check_signed(s, r, out);

	n += check_end(s, r, out + n);
	return n + check_segment(r, segment, out + n);
}

size_t
shape_dirs(int logdir, struct log_fault out[SHAPE_FAULTS_MAX])
{
	static const char *const dirs[SHAPE_FAULTS_MAX] = {LOG_SEG, LOG_CP, LOG_BLOB};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (faccessat(logdir, dirs[i], F_OK, AT_SYMLINK_NOFOLLOW) != 0)
			add(&out[n++], LOG_KIND_MISSING, 0,
			    "the directory %s is not there, but was before the first record",
			    dirs[i]);
	return n;
}
