/*
 * Fuzzes what reads a model's event stream. The first byte chooses the provider and the cut, the
 * rest is the stream. Any cut must give the same answer, and whatever was accepted must go back
 * as a request that is JSON.
 */
#include <assert.h>

#include "agent/model_anthropic.h"
#include "agent/model_openai.h"
#include "agent/model_responses.h"
#include "common/json.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
stream(const struct model_provider *p, struct str s, size_t step, struct reply *r)
{
	struct sse sse;
	struct err err = {0};
	int rc = 0;

	sse_init(&sse);
	reply_init(r);
	while (rc == 0 && s.n != 0) {
		size_t n = step < s.n ? step : s.n;

		rc = sse_feed(&sse, (struct str){s.p, n}, p->event, r, &err);
		s = (struct str){s.p + n, s.n - n};
	}
	assert(rc >= 0 || (err.code == rc && err.msg[0] != '\0'));
	sse_free(&sse);
	return rc;
}

static void
same(const struct reply *a, const struct reply *b)
{
	assert(a->n == b->n && a->stop == b->stop && a->ended == b->ended);
	assert(a->tokens_in == b->tokens_in && a->tokens_out == b->tokens_out);
	assert((a->error_type == NULL) == (b->error_type == NULL));
	for (size_t i = 0; i < a->n; i++) {
		assert(a->blocks[i].kind == b->blocks[i].kind);
		assert(str_eq(buf_str(&a->blocks[i].text), buf_str(&b->blocks[i].text)));
		assert(str_eq(buf_str(&a->blocks[i].signature), buf_str(&b->blocks[i].signature)));
	}
}

/* The next request, as the loop makes it. */
static void
say_back(const struct model_provider *p, struct reply *r)
{
	static const struct model_answer one[REPLY_BLOCKS_MAX];
	AUTO_BUF struct buf out = BUF(MODEL_REQUEST_MAX);
	AUTO(json) struct json_doc *d = NULL;
	struct model_ask ask = {.answers = one};
	struct model_talk t;
	struct err err = {0};

	model_talk_init(&t);
	t.model = "m";
	t.system = "s";
	if (r->stop == REPLY_LENGTH)
		reply_drop_halves(r);
	reply_name_calls(r);
	for (size_t i = 0; i < r->n; i++)
		ask.nanswers += r->blocks[i].kind == REPLY_TOOL;
	p->task(&t, STR("task"));
	p->said(&t, r);
	if (ask.nanswers != 0)
		p->answers(&t, r, &ask, STR("note"));
	p->request(&t, &out);
	if (!buf_over(&out) && json_parse_numbers(buf_str(&out), "request", &d, &err) != 0)
		assert(err.code == ERR_TOO_COMPLEX); /* arguments nested deeper than we read */
	model_talk_free(&t);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct model_provider *p;
	struct reply whole, cut;
	struct str s;
	int rc;

	if (size < 1)
		return 0;
	p = (data[0] & 0x80) != 0 ? &model_responses
	    : (data[0] & 1) != 0  ? &model_openai
				  : &model_anthropic;
	s = str_mem(data + 1, size - 1);
	rc = stream(p, s, s.n, &whole);
	assert(stream(p, s, (size_t)(data[0] >> 1 & 0x3f) + 1, &cut) == rc);
	if (rc >= 0)
		same(&whole, &cut);
	if (rc >= 0)
		say_back(p, &whole);
	reply_free(&whole);
	reply_free(&cut);
	return 0;
}
