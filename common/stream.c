/*
 * A run's stream for people (process: cofferdam-agent, the command line). Every byte of an event is
 * foreign: an escape sequence in it must not reach the terminal, so all of it goes through the same
 * encoding as the log, tabs apart. Decides nothing and sends nothing.
 */
#include "common/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"

#include "common/banned.h"

#define SHOW_MAX 300 /* bytes of an action in a line */

static const char *const tones[] = {
    [STREAM_PLAIN] = "",
    [STREAM_QUIET] = "\033[2m",
    [STREAM_GOOD] = "\033[32m",
    [STREAM_BAD] = "\033[1;31m",
    [STREAM_WAIT] = "\033[33m",
    [STREAM_WORDS] = "\033[36m",
};

bool
stream_colour(int fd)
{
	const char *none = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fd) == 1 && (none == NULL || none[0] == '\0') && term != NULL &&
	       strcmp(term, "dumb") != 0;
}

/* --- lines ----------------------------------------------------------------------------- */

/* Tabs are harmless and common in output; they stay. */
static void
visible(struct str line, struct buf *out)
{
	struct str part;

	if (line.n != 0 && line.p[line.n - 1] == '\r')
		line.n--;
	for (bool more = true; more;) {
		AUTO_FREE char *vis = NULL;

		more = str_cut(&line, '\t', &part);
		if (!more)
			part = line;
		vis = log_vis(part);
		buf_put_z(out, vis);
		if (more)
			buf_put_c(out, '\t');
	}
}

void
stream_line(const struct stream_look *l, enum stream_tone tone, const char *mark, struct str line,
    struct buf *out)
{
	bool on = l->colour && tone != STREAM_PLAIN;

	buf_put_z(out, on ? tones[tone] : "");
	buf_put_z(out, mark);
	visible(line, out);
	buf_put_z(out, on ? "\033[0m\n" : "\n");
}

void
stream_text(const struct stream_look *l, enum stream_tone tone, const char *mark, struct str text,
    struct buf *out)
{
	struct str line;

	while (text.n != 0) {
		if (!str_cut(&text, '\n', &line)) {
			line = text;
			text = STR_NONE;
		}
		stream_line(l, tone, mark, line, out);
	}
}

/* --- one event ------------------------------------------------------------------------- */

struct told {
	const struct stream_look *look;
	const struct json *event, *data;
	struct buf mark, *out;
};

static struct str
member(const struct told *t, const char *key)
{
	return json_str(json_get(t->data, key));
}

static const char *
marked(struct told *t, const char *mark, char room[128])
{
	(void)snprintf(room, 128, "%.*s%s", STR_ARG(buf_str(&t->mark)), mark);
	return room;
}

static void
say(struct told *t, enum stream_tone tone, const char *mark, struct str line)
{
	char room[128];

	stream_line(t->look, tone, marked(t, mark, room), line, t->out);
}

static void
say_text(struct told *t, enum stream_tone tone, const char *mark, struct str text)
{
	const struct json *left = json_get(t->event, "left_out");
	char room[128];

	stream_text(t->look, tone, marked(t, mark, room), text, t->out);
	if (left != NULL) {
		AUTO_BUF struct buf b = BUF(128);

		buf_printf(&b, "[%lld bytes more are not shown]", (long long)json_int(left));
		say(t, STREAM_QUIET, mark, buf_str(&b));
	}
}

static void
put_list(struct buf *b, const struct json *list)
{
	for (size_t i = 0; i < json_count(list); i++) {
		buf_put_z(b, i != 0 ? "," : "");
		buf_put_str(b, json_str(json_at(list, i)));
	}
}

static struct str
first_line(struct str text)
{
	struct str line;

	if (!str_cut(&text, '\n', &line))
		line = text;
	if (line.n <= SHOW_MAX)
		return line;
	line.n = SHOW_MAX;
	while (line.n != 0 && ((unsigned char)line.p[line.n] & 0xc0) == 0x80)
		line.n--;
	return line;
}

static void
tell_action(struct told *t)
{
	const struct json *d = json_get(t->data, "decision"), *rq = json_get(t->data, "request");
	const struct json *in = json_get(rq, "input");
	struct str verdict = json_str(json_get(d, "verdict")), show;
	bool allow = str_eqz(verdict, "allow"), waits = str_eqz(verdict, "needs_approval");
	AUTO_BUF struct buf b = BUF(65536);

	buf_printf(&b, "%.*s: ", STR_ARG(verdict));
	put_list(&b, json_get(in, "effects"));
	buf_printf(&b, " on %.*s: ", STR_ARG(json_str(json_get(in, "target"))));
	show = json_str(json_get(t->event, "text"));
	buf_put_str(&b, first_line(show.n != 0 ? show : json_str(json_get(rq, "operation"))));
	say(t, allow ? STREAM_GOOD : waits ? STREAM_WAIT : STREAM_BAD, "! ", buf_str(&b));
	if (!allow)
		say(t, waits ? STREAM_WAIT : STREAM_BAD, "!   ", json_str(json_get(d, "reason")));
	if (waits && json_get(d, "approval") != NULL) {
		buf_reset(&b);
		buf_printf(&b, "request %.*s: cofferdam approve",
		    STR_ARG(json_str(json_get(d, "approval"))));
		say(t, STREAM_WAIT, "!   ", buf_str(&b));
	}
}

static void
tell_outcome(struct told *t)
{
	AUTO_BUF struct buf b = BUF(4096);
	struct str status = member(t, "status");
	const struct json *http = json_get(t->data, "http_status");

	buf_printf(&b, "%.*s", STR_ARG(status));
	if (http != NULL)
		buf_printf(&b, ", HTTP %lld", (long long)json_int(http));
	if (member(t, "sqlstate").n != 0)
		buf_printf(&b, ", SQLSTATE %.*s", STR_ARG(json_str(json_get(t->data, "sqlstate"))));
	if (json_int(json_get(t->data, "rows")) != 0)
		buf_printf(&b, ", %lld rows", (long long)json_int(json_get(t->data, "rows")));
	say(t, str_eqz(status, "ok") ? STREAM_QUIET : STREAM_BAD, "!   ", buf_str(&b));
}

static void
tell_code(struct told *t)
{
	AUTO_BUF struct buf b = BUF(65536);

	buf_put_str(&b, member(t, "language"));
	if (b.n == 0)
		put_list(&b, json_get(t->data, "argv"));
	say(t, STREAM_PLAIN, "$ ", buf_str(&b));
	if (json_get(t->data, "argv") == NULL)
		say_text(t, STREAM_PLAIN, "  ", json_str(json_get(t->event, "text")));
}

static void
tell_output(struct told *t)
{
	int64_t us = json_int(json_get(t->data, "duration_us"));
	AUTO_BUF struct buf b = BUF(512);

	say_text(t, STREAM_QUIET, "> ", json_str(json_get(t->event, "text")));
	buf_printf(&b, "%.*s %lld, %lld bytes, %lld.%03lld s",
	    STR_ARG(json_str(json_get(t->data, "cause"))),
	    (long long)json_int(json_get(t->data, "value")),
	    (long long)json_int(json_get(t->data, "total_bytes")), (long long)(us / 1000000),
	    (long long)(us / 1000 % 1000));
	say(t, STREAM_QUIET, "= ", buf_str(&b));
}

static void
tell_start(struct told *t)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_printf(&b, "run %.*s  agent %.*s  owner %.*s",
	    STR_ARG(json_str(json_get(t->event, "run"))),
	    STR_ARG(json_str(json_get(t->data, "agent"))),
	    STR_ARG(json_str(json_get(t->data, "owner"))));
	if (member(t, "parent").n != 0)
		buf_printf(&b, "  child of %.*s", STR_ARG(json_str(json_get(t->data, "parent"))));
	say(t, STREAM_PLAIN, "", buf_str(&b));
	say_text(t, STREAM_PLAIN, "task: ", json_str(json_get(t->event, "text")));
}

static void
tell_words(struct told *t)
{
	say_text(t, STREAM_WORDS, "| ", json_str(json_get(t->event, "text")));
}

static void
tell_message(struct told *t)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_printf(&b, "%.*s says:", STR_ARG(json_str(json_get(t->data, "by"))));
	say(t, STREAM_WAIT, "* ", buf_str(&b));
	say_text(t, STREAM_WAIT, "*   ", json_str(json_get(t->event, "text")));
}

static void
tell_alarm(struct told *t)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_printf(&b, "ALARM: %lld tries at what was refused, on %.*s",
	    (long long)json_int(json_get(t->data, "attempts")),
	    STR_ARG(json_str(json_get(t->data, "target"))));
	say(t, STREAM_BAD, "! ", buf_str(&b));
}

static void
tell_end(struct told *t)
{
	AUTO_BUF struct buf b = BUF(8192);

	buf_printf(&b, "%.*s: %.*s", STR_ARG(json_str(json_get(t->data, "status"))),
	    STR_ARG(json_str(json_get(t->data, "text"))));
	say(t, STREAM_PLAIN, "-- ", buf_str(&b));
}

static void
tell_left_out(struct told *t)
{
	AUTO_BUF struct buf b = BUF(256);

	buf_printf(&b,
	    "[%lld events are left out here: they were not read in time; the log has them]",
	    (long long)json_int(json_get(t->event, "events")));
	say(t, STREAM_QUIET, "", buf_str(&b));
}

/* What the others say: their type, and the members that tell something. */
static void
tell_plain(struct told *t)
{
	static const char *const keys[] = {
	    "id", "person", "role", "by", "reason", "status", "field", "gone", "added"};
	struct str type = json_str(json_get(t->event, "type"));
	bool bad = str_has_prefix(type, "run.revoke") || str_eqz(type, "approval.deny") ||
		   str_eqz(type, "run.stop");
	AUTO_BUF struct buf b = BUF(65536);

	buf_put_str(&b, type);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const struct json *v = json_get(t->data, keys[i]);

		if (v == NULL)
			continue;
		buf_printf(&b, " %s=", keys[i]);
		if (json_type(v) == JSON_ARRAY)
			put_list(&b, v);
		else
			buf_put_str(&b, json_str(v));
	}
	say(t, bad ? STREAM_BAD : STREAM_WAIT, "* ", buf_str(&b));
}

static const struct {
	const char *type;
	void (*fn)(struct told *t); /* NULL: not for people */
} tellers[] = {
    {"action", tell_action}, {"outcome", tell_outcome}, {"agent.model", tell_words},
    {"agent.exec", tell_code}, {"agent.result", tell_output}, {"run.start", tell_start},
    {"run.end", tell_end}, {"run.message", tell_message}, {"run.alarm", tell_alarm},
    {"stream.left_out", tell_left_out}, {"stream.end", NULL},
    {"approval.request", NULL}, /* its action says the same */
};

void
stream_event(const struct stream_look *l, const struct json *event, struct buf *out)
{
	struct str type = json_str(json_get(event, "type")), run = json_str(json_get(event, "run"));
	struct told t = {.look = l,
	    .event = event,
	    .data = json_get(event, "data"),
	    .mark = BUF(96),
	    .out = out};

	if (l->run != NULL && run.n > 0 && run.n < 64 && !str_eqz(run, l->run)) {
		AUTO_FREE char *vis = log_vis(str_mem(run.p, run.n < 10 ? run.n : 10));

		buf_printf(&t.mark, "%s ", vis);
	}
	for (size_t i = 0; i < ARRAY_LEN(tellers); i++)
		if (str_eqz(type, tellers[i].type)) {
			if (tellers[i].fn != NULL)
				tellers[i].fn(&t);
			buf_free(&t.mark);
			return;
		}
	tell_plain(&t);
	buf_free(&t.mark);
}
