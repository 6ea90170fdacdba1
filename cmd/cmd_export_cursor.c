/*
 * Cursors of exports. Runs in the command line. A cursor moves only once what is before it has been
 * written and synced, so a kill at any moment lets records go out twice, under the same id, and
 * never not at all. What stands in a cursor is believed as far as the log bears it out: the record
 * before it must have the hash that it names.
 */
#include "cmd/cmd_export_cursor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "cmd/cmd_file.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define SCHEMA "cofferdam-export-cursor/1"
#define CURSOR_MAX ((size_t)4096)
#define NAME_MAX_ 64
#define LOCK_SUFFIX ".lock"

static bool
name_ok(const char *s)
{
	size_t n = strlen(s);
	bool ok = n != 0 && n <= NAME_MAX_ && s[0] != '.';

	for (size_t i = 0; i < n; i++)
		ok = ok && (strchr("-_.", s[i]) != NULL || (s[i] >= 'a' && s[i] <= 'z') ||
			       (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= '0' && s[i] <= '9'));
	return ok && !str_has_suffix(str_z(s), LOCK_SUFFIX);
}

static int
open_dir(const struct cmd_place *p, const char *arg, struct export_cursor *c, struct err *err)
{
	const char *slash = strrchr(arg, '/');

	c->name = str_dup(str_z(slash != NULL ? slash + 1 : arg));
	if (!name_ok(c->name))
		return err_set(err, ERR_CONFIG,
		    "--cursor: a name has 1 to %d letters, digits, '-', '_' and '.', does not "
		    "begin "
		    "with '.' and does not end in " LOCK_SUFFIX,
		    NAME_MAX_);
	if (slash == NULL && p->statedir < 0)
		return err_set(err, ERR_CONFIG,
		    "--cursor %s: a log directory keeps no cursors: give a path with a slash",
		    c->name);
	if (slash != NULL)
		return cmd_place_outside(p, arg, O_RDONLY, &c->dir, err);
	if (mkdirat(p->statedir, EXPORT_DIR, 0700) != 0 && errno != EEXIST)
		return err_sys(err, ERR_CONFIG, errno, EXPORT_DIR);
	c->dir = openat(p->statedir, EXPORT_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return c->dir >= 0 ? 0 : err_sys(err, ERR_CONFIG, errno, EXPORT_DIR);
}

static int
take_lock(struct export_cursor *c, struct err *err)
{
	AUTO_FREE char *name = xasprintf("%s" LOCK_SUFFIX, c->name);

	c->lock = openat(c->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (c->lock < 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", name);
	if (flock(c->lock, LOCK_EX | LOCK_NB) != 0)
		return err_set(err, ERR_EXISTS, "another export has the cursor %s", c->name);
	return 0;
}

/* 0 and *ret_doc NULL: there is no such file. */
static int
read_file(int dir, const char *name, struct json_doc **ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF(CURSOR_MAX);
	AUTO_FD int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int r;

	*ret = NULL;
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return err_sys(err, ERR_CONFIG, errno, "cursor %s", name);
	if ((r = file_read_fd(fd, name, &text, err)) == 0)
		r = json_parse(buf_str(&text), name, ret, err);
	if (r == 0 && !str_eqz(json_str(json_get(json_root(*ret), "schema")), SCHEMA)) {
		json_free(TAKE_PTR(*ret));
		r = err_set(err, ERR_CONFIG, "%s: no cursor of an export (" SCHEMA ")", name);
	}
	return r;
}

static int
take(struct export_cursor *c, const struct json *o, const char *origin, const char *format,
    struct err *err)
{
	int64_t next = json_int(json_get(o, "next"));
	AUTO_FREE char *was = log_vis(json_str(json_get(o, "origin"))),
		       *had = log_vis(json_str(json_get(o, "format")));

	if (!str_eqz(json_str(json_get(o, "origin")), origin))
		return err_set(
		    err, ERR_STATE, "cursor %s is of the log %s, this is %s", c->name, was, origin);
	if (!str_eqz(json_str(json_get(o, "format")), format))
		return err_set(err, ERR_STATE,
		    "cursor %s is of an export of format %s, this is one of %s: a cursor for each",
		    c->name, had, format);
	if (next < 0 || (next != 0 && !hash_from_hex(json_str(json_get(o, "hash")), &c->leaf)))
		return err_set(
		    err, ERR_CONFIG, "cursor %s: next or hash is not of the form", c->name);
	c->next = (uint64_t)next;
	return 0;
}

int
export_cursor_open(const struct cmd_place *p, const char *arg, const char *origin,
    const char *format, struct export_cursor *ret, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	int r = open_dir(p, arg, ret, err);

	if (r == 0)
		r = take_lock(ret, err);
	if (r == 0)
		r = read_file(ret->dir, ret->name, &doc, err);
	return r != 0 || doc == NULL ? r : take(ret, json_root(doc), origin, format, err);
}

int
export_cursor_save(
    const struct export_cursor *c, const char *origin, const char *format, struct err *err)
{
	AUTO_BUF struct buf b = BUF(CURSOR_MAX);
	char at[CLOCK_TEXT_SIZE];
	struct jcs j;

	if (c->dir < 0)
		return 0;
	clock_format_s(clock_wall_us(), at);
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_z(&j, "at", at);
	jcs_z(&j, "format", format);
	jcs_hex(&j, "hash", c->leaf.b, HASH_LEN);
	jcs_int(&j, "next", (int64_t)c->next);
	jcs_z(&j, "origin", origin);
	jcs_z(&j, "schema", SCHEMA);
	jcs_close(&j);
	buf_put_c(&b, '\n');
	return file_replace(c->dir, c->name, buf_str(&b), 0600, err);
}

void
export_cursor_close(struct export_cursor *c)
{
	cleanup_close_fd(&c->lock);
	cleanup_close_fd(&c->dir);
	free(TAKE_PTR(c->name));
}

/* --- status ----------------------------------------------------------------------------------- */

typedef void each_fn(void *arg, const char *name, const struct json *cursor, const struct err *why);

/* Sorted by name; who may not look there sees none. */
static void
each(const char *state, each_fn *fn, void *arg)
{
	AUTO_FREE char *path =
	    xasprintf("%s/" EXPORT_DIR, state != NULL ? state : CMD_STATE_DEFAULT);
	struct dirent **list = NULL;
	AUTO_FD int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int n = dir >= 0 ? scandirat(dir, ".", &list, NULL, alphasort) : 0;

	for (int i = 0; i < n; i++) {
		AUTO(json) struct json_doc *doc = NULL;
		struct err why = {0};

		if (name_ok(list[i]->d_name)) {
			(void)read_file(dir, list[i]->d_name, &doc, &why);
			if (doc != NULL || why.code != 0)
				fn(arg, list[i]->d_name, doc != NULL ? json_root(doc) : NULL, &why);
		}
		free(list[i]);
	}
	free(list);
}

static int64_t
lag_of(const struct json *cursor, uint64_t log_size)
{
	int64_t next = json_int(json_get(cursor, "next"));

	return next >= 0 && (uint64_t)next < log_size ? (int64_t)(log_size - (uint64_t)next) : 0;
}

static void
print_one(void *arg, const char *name, const struct json *c, const struct err *why)
{
	const uint64_t *size = arg;
	AUTO_FREE char *format = log_vis(json_str(json_get(c, "format"))),
		       *at = log_vis(json_str(json_get(c, "at")));

	if (c == NULL)
		(void)printf("export   %s: %s\n", name, why->msg);
	else
		(void)printf("export   %s, %s: up to record %" PRId64 ", %" PRId64
			     " records behind, at %s\n",
		    name, format, json_int(json_get(c, "next")), lag_of(c, *size), at);
}

void
export_status_print(const char *state, uint64_t log_size)
{
	each(state, print_one, &log_size);
}

struct putting {
	struct jcs *j;
	uint64_t size;
};

static void
put_one(void *arg, const char *name, const struct json *c, const struct err *why)
{
	struct putting *p = arg;

	jcs_open(p->j, NULL);
	if (c == NULL) {
		jcs_str_lossy(p->j, "error", str_z(why->msg));
	} else {
		jcs_str_lossy(p->j, "at", json_str(json_get(c, "at")));
		jcs_str_lossy(p->j, "format", json_str(json_get(c, "format")));
		jcs_int(p->j, "lag", lag_of(c, p->size));
	}
	jcs_z(p->j, "name", name);
	if (c != NULL)
		jcs_int(p->j, "next", json_int(json_get(c, "next")));
	jcs_close(p->j);
}

void
export_status_put(struct jcs *j, const char *key, const char *state, uint64_t log_size)
{
	struct putting p = {j, log_size};

	jcs_array(j, key);
	each(state, put_one, &p);
	jcs_array_end(j);
}
