/* Inside of the writer's side of witnesses: writer_witness.c, _files.c, _tree.c, _answer.c alone.
 */
#ifndef AUDIT_WRITER_WITNESS_INT_H
#define AUDIT_WRITER_WITNESS_INT_H

#include "audit/segment.h"
#include "audit/writer_int.h"
#include "audit/writer_witness.h"

#define WITNESS_WHY_MAX 300
#define WITNESS_EVIDENCE_FILES 64

enum conflict { CONFLICT_NONE = 0, CONFLICT_FORK, CONFLICT_ROLLBACK };

struct one {
	struct cosigner key;
	uint64_t size;	  /* of the head it cosigned last, or says it did; 0: none */
	struct hash root; /* of that head, once `cosigned` */
	bool cosigned;	  /* with a line that verified */
	/* From `size` to what has been fed; not there: the log must be read for it. */
	bool spanned;
	struct tree_span *span;

	bool asked;
	uint64_t id, asked_size;
	struct buf note, request; /* as asked */
	struct tree_span *next;	  /* from asked_size on */

	uint64_t due_ms; /* not before */
	unsigned failed; /* in a row */
	unsigned moved;	 /* other sizes that it named in a row */
	enum conflict conflict;
	bool proven; /* by a head that this log's key signed, which lies here; else it only says so
		      */
	int64_t since_us; /* has not cosigned since; 0: it did what was asked last */
	char why[WITNESS_WHY_MAX];
};

/* Reads the log's leaves again for one whose size lies further back: some at each turn. */
struct reading {
	struct one *of; /* NULL: nothing is read */
	struct tree_range tree;
	struct log_files files;
	struct segment *lines;
	int leaves;	     /* -1: none */
	uint64_t first, off; /* that segment; bytes of its lines that were read */
	unsigned ended;	     /* so often in a row there was nothing more */
	struct loop_timer *timer;
};

struct witnesses {
	struct loop *loop;
	struct ipc *const *core; /* *core NULL: away */
	struct follow *follow;
	int logdir, segdir, witdir, evdir;
	struct store *store; /* NULL: not serving yet */
	size_t n;
	struct one one[COSIGNERS_MAX];
	struct tree_range from; /* of the last segment's beginning */
	struct tree_range fed;	/* up to here spans know the log */
	struct leaves queue;	/* records behind that */
	struct reading reading;
	uint64_t last_id, need; /* need: somebody waits for a head over this size */
	bool up;
	struct loop_timer *timer;
};

/* writer_witness.c */
void wit_failed(struct witnesses *w, struct one *o, const char *fmt, ...) PRINTF_LIKE(3, 4);
void wit_next(struct witnesses *w); /* whoever is due is asked */

/* writer_witness_tree.c */
void wit_feed(struct witnesses *w, uint64_t size);
void wit_locate(struct witnesses *w, struct one *o); /* its span, from o->size on */
void wit_read_stop(struct witnesses *w);

/* writer_witness_files.c */
int wit_files_open(struct witnesses *w, struct err *err);
/* Adds the line to wit/SIZE; durable when it returns 0. */
int wit_files_add(struct witnesses *w, const struct one *o, struct str line, struct err *err);
/* Does the head of o->size that it cosigned lie here, signed by a key of this log? */
bool wit_files_proof(const struct witnesses *w, const struct one *o);
/* Keeps request and answer; *ret_name is "" when there is no room. */
int wit_files_evidence(struct witnesses *w, const struct one *o, unsigned status, struct str answer,
    char ret_name[32], struct hash *ret_sha256, struct err *err);

/* writer_witness_answer.c */
void wit_answer(
    struct witnesses *w, struct one *o, unsigned status, struct str body, struct str why);
void wit_conflict(struct witnesses *w, struct one *o, enum conflict kind, bool proven,
    unsigned status, struct str answer, uint64_t theirs);
const char *conflict_name(enum conflict k);

#endif
