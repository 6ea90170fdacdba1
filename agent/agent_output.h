/* The whole output of one call, for when what the model sees of it is cut. */
#ifndef AGENT_AGENT_OUTPUT_H
#define AGENT_AGENT_OUTPUT_H

#include "agent/agent_tools.h"

#define OUTPUT_WHOLE_MAX ((uint64_t)16 << 20)
#define OUTPUT_FILES_MAX 16 /* of the newest calls */
#define OUTPUT_DIR "/tmp/outputs"

struct output {
	struct buf first; /* until it is more than is shown anyway */
	int fd;		  /* then all of it; -1: not yet */
	uint64_t n;
	bool lost; /* it could not be kept */
};

void output_init(struct output *o);
void output_free(struct output *o);
#define AUTO_OUTPUT __attribute__((cleanup(output_free)))
void output_take(void *output, int stream, struct str bytes); /* a sandbox_output_fn */
/*
 * The cut output as text into d; if something was left out, the whole becomes a file of the
 * sandbox, and the text names it.
 */
void output_tell(
    struct course *k, struct output *o, const struct sandbox_result *r, struct tool_done *d);

#endif
