/* One run of the loop as it goes: what its parts share. */
#ifndef AGENT_AGENT_COURSE_H
#define AGENT_AGENT_COURSE_H

#include "agent/agent_loop.h"

#define COURSE_CONTEXTS 3

/* What the run may use; 0: no limit. */
struct budget {
	uint64_t turns, time_s, tokens;
	uint64_t cost;	 /* millionths of the currency */
	uint64_t output; /* bytes of one call */
};

struct spent {
	uint64_t turns, calls, tokens_in, tokens_out;
	uint64_t cost;	 /* millionths of millionths */
	uint64_t output; /* bytes of the call that wrote most */
};

struct course {
	const struct loop_config *c;
	struct budget may;
	struct spent spent;
	uint64_t begin_us, turn;
	size_t call; /* of the turn's calls, from 1; 0: it has only one */
	struct model_answer *answers;
	size_t nanswers;
	struct {
		struct sandbox_context *context; /* NULL: not begun */
		const char *language;
	} contexts[COURSE_CONTEXTS];
	char *words;	     /* of the policy, as the model knows them */
	char *finished;	     /* the model's closing words; NULL: it goes on */
	const char *outcome; /* with them: done or not_done */
};

#endif
