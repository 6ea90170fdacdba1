/*
 * A log directory for fuzz targets: made once by the writer's own store, kept in memory, laid out
 * anew for each input. In memory only, if there is such a file system: each open syncs.
 */
#ifndef FUZZ_LOG_DIR_H
#define FUZZ_LOG_DIR_H

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "audit/live.h"
#include "audit/segment.h"
#include "audit/writer_store.h"
#include "common/cleanup.h"
#include "common/log.h"

#define IMAGE_FILES 64

struct image {
	size_t n;
	struct image_file {
		char name[64];
		struct buf bytes;
	} file[IMAGE_FILES];
};

static struct log_dir {
	char path[64];
	int fd;
	struct vkeys keys;
	struct secret *seed;
	uint8_t sk[64];
	struct store_opts o;
} dir_;

static const char *const dir_subs[] = {
    LOG_SEG, LOG_CP, LOG_BLOB, LOG_TORN, LOG_LIVE, LOG_KEPT, "key"};

/* Each regular file of a log but for the lock and the ballast. */
static inline void
dir_each(void (*fn)(void *arg, const char *name), void *arg)
{
	for (size_t i = 0; i <= ARRAY_LEN(dir_subs); i++) {
		char path[320], name[320];
		struct dirent *e;
		struct stat st;
		DIR *d;

		(void)snprintf(path, sizeof(path), "%s/%s", dir_.path,
		    i < ARRAY_LEN(dir_subs) ? dir_subs[i] : ".");
		if ((d = opendir(path)) == NULL)
			continue;
		while ((e = readdir(d)) != NULL) {
			(void)snprintf(name, sizeof(name), "%s%s%s",
			    i < ARRAY_LEN(dir_subs) ? dir_subs[i] : "",
			    i < ARRAY_LEN(dir_subs) ? "/" : "", e->d_name);
			if (fstatat(dir_.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			    S_ISREG(st.st_mode) && strcmp(name, LOG_LOCK) != 0 &&
			    strcmp(name, LOG_BALLAST) != 0)
				fn(arg, name);
		}
		(void)closedir(d);
	}
}

static inline void
dir_remove(void *arg UNUSED, const char *name)
{
	assert(unlinkat(dir_.fd, name, 0) == 0);
}

static inline void
dir_take(void *arg, const char *name)
{
	struct image *m = arg;
	struct image_file *f = &m->file[m->n];

	assert(m->n < IMAGE_FILES && strlen(name) < sizeof(f->name));
	memcpy(f->name, name, strlen(name) + 1);
	buf_init(&f->bytes, (size_t)16 << 20);
	assert(log_read_file(dir_.fd, name, &f->bytes, NULL) == 0);
	m->n++;
}

static inline void
image_free(struct image *m)
{
	for (size_t i = 0; i < m->n; i++)
		buf_free(&m->file[i].bytes);
	m->n = 0;
}

static inline void
image_take(struct image *m)
{
	image_free(m);
	dir_each(dir_take, m);
}

static inline struct image_file *
image_find(struct image *m, const char *name)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->file[i].name, name) == 0)
			return &m->file[i];
	return NULL;
}

/* The last file, by name, of a directory. */
static inline struct image_file *
image_last(struct image *m, const char *sub, const char *suffix)
{
	struct image_file *last = NULL;

	for (size_t i = 0; i < m->n; i++) {
		struct str name = str_z(m->file[i].name);

		if (str_has_prefix(name, sub) && str_has_suffix(name, suffix) &&
		    (last == NULL || strcmp(last->name, m->file[i].name) < 0))
			last = &m->file[i];
	}
	assert(last != NULL);
	return last;
}

static inline bool
image_eq(struct image *a, struct image *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		const struct image_file *f = image_find(b, a->file[i].name);

		if (f == NULL || !str_eq(buf_str(&f->bytes), buf_str(&a->file[i].bytes)))
			return false;
	}
	return true;
}

static inline void
dir_put(const char *name, struct str bytes)
{
	AUTO_FD int fd = openat(dir_.fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert(fd >= 0 && write(fd, bytes.p, bytes.n) == (ssize_t)bytes.n);
}

static inline void
image_put(const struct image *m)
{
	dir_each(dir_remove, NULL);
	for (size_t i = 0; i < m->n; i++)
		dir_put(m->file[i].name, buf_str(&m->file[i].bytes));
}

/* --- the store ------------------------------------------------------------------------------ */

static inline void
dir_record(void *arg, const struct record *r, const struct tree_range *tree)
{
	live_record(*(struct live **)arg, r, tree);
}

static inline bool
dir_save(void *arg, struct buf *out)
{
	return live_save(*(struct live **)arg, out);
}

static inline bool
dir_restore(void *arg, struct rd *in)
{
	return live_restore(*(struct live **)arg, in);
}

/* As a start of the writer: 0, or why it refuses. Left open, as by kill -9, when `end` is NULL. */
static inline int
dir_open(int (*end)(struct store *s), struct err *err)
{
	struct live *live = live_new();
	struct signer *signer = NULL;
	struct store *s = NULL;
	int rc;

	dir_.o.arg = &live;
	assert(signer_new(dir_.seed, &dir_.keys.key[0], &signer, NULL) == 0);
	rc = store_open(dir_.fd, signer, &dir_.o, &s, err);
	if (rc == 0 && end != NULL)
		assert(end(s) == 0);
	store_free(s);
	signer_free(signer);
	live_free(live);
	return rc;
}

static inline void
dir_fill(struct store *s, int n)
{
	uint64_t seq;

	for (int i = 0; i < n; i++)
		assert(store_append(s, "agent.note", STR("agent"), STR("r-1"), STR("{\"n\":1}"),
			   &seq, NULL, NULL) == 0 &&
		       store_commit(s, NULL) == 0);
}

static inline int
dir_close(struct store *s)
{
	return store_close(s, NULL);
}

static inline void
dir_tidy(void)
{
	char path[320];

	dir_each(dir_remove, NULL);
	(void)unlinkat(dir_.fd, LOG_LOCK, 0);
	(void)unlinkat(dir_.fd, LOG_BALLAST, 0);
	for (size_t i = 0; i < ARRAY_LEN(dir_subs); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir_.path, dir_subs[i]);
		(void)rmdir(path);
	}
	(void)rmdir(dir_.path);
	secret_free(dir_.seed);
}

static inline void
dir_unsaid(void *arg UNUSED, enum log_level level UNUSED, struct str line UNUSED)
{
}

/* An empty directory and a key, of this process: all zeros. */
static inline void
dir_make(void)
{
	const char *shm = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	uint8_t pub[32];

	log_set_sink(dir_unsaid, NULL);
	(void)snprintf(dir_.path, sizeof(dir_.path), "%s/cofferdam-fuzz-log.XXXXXX", shm);
	assert(mkdtemp(dir_.path) != NULL);
	dir_.fd = open(dir_.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(dir_.fd >= 0);
	(void)atexit(dir_tidy);
	dir_.seed = secret_new(32);
	(void)crypto_sign_seed_keypair(pub, dir_.sk, secret_bytes(dir_.seed));
	dir_.keys.n = 1;
	assert(vkey_make(STR("o.example"), pub, &dir_.keys.key[0], NULL) == 0);
	dir_.o = (struct store_opts){.ballast = 4096,
	    .segment_max = 4096,
	    .record = dir_record,
	    .save = dir_save,
	    .restore = dir_restore};
}

#endif
