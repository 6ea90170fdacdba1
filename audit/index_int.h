/* Between the index's own files. */
#ifndef AUDIT_INDEX_INT_H
#define AUDIT_INDEX_INT_H

#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "audit/index.h"

#define INDEX_NO_PLACE UINT32_MAX
#define INDEX_BITS (INDEX_BLOCK / 8)
#define INDEX_LIST_MAX (INDEX_BITS / 2) /* so many numbers are as large as the bitmap */

struct index {
	char *path;
	int lock;
	dev_t dev; /* which file was opened: another may stand at the path since */
	ino_t ino;
	sqlite3 *db;
	sqlite3_stmt *put_block, *put_post, *get_block, *get_post, *newest;
};

struct index_bits {
	uint64_t w[INDEX_BLOCK / 64];
};

/*
 * LOCK_SH to look something up, LOCK_EX to change the file or put another in its place, each for a
 * moment only: nobody may hold one while people read. ERR_STATE: the file is another one now.
 */
int index_lock(struct index *x, int how, struct err *err);
void index_unlock(struct index *x);
/* ERR_STATE where the file is not what it must be, else ERR_SYSTEM. */
int index_sql_err(const struct index *x, const char *what, struct err *err);
int index_exec(struct index *x, const char *sql, struct err *err);
/* The newest block: 1, or 0 if there is none. */
int index_newest(struct index *x, uint64_t *ret_n, struct reader_place *ret_last,
    struct hash *ret_leaf, struct err *err);
/* One block: 1 and its times and offsets; 0: none. */
int index_block(
    struct index *x, uint64_t n, int64_t time[2], uint8_t places[INDEX_BLOCK * 4], struct err *err);
/* Sets in *out what the block has of a term. */
int index_bits(struct index *x, uint64_t n, uint64_t term, struct index_bits *out, struct err *err);

static inline uint32_t
index_u32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

#endif
