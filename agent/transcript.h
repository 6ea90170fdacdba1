/*
 * What a person sees of a run while it goes: lines with control characters made visible, or one
 * JSON object a line (docs/runs.md). Nobody who reads slowly, or not at all, holds the run up.
 */
#ifndef AGENT_TRANSCRIPT_H
#define AGENT_TRANSCRIPT_H

#include "common/buf.h"
#include "common/stream.h"

#define TRANSCRIPT_BEHIND_MAX ((size_t)4 << 20) /* what is not read yet; more is left out */

struct transcript {
	int fd; /* -1: silent */
	bool json;
	struct stream_look look;
	const char *prefix;		/* of each line, for a child's; NULL: none */
	struct transcript_queue *queue; /* NULL: fd takes all at once, as a file does */
};

/* To fd, from its own description of a terminal or pipe on, which does not block. */
void transcript_open(struct transcript *t, int fd, bool json);
/* Waits some seconds for who still reads. */
void transcript_close(struct transcript *t);
#define AUTO_TRANSCRIPT __attribute__((cleanup(transcript_close)))

void transcript_head(const struct transcript *t, const char *run, const char *owner,
    const char *agent, const char *task);
void transcript_turn(const struct transcript *t, unsigned turn);
/* Each line of text behind `mark`; nothing when text is empty. */
void transcript_text(const struct transcript *t, const char *mark, struct str text);
void transcript_line(const struct transcript *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* A record: `text` as it came, `event` the same parsed. */
void transcript_event(const struct transcript *t, struct str text, const struct json *event);
/* What the loop itself has put on the record, in the same form. Lines show it already. */
void transcript_own(const struct transcript *t, const char *run, uint64_t seq, const char *type,
    struct str fields, struct str content);

#endif
