/*
 * Refusals of HTTP requests as clients see them (process: core): problem+json (RFC 9457) with what
 * a person can act on, never a hint how to say the same in other words.
 */
#include "broker/core_http.h"

#include "broker/core_approve.h"
#include "broker/core_receipt.h"

#include "common/banned.h"

#define RETRY_APPROVAL_S "30"
#define RETRY_SOON_S "5"
#define TYPE_PREFIX "urn:cofferdam:problem:"

static void
put_type(struct jcs *j, const char *title)
{
	AUTO_BUF struct buf b = BUF(256);

	buf_printf(&b, TYPE_PREFIX "%s", title);
	jcs_str(j, "type", buf_str(&b));
}

/* --- by policy ------------------------------------------------------------------- */

static unsigned
status_of(const struct core_http *h)
{
	if (h->from.run->core->policy == NULL)
		return 503;
	if (h->status != 0)
		return h->status;
	return (h->a->effects & EFFECT_invalid) != 0 ? 400 : 403;
}

static const char *
title_of(const struct core_http *h)
{
	if (h->from.run->core->policy == NULL)
		return "no_policy";
	if (h->title != NULL)
		return h->title;
	if (h->a->d.verdict == VERDICT_NEEDS_APPROVAL)
		return "needs_approval";
	return (h->a->effects & EFFECT_invalid) != 0 ? "invalid_request" : "denied";
}

static void
put_found(struct jcs *j, const struct core_http *h)
{
	const struct core_found *f = &h->found;

	if (f->what != CORE_FOUND_SCOPE)
		return;
	jcs_open(j, "placeholder");
	if (f->bound != NULL) {
		jcs_z(j, "bound_to", f->bound);
		jcs_z(j, "credential", f->credential);
	}
	jcs_str_lossy(j, "place", str_z(f->place));
	jcs_z(j, "sent_to", h->from.address);
	jcs_close(j);
}

void
core_http_answer_decided(struct core_http *h)
{
	const struct core_action *a = h->a;
	const struct decision *d = &a->d;
	struct jcs j;

	h->status = status_of(h);
	h->title = title_of(h);
	buf_reset(&h->answer);
	jcs_init(&j, &h->answer);
	jcs_open(&j, NULL);
	jcs_z(&j, "action", a->id);
	if (d->calendar.n != 0)
		jcs_str(&j, "calendar", d->calendar);
	jcs_str_lossy(&j, "detail", str_z(a->message));
	effect_jcs(&j, "effects", a->effects);
	if (a->hint != NULL && a->hint[0] != '\0')
		jcs_z(&j, "how", a->hint);
	put_found(&j, h);
	h->receipt_at = h->answer.n;
	if (a->request != NULL)
		jcs_z(&j, "request", core_request_id(a->request));
	jcs_array(&j, "rules");
	for (size_t i = 0; i < d->nrules; i++)
		jcs_str(&j, NULL, d->rules[i]);
	jcs_array_end(&j);
	jcs_int(&j, "status", h->status);
	jcs_z(&j, "title", h->title);
	put_type(&j, h->title);
	jcs_time_known(&j, "until", d->until_us);
	jcs_z(&j, "verdict", verdict_name(d->verdict));
	jcs_close(&j);
}

/* --- for other reasons ----------------------------------------------------------- */

static void
simple_put(struct buf *b, const char *action, unsigned status, const char *title, struct str detail,
    size_t *ret_receipt_at)
{
	struct jcs j;

	jcs_init(&j, b);
	jcs_open(&j, NULL);
	if (action != NULL)
		jcs_z(&j, "action", action);
	jcs_str_lossy(&j, "detail", detail);
	*ret_receipt_at = b->n;
	jcs_int(&j, "status", status);
	jcs_z(&j, "title", title);
	put_type(&j, title);
	jcs_close(&j);
}

void
core_http_answer_simple(struct core_http *h, unsigned status, const char *title, const char *detail)
{
	h->status = status;
	h->title = title;
	buf_reset(&h->answer);
	/* One that is not on record has no name: whoever repeated it would be held to be lying. */
	simple_put(&h->answer, h->a != NULL && h->a->receipt.size != 0 ? h->a->id : NULL, status,
	    title, str_z(detail), &h->receipt_at);
}

/* --- H_REFUSED ------------------------------------------------------------------- */

static void
header(struct buf *b, const char *name, const char *value)
{
	buf_lz(b, name);
	buf_lz(b, value);
}

struct refusal {
	uint64_t conn, act;
	unsigned status;
	bool close;
	const char *retry; /* NULL: none */
	const char *type;
	struct str receipt; /* empty: none */
	struct str body;
};

static void
refused_send(struct core *c, const struct refusal *r)
{
	AUTO_BUF struct buf b = BUF(1 << 17);

	buf_u64(&b, r->conn);
	buf_u64(&b, r->act);
	buf_u16(&b, (uint16_t)r->status);
	buf_u8(&b, r->close ? 1 : 0);
	buf_u32(&b, 2U + (r->retry != NULL ? 1U : 0U) + (r->receipt.n != 0 ? 1U : 0U));
	header(&b, "Content-Type", r->type);
	header(&b, "Cache-Control", "no-store");
	if (r->retry != NULL)
		header(&b, "Retry-After", r->retry);
	if (r->receipt.n != 0) {
		buf_lz(&b, HTTP_RECEIPT);
		buf_lstr(&b, r->receipt);
	}
	buf_lstr(&b, r->body);
	core_send(c->front, MSG_H_REFUSED, &b);
}

/* The answer was written before its record was: its member goes to its place, by the order of
 * names. */
static void
with_receipt(const struct core_http *h, struct str receipt, struct buf *out)
{
	size_t at = receipt.n != 0 ? h->receipt_at : h->answer.n;

	buf_put(out, h->answer.p, at);
	if (receipt.n != 0) /* of a form that JSON has nothing to escape in */
		buf_printf(out, ",\"receipt\":\"%.*s\"", STR_ARG(receipt));
	buf_put(out, h->answer.p + at, h->answer.n - at);
}

void
core_http_answer_send(struct core_http *h)
{
	bool approval = h->a != NULL && h->a->request != NULL && h->status == 403;
	bool unread = h->body != CORE_BODY_NONE && core_http_streamed(h);

	AUTO_BUF struct buf native = BUF((size_t)1 << 16), receipt = BUF(RECEIPT_MAX);
	AUTO_BUF struct buf body = BUF(h->answer.max + RECEIPT_MAX + 16);
	unsigned status = h->status;
	const char *type;

	if (h->gone)
		return;
	if (h->a != NULL)
		core_receipt_put(h->from.run->core, &h->a->receipt, &receipt);
	with_receipt(h, buf_str(&receipt), &body);
	type = core_http_answer_native(h, &status, &native);
	refused_send(h->from.run->core,
	    &(struct refusal){.conn = h->from.id,
		.act = h->act,
		.status = type != NULL ? status : h->status,
		.type = type != NULL ? type : "application/problem+json",
		.close = unread || !h->well_formed || h->status == 421 || h->status == 413,
		.retry = approval	    ? RETRY_APPROVAL_S
			 : h->status == 503 ? RETRY_SOON_S
					    : NULL,
		.receipt = buf_str(&receipt),
		.body = type != NULL ? buf_str(&native) : buf_str(&body)});
}

void
core_http_answer_plain(struct core *c, uint64_t conn, uint64_t act, unsigned status,
    const char *title, const char *detail)
{
	AUTO_BUF struct buf b = BUF(4096);
	size_t at;

	simple_put(&b, NULL, status, title, str_z(detail), &at);
	refused_send(c, &(struct refusal){.conn = conn,
			    .act = act,
			    .status = status,
			    .close = true,
			    .retry = RETRY_SOON_S,
			    .type = "application/problem+json",
			    .body = buf_str(&b)});
}
