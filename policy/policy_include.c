/*
 * The files of a policy. Runs in the command line alone, as the person who reviews or builds it.
 * An included file stands below the root's directory, is read once, and is named in full in every
 * message; nothing outside that directory is ever opened for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/xalloc.h"
#include "policy/policy_internal.h"

#include "common/banned.h"

#define FILES_MAX 256
#define DEPTH_MAX 16

static int
file_open(const char *dir, const char *name)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
	    .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	AUTO_FD int dirfd = -1;

	if (name[0] == '/')
		return open(name, (int)how.flags);
	dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return -1;
	return (int)syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
}

int
policy_file_read(const char *dir, const char *name, struct buf *ret, struct err *err)
{
	AUTO_FD int fd = file_open(dir, name);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return err_set(err, ERR_CONFIG, "%s", strerror(errno));
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return err_set(err, ERR_CONFIG, "not a regular file");
	do {
		uint8_t chunk[8192];

		n = read(fd, chunk, sizeof(chunk));
		if (n > 0)
			buf_put(ret, chunk, (size_t)n);
	} while ((n > 0 && !buf_over(ret)) || (n < 0 && errno == EINTR));
	if (n < 0)
		return err_set(err, ERR_CONFIG, "%s", strerror(errno));
	if (buf_over(ret))
		return err_set(err, ERR_TOO_LARGE, "over %zu bytes", ret->max);
	return 0;
}

/* --- the documents ------------------------------------------------------------------- */

void
policy_docs_free(struct policy_docs *d)
{
	for (size_t i = 0; i < d->n; i++)
		json_free(d->v[i]);
	free(d->v);
	*d = (struct policy_docs){0};
}

size_t
policy_docs_count(const struct policy_docs *d, const char *key)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		n += json_count(json_get(json_root(d->v[i]), key));
	return n;
}

struct tree {
	const struct policy_source *src;
	struct policy_docs *docs;
	char *names[FILES_MAX]; /* as they were written, without needless parts */
	size_t nnames;
	size_t open[DEPTH_MAX]; /* into names: those that lead to this one */
	size_t depth;
};

/* Plain parts alone, so that a file has one name and a cycle is seen by it. */
static bool
name_is_plain(struct str s)
{
	struct str part;

	if (s.n == 0 || s.n > POLICY_TEXT_MAX || !str_is_ascii_print(s))
		return false;
	for (;;) {
		bool last = !str_cut(&s, '/', &part);

		if (last)
			part = s;
		if (part.n == 0 || part.p[0] == '.')
			return false;
		if (last)
			return true;
	}
}

static int
refuse_again(const struct tree *t, const struct json_doc *doc, const struct json *v,
    struct str name, struct err *err)
{
	size_t i = 0;

	while (i < t->nnames && !str_eqz(name, t->names[i]))
		i++;
	if (i == t->nnames)
		return 0;
	for (size_t k = 0; k < t->depth; k++)
		if (t->open[k] == i)
			return json_err(doc, v, err, ERR_INVALID,
			    "\"%.*s\" includes itself, by way of %s", STR_ARG(name),
			    json_name(doc));
	return json_err(doc, v, err, ERR_INVALID, "\"%.*s\" is included twice", STR_ARG(name));
}

static int include_all(struct tree *t, struct json_doc *doc, struct err *err);

/* The name for messages: as a person in the directory of the command would write it. */
static char *
shown_name(const struct tree *t, struct str name)
{
	const char *slash = strrchr(t->src->name, '/');

	return slash == NULL ? str_dup(name)
			     : xasprintf("%.*s%.*s", (int)(slash + 1 - t->src->name), t->src->name,
				   STR_ARG(name));
}

static int
include_one(struct tree *t, const struct json_doc *by, const struct json *v, struct err *err)
{
	AUTO_BUF struct buf text = BUF(JSON_SIZE_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_FREE char *shown = NULL;
	struct str name = json_str(v);
	struct err why = {0};
	int rc;

	if (!name_is_plain(name))
		return json_err(by, v, err, ERR_INVALID,
		    "an included file must be named relative to the policy's directory and below "
		    "it, is \"%.*s\"",
		    STR_ARG(name));
	rc = refuse_again(t, by, v, name, err);
	if (rc != 0)
		return rc;
	if (t->nnames == FILES_MAX || t->depth == DEPTH_MAX)
		return json_err(by, v, err, ERR_INVALID,
		    "a policy may include up to %d files, %d deep", FILES_MAX - 1, DEPTH_MAX - 1);
	t->names[t->nnames] = str_dup(name);
	t->open[t->depth] = t->nnames;
	rc = policy_file_read(t->src->dir, t->names[t->nnames++], &text, &why);
	if (rc != 0)
		return json_err(by, v, err, rc, "include %.*s: %s", STR_ARG(name), why.msg);
	shown = shown_name(t, name);
	rc = json_parse(buf_str(&text), shown, &doc, err);
	if (rc != 0)
		return rc;
	t->depth++;
	rc = include_all(t, TAKE_PTR(doc), err);
	t->depth--;
	return rc;
}

/* Takes the document; then what it includes, each with its own, in the order in which they stand.
 */
static int
include_all(struct tree *t, struct json_doc *doc, struct err *err)
{
	const struct json *v = json_get(json_root(doc), "include");
	bool array = json_type(v) == JSON_ARRAY;
	int rc = 0;

	t->docs->v = xreallocarray(t->docs->v, t->docs->n + 1, sizeof(struct json_doc *));
	t->docs->v[t->docs->n++] = doc;
	if (v == NULL)
		return 0;
	if (t->src->dir == NULL)
		return json_err(
		    doc, v, err, ERR_INVALID, "include: this policy was not read from a directory");
	if ((array && json_count(v) == 0) || (!array && json_type(v) != JSON_STRING))
		return json_err(doc, v, err, ERR_INVALID,
		    "include must be the name of a file or a list of such");
	for (size_t i = 0; rc == 0 && i < (array ? json_count(v) : 1); i++)
		rc = include_one(t, doc, array ? json_at(v, i) : v, err);
	return rc;
}

int
policy_include(
    struct str text, const struct policy_source *src, struct policy_docs *docs, struct err *err)
{
	AUTO_FREE struct tree *t = xcalloc(1, sizeof(*t));
	const char *slash = strrchr(src->name, '/');
	struct json_doc *doc = NULL;
	int rc = json_parse(text, src->name, &doc, err);

	if (rc != 0)
		return rc;
	t->src = src;
	t->docs = docs;
	t->names[t->nnames++] = xstrdup(slash != NULL ? slash + 1 : src->name);
	t->depth = 1; /* open[0] is the root */
	rc = include_all(t, doc, err);
	for (size_t i = 0; i < t->nnames; i++)
		free(t->names[i]);
	return rc;
}
