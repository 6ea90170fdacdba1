/* Reads what a part of cofferdam-inside answers (inside_frame.h). For libsandbox and its tests. */
#ifndef AGENT_SANDBOX_SANDBOX_FRAME_H
#define AGENT_SANDBOX_SANDBOX_FRAME_H

#include "common/buf.h"
#include "common/err.h"
#include "agent/sandbox/inside_frame.h"

/* Checked: kinds and operations are of the enums, paths are not empty and hold no NUL. */
struct frame_entry {
	enum frame_kind kind;
	uint64_t size, mtime_ms;
	uint32_t mode;
	struct str path, target;
};
struct frame_change {
	enum frame_op op;
	struct str path, to;
};

/* Which frames an answer may have beside END and ERROR; a NULL one may not come. Not 0: stop. */
struct frame_ops {
	int (*data)(void *arg, struct str bytes, struct err *err); /* pieces, as they come */
	int (*entry)(void *arg, const struct frame_entry *e, struct err *err);
	int (*change)(void *arg, const struct frame_change *c, struct err *err);
};

struct frame_reader {
	const struct frame_ops *ops;
	void *arg;
	uint8_t head[FRAME_HEAD];
	size_t nhead;
	uint8_t type;
	uint32_t left; /* of the body */
	struct buf body;
	uint64_t data;
	bool ended; /* END or ERROR was there: nothing may follow */
};

void frame_reader_init(struct frame_reader *f, const struct frame_ops *ops, void *arg);
void frame_reader_free(struct frame_reader *f);
/*
 * Any cut of the stream gives the same calls, but for the pieces of DATA. ERR_PROTOCOL: not such a
 * stream. Any other error: what ERROR said, or an operation.
 */
int frame_feed(struct frame_reader *f, struct str s, struct err *err);

/* One frame to a part. */
void frame_put(struct buf *out, enum frame_type type, struct str body);

/* The JSON of the contract. Bytes that are no UTF-8 are replaced, and then stand in "bytes" in hex.
 */
void frame_entry_json(const struct frame_entry *e, struct buf *out);
void frame_change_json(const struct frame_change *c, struct buf *out);

#endif
