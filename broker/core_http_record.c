/*
 * Records of one HTTP exchange (process: core): the action before anything goes out, the outcome
 * before a change's answer is let go. A step that cannot be recorded refuses what it was for.
 */
#include "broker/core_http_data.h"

#include "broker/core_approve.h"
#include "broker/core_attempt.h"
#include "broker/core_data.h"
#include "broker/core_receipt.h"
#include "broker/core_run.h"
#include "broker/core_witness.h"
#include "common/httplease.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define MESSAGE_MAX 512

static bool
beyond(const struct core_http *h)
{
	return (h->a->effects & ~EFFECT_SET_DATA) != 0;
}

static void
answer_end(struct core_http *h)
{
	core_http_answer_send(h);
	core_http_free(h);
}

static void
unrecorded(struct core_http *h)
{
	if (h->unwitnessed != NULL)
		core_http_answer_simple(h, 503, "unwitnessed", h->unwitnessed);
	else
		core_http_answer_simple(h, 503, "log_unavailable",
		    "the decision log is not available: nothing passes unrecorded");
	answer_end(h);
}

/* --- the action ------------------------------------------------------------------ */

static void
send(struct core_http *h)
{
	struct core_run *run = h->from.run;
	struct err err;

	if (core_http_look_bind_body(h, &err) == 0 && core_http_lease(h, &err) == 0) {
		h->phase = CORE_HTTP_SENT;
		h->sent_us = clock_boot_us();
		if (h->view.upgrade)
			core_http_stream_begin(h);
		else
			core_http_drop(h);
		return;
	}
	log_warn("action %s is not sent: %s", h->a->id, err.msg);
	core_record_not_sent(run->core, run->id, h->a->id, h->a->seq);
	core_http_answer_simple(h, 503, "unavailable", err.msg);
	answer_end(h);
}

static void
recorded(struct core_http *h)
{
	if (h->failed) {
		unrecorded(h);
		return;
	}
	if (h->a->d.verdict != VERDICT_ALLOW) {
		core_decide_remember(h->from.run, str_z(core_from_target(&h->from)), h->a);
		answer_end(h);
		return;
	}
	if (core_witness_needed(h->from.run->core, h->a->effects) != 0 &&
	    !core_decide_holds(&h->from, h->a)) {
		core_record_not_sent(h->from.run->core, h->from.run->id, h->a->id, h->a->seq);
		core_http_answer_simple(h, 503, "send_again",
		    "while witnesses were waited for it has ceased to be allowed: send it again to "
		    "be told why");
		answer_end(h);
		return;
	}
	send(h);
}

static void
one_ack(struct core_http *h, int code)
{
	h->waiting--;
	if (code != 0)
		h->failed = true;
	if (h->waiting == 0)
		recorded(h);
}

static void
action_acked(void *arg, const struct core_ack *ack)
{
	struct core_http *h = arg;

	h->ticket = NULL;
	h->a->seq = ack->seq;
	h->a->receipt = core_receipt_of(ack);
	if (ack->why != NULL)
		h->unwitnessed = xstrdup(ack->why);
	one_ack(h, ack->code);
}

static void
request_acked(void *arg, const struct core_ack *ack)
{
	struct core_http *h = arg;

	h->request = NULL;
	one_ack(h, ack->code);
}

static void
action_append(struct core_http *h)
{
	struct core_run *run = h->from.run;
	bool allowed = h->a->d.verdict == VERDICT_ALLOW;
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX);
	AUTO_BUF struct buf frame = BUF(CORE_RECORD_FRAMES_MAX);
	struct core_append append = {.type = "action",
	    .run = run->id,
	    .data = &data,
	    .frame = &frame,
	    .show = str_z(h->a->show),
	    .dispatched = allowed ? h->a->id : NULL,
	    .fn = action_acked,
	    .arg = h};
	struct blob_ref head;
	struct err err;

	if (allowed)
		core_witness_ask(run->core, h->a->effects, &append);
	if (core_http_head(h, &frame, &head, &err) != 0) {
		log_error("action %s: %s", h->a->id, err.msg);
		h->failed = true;
		return;
	}
	core_data_action(&data, &(struct core_data_action){.a = h->a,
				    .from = &h->from,
				    .kind = h->act == 0 ? "connect" : "request",
				    .head = &head,
				    .sent = allowed ? &h->sent : NULL,
				    .witnesses = append.witnesses,
				    .http = h});
	h->ticket = core_record(run->core, &append);
	if (h->ticket == NULL)
		h->failed = true;
	else
		h->waiting++;
}

static void
request_append(struct core_http *h)
{
	struct core_request *rq = h->a->request;

	if (!h->a->request_new)
		return;
	if (h->failed) {
		core_approve_state(rq, CORE_RQ_VOID, "not_recorded");
	} else if (core_approve_record(rq, request_acked, h)) {
		h->request = rq;
		h->waiting++;
	} else {
		h->failed = true;
	}
}

void
core_http_record(struct core_http *h)
{
	h->phase = CORE_HTTP_RECORD;
	if (h->req != NULL)
		h->sent =
		    http_lease_hash(h->req->method, buf_str(&h->target), h->fields, h->nfields);
	if (!h->failed)
		action_append(h);
	request_append(h);
	if (h->failed)
		unrecorded(h); /* what was appended is not_sent when its ack comes */
}

/* --- the outcome ----------------------------------------------------------------- */

/* Nothing of an answer went to front: this is one. */
static void
answer_failed(struct core_http *h, const struct core_http_done *d)
{
	AUTO_FREE char *differs =
	    xasprintf("the body is not as the request says: it was not sent whole (%.*s)",
		d->message.n < MESSAGE_MAX ? (int)d->message.n : MESSAGE_MAX, d->message.p);
	AUTO_FREE char *why = xasprintf("%s: %.*s",
	    d->status == 5 ? "the server was not reached, nothing was sent"
			   : "the server gave no whole answer, the request may have reached it",
	    d->message.n < MESSAGE_MAX ? (int)d->message.n : MESSAGE_MAX, d->message.p);

	if (d->status == 4 && h->aws != NULL && !h->bound)
		core_http_answer_simple(h, 400, "body_differs", differs);
	else if (d->status == 4)
		core_http_answer_simple(h, 400, "body_differs",
		    "the body is not the one that was approved: it was not sent whole");
	else if (d->message.n != 0 && memmem(d->message.p, d->message.n, "timed out", 9) != NULL)
		core_http_answer_simple(h, 504, "upstream_timeout", why);
	else
		core_http_answer_simple(h, 502, "upstream_failed", why);
}

static bool
is_failed(uint8_t status)
{
	return status == 2 || status == 4 || status == 5;
}

static void
finished(struct core_http *h, int code)
{
	AUTO_BUF struct buf b = BUF(64);
	const struct core *c = h->from.run->core;

	buf_u64(&b, h->from.id);
	buf_u64(&b, h->act);
	if (h->failed || (code != 0 && beyond(h))) {
		if (!h->gone)
			core_send(c->front, MSG_H_ABORT, &b);
	} else if (is_failed(h->done)) {
		core_http_answer_send(h);
	} else if (!h->gone) {
		core_send(c->front, MSG_H_DONE, &b);
	}
	core_http_free(h);
}

static void
outcome_acked(void *arg, const struct core_ack *ack)
{
	struct core_http *h = arg;

	h->ticket = NULL;
	finished(h, ack->code);
}

/* A sealed answer is the run's own, and only where one was wanted. */
static const struct blob_ref *
answer_ref(const struct core_http *h, const struct core_http_done *d, struct blob_ref *ref)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct err err;

	if (d->blob.n == 0)
		return NULL;
	if (!core_http_seals(h) || json_parse(d->blob, "answer", &doc, &err) != 0 ||
	    blob_ref_parse(json_root(doc), ref, &err) != 0 ||
	    strcmp(ref->kid, h->from.run->id) != 0) {
		log_warn(
		    "action %s: upstream names a sealed answer that it was not to keep", h->a->id);
		return NULL;
	}
	return ref;
}

/* A read's answer goes with its outcome on the way; a change's waits until that is durable. */
static void
outcome(struct core_http *h, struct core_http_done *d)
{
	struct core_run *run = h->from.run;
	AUTO_BUF struct buf b = BUF(CORE_RECORD_DATA_MAX);
	struct blob_ref ref;
	bool stream;

	d->answer = answer_ref(h, d, &ref);
	h->phase = CORE_HTTP_OUTCOME;
	h->done = d->status;
	if (is_failed(d->status))
		answer_failed(h, d);
	core_http_data_outcome(h, d, &b);
	stream = h->stream != NULL;
	core_http_stream_free(h);
	h->ticket = core_record(run->core, &(struct core_append){.type = "outcome",
					       .run = run->id,
					       .data = &b,
					       .outcome_of = h->a->id,
					       .fn = outcome_acked,
					       .arg = h});
	if (h->ticket == NULL || h->failed) {
		core_record_forget(h->ticket);
		h->ticket = NULL;
		finished(h, ERR_UNAVAILABLE);
	} else if (!beyond(h) && !is_failed(d->status) && run->core->live) {
		core_record_forget(h->ticket);
		h->ticket = NULL;
		finished(h, 0);
	}
	if (stream)
		core_run_stream_ended(run);
}

/* --- UH_DONE --------------------------------------------------------------------- */

static void
hash_read(struct rd *r, struct hash *ret)
{
	struct str s = rd_bytes(r, HASH_LEN);

	if (!r->bad)
		memcpy(ret->b, s.p, HASH_LEN);
}

static int
done_read(struct rd *r, struct core_http_done *d, struct err *err)
{
	*d = (struct core_http_done){.status = rd_u8(r), .http_status = 0};
	d->http_status = rd_u16(r);
	d->answer_bytes = rd_u64(r);
	hash_read(r, &d->answer_sha);
	d->body_bytes = rd_u64(r);
	hash_read(r, &d->body_sha);
	hash_read(r, &d->head);
	d->peer = rd_lstr(r);
	d->peer_cert = rd_lstr(r);
	d->reflected = rd_u32(r);
	d->ended = rd_u8(r);
	d->message = rd_lstr(r);
	d->blob = rd_lstr(r);
	if (!rd_end(r) || d->status < 1 || d->status > 5 || d->http_status > 999 ||
	    d->ended >= CORE_ENDED_COUNT)
		return err_set(err, ERR_PROTOCOL, "UH_DONE is malformed");
	return 0;
}

/* What went out must be what was leased: the head, and a body whose hash is known. */
static bool
as_leased(const struct core_http *h, const struct core_http_done *d)
{
	bool whole = d->status == 1 || d->status == 3;

	if (d->status == 5)
		return true;
	if (!hash_eq(&d->head, &h->sent))
		return false;
	/* Behind a 101 it is what the client sent, which nobody knows before. */
	if (h->view.upgrade)
		return true;
	return !whole || !h->have_sha || h->body == CORE_BODY_NONE || d->body_bytes < h->length ||
	       hash_eq(&d->body_sha, &h->sha);
}

int
core_http_on_done(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t conn = rd_u64(body), act = rd_u64(body);
	struct core_http *h = core_http_by_id(p->core, conn, act & ~CORE_LOOK_BIT);
	struct core_http_done d;
	bool right;
	int rc = done_read(body, &d, err);

	(void)fds;
	(void)nfds;
	if (rc != 0)
		return rc;
	if (act >= CORE_LOOK_BIT)
		return h != NULL ? core_http_look_done(h, &d, err) : 0;
	if (h == NULL || h->phase != CORE_HTTP_SENT)
		return 0; /* of an exchange that core has ended */
	right = as_leased(h, &d);
	h->failed = !right;
	outcome(h, &d);
	if (right)
		return 0;
	return err_set(err, ERR_TAMPER,
	    "connection %llu: upstream sent another request than was leased",
	    (unsigned long long)conn);
}
