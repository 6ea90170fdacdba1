/* One run of the loop as it goes: what its parts share. */
#ifndef AGENT_AGENT_COURSE_H
#define AGENT_AGENT_COURSE_H

#include "agent/agent_loop.h"

#define COURSE_CONTEXTS 3

struct course {
	const struct loop_config *c;
	uint64_t begin_us, max_s, max_turns, turn, tokens;
	size_t call;	/* of the turn's calls, from 1; 0: it has only one */
	uint64_t calls; /* of the run */
	struct model_answer *answers;
	size_t nanswers;
	struct {
		struct sandbox_context *context; /* NULL: not begun */
		const char *language;
	} contexts[COURSE_CONTEXTS];
	char *finished;	     /* the model's closing words; NULL: it goes on */
	const char *outcome; /* with them: done or not_done */
};

#endif
