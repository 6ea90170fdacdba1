/*
 * Restores snapshots of /work. Runs in the caller, which reads a file through to its sum before it
 * asks for anything, and says the end of it to the part inside only when all of it was right; until
 * then that part has unpacked beside what is there, and changes nothing. The bytes are opaque here.
 */
#include "agent/sandbox/sandbox_snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/sandbox/sandbox_helper.h"

#include "common/banned.h"

struct loading {
	struct sandbox *sb;
	int fd;
	struct frame_reader reader;
	struct buf *out; /* NULL: only read through */
	uint64_t sum;	 /* of all but the last bytes, which may be the sum that is written */
	uint8_t last[SNAPSHOT_SUM_BYTES];
	size_t nlast;
	bool held;
};

static int
damaged(struct err *err, const char *why)
{
	return err_set(err, ERR_INVALID, "sandbox: the snapshot is %s; nothing was changed", why);
}

static int
loading_data(void *arg, struct str bytes, struct err *err UNUSED)
{
	struct loading *g = arg;

	if (g->out != NULL)
		frame_put(g->out, FRAME_DATA, bytes);
	return 0;
}

static int
frames_take(struct loading *g, struct str s, struct err *err)
{
	g->sum = snapshot_sum(g->sum, s);
	return frame_feed(&g->reader, s, err) != 0 ? damaged(err, "damaged") : 0;
}

/* All but the last bytes of what has come so far. */
static int
bytes_take(struct loading *g, struct str s, struct err *err)
{
	size_t all = g->nlast + s.n;
	size_t ready = all > sizeof(g->last) ? all - sizeof(g->last) : 0;
	size_t old = ready < g->nlast ? ready : g->nlast;

	if (frames_take(g, str_mem(g->last, old), err) != 0 ||
	    frames_take(g, (struct str){s.p, ready - old}, err) != 0)
		return err->code;
	s.p += ready - old;
	s.n -= ready - old;
	memmove(g->last, g->last + old, g->nlast - old);
	g->nlast -= old;
	memcpy(g->last + g->nlast, s.p, s.n);
	g->nlast += s.n;
	return 0;
}

static int
end_check(const struct loading *g, struct err *err)
{
	struct rd r = rd_init(str_mem(g->last, g->nlast));
	uint64_t sum = rd_u64(&r);

	if (!g->reader.ended || r.bad)
		return damaged(err, "cut");
	return sum == g->sum ? 0 : damaged(err, "damaged: its sum is another");
}

/* Some bytes of the source. 1: there were none left, and all was right. */
static int
loading_turn(struct loading *g, struct err *err)
{
	char room[32768];
	ssize_t k = read(g->fd, room, sizeof(room));
	int rc;

	if (k < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (k < 0)
		return err_sys(
		    err, ERR_SYSTEM, errno, "sandbox: read of the snapshot; nothing was changed");
	rc = k != 0 ? bytes_take(g, str_mem(room, (size_t)k), err) : end_check(g, err);
	return rc != 0 ? rc : k == 0;
}

/* Others wait while the new takes the place of the old, and not for a slow source. */
static int
loading_feed(void *arg, struct buf *out, struct err *err)
{
	struct loading *g = arg;
	int rc;

	g->out = out;
	rc = loading_turn(g, err);
	if (rc != 1)
		return rc;
	g->held = true;
	if (snapshot_hold(g->sb, true, err) != 0)
		return err->code;
	buf_u8(out, FRAME_END);
	buf_u32(out, 8);
	buf_u64(out, g->reader.data);
	return 1;
}

static int
magic_read(struct loading *g, struct err *err)
{
	char room[sizeof(SNAPSHOT_MAGIC) - 1];
	size_t n = 0;

	while (n < sizeof(room)) {
		ssize_t k = read(g->fd, room + n, sizeof(room) - n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "sandbox: read of the snapshot");
		if (k == 0)
			break;
		n += (size_t)k;
	}
	if (n != sizeof(room) || memcmp(room, SNAPSHOT_MAGIC, n) != 0)
		return err_set(err, ERR_INVALID,
		    "sandbox: not a snapshot of this version (\"%.20s\"); nothing was changed",
		    SNAPSHOT_MAGIC);
	g->sum = snapshot_sum(SNAPSHOT_SUM_BEGIN, str_mem(room, n));
	return 0;
}

static int
loading_begin(struct loading *g, struct err *err)
{
	static const struct frame_ops data = {.data = loading_data};

	g->nlast = 0;
	frame_reader_free(&g->reader);
	frame_reader_init(&g->reader, &data, g);
	return magic_read(g, err);
}

/* A regular file once to its end and back; what comes from a pipe is checked on its way. */
static int
file_check(struct loading *g, struct err *err)
{
	off_t at = lseek(g->fd, 0, SEEK_CUR);
	struct stat st;
	int rc;

	if (fstat(g->fd, &st) != 0 || !S_ISREG(st.st_mode) || at < 0)
		return 0;
	rc = loading_begin(g, err);
	while (rc == 0)
		rc = loading_turn(g, err);
	if (rc < 0)
		return rc;
	return lseek(g->fd, at, SEEK_SET) != at
		   ? err_sys(err, ERR_SYSTEM, errno, "sandbox: the snapshot")
		   : 0;
}

int
sandbox_restore(struct sandbox *sb, int src_fd, struct err *err)
{
	static const struct frame_ops none = {0};
	static const char *const argv[] = {"restore", SNAPSHOT_DIRECTORY, NULL};
	struct loading g = {.sb = sb, .fd = src_fd};
	struct helper h = {.argv = argv,
	    .about = "restore",
	    .ops = &none,
	    .arg = &g,
	    .feed = loading_feed,
	    .feed_fd = src_fd,
	    .stop_fd = -1};
	struct err e = {0}, go = {0};
	int rc = file_check(&g, &e);

	if (rc == 0)
		rc = loading_begin(&g, &e);
	if (rc == 0)
		rc = helper_run(sb, &h, &e);
	/* Also a hold that did not answer may have stopped some. */
	if (g.held && snapshot_hold(sb, false, &go) != 0 && rc == 0) {
		e = go;
		rc = go.code;
	}
	frame_reader_free(&g.reader);
	return rc == 0 ? 0 : err_set(err, e.code, "%s", e.msg);
}
