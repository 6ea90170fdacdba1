/*
 * Files of the sandbox, for the model (process: cofferdam-agent). Done inside, with the rights of
 * the code inside: no path of the model's is ever opened here.
 */
#include <errno.h>
#include <sys/mman.h>

#include "common/xalloc.h"
#include "agent/agent_tools.h"

#include "common/banned.h"

#define READ_DEFAULT 16384

struct reading {
	uint64_t skip, seen, left;
	struct buf *out;
};

static int
reading_take(void *arg, struct str s)
{
	struct reading *g = arg;
	uint64_t skip = g->skip < s.n ? g->skip : s.n;

	g->seen += s.n;
	g->skip -= skip;
	s.p += skip;
	s.n -= (size_t)skip;
	if (s.n > g->left)
		s.n = (size_t)g->left;
	buf_put_str(g->out, s);
	g->left -= s.n;
	return g->left == 0 && g->skip == 0 ? 1 : 0;
}

/* A character that the limit cut in two belongs to the next piece. */
static size_t
whole_characters(struct str s)
{
	for (size_t cut = 0; cut < 4 && cut < s.n; cut++)
		if (str_is_utf8(str_mem(s.p, s.n - cut)))
			return s.n - cut;
	return s.n;
}

int
tool_read_file(
    struct course *k, const struct model_call *call, struct tool_done *ret, struct err *err)
{
	AUTO_FREE char *path = str_dup(call->args.text[0]);
	uint64_t offset = (uint64_t)call->args.number[1];
	struct reading g = {.skip = offset,
	    .left = call->args.given[2] ? (uint64_t)call->args.number[2] : READ_DEFAULT,
	    .out = &ret->text};
	bool more;
	struct err e = {0};
	int rc = sandbox_file_read(k->c->sandbox, path, UINT64_MAX >> 1, reading_take, &g, &e);

	more = g.left == 0;
	if (rc == ERR_UNAVAILABLE)
		return err_set(err, rc, "%s", e.msg);
	if (rc != 0 && !more)
		return tools_refuse(ret, e.msg);
	if (more)
		ret->text.n = whole_characters(buf_str(&ret->text));
	ret->kept = ret->total = ret->text.n;
	if (g.skip != 0)
		ret->words = xasprintf("the file has only %llu bytes", (unsigned long long)g.seen);
	else if (more)
		ret->words = xasprintf("bytes %llu to %llu; read on with offset %llu",
		    (unsigned long long)offset, (unsigned long long)(offset + ret->text.n - 1),
		    (unsigned long long)(offset + ret->text.n));
	else
		ret->words = xasprintf("to the end, %llu bytes in all", (unsigned long long)g.seen);
	return 0;
}

int
tool_write_file(
    struct course *k, const struct model_call *call, struct tool_done *ret, struct err *err)
{
	AUTO_FREE char *path = str_dup(call->args.text[1]);
	AUTO_FD int fd = memfd_create("file", MFD_CLOEXEC);
	struct str s = call->args.text[0];
	struct err e = {0};
	int rc;

	while (fd >= 0 && s.n != 0) {
		ssize_t n = write(fd, s.p, s.n);

		if (n < 0 && errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "room for a file");
		if (n > 0)
			s = str_mem(s.p + n, s.n - (size_t)n);
	}
	if (fd < 0 || lseek(fd, 0, SEEK_SET) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "room for a file");
	rc = sandbox_file_write(k->c->sandbox, path, fd, SANDBOX_CODE_MAX * 4, 0, &e);
	if (rc == ERR_UNAVAILABLE)
		return err_set(err, rc, "%s", e.msg);
	if (rc != 0)
		return tools_refuse(ret, e.msg);
	ret->words = xasprintf("%zu bytes written", call->args.text[0].n);
	return 0;
}
