/* What would have stopped an action: the recorded policy asked again, with one thing otherwise. */
#ifndef CMD_CMD_REPLAY_STOP_H
#define CMD_CMD_REPLAY_STOP_H

#include "audit/replay_doc.h"
#include "audit/record.h"
#include "cmd/cmd_replay_case.h"

struct stop;
/* path: another policy to ask as well, or NULL. The case stays the caller's. */
int stop_new(const struct replay_case *c, const char *path, struct stop **ret, struct err *err);
void stop_free(struct stop *s);
/* arg: a struct stop. Items of a list, for a record `action`. */
void stop_record(void *arg, const struct record *r, struct doc *d);

#endif
