/*
 * Watching a run: its records as they become durable, to its agent's terminal and to people at the
 * control socket. docs/runs.md has the form.
 */
#ifndef BROKER_CORE_WATCH_H
#define BROKER_CORE_WATCH_H

#include "broker/core_control.h"

#define CORE_WATCHERS_MAX 16		       /* in all, so that people who approve find a place */
#define CORE_WATCH_TEXT_MAX ((size_t)16384)    /* shown of a record's content */
#define CORE_WATCH_QUEUE_MAX ((size_t)1 << 20) /* not read yet; what is over it is left out */
#define CORE_BACKLOG_MAX 64		       /* records kept to begin with */
#define CORE_BACKLOG_BYTES ((size_t)262144)

struct core_seen {
	const char *type, *src; /* src NULL: "broker" */
	const char *run;
	uint64_t seq;
	struct str data;   /* canonical JSON object */
	struct str show;   /* the content that the record has sealed, or its beginning */
	size_t show_bytes; /* of the whole */
};
/* A record is durable. Nobody who looks can hold anything up: what they do not read is left out. */
void core_watch_record(struct core *c, const struct core_seen *s);
int core_watch_verb(struct core_call *call, struct err *err);
/* The run is gone from memory: who watched it is told, and its backlog freed. */
void core_watch_free(struct core_run *run);

#endif
