/* Where an export is in the log: a file of its own, replaced whole. docs/export.md 2. */
#ifndef CMD_CMD_EXPORT_CURSOR_H
#define CMD_CMD_EXPORT_CURSOR_H

#include "cmd/cmd_place.h"
#include "common/jcs.h"

#define EXPORT_DIR "export"

struct export_cursor {
	int dir;    /* that it stands in; -1: none is kept */
	char *name; /* of the file there */
	int lock;
	uint64_t next;	  /* the first record that has not gone out */
	struct hash leaf; /* of the one before it, if next is not 0 */
};
#define EXPORT_CURSOR_NONE ((struct export_cursor){.dir = -1, .lock = -1})

/*
 * `arg` is a name, kept in export/ of the state directory, or a path with a slash. Takes its lock;
 * ERR_EXISTS: another export has it. A file that is not there is a beginning; one of another log,
 * or of another format, is ERR_STATE.
 */
int export_cursor_open(const struct cmd_place *p, const char *arg, const char *origin,
    const char *format, struct export_cursor *ret, struct err *err);
/* Durable when it returns. */
int export_cursor_save(
    const struct export_cursor *c, const char *origin, const char *format, struct err *err);
void export_cursor_close(struct export_cursor *c);
#define AUTO_EXPORT_CURSOR __attribute__((cleanup(export_cursor_close)))

/* For `cofferdam status`: what stands in export/, by a log of that many records. */
void export_status_print(const char *state, uint64_t log_size);
/* The same as an array, [] if there is none. */
void export_status_put(struct jcs *j, const char *key, const char *state, uint64_t log_size);

#endif
