/* Where a timeline goes: a terminal, through a pager like git's, or whatever standard output is. */
#ifndef CMD_CMD_REPLAY_PAGER_H
#define CMD_CMD_REPLAY_PAGER_H

#include <stdbool.h>

struct pager {
	int pid, saved; /* 0: none */
	bool colour;
	unsigned width; /* 0: no terminal */
};
/*
 * Asks the terminal and the environment: NO_COLOR, TERM, COLUMNS, COFFERDAM_PAGER, PAGER. With a
 * pager, standard output is its pipe from here on.
 */
void pager_begin(struct pager *p, bool no_pager);
/* Flushes standard output and waits for the pager. */
void pager_end(struct pager *p);

#endif
