/*
 * Takes snapshots of /work. Runs in the caller, to which a snapshot is frames of opaque bytes (see
 * sandbox_snapshot.h). Only cofferdam-inside and the sandbox's own tar, inside, ever look into the
 * bytes; nothing is unpacked or followed out here.
 */
#include "agent/sandbox/sandbox_snapshot.h"

#include <errno.h>
#include <stdio.h>

#include "agent/sandbox/sandbox_client.h"
#include "agent/sandbox/sandbox_helper.h"

#include "common/banned.h"

uint64_t
snapshot_sum(uint64_t sum, struct str bytes)
{
	for (size_t i = 0; i < bytes.n; i++)
		sum = (sum ^ (uint8_t)bytes.p[i]) * UINT64_C(0x100000001b3);
	return sum;
}

int
snapshot_hold(struct sandbox *sb, bool on, struct err *err)
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
	int rc = snapshot_hold(sb, true, &e);

	if (rc == 0)
		rc = helper_run(sb, h, &e);
	/* Whatever happened: also a hold that did not answer may have stopped some. */
	if (snapshot_hold(sb, false, &go) != 0 && rc == 0) {
		e = go;
		rc = go.code;
	}
	return rc == 0 ? 0 : err_set(err, e.code, "%s", e.msg);
}

struct saving {
	int fd;
	uint64_t left, max, data, sum;
};

static int
saving_put(struct saving *g, struct str s, struct err *err)
{
	if (s.n > g->left)
		return err_set(err, ERR_TOO_LARGE,
		    "sandbox: the snapshot is larger than the limit of %llu bytes",
		    (unsigned long long)g->max);
	g->left -= s.n;
	g->sum = snapshot_sum(g->sum, s);
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

	/* Not before there is anything: who is refused has written nothing. */
	if (g->data == 0 && saving_put(g, STR(SNAPSHOT_MAGIC), err) != 0)
		return err->code;
	g->data += bytes.n;
	frame_put(&b, FRAME_DATA, bytes);
	return saving_put(g, buf_str(&b), err);
}

int
sandbox_snapshot(struct sandbox *sb, int dst_fd, uint64_t max, struct err *err)
{
	static const struct frame_ops ops = {.data = saving_data};
	static const char *const argv[] = {"snapshot", SNAPSHOT_DIRECTORY, NULL};
	struct saving g = {.fd = dst_fd, .left = max, .max = max, .sum = SNAPSHOT_SUM_BEGIN};
	AUTO_BUF struct buf b = BUF(FRAME_HEAD + 8), count = BUF(8);
	struct helper h = {.argv = argv,
	    .about = "snapshot",
	    .ops = &ops,
	    .arg = &g,
	    .feed_fd = -1,
	    .stop_fd = -1};
	struct err e = {0};

	if (held_run(sb, &h, &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	buf_u64(&count, g.data);
	frame_put(&b, FRAME_END, buf_str(&count));
	if (saving_put(&g, buf_str(&b), &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	buf_reset(&b);
	buf_u64(&b, g.sum);
	return saving_put(&g, buf_str(&b), err);
}
