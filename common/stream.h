/*
 * A run's stream, as people read it: one event of docs/runs.md as lines for a terminal. Events come
 * from the broker (A_SEEN, Q_EVENT) or from the loop itself; what stands in them was written by
 * models, by code in a sandbox and by strangers.
 */
#ifndef COMMON_STREAM_H
#define COMMON_STREAM_H

#include "common/buf.h"
#include "common/json.h"

enum stream_tone { STREAM_PLAIN, STREAM_QUIET, STREAM_GOOD, STREAM_BAD, STREAM_WAIT, STREAM_WORDS };

struct stream_look {
	bool colour;
	const char *run; /* whose stream it is: what is of another run says so */
};

/* `mark`, then `line` with what is not printable made visible, then a line end. */
void stream_line(const struct stream_look *l, enum stream_tone tone, const char *mark,
    struct str line, struct buf *out);
/* Each line of text behind `mark`; nothing when text is empty. */
void stream_text(const struct stream_look *l, enum stream_tone tone, const char *mark,
    struct str text, struct buf *out);
/* Nothing for an event that people need not see. */
void stream_event(const struct stream_look *l, const struct json *event, struct buf *out);
/* Has NO_COLOR, TERM or a file in place of a terminal something against colours? */
bool stream_colour(int fd);

#endif
