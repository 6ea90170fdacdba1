/*
 * Output that is too long to be shown (process: cofferdam-agent). It goes back into the sandbox
 * that it came from, as a file that the model can read on or search: it is worth there what it was
 * worth before, and here it is bytes that nobody reads.
 */
#include "agent/agent_output.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define SHOWN ((size_t)LOOP_HEAD + LOOP_TAIL)

void
output_init(struct output *o)
{
	*o = (struct output){.first = BUF(SHOWN), .fd = -1};
}

void
output_free(struct output *o)
{
	buf_free(&o->first);
	cleanup_close_fd(&o->fd);
}

static void
written(struct output *o, struct str s)
{
	while (s.n != 0 && !o->lost) {
		ssize_t k = write(o->fd, s.p, s.n);

		if (k < 0 && errno != EINTR)
			o->lost = true;
		if (k > 0) {
			s.p += k;
			s.n -= (size_t)k;
		}
	}
}

void
output_take(void *output, int stream UNUSED, struct str s)
{
	struct output *o = output;

	if (s.n > OUTPUT_WHOLE_MAX - o->n)
		s.n = (size_t)(OUTPUT_WHOLE_MAX - o->n);
	o->n += s.n;
	if (o->fd < 0 && !o->lost && s.n <= SHOWN - o->first.n) {
		buf_put_str(&o->first, s);
		return;
	}
	if (o->fd < 0 && !o->lost) {
		o->fd = memfd_create("output", MFD_CLOEXEC);
		o->lost = o->fd < 0;
		written(o, buf_str(&o->first));
	}
	written(o, s);
}

static char *
path_of(uint64_t call)
{
	return xasprintf(OUTPUT_DIR "/call-%llu.txt", (unsigned long long)call);
}

static int
file_make(struct course *k, struct output *o, const char *path, struct err *err)
{
	if (o->lost || o->fd < 0 || lseek(o->fd, 0, SEEK_SET) != 0)
		return err_set(err, ERR_SYSTEM, "no room to keep it");
	if (k->spent.calls > OUTPUT_FILES_MAX) {
		AUTO_FREE char *old = path_of(k->spent.calls - OUTPUT_FILES_MAX);
		struct err ignored;

		(void)sandbox_file_remove(k->c->sandbox, old, false, &ignored);
	}
	return sandbox_file_write(k->c->sandbox, path, o->fd, OUTPUT_WHOLE_MAX, 0600, err);
}

static void
left_out(struct course *k, struct output *o, const struct sandbox_result *r, struct buf *out)
{
	AUTO_FREE char *path = path_of(k->spent.calls);
	uint64_t kept = r->head.n + r->tail.n;
	struct err e = {0};

	buf_printf(out, "\n[... %llu of %llu bytes left out ...; ",
	    (unsigned long long)(r->total - kept), (unsigned long long)r->total);
	if (file_make(k, o, path, &e) != 0)
		buf_printf(out, "the whole could not be kept: %s]\n", e.msg);
	else if (o->n < r->total)
		buf_printf(
		    out, "the first %llu bytes are in %s]\n", (unsigned long long)o->n, path);
	else
		buf_printf(out, "all of it is in %s]\n", path);
}

void
output_tell(struct course *k, struct output *o, const struct sandbox_result *r, struct tool_done *d)
{
	buf_put_str(&d->text, buf_str(&r->head));
	d->kept = r->head.n + r->tail.n;
	d->total = r->total;
	d->duration_us = r->duration_us;
	if (d->kept < d->total)
		left_out(k, o, r, &d->text);
	buf_put_str(&d->text, buf_str(&r->tail));
}
