/*
 * Content in signed chunks ("Transferring Payload in Multiple Chunks" of the Amazon S3 API
 * Reference): SIZE;chunk-signature=64 HEX CRLF, that many bytes, CRLF, ..., a chunk of size 0,
 * CRLF. Read incrementally; the signatures are read over, since who made them had no key.
 */
#ifndef COMMON_AWSCHUNK_H
#define COMMON_AWSCHUNK_H

#include "common/buf.h"
#include "common/err.h"

#define AWSCHUNK_SIGNED "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
#define AWSCHUNK_LINE_MAX 128
#define AWSCHUNK_SIZE_MAX ((uint64_t)1 << 40) /* of one chunk */

struct awschunk {
	uint8_t state;
	uint64_t left;	/* of the chunk's content */
	uint64_t total; /* content so far */
	size_t line;	/* bytes of the chunk's line so far */
	char text[AWSCHUNK_LINE_MAX];
};
void awschunk_init(struct awschunk *c);
/*
 * Takes bytes off *in and gives the next run of content in *out (borrowed, may be empty). 1: the
 * last chunk is over; 0: call again, with more input if *in is empty; ERR_SYNTAX: not of that form.
 * What is behind the last chunk stays in *in.
 */
int awschunk_next(struct awschunk *c, struct str *in, struct str *out, struct err *err);
/* All of a body; ERR_SYNTAX also if it ends early, goes on behind its end or does not have `length`
 * bytes of content. Appends them to *out (NULL: only looks). */
int awschunk_read(struct str body, uint64_t length, struct buf *out, struct err *err);

#endif
