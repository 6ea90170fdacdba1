/*
 * Snapshots of /work. Runs in the caller, to which a snapshot is a line that names it and frames of
 * opaque bytes with a count at their end: enough to refuse other files and cut ones. Only
 * cofferdam-inside and the sandbox's own tar, inside, ever look into the bytes; nothing is unpacked
 * or followed out here.
 */
#include <errno.h>
#include <stdio.h>

#include "agent/sandbox/sandbox_client.h"
#include "agent/sandbox/sandbox_helper.h"

#include "common/banned.h"

#define MAGIC "cofferdam-snapshot 1\n"
#define DIRECTORY "/work"

/* All programs inside but helpers stop (true) or go on. */
static int
hold(struct sandbox *sb, bool on, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	AUTO_BUF struct buf b = BUF(1);

	buf_u8(&b, on);
	return client_ask(sb, CALL_HOLD, &b, &m, err);
}

static int
held_run(struct sandbox *sb, const struct helper *h, struct err *err)
{
	struct err e = {0}, go = {0};
	int rc = hold(sb, true, &e);

	if (rc == 0)
		rc = helper_run(sb, h, &e);
	/* Whatever happened: also a hold that did not answer may have stopped some. */
	if (hold(sb, false, &go) != 0 && rc == 0) {
		e = go;
		rc = go.code;
	}
	return rc == 0 ? 0 : err_set(err, e.code, "%s", e.msg);
}

struct saving {
	int fd;
	uint64_t left, max, data;
};

static int
saving_put(struct saving *g, struct str s, struct err *err)
{
	if (s.n > g->left)
		return err_set(err, ERR_TOO_LARGE,
		    "sandbox: the snapshot is larger than the limit of %llu bytes",
		    (unsigned long long)g->max);
	g->left -= s.n;
	while (s.n != 0) {
		ssize_t k = write(g->fd, s.p, s.n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, errno == ENOSPC ? ERR_DISK_FULL : ERR_SYSTEM, errno,
			    "sandbox: write of the snapshot");
		s.p += k;
		s.n -= (size_t)k;
	}
	return 0;
}

static int
saving_data(void *arg, struct str bytes, struct err *err)
{
	struct saving *g = arg;
	AUTO_BUF struct buf b = BUF(FRAME_DATA_MAX + FRAME_HEAD);

	g->data += bytes.n;
	frame_put(&b, FRAME_DATA, bytes);
	return saving_put(g, buf_str(&b), err);
}

int
sandbox_snapshot(struct sandbox *sb, int dst_fd, uint64_t max, struct err *err)
{
	static const struct frame_ops ops = {.data = saving_data};
	static const char *const argv[] = {"snapshot", DIRECTORY, NULL};
	struct saving g = {.fd = dst_fd, .left = max, .max = max};
	AUTO_BUF struct buf b = BUF(FRAME_HEAD + 8), count = BUF(8);
	struct helper h = {.argv = argv,
	    .about = "snapshot",
	    .ops = &ops,
	    .arg = &g,
	    .feed_fd = -1,
	    .stop_fd = -1};
	struct err e = {0};

	if (saving_put(&g, STR(MAGIC), &e) != 0 || held_run(sb, &h, &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	buf_u64(&count, g.data);
	frame_put(&b, FRAME_END, buf_str(&count));
	return saving_put(&g, buf_str(&b), err);
}

struct loading {
	int fd;
	struct frame_reader reader;
	struct buf *out;
};

static int
loading_data(void *arg, struct str bytes, struct err *err UNUSED)
{
	struct loading *g = arg;

	frame_put(g->out, FRAME_DATA, bytes);
	return 0;
}

static int
damaged(struct err *err, const char *why)
{
	return err_set(err, ERR_INVALID, "sandbox: the snapshot is %s: /work is empty", why);
}

static int
loading_feed(void *arg, struct buf *out, struct err *err)
{
	struct loading *g = arg;
	char room[32768];
	ssize_t k = read(g->fd, room, sizeof(room));

	if (k < 0)
		return errno == EINTR || errno == EAGAIN
			   ? 0
			   : err_sys(err, ERR_SYSTEM, errno, "sandbox: read of the snapshot");
	g->out = out;
	if (k != 0 && frame_feed(&g->reader, str_mem(room, (size_t)k), err) != 0)
		return damaged(err, "damaged");
	if (k != 0)
		return 0;
	if (!g->reader.ended)
		return damaged(err, "cut");
	buf_u8(out, FRAME_END);
	buf_u32(out, 8);
	buf_u64(out, g->reader.data);
	return 1;
}

static int
magic_read(int fd, struct err *err)
{
	char room[sizeof(MAGIC) - 1];
	size_t n = 0;

	while (n < sizeof(room)) {
		ssize_t k = read(fd, room + n, sizeof(room) - n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "sandbox: read of the snapshot");
		if (k == 0)
			break;
		n += (size_t)k;
	}
	if (n != sizeof(room) || memcmp(room, MAGIC, n) != 0)
		return err_set(err, ERR_INVALID,
		    "sandbox: not a snapshot of this version (\"%.20s\"); nothing was changed",
		    MAGIC);
	return 0;
}

int
sandbox_restore(struct sandbox *sb, int src_fd, struct err *err)
{
	static const struct frame_ops none = {0}, data = {.data = loading_data};
	static const char *const argv[] = {"restore", DIRECTORY, NULL};
	struct loading g = {.fd = src_fd};
	struct helper h = {.argv = argv,
	    .about = "restore",
	    .ops = &none,
	    .arg = &g,
	    .feed = loading_feed,
	    .feed_fd = src_fd,
	    .stop_fd = -1};
	int rc = magic_read(src_fd, err);

	if (rc != 0)
		return rc;
	frame_reader_init(&g.reader, &data, &g);
	rc = held_run(sb, &h, err);
	frame_reader_free(&g.reader);
	return rc;
}
