/* The parts of cofferdam-inside and what they share. One process runs one part. */
#ifndef AGENT_SANDBOX_INSIDE_PART_H
#define AGENT_SANDBOX_INSIDE_PART_H

#include <sys/types.h>

#include "common/buf.h"
#include "common/err.h"
#include "agent/sandbox/inside_frame.h"

/* argv[0] is the part's name. Returns the exit status; what went wrong was said in an ERROR. */
int inside_part(int argc, char **argv);

/* Each gets argv, checked to be of its length, and says ERROR through the caller when not 0. */
int inside_read(char **argv, struct err *err);
int inside_list(char **argv, struct err *err);
int inside_stat(char **argv, struct err *err);
int inside_write(char **argv, struct err *err);
int inside_mkdir(char **argv, struct err *err);
int inside_rename(char **argv, struct err *err);
int inside_remove(char **argv, struct err *err);
int inside_watch(char **argv, struct err *err);
int inside_snapshot(char **argv, struct err *err);
int inside_restore(char **argv, struct err *err);

/* --- frames (inside_io.c) --- */
/* ERR_UNAVAILABLE: nobody reads any more. */
int inside_put(enum frame_type type, struct str body, struct err *err);
/* DATA in pieces; counts for END. */
int inside_data(struct str bytes, struct err *err);
int inside_end(struct err *err);
/* The next frame of the input: its type, or an error (also when the input ends). */
int inside_take(struct buf *body, struct err *err);
/* err_sys with the code that fits errnum, naming what and the path. */
int inside_errno(struct err *err, int errnum, const char *what, const char *path);
int inside_write_all(int fd, struct str s);

/* --- what is restored comes in (inside_swap.c); all in the directory that one is in --- */
#define SWAP_PREFIX ".cofferdam-restore-"
#define SWAP_NEW SWAP_PREFIX "new" /* to be unpacked into */
/* Until this process ends no other snapshot or restore is at work here. */
int swap_lock(struct err *err);
/* Puts back, or away, what one that was killed has left. */
int swap_recover(struct err *err);
/* SWAP_NEW takes the place of all else. On an error that is there as before, unless it says so. */
int swap_commit(struct err *err);

/* --- trees (inside_tree.c) --- */
/* Everything below the open directory, however deep and whatever its modes. */
int tree_empty(int dir, const char *name, struct err *err);
int tree_remove(const char *path, struct err *err);

#endif
