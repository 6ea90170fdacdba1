/*
 * A conversation with a model (process: cofferdam-agent): one request a turn, tried again by the
 * providers' rule. What the model writes is data: calls of our tools are read by their table,
 * everything else is words. What the broker refuses is not tried again.
 */
#include "agent/model_remote.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "agent/model_anthropic.h"
#include "agent/model_call.h"
#include "agent/model_openai.h"
#include "agent/model_remote_int.h"
#include "agent/model_responses.h"
#include "agent/model_retry.h"

#include "common/banned.h"

static const struct model_provider *const providers[] = {
    &model_anthropic, &model_openai, &model_responses};

#define CUT_NOTE                                                                                \
	STR("Your answer was cut off at the limit of its length; what was cut is lost. Go on, " \
	    "in smaller steps.")

static void
turn_drop(struct remote *r)
{
	for (size_t i = 0; i < r->ncalls; i++)
		model_call_drop(&r->calls[i], &r->args[i]);
	free(r->calls);
	free(r->args);
	r->calls = NULL;
	r->args = NULL;
	r->ncalls = 0;
	buf_reset(&r->words);
}

static void
remote_free(struct model *m)
{
	struct remote *r = (struct remote *)(void *)m;

	turn_drop(r);
	reply_free(&r->reply);
	model_talk_free(&r->talk);
	buf_free(&r->words);
	buf_free(&r->note);
	model_url_free(&r->url);
	free(r->name);
	free(r->task);
	free(r->system);
	free(r->path);
	free(r);
}

/* --- one request ----------------------------------------------------------------- */

struct stream {
	struct sse sse;
	struct reply *reply;
	sse_event_fn *event;
};

static int
stream_take(void *arg, struct str bytes, struct err *err)
{
	struct stream *s = arg;

	return sse_feed(&s->sse, bytes, s->event, s->reply, err);
}

/* What is to be done about a try that failed; the error says why it did. */
enum next_step { STEP_FINAL = 0, STEP_AGAIN };

/* Each server has its own way to say that a conversation does not fit its model. */
static bool
says_full(const char *type, const char *text)
{
	static const char *const words[] = {"context_length_exceeded", "exceed_context_size",
	    "prompt is too long", "maximum context length", "context window", "context size"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if ((type != NULL && strstr(type, words[i]) != NULL) ||
		    (text != NULL && strstr(text, words[i]) != NULL))
			return true;
	return false;
}

static enum next_step
status_error(struct remote *r, const struct model_http_answer *a, struct err *err)
{
	AUTO_FREE char *type = NULL, *text = NULL, *what = NULL;
	const struct http_field *f =
	    http_field_find(a->head.fields, a->head.nfields, "content-type");
	bool final = false;

	/* problem+json is the broker's own form (RFC 9457). */
	if (f != NULL && str_has_prefix(f->value, "application/problem+json")) {
		what = model_problem_text(buf_str(&a->body));
		(void)err_set(
		    err, ERR_DENIED, "the broker says: HTTP %u: %s", a->head.status, what);
	} else if (r->provider->error(buf_str(&a->body), &type, &text, &final)) {
		r->full = says_full(type, text);
		(void)err_set(err, ERR_UPSTREAM, "%s: HTTP %u %s: %s", r->model.name,
		    a->head.status, type != NULL ? type : "", text != NULL ? text : "");
	} else {
		what = log_vis(
		    (struct str){(const char *)a->body.p, a->body.n < 500 ? a->body.n : 500});
		(void)err_set(
		    err, ERR_UPSTREAM, "%s: HTTP %u: %s", r->model.name, a->head.status, what);
	}
	return !final && model_retry_is_due(&a->head) ? STEP_AGAIN : STEP_FINAL;
}

/* An error event stands for the status that it would have been, had it come earlier. */
static enum next_step
stream_error(struct remote *r, struct err *err)
{
	static const char *const passing[] = {
	    "overloaded_error", "rate_limit_error", "api_error", "timeout_error", "server_error"};

	(void)err_set(err, ERR_UPSTREAM, "%s: %s: %s", r->model.name, r->reply.error_type,
	    r->reply.error_text);
	r->full = says_full(r->reply.error_type, r->reply.error_text);
	for (size_t i = 0; i < ARRAY_LEN(passing); i++)
		if (strcmp(r->reply.error_type, passing[i]) == 0)
			return STEP_AGAIN;
	return STEP_FINAL;
}

static enum next_step
judge(struct remote *r, int rc, const struct model_http_answer *a, struct err *err)
{
	if (rc == ERR_UNAVAILABLE)
		return STEP_AGAIN;
	if (rc != 0)
		return STEP_FINAL;
	if (a->head.status != 200)
		return status_error(r, a, err);
	if (!a->streamed) {
		(void)err_set(err, ERR_UPSTREAM,
		    "%s: the answer is no event stream: does the server stream?", r->model.name);
		return STEP_FINAL;
	}
	if (r->reply.error_type != NULL)
		return stream_error(r, err);
	(void)err_set(err, ERR_UPSTREAM, "%s: the stream ended in the middle", r->model.name);
	return STEP_AGAIN;
}

static bool
is_whole(const struct remote *r, int rc, const struct model_http_answer *a)
{
	return rc == 0 && a->head.status == 200 && a->streamed && r->reply.error_type == NULL &&
	       (r->reply.ended || r->reply.stop != REPLY_OPEN);
}

static int
try_once(struct remote *r, struct str body, uint64_t until_us, struct model_http_answer *a,
    struct err *err)
{
	struct stream s = {.reply = &r->reply, .event = r->provider->event};
	struct model_post p = {.host = str_z(r->url.authority),
	    .path = str_z(r->path),
	    .fields = r->provider->fields,
	    .nfields = r->provider->nfields,
	    .body = body,
	    .until_us = until_us,
	    .stream = stream_take,
	    .stream_arg = &s};
	int rc;

	reply_free(&r->reply);
	sse_init(&s.sse);
	rc = model_http_post(&r->http, &p, a, err);
	sse_free(&s.sse);
	return rc;
}

static int
pause_before_retry(struct remote *r, const struct http_response *head, unsigned n,
    uint64_t until_us, struct err *err)
{
	uint64_t now = clock_boot_us();
	uint32_t chance, ms;

	rand_bytes(&chance, sizeof(chance));
	ms = model_retry_wait_ms(
	    head->status != 0 ? head : NULL, n, chance, clock_wall_us() / 1000000);
	if (until_us < now || (until_us - now) / 1000 <= ms)
		return err_wrap(err, "no time for another try in %u.%03u s", ms / 1000, ms % 1000);
	log_warn("%s; again in %u.%03u s", err->msg, ms / 1000, ms % 1000);
	return model_http_wait(&r->http, ms, until_us, err);
}

int
remote_send(struct remote *r, uint64_t until_us, struct err *err)
{
	AUTO_BUF struct buf body = BUF(MODEL_REQUEST_MAX);
	int rc;

	r->provider->request(&r->talk, &body);
	if (buf_over(&body))
		return err_set(
		    err, ERR_TOO_LARGE, "the conversation is over %zu bytes", MODEL_REQUEST_MAX);
	r->asked = body.n;
	r->full = false;
	for (unsigned n = 0;; n++) {
		AUTO_ANSWER struct model_http_answer a = {0};

		rc = try_once(r, buf_str(&body), until_us, &a, err);
		if (is_whole(r, rc, &a))
			return 0;
		if (judge(r, rc, &a, err) == STEP_FINAL || n >= r->retries)
			return err->code;
		if ((rc = pause_before_retry(r, &a.head, n, until_us, err)) != 0)
			return rc;
	}
}

/* --- the answer ------------------------------------------------------------------ */

static void
turn_read(struct remote *r)
{
	for (size_t i = 0; i < r->reply.n; i++) {
		const struct reply_block *b = &r->reply.blocks[i];

		if (b->kind == REPLY_TEXT) {
			if (r->words.n != 0)
				buf_put_c(&r->words, '\n');
			buf_put_str(&r->words, buf_str(&b->text));
		}
		if (b->kind != REPLY_TOOL)
			continue;
		r->calls = xreallocarray(r->calls, r->ncalls + 1, sizeof(*r->calls));
		r->args = xreallocarray(r->args, r->ncalls + 1, sizeof(struct json_doc *));
		r->args[r->ncalls] = NULL;
		model_call_read(
		    str_z(b->name), buf_str(&b->text), &r->calls[r->ncalls], &r->args[r->ncalls]);
		r->ncalls++;
	}
}

/* More than any turn has; sums of many turns still are numbers of the record's. */
#define TOKENS_MAX (UINT64_C(1) << 36)

static uint64_t
counted(uint64_t said)
{
	return said < TOKENS_MAX ? said : TOKENS_MAX;
}

/* A server that does not count is held to a budget by an estimate that is rather too high. */
void
remote_usage(const struct remote *r, struct model_turn *ret)
{
	const struct reply *p = &r->reply;
	uint64_t rest;

	ret->tokens_in = p->usage ? counted(p->tokens_in) : r->asked / 3 + 1;
	ret->tokens_out = p->usage ? counted(p->tokens_out) : p->bytes / 3 + 1;
	ret->cache_read = p->cache_read < ret->tokens_in ? p->cache_read : ret->tokens_in;
	rest = ret->tokens_in - ret->cache_read;
	ret->cache_write = p->cache_write < rest ? p->cache_write : rest;
}

static int
stop_read(struct remote *r, struct model_turn *ret, struct err *err)
{
	AUTO_FREE char *words = log_vis(buf_str(&r->words));

	switch (r->reply.stop) {
	case REPLY_REFUSED:
		return err_set(err, ERR_DENIED, "%s refuses to go on%s%s", r->model.name,
		    words[0] != '\0' ? ": " : "", words);
	case REPLY_FULL:
		return err_set(err, ERR_TOO_LARGE,
		    "the conversation is larger than the context of %s", r->model.name);
	case REPLY_LENGTH: buf_put_str(&r->note, CUT_NOTE); break;
	case REPLY_OPEN:
	case REPLY_END:
	case REPLY_CALLS: ret->done = r->ncalls == 0; break;
	case REPLY_PAUSE: break;
	}
	return 0;
}

/* --- the conversation ------------------------------------------------------------ */

/* What the model asked for is answered, all of it; an answer that paused is sent back as it is. */
static void
ask_add(struct remote *r, const struct model_ask *ask)
{
	if (ask->note.n != 0) {
		if (r->note.n != 0)
			buf_put_c(&r->note, '\n');
		buf_put_str(&r->note, ask->note);
	}
	if (r->shortened && ask->nanswers == 0 && r->note.n == 0)
		return; /* it was said before room was made */
	if (!r->begun) {
		AUTO_BUF struct buf task = BUF(JSON_SIZE_MAX);

		buf_printf(&task, "%s%s%.*s", r->task, r->note.n != 0 ? "\n\n" : "",
		    STR_ARG(buf_str(&r->note)));
		r->provider->task(&r->talk, buf_str(&task));
	} else if (ask->nanswers != 0 || r->note.n != 0)
		r->provider->answers(&r->talk, &r->reply, ask, buf_str(&r->note));
	r->begun = true;
	buf_reset(&r->note);
}

/* The answer as a turn; it becomes part of the conversation. */
static int
turn_take(struct remote *r, struct model_turn *ret, struct err *err)
{
	int rc;

	if (r->reply.stop == REPLY_LENGTH)
		reply_drop_halves(&r->reply);
	reply_name_calls(&r->reply);
	turn_read(r);
	*ret = (struct model_turn){
	    .words = buf_str(&r->words), .calls = r->calls, .ncalls = r->ncalls};
	remote_usage(r, ret);
	r->known = ret->tokens_in + ret->tokens_out;
	r->shortened = false;
	if ((rc = stop_read(r, ret, err)) != 0)
		return rc;
	r->provider->said(&r->talk, &r->reply);
	model_talk_said(&r->talk);
	return 0;
}

/* A model that says so itself is full in the same way as one whose provider refuses the request. */
static bool
is_full(const struct remote *r, int rc)
{
	return r->full || rc == ERR_TOO_LARGE || (rc == 0 && r->reply.stop == REPLY_FULL);
}

static int
remote_next(struct model *m, const struct model_ask *ask, struct model_turn *ret, struct err *err)
{
	struct remote *r = (struct remote *)(void *)m;
	struct err e = {0};
	int rc;

	if (ask->nanswers != r->ncalls)
		return err_set(
		    err, ERR_INTERNAL, "%zu answers to %zu calls", ask->nanswers, r->ncalls);
	ask_add(r, ask);
	turn_drop(r);
	*ret = (struct model_turn){0};
	if (remote_is_long(r) && !r->shortened && remote_compact(r, ask->until_us, ret))
		return 0;
	rc = remote_send(r, ask->until_us, &e);
	if (is_full(r, rc) && !r->shortened && remote_compact(r, ask->until_us, ret))
		return 0;
	return rc != 0 ? err_set(err, e.code, "%s", e.msg) : turn_take(r, ret, err);
}

static const struct model_provider *
provider_of(const char *model)
{
	for (size_t i = 0; i < ARRAY_LEN(providers); i++) {
		size_t n = strlen(providers[i]->name);

		if (strncmp(model, providers[i]->name, n) == 0 && model[n] == ':' &&
		    model[n + 1] != '\0')
			return providers[i];
	}
	return NULL;
}

int
model_remote_check(const char *model, const char *base_url, struct err *err)
{
	const struct model_provider *p = provider_of(model);
	__attribute__((cleanup(model_url_free))) struct model_url url = {0};

	if (p == NULL || !str_is_utf8(str_z(model)))
		return err_set(err, ERR_INVALID,
		    "--model must be anthropic:NAME, openai:NAME or openai-responses:NAME, is "
		    "\"%s\"",
		    model);
	return model_url_parse(base_url != NULL ? base_url : p->default_base, &url, err);
}

int
model_remote_open(const struct model_remote *c, struct model **ret, struct err *err)
{
	AUTO(model) struct model *m = NULL;
	AUTO_BUF struct buf path = BUF(4096);
	struct remote *r;
	int rc = model_remote_check(c->model, c->base_url, err);

	if (rc != 0)
		return rc;
	r = xcalloc(1, sizeof(*r));
	m = &r->model;
	r->provider = provider_of(c->model);
	r->name = xstrdup(c->model);
	r->task = xstrdup(c->task);
	r->system = xstrdup(c->system);
	r->model = (struct model){.name = r->name, .next = remote_next, .free = remote_free};
	r->http = c->http;
	r->retries = c->retries;
	r->words = BUF(JSON_SIZE_MAX);
	r->note = BUF(65536);
	model_talk_init(&r->talk);
	r->talk.model = r->name + strlen(r->provider->name) + 1;
	r->talk.system = r->system;
	r->talk.max_output = c->max_output;
	r->context = c->context != 0 ? c->context : r->provider->context;
	rc = model_url_parse(
	    c->base_url != NULL ? c->base_url : r->provider->default_base, &r->url, err);
	if (rc != 0)
		return rc;
	r->provider->path(r->url.path, &path);
	r->path = buf_dup_z(&path);
	*ret = TAKE_PTR(m);
	return 0;
}
