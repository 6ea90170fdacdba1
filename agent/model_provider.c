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
	free(t->said);
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
	if (t->last_said) {
		t->said = xreallocarray(t->said, t->nsaid + 1, sizeof(*t->said));
		t->said[t->nsaid++] = t->past.n + (t->past.n != 0 ? 1 : 0);
	}
	joined(&t->past, &t->last);
	if (t->after_task == 0)
		t->after_task = t->past.n;
	t->last.n = 0;
	t->last_marked.n = 0;
	t->last_said = false;
	return &t->last;
}

void
model_talk_said(struct model_talk *t)
{
	t->last_said = true;
}

size_t
model_talk_drop(struct model_talk *t, size_t keep, struct str words)
{
	size_t drop = t->nsaid > keep ? t->nsaid - keep : 0, from, shift;
	struct buf past = BUF(MODEL_REQUEST_MAX);

	if (drop == 0)
		return 0;
	from = drop < t->nsaid ? t->said[drop] : t->past.n;
	buf_put(&past, t->past.p, t->after_task);
	buf_put_c(&past, ',');
	buf_put_str(&past, words);
	if (from < t->past.n)
		buf_put_c(&past, ',');
	shift = past.n;
	buf_put(&past, t->past.p + from, t->past.n - from);
	for (size_t i = drop; i < t->nsaid; i++)
		t->said[i - drop] = t->said[i] - from + shift;
	t->nsaid -= drop;
	buf_free(&t->past);
	t->past = past;
	return drop;
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

/* --- what OpenAI's interfaces share ---------------------------------------------- */

void
model_text_put(struct buf *out, const char *role, struct str text, const char *call)
{
	struct jcs j;

	if (out->n != 0)
		buf_put_c(out, ',');
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "content", text);
	jcs_z(&j, "role", role);
	if (call != NULL)
		jcs_z(&j, "tool_call_id", call);
	jcs_close(&j);
}

int
model_event_read(struct str data, struct json_doc **ret, struct err *err)
{
	if (str_eqz(str_trim(data), "[DONE]"))
		return 1;
	return json_parse_numbers(data, "the model's stream", ret, err);
}
