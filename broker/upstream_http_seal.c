/*
 * What follows an answer: its beginning goes sealed to the writer, then core hears how it ended.
 * Runs in upstream. The order is the promise: the writer syncs a frame with or before the record
 * that names it, so core is told only when the frame has left this process.
 */
#include "broker/upstream_act.h"
#include "broker/upstream_http_int.h"
#include "common/ipc_frame.h"
#include "common/log.h"
#include "common/proc.h"

#include "common/banned.h"

#define FRAME_MAX (BLOB_PLAIN_MAX + 4096)
#define QUEUE_MAX ((size_t)8 << 20) /* on the wire to the writer; then the next one waits */

static void
say_done(struct exchange *x)
{
	buf_lstr(&x->done, buf_str(&x->blob));
	upstream_hub_core(x->h->hub, MSG_UH_DONE, &x->done);
	x->state = X_DEAD;
	TAILQ_REMOVE(&x->h->sealing, x, order);
}

bool
seal_frame(struct upstream_http *h, struct str frame, uint64_t *ret_at)
{
	AUTO_BUF struct buf b = BUF(FRAME_MAX + 4);

	if (h->writer == NULL)
		return false;
	buf_lstr(&b, frame);
	ipc_send(h->writer, MSG_W_FRAME, &b, NULL, 0);
	h->writer_bytes += IPC_HEADER + b.n;
	*ret_at = h->writer_bytes;
	return true;
}

bool
seal_left(const struct upstream_http *h, uint64_t at)
{
	return h->writer != NULL && ipc_sound(h->writer) &&
	       at <= h->writer_bytes - ipc_queued(h->writer);
}

static void
seal(struct exchange *x)
{
	struct upstream_http *h = x->h;
	AUTO_BUF struct buf frame = BUF(FRAME_MAX);
	struct blob_ref ref;
	struct jcs j;

	x->sealed = true;
	if (h->writer == NULL || x->answer == NULL || !answer_seal(x->answer, &frame, &ref) ||
	    !seal_frame(h, buf_str(&frame), &x->frame_at))
		return;
	jcs_init(&j, &x->blob);
	blob_ref_jcs(&j, NULL, &ref);
}

void
seal_settle(struct upstream_http *h)
{
	struct exchange *x;

	if (h->writer != NULL && !ipc_sound(h->writer))
		return;
	while ((x = TAILQ_FIRST(&h->sealing)) != NULL) {
		if (!x->sealed) {
			if (h->writer != NULL && ipc_queued(h->writer) > QUEUE_MAX)
				return;
			seal(x);
		}
		if (h->writer != NULL && x->frame_at > h->writer_bytes - ipc_queued(h->writer))
			return;
		say_done(x);
	}
}

void
seal_begin(struct exchange *x)
{
	x->state = X_SEALING;
	TAILQ_INSERT_TAIL(&x->h->sealing, x, order);
	seal_settle(x->h);
}

/* Frames that were on the old wire may be lost: no record may name them. */
static void
writer_lost(struct upstream_http *h)
{
	struct exchange *x = NULL;

	ipc_free(TAKE_PTR(h->writer));
	h->writer_bytes = 0;
	TAILQ_FOREACH (x, &h->sealing, order) {
		x->frame_at = 0;
		buf_reset(&x->blob);
	}
	upstream_seal_flush(h->hub, NULL);
}

static int
on_message(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err)
{
	(void)arg;
	(void)w;
	(void)type;
	(void)body;
	(void)fds;
	(void)nfds;
	return err_set(err, ERR_PROTOCOL, "not expected here");
}

static void
on_gone(void *arg, struct ipc *w, const char *why)
{
	(void)w;
	log_warn("the wire to writer is gone (%s)", why);
	writer_lost(arg);
	proc_wire_lost(IPC_ROLE_WRITER);
}

void
seal_writer(struct upstream_http *h, int fd)
{
	if (h->writer != NULL)
		writer_lost(h);
	h->writer =
	    ipc_new(h->hub->loop, fd, IPC_ROLE_UPSTREAM, IPC_ROLE_WRITER, on_message, on_gone, h);
}
