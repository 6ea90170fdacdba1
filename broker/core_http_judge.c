/*
 * One HTTP request on its way to a verdict (process: core): what it does by its head, whether its
 * body must be read first, what the parser says of it, whether people must be asked. Whatever core
 * refuses for reasons of its own is expressed as an effect, so that the record replays.
 */
#include "broker/core_http.h"

#include <stdlib.h>

#include "broker/core_approve.h"
#include "broker/core_lift.h"
#include "broker/core_rate.h"
#include "broker/core_witness.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define SHOWN_MAX ((size_t)65536) /* an action larger than that is not put before people */

void
core_http_refuse(struct core_http *h, unsigned status, const char *title, const char *why)
{
	if (h->why != NULL)
		return;
	h->status = status;
	h->title = title;
	h->why = xstrdup(why);
}

/* --- the head -------------------------------------------------------------------- */

/* What common/http.h says of a fault, by its first words. */
static unsigned
fault_status(const char *fault)
{
	static const struct {
		const char *words;
		unsigned status;
	} faults[] = {
	    {"head: no end within", 431},
	    {"head: more than", 431},
	    {"a transfer coding other", 501},
	    {"an expectation other", 417},
	};

	if (strncmp(fault, "target: ", 8) == 0 && strstr(fault, " bytes, limit") != NULL)
		return 414;
	for (size_t i = 0; i < ARRAY_LEN(faults); i++)
		if (strncmp(fault, faults[i].words, strlen(faults[i].words)) == 0)
			return faults[i].status;
	return 400;
}

static void
read_fault(struct core_http *h, const char *why)
{
	effects_http_fault(http_method_claim(buf_str(&h->head)), &h->view);
	core_http_refuse(h, fault_status(why), "invalid_request", why);
}

static void
read_connect(struct core_http *h)
{
	h->view = (struct http_view){.effects = EFFECT_net, .statements = 1};
	if (h->host[0] == '\0' || h->port == 0)
		core_http_refuse(h, 400, "invalid_request",
		    "CONNECT needs a host name and a port from 1 to 65535");
	else if (h->via != CORE_VIA_PROXY)
		core_http_refuse(h, 400, "invalid_request", "CONNECT is for the proxy only");
	else
		core_http_refuse(
		    h, 403, "denied", "no https target of this run has that host and port");
}

/* What front read must be what the head frames. */
static bool
body_fits(const struct core_http *h)
{
	switch (h->req->body) {
	case HTTP_BODY_NONE: return h->body == CORE_BODY_NONE;
	case HTTP_BODY_CHUNKED: return h->body == CORE_BODY_CHUNKED;
	case HTTP_BODY_LENGTH: return h->length == h->req->length && h->body != CORE_BODY_CHUNKED;
	case HTTP_BODY_CLOSE: return false;
	}
	return false;
}

/* Front has read it as well; that both read the same is not taken for granted. */
static void
read_request(struct core_http *h)
{
	struct err err = {0};

	if (h->fault != NULL) {
		read_fault(h, h->fault);
		return;
	}
	h->req = xcalloc(1, sizeof(*h->req));
	h->well_formed = http_request_parse(buf_str(&h->head), h->req, &err) == 0 &&
			 (h->req->form == HTTP_ORIGIN || h->req->form == HTTP_ASTERISK) &&
			 body_fits(h);
	if (h->well_formed)
		return;
	if (err.code == 0)
		(void)err_set(
		    &err, ERR_SYNTAX, "the target is not a path, or the body not as the head says");
	free(h->req);
	h->req = NULL;
	read_fault(h, err.msg);
}

static uint64_t
body_limit(const struct policy_target *t)
{
	return t != NULL && t->max_body != 0 ? t->max_body : CORE_HTTP_BODY_MAX;
}

static void
read_head(struct core_http *h)
{
	const struct policy_target *t;

	if (h->act == 0)
		read_connect(h);
	else
		read_request(h);
	core_http_find(h);
	if (h->req == NULL)
		return;
	t = core_http_policy(h);
	effects_http(t, h->req, &h->view);
	core_http_scan(h);
	if (h->length > body_limit(t))
		core_http_refuse(h, 413, "body_too_large",
		    "the body is larger than the policy lets pass to this target");
}

/* --- the body -------------------------------------------------------------------- */

static bool
wants_body(const struct core_http *h)
{
	return h->view.body_wanted || h->model;
}

static uint64_t
judged_limit(const struct core_http *h)
{
	return h->model ? CORE_HTTP_MODEL_MAX : http_api_body_max(h->view.api);
}

static bool
need(struct core_http *h, uint8_t how, uint64_t most)
{
	AUTO_BUF struct buf b = BUF(64);

	if (how != 2 &&
	    !core_http_hold(h, how == 1 && h->body == CORE_BODY_LENGTH ? h->length : most)) {
		core_http_refuse(h, 503, "too_many_bodies",
		    "the run has as many bytes of bodies under judgement as it may");
		return false;
	}
	h->phase = CORE_HTTP_BODY;
	h->needed = how;
	buf_u64(&b, h->from.id);
	buf_u64(&b, h->act);
	buf_u8(&b, how);
	buf_u64(&b, most);
	core_send(h->from.run->core->front, MSG_H_NEED, &b);
	return true;
}

static const struct core_txn no_txn = {.state = 'I'};

/* What stands in a place where a secret was found is not told in clear. */
static void
fill(const struct core_http *h, const struct http_view *v, struct core_action *a)
{
	a->effects = v->effects != 0 ? v->effects : EFFECT_opaque;
	a->statements = v->statements;
	a->deferred = v->deferred;
	if (h->found.what == CORE_FOUND_NONE)
		a->nrels = resources_list(&v->resources, a->rels);
}

enum verdict
core_http_verdict(const struct core_http *h, const struct http_view *view)
{
	struct core_run *run = h->from.run;
	AUTO_FREE struct decision *d = xcalloc(1, sizeof(*d));
	AUTO_FREE struct core_action *a = xcalloc(1, sizeof(*a));
	struct policy_input in;

	if (run->core->policy == NULL)
		return VERDICT_DENY;
	fill(h, view, a);
	a->now = core_now(run->core);
	core_decide_beside(&h->from, a, &no_txn);
	in = core_decide_input(run, str_z(core_from_target(&h->from)), a);
	core_rate_fill(run->core, &in, a);
	in.nrates = a->nrates;
	policy_judge(run->core->policy, &in, NULL, 0, d);
	core_lift_beside_free(a->beside);
	return d->verdict;
}

static enum verdict
verdict_now(const struct core_http *h)
{
	return core_http_verdict(h, &h->view);
}

/* False: the body is not needed, or has come. */
static bool
body_asked(struct core_http *h)
{
	uint64_t most = judged_limit(h);

	if (h->why != NULL || h->in_hand || h->start || !wants_body(h))
		return false;
	if (h->view.fault != NULL)
		return false;
	if (!h->view.anew && verdict_now(h) == VERDICT_DENY)
		return false;
	if (h->view.start_wanted)
		return need(h, 3, most);
	if (h->length > most) {
		core_http_refuse(h, 413, "body_too_large",
		    "the body is larger than one that the broker can judge");
		return false;
	}
	return need(h, 1, most);
}

/* --- facts ----------------------------------------------------------------------- */

static void
facts_settled(void *arg)
{
	struct core_http *h = arg;

	h->ask = NULL;
	core_http_step(h);
}

static void
ask_body(struct core_http *h, uint8_t dialect)
{
	const struct http_field *f =
	    http_field_find(h->req->fields, h->req->nfields, "Content-Type");
	AUTO_FD int own = -1;
	struct err err;

	h->facts = core_facts_new_http(dialect);
	if (h->fd < 0 && core_http_body_memfd(h->bytes, &own, &err) != 0) {
		core_facts_fail(h->facts, CORE_FACTS_LOST, err.msg);
		return;
	}
	h->ask = core_facts_ask_body(h->from.run, h->facts, f != NULL ? f->value : STR(""),
	    h->fd >= 0 ? h->fd : own, h->bytes.n, facts_settled, h);
}

/* False: nothing has facts, or they have come. */
static bool
facts_asked(struct core_http *h)
{
	uint8_t dialect = http_api_dialect(h->view.api);

	if (h->ask != NULL)
		return true;
	if (h->why != NULL || h->view.fault != NULL || h->facts != NULL || dialect == 0)
		return false;
	if (h->view.body_wanted && !h->in_hand && !h->start)
		return false;
	if (h->view.body_wanted) {
		ask_body(h, dialect);
	} else if (h->view.query_wanted) {
		h->facts = core_facts_new_http(dialect);
		h->ask = core_facts_ask(h->from.run, h->facts, h->req->query, facts_settled, h);
	}
	if (h->ask != NULL)
		h->phase = CORE_HTTP_FACTS;
	return h->ask != NULL;
}

static void
facts_fold(struct core_http *h)
{
	struct core_facts *f = h->facts;

	if (f == NULL || h->folded)
		return;
	h->folded = true;
	if (f->status == CORE_FACTS_OK)
		effects_http_body(core_http_policy(h), h->view.api, json_root(f->doc), &h->view);
	else
		effects_http_body_fault(f->why, &h->view);
}

/* --- people ---------------------------------------------------------------------- */

/* Is this what people were asked about, if its body has the hash that theirs had? */
static bool
bind_asked(struct core_http *h)
{
	const struct core_request *rq = NULL;
	uint64_t length = h->length;

	TAILQ_FOREACH (rq, &h->from.run->requests, link) {
		struct digest_parts parts;
		struct hash digest;

		if (!core_request_open(rq) || !rq->body ||
		    (h->body == CORE_BODY_LENGTH && rq->body_bytes != length))
			continue;
		h->sha = rq->body_sha256;
		h->length = rq->body_bytes;
		h->have_sha = h->bound = true;
		digest = core_http_digest(h, &parts);
		if (hash_eq(&digest, &rq->action))
			return true;
		h->have_sha = h->bound = false;
	}
	h->length = length;
	return false;
}

/* Upstream signs its hash, before it sends the first byte. */
static bool
body_asked_to_sign(struct core_http *h)
{
	if (h->why != NULL || h->in_hand || h->have_sha || !core_http_aws_wants_body(h) ||
	    verdict_now(h) != VERDICT_ALLOW)
		return false;
	if (h->length <= CORE_HTTP_SHOWN_MAX)
		return need(h, 1, CORE_HTTP_SHOWN_MAX);
	core_http_refuse(h, 413, "body_too_large",
	    "a body of over 8388608 bytes is signed only if X-Amz-Content-Sha256 says its hash");
	return false;
}

/* People approve a body, so core must know which; false: known, or nobody is to be asked. */
static bool
body_asked_for_people(struct core_http *h)
{
	bool large = h->length > CORE_HTTP_SHOWN_MAX;
	uint64_t most = large ? h->length : body_limit(core_http_policy(h));

	if (h->why != NULL || h->in_hand || h->have_sha || core_http_by_facts(h))
		return false;
	if (verdict_now(h) != VERDICT_NEEDS_APPROVAL || bind_asked(h))
		return false;
	if (!large && most > CORE_HTTP_SHOWN_MAX)
		most = CORE_HTTP_SHOWN_MAX;
	if (large && h->aws != NULL && h->aws->payload == CORE_AWS_CHUNKED) {
		core_http_refuse(h, 501, "signature_unsupported",
		    "people would be asked about a body of over 8388608 bytes in signed chunks "
		    "(STREAMING-AWS4-HMAC-SHA256-PAYLOAD), which has another hash at each try: "
		    "send it with UNSIGNED-PAYLOAD or with its hash");
		return false;
	}
	return need(h, large ? 2 : 1, most);
}

/* --- the verdict ----------------------------------------------------------------- */

static void
refuse_late(struct core_http *h, unsigned status, const char *title, const char *why)
{
	core_http_refuse(h, status, title, why);
	core_decide_refuse(&h->from, h->a, &no_txn, "42501", h->why);
}

/* Said before an approval is used up, where it is known that it would be for nothing. */
static void
unwitnessed(struct core_http *h)
{
	const struct core *c = h->from.run->core;
	AUTO_FREE char *why = NULL;

	if (h->a->d.verdict == VERDICT_ALLOW)
		why = core_witness_short(c, core_witness_needed(c, h->a->effects));
	if (why != NULL)
		refuse_late(h, 503, "unwitnessed", why);
}

static void
limits(struct core_http *h)
{
	struct core_action *a = h->a;

	if (a->d.verdict == VERDICT_NEEDS_APPROVAL && strlen(a->show) > SHOWN_MAX) {
		refuse_late(h, 413, "too_large_to_show",
		    "the request is over 65536 bytes as people would be shown it");
	}
	unwitnessed(h);
	if (a->d.verdict != VERDICT_ALLOW || !h->hashed)
		return;
	/* Allowed meanwhile; but its body is gone. */
	core_decide_unused(&h->from, a);
	if (a->d.verdict == VERDICT_ALLOW)
		refuse_late(h, 503, "send_again",
		    "the body was read only to be shown to people, who need not be asked any "
		    "more: send the request again");
}

/* People signed what the target showed them: it is to be so still. */
static void
hold(struct core_http *h)
{
	struct core_action *a = h->a;
	int differs = a->consume ? core_http_look_differs(h, a) : 0;

	if (differs == 0)
		return;
	if (differs < 0) {
		refuse_late(h, 503, "send_again",
		    "the target could not be looked at again, to see whether it is as people were "
		    "shown it: nothing was sent, the approval stays; send the request again");
		return;
	}
	core_approve_end(a->request, CORE_RQ_VOID, "preview_changed");
	a->consume = false;
	a->request = NULL;
	core_decide_judge(&h->from, a, &no_txn);
}

static void
decide(struct core_http *h)
{
	struct core_action *a = core_action_new(h->act == 0 ? CORE_OP_CONNECT : CORE_OP_HTTP);
	const struct core *c = h->from.run->core;

	h->a = a;
	if (h->next[0] != '\0')
		memcpy(a->id, h->next, sizeof(a->id));
	fill(h, &h->view, a);
	a->facts = h->facts != NULL ? core_facts_ref(h->facts) : NULL;
	a->refuse_why = h->view.fault; /* said only if it is refused */
	a->txn_state = 'I';
	a->show = core_http_show(h);
	a->digest = core_http_digest(h, &a->parts);
	if (c->policy != NULL)
		h->policy = *policy_digest(c->policy);
	if (h->why != NULL)
		core_decide_refuse(&h->from, a, &no_txn, "42501", h->why);
	else
		core_decide_judge(&h->from, a, &no_txn);
	hold(h);
	limits(h);
	core_decide_finish(&h->from, a);
	if (a->request_new && h->saw != NULL)
		a->request->preview = xstrdup(h->saw);
	core_decide_shown(&h->from, a);
	if (a->consume)
		core_http_look_bind(h);
	if (a->request_new && h->hashed) {
		a->request->body = true;
		a->request->body_bytes = h->length;
		a->request->body_sha256 = h->sha;
	}
	if (a->consume && !core_approve_consume(a->request, a->id))
		h->failed = true;
	if (a->d.verdict == VERDICT_ALLOW && !core_lift_use(h->from.run, a, &no_txn))
		h->failed = true;
	if (a->d.verdict != VERDICT_ALLOW)
		core_http_answer_decided(h);
}

void
core_http_step(struct core_http *h)
{
	if (h->from.credential == NULL)
		read_head(h);
	if (body_asked(h) || facts_asked(h))
		return;
	facts_fold(h);
	core_http_scan_body(h);
	core_http_aws_body(h);
	if (body_asked_to_sign(h) || body_asked_for_people(h) || core_http_look_begin(h))
		return;
	decide(h);
	core_http_record(h);
}
