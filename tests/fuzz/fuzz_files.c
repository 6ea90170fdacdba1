/*
 * Fuzzes requests to a directory of reference data. Whatever the path and the query, one head comes
 * and as much content as it promises, nothing that lies outside the directory, and an end.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/upstream_files.h"
#include "common/http.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define OUTSIDE "canary-outside"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char top[] = "/tmp/cofferdam-fuzz-files.XXXXXX";

static void
put(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	(void)close(fd);
}

static void
tidy(void)
{
	static const char *const names[] = {"d/a.md", "d/b/c d", "d/out", "d/self", "key"};
	int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)unlinkat(dir, names[i], 0);
	(void)unlinkat(dir, "d/b", AT_REMOVEDIR);
	(void)unlinkat(dir, "d", AT_REMOVEDIR);
	(void)close(dir);
	(void)rmdir(top);
}

static int
tree(void)
{
	static int d = -1;
	int dir;

	if (d >= 0)
		return d;
	assert(mkdtemp(top) != NULL);
	dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(dir >= 0 && mkdirat(dir, "d", 0755) == 0 && mkdirat(dir, "d/b", 0755) == 0);
	put(dir, "key", OUTSIDE "\n");
	put(dir, "d/a.md", "alpha\nbeta gamma\n");
	put(dir, "d/b/c d", "delta beta\n");
	assert(symlinkat("../key", dir, "d/out") == 0 && symlinkat(".", dir, "d/self") == 0);
	d = openat(dir, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
	(void)close(dir);
	(void)atexit(tidy);
	return d;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf head = BUF(4096), content = BUF((size_t)2 << 20),
			    all = BUF((size_t)8 << 20), heads = BUF(8192);
	struct files *f = files_new(tree(), str_mem(data, size));
	struct http_response r;
	struct err err = {0};
	enum files_step s;
	unsigned steps = 0;

	do {
		s = files_next(f, &head, &content, &err);
		buf_put_str(&heads, buf_str(&head));
		buf_put_str(&all, buf_str(&content));
		assert(++steps < 100000);
	} while (s == FILES_MORE);
	assert(s == FILES_END && !buf_over(&all));
	assert(http_response_parse(buf_str(&heads), false, &r, &err) == 0);
	assert(r.body == HTTP_BODY_LENGTH && r.length == all.n);
	assert(memmem(all.p, all.n, OUTSIDE, strlen(OUTSIDE)) == NULL ||
	       memmem(data, size, OUTSIDE, strlen(OUTSIDE)) != NULL);
	files_free(f);
	return 0;
}
