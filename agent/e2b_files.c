/*
 * /files of E2B's data plane: contents down and up (process: a worker of cofferdam-sandboxd). An
 * upload is kept in a file without a name until all of it is there, then given to the part inside
 * that writes it whole or not at all; it is never larger than the server says, and a note of it is
 * on the record.
 */
#include "agent/e2b_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "common/xalloc.h"
#include "agent/e2b_multipart.h"

#include "common/banned.h"

#define READ_MAX ((uint64_t)1 << 40) /* the disk limit of the sandbox is below */

void
e2b_on_health(struct e2b_request *q)
{
	e2b_answer_none(q);
}

/* SDKs read these as text or as "message". */
static void
fail(struct e2b_request *q, const struct err *e)
{
	if (e->code == ERR_DISK_FULL)
		e2b_answer_fail(q, 507, e->msg);
	else if (e->code == ERR_UNSUPPORTED)
		e2b_answer_fail(q, 415, e->msg);
	else
		e2b_answer_error(q, e);
}

static int
path_query(struct e2b_request *q, struct buf *path, struct err *err)
{
	AUTO_BUF struct buf text = BUF(8192);

	if (e2b_query(q, "path", &text) && e2b_path(buf_str(&text), path))
		return 0;
	return err_set(err, ERR_INVALID, "path is wanted in the query");
}

/* --- down ------------------------------------------------------------------------------------- */

struct down {
	struct e2b_request *q;
	struct err why;
};

static int
down_sink(void *arg, struct str bytes)
{
	struct down *d = arg;

	if (!serve_answered(d->q->conn) &&
	    serve_stream(d->q->conn, 200, "application/octet-stream", &d->why) != 0)
		return ERR_UNAVAILABLE;
	return serve_put(d->q->conn, bytes, &d->why);
}

static int
file_check(struct sandbox *sb, const char *path, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	int rc = e2b_stat(sb, path, &d, err);

	if (rc == 0 && str_eqz(json_str(json_get(json_root(d), "type")), "dir"))
		return err_set(err, ERR_INVALID, "path '%s' is a directory", path);
	return rc;
}

void
e2b_on_file_get(struct e2b_request *q)
{
	AUTO_BUF struct buf path = BUF(8192);
	AUTO_DETACH struct sandbox *sb = NULL;
	struct down d = {.q = q};
	struct err e = {0}, ignored = {0};

	if (!e2b_user_ok(q, false))
		return;
	if (path_query(q, &path, &e) != 0 || keeper_sandbox(q->keeper, &sb, &e) != 0 ||
	    file_check(sb, (const char *)path.p, &e) != 0 ||
	    sandbox_file_read(sb, (const char *)path.p, READ_MAX, down_sink, &d, &e) != 0) {
		/* In the midst of it the connection is cut, so that nobody takes a part for all. */
		if (!serve_answered(q->conn))
			fail(q, &e);
		return;
	}
	if (!serve_answered(q->conn))
		(void)serve_answer(q->conn, 200, "application/octet-stream", STR(""), &ignored);
	else
		(void)serve_end(q->conn, &ignored);
}

/* --- up -----------------------------------------------------------------------------------------
 */

struct up {
	struct e2b_request *q;
	struct sandbox *sb;
	struct buf path; /* of the query; empty: of each part */
	struct buf at;	 /* of the file in hand */
	int fd;
	uint64_t size, total;
	struct buf out;
	struct jcs j;
	unsigned written;
	bool takes; /* the part in hand is a file */
};

static void
up_free(struct up *u)
{
	buf_free(&u->path);
	buf_free(&u->at);
	buf_free(&u->out);
	cleanup_close_fd(&u->fd);
	sandbox_detach(u->sb);
}
#define AUTO_UP __attribute__((cleanup(up_free)))

static int
spool_open(struct up *u, struct err *err)
{
	cleanup_close_fd(&u->fd);
	u->size = 0;
	u->fd = open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (u->fd < 0)
		u->fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return u->fd >= 0 ? 0 : err_sys(err, ERR_SYSTEM, errno, "a file for the upload");
}

static int
spool_put(struct up *u, struct str s, struct err *err)
{
	uint64_t max = u->q->config->upload_mib << 20;

	if (s.n > max - u->total)
		return err_set(err, ERR_TOO_LARGE,
		    "an upload is over %llu MiB, the limit (--upload)",
		    (unsigned long long)u->q->config->upload_mib);
	u->total += s.n;
	u->size += s.n;
	while (s.n != 0) {
		ssize_t n = write(u->fd, s.p, s.n);

		if (n < 0 && errno != EINTR)
			return err_sys(
			    err, errno == ENOSPC ? ERR_DISK_FULL : ERR_SYSTEM, errno, "the upload");
		s.p += n > 0 ? n : 0;
		s.n -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int
note(struct up *u, struct err *err)
{
	AUTO_BUF struct buf b = BUF(512);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_z(&j, "file", "written");
	jcs_int(&j, "size", (int64_t)u->size);
	jcs_close(&j);
	return keeper_event(u->q->keeper, "note", buf_str(&b), str_mem(u->at.p, u->at.n - 1), err);
}

static void
written_put(struct up *u)
{
	struct str path = str_mem(u->at.p, u->at.n - 1), name = path, dir;

	while (str_cut(&name, '/', &dir))
		continue;
	jcs_open(&u->j, NULL);
	jcs_str_lossy(&u->j, "name", name);
	jcs_str_lossy(&u->j, "path", path);
	jcs_z(&u->j, "type", "file");
	jcs_close(&u->j);
	u->written++;
}

/* On the record first. */
static int
spool_give(struct up *u, struct err *err)
{
	int rc = note(u, err);

	if (rc == 0 && lseek(u->fd, 0, SEEK_SET) != 0)
		rc = err_sys(err, ERR_SYSTEM, errno, "the upload");
	if (rc == 0)
		rc = sandbox_file_write(
		    u->sb, (const char *)u->at.p, u->fd, u->q->config->upload_mib << 20, 0, err);
	if (rc == 0)
		written_put(u);
	return rc;
}

static int
on_begin(void *arg, struct str name, struct str filename, struct err *err)
{
	struct up *u = arg;

	u->takes = str_eqz(name, "file") && filename.p != NULL;
	if (!u->takes)
		return 0;
	buf_reset(&u->at);
	if (u->path.n != 0)
		buf_put_str(&u->at, buf_str(&u->path));
	else if (filename.n == 0 || !e2b_path(filename, &u->at))
		return err_set(err, ERR_INVALID, "a part without path: neither query nor filename");
	return spool_open(u, err);
}

static int
on_data(void *arg, struct str bytes, struct err *err)
{
	struct up *u = arg;

	return u->takes ? spool_put(u, bytes, err) : 0;
}

static int
on_end(void *arg, struct err *err)
{
	struct up *u = arg;

	return u->takes ? spool_give(u, err) : 0;
}

static int
octets(struct up *u, struct err *err)
{
	struct str piece;
	int rc, more = 0;

	if (u->path.n == 0)
		return err_set(err, ERR_INVALID, "path is wanted in the query");
	buf_put_str(&u->at, buf_str(&u->path));
	if ((rc = spool_open(u, err)) != 0)
		return rc;
	while (more == 0) {
		if ((more = serve_body_next(u->q->conn, &piece, err)) < 0)
			return more;
		if ((rc = spool_put(u, piece, err)) != 0)
			return rc;
	}
	return spool_give(u, err);
}

static int
form(struct up *u, struct str type, struct err *err)
{
	static const struct multipart_ops ops = {on_begin, on_data, on_end};
	AUTO_MULTIPART struct multipart m;
	struct str piece;
	int rc = multipart_init(&m, type, &ops, u, err), more = 0;

	while (rc == 0 && more == 0) {
		if ((more = serve_body_next(u->q->conn, &piece, err)) < 0)
			return more;
		rc = multipart_feed(&m, piece, err);
	}
	return rc == 0 ? multipart_end(&m, err) : rc;
}

static int
upload(struct up *u, struct err *err)
{
	struct str type = serve_field_get(u->q->conn, "Content-Type"), kind = type, head;
	struct str coding = serve_field_get(u->q->conn, "Content-Encoding");
	AUTO_BUF struct buf text = BUF(8192);

	if (coding.n != 0 && !str_ieqz(coding, "identity"))
		return err_set(err, ERR_UNSUPPORTED,
		    "uploads in %.*s are not taken here: send them as they are",
		    (int)(coding.n < 32 ? coding.n : 32), coding.p);
	if (e2b_query(u->q, "path", &text) && text.n != 0 && !e2b_path(buf_str(&text), &u->path))
		return err_set(err, ERR_INVALID, "path is no path");
	if (str_cut(&kind, ';', &head))
		kind = head;
	return str_ieqz(str_trim(kind), "application/octet-stream") ? octets(u, err)
								    : form(u, type, err);
}

void
e2b_on_file_post(struct e2b_request *q)
{
	AUTO_UP struct up u = {
	    .q = q, .path = BUF(8192), .at = BUF(8192), .out = BUF(E2B_JSON_MAX), .fd = -1};
	struct err e = {0};

	if (!e2b_user_ok(q, false))
		return;
	jcs_init(&u.j, &u.out);
	jcs_array(&u.j, NULL);
	if (keeper_sandbox(q->keeper, &u.sb, &e) != 0 || upload(&u, &e) != 0) {
		serve_last(q->conn);
		fail(q, &e);
		return;
	}
	jcs_array_end(&u.j);
	if (u.written == 0)
		e2b_answer_fail(q, 400, "no part named \"file\" came");
	else
		e2b_answer_json(q, 200, &u.out);
}
