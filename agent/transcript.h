/* What a person sees of a run while it goes: plain lines, control characters made visible. */
#ifndef AGENT_TRANSCRIPT_H
#define AGENT_TRANSCRIPT_H

#include "common/buf.h"

struct transcript {
	int fd; /* -1: silent */
};

void transcript_head(const struct transcript *t, const char *run, const char *owner,
    const char *agent, const char *task);
void transcript_turn(const struct transcript *t, unsigned turn);
/* Each line of text behind `mark`; nothing when text is empty. */
void transcript_text(const struct transcript *t, const char *mark, struct str text);
void transcript_line(const struct transcript *t, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
