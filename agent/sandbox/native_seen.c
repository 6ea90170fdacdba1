/*
 * Whether a sandbox that was built earlier shows what one that is built now would show. Runs in the
 * supervisor of a spare, with the paths and the mount namespace that the view was opened by. What
 * counts is what is mounted inside, not what a path named when somebody looked: so a directory that
 * was put in another's place, also if only for the moment of the start, is found out.
 */
#include "agent/sandbox/native.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define MOUNTS_MAX ((size_t)16 << 20)
#define FNV_BASE UINT64_C(14695981039346656037)
#define FNV_PRIME UINT64_C(1099511628211)

struct native_seen {
	int mounts; /* /proc/self/mountinfo, open since before anything of the view was */
	size_t planned;
	uint64_t sum; /* of the mounts that matter */
	bool stale;
	struct {
		bool there;
		dev_t dev;
		ino_t ino;
	} at[NATIVE_SOURCES_MAX];
};

/* The kernel says so once for each change. */
static bool
mounts_changed(const struct native_seen *w)
{
	struct pollfd p = {.fd = w->mounts, .events = POLLPRI};

	return poll(&p, 1, 0) != 0;
}

/* One is the other, or lies below it. */
static bool
is_below(struct str path, struct str dir)
{
	if (str_eqz(dir, "/"))
		return true;
	return path.n >= dir.n && memcmp(path.p, dir.p, dir.n) == 0 &&
	       (path.n == dir.n || path.p[dir.n] == '/');
}

/* As the kernel writes a path there: space, tab, newline and backslash in octal. */
static void
unescape(struct str in, struct buf *out)
{
	for (size_t i = 0; i < in.n; i++) {
		unsigned v = (unsigned char)in.p[i];

		if (v == '\\' && i + 3 < in.n) {
			v = 0;
			for (int k = 0; k < 3; k++)
				v = v * 8 + ((unsigned char)in.p[++i] & 7u);
		}
		buf_put_c(out, (char)v);
	}
}

/* Mounts above a place that is shown (they say what is there) and below it (they are shown). */
static bool
mount_matters(const struct native_view *v, size_t n, struct str line)
{
	AUTO_BUF struct buf at = BUF(8192);
	struct str field = STR_NONE;

	for (int i = 0; i < 5; i++)
		if (!str_cut(&line, ' ', &field))
			return true;
	unescape(field, &at);
	for (size_t i = 0; i < n; i++)
		if (is_below(str_z(v->s[i].host), buf_str(&at)) ||
		    is_below(buf_str(&at), str_z(v->s[i].host)))
			return true;
	return false;
}

static bool
mounts_sum(const struct native_seen *w, const struct native_view *v, uint64_t *ret)
{
	AUTO_BUF struct buf text = BUF(MOUNTS_MAX);
	uint64_t h = FNV_BASE;
	struct str rest, line;
	ssize_t k;

	if (lseek(w->mounts, 0, SEEK_SET) != 0)
		return false;
	do {
		char room[16384];

		k = read(w->mounts, room, sizeof(room));
		if (k > 0)
			buf_put(&text, room, (size_t)k);
	} while (k > 0 || (k < 0 && errno == EINTR));
	if (k < 0 || buf_over(&text))
		return false;
	for (rest = buf_str(&text); str_cut(&rest, '\n', &line);)
		if (mount_matters(v, w->planned, line))
			for (size_t i = 0; i < line.n; i++)
				h = (h ^ (unsigned char)line.p[i]) * FNV_PRIME;
	*ret = h;
	return true;
}

int
native_seen_begin(struct native_seen **ret, struct err *err)
{
	int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "sandbox: /proc/self/mountinfo");
	*ret = xcalloc(1, sizeof(**ret));
	(*ret)->mounts = fd;
	return 0;
}

void
native_seen_plan(struct native_seen *w, const struct native_view *v)
{
	w->planned = v->n;
	w->stale = !mounts_sum(w, v, &w->sum);
}

void
native_seen_built(struct native_seen *w, const struct native_view *v)
{
	struct stat st;

	for (size_t i = 0; i < v->n; i++) {
		if (v->s[i].fd < 0)
			continue;
		w->stale = w->stale || fstat(v->s[i].fd, &st) != 0;
		w->at[i].there = true;
		w->at[i].dev = st.st_dev;
		w->at[i].ino = st.st_ino;
	}
	/* Which of them were there when each was opened nobody can tell. */
	w->stale = w->stale || mounts_changed(w);
}

static bool
text_same(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

/* The same places and links as would be planned now: of an image, what stands at its top. */
static bool
plan_same(const struct native_seen *w, const struct super_spec *spec, const struct native_view *was)
{
	AUTO_FREE struct native_view *v = xcalloc(1, sizeof(*v));
	struct err ignored;
	bool same = native_view_plan(spec, v, &ignored) == 0 && v->n == w->planned &&
		    v->nlinks == was->nlinks;

	for (size_t i = 0; same && i < v->n; i++)
		same = text_same(v->s[i].host, was->s[i].host) &&
		       text_same(v->s[i].inside, was->s[i].inside) && v->s[i].dir == was->s[i].dir;
	for (size_t i = 0; same && i < v->nlinks; i++)
		same = text_same(v->links[i].inside, was->links[i].inside) &&
		       text_same(v->links[i].to, was->links[i].to);
	native_view_free(v);
	return same;
}

static bool
place_same(const struct native_seen *w, const struct native_view *v, size_t i)
{
	struct stat st;
	bool there =
	    fstatat(AT_FDCWD, v->s[i].host, &st, v->s[i].plain ? AT_SYMLINK_NOFOLLOW : 0) == 0;

	return there == w->at[i].there &&
	       (!there || (st.st_dev == w->at[i].dev && st.st_ino == w->at[i].ino));
}

bool
native_seen_still(struct native_seen *w, const struct super_spec *spec, const struct native_view *v)
{
	uint64_t sum;

	if (!w->stale && mounts_changed(w))
		w->stale = !mounts_sum(w, v, &sum) || sum != w->sum;
	w->stale = w->stale || !plan_same(w, spec, v);
	for (size_t i = 0; !w->stale && i < v->n; i++)
		w->stale = !place_same(w, v, i);
	return !w->stale;
}

void
native_seen_free(struct native_seen *w)
{
	if (w == NULL)
		return;
	(void)close(w->mounts);
	free(w);
}
