/*
 * What a context's interpreter and its caller say to each other over descriptor SANDBOX_FIRST_FD of
 * the interpreter. Text that a shell can write: a frame is a letter, ten digits (bytes of the
 *body), a line feed, and the body; a field is ten digits and its bytes. The driver
 *(context/driver.*) runs in the same process as hostile code, so whatever comes is checked, and
 *concerns its cell alone.
 *
 *	to the interpreter	R code
 *	from it, once		H "cofferdam-context 1"
 *	for each R		any number of B and V: fields of MIME type and text, types
 *ascending; then E: fields ok|error|interrupted, name, value, traceback
 */
#ifndef AGENT_SANDBOX_SANDBOX_CELL_H
#define AGENT_SANDBOX_SANDBOX_CELL_H

#include "common/buf.h"
#include "common/err.h"

#define CELL_HELLO "cofferdam-context 1"
#define CELL_HEAD 12
#define CELL_BODY_MAX ((size_t)8 << 20)
#define CELL_TYPES_MAX 32
#define CELL_BUNDLES_MAX 1000
#define CELL_BUNDLE_BYTES_MAX ((uint64_t)64 << 20) /* of one cell */

enum cell_status { CELL_OK, CELL_ERROR, CELL_INTERRUPTED };

struct cell_ops {
	/* JSON object of MIME type to text, made here; result: the value of the cell. */
	void (*bundle)(void *arg, bool result, struct str json);
	void (*end)(
	    void *arg, enum cell_status s, struct str name, struct str value, struct str traceback);
};

struct cell_reader {
	const struct cell_ops *ops; /* NULL members: not wanted */
	void *arg;
	uint8_t head[CELL_HEAD];
	size_t nhead;
	uint8_t type;
	size_t left;
	struct buf body;
	bool greeted, open; /* H was there; a cell is running */
	unsigned bundles;
	uint64_t bytes;
};

void cell_reader_init(struct cell_reader *c, const struct cell_ops *ops, void *arg);
void cell_reader_free(struct cell_reader *c);
/* Appends the frame that begins a cell; from now on its answer may come. */
void cell_begin(struct cell_reader *c, struct str code, struct buf *out);
/* Any cut of the stream gives the same calls. ERR_PROTOCOL: it breaks the rules above. */
int cell_feed(struct cell_reader *c, struct str s, struct err *err);

#endif
