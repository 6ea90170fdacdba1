/* Files as the subcommands read and write them, and how they say that something went wrong. */
#ifndef CMD_CMD_FILE_H
#define CMD_CMD_FILE_H

#include <sys/types.h>

#include "common/buf.h"
#include "common/err.h"

#define CMD_STATE_DEFAULT "/var/lib/cofferdam"

/* Prints "cofferdam: MESSAGE" to standard error; returns CMD_USAGE for ERR_CONFIG, else CMD_FAILED.
 */
int cmd_fail(const struct err *err);

int file_write_all(int fd, struct str s); /* 0, or -1 with errno */
/* All of fd, up to out's maximum; ERR_TOO_LARGE names it. */
int file_read_fd(int fd, const char *name, struct buf *out, struct err *err);
int file_read(int dirfd, const char *name, struct buf *out, struct err *err);
/* The whole new content or the old one, whatever happens: temporary file, sync, rename, sync. */
int file_replace(int dirfd, const char *name, struct str content, mode_t mode, struct err *err);
/* A file that must not exist yet. Synced. */
int file_create(int dirfd, const char *name, struct str content, mode_t mode, struct err *err);

#endif
