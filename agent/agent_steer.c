/*
 * What people tell a run (process: cofferdam-agent). It comes by the broker's wire alone, where it
 * was proved who says it and recorded. Nothing here is a boundary: an agent that does not hold is
 * ended by the broker.
 */
#include "agent/agent_steer.h"

#include <stdlib.h>

#include "common/json.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "agent/sandbox/sandbox.h"

#include "common/banned.h"

#define SAID_MAX 256 /* as many as the broker takes for one run */

enum how { HOW_PAUSE = 1, HOW_RESUME = 2, HOW_STOP = 3, HOW_SAY = 4 };

static void
pause_set(struct agent_steer *s, bool on, struct str who)
{
	AUTO_FREE char *vis = log_vis(who);
	struct err e = {0};

	if (s->paused == on)
		return;
	s->paused = on;
	if (s->sandbox != NULL &&
	    (on ? sandbox_pause(s->sandbox, &e) : sandbox_resume(s->sandbox, &e)) != 0)
		log_warn("%s: %s", on ? "the sandbox goes on though the run is paused" : "resume",
		    e.msg);
	if (s->out != NULL)
		transcript_line(s->out, on ? "-- paused by %s" : "-- %s lets it go on", vis);
}

static void
said_add(struct agent_steer *s, uint64_t seq, struct str who, struct str text)
{
	if (seq <= s->heard || s->nsaid >= SAID_MAX)
		return;
	s->heard = seq;
	s->said = xreallocarray(s->said, s->nsaid + 1, sizeof(*s->said));
	s->said[s->nsaid++] =
	    (struct agent_said){str_mem(str_dup(who), who.n), str_mem(str_dup(text), text.n)};
}

int
steer_take(struct agent_steer *s, struct str body, struct err *err)
{
	struct rd r = rd_init(body);
	uint8_t how = rd_u8(&r);
	uint64_t seq = rd_u64(&r);
	struct str who = rd_lstr(&r), text = rd_lstr(&r);

	if (!rd_end(&r) || how < HOW_PAUSE || how > HOW_SAY)
		return err_set(err, ERR_PROTOCOL, "broker: malformed A_STEER");
	switch ((enum how)how) {
	case HOW_PAUSE:
	case HOW_RESUME: pause_set(s, how == HOW_PAUSE, who); break;
	case HOW_STOP:
		pause_set(s, false, who); /* what stands still cannot end */
		free(s->stop);
		s->stop = str_dup(text);
		break;
	case HOW_SAY: said_add(s, seq, who, text); break;
	}
	return 0;
}

/* The broker's own record of an action that it let through. */
static void
calls_count(struct agent_steer *s, const struct json *event)
{
	const struct json *data = json_get(event, "data");
	struct str target = json_str(json_get(json_get(data, "request"), "target"));

	if (!str_eqz(json_str(json_get(event, "type")), "action") ||
	    !str_eqz(json_str(json_get(json_get(data, "decision"), "verdict")), "allow"))
		return;
	for (size_t i = 0; i < s->nlimits; i++)
		s->limits[i].seen += str_eqz(target, s->limits[i].target);
	if (s->stop == NULL && steer_calls_over(s) != NULL)
		s->stop = xstrdup("a budget of calls is spent");
}

const struct call_limit *
steer_calls_over(const struct agent_steer *s)
{
	for (size_t i = 0; i < s->nlimits; i++)
		if (s->limits[i].seen >= s->limits[i].most)
			return &s->limits[i];
	return NULL;
}

int
steer_seen(struct agent_steer *s, struct str body, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct rd r = rd_init(body);
	struct str text = rd_lstr(&r);

	if (!rd_end(&r) || json_parse(text, "event", &doc, err) != 0)
		return err_set(err, ERR_PROTOCOL, "broker: malformed A_SEEN");
	calls_count(s, json_root(doc));
	if (s->out != NULL)
		transcript_event(s->out, text, json_root(doc));
	return 0;
}

void
steer_words(const struct agent_steer *s, struct buf *out)
{
	for (size_t i = 0; s != NULL && i < s->nsaid; i++)
		buf_printf(out, "%s%.*s, a person, says to you in the middle of the run:\n%.*s",
		    out->n != 0 ? "\n\n" : "", STR_ARG(s->said[i].by), STR_ARG(s->said[i].text));
}

void
steer_given(struct agent_steer *s)
{
	for (size_t i = 0; i < s->nsaid; i++) {
		free((void *)(uintptr_t)s->said[i].by.p);
		free((void *)(uintptr_t)s->said[i].text.p);
	}
	s->nsaid = 0;
}

void
steer_free(struct agent_steer *s)
{
	steer_given(s);
	free(s->said);
	free(s->stop);
	*s = (struct agent_steer){.paused = false};
}
