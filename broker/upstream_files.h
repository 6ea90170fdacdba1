/*
 * A directory of files as reference data: one answer to a GET or HEAD of it. A path is a file, or a
 * directory whose entries are listed; "?q=WORDS" searches a directory, "?from=N" reads on in a
 * file.
 */
#ifndef BROKER_UPSTREAM_FILES_H
#define BROKER_UPSTREAM_FILES_H

#include "common/buf.h"
#include "common/err.h"

#define UPSTREAM_DIR_NAME_MAX 64
#define FILES_PART ((uint64_t)4 << 20) /* of a file, in one answer */
#define FILES_ENTRIES_MAX 4096	       /* of a directory, in a list */
#define FILES_HITS_MAX 200
#define FILES_SEARCH_ENTRIES 20000 /* files and directories that one search looks at */
#define FILES_SEARCH_BYTES ((uint64_t)256 << 20)
#define FILES_SEARCH_DEPTH 32
#define FILES_STEP ((size_t)256 << 10) /* of work before others get a turn, about */

enum files_step { FILES_MORE = 0, FILES_END, FILES_BROKEN };

struct files;

/*
 * target: path and query as leased; dirfd stays the caller's, and open. Nothing outside of it is
 * opened: no link is followed, no other file system entered; what is neither file nor directory is
 * not opened at all.
 */
struct files *files_new(int dirfd, struct str target);
void files_free(struct files *f); /* NULL is fine */
/*
 * The next part of the work. What the head has comes into `head` once, as lines with CRLF and a
 * last empty one, before the content; both are reset first. FILES_BROKEN: what was promised in the
 * head cannot be given.
 */
enum files_step files_next(struct files *f, struct buf *head, struct buf *content, struct err *err);

/* --- upstream_files_search.c: the walk */
struct files_search;
struct files_search *files_search_new(int dirfd, const char *path, struct str words);
void files_search_free(struct files_search *s);
/* False: there is more to do. True: what was found is in out, as JSON. */
bool files_search_step(struct files_search *s, struct buf *out);

/* --- upstream_files_open.c: the ways into the directory */
enum files_kind { FILES_NONE = 0, FILES_FILE, FILES_DIR, FILES_LINK, FILES_SPECIAL };
enum files_kind files_kind_of(unsigned mode); /* st_mode */
const char *files_kind_name(enum files_kind k);
/* Relative path, "" the directory itself. *ret_kind is set also when it fails, if it is known. An
 * errno, or 0. */
int files_open(
    int dirfd, const char *path, int *ret_fd, enum files_kind *ret_kind, uint64_t *ret_bytes);
/* What a name in a directory is, without opening it. */
enum files_kind files_look(int dirfd, const char *name, uint64_t *ret_bytes);
/* The first bytes of a file tell it: text has no zero byte in them. */
bool files_is_binary(struct str begin);
/* A directory's names, sorted by bytes, without "." and ".."; at most `max`, the others are
 * counted in *ret_more. The caller frees with files_names_free. */
struct files_names {
	char **v;
	size_t n;
	uint64_t more;
};
bool files_names_read(int fd, size_t max, struct files_names *ret);
void files_names_free(struct files_names *l);

#endif
