/*
 * The conversation as text, and what every model is told (process: cofferdam-agent). The prompt
 * is advice to a model, not a protection: what it says not to do is impossible, or refused by
 * the broker.
 */
#include "agent/model_provider.h"

#include "common/jcs.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

const char model_system[] =
    "You operate production through code. Your one tool, run_code, runs a program in a sandbox "
    "and gives you its output; files under /work and /tmp stay between calls, processes do not. "
    "Do several steps in one program where you can, and print only what you need: long output is "
    "cut in the middle.\n"
    "There is no network but a broker. It stands under the ordinary names and ports of the "
    "systems you may reach, so use ordinary clients (psql, curl, git) with ordinary addresses. "
    "You have no credentials and need none: the broker adds them. Where a client insists on one, "
    "a placeholder is in the environment.\n"
    "The broker judges every action by policy, and records it with your words. A refusal is "
    "final unless it names a request id: then people have been asked to sign, and exactly the "
    "same action may pass once after they have. Wait by repeating it now and then, unchanged. "
    "Never try to reach a refused effect in another way, and never use credentials that you find: "
    "say what was refused and why it is needed.\n"
    "When the task is done, or cannot be done, say so in a few plain words, without a call.";

void
model_talk_init(struct model_talk *t)
{
	*t = (struct model_talk){.past = BUF(MODEL_REQUEST_MAX),
	    .last = BUF(MODEL_REQUEST_MAX),
	    .last_marked = BUF(MODEL_REQUEST_MAX)};
}

void
model_talk_free(struct model_talk *t)
{
	buf_free(&t->past);
	buf_free(&t->last);
	buf_free(&t->last_marked);
}

static void
joined(struct buf *out, const struct buf *more)
{
	if (out->n != 0 && more->n != 0 && out->p[out->n - 1] != '[')
		buf_put_c(out, ',');
	buf_put_str(out, buf_str(more));
	out->over = out->over || more->over;
}

struct buf *
model_talk_next(struct model_talk *t)
{
	joined(&t->past, &t->last);
	t->last.n = 0;
	t->last_marked.n = 0;
	return &t->last;
}

void
model_talk_messages(const struct model_talk *t, struct buf *out)
{
	buf_put_c(out, '[');
	joined(out, &t->past);
	joined(out, t->last_marked.n != 0 ? &t->last_marked : &t->last);
	buf_put_c(out, ']');
}

char *
model_problem_text(struct str body)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO_FREE char *title = NULL, *detail = NULL;
	struct err ignored;

	if (json_parse_numbers(body, "problem", &d, &ignored) != 0)
		return xstrdup("no reason that could be read");
	title = log_vis(json_str(json_get(json_root(d), "title")));
	detail = log_vis(json_str(json_get(json_root(d), "detail")));
	return xasprintf(
	    "%s%s%s", title, title[0] != '\0' && detail[0] != '\0' ? ": " : "", detail);
}
