/*
 * Answers a GET or HEAD of a directory of reference data. Runs in upstream: the request was judged,
 * recorded and leased before, and its answer goes the way of every other, hashed and searched for
 * credentials. It reads, and nothing else; what it does not give, it says.
 */
#include "broker/upstream_files.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define READ_AT_ONCE ((size_t)64 << 10)

struct files {
	int dir, fd;
	char *path; /* below the directory, without "/" at its ends */
	char *words;
	bool slash, searching, told;
	uint64_t from, end, bytes; /* of the file */
	struct files_search *search;
	char *note; /* behind the content */
	bool binary;
};

/* --- the request -------------------------------------------------------------------------- */

static int
hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* NULL: an escape that is none, or of what must not stand in a path. form: "+" is a space. */
static char *
decoded(struct str s, bool form)
{
	AUTO_BUF struct buf b = BUF(s.n + 1);

	for (size_t i = 0; i < s.n; i++) {
		int c = (uint8_t)s.p[i], high, low;

		if (c == '%') {
			high = s.n - i > 2 ? hex(s.p[i + 1]) : -1;
			low = s.n - i > 2 ? hex(s.p[i + 2]) : -1;
			if (high < 0 || low < 0)
				return NULL;
			c = high * 16 + low;
			i += 2;
			/* One place has one spelling: rules are about that. */
			if (!form && (c == '/' || c == '.' || c == '-' || c == '_' || c == '~' ||
					 (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
					 (c >= 'A' && c <= 'Z')))
				return NULL;
		} else if (form && c == '+') {
			c = ' ';
		}
		if (c == '\0')
			return NULL;
		buf_put_c(&b, (char)c);
	}
	return buf_dup_z(&b);
}

static bool
segments_ok(struct str path)
{
	struct str rest = path, segment;
	bool more = path.n != 0;

	while (more) {
		more = str_cut(&rest, '/', &segment);
		if (!more)
			segment = rest;
		if (segment.n == 0 || str_eqz(segment, ".") || str_eqz(segment, ".."))
			return false;
	}
	return true;
}

static const char *
query_read(struct files *f, struct str query)
{
	struct str rest = query, name;

	if (query.n == 0)
		return NULL;
	if (str_cut(&rest, '=', &name) && str_eqz(name, "from") &&
	    str_to_u64(rest, INT64_MAX, &f->from))
		return NULL;
	if (str_eqz(name, "q") && (f->words = decoded(rest, true)) != NULL &&
	    str_trim(str_z(f->words)).n != 0 && rest.n <= 1000) {
		f->searching = true;
		return NULL;
	}
	return "400 what stands behind the path must be q=WORDS, which searches a directory, or "
	       "from=N, which reads a file from that byte";
}

/* NULL, or a status and why. */
static const char *
target_read(struct files *f, struct str target)
{
	struct str rest = target, path = target, query = STR_NONE;

	if (str_cut(&rest, '?', &path))
		query = rest;
	if (path.n == 0 || path.p[0] != '/')
		return "400 the path must begin with /";
	path = str_mem(path.p + 1, path.n - 1);
	f->slash = path.n == 0 || path.p[path.n - 1] == '/';
	if (path.n != 0 && f->slash)
		path.n--;
	f->path = decoded(path, false);
	if (f->path == NULL || !segments_ok(str_z(f->path)))
		return "404 no file has such a path: escape only what must be, and leave out . "
		       "and ..";
	return query_read(f, query);
}

/* --- heads -------------------------------------------------------------------------------- */

static void
head_put(struct buf *head, const char *status, const char *type, uint64_t length, const char *more)
{
	buf_printf(head,
	    "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %llu\r\n"
	    "Cache-Control: no-store\r\n%s\r\n",
	    status, type, (unsigned long long)length, more);
}

static enum files_step
refuse(struct files *f, const char *why, struct buf *head, struct buf *content)
{
	static const struct {
		const char *number, *reason;
	} reasons[] = {{"400", "Bad Request"}, {"403", "Forbidden"}, {"404", "Not Found"},
	    {"500", "Internal Server Error"}};
	AUTO_FREE char *status = NULL;

	for (size_t i = 0; status == NULL && i < ARRAY_LEN(reasons); i++)
		if (strncmp(why, reasons[i].number, 3) == 0)
			status = xasprintf("%s %s", reasons[i].number, reasons[i].reason);
	buf_printf(content, "%s\n", why + 4);
	head_put(head, status, "text/plain; charset=utf-8", content->n, "");
	f->told = true;
	return FILES_END;
}

static const char *
open_fault(int e, enum files_kind kind)
{
	if (kind == FILES_LINK || (e == ELOOP && kind == FILES_NONE))
		return "403 it is a link, or lies behind one: links are not followed";
	if (kind == FILES_SPECIAL)
		return "403 it is neither a file nor a directory: it is not opened";
	switch (e) {
	case ENOENT:
	case ENOTDIR:
	case ENAMETOOLONG: return "404 there is no such file";
	case EXDEV: return "403 it lies on another file system, or outside of the directory";
	case EACCES:
	case EPERM:
		return "403 the broker's process that reads it (upstream) has no right to: its "
		       "user needs one";
	case ELOOP: /* what was a file or a directory a moment ago */
	case ESTALE:
	case EAGAIN: return "500 it was changed while it was opened: ask again";
	}
	return "500 it cannot be read";
}

/* --- a directory -------------------------------------------------------------------------- */

static void
entry_put(struct jcs *j, int fd, const char *name)
{
	uint64_t bytes = 0;
	enum files_kind k = files_look(fd, name, &bytes);

	jcs_open(j, NULL);
	if (k == FILES_FILE)
		jcs_int(j, "bytes", (int64_t)bytes);
	jcs_str(j, "name", str_z(name));
	jcs_z(j, "type", files_kind_name(k));
	jcs_close(j);
}

static enum files_step
list(struct files *f, struct buf *head, struct buf *content)
{
	struct files_names l;
	AUTO_FREE char *path = f->path[0] != '\0' ? xasprintf("/%s/", f->path) : xstrdup("/");
	struct jcs j;

	if (!files_names_read(f->fd, FILES_ENTRIES_MAX, &l))
		return refuse(f, open_fault(errno, FILES_DIR), head, content);
	jcs_init(&j, content);
	jcs_open(&j, NULL);
	jcs_array(&j, "entries");
	for (size_t i = 0; i < l.n; i++) {
		/* A name that no path can spell is counted alone. */
		if (str_is_utf8(str_z(l.v[i])))
			entry_put(&j, f->fd, l.v[i]);
		else
			l.more++;
	}
	jcs_array_end(&j);
	jcs_int(&j, "left_out", (int64_t)l.more);
	jcs_str_lossy(&j, "path", str_z(path));
	jcs_close(&j);
	buf_put_c(content, '\n');
	files_names_free(&l);
	if (buf_over(content)) {
		buf_reset(content);
		return refuse(f, "500 the list is too large", head, content);
	}
	head_put(head, "200 OK", "application/json", content->n, "");
	f->told = true;
	return FILES_END;
}

/* --- a file ------------------------------------------------------------------------------- */

static const char *
media(const struct files *f)
{
	static const struct {
		const char *end, *type;
	} types[] = {{".md", "text/markdown; charset=utf-8"}, {".html", "text/html; charset=utf-8"},
	    {".json", "application/json"}};

	if (f->binary)
		return "application/octet-stream";
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_has_suffix(str_z(f->path), types[i].end))
			return types[i].type;
	return "text/plain; charset=utf-8";
}

/* What is left out is said in the head, and of text at its end, too. */
static void
file_head(struct files *f, struct buf *head)
{
	AUTO_BUF struct buf more = BUF(512);
	uint64_t part = f->end - f->from;

	if (f->binary)
		buf_put_z(&more, "X-Cofferdam-Reference: binary\r\n");
	if (f->from != 0 || f->end != f->bytes)
		buf_printf(&more, "X-Cofferdam-Part: bytes %llu to %llu of %llu\r\n",
		    (unsigned long long)f->from, (unsigned long long)f->end,
		    (unsigned long long)f->bytes);
	buf_put_c(&more, '\0');
	if (f->end != f->bytes && !f->binary)
		f->note =
		    xasprintf("\n[cut: bytes %llu to %llu of %llu; read on with ?from=%llu]\n",
			(unsigned long long)f->from, (unsigned long long)f->end,
			(unsigned long long)f->bytes, (unsigned long long)f->end);
	if (f->note != NULL)
		part += strlen(f->note);
	head_put(head, "200 OK", media(f), part, (const char *)more.p);
	f->told = true;
}

static bool
file_read(struct files *f, char *to, size_t n, uint64_t at, size_t *ret)
{
	ssize_t k;

	do
		k = pread(f->fd, to, n, (off_t)at);
	while (k < 0 && errno == EINTR);
	*ret = k > 0 ? (size_t)k : 0;
	return k >= 0;
}

static enum files_step
file_begin(struct files *f, struct buf *head, struct buf *content)
{
	char begin[8000];
	size_t n = 0;

	if (!file_read(f, begin, sizeof(begin), 0, &n))
		return refuse(f, open_fault(errno, FILES_FILE), head, content);
	if (f->from > f->bytes)
		return refuse(f, "400 the file ends before that byte", head, content);
	f->binary = files_is_binary(str_mem(begin, n));
	f->end = f->bytes - f->from < FILES_PART ? f->bytes : f->from + FILES_PART;
	file_head(f, head);
	return FILES_MORE;
}

static enum files_step
file_next(struct files *f, struct buf *content, struct err *err)
{
	AUTO_FREE char *room = xmalloc(READ_AT_ONCE);
	uint64_t left = f->end - f->from;
	size_t n = left < READ_AT_ONCE ? (size_t)left : READ_AT_ONCE, got = 0;

	if (left == 0) {
		if (f->note != NULL)
			buf_put_z(content, f->note);
		return FILES_END;
	}
	if (!file_read(f, room, n, f->from, &got) || got == 0) {
		(void)err_set(err, ERR_UPSTREAM, "the file was changed while it was read");
		return FILES_BROKEN;
	}
	buf_put(content, room, got);
	f->from += got;
	return FILES_MORE;
}

/* --- the whole ---------------------------------------------------------------------------- */

struct files *
files_new(int dirfd, struct str target)
{
	struct files *f = xcalloc(1, sizeof(*f));

	f->dir = dirfd;
	f->fd = -1;
	f->words = str_dup(target); /* until it is read */
	return f;
}

void
files_free(struct files *f)
{
	if (f == NULL)
		return;
	files_search_free(f->search);
	if (f->fd >= 0)
		(void)close(f->fd);
	free(f->path);
	free(f->words);
	free(f->note);
	free(f);
}

static enum files_step
begin(struct files *f, struct buf *head, struct buf *content)
{
	AUTO_FREE char *target = TAKE_PTR(f->words);
	const char *why = target_read(f, str_z(target));
	enum files_kind kind = FILES_NONE;
	int e;

	if (why != NULL)
		return refuse(f, why, head, content);
	e = files_open(f->dir, f->path, &f->fd, &kind, &f->bytes);
	if (e != 0)
		return refuse(f, open_fault(e, kind), head, content);
	if (kind == FILES_FILE && f->slash)
		return refuse(f, "404 it is a file: leave the / at its end out", head, content);
	if (kind == FILES_FILE && f->searching)
		return refuse(
		    f, "400 q=WORDS searches a directory, and this is a file", head, content);
	if (kind == FILES_FILE)
		return file_begin(f, head, content);
	if (!f->searching)
		return list(f, head, content);
	f->search = files_search_new(f->dir, f->path, str_z(f->words));
	return FILES_MORE;
}

enum files_step
files_next(struct files *f, struct buf *head, struct buf *content, struct err *err)
{
	buf_reset(head);
	buf_reset(content);
	if (f->search != NULL) {
		if (!files_search_step(f->search, content))
			return FILES_MORE;
		head_put(head, "200 OK", "application/json", content->n, "");
		f->told = true;
		return FILES_END;
	}
	return f->told ? file_next(f, content, err) : begin(f, head, content);
}
