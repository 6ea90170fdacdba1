/*
 * Searches a directory of reference data, in steps. Runs in upstream, between exchanges of others:
 * one step looks at little, a whole search at a bounded number of entries and bytes, and says what
 * it left out. A line is found that holds all the words, whatever the case of ASCII letters.
 */
#include "broker/upstream_files.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define WORDS_MAX 16
#define LINE_MAX_ 300		      /* bytes of a line that are shown */
#define WAITING_MAX ((size_t)4 << 20) /* bytes of paths that wait to be looked at */

struct hit {
	char *path, *text;
	uint64_t line;
};

struct waiting {
	char *path;
	unsigned depth;
};

struct files_search {
	int dir;
	char *all; /* the words, NUL behind each */
	const char *words[WORDS_MAX];
	size_t nwords;
	struct waiting *waiting; /* the next one last */
	size_t nwaiting, waiting_bytes;
	struct hit hits[FILES_HITS_MAX];
	size_t nhits;
	uint64_t entries, bytes, files, binary, left_out;
	bool cut;
};

/* --- where to look ---------------------------------------------------------------------- */

static void
wait_add(struct files_search *s, char *path, unsigned depth)
{
	size_t n = strlen(path) + 1;

	if (depth > FILES_SEARCH_DEPTH || s->waiting_bytes + n > WAITING_MAX) {
		s->left_out++;
		s->cut = true;
		free(path);
		return;
	}
	s->waiting = xreallocarray(s->waiting, s->nwaiting + 1, sizeof(*s->waiting));
	s->waiting[s->nwaiting++] = (struct waiting){path, depth};
	s->waiting_bytes += n;
}

struct files_search *
files_search_new(int dirfd, const char *path, struct str words)
{
	struct files_search *s = xcalloc(1, sizeof(*s));
	char *save = NULL;

	s->dir = dirfd;
	s->all = str_dup(words);
	for (char *w = strtok_r(s->all, " \t\r\n", &save); w != NULL && s->nwords < WORDS_MAX;
	     w = strtok_r(NULL, " \t\r\n", &save))
		s->words[s->nwords++] = w;
	wait_add(s, xstrdup(path), 0);
	return s;
}

void
files_search_free(struct files_search *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->nwaiting; i++)
		free(s->waiting[i].path);
	for (size_t i = 0; i < s->nhits; i++) {
		free(s->hits[i].path);
		free(s->hits[i].text);
	}
	free(s->waiting);
	free(s->all);
	free(s);
}

static void
look_into(struct files_search *s, int fd, const struct waiting *w)
{
	struct files_names l;

	if (!files_names_read(fd, FILES_ENTRIES_MAX, &l)) {
		s->left_out++;
		return;
	}
	s->left_out += l.more;
	s->cut = s->cut || l.more != 0;
	for (size_t i = l.n; i-- > 0;)
		if (str_is_utf8(str_z(l.v[i])))
			wait_add(s,
			    w->path[0] != '\0' ? xasprintf("%s/%s", w->path, l.v[i])
					       : xstrdup(l.v[i]),
			    w->depth + 1);
		else
			s->left_out++; /* no path could spell it */
	files_names_free(&l);
}

/* --- what is there ---------------------------------------------------------------------- */

static char
small(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool
holds(struct str line, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n <= line.n; i++) {
		size_t k = 0;

		while (k < n && small(line.p[i + k]) == small(word[k]))
			k++;
		if (k == n)
			return true;
	}
	return false;
}

static bool
holds_all(const struct files_search *s, struct str line)
{
	for (size_t i = 0; i < s->nwords; i++)
		if (!holds(line, s->words[i]))
			return false;
	return s->nwords != 0;
}

static void
hit_add(struct files_search *s, const char *path, uint64_t number, struct str line)
{
	struct str text = str_trim(line);

	if (s->nhits == FILES_HITS_MAX) {
		s->cut = true;
		return;
	}
	if (text.n > LINE_MAX_)
		text.n = LINE_MAX_;
	s->hits[s->nhits++] =
	    (struct hit){.path = xstrdup(path), .text = str_dup(text), .line = number};
}

static void
lines_search(struct files_search *s, const char *path, struct str text)
{
	struct str rest = text, line;
	uint64_t number = 1;

	for (; rest.n != 0 && s->nhits < FILES_HITS_MAX; number++) {
		if (!str_cut(&rest, '\n', &line)) {
			line = rest;
			rest = STR_NONE;
		}
		if (holds_all(s, line))
			hit_add(s, path, number, line);
	}
}

/* The number of bytes read. */
static size_t
file_search(struct files_search *s, int fd, const struct waiting *w, uint64_t bytes)
{
	size_t most = (size_t)(bytes < FILES_PART ? bytes : FILES_PART), n = 0;
	AUTO_FREE char *part = xmalloc(most + 1);
	ssize_t k;

	while (n < most && (k = pread(fd, part + n, most - n, (off_t)n)) != 0) {
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0) {
			s->left_out++;
			return n;
		}
		n += (size_t)k;
	}
	s->cut = s->cut || bytes > FILES_PART;
	if (files_is_binary(str_mem(part, n))) {
		s->binary++;
		return n;
	}
	s->files++;
	lines_search(s, w->path, str_mem(part, n));
	return n;
}

static size_t
entry_search(struct files_search *s, const struct waiting *w)
{
	AUTO_FD int fd = -1;
	enum files_kind kind;
	uint64_t bytes = 0;

	if (files_open(s->dir, w->path, &fd, &kind, &bytes) != 0) {
		s->left_out++; /* a link, a device, what may not be read */
		return 0;
	}
	if (kind == FILES_FILE)
		return file_search(s, fd, w, bytes);
	look_into(s, fd, w);
	return 0;
}

/* --- what was found --------------------------------------------------------------------- */

static void
result_put(const struct files_search *s, struct buf *out)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_int(&j, "binary_files", (int64_t)s->binary);
	jcs_bool(&j, "cut", s->cut);
	jcs_array(&j, "hits");
	for (size_t i = 0; i < s->nhits; i++) {
		AUTO_FREE char *path = xasprintf("/%s", s->hits[i].path);

		jcs_open(&j, NULL);
		jcs_int(&j, "line", (int64_t)s->hits[i].line);
		jcs_str_lossy(&j, "path", str_z(path));
		jcs_str_lossy(&j, "text", str_z(s->hits[i].text));
		jcs_close(&j);
	}
	jcs_array_end(&j);
	jcs_int(&j, "left_out", (int64_t)s->left_out);
	jcs_int(&j, "text_files", (int64_t)s->files);
	jcs_close(&j);
	buf_put_c(out, '\n');
}

bool
files_search_step(struct files_search *s, struct buf *out)
{
	size_t work = 0;

	while (s->nwaiting != 0 && work < FILES_STEP) {
		struct waiting w = s->waiting[--s->nwaiting];
		size_t n;

		s->waiting_bytes -= strlen(w.path) + 1;
		n = entry_search(s, &w);
		free(w.path);
		work += n + 4096;
		s->bytes += n;
		s->cut = s->cut || s->nhits == FILES_HITS_MAX;
		if (++s->entries < FILES_SEARCH_ENTRIES && s->bytes < FILES_SEARCH_BYTES &&
		    s->nhits < FILES_HITS_MAX)
			continue;
		s->cut = s->cut || s->nwaiting != 0;
		s->left_out += s->nwaiting;
		while (s->nwaiting != 0)
			free(s->waiting[--s->nwaiting].path);
	}
	if (s->nwaiting != 0)
		return false;
	result_put(s, out);
	return true;
}
