/*
 * A document in Markdown or HTML. Words of ours go in as they are; whatever was recorded only as
 * code, where neither form reads anything into it.
 */
#ifndef AUDIT_REPLAY_DOC_H
#define AUDIT_REPLAY_DOC_H

#include "common/buf.h"

struct doc {
	struct buf *out;
	bool html;
	unsigned lists; /* of an HTML document: open lists */
};
/* Words: ours, without characters that either form reads. */
void doc_heading(struct doc *d, unsigned level, const char *words);
/* One paragraph (depth 0) or item of a list (1 or 2), made of words and code in between. */
void doc_begin(struct doc *d, unsigned depth);
void doc_words(struct doc *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
void doc_strong(struct doc *d, const char *words);
void doc_code(struct doc *d, struct str recorded); /* any bytes, on one line */
void doc_end(struct doc *d);
void doc_block(struct doc *d, struct str recorded); /* any bytes, line by line */
/* Ends all lists, so that another document's part can follow. */
void doc_close(struct doc *d);

#endif
