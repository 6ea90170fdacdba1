/* What a model said, apart: its words, and what it handed to tools; to hold an agent's account
 * against. White space is left out of both, since loops join and trim. */
#ifndef AUDIT_REPLAY_SAID_H
#define AUDIT_REPLAY_SAID_H

#include "common/buf.h"

struct said {
	struct buf words, code;
	struct buf call; /* of a stream: the arguments of the call that is being told */
	bool partial;	 /* something was not of a form that is known: nothing can be missed */
};
void said_init(struct said *s);
void said_free(struct said *s);
/* The body of an answer, instead of what was there. False: of no form that is known. */
bool said_read(struct said *s, struct str body);
/* All of `text`, but for white space, is among its words (or, of code, among either). */
bool said_words(const struct said *s, struct str text);
bool said_code(const struct said *s, struct str text);

#endif
