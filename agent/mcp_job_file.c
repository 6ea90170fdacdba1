/*
 * Files of the sandbox, in a job of cofferdam-mcp. All is done inside, with the rights of the code
 * there; no path reaches the host.
 */
#include "agent/mcp_job.h"

#include <errno.h>
#include <sys/mman.h>

#include "common/hash.h"
#include "common/jcs.h"

#include "common/banned.h"

DEFINE_AUTO(sandbox_here, struct sandbox, sandbox_detach)

struct reading {
	struct buf bytes;
	uint64_t skip, seen;
	size_t limit;
};

/* Not 0: enough. */
static int
reading_take(void *arg, struct str s)
{
	struct reading *r = arg;
	uint64_t skip = r->seen < r->skip ? r->skip - r->seen : 0;
	size_t room = r->limit - r->bytes.n;

	r->seen += s.n;
	if (skip >= s.n)
		return 0;
	s = str_mem(s.p + skip, s.n - (size_t)skip);
	buf_put_str(&r->bytes, str_mem(s.p, s.n < room ? s.n : room));
	return s.n >= room;
}

static int
size_of(struct sandbox *sb, const char *path, int64_t *ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(65536);
	AUTO(json) struct json_doc *d = NULL;
	int rc = sandbox_file_stat(sb, path, &b, err);

	if (rc == 0)
		rc = json_parse(buf_str(&b), "stat", &d, err);
	if (rc == 0)
		*ret = json_int(json_get(json_root(d), "size"));
	return rc;
}

/* A character that the limit cut in two is left for the next read. */
static void
whole_characters(struct buf *b)
{
	for (size_t i = 0; i < 3 && b->n != 0 && !str_is_utf8(buf_str(b)); i++) {
		struct str s = str_mem(b->p, b->n - i - 1);

		if (str_is_utf8(s)) {
			b->n = s.n;
			return;
		}
	}
}

int
mcp_job_read(struct mcp_job *j, struct buf *out, bool *failed, struct err *err)
{
	AUTO_FREE char *path = str_dup(j->o->args.path);
	AUTO(sandbox_here) struct sandbox *sb = NULL;
	AUTO_BUF struct buf text = BUF(2 * MCP_FILE_MAX);
	struct reading r = {.bytes = BUF(MCP_FILE_MAX),
	    .skip = (uint64_t)j->o->args.offset,
	    .limit = (size_t)j->o->args.limit};
	int64_t size = 0;
	struct jcs w;
	bool utf8;
	int rc;

	*failed = false;
	if ((rc = keeper_sandbox(j->k, &sb, err)) != 0 || (rc = size_of(sb, path, &size, err)) != 0)
		return rc;
	rc = sandbox_file_read(sb, path, UINT64_MAX >> 1, reading_take, &r, err);
	if (rc != 0 && r.bytes.n != r.limit) {
		buf_free(&r.bytes);
		return rc;
	}
	if (j->o->args.offset + (int64_t)r.bytes.n < size)
		whole_characters(&r.bytes);
	utf8 = str_is_utf8(buf_str(&r.bytes));
	if (utf8)
		buf_put_str(&text, buf_str(&r.bytes));
	else
		enc_base64(&text, buf_str(&r.bytes));
	jcs_init(&w, out);
	jcs_open(&w, NULL);
	jcs_str_lossy(&w, "content", buf_str(&text));
	jcs_z(&w, "encoding", utf8 ? "utf-8" : "base64");
	jcs_int(&w, "offset", j->o->args.offset);
	jcs_str_lossy(&w, "path", j->o->args.path);
	jcs_int(&w, "size", size);
	jcs_bool(&w, "truncated", j->o->args.offset + (int64_t)r.bytes.n < size);
	jcs_close(&w);
	buf_free(&r.bytes);
	return 0;
}

static int
content_of(const struct mcp_args *a, struct buf *bytes, struct err *err)
{
	if (!str_eqz(a->encoding, "base64"))
		buf_put_str(bytes, a->content);
	else if (!enc_unbase64(a->content, bytes))
		return err_set(err, ERR_INVALID, "write_file: content is not base64");
	return 0;
}

int
mcp_job_write(struct mcp_job *j, struct buf *out, bool *failed, struct err *err)
{
	AUTO_FREE char *path = str_dup(j->o->args.path);
	AUTO(sandbox_here) struct sandbox *sb = NULL;
	AUTO_BUF struct buf bytes = BUF(MCP_FILE_MAX);
	AUTO_FD int fd = memfd_create("content", MFD_CLOEXEC);
	struct jcs w;
	int rc;

	*failed = false;
	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "memfd");
	if ((rc = content_of(&j->o->args, &bytes, err)) != 0)
		return rc;
	if ((bytes.n != 0 && write(fd, bytes.p, bytes.n) != (ssize_t)bytes.n) ||
	    lseek(fd, 0, SEEK_SET) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "memfd");
	if ((rc = keeper_sandbox(j->k, &sb, err)) != 0 ||
	    (rc = sandbox_file_write(sb, path, fd, MCP_FILE_MAX, (unsigned)j->o->args.mode, err)) !=
		0)
		return rc;
	jcs_init(&w, out);
	jcs_open(&w, NULL);
	jcs_int(&w, "bytes", (int64_t)bytes.n);
	jcs_str_lossy(&w, "path", j->o->args.path);
	jcs_close(&w);
	return 0;
}

int
mcp_job_list(struct mcp_job *j, struct buf *out, bool *failed, struct err *err)
{
	AUTO_FREE char *path = str_dup(j->o->args.path);
	AUTO(sandbox_here) struct sandbox *sb = NULL;
	AUTO_BUF struct buf list = BUF((size_t)6 << 20);
	int rc;

	*failed = false;
	if ((rc = keeper_sandbox(j->k, &sb, err)) != 0 ||
	    (rc = sandbox_file_list(sb, path, (unsigned)j->o->args.depth, &list, err)) != 0)
		return rc;
	if (buf_over(&list))
		return err_set(
		    err, ERR_TOO_LARGE, "list_files: too many entries: list less deeply");
	buf_put_z(out, "{\"entries\":");
	buf_put_str(out, buf_str(&list));
	buf_put_z(out, ",\"path\":");
	mcp_text_put(out, j->o->args.path);
	buf_put_c(out, '}');
	return 0;
}
