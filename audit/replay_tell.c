/*
 * Records in words. Runs in the command line. Nothing is judged here: what a record says is said,
 * and of a type or a member that is not known the bytes are shown rather than nothing.
 */
#include "audit/replay_tell.h"

#include <inttypes.h>
#include <stdio.h>

#include "audit/canon.h"
#include "audit/outcome.h"
#include "audit/pack.h"
#include "audit/replay_put.h"
#include "common/json.h"

#include "common/banned.h"

#define TOLD_MAX ((size_t)1 << 20)

void
told_init(struct told *t)
{
	*t = (struct told){0};
	buf_init(&t->title, TOLD_MAX);
	buf_init(&t->before, TOLD_MAX);
	buf_init(&t->after, TOLD_MAX);
}

void
told_free(struct told *t)
{
	buf_free(&t->title);
	buf_free(&t->before);
	buf_free(&t->after);
}

const char *
replay_lane_name(enum replay_lane lane)
{
	static const char *const names[] = {"log", "model", "code", "actions", "approvals"};

	return names[lane];
}

/* --- runs ----------------------------------------------------------------------------------- */

static void
tell_run_start(const struct record *r, struct told *t)
{
	struct str targets = canon_get(r->data, "targets"), v;
	size_t at = 0;

	buf_put_z(&t->title, "run begins:");
	if (canon_get(r->data, "parent").n != 0) {
		buf_reset(&t->title);
		buf_put_z(&t->title, "child run ");
		replay_put_vis(&t->title, r->run);
		buf_put_z(&t->title, " begins:");
		replay_put_field(&t->title, "parent", canon_get(r->data, "parent"));
		replay_put_field(&t->title, "effects", canon_get(r->data, "effects"));
		replay_put_field(&t->title, "budget", canon_get(r->data, "budget"));
	}
	replay_put_field(&t->title, "agent", canon_get(r->data, "agent"));
	replay_put_field(&t->title, "owner", canon_get(r->data, "owner"));
	replay_put_field(&t->title, "login", canon_get(r->data, "login"));
	replay_put_field(&t->title, "sandbox", canon_get(canon_get(r->data, "level"), "back_end"));
	while (canon_next(targets, &at, &v)) {
		buf_put_z(&t->before, "target ");
		replay_put_value(&t->before, canon_get(v, "target"));
		replay_put_field(&t->before, "kind", canon_get(v, "kind"));
		replay_put_field(&t->before, "at", canon_get(v, "host"));
		buf_put_c(&t->before, ':');
		replay_put_value(&t->before, canon_get(v, "port"));
		buf_put_c(&t->before, '\n');
	}
	t->ref = canon_get(r->data, "task");
}

/* Ends that only the agent's own word brings about. */
static bool
by_agent(struct str status)
{
	return str_eqz(status, "done") || str_eqz(status, "not_done") ||
	       str_has_prefix(status, "budget:");
}

static void
tell_run_end(const struct record *r, struct told *t)
{
	struct str status = canon_get(r->data, "status");

	buf_put_z(&t->title, "run ends");
	replay_put_field(&t->title, "status", status);
	replay_put_field(&t->title, by_agent(canon_plain(status)) ? "the agent says" : "text",
	    canon_get(r->data, "text"));
}

/* --- actions -------------------------------------------------------------------------------- */

static void
put_decision(struct told *t, struct str d)
{
	struct str verdict = canon_plain(canon_get(d, "verdict"));
	struct buf *b = &t->title;

	t->tone = str_eqz(verdict, "allow")	       ? TONE_ALLOW
		  : str_eqz(verdict, "needs_approval") ? TONE_WAIT
						       : TONE_DENY;
	buf_put_z(b, t->tone == TONE_ALLOW  ? "ALLOW"
		     : t->tone == TONE_WAIT ? "NEEDS APPROVAL"
					    : "DENY");
	replay_put_field(b, "by", canon_get(d, "rules"));
	replay_put_field(b, "calendar", canon_get(d, "calendar"));
	replay_put_field(b, "until", canon_get(d, "until"));
	replay_put_field(b, "slots", canon_get(d, "slots"));
	replay_put_field(b, "request", canon_get(d, "approval"));
	replay_put_field(b, "max_rows", canon_get(d, "max_rows"));
	replay_put_field(b, "lifted by", canon_get(d, "lifted"));
	replay_put_field(b, "after the refusal at", canon_get(d, "link"));
	if (str_eqz(canon_get(d, "clock_known"), "false"))
		buf_put_z(b, "  (the clock was not known)");
}

static void
put_grants(struct buf *b, struct str grants)
{
	struct str g;
	size_t at = 0;

	while (canon_next(grants, &at, &g)) {
		buf_put_z(b, "  signed by ");
		replay_put_value(b, canon_get(g, "person"));
		buf_put_z(b, " as ");
		replay_put_value(b, canon_get(g, "role"));
	}
}

static void
put_url(struct buf *b, struct str http)
{
	if (http.n == 0)
		return;
	buf_put_c(b, ' ');
	if (canon_get(http, "scheme").n != 0) {
		replay_put_value(b, canon_get(http, "scheme"));
		buf_put_z(b, "://");
	}
	replay_put_value(b, canon_get(http, "authority"));
	if (canon_get(http, "path").n != 0)
		replay_put_value(b, canon_get(http, "path"));
	if (canon_get(http, "query_sha256").n != 0)
		buf_put_z(b, "?...");
}

static enum replay_as
head_as(struct str q)
{
	if (str_eqz(canon_plain(canon_get(q, "operation")), "connect"))
		return AS_PARAMS;
	if (str_eqz(canon_plain(canon_get(canon_get(q, "http"), "via")), "loop"))
		return AS_PROMPT;
	return canon_get(q, "http").n != 0 ? AS_HEAD : AS_TEXT;
}

static void
tell_action(const struct record *r, struct told *t)
{
	struct str q = canon_get(r->data, "request"), d = canon_get(r->data, "decision");
	struct str input = canon_get(q, "input");
	struct buf *b = &t->title;

	replay_put_value(b, canon_get(q, "operation"));
	put_url(b, canon_get(q, "http"));
	buf_put_z(b, " on ");
	replay_put_value(b, canon_get(q, "target"));
	if (str_eqz(canon_plain(canon_get(input, "kind")), "aws"))
		replay_put_field(b, "does", canon_get(input, "relations"));
	replay_put_field(b, "effects", canon_get(q, "effects"));
	replay_put_field(b, "upgrade", canon_get(canon_get(q, "http"), "upgrade"));
	replay_put_field(b, "body_bytes", canon_get(canon_get(q, "http"), "body_bytes"));
	buf_put_z(b, "  -> ");
	put_decision(t, d);
	put_grants(b, canon_get(d, "grants"));
	t->ref = canon_get(q, "head");
	t->as = head_as(q);
	if (t->as == AS_PROMPT)
		t->lane = LANE_MODEL;
	if (t->tone != TONE_ALLOW) {
		buf_put_z(&t->after, "= ");
		replay_put_value(&t->after, canon_get(d, "reason"));
		buf_put_c(&t->after, '\n');
	}
}

static void
tell_outcome(const struct record *r, struct told *t)
{
	static const char *const told[] = {"tag", "sqlstate", "rows", "http_status", "body_bytes",
	    "answer_bytes", "ended", "reflected_credential", "message"};
	struct str status = canon_plain(canon_get(r->data, "status"));
	struct buf *b = &t->title;
	uint64_t us;

	buf_put_z(b, "outcome of ");
	replay_put_value(b, canon_get(r->data, "action_seq"));
	buf_put_z(b, ": ");
	replay_put_vis(b, status);
	for (size_t i = 0; i < ARRAY_LEN(told); i++)
		replay_put_field(b, told[i], canon_get(r->data, told[i]));
	replay_put_field(b, "copy_bytes", canon_get(canon_get(r->data, "copy"), "bytes"));
	if (canon_u64(canon_get(r->data, "duration_us"), &us))
		buf_printf(b, "  %" PRIu64 ".%03" PRIu64 " ms", us / 1000, us % 1000);
	if (outcome_in_doubt(r->data)) {
		buf_put_z(b, "  (GAP in doubt: it may have happened)");
		t->tone = TONE_GAP;
	} else if (outcome_leaves_doubt(status)) {
		buf_put_z(b, "  (it only reads: nothing is changed)");
	}
	t->ref = canon_get(r->data, "answer");
	t->as = AS_ANSWER;
	if (t->ref.n != 0)
		t->lane = LANE_MODEL;
}

static void
tell_approval_request(const struct record *r, struct told *t)
{
	struct buf *b = &t->title;

	buf_put_z(b, "approval request ");
	replay_put_value(b, canon_get(r->data, "id"));
	replay_put_field(b, "for", canon_get(r->data, "target"));
	replay_put_field(b, "effects", canon_get(r->data, "effects"));
	replay_put_field(b, "rule", canon_get(r->data, "rule"));
	replay_put_field(b, "slots", canon_get(r->data, "slots"));
	replay_put_field(b, "until", canon_get(r->data, "approve_by"));
	buf_put_z(b, "; people are shown:");
	t->ref = canon_get(r->data, "show");
	t->tone = TONE_WAIT;
}

/* --- what the agent says ------------------------------------------------------------------- */

/* An agent's loop adds what it likes: all of it is told. */
static void
put_members(struct buf *b, struct str data)
{
	AUTO(json) struct json_doc *d = NULL;

	if (json_parse(data, "claim", &d, NULL) != 0)
		return;
	for (size_t i = 0; i < json_count(json_root(d)); i++) {
		AUTO_FREE char *key = str_dup(json_key(json_root(d), i));

		if (strcmp(key, "content") != 0 && strcmp(key, "done") != 0 &&
		    strcmp(key, "kept_bytes") != 0)
			replay_put_field(b, key, canon_get(data, key));
	}
}

static const struct {
	const char *type, *words;
	enum replay_lane lane;
	unsigned depth;
} claims[] = {
    {"agent.model", "the model wrote", LANE_MODEL, 0},
    {"agent.exec", "the agent ran", LANE_CODE, 1},
    {"agent.result", "the agent got back", LANE_CODE, 1},
    {"agent.note", "the agent notes", LANE_MODEL, 1},
};

static bool
tell_claim(const struct record *r, struct told *t)
{
	for (size_t i = 0; i < ARRAY_LEN(claims); i++) {
		if (!str_eqz(r->type, claims[i].type))
			continue;
		buf_put_z(&t->title, claims[i].words);
		put_members(&t->title, r->data);
		t->lane = claims[i].lane;
		t->depth = claims[i].depth;
		t->tone = TONE_CLAIM;
		t->ref = canon_get(r->data, "content");
		return true;
	}
	return false;
}

/* --- all other records -------------------------------------------------------------------- */

/* Records that are told in one line: words, and the members that have something to say. */
static const struct {
	const char *type, *words;
	enum replay_lane lane;
	enum replay_tone tone;
	unsigned depth;
	const char *fields[10];
} lines[] = {
#include "audit/replay_lines.tbl"
};

static bool
tell_line(const struct record *r, struct told *t)
{
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		if (!str_eqz(r->type, lines[i].type))
			continue;
		buf_put_z(&t->title, lines[i].words);
		for (const char *const *f = lines[i].fields; *f != NULL; f++)
			replay_put_field(&t->title, *f, canon_get(r->data, *f));
		t->lane = lines[i].lane;
		t->tone = lines[i].tone;
		t->depth = lines[i].depth;
		return true;
	}
	return false;
}

static void
tell_other(const struct record *r, struct told *t)
{
	replay_put_vis(&t->title, r->type);
	buf_put_c(&t->title, ' ');
	replay_put_vis(&t->title, r->data);
	if (!pack_ref(r, &t->ref))
		t->ref = STR_NONE;
}

static const struct {
	const char *type;
	void (*tell)(const struct record *r, struct told *t);
	enum replay_lane lane;
	unsigned depth;
} tells[] = {
    {"run.start", tell_run_start, LANE_LOG, 0},
    {"run.end", tell_run_end, LANE_LOG, 0},
    {"action", tell_action, LANE_ACTION, 2},
    {"outcome", tell_outcome, LANE_ACTION, 3},
    {"approval.request", tell_approval_request, LANE_APPROVAL, 2},
};

void
replay_tell(const struct record *r, struct told *t)
{
	buf_reset(&t->title);
	buf_reset(&t->before);
	buf_reset(&t->after);
	t->lane = LANE_LOG;
	t->tone = TONE_PLAIN;
	t->depth = 0;
	t->ref = STR_NONE;
	t->as = AS_TEXT;
	for (size_t i = 0; i < ARRAY_LEN(tells); i++) {
		if (!str_eqz(r->type, tells[i].type))
			continue;
		t->lane = tells[i].lane;
		t->depth = tells[i].depth;
		tells[i].tell(r, t);
		return;
	}
	if (!tell_claim(r, t) && !tell_line(r, t))
		tell_other(r, t);
}

bool
replay_around(const struct record *r)
{
	static const char *const types[] = {"log.open", "log.recovered", "log.full", "log.close",
	    "policy.load", "policy.unload", "policy.refused", "freeze.begin", "freeze.end",
	    "exception.begin", "exception.end", "breakglass.begin", "breakglass.end", "erasure"};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (r->run.n == 0 && str_eqz(r->type, types[i]))
			return true;
	return false;
}
