/* A cell as its client sees it. */
#ifndef AGENT_E2B_CODE_H
#define AGENT_E2B_CODE_H

#include "agent/e2b.h"

/* 1: to its end; else an error, and the cell is to be interrupted. */
int e2b_cell_follow(struct e2b_request *q, struct keeper_stream *s, struct err *err);

#endif
