/*
 * The strict reader of what cofferdam-inside says. Runs in the caller; the writer stands beside
 * hostile code inside, so every type, size, number and name is checked, and nothing is believed
 * beyond what the answer is about.
 */
#include "agent/sandbox/sandbox_frame.h"

#include "common/jcs.h"
#include "common/json_scan.h"

#include "common/banned.h"

void
frame_reader_init(struct frame_reader *f, const struct frame_ops *ops, void *arg)
{
	*f = (struct frame_reader){.ops = ops, .arg = arg, .body = BUF(FRAME_BODY_MAX)};
}

void
frame_reader_free(struct frame_reader *f)
{
	buf_free(&f->body);
}

static int
broken(struct err *err, const char *why)
{
	return err_set(err, ERR_PROTOCOL, "sandbox: answer from inside: %s", why);
}

static bool
path_ok(struct str s)
{
	return s.n != 0 && s.n < 4096 + 256 && memchr(s.p, '\0', s.n) == NULL;
}

static bool
one_of(const char *letters, int c)
{
	return c != '\0' && strchr(letters, c) != NULL;
}

static int
entry_take(struct frame_reader *f, struct rd *r, struct err *err)
{
	struct frame_entry e;

	e.kind = (enum frame_kind)rd_u8(r);
	e.size = rd_u64(r);
	e.mode = rd_u32(r);
	e.mtime_ms = rd_u64(r);
	e.path = rd_lstr(r);
	e.target = rd_lstr(r);
	if (!rd_end(r) || !one_of("fdlo", (int)e.kind) || e.mode > 07777 || !path_ok(e.path) ||
	    (e.target.n != 0 && !path_ok(e.target)) || (e.target.n != 0 && e.kind != KIND_LINK))
		return broken(err, "malformed entry");
	return f->ops->entry(f->arg, &e, err);
}

static int
change_take(struct frame_reader *f, struct rd *r, struct err *err)
{
	struct frame_change c;

	c.op = (enum frame_op)rd_u8(r);
	c.path = rd_lstr(r);
	c.to = rd_lstr(r);
	if (!rd_end(r) || !one_of("cwdrmoy", (int)c.op) ||
	    (c.op == OP_OVERFLOW ? c.path.n != 0 && !path_ok(c.path) : !path_ok(c.path)) ||
	    (c.op == OP_RENAME ? !path_ok(c.to) : c.to.n != 0))
		return broken(err, "malformed change");
	return f->ops->change(f->arg, &c, err);
}

/* An error of the part: its code from the few that a file can have, its text made printable. */
static int
error_take(struct rd *r, struct err *err)
{
	static const int may[] = {ERR_SYSTEM, ERR_INVALID, ERR_TOO_LARGE, ERR_NOT_FOUND, ERR_EXISTS,
	    ERR_DENIED, ERR_STATE, ERR_PROTOCOL, ERR_UNSUPPORTED, ERR_UNAVAILABLE, ERR_DISK_FULL};
	uint32_t code = rd_u32(r);
	struct str text = rd_lstr(r);
	char clean[ERR_MSG_MAX];
	size_t n = 0;

	if (!rd_end(r) || text.n >= sizeof(clean))
		return broken(err, "malformed error");
	for (; n < text.n; n++)
		clean[n] = (uint8_t)text.p[n] < 0x20 || text.p[n] == 0x7f ? '?' : text.p[n];
	if (!str_is_utf8(str_mem(clean, n)))
		for (size_t i = 0; i < n; i++)
			clean[i] = (uint8_t)clean[i] < 0x80 ? clean[i] : '?';
	for (size_t i = 0; i < ARRAY_LEN(may); i++)
		if (code == (uint32_t)-may[i])
			return err_set(err, may[i], "sandbox: %.*s", (int)n, clean);
	return broken(err, "unknown error");
}

static int
end_take(struct frame_reader *f, struct rd *r, struct err *err)
{
	uint64_t data = rd_u64(r);

	return rd_end(r) && data == f->data ? 0 : broken(err, "bytes are missing");
}

static int
body_take(struct frame_reader *f, struct err *err)
{
	struct rd r = rd_init(buf_str(&f->body));

	switch ((enum frame_type)f->type) {
	case FRAME_DATA: break;
	case FRAME_END: f->ended = true; return end_take(f, &r, err);
	case FRAME_ERROR: f->ended = true; return error_take(&r, err);
	case FRAME_ENTRY: return entry_take(f, &r, err);
	case FRAME_CHANGE: return change_take(f, &r, err);
	}
	return 0;
}

static int
head_take(struct frame_reader *f, struct err *err)
{
	struct rd r = rd_init(str_mem(f->head, sizeof(f->head)));
	bool may = false;
	size_t max = FRAME_BODY_MAX;

	f->type = rd_u8(&r);
	f->left = rd_u32(&r);
	switch ((enum frame_type)f->type) {
	case FRAME_DATA:
		may = f->ops->data != NULL;
		max = FRAME_DATA_MAX;
		break;
	case FRAME_ENTRY: may = f->ops->entry != NULL; break;
	case FRAME_CHANGE: may = f->ops->change != NULL; break;
	case FRAME_END:
	case FRAME_ERROR: may = true; break;
	}
	if (!may)
		return broken(err, "a frame of a type that does not belong there");
	if (f->left == 0 || f->left > max)
		return broken(err, "a frame that is empty or too large");
	buf_reset(&f->body);
	return 0;
}

int
frame_feed(struct frame_reader *f, struct str s, struct err *err)
{
	while (s.n != 0) {
		size_t want = f->nhead < FRAME_HEAD ? FRAME_HEAD - f->nhead : f->left;
		size_t n = s.n < want ? s.n : want;
		struct str piece = {s.p, n};
		int rc = 0;

		if (f->ended)
			return broken(err, "more behind its end");
		s.p += n;
		s.n -= n;
		if (f->nhead < FRAME_HEAD) {
			memcpy(f->head + f->nhead, piece.p, n);
			f->nhead += n;
			if (f->nhead == FRAME_HEAD)
				rc = head_take(f, err);
		} else {
			f->left -= (uint32_t)n;
			if (f->type == FRAME_DATA) {
				f->data += n;
				rc = f->ops->data(f->arg, piece, err);
			} else {
				buf_put_str(&f->body, piece);
			}
			if (rc == 0 && f->left == 0) {
				f->nhead = 0;
				rc = body_take(f, err);
			}
		}
		if (rc != 0)
			return rc;
	}
	return 0;
}

void
frame_put(struct buf *out, enum frame_type type, struct str body)
{
	buf_u8(out, (uint8_t)type);
	buf_u32(out, (uint32_t)body.n);
	buf_put_str(out, body);
}

/* Keys ascend: "bytes" stands before all others of ours but none. */
static void
bytes_json(struct jcs *j, struct str path)
{
	if (!str_is_utf8(path))
		jcs_hex(j, "bytes", path.p, path.n);
}

void
frame_entry_json(const struct frame_entry *e, struct buf *out)
{
	static const int64_t max = JSON_INT_MAX;
	int64_t ms = (int64_t)e->mtime_ms;
	struct str name = e->path;
	struct jcs j;

	for (size_t i = 0; i + 1 < e->path.n; i++)
		if (e->path.p[i] == '/')
			name = (struct str){e->path.p + i + 1, e->path.n - i - 1};
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	bytes_json(&j, e->path);
	jcs_int(&j, "mode", e->mode);
	/* Sparse files and times set by hand go beyond what JSON's numbers hold. */
	jcs_int(&j, "mtime_ms", ms > max ? max : ms < -max ? -max : ms);
	jcs_str_lossy(&j, "name", name);
	jcs_str_lossy(&j, "path", e->path);
	jcs_int(&j, "size", e->size > (uint64_t)max ? max : (int64_t)e->size);
	if (e->kind == KIND_LINK)
		jcs_str_lossy(&j, "target", e->target);
	jcs_z(&j, "type",
	    e->kind == KIND_FILE   ? "file"
	    : e->kind == KIND_DIR  ? "dir"
	    : e->kind == KIND_LINK ? "link"
				   : "other");
	jcs_close(&j);
}

static const char *
op_name(enum frame_op op)
{
	switch (op) {
	case OP_CREATE: return "create";
	case OP_WRITE: return "write";
	case OP_REMOVE: return "remove";
	case OP_RENAME: return "rename";
	case OP_CHMOD: return "chmod";
	case OP_READY: return "ready";
	case OP_OVERFLOW: break;
	}
	return "overflow";
}

void
frame_change_json(const struct frame_change *c, struct buf *out)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	bytes_json(&j, c->path);
	jcs_z(&j, "op", op_name(c->op));
	jcs_str_lossy(&j, "path", c->path);
	if (c->op == OP_RENAME)
		jcs_str_lossy(&j, "to", c->to);
	jcs_close(&j);
}
