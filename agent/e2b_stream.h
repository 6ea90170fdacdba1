/* A program's events as a stream of Connect's. */
#ifndef AGENT_E2B_STREAM_H
#define AGENT_E2B_STREAM_H

#include "agent/e2b.h"

/* To its end. began: the client began it, and its time is the program's. */
void e2b_stream(struct e2b_request *q, struct keeper_stream *s, bool pty, bool began);

#endif
