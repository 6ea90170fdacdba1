/*
 * Each webhook's way through the log. Runs in the courier. A webhook asks the writer for a piece of
 * the records it takes, delivers them one by one in their order, and asks again; what it has behind
 * it is its cursor. It must never pass over a record that it takes, but for one that nobody took
 * for as long as the operator said.
 */
#include "broker/courier.h"

#include <stdio.h>

#include "audit/record.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/proc.h"

#include "common/banned.h"

#define PIECE_MAX ((size_t)512 << 10)
#define BACK_OFF_MIN_MS 500
#define BACK_OFF_MAX_MS 60000
#define RETRY_AFTER_MAX_MS ((uint64_t)600000)
#define BEHIND_MS 5000 /* the log is shorter than what was seen of it: look again */

const char *const courier_syscalls[] = {"socket", "connect", "setsockopt", "getsockname",
    "getpeername", "openat", "fsync", "fdatasync", "renameat", "renameat2", "unlinkat", NULL};

static void step(struct hook *h);

/* --- what the writer is told --------------------------------------------------------------- */

static bool
carries_glass(const struct hook *h)
{
	return webhook_wants(h->conf, STR("breakglass.sign"));
}

static void
tell(struct hook *h)
{
	struct courier *c = h->c;
	AUTO_BUF struct buf b = BUF(1024);
	bool same = h->told_from == h->whole_from && h->told_through == h->next &&
		    strcmp(h->told_why, h->count.why) == 0;

	if (c->writer == NULL || !carries_glass(h) || same || h->next == COURIER_START ||
	    h->next > c->size)
		return;
	h->told_from = h->whole_from;
	h->told_through = h->next;
	(void)snprintf(h->told_why, sizeof(h->told_why), "%s", h->count.why);
	buf_lz(&b, h->conf->name);
	buf_u64(&b, h->whole_from);
	buf_u64(&b, h->next);
	buf_lz(&b, h->count.why);
	ipc_send(c->writer, MSG_W_TOOK, &b, NULL, 0);
}

/* The cursor moves: everything before it is dealt with. */
static void
advance(struct hook *h, uint64_t next)
{
	h->next = next;
	h->since_us = 0;
	h->tries = 0;
	tell(h);
	courier_save_soon(h->c);
	courier_status_soon(h->c);
}

/* --- asking ------------------------------------------------------------------------------------
 */

static void
ask(struct hook *h)
{
	const char *types[WEBHOOK_TYPES_MAX];
	size_t n = webhook_types(h->conf, types);
	AUTO_BUF struct buf b = BUF(8192);

	if (h->c->writer == NULL) {
		h->state = HOOK_IDLE; /* the next wire begins again */
		return;
	}
	h->state = HOOK_ASKED;
	buf_u32(&b, h->i);
	buf_u64(&b, h->next);
	buf_u32(&b, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		buf_lz(&b, types[i]);
	ipc_send(h->c->writer, MSG_W_ASK, &b, NULL, 0);
}

/* --- delivering ----------------------------------------------------------------------------------
 */

static void
try_now(struct hook *h)
{
	if (h->since_us == 0) {
		h->since_us = clock_wall_us();
		courier_save_soon(h->c);
	}
	h->state = HOOK_SENDING;
	h->tries++;
	courier_http_send(h);
}

static void
on_due(void *arg)
{
	struct hook *h = arg;

	h->timer = NULL;
	try_now(h);
}

static void
wait(struct hook *h, uint64_t ms)
{
	h->state = HOOK_WAITING;
	h->due_ms = loop_now_ms(h->c->loop) + ms;
	h->timer = loop_timer_add(h->c->loop, ms, on_due, h);
}

uint64_t
courier_back_off(unsigned tries, uint32_t random)
{
	uint64_t ms = BACK_OFF_MIN_MS;

	for (unsigned i = 1; i < tries && ms < BACK_OFF_MAX_MS; i++)
		ms *= 2;
	ms = ms < BACK_OFF_MAX_MS ? ms : BACK_OFF_MAX_MS;
	return ms / 2 + random % (ms / 2 + 1);
}

static void
give_up(struct hook *h)
{
	log_error("webhook %s: records %llu to %llu are given up after %u tries: %s", h->conf->name,
	    (unsigned long long)h->seq, (unsigned long long)h->through, h->tries, h->count.why);
	h->count.given_up += h->conf->otlp ? h->batch_n : 1;
	h->whole_from = h->through + 1;
	h->batch_max = UINT32_MAX;
	advance(h, h->through + 1);
}

static void
failed(struct hook *h, const char *why, uint64_t retry_after_ms)
{
	uint64_t ms,
	    most = retry_after_ms < RETRY_AFTER_MAX_MS ? retry_after_ms : RETRY_AFTER_MAX_MS;
	int64_t now = clock_wall_us();
	uint32_t r;

	if (h->count.why[0] == '\0')
		log_warn("webhook %s: %s", h->conf->name, why);
	h->count.failed++;
	h->count.failed_us = now;
	(void)snprintf(h->count.why, sizeof(h->count.why), "%s", why);
	tell(h);
	if (h->conf->otlp && courier_otlp_split(h)) {
		h->tries = 0;
		step(h);
		return;
	}
	if (h->conf->otlp ? courier_otlp_hopeless(h)
			  : now - h->since_us >= h->conf->retry_for_s * 1000000) {
		give_up(h);
		step(h);
		return;
	}
	rand_bytes(&r, sizeof(r));
	ms = courier_back_off(h->tries, r);
	wait(h, ms > most ? ms : most);
}

/* What the receiver refused of a request that it took: not sent again, as the protocol says. */
static void
partly(struct hook *h)
{
	uint64_t n = courier_otlp_refused(h, h->count.why);

	if (n == 0)
		return;
	log_error("webhook %s: of records %llu to %llu %llu were refused: %s", h->conf->name,
	    (unsigned long long)h->seq, (unsigned long long)h->through, (unsigned long long)n,
	    h->count.why);
	h->count.failed++;
	h->count.failed_us = h->count.delivered_us;
	h->count.delivered -= n < h->batch_n ? n : h->batch_n;
	h->count.given_up += n;
	h->whole_from = h->through + 1;
}

void
courier_delivered(struct hook *h, const char *why, uint64_t retry_after_ms)
{
	courier_status_soon(h->c);
	if (why[0] != '\0') {
		failed(h, why, retry_after_ms);
		return;
	}
	if (h->count.why[0] != '\0')
		log_info("webhook %s takes records again", h->conf->name);
	h->count.delivered += h->conf->otlp ? h->batch_n : 1;
	h->count.delivered_us = clock_wall_us();
	h->count.why[0] = '\0';
	if (h->conf->otlp)
		partly(h);
	if (h->batch_max < UINT32_MAX / 2)
		h->batch_max *= 2;
	advance(h, h->through + 1);
	step(h);
}

/* The next record of the piece. False: it is not a record, which the writer would not send. */
static bool
take_next(struct hook *h, struct err *err)
{
	struct courier_event e = {.origin = str_z(h->c->origin),
	    .link = str_z(h->conf->link != NULL ? h->conf->link : h->c->console),
	    .text = h->conf->text,
	    .slack = h->conf->slack};
	struct str body = rd_lstr(&h->at);
	struct record r;
	int rc = record_parse(body, &r, err);

	h->left--;
	if (rc == 0 && (r.seq < h->next || !webhook_wants(h->conf, r.type)))
		rc = err_set(err, ERR_PROTOCOL, "record %llu of type %.*s was not asked for",
		    (unsigned long long)r.seq, STR_ARG(r.type));
	buf_reset(&h->body);
	if (rc == 0)
		rc = courier_event_put(&e, body, &h->body, err);
	h->seq = h->through = rc == 0 ? r.seq : 0;
	return rc == 0;
}

static void
step(struct hook *h)
{
	struct err err = {0};

	if (h->left == 0) {
		buf_reset(&h->piece);
		if (h->piece_next > h->next)
			advance(h, h->piece_next);
		ask(h);
		return;
	}
	if (h->conf->otlp ? courier_otlp_put(h, &err) != 0 : !take_next(h, &err))
		fatal("the writer: %s", err.msg);
	try_now(h);
}

/* --- the wire
 * -------------------------------------------------------------------------------------- */

static int
piece_take(struct hook *h, uint64_t from, uint64_t next, uint32_t n, const struct rd *body,
    struct err *err)
{
	struct rd look = *body;

	for (uint32_t i = 0; i < n && !look.bad; i++)
		(void)rd_lstr(&look);
	if (!rd_end(&look) || next < from)
		return err_set(err, ERR_PROTOCOL, "malformed");
	buf_reset(&h->piece);
	buf_put(&h->piece, body->p, body->n);
	h->at = rd_init(buf_str(&h->piece));
	h->left = n;
	h->piece_next = next;
	return 0;
}

static void
on_behind(void *arg)
{
	struct hook *h = arg;

	h->timer = NULL;
	ask(h);
}

/* An older state of the log was put back, or another one: nothing may pass for what was sent. */
static void
log_is_shorter(struct hook *h)
{
	if (h->count.why[0] == '\0')
		log_error("webhook %s has been told of record %llu, and the log has %llu records: "
			  "an older state of it was put back",
		    h->conf->name, (unsigned long long)h->next - 1, (unsigned long long)h->c->size);
	(void)snprintf(h->count.why, sizeof(h->count.why),
	    "the log has %llu records, fewer than were seen (%llu): it was set back",
	    (unsigned long long)h->c->size, (unsigned long long)h->next);
	h->count.failed_us = clock_wall_us();
	courier_status_soon(h->c);
	h->state = HOOK_WAITING;
	h->due_ms = loop_now_ms(h->c->loop) + BEHIND_MS;
	h->timer = loop_timer_add(h->c->loop, BEHIND_MS, on_behind, h);
}

static int
on_some(struct courier *c, struct rd *body, struct err *err)
{
	uint32_t i = rd_u32(body), n;
	struct hook *h = &c->hooks[i % WEBHOOKS_MAX];
	uint64_t from = rd_u64(body), next = rd_u64(body);
	int rc;

	c->size = rd_u64(body);
	n = rd_u32(body);
	if (body->bad || i >= c->nhooks || h->state != HOOK_ASKED)
		return err_set(err, ERR_PROTOCOL, "not asked for, or malformed");
	if (h->next == COURIER_START)
		h->next = h->whole_from = from; /* it begins here */
	if (from < h->next)
		return err_set(err, ERR_PROTOCOL, "record %llu was asked for, not %llu",
		    (unsigned long long)h->next, (unsigned long long)from);
	rc = piece_take(h, from, next, n, body, err);
	if (rc != 0)
		return rc;
	courier_status_soon(c);
	if (h->next > c->size) {
		log_is_shorter(h);
		return 0;
	}
	if (from > h->next) {
		log_error("webhook %s: records %llu to %llu are not in the log any more",
		    h->conf->name, (unsigned long long)h->next, (unsigned long long)from - 1);
		h->count.given_up += from - h->next;
		h->whole_from = from;
		advance(h, from);
	}
	step(h);
	return 0;
}

static int
on_msg(void *arg, struct ipc *w UNUSED, uint16_t type, struct rd *body, int *fds UNUSED,
    size_t nfds UNUSED, struct err *err)
{
	int rc = type == MSG_W_SOME    ? on_some(arg, body, err)
		 : type == MSG_W_CARRY ? courier_witness_on_carry(arg, body, err)
				       : err_set(err, ERR_PROTOCOL, "not expected here");

	if (rc != 0)
		(void)err_wrap(err, "%s", ipc_msg_name(type));
	return rc;
}

static void
on_gone(void *arg, struct ipc *w, const char *why)
{
	struct courier *c = arg;

	log_info("the wire to the writer is gone: %s", why);
	ipc_free(w);
	c->writer = NULL;
	for (size_t i = 0; i < c->nhooks; i++)
		if (c->hooks[i].state == HOOK_ASKED)
			c->hooks[i].state = HOOK_IDLE;
	proc_wire_lost(IPC_ROLE_WRITER);
}

void
courier_wire(struct courier *c, int fd)
{
	ipc_free(c->writer);
	c->writer = ipc_new(c->loop, fd, IPC_ROLE_COURIER, IPC_ROLE_WRITER, on_msg, on_gone, c);
	for (size_t i = 0; i < c->nhooks; i++) {
		struct hook *h = &c->hooks[i];

		h->told_from = h->told_through = COURIER_START;
		if (h->state == HOOK_ASKED)
			h->state = HOOK_IDLE;
		if (h->state == HOOK_IDLE)
			ask(h); /* what a delivery is for is known: the others go on */
		else
			tell(h);
	}
}

void
courier_stop(struct courier *c)
{
	if (c->loaded)
		courier_save_now(c);
	loop_stop(c->loop, 0);
}
