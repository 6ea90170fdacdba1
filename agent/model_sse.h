/* Server-sent events, from bytes as they come (WHATWG HTML 9.2.6). */
#ifndef AGENT_MODEL_SSE_H
#define AGENT_MODEL_SSE_H

#include "common/buf.h"
#include "common/err.h"

#define SSE_EVENT_MAX ((size_t)4 << 20) /* bytes of one line, and of one event's data */

/* 0: go on; 1: that is all, what follows is not looked at; else an error. */
typedef int sse_event_fn(void *arg, struct str name, struct str data, struct err *err);

struct sse {
	struct buf line, data;
	char name[64]; /* longer names are none that anybody waits for: "" */
	bool data_seen, cr, begun;
};

void sse_init(struct sse *s);
void sse_free(struct sse *s);
/*
 * Any cut of a stream into pieces gives the same events. An event without data is none; one that
 * is not ended by an empty line never happens. ERR_TOO_LARGE. Comments, id and retry are passed
 * over.
 */
int sse_feed(struct sse *s, struct str bytes, sse_event_fn *fn, void *arg, struct err *err);

#endif
