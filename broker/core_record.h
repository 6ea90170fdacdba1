/*
 * Records on their way to the writer. Nothing that core lets happen happens before the
 * callback of its record came with code 0.
 */
#ifndef BROKER_CORE_RECORD_H
#define BROKER_CORE_RECORD_H

#include "broker/core.h"

#define CORE_TICKETS_MAX 4096
#define CORE_RECORD_DATA_MAX ((size_t)60000) /* leaves room for the envelope */
#define CORE_RECORD_FRAMES_MAX ((size_t)3 << 20)

struct core_ack {
	int code;	 /* 0 durable; ERR_UNAVAILABLE, ERR_TIMEOUT: not known to be */
	const char *why; /* durable, but not witnessed: who is missing; else NULL */
	uint64_t seq, size;
	struct hash root; /* of the tree up to and with seq; only with CORE_REC_ROOT */
	struct hash leaf; /* of the record */
};
typedef void core_ack_fn(void *arg, const struct core_ack *ack);

enum { CORE_REC_CHECKPOINT = 1, CORE_REC_ROOT = 2, CORE_REC_WITNESS = 4 }; /* of W_APPEND */
struct core_append {
	const char *type, *src; /* src NULL: "broker" */
	const char *run;	/* NULL: none */
	uint8_t flags;
	unsigned witnesses;	 /* so many must cosign it before the callback */
	int64_t witness_s;	 /* so long that is waited for */
	const struct buf *data;	 /* canonical JSON object */
	const struct buf *frame; /* one sealed blob, or NULL */
	struct str show;	 /* what is sealed, for who watches the run; may be empty */
	const char *dispatched; /* action that may be sent after the ack: if the ack comes too late,
				   not_sent is recorded */
	const char
	    *outcome_of; /* action whose outcome this is: kept until durable, across writers */
	core_ack_fn *fn; /* may be NULL; called once, never from inside core_record */
	void *arg;
};
/* NULL: cannot be recorded now (no writer, too many waiting, too large); fn will not be called. */
struct core_ticket *core_record(struct core *c, const struct core_append *a);
/*
 * The owner of `arg` goes away: fn will not be called, and a `dispatched` action counts as not
 * sent. NULL is fine; a ticket is gone once fn has run.
 */
void core_record_forget(struct core_ticket *t);
/* Outcomes of what core itself ends. Doubt: status "lost" or "unknown"; reads: core_action_reads.
 */
void core_record_not_sent(struct core *c, const char *run, const char *action, uint64_t seq);
void core_record_doubt(struct core *c, const char *run, const char *action, uint64_t seq,
    bool reads, const char *status);

/* Is an outcome of that action on its way already? */
bool core_record_keeps(const struct core *c, const char *action);

int core_record_on_ack(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
/* Witnesses have cosigned more, or refuse: whoever waits for that is answered. */
void core_record_witnessed(struct core *c);
/* The writer's wire is gone: everything that waits fails now. */
void core_record_writer_gone(struct core *c);
/* The live records are known: settle doubtful actions (core_live.c calls it). */
void core_record_settle(struct core *c);
void core_record_free_all(struct core *c);

#endif
