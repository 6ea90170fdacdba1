/* One run of the loop as it goes: what its parts share. */
#ifndef AGENT_AGENT_COURSE_H
#define AGENT_AGENT_COURSE_H

#include "agent/agent_loop.h"

struct course {
	const struct loop_config *c;
	uint64_t begin_us, max_s, max_turns, turn, tokens;
	size_t call; /* of the turn's calls, from 1; 0: it has only one */
	struct model_answer *answers;
	size_t nanswers;
};

#endif
