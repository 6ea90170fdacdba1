/* Lines for a terminal: broken at its width, coloured whole, never by what they hold. */
#ifndef AUDIT_REPLAY_TERM_H
#define AUDIT_REPLAY_TERM_H

#include "audit/replay_tell.h"

#define TERM_BAR "                     | " /* stands before each line of content */

struct term {
	unsigned width; /* 0: not broken */
	bool colour;
	struct buf *out;
};
enum term_tone { TERM_PLAIN, TERM_CLAIM, TERM_ALLOW, TERM_WAIT, TERM_DENY, TERM_GAP, TERM_DOUBT };
/* One line, which holds nothing that log_vis would change. What does not fit goes on below, behind
 * a mark in the column of the bar. */
void term_line(const struct term *t, enum term_tone tone, struct str line);
/* Columns that text takes. */
size_t term_columns(struct str text);

#endif
