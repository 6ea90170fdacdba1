/*
 * The index's file. Runs in the command line as whoever may read the log. SQLite is given a file
 * that somebody else may have written: it must have our tables and no others, no trigger and no
 * view, and what it answers is only ever a place to look at.
 */
#include "audit/index.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/index_int.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define APP_ID 0x43664978 /* "CfIx" */
#define VERSION 1
#define BUSY_MS 10000 /* a person with sqlite3 has it open; ours take turns by the lock */
#define LOCK_SUFFIX ".lock"
#define NO_INDEX "%s: is there and no index of a log: name another file, or take it away first"

#define SQL_BLOCK                                                                              \
	"CREATE TABLE block(n INTEGER PRIMARY KEY,tmin INTEGER,tmax INTEGER,leaf BLOB,places " \
	"BLOB)"
#define SQL_POST                                                                                  \
	"CREATE TABLE post(block INTEGER,term INTEGER,bits BLOB,PRIMARY KEY(block,term))WITHOUT " \
	"ROWID"

int
index_sql_err(const struct index *x, const char *what, struct err *err)
{
	int rc = sqlite3_errcode(x->db) & 0xff;

	return err_set(err,
	    rc == SQLITE_CORRUPT || rc == SQLITE_NOTADB || rc == SQLITE_ERROR || rc == SQLITE_SCHEMA
		? ERR_STATE
		: ERR_SYSTEM,
	    "index: %s: %s", what, sqlite3_errmsg(x->db));
}

int
index_exec(struct index *x, const char *sql, struct err *err)
{
	return sqlite3_exec(x->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0
								       : index_sql_err(x, sql, err);
}

static int
get_int(struct index *x, const char *sql, int64_t *ret, struct err *err)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(x->db, sql, -1, &st, NULL);

	if (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW)
		*ret = sqlite3_column_int64(st, 0);
	(void)sqlite3_finalize(st);
	return rc == SQLITE_ROW ? 0 : index_sql_err(x, sql, err);
}

/* Exactly our two tables (and nothing at all in a file that was just made). */
static int
check_schema(struct index *x, struct err *err)
{
	int64_t all, ours, app, version;
	int r = get_int(x, "SELECT count(*) FROM sqlite_schema", &all, err);

	if (r == 0)
		r = get_int(x,
		    "SELECT count(*) FROM sqlite_schema WHERE sql IN ('" SQL_BLOCK "','" SQL_POST
		    "')",
		    &ours, err);
	if (r == 0)
		r = get_int(x, "PRAGMA application_id", &app, err);
	if (r == 0)
		r = get_int(x, "PRAGMA user_version", &version, err);
	if (r != 0)
		return r;
	if (all == 0 && app == 0 && version == 0) {
		char sql[512];

		(void)snprintf(sql, sizeof(sql),
		    "BEGIN IMMEDIATE;" SQL_BLOCK ";" SQL_POST
		    ";PRAGMA application_id=%d;PRAGMA user_version=%d;COMMIT",
		    APP_ID, VERSION);
		return index_exec(x, sql, err);
	}
	if (all != 2 || ours != 2 || app != APP_ID || version != VERSION)
		return err_set(err, ERR_STATE, "index: not one of version %d", VERSION);
	return 0;
}

static int
prepare(struct index *x, struct err *err)
{
	static const char *const sql[] = {
	    "INSERT INTO block VALUES(?1,?2,?3,?4,?5)",
	    "INSERT INTO post VALUES(?1,?2,?3)",
	    "SELECT tmin,tmax,places FROM block WHERE n=?1",
	    "SELECT bits FROM post WHERE block=?1 AND term=?2",
	    "SELECT n,leaf,places FROM block ORDER BY n DESC LIMIT 1",
	};
	sqlite3_stmt **st[] = {
	    &x->put_block, &x->put_post, &x->get_block, &x->get_post, &x->newest};

	for (size_t i = 0; i < ARRAY_LEN(sql); i++)
		if (sqlite3_prepare_v3(x->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, st[i], NULL) !=
		    SQLITE_OK)
			return index_sql_err(x, sql[i], err);
	return 0;
}

static void
db_close(struct index *x)
{
	sqlite3_stmt **st[] = {
	    &x->put_block, &x->put_post, &x->get_block, &x->get_post, &x->newest};

	for (size_t k = 0; k < ARRAY_LEN(st); k++) {
		(void)sqlite3_finalize(*st[k]);
		*st[k] = NULL;
	}
	(void)sqlite3_close(x->db);
	x->db = NULL;
}

void
index_close(struct index *x)
{
	if (x == NULL)
		return;
	db_close(x);
	cleanup_close_fd(&x->lock);
	free(x->path);
	free(x);
}

/* --- the lock and the file ------------------------------------------------------------------ */

static int
lock_open(const char *path, int *ret_fd, struct err *err)
{
	AUTO_BUF struct buf name = BUF(8192);
	AUTO_FREE char *z = NULL;

	buf_printf(&name, "%s" LOCK_SUFFIX, path);
	z = buf_dup_z(&name);
	*ret_fd = open(z, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return *ret_fd >= 0 ? 0 : err_sys(err, ERR_SYSTEM, errno, "%s", z);
}

static int
lock_take(int fd, int how, struct err *err)
{
	while (flock(fd, how) != 0)
		if (errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "lock of the index");
	return 0;
}

int
index_lock(struct index *x, int how, struct err *err)
{
	struct stat st;
	int r = lock_take(x->lock, how, err);

	if (r != 0)
		return r;
	if (lstat(x->path, &st) != 0 || st.st_dev != x->dev || st.st_ino != x->ino) {
		index_unlock(x);
		return err_set(err, ERR_STATE, "index: another one was put in its place");
	}
	return 0;
}

void
index_unlock(struct index *x)
{
	(void)flock(x->lock, LOCK_UN);
}

static int
files_remove(const char *path, struct err *err)
{
	static const char *const suffix[] = {"", "-journal", "-wal", "-shm"};

	for (size_t i = 0; i < ARRAY_LEN(suffix); i++) {
		AUTO_BUF struct buf name = BUF(8192);
		AUTO_FREE char *z = NULL;

		buf_printf(&name, "%s%s", path, suffix[i]);
		z = buf_dup_z(&name);
		if (unlink(z) != 0 && errno != ENOENT)
			return err_sys(err, ERR_SYSTEM, errno, "%s", z);
	}
	return 0;
}

/* SQLite's header: its name, and the application's number at 68. */
int
index_may_replace(const char *path, struct err *err)
{
	static const char magic[16] = "SQLite format 3";
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	uint8_t head[72];
	uint32_t app;
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(err, ERR_CONFIG, errno, "%s", path);
	if (fstat(fd, &st) != 0 ||
	    (S_ISREG(st.st_mode) && (n = pread(fd, head, sizeof(head), 0)) < 0))
		return err_sys(err, ERR_CONFIG, errno, "%s", path);
	if (S_ISREG(st.st_mode) && n == 0)
		return 0;
	if (!S_ISREG(st.st_mode) || n != (ssize_t)sizeof(head) ||
	    memcmp(head, magic, sizeof(magic)) != 0)
		return err_set(err, ERR_CONFIG, NO_INDEX, path);
	memcpy(&app, head + 68, sizeof(app));
	return be32toh(app) == APP_ID ? 0 : err_set(err, ERR_CONFIG, NO_INDEX, path);
}

int
index_remove(const char *path, struct err *err)
{
	AUTO_FD int fd = -1;
	int r = lock_open(path, &fd, err);

	if (r == 0)
		r = lock_take(fd, LOCK_EX, err);
	return r != 0 ? r : files_remove(path, err);
}

/* The newest block must end with the record that stands at its place in this log. */
static int
check_log(struct index *x, int logdir, struct err *err)
{
	AUTO(reader) struct reader *rd = NULL;
	struct reader_place last;
	struct hash leaf, is;
	struct record rec;
	uint64_t n;
	int r = reader_open(logdir, &rd, err);

	if (r != 0)
		return r;
	if ((r = index_newest(x, &n, &last, &leaf, err)) <= 0)
		return r;
	if (!reader_holds(rd, last.seq))
		return err_set(err, ERR_STATE, "index: ends before the log begins");
	r = reader_at(rd, &last, &rec, &is, err);
	if (r == ERR_TAMPER || (r == 0 && !hash_eq(&is, &leaf)))
		return err_set(err, ERR_STATE, "index: is of another log");
	return r;
}

/* The lock is held. */
static int
try_open(struct index *x, int logdir, struct err *err)
{
	mode_t had = umask(0077);
	struct stat st;
	int r, rc = sqlite3_open_v2(x->path, &x->db,
		   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW |
		       SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
		   NULL);

	(void)umask(had);
	if (rc != SQLITE_OK)
		return err_set(err, ERR_SYSTEM, "%s: %s", x->path,
		    x->db != NULL ? sqlite3_errmsg(x->db) : "out of memory");
	(void)sqlite3_db_config(x->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void)sqlite3_db_config(x->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	(void)sqlite3_busy_timeout(x->db, BUSY_MS);
	(void)sqlite3_limit(x->db, SQLITE_LIMIT_LENGTH, 1 << 20);
	if ((r = check_schema(x, err)) != 0 || (r = prepare(x, err)) != 0 ||
	    (r = index_exec(x, "PRAGMA cache_size=-65536", err)) != 0 ||
	    (r = check_log(x, logdir, err)) != 0)
		return r;
	if (lstat(x->path, &st) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", x->path);
	x->dev = st.st_dev;
	x->ino = st.st_ino;
	return 0;
}

int
index_open(const char *path, int logdir, struct index **ret, bool *ret_anew, struct err *err)
{
	AUTO(index) struct index *x = xcalloc(1, sizeof(*x));
	bool anew = false;
	int r;

	x->path = str_dup(str_z(path));
	x->lock = -1;
	if ((r = lock_open(path, &x->lock, err)) != 0 ||
	    (r = lock_take(x->lock, LOCK_EX, err)) != 0)
		return r;
	if ((r = try_open(x, logdir, err)) == ERR_STATE) {
		anew = true;
		db_close(x);
		if ((r = files_remove(path, err)) == 0)
			r = try_open(x, logdir, err);
	}
	index_unlock(x);
	if (ret_anew != NULL)
		*ret_anew = anew;
	if (r != 0)
		return r;
	*ret = TAKE_PTR(x);
	return 0;
}

/* --- reading -------------------------------------------------------------------------------- */

int
index_newest(struct index *x, uint64_t *ret_n, struct reader_place *ret_last, struct hash *ret_leaf,
    struct err *err)
{
	int r = 0, rc = sqlite3_step(x->newest);

	if (rc == SQLITE_ROW) {
		int64_t n = sqlite3_column_int64(x->newest, 0);
		const uint8_t *places = sqlite3_column_blob(x->newest, 2);

		if (n < 0 || n > INT64_MAX / INDEX_BLOCK - 1 ||
		    sqlite3_column_bytes(x->newest, 1) != HASH_LEN ||
		    sqlite3_column_bytes(x->newest, 2) != (int)INDEX_BLOCK * 4) {
			r = err_set(err, ERR_STATE, "index: its newest block is none");
		} else {
			*ret_n = (uint64_t)n;
			*ret_last = (struct reader_place){
			    .seq = (uint64_t)n * INDEX_BLOCK + INDEX_BLOCK - 1,
			    .off = index_u32(places + (INDEX_BLOCK - 1) * 4)};
			memcpy(ret_leaf->b, sqlite3_column_blob(x->newest, 1), HASH_LEN);
			r = 1;
		}
	} else if (rc != SQLITE_DONE) {
		r = index_sql_err(x, "newest block", err);
	}
	(void)sqlite3_reset(x->newest);
	return r;
}

int
index_block(
    struct index *x, uint64_t n, int64_t time[2], uint8_t places[INDEX_BLOCK * 4], struct err *err)
{
	int r = 1, rc;

	(void)sqlite3_bind_int64(x->get_block, 1, (int64_t)n);
	rc = sqlite3_step(x->get_block);
	if (rc == SQLITE_DONE) {
		r = 0;
	} else if (rc != SQLITE_ROW) {
		r = index_sql_err(x, "block", err);
	} else if (sqlite3_column_bytes(x->get_block, 2) != (int)INDEX_BLOCK * 4) {
		r = err_set(err, ERR_STATE, "index: block %" PRIu64 " is none", n);
	} else {
		time[0] = sqlite3_column_int64(x->get_block, 0);
		time[1] = sqlite3_column_int64(x->get_block, 1);
		memcpy(places, sqlite3_column_blob(x->get_block, 2), (size_t)INDEX_BLOCK * 4);
	}
	(void)sqlite3_reset(x->get_block);
	return r;
}

int
index_bits(struct index *x, uint64_t n, uint64_t term, struct index_bits *out, struct err *err)
{
	const uint8_t *p;
	size_t len;
	int rc;

	(void)sqlite3_bind_int64(x->get_post, 1, (int64_t)n);
	(void)sqlite3_bind_int64(x->get_post, 2, (int64_t)term);
	rc = sqlite3_step(x->get_post);
	if (rc == SQLITE_ROW) {
		p = sqlite3_column_blob(x->get_post, 0);
		len = (size_t)sqlite3_column_bytes(x->get_post, 0);
		for (size_t i = 0; len == INDEX_BITS && i < ARRAY_LEN(out->w); i++) {
			uint64_t w;

			memcpy(&w, p + i * sizeof(w), sizeof(w));
			out->w[i] |= le64toh(w);
		}
		for (size_t i = 0; len < INDEX_BITS && i + 1 < len; i += 2) {
			size_t at = ((size_t)p[i] << 8 | p[i + 1]) % INDEX_BLOCK;

			out->w[at / 64] |= UINT64_C(1) << (at % 64);
		}
	}
	(void)sqlite3_reset(x->get_post);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : index_sql_err(x, "term", err);
}
