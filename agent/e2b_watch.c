/*
 * filesystem.Filesystem/WatchDir (process: a worker of cofferdam-sandboxd). The watcher inside
 * blocks this process, so a child of it says when to stop: when the client has gone or its time is
 * over.
 */
#include "agent/e2b_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct watch {
	struct e2b_request *q;
	const char *path;
	uint64_t until_us, ping_us, ping_every_us;
	bool began, over;
	struct err why; /* over: the client does not read */
};

static void
event_open(struct jcs *j, struct buf *b, const char *what)
{
	jcs_init(j, b);
	jcs_open(j, NULL);
	jcs_open(j, what);
}

static void
event_send(struct watch *w, struct jcs *j, struct buf *b)
{
	jcs_close(j);
	jcs_close(j);
	w->over = w->over || e2b_frame_send(w->q, b, &w->why) != 0;
}

static void
empty_send(struct watch *w, const char *what)
{
	AUTO_BUF struct buf b = BUF(64);
	struct jcs j;

	event_open(&j, &b, what);
	event_send(w, &j, &b);
}

static const char *
type_of(struct str op)
{
	static const struct {
		const char *op, *type;
	} rows[] = {{"create", "EVENT_TYPE_CREATE"}, {"write", "EVENT_TYPE_WRITE"},
	    {"remove", "EVENT_TYPE_REMOVE"}, {"rename", "EVENT_TYPE_RENAME"},
	    {"chmod", "EVENT_TYPE_CHMOD"}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_eqz(op, rows[i].op))
			return rows[i].type;
	return NULL;
}

/* Names are told as below the directory that is watched. */
static struct str
name_of(const struct watch *w, struct str path)
{
	size_t n = strlen(w->path);

	if (path.n > n && memcmp(path.p, w->path, n) == 0) {
		path.p += n;
		path.n -= n;
	}
	while (path.n != 0 && path.p[0] == '/') {
		path.p++;
		path.n--;
	}
	return path;
}

static void
tell(struct watch *w, struct str path, const char *type)
{
	AUTO_BUF struct buf b = BUF(65536);
	struct jcs j;

	event_open(&j, &b, "filesystem");
	jcs_str_lossy(&j, "name", name_of(w, path));
	jcs_z(&j, "type", type);
	event_send(w, &j, &b);
}

/* What the part that writes files calls them until they are whole. */
static bool
is_ours(struct str path)
{
	struct str dir;

	while (str_cut(&path, '/', &dir))
		continue;
	return str_has_prefix(path, ".cofferdam-");
}

static bool
on_change(void *arg, struct str json)
{
	struct watch *w = arg;
	AUTO(json) struct json_doc *d = NULL;
	struct err ignored = {0};
	struct str op, to, path;

	if (json_parse(json, "change", &d, &ignored) != 0)
		return !w->over;
	op = json_str(json_get(json_root(d), "op"));
	to = json_str(json_get(json_root(d), "to"));
	path = json_str(json_get(json_root(d), "path"));
	if (type_of(op) != NULL && !is_ours(path))
		tell(w, path, type_of(op));
	if (str_eqz(op, "rename") && to.n != 0 && !is_ours(to))
		tell(w, to, "EVENT_TYPE_CREATE");
	/* A file that was written whole appears so. */
	if (str_eqz(op, "rename") && is_ours(path) && !is_ours(to))
		tell(w, to, "EVENT_TYPE_WRITE");
	return !w->over;
}

/* --- the child that watches ----------------------------------------------------------------- */

struct child {
	int out; /* lines of JSON; an empty one: it has begun */
	pid_t pid;
	int stop; /* the watch ends when this is closed */
};

static bool
line_out(int fd, struct str s)
{
	AUTO_BUF struct buf b = BUF(1 << 20);

	buf_put_str(&b, s);
	buf_put_c(&b, '\n');
	for (size_t off = 0; off < b.n;) {
		ssize_t n = write(fd, b.p + off, b.n - off);

		if (n <= 0)
			return false;
		off += (size_t)n;
	}
	return true;
}

static void
child_ready(void *arg)
{
	(void)line_out(*(const int *)arg, STR(""));
}

static bool
child_change(void *arg, struct str json)
{
	return line_out(*(const int *)arg, json);
}

/* An error is a line "!CODE TEXT". */
static _Noreturn void
child_run(struct e2b_request *q, const char *path, bool tree, int out, int stop)
{
	AUTO_FREE char *words = NULL;
	struct sandbox *sb;
	struct err e = {0};
	int rc = keeper_sandbox(q->keeper, &sb, &e);

	if (rc == 0)
		rc = sandbox_file_watch_ready(
		    sb, path, tree, stop, child_ready, child_change, &out, &e);
	if (rc != 0) {
		words = xasprintf("!%d %s", -rc, e.msg);
		(void)line_out(out, str_z(words));
	}
	_exit(0);
}

static int
child_begin(struct e2b_request *q, const char *path, bool tree, struct child *c, struct err *err)
{
	int out[2], stop[2] = {-1, -1};
	pid_t self = getpid();
	int rc;

	if (pipe2(out, O_CLOEXEC) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "pipe");
	if (pipe2(stop, O_CLOEXEC) != 0 || (c->pid = fork()) < 0) {
		rc = err_sys(err, ERR_SYSTEM, errno, "a process to watch");
		(void)close(out[0]);
		(void)close(out[1]);
		cleanup_close_fd(&stop[0]);
		cleanup_close_fd(&stop[1]);
		return rc;
	}
	if (c->pid == 0) {
		(void)close(stop[1]);
		(void)close(out[0]);
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != self)
			_exit(1);
		child_run(q, path, tree, out[1], stop[0]);
	}
	(void)close(out[1]);
	(void)close(stop[0]);
	c->out = out[0];
	c->stop = stop[1];
	return 0;
}

static void
child_end(struct child *c)
{
	if (c->pid <= 0)
		return;
	(void)close(c->stop);
	(void)close(c->out);
	(void)kill(c->pid, SIGKILL);
	while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
}

/* --- its course ------------------------------------------------------------------------------- */

static void
on_line(struct watch *w, struct str line)
{
	struct str code;
	uint64_t n = 0;

	if (line.n == 0 && !w->began) {
		w->began = true;
		empty_send(w, "start");
	} else if (line.n != 0 && line.p[0] == '!') {
		line.p++;
		line.n--;
		if (str_cut(&line, ' ', &code) && str_to_u64(code, 100, &n) && n != 0)
			(void)err_set(&w->why, -(int)n, "%.*s", STR_ARG(line));
		w->over = true;
	} else if (line.n != 0) {
		w->over = !on_change(w, line);
	}
}

/* False: the child is gone. */
static bool
lines_take(struct watch *w, int fd, struct buf *b)
{
	uint8_t room[16384];
	ssize_t n = read(fd, room, sizeof(room));
	struct str rest, line;
	size_t all;

	if (n <= 0)
		return n < 0 && errno == EINTR;
	buf_put(b, room, (size_t)n);
	if (buf_over(b))
		return false;
	rest = buf_str(b);
	all = rest.n;
	while (!w->over && str_cut(&rest, '\n', &line))
		on_line(w, line);
	buf_drop(b, all - rest.n);
	return true;
}

static int
wait_ms(const struct watch *w, uint64_t now)
{
	uint64_t at = w->ping_us;

	if (w->until_us != 0 && w->until_us < at)
		at = w->until_us;
	return at <= now ? 0 : (int)((at - now + 999) / 1000);
}

static void
turn(struct watch *w, const struct child *c, struct buf *lines)
{
	uint64_t now = clock_boot_us();
	struct pollfd p[3] = {{.fd = c->out, .events = POLLIN},
	    {.fd = serve_fd(w->q->conn), .events = POLLIN},
	    {.fd = keeper_fd(w->q->keeper), .events = POLLIN}};

	if (poll(p, ARRAY_LEN(p), wait_ms(w, now)) < 0)
		return;
	now = clock_boot_us();
	if (p[1].revents != 0 && serve_gone(w->q->conn)) {
		w->over = true;
	} else if (p[0].revents != 0) {
		if (!lines_take(w, c->out, lines) && !w->over)
			w->over = err_set(&w->why, ERR_UNAVAILABLE, "the sandbox has ended") != 0;
	} else if (p[2].revents != 0) {
		w->over = err_set(&w->why, ERR_UNAVAILABLE, "the sandbox has ended") != 0;
	} else if (w->until_us != 0 && now >= w->until_us) {
		w->over = err_set(&w->why, ERR_TIMEOUT, "the watch's time is over") != 0;
	} else if (now >= w->ping_us) {
		w->ping_us = now + w->ping_every_us;
		empty_send(w, "keepalive");
	}
}

void
e2b_on_watch(struct e2b_request *q)
{
	AUTO_BUF struct buf path = BUF(8192), lines = BUF(4 << 20);
	AUTO(json) struct json_doc *d = NULL;
	uint64_t now = clock_boot_us(), ms = e2b_timeout_ms(q);
	struct watch w = {.q = q,
	    .until_us = ms != 0 ? now + ms * 1000 : 0,
	    .ping_every_us = e2b_keepalive_s(q) * 1000000};
	struct child c = {0};
	struct err e = {0};

	if (!e2b_message(q, true, &d) || !e2b_user_ok(q, true))
		return;
	if (!e2b_path(json_str(json_get(json_root(d), "path")), &path))
		(void)err_set(&e, ERR_INVALID, "path is no path");
	if (e.code != 0 || child_begin(q, (const char *)path.p,
			       json_bool(json_get(json_root(d), "recursive")), &c, &e) != 0) {
		e2b_frame_end(q, &e);
		return;
	}
	w.path = (const char *)path.p;
	w.ping_us = now + w.ping_every_us;
	while (!w.over)
		turn(&w, &c, &lines);
	child_end(&c);
	e2b_frame_end(q, w.why.code != 0 ? &w.why : NULL);
}
