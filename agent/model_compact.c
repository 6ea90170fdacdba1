/*
 * Room in a conversation that nears the end of what a model takes (process: cofferdam-agent). The
 * prompt, the task and the last answers stay; what lay between is told by the model itself in a few
 * words, which the loop records. Rules are the broker's: nothing that binds can be left out here.
 */
#include "common/log.h"
#include "common/xalloc.h"
#include "agent/model_remote_int.h"

#include "common/banned.h"

#define KEEP 3 /* answers of the model, with what came of them */

#define ASK                                                                                       \
	STR("Your context is nearly full, so the earlier part of this conversation will be left " \
	    "out. Write down, in plain words and without any call, what you need to go on: the "  \
	    "task as it stands, what was done and found, what was refused and until when, open "  \
	    "requests with their ids, files and variables that matter, and what comes next.")

bool
remote_is_long(const struct remote *r)
{
	size_t now = r->talk.past.n + r->talk.last.n;
	uint64_t tokens = r->known + r->talk.last.n / 3;

	if (r->talk.nsaid < 2)
		return false;
	return now > MODEL_REQUEST_MAX / 4 * 3 || tokens > r->context / 5 * 4;
}

static void
words_of(const struct reply *p, struct buf *out)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->blocks[i].kind == REPLY_TEXT)
			buf_put_str(out, buf_str(&p->blocks[i].text));
}

/* What the model writes of it; the conversation is afterwards as it was. */
static bool
summary_ask(struct remote *r, uint64_t until_us, struct buf *out, struct model_turn *ret)
{
	struct model_talk *t = &r->talk;
	struct buf last = BUF(MODEL_REQUEST_MAX), marked = BUF(MODEL_REQUEST_MAX);
	size_t past = t->past.n, nsaid = t->nsaid;
	bool said = t->last_said, ok;
	struct err e = {0};

	buf_put_str(&last, buf_str(&t->last));
	buf_put_str(&marked, buf_str(&t->last_marked));
	r->provider->words(model_talk_next(t), ASK);
	ok = remote_send(r, until_us, &e) == 0;
	if (ok) {
		words_of(&r->reply, out);
		remote_usage(r, ret);
		ok = str_trim(buf_str(out)).n != 0;
	} else {
		log_warn("no summary: %s", e.msg);
	}
	reply_free(&r->reply);
	t->past.n = past;
	t->nsaid = nsaid;
	t->last_said = said;
	buf_free(&t->last);
	buf_free(&t->last_marked);
	t->last = last;
	t->last_marked = marked;
	return ok;
}

/* As many of the last answers as leave room for more. */
static size_t
keep_of(const struct remote *r, bool full)
{
	const struct model_talk *t = &r->talk;
	size_t keep = KEEP < t->nsaid ? KEEP : t->nsaid - 1;
	size_t room = (size_t)(r->context < MODEL_REQUEST_MAX ? r->context : MODEL_REQUEST_MAX);

	if (full)
		return 1;
	while (keep > 1 && t->past.n - t->said[t->nsaid - keep] > room)
		keep--;
	return keep;
}

bool
remote_compact(struct remote *r, uint64_t until_us, struct model_turn *ret)
{
	AUTO_BUF struct buf message = BUF(MODEL_REQUEST_MAX);
	bool full = r->full || r->reply.stop == REPLY_FULL;

	if (r->talk.nsaid < 2)
		return false;
	buf_reset(&r->words);
	/* What does not fit cannot be asked about itself. */
	ret->by_model = !full && summary_ask(r, until_us, &r->words, ret);
	if (!ret->by_model) {
		buf_reset(&r->words);
		buf_put_z(&r->words,
		    "What came here was left out to make room. What was done is on the record; "
		    "files, and variables of the interpreters, are still there: look before you "
		    "do anything twice.");
	}
	r->provider->words(&message, buf_str(&r->words));
	ret->left_out = model_talk_drop(&r->talk, keep_of(r, full), buf_str(&message));
	ret->words = buf_str(&r->words);
	r->shortened = true;
	r->known = (r->talk.past.n + r->talk.last.n) / 3;
	return ret->left_out != 0;
}
