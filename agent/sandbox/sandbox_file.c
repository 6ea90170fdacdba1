/*
 * Files of a sandbox, by parts of cofferdam-inside. Runs in the caller, which opens nothing of the
 * sandbox itself: no link, mount or race inside can lead it anywhere. Everything that comes back is
 * a hostile author's, and is handed on as bytes or as JSON of checked parts.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "common/xalloc.h"
#include "agent/sandbox/sandbox_helper.h"

#include "common/banned.h"

static int
path_check(const char *path, struct err *err)
{
	size_t n = path != NULL ? strlen(path) : 0;

	if (n == 0 || n >= PATH_MAX)
		return err_set(err, ERR_INVALID,
		    "sandbox: path must have from 1 to %d bytes, has %zu", PATH_MAX - 1, n);
	return 0;
}

struct reading {
	uint64_t left;
	const char *path;
	sandbox_file_sink_fn *sink;
	void *arg;
};

static int
reading_data(void *arg, struct str bytes, struct err *err)
{
	struct reading *g = arg;

	if (bytes.n > g->left)
		return err_set(
		    err, ERR_TOO_LARGE, "sandbox: read %s: more than asked for", g->path);
	g->left -= bytes.n;
	if (g->sink(g->arg, bytes) != 0)
		return err_set(err, ERR_STATE, "sandbox: read %s: stopped by the caller", g->path);
	return 0;
}

int
sandbox_file_read(struct sandbox *sb, const char *path, uint64_t max, sandbox_file_sink_fn *sink,
    void *arg, struct err *err)
{
	static const struct frame_ops ops = {.data = reading_data};
	struct reading g = {.left = max, .path = path, .sink = sink, .arg = arg};
	char number[24];
	const char *argv[] = {"read", path, number, NULL};
	struct helper h = {
	    .argv = argv, .about = path, .ops = &ops, .arg = &g, .feed_fd = -1, .stop_fd = -1};

	if (path_check(path, err) != 0)
		return ERR_INVALID;
	(void)snprintf(number, sizeof(number), "%llu", (unsigned long long)max);
	return helper_run(sb, &h, err);
}

struct writing {
	int fd;
	uint64_t max, sent;
	const char *path;
};

static int
writing_feed(void *arg, struct buf *out, struct err *err)
{
	struct writing *g = arg;
	char room[FRAME_DATA_MAX / 2];
	ssize_t k = read(g->fd, room, sizeof(room));

	if (k < 0)
		return errno == EINTR || errno == EAGAIN
			   ? 0
			   : err_sys(err, ERR_SYSTEM, errno, "sandbox: source of %s", g->path);
	if (k != 0) {
		if ((uint64_t)k > g->max - g->sent)
			return err_set(err, ERR_TOO_LARGE,
			    "sandbox: write %s: larger than the limit of %llu bytes", g->path,
			    (unsigned long long)g->max);
		g->sent += (uint64_t)k;
		frame_put(out, FRAME_DATA, str_mem(room, (size_t)k));
		return 0;
	}
	buf_u8(out, FRAME_END);
	buf_u32(out, 8);
	buf_u64(out, g->sent);
	return 1;
}

int
sandbox_file_write(
    struct sandbox *sb, const char *path, int src_fd, uint64_t max, unsigned mode, struct err *err)
{
	static const struct frame_ops ops = {0};
	struct writing g = {.fd = src_fd, .max = max, .path = path};
	char number[16];
	const char *argv[] = {"write", path, number, NULL};
	struct helper h = {.argv = argv,
	    .about = path,
	    .ops = &ops,
	    .arg = &g,
	    .feed = writing_feed,
	    .feed_fd = src_fd,
	    .stop_fd = -1};

	if (path_check(path, err) != 0)
		return ERR_INVALID;
	if (mode > 0777)
		return err_set(
		    err, ERR_INVALID, "sandbox: mode must be from 1 to 0777, is %#o", mode);
	(void)snprintf(number, sizeof(number), "%u", mode != 0 ? mode : 0644u);
	return helper_run(sb, &h, err);
}

struct listing {
	struct buf *out;
	size_t n;
	bool one; /* exactly one, and no array around it */
};

static int
listing_entry(void *arg, const struct frame_entry *e, struct err *err)
{
	struct listing *g = arg;

	if (g->n >= (g->one ? 1u : (size_t)FRAME_ENTRIES_MAX))
		return err_set(err, ERR_TOO_LARGE, "sandbox: more entries than there may be");
	if (g->n++ != 0)
		buf_put_c(g->out, ',');
	frame_entry_json(e, g->out);
	return 0;
}

static int
listing_run(struct sandbox *sb, const char *const *argv, bool one, struct buf *ret, struct err *err)
{
	static const struct frame_ops ops = {.entry = listing_entry};
	AUTO_BUF struct buf b = BUF((size_t)256 << 20);
	struct listing g = {.out = &b, .one = one};
	struct helper h = {
	    .argv = argv, .about = argv[1], .ops = &ops, .arg = &g, .feed_fd = -1, .stop_fd = -1};

	if (path_check(argv[1], err) != 0 || helper_run(sb, &h, err) != 0)
		return err->code;
	if (one && g.n != 1)
		return err_set(err, ERR_PROTOCOL, "sandbox: stat %s: no answer", argv[1]);
	if (!one)
		buf_put_c(ret, '[');
	buf_put_str(ret, buf_str(&b));
	if (!one)
		buf_put_c(ret, ']');
	return buf_over(ret)
		   ? err_set(err, ERR_TOO_LARGE, "sandbox: %s: the answer is too large", argv[1])
		   : 0;
}

int
sandbox_file_list(
    struct sandbox *sb, const char *path, unsigned depth, struct buf *ret, struct err *err)
{
	struct err e = {0};
	char number[16];
	const char *argv[] = {"list", path, number, NULL};

	(void)snprintf(number, sizeof(number), "%u", depth);
	return listing_run(sb, argv, false, ret, err != NULL ? err : &e);
}

int
sandbox_file_stat(struct sandbox *sb, const char *path, struct buf *ret, struct err *err)
{
	struct err e = {0};
	const char *argv[] = {"stat", path, NULL};

	return listing_run(sb, argv, true, ret, err != NULL ? err : &e);
}

/* A part that answers with nothing but its end. */
static int
simple_run(struct sandbox *sb, const char *const *argv, struct err *err)
{
	static const struct frame_ops ops = {0};
	struct helper h = {
	    .argv = argv, .about = argv[1], .ops = &ops, .feed_fd = -1, .stop_fd = -1};

	for (size_t i = 1; i <= 2 && argv[i] != NULL; i++)
		if (path_check(argv[i], err) != 0)
			return ERR_INVALID;
	return helper_run(sb, &h, err);
}

int
sandbox_file_mkdir(struct sandbox *sb, const char *path, struct err *err)
{
	const char *argv[] = {"mkdir", path != NULL ? path : "", NULL};

	return simple_run(sb, argv, err);
}

int
sandbox_file_rename(struct sandbox *sb, const char *from, const char *to, struct err *err)
{
	const char *argv[] = {"rename", from != NULL ? from : "", to != NULL ? to : "", NULL};

	return simple_run(sb, argv, err);
}

int
sandbox_file_remove(struct sandbox *sb, const char *path, bool tree, struct err *err)
{
	const char *argv[] = {"remove", path != NULL ? path : "", tree ? "tree" : "one", NULL};

	return simple_run(sb, argv, err);
}

struct watching {
	void (*ready)(void *arg); /* NULL: not wanted */
	sandbox_change_fn *change;
	void *arg;
	bool done;
};

static int
watching_change(void *arg, const struct frame_change *c, struct err *err)
{
	struct watching *g = arg;
	AUTO_BUF struct buf b = BUF(FRAME_BODY_MAX * 8);

	if (c->op == OP_READY) {
		if (g->ready != NULL)
			g->ready(g->arg);
		return 0;
	}
	frame_change_json(c, &b);
	g->done = !g->change(g->arg, buf_str(&b));
	/* Not an error: the way out of the loop. */
	return g->done ? err_set(err, ERR_STATE, "sandbox: watch: enough") : 0;
}

int
sandbox_file_watch(struct sandbox *sb, const char *path, bool tree, int stop_fd,
    sandbox_change_fn *change, void *arg, struct err *err)
{
	return sandbox_file_watch_ready(sb, path, tree, stop_fd, NULL, change, arg, err);
}

int
sandbox_file_watch_ready(struct sandbox *sb, const char *path, bool tree, int stop_fd,
    void (*ready)(void *arg), sandbox_change_fn *change, void *arg, struct err *err)
{
	static const struct frame_ops ops = {.change = watching_change};
	const char *argv[] = {"watch", path != NULL ? path : "", tree ? "tree" : "one", NULL};
	struct watching g = {.ready = ready, .change = change, .arg = arg};
	struct helper h = {.argv = argv,
	    .about = argv[1],
	    .ops = &ops,
	    .arg = &g,
	    .feed_fd = -1,
	    .stop_fd = stop_fd,
	    .stays = true};
	struct err e = {0};

	if (path_check(path, err) != 0)
		return ERR_INVALID;
	if (helper_run(sb, &h, &e) == 0 || g.done)
		return 0;
	return err_set(err, e.code, "%s", e.msg);
}
