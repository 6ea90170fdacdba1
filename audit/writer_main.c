/*
 * cofferdam-writer: the only process that writes the decision log and the only one that can sign
 * its heads. Takes records from core and sealed frames from upstream, and lets the courier read
 * along; all of them may be taken over, so it decides number, time, chain and batch itself and
 * checks the form of what it is handed. It must never acknowledge what is not durable, and never go
 * on after a failed write: it ends, and the next start reads the disk.
 */
#include <inttypes.h>
#include <poll.h>

#include "audit/writer_acks.h"
#include "audit/writer_follow.h"
#include "audit/live.h"
#include "audit/writer_start.h"
#include "audit/writer_store.h"
#include "audit/writer_tend.h"
#include "audit/writer_witness.h"
#include "common/log.h"
#include "common/proc.h"

#include "common/banned.h"

#define SOFTWARE "cofferdam-writer/1"
#define HEARTBEAT_MS 60000
#define SIGN_MS 1000		       /* while busy, a checkpoint at least this often */
#define DEFER_MAX 16		       /* turns that a batch waits for what is in the sockets */
#define FRAMES_HIGH ((size_t)16 << 20) /* synced without a batch, so that no more is held */

struct writer {
	struct loop *loop;
	struct start start;
	struct signer *signer;
	struct store *store;
	struct live *live;
	struct follow *follow;	     /* the courier reads along */
	struct witnesses *witnesses; /* NULL: the log has none */
	struct ipc *core;
	struct ipc *upstream, *last_upstream; /* last: of one that ended, not yet read to its end */
	struct tend *tend;
	struct acks acks;
	unsigned deferred;
	struct loop_timer *sign_timer;
	uint64_t last_ms; /* of the last record */
};

static const char *const syscalls[] = {"openat", "getdents64", "ftruncate", "fdatasync", "fsync",
    "renameat", "renameat2", "unlinkat", "mkdirat", "flock", "fallocate", "fchmod", "fstatfs",
    "faccessat", "faccessat2", "newfstatat", NULL};

/* --- start ----------------------------------------------------------------------------- */

static int
on_config(void *arg, const struct json *config, struct err *err)
{
	struct writer *w = arg;

	return start_config(&w->start, config, err);
}

static int
on_fd(void *arg, struct str name, int fd, struct err *err)
{
	struct writer *w = arg;

	if (w->store == NULL && start_fd(&w->start, name, fd))
		return 0;
	(void)close(fd);
	return err_set(err, ERR_PROTOCOL, "not expected here");
}

static int
on_go(void *arg, struct err *err)
{
	struct writer *w = arg;

	return start_go(&w->start, &w->signer, err);
}

static void
on_record(void *arg, const struct record *r, const struct tree_range *tree)
{
	struct writer *w = arg;

	live_record(w->live, r, tree);
	witnesses_record(w->witnesses, r);
}

static void
on_from(void *arg, const struct tree_range *tree)
{
	const struct writer *w = arg;

	witnesses_from(w->witnesses, tree);
}

static bool
on_save(void *arg, struct buf *out)
{
	const struct writer *w = arg;

	return live_save(w->live, out);
}

static bool
on_restore(void *arg, struct rd *in)
{
	struct writer *w = arg;

	if (live_restore(w->live, in))
		return true;
	live_free(w->live); /* half of it is nothing: then all records are told */
	w->live = live_new();
	return false;
}

/* --- batches --------------------------------------------------------------------------- */

static void __attribute__((noreturn)) die(const struct err *err)
{
	fatal("the decision log stops: %s", err->msg);
}

static void
send_acks(struct writer *w, bool checkpoint)
{
	if (w->core != NULL)
		acks_send(&w->acks, w->core, store_size(w->store), checkpoint);
}

static void
sign_now(struct writer *w, bool publish, bool urgent)
{
	struct err err = {0};

	if (store_checkpoint(w->store, &err) != 0 ||
	    (publish && store_publish(w->store, &err) != 0))
		die(&err);
	witnesses_signed(w->witnesses, urgent);
}

static void
on_sign_timer(void *arg)
{
	struct writer *w = arg;

	w->sign_timer = NULL;
	sign_now(w, true, false);
}

/* Sync what has come in, then let the answers go. */
static void
commit(struct writer *w)
{
	struct err err = {0};
	uint8_t asked = acks_flags(&w->acks);

	if (store_commit(w->store, &err) != 0)
		die(&err);
	send_acks(w, false);
	if (store_sign_due(w->store) || (asked & (ACK_CHECKPOINT | ACK_WITNESS)) != 0)
		sign_now(w, false, (asked & ACK_WITNESS) != 0);
	send_acks(w, true);
	if (w->acks.n != 0)
		w->last_ms = loop_now_ms(w->loop);
	w->acks.n = 0;
	w->deferred = 0;
	if (w->follow != NULL)
		follow_committed(w->follow);
	if (w->sign_timer == NULL)
		w->sign_timer = loop_timer_add(w->loop, SIGN_MS, on_sign_timer, w);
}

/*
 * Upstream sends a frame before it tells core, and core before it tells us: what is in upstream's
 * socket now belongs before this batch. What is in core's shares its sync. A flood cannot hold the
 * batch for ever.
 */
static bool
more_is_waiting(struct writer *w)
{
	const struct ipc *wire[] = {w->upstream, w->last_upstream, w->core};
	struct pollfd p[ARRAY_LEN(wire)];

	for (size_t i = 0; i < ARRAY_LEN(wire); i++)
		p[i] = (struct pollfd){wire[i] != NULL ? ipc_fd(wire[i]) : -1, POLLIN, 0};
	return w->deferred++ < DEFER_MAX && poll(p, ARRAY_LEN(p), 0) > 0;
}

static void
before_sleep(void *arg)
{
	struct writer *w = arg;

	if (w->store == NULL || store_pending(w->store) == 0 || more_is_waiting(w))
		return;
	commit(w);
}

static void
commit_signed(void *arg)
{
	commit(arg);
	sign_now(arg, true, false);
}

static void
heartbeat(void *arg)
{
	struct writer *w = arg;
	uint64_t idle = loop_now_ms(w->loop) - w->last_ms, seq;
	struct err err = {0};

	if (idle < HEARTBEAT_MS) {
		(void)loop_timer_add(w->loop, HEARTBEAT_MS - idle, heartbeat, w);
		return;
	}
	if (store_append(w->store, "log.heartbeat", STR("broker"), STR(""), STR("{}"), &seq, NULL,
		&err) != 0)
		die(&err);
	commit_signed(w);
	w->last_ms = loop_now_ms(w->loop);
	(void)loop_timer_add(w->loop, HEARTBEAT_MS, heartbeat, w);
}

/* --- wires ------------------------------------------------------------------------------- */

static int
take_frames(struct writer *w, struct rd *body, struct err *err)
{
	uint32_t n = rd_u32(body);
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < n && !body->bad; i++) {
		struct str frame = rd_lstr(body);

		if (!body->bad)
			r = store_blob(w->store, frame, err);
	}
	if (r == 0 && !rd_end(body))
		r = err_set(err, ERR_PROTOCOL, "malformed");
	return r;
}

static int
on_append(struct writer *w, struct rd *body, struct err *err)
{
	struct ack a = {.ticket = rd_u64(body), .flags = rd_u8(body)};
	struct str type = rd_lstr(body), src = rd_lstr(body), run = rd_lstr(body),
		   data = rd_lstr(body);
	AUTO_FREE char *type_z = str_dup(type);
	struct hash root;
	int r = take_frames(w, body, err);

	if (r == 0 && (a.flags & ~(ACK_CHECKPOINT | ACK_ROOT | ACK_WITNESS)) != 0)
		r = err_set(err, ERR_PROTOCOL, "flags %u", a.flags);
	/* Only this process says how the log itself fares. */
	if (r == 0 && (!record_type_ok(type) || str_has_prefix(type, "log.") ||
			  str_has_prefix(type, "clock.")))
		r = err_set(err, ERR_PROTOCOL, "type is the writer's own, or not of the form");
	if (r == 0)
		r = store_append(w->store, type_z, src, run, data, &a.seq,
		    (a.flags & ACK_ROOT) != 0 ? &root : NULL, err);
	if (r != 0)
		return r;
	if ((a.flags & ACK_ROOT) != 0)
		a.root = root;
	a.leaf = store_leaf(w->store);
	acks_add(&w->acks, &a);
	return 0;
}

/*
 * What core hands over in a wrong form is our own bug somewhere, and everything behind it waits for
 * an answer that cannot come: end, so that all wires are made anew and what was in flight is
 * refused.
 */
static int
on_core_msg(void *arg, struct ipc *wire UNUSED, uint16_t type, struct rd *body, int *fds UNUSED,
    size_t nfds UNUSED, struct err *err)
{
	int r = type == MSG_W_APPEND ? on_append(arg, body, err)
				     : err_set(err, ERR_PROTOCOL, "not expected here");

	if (r != 0)
		fatal("core: %s: %s", ipc_msg_name(type), err->msg);
	return 0;
}

static void
on_core_gone(void *arg, struct ipc *wire, const char *why)
{
	struct writer *w = arg;

	log_info("core is gone: %s", why);
	w->core = NULL;
	w->acks.n = 0; /* what it queued is written all the same */
	ipc_free(wire);
}

static int
on_upstream_msg(void *arg, struct ipc *wire UNUSED, uint16_t type UNUSED, struct rd *body,
    int *fds UNUSED, size_t nfds UNUSED, struct err *err)
{
	struct writer *w = arg;
	struct str frame = rd_lstr(body);
	int r;

	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "malformed");
	r = store_blob(w->store, frame, err);
	if (r == 0 && store_pending(w->store) > FRAMES_HIGH)
		commit(w);
	return r;
}

static void
on_upstream_gone(void *arg, struct ipc *wire, const char *why)
{
	struct writer *w = arg;

	log_info("upstream is gone: %s", why);
	if (wire == w->upstream)
		w->upstream = NULL;
	else
		w->last_upstream = NULL;
	ipc_free(wire);
}

static void
send_live(void *arg, struct str body, const struct hash *root)
{
	struct writer *w = arg;
	AUTO_BUF struct buf b = BUF((size_t)1 << 17);

	buf_lstr(&b, body);
	buf_put(&b, root->b, HASH_LEN);
	ipc_send(w->core, MSG_W_LIVE, &b, NULL, 0);
}

/* Only what is durable is told. */
static void
greet_core(struct writer *w)
{
	AUTO_BUF struct buf b = BUF(512), vkey = BUF(400);
	char time[32];

	if (store_pending(w->store) != 0)
		commit(w);
	live_each(w->live, send_live, w);
	store_last_time(w->store, time);
	vkey_put(&vkey, signer_vkey(w->signer));
	buf_u64(&b, store_size(w->store));
	buf_lz(&b, time);
	buf_lstr(&b, buf_str(&vkey));
	ipc_send(w->core, MSG_W_LIVE_END, &b, NULL, 0);
	follow_tell(w->follow);
	tend_tell(w->tend, w->core);
	witnesses_tell(w->witnesses);
}

static void
on_took(void *arg, const struct buf *body)
{
	const struct writer *w = arg;

	if (w->core != NULL)
		ipc_send(w->core, MSG_W_DELIVERED, body, NULL, 0);
}

/* The first use: wires come before serve(), but only once confined. */
static int
open_store(struct writer *w, struct err *err)
{
	bool handed = w->start.handover_note.n != 0;
	struct store_opts o = {.boot = w->start.boot,
	    .software = SOFTWARE,
	    .handover = handed ? &w->start.handover : NULL,
	    .handover_note = buf_str(&w->start.handover_note),
	    .witnesses = &w->start.witnesses,
	    .record = on_record,
	    .from = on_from,
	    .save = on_save,
	    .restore = on_restore,
	    .arg = w};
	int r;

	if (w->store != NULL)
		return 0;
	r = witnesses_open(
	    w->loop, w->start.logdir, &w->start.witnesses, &w->core, &w->witnesses, err);
	if (r == 0)
		r = store_open(w->start.logdir, w->signer, &o, &w->store, err);
	if (r != 0)
		return err_wrap(err, "decision log");
	w->follow = follow_new(w->loop, w->start.logdir, w->store, on_took, w, w->witnesses);
	witnesses_serve(w->witnesses, w->store, w->follow);
	return 0;
}

static int
on_wire(void *arg, enum ipc_role peer, struct str run UNUSED, int fd, struct err *err)
{
	struct writer *w = arg;
	int r = open_store(w, err);

	if (r == 0 && peer != IPC_ROLE_CORE && peer != IPC_ROLE_UPSTREAM &&
	    peer != IPC_ROLE_COURIER)
		r = err_set(err, ERR_PROTOCOL, "no wire to %s", ipc_role_name(peer));
	if (r != 0) {
		(void)close(fd);
		return r;
	}
	if (peer == IPC_ROLE_COURIER) {
		follow_wire(w->follow, fd);
		return 0;
	}
	if (peer == IPC_ROLE_UPSTREAM) {
		/* What the last one sent before it ended is read to its end. */
		ipc_free(w->last_upstream);
		w->last_upstream = w->upstream;
		w->upstream = ipc_new(
		    w->loop, fd, IPC_ROLE_WRITER, peer, on_upstream_msg, on_upstream_gone, w);
		return 0;
	}
	ipc_free(w->core);
	w->acks.n = 0;
	w->core = ipc_new(w->loop, fd, IPC_ROLE_WRITER, peer, on_core_msg, on_core_gone, w);
	ipc_lazy(w->core, true); /* the answers of a batch go together */
	greet_core(w);
	return 0;
}

static int
on_serve(void *arg, struct err *err)
{
	struct writer *w = arg;
	int r = open_store(w, err);

	if (r != 0)
		return r;
	w->last_ms = loop_now_ms(w->loop);
	(void)loop_timer_add(w->loop, HEARTBEAT_MS, heartbeat, w);
	loop_before_sleep(w->loop, before_sleep, w);
	w->tend = tend_new(w->loop, w->start.logdir, w->store, &w->core, commit_signed, w);
	if (store_adopted(w->store) != 0)
		log_warn("decision log %s: %" PRIu64
			 " records behind the newest checkpoint were adopted; a crash leaves such, "
			 "and so does whoever can write to the directory",
		    w->start.origin, store_adopted(w->store));
	log_info("decision log %s open at size %" PRIu64 ", %zu live records", w->start.origin,
	    store_size(w->store), live_count(w->live));
	return 0;
}

static void
on_stop(void *arg)
{
	struct writer *w = arg;
	struct err err = {0};

	if (store_pending(w->store) != 0)
		commit(w);
	if (store_close(w->store, &err) != 0)
		die(&err);
	if (w->core != NULL)
		ipc_lazy(w->core, false);
	loop_stop(w->loop, 0);
}

int
main(void)
{
	static const struct proc_ops ops = {
	    .self = IPC_ROLE_WRITER,
	    .name = "writer",
	    .config = on_config,
	    .fd = on_fd,
	    .wire = on_wire,
	    .go = on_go,
	    .serve = on_serve,
	    .stop = on_stop,
	    .syscalls = syscalls,
	};
	struct writer w = {.loop = loop_new(), .start = START_EMPTY, .live = live_new()};
	int rc = proc_main(&ops, w.loop, &w);

	ipc_free(w.core);
	ipc_free(w.upstream);
	ipc_free(w.last_upstream);
	follow_free(w.follow);
	tend_free(w.tend);
	witnesses_free(w.witnesses);
	store_free(w.store);
	signer_free(w.signer);
	live_free(w.live);
	free(w.acks.p);
	buf_free(&w.start.handover_note);
	loop_free(w.loop);
	return rc;
}
