/*
 * The files of a log directory: numbered names, and segments read line by line. Used by whoever
 * reads a log; follows no symbolic link and opens nothing but regular files.
 */
#ifndef AUDIT_SEGMENT_H
#define AUDIT_SEGMENT_H

#include "audit/record.h"

#define LOG_SEG "seg"
#define LOG_CP "cp"
#define LOG_BLOB "blob"
#define LOG_TORN "torn"
#define LOG_LIVE "live"
#define LOG_WIT "wit"		/* <size>: checkpoints with witnesses' cosignatures */
#define LOG_EVIDENCE "evidence" /* <nn>: what witnesses refused */
#define LOG_KEPT "kept"		/* of pruned segments: what others need */
#define LOG_CHECKPOINT "checkpoint"
#define LOG_PRUNE "prune" /* the order of a prune that is not done yet */
#define LOG_LOCK "LOCK"
#define LOG_BALLAST "ballast"
#define LOG_LINES ".jsonl"
#define LOG_LEAVES ".leaves"
#define LOG_PACK ".pack"
#define LOG_NAME_SIZE 32
#define LOG_TMP ".tmp" /* begins the name of a file that is not finished: readers skip it */

/* "<number, 20 digits><suffix>" */
void log_name(char out[LOG_NAME_SIZE], uint64_t number, const char *suffix);

/* Numbers of the files with one of these suffixes (up to 2) in a directory, ascending. */
struct log_files {
	size_t n[2];
	uint64_t *number[2];
	size_t foreign;	       /* names that are none of these, or no regular files */
	char foreign_name[64]; /* the first of them, made printable */
};
int log_files_list(int logdir, const char *sub, const char *suffix0, const char *suffix1,
    struct log_files *ret, struct err *err);
/* The same of the log directory itself: no numbers, only what does not belong there. */
int log_root_list(int logdir, struct log_files *ret, struct err *err);
bool log_files_has(const struct log_files *f, int which, uint64_t number);
void log_files_free(struct log_files *f);
/* The first record that is there (a prune moves it); 0: none, or it cannot be told. */
uint64_t log_first(int logdir);
/* Did segments go since *first was that? It is set anew: who reads again then comes to an end. */
bool log_first_moved(int logdir, uint64_t *first);
/* True: the first segment that is there now begins behind `first`; *f, of seg/, is listed anew. */
bool log_segments_pruned(int segdir, uint64_t first, struct log_files *f);
#define AUTO_LOG_FILES __attribute__((cleanup(log_files_free)))

/*
 * Open a subdirectory or regular file beneath dirfd, never through a link. ERR_NOT_FOUND of a
 * directory: there is none, though something else may have its name (log_root_list counts that).
 */
int log_open_dir(int dirfd, const char *name, int *ret_fd, struct err *err);
int log_or_none(int r, struct err *err); /* what is not there holds nothing: then 0 */
int log_open_file(int dirfd, const char *name, int flags, int *ret_fd, struct err *err);
/* Read a whole regular file of at most out->max - out->n bytes. */
int log_read_file(int dirfd, const char *name, struct buf *out, struct err *err);
/* pread all of n bytes: *ret_n is less only at the end of the file. */
int log_pread(int fd, void *p, size_t n, uint64_t off, size_t *ret_n, struct err *err);

enum segment_line {
	SEGMENT_END = 0,
	SEGMENT_LINE = 1, /* ends in LF */
	SEGMENT_PART = 2, /* the file ends without LF; empty if longer than any record */
	SEGMENT_LONG = 3, /* longer than any record; skipped, *ret_line is empty */
};
struct segment;
/* Reads up to the size that the file has now. */
int segment_open(int segdir, uint64_t first, struct segment **ret, struct err *err);
void segment_free(struct segment *s);
/* enum segment_line or an error. The line is good until the next call; *ret_off is where it begins.
 */
int segment_next(struct segment *s, struct str *ret_line, uint64_t *ret_off, struct err *err);
uint64_t segment_size(const struct segment *s);
void segment_skip(struct segment *s, uint64_t off); /* go on from that byte; at most the size */

#endif
