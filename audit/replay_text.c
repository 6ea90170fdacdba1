/*
 * Opened content, made readable. Runs in the command line. The bytes come from an agent or from a
 * foreign server; what does not have the form that it should have is given as it is.
 */
#include "audit/replay_text.h"

#include "audit/replay_model.h"

#include "common/banned.h"

/* Start-up parameters as they stand in the head of a connect: u32 count, then pairs. */
static bool
params(struct str head, struct buf *out)
{
	struct rd r = rd_init(head);
	uint32_t n = rd_u32(&r);

	for (uint32_t i = 0; i < n && !r.bad; i++) {
		struct str key = rd_lstr(&r), value = rd_lstr(&r);

		buf_printf(out, "%s%.*s=%.*s", i != 0 ? " " : "", STR_ARG(key), STR_ARG(value));
	}
	return rd_end(&r);
}

static void
head(struct str text, struct buf *out)
{
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] != '\r' || i + 1 == text.n || text.p[i + 1] != '\n')
			buf_put_c(out, text.p[i]);
}

struct str
replay_text(struct str raw, enum replay_as as, struct buf *out)
{
	switch (as) {
	case AS_TEXT: return raw;
	case AS_PARAMS: return params(raw, out) ? buf_str(out) : raw;
	case AS_HEAD: head(raw, out); return str_trim(buf_str(out));
	case AS_PROMPT: return replay_model_prompt(raw, out) ? buf_str(out) : raw;
	case AS_ANSWER: return replay_model_answer(raw, out) ? buf_str(out) : raw;
	}
	return raw;
}
