/*
 * The conversation as text (process: cofferdam-agent). It is kept as it was sent, and read by
 * nobody here.
 */
#include "agent/model_provider.h"

#include "common/jcs.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

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
