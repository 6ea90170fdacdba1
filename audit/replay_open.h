/* What a timeline has seen begin and not end: an action that was sent, a run. */
#ifndef AUDIT_REPLAY_OPEN_H
#define AUDIT_REPLAY_OPEN_H

#include "common/str.h"

struct replay_open {
	struct replay_open *next; /* in the order of their records */
	uint64_t seq;
	char *id;
	bool run;
};
void replay_open_add(struct replay_open **list, bool run, struct str id, uint64_t seq);
void replay_open_drop(struct replay_open **list, bool run, struct str id);
void replay_open_free(struct replay_open **list);

#endif
