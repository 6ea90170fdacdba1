/*
 * filesystem.Filesystem of E2B's data plane but for watching (process: a worker of
 * cofferdam-sandboxd). Done inside with the rights of the code inside; what comes back was written
 * by code that nobody trusts, and is told as it is.
 */
#include "agent/e2b_fs.h"

#include <stdio.h>

#include "common/xalloc.h"
#include "agent/keeper_wire.h"

#include "common/banned.h"

void
e2b_sandbox_drop(struct sandbox **sb)
{
	sandbox_detach(*sb);
	*sb = NULL;
}

static void
permissions(const char *type, unsigned mode, char out[11])
{
	static const char set[] = "rwxrwxrwx";

	out[0] = strcmp(type, "dir") == 0 ? 'd' : strcmp(type, "link") == 0 ? 'L' : '-';
	for (unsigned i = 0; i < 9; i++)
		out[1 + i] = (mode & (0400u >> i)) != 0 ? set[i] : '-';
	out[10] = '\0';
}

/* Google's Timestamp, and an int64 as text: JSON of protocol buffers. */
void
e2b_entry_info(struct jcs *j, const char *name, const struct json *e)
{
	struct str type = json_str(json_get(e, "type"));
	AUTO_FREE char *kind = str_dup(type);
	AUTO_FREE char *size = xasprintf("%lld", (long long)json_int(json_get(e, "size")));
	unsigned mode = (unsigned)json_int(json_get(e, "mode")) & 07777;
	char bits[11];

	permissions(kind, mode, bits);
	jcs_open(j, name);
	jcs_z(j, "group", "user");
	jcs_int(j, "mode", mode);
	e2b_time_put(j, "modifiedTime", json_int(json_get(e, "mtime_ms")));
	jcs_str_lossy(j, "name", json_str(json_get(e, "name")));
	jcs_z(j, "owner", "user");
	jcs_str_lossy(j, "path", json_str(json_get(e, "path")));
	jcs_z(j, "permissions", bits);
	jcs_z(j, "size", size);
	if (strcmp(kind, "link") == 0)
		jcs_str_lossy(j, "symlinkTarget", json_str(json_get(e, "target")));
	jcs_z(j, "type",
	    strcmp(kind, "dir") == 0	? "FILE_TYPE_DIRECTORY"
	    : strcmp(kind, "link") == 0 ? "FILE_TYPE_SYMLINK"
	    : strcmp(kind, "file") == 0 ? "FILE_TYPE_FILE"
					: "FILE_TYPE_UNSPECIFIED");
	jcs_close(j);
}

int
e2b_stat(struct sandbox *sb, const char *path, struct json_doc **ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(E2B_JSON_MAX);
	int rc = sandbox_file_stat(sb, path, &b, err);

	return rc == 0 ? json_parse(buf_str(&b), "entry", ret, err) : rc;
}

static int
answer_entry(struct e2b_request *q, struct sandbox *sb, const char *path, struct err *err)
{
	AUTO_BUF struct buf out = BUF(E2B_JSON_MAX);
	AUTO(json) struct json_doc *d = NULL;
	struct jcs j;
	int rc = e2b_stat(sb, path, &d, err);

	if (rc != 0)
		return rc;
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	e2b_entry_info(&j, "entry", json_root(d));
	jcs_close(&j);
	e2b_answer_json(q, 200, &out);
	return 0;
}

/* --- one call ------------------------------------------------------------------------------------
 */

struct call {
	struct json_doc *d;
	const struct json *o;
	struct buf path;
	struct sandbox *sb;
};

static void
call_free(struct call *c)
{
	json_free(c->d);
	buf_free(&c->path);
	sandbox_detach(c->sb);
}
#define AUTO_CALL __attribute__((cleanup(call_free)))
#define CALL ((struct call){.path = BUF(8192)})

static const char *
path_of(const struct call *c)
{
	return (const char *)c->path.p;
}

/* False: answered. */
static bool
call_take(struct e2b_request *q, const char *key, struct call *c)
{
	struct err e = {0};

	if (!e2b_message(q, false, &c->d) || !e2b_user_ok(q, false))
		return false;
	c->o = json_root(c->d);
	if (!e2b_path(json_str(json_get(c->o, key)), &c->path))
		(void)err_set(&e, ERR_INVALID, "%s is no path", key);
	else if (keeper_sandbox(q->keeper, &c->sb, &e) == 0)
		return true;
	e2b_connect_fail(q, &e);
	return false;
}

static void
finish(struct e2b_request *q, int rc, const struct err *e)
{
	if (rc != 0)
		e2b_connect_fail(q, e);
}

void
e2b_on_stat(struct e2b_request *q)
{
	AUTO_CALL struct call c = CALL;
	struct err e = {0};

	if (call_take(q, "path", &c))
		finish(q, answer_entry(q, c.sb, path_of(&c), &e), &e);
}

static int
is_directory(struct sandbox *sb, const char *path, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	int rc = e2b_stat(sb, path, &d, err);

	if (rc == 0 && !str_eqz(json_str(json_get(json_root(d), "type")), "dir") &&
	    !str_eqz(json_str(json_get(json_root(d), "type")), "link"))
		return err_set(err, ERR_INVALID, "path is not a directory: %s", path);
	return rc;
}

void
e2b_on_list_dir(struct e2b_request *q)
{
	AUTO_CALL struct call c = CALL;
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX), out = BUF(WIRE_BODY_MAX * 2);
	AUTO(json) struct json_doc *d = NULL;
	int64_t depth;
	struct err e = {0};
	struct jcs j;
	int rc;

	if (!call_take(q, "path", &c))
		return;
	depth = json_int(json_get(c.o, "depth"));
	depth = depth < 1 ? 1 : depth > 128 ? 128 : depth;
	if ((rc = is_directory(c.sb, path_of(&c), &e)) == 0 &&
	    (rc = sandbox_file_list(c.sb, path_of(&c), (unsigned)depth, &b, &e)) == 0)
		rc = json_parse(buf_str(&b), "entries", &d, &e);
	if (rc != 0) {
		e2b_connect_fail(q, &e);
		return;
	}
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	jcs_array(&j, "entries");
	for (size_t i = 0; i < json_count(json_root(d)); i++)
		e2b_entry_info(&j, NULL, json_at(json_root(d), i));
	jcs_array_end(&j);
	jcs_close(&j);
	e2b_answer_json(q, 200, &out);
}

void
e2b_on_make_dir(struct e2b_request *q)
{
	AUTO_CALL struct call c = CALL;
	AUTO(json) struct json_doc *d = NULL;
	struct err e = {0}, none = {0};
	int rc;

	if (!call_take(q, "path", &c))
		return;
	if (e2b_stat(c.sb, path_of(&c), &d, &none) == 0)
		rc = str_eqz(json_str(json_get(json_root(d), "type")), "dir")
			 ? err_set(&e, ERR_EXISTS, "directory already exists: %s", path_of(&c))
			 : err_set(&e, ERR_INVALID,
			       "path already exists but it is not a directory: %s", path_of(&c));
	else
		rc = sandbox_file_mkdir(c.sb, path_of(&c), &e);
	if (rc == 0)
		rc = answer_entry(q, c.sb, path_of(&c), &e);
	finish(q, rc, &e);
}

static int
parent_make(struct sandbox *sb, const char *path, struct err *err)
{
	AUTO_FREE char *dir = xstrdup(path);
	char *slash = strrchr(dir, '/');
	struct err ignored = {0};
	AUTO(json) struct json_doc *d = NULL;

	if (slash == NULL || slash == dir)
		return 0;
	*slash = '\0';
	if (e2b_stat(sb, dir, &d, &ignored) == 0)
		return 0;
	return sandbox_file_mkdir(sb, dir, err);
}

void
e2b_on_move(struct e2b_request *q)
{
	AUTO_CALL struct call c = CALL;
	AUTO_BUF struct buf to = BUF(8192);
	struct err e = {0};
	int rc;

	if (!call_take(q, "source", &c))
		return;
	if (!e2b_path(json_str(json_get(c.o, "destination")), &to))
		rc = err_set(&e, ERR_INVALID, "destination is no path");
	else if ((rc = parent_make(c.sb, (const char *)to.p, &e)) == 0)
		rc = sandbox_file_rename(c.sb, path_of(&c), (const char *)to.p, &e);
	if (rc == 0)
		rc = answer_entry(q, c.sb, (const char *)to.p, &e);
	finish(q, rc, &e);
}

/* What is not there is removed already, as SDKs have it. */
void
e2b_on_remove(struct e2b_request *q)
{
	AUTO_CALL struct call c = CALL;
	AUTO_BUF struct buf b = BUF(16);
	struct err e = {0};
	int rc;

	if (!call_take(q, "path", &c))
		return;
	rc = sandbox_file_remove(c.sb, path_of(&c), true, &e);
	if (rc != 0 && rc != ERR_NOT_FOUND) {
		e2b_connect_fail(q, &e);
		return;
	}
	buf_put_z(&b, "{}");
	e2b_answer_json(q, 200, &b);
}
