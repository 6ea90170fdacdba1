/* The index of the log that a command was given, where it is kept. */
#ifndef CMD_CMD_LOG_INDEX_H
#define CMD_CMD_LOG_INDEX_H

#include "audit/index.h"
#include "cmd/cmd_place.h"

#define LOG_INDEX_IS "the index (default: index/log.db of the state directory)"

/*
 * Its path: `file`, or index/log.db of the state directory (made when missing). Left empty where
 * only a log directory was given, which keeps no index.
 */
int log_index_path(const struct cmd_place *p, const char *file, struct buf *ret, struct err *err);
/* Opened and up to date; says on stderr what takes long, and that it is made anew. */
int log_index_open(
    const struct cmd_place *p, const char *path, struct index **ret, struct err *err);

#endif
