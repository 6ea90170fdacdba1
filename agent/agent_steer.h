/*
 * What people tell a run while it lives, at the agent's end, and what the broker lets it show:
 * pause, stop, words for the model, records.
 */
#ifndef AGENT_AGENT_STEER_H
#define AGENT_AGENT_STEER_H

#include "common/err.h"
#include "agent/transcript.h"

struct sandbox;
struct agent_said {
	struct str by, text;
};

/* So many actions on a target may be let through. */
#define CALL_LIMITS_MAX 32
struct call_limit {
	char *target;
	uint64_t most, seen;
};

struct agent_steer {
	struct transcript *out;	 /* records go there; NULL: nowhere */
	struct sandbox *sandbox; /* stands still while the run is paused; NULL: none yet */
	bool paused;
	char *stop;		 /* who stopped it and why; NULL: nobody */
	uint64_t heard;		 /* the record of the last words */
	struct agent_said *said; /* words that the model has not been given */
	size_t nsaid;
	struct call_limit limits[CALL_LIMITS_MAX]; /* targets are borrowed */
	size_t nlimits;
};

/* A_STEER, A_SEEN: ERR_PROTOCOL when malformed. */
int steer_take(struct agent_steer *s, struct str body, struct err *err);
int steer_seen(struct agent_steer *s, struct str body, struct err *err);
/* The first budget of calls that is spent; NULL: none. */
const struct call_limit *steer_calls_over(const struct agent_steer *s);
/* For the model, in words that say whose they are; nothing if nobody said anything. */
void steer_words(const struct agent_steer *s, struct buf *out);
/* The model has been given what was said. */
void steer_given(struct agent_steer *s);
void steer_free(struct agent_steer *s);
#define AUTO_STEER __attribute__((cleanup(steer_free)))

#endif
