/*
 * Actions of a run for `replay rerun`: what must be the same the second time, and of the first time
 * the file of answers (common/rerun.h). Runs in the command line as the reviewer. A refusal is made
 * again from its record, with the words that its client had.
 */
#include "cmd/cmd_rerun.h"

#include <stdio.h>

#include "audit/canon.h"
#include "audit/replay_blobs.h"
#include "common/http.h"
#include "common/json.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define TEXT_MAX 120

/* An entry that is not written yet: its outcome may still come. */
struct rerun_wait {
	struct rerun_wait *next;
	enum rerun_kind kind;
	uint64_t group;
	size_t event; /* of its last allowed action */
	char *action; /* whose outcome has the answer; "" when it was refused */
	char *host;
	uint32_t port;
	enum rerun_how how;
	char *sent; /* 64 hex digits, or "" */
	struct buf match, fields, answer;
	bool ok;
	uint64_t rows;
	char *tag, *sqlstate, *message, *detail, *hint;
	uint32_t status, nfields;
};

static struct str
member(const struct json *o, const char *key)
{
	return json_str(json_get(o, key));
}

/* @escape of docs/format-policy.md. */
bool
rerun_is_escape(struct str effect)
{
	static const char *const names[] = {
	    "audit", "exec", "invalid", "net", "opaque", "priv", "secret", "session"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eqz(effect, names[i]))
			return true;
	return false;
}

/* Only an exception or a breakglass lets one pass, and there is none the second time. */
static void
escape_check(struct rerun_run *r, const struct rerun_event *e, const struct json *effects)
{
	for (size_t i = 0; e->then == RERUN_ALLOWED && r->why.code == 0 && i < json_count(effects);
	     i++)
		if (rerun_is_escape(json_str(json_at(effects, i))))
			(void)err_set(&r->why, ERR_UNSUPPORTED,
			    "record %llu was allowed by an exception, which is not made again",
			    (unsigned long long)e->seq);
}

/* --- what must be the same ------------------------------------------------------- */

static void
words_put(struct buf *b, const struct json *o, const char *const *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i != 0)
			buf_put_c(b, ' ');
		buf_put_str(b, member(o, keys[i]));
	}
}

static char *
request_key(const struct json *rq)
{
	static const char *const of_rq[] = {"target", "operation", "text_sha256"};
	static const char *const of_http[] = {"scheme", "authority", "path", "query_sha256"};
	AUTO_BUF struct buf b = BUF(65536);

	words_put(&b, rq, of_rq, ARRAY_LEN(of_rq));
	buf_put_c(&b, ' ');
	words_put(&b, json_get(rq, "http"), of_http, ARRAY_LEN(of_http));
	return buf_dup_z(&b);
}

/* A line for people. */
static char *
request_text(struct rerun_run *r, const struct record *rec, const struct json *rq, struct buf *head)
{
	struct str ref = canon_get(canon_get(rec->data, "request"), "head");
	static const char *const of_rq[] = {"target", "operation"};
	static const char *const of_http[] = {"authority", "path"};
	const struct json *http = json_get(rq, "http");
	AUTO_BUF struct buf b = BUF(65536);
	struct err err = {0};

	if (http == NULL && (ref.n == 0 || replay_blobs_read(r->blobs, ref, head, &err) != 0))
		buf_reset(head);
	words_put(&b, rq, of_rq, http == NULL && head->n != 0 ? 1 : 2);
	buf_put_c(&b, ' ');
	words_put(&b, http, of_http, http != NULL ? 2 : 0);
	buf_put(&b, head->p, head->n < TEXT_MAX ? head->n : TEXT_MAX);
	return buf_dup_z(&b);
}

static struct rerun_event *
event_take(struct rerun_run *r, const struct record *rec, const struct json *d, struct buf *head)
{
	const struct json *rq = json_get(d, "request"), *http = json_get(rq, "http");
	struct str effects = canon_get(canon_get(rec->data, "request"), "effects");
	struct rerun_event *e;

	r->v = xreallocarray(r->v, r->n + 1, sizeof(*r->v));
	e = &r->v[r->n++];
	*e = (struct rerun_event){.what = RERUN_ACTION, .seq = rec->seq, .content = BUF(16)};
	e->then = str_eqz(member(json_get(d, "decision"), "verdict"), "allow") ? RERUN_ALLOWED
									       : RERUN_DENIED;
	e->action = str_dup(member(d, "action"));
	e->request = request_key(rq);
	e->text = request_text(r, rec, rq, head);
	e->effects = str_dup(effects);
	if (member(http, "body_sha256").n != 0)
		e->body = str_dup(member(http, "body_sha256"));
	/* Those of one exchange are recorded by one write; another exchange waits for them. */
	if (http == NULL)
		e->group =
		    rec->batch * 65536 + (uint64_t)json_int(json_get(rq, "conn")) % 65536 + 1;
	return e;
}

/* --- refusals -------------------------------------------------------------------- */

static const char *
problem_title(const struct json *d, struct str effects)
{
	if (str_eqz(member(d, "verdict"), "needs_approval"))
		return "needs_approval";
	return memmem(effects.p, effects.n, "\"invalid\"", 9) != NULL ? "invalid_request"
								      : "denied";
}

/* problem+json, as its client had it (broker/core_http_answer.c). */
static void
problem_put(struct rerun_wait *w, const struct record *rec, const struct json *o)
{
	const struct json *d = json_get(o, "decision"),
			  *http = json_get(json_get(o, "request"), "http");
	struct str effects = canon_get(canon_get(rec->data, "request"), "effects");
	struct str rules = canon_get(canon_get(rec->data, "decision"), "rules");
	AUTO_FREE char *title = member(http, "title").n != 0 ? str_dup(member(http, "title"))
							     : xstrdup(problem_title(d, effects));
	AUTO_FREE char *type = xasprintf("urn:cofferdam:problem:%s", title);
	int64_t status = json_int(json_get(http, "status"));
	struct jcs j;

	w->status = status >= 400 && status < 600	    ? (uint32_t)status
		    : strcmp(title, "invalid_request") == 0 ? 400
							    : 403;
	jcs_init(&j, &w->answer);
	jcs_open(&j, NULL);
	jcs_str(&j, "action", member(o, "action"));
	if (json_get(d, "calendar") != NULL)
		jcs_str(&j, "calendar", member(d, "calendar"));
	jcs_str(&j, "detail", member(d, "reason"));
	jcs_raw(&j, "effects", effects);
	if (json_get(d, "how") != NULL)
		jcs_str(&j, "how", member(d, "how"));
	if (json_get(d, "approval") != NULL)
		jcs_str(&j, "request", member(d, "approval"));
	jcs_raw(&j, "rules", rules);
	jcs_int(&j, "status", w->status);
	jcs_z(&j, "title", title);
	jcs_z(&j, "type", type);
	if (json_get(d, "until") != NULL) {
		/* To the second, as clients are told it. */
		AUTO_FREE char *until =
		    xasprintf("%.*sZ", (int)(member(d, "until").n < 19 ? member(d, "until").n : 19),
			member(d, "until").p);

		jcs_z(&j, "until", until);
	}
	jcs_str(&j, "verdict", member(d, "verdict"));
	jcs_close(&j);
	buf_lz(&w->fields, "Content-Type");
	buf_lz(&w->fields, "application/problem+json");
	buf_lz(&w->fields, "Cache-Control");
	buf_lz(&w->fields, "no-store");
	w->nfields = 2;
}

/* --- entries --------------------------------------------------------------------- */

static char *
host_of(const struct rerun_run *r, const struct json *rq, uint32_t *ret_port)
{
	const struct json *list = json_get(json_root(r->start), "targets");
	const struct json *http = json_get(rq, "http");
	struct str host = STR_NONE, authority = member(http, "authority");

	for (size_t i = 0; r->start != NULL && i < json_count(list); i++) {
		const struct json *t = json_at(list, i);

		if (!str_eq(member(t, "target"), member(rq, "target")))
			continue;
		host = member(t, "host");
		*ret_port = (uint32_t)json_int(json_get(t, "port"));
	}
	/* Of a wildcard the name that was asked for. */
	if (http != NULL && str_has_prefix(host, "*.") && !str_cut(&authority, ':', &host))
		host = authority;
	return str_dup(host);
}

static void
wait_free(struct rerun_wait *w)
{
	free(w->action);
	free(w->host);
	free(w->sent);
	free(w->tag);
	free(w->sqlstate);
	free(w->message);
	free(w->detail);
	free(w->hint);
	buf_free(&w->match);
	buf_free(&w->fields);
	buf_free(&w->answer);
	free(w);
}

static struct rerun_wait *
wait_new(struct rerun_run *r, enum rerun_kind kind, uint64_t group, const struct json *rq)
{
	struct rerun_wait *w = xcalloc(1, sizeof(*w)), **at = &r->waits;

	while (*at != NULL)
		at = &(*at)->next;
	*at = w;
	w->kind = kind;
	w->group = group;
	w->action = xstrdup("");
	w->sent = xstrdup("");
	w->host = host_of(r, rq, &w->port);
	w->how = RERUN_MISSING;
	w->match = BUF(BLOB_PLAIN_MAX);
	w->fields = BUF(4096);
	w->answer = BUF(BLOB_PLAIN_MAX);
	return w;
}

static void
text_set(char **to, struct str s)
{
	free(*to);
	*to = str_dup(s);
}

/* Refused alone it was answered by the broker; behind others, by what was sent in its place. */
static void
refused(
    struct rerun_wait *w, const struct record *rec, const struct json *o, const struct buf *head)
{
	const struct json *d = json_get(o, "decision"),
			  *http = json_get(json_get(o, "request"), "http");

	text_set(&w->sent, STR(""));
	buf_reset(&w->match);
	if (http != NULL) {
		buf_put_str(&w->match, member(json_get(o, "request"), "operation"));
		buf_put_c(&w->match, ' ');
		buf_put_str(&w->match, member(http, "path"));
	} else {
		buf_put_str(&w->match, buf_str(head));
	}
	if (w->action[0] != '\0')
		return;
	w->how = RERUN_REFUSED;
	text_set(&w->sqlstate, member(d, "sqlstate").n != 0 ? member(d, "sqlstate") : STR("42501"));
	text_set(&w->message, member(d, "reason"));
	text_set(&w->detail, member(d, "detail"));
	text_set(&w->hint, member(d, "how"));
	if (http != NULL)
		problem_put(w, rec, o);
}

void
rerun_answers_action(struct rerun_run *r, const struct record *rec, const struct json *d)
{
	AUTO_BUF struct buf head = BUF(BLOB_PLAIN_MAX);
	const struct json *rq = json_get(d, "request");
	enum rerun_kind kind = json_get(rq, "http") != NULL		     ? RERUN_HTTP
			       : str_eqz(member(rq, "operation"), "connect") ? RERUN_CONNECT
									     : RERUN_PG;
	struct rerun_event *e;
	struct rerun_wait *w = r->waits;

	/* Traffic with models is the script's; a cancel is answered by nothing. */
	if (str_eqz(member(json_get(rq, "http"), "via"), "loop") ||
	    str_eqz(member(rq, "kind"), "cancel"))
		return;
	e = event_take(r, rec, d, &head);
	if (!r->first)
		return;
	escape_check(r, e, json_get(rq, "effects"));
	while (w != NULL && (w->kind != RERUN_PG || kind != RERUN_PG || w->group != e->group))
		w = w->next;
	if (w == NULL)
		w = wait_new(r, kind, e->group, rq);
	if (e->then == RERUN_DENIED) {
		refused(w, rec, d, &head);
		return;
	}
	text_set(&w->action, member(d, "action"));
	if (w->sent[0] == '\0')
		text_set(&w->sent, member(rq, "sent"));
	w->event = r->n - 1;
	e->missing = true; /* until its outcome has the answer */
}

static bool
answer_read(struct rerun_run *r, const struct record *rec, const struct json *d, struct buf *out)
{
	struct str media = member(json_get(d, "answer"), "media");
	struct err err = {0};

	if (json_int(json_get(d, "answer_bytes")) == 0)
		return true;
	return json_get(d, "answer") != NULL && !str_has_suffix(media, ";cut") &&
	       replay_blobs_read(r->blobs, canon_get(rec->data, "answer"), out, &err) == 0;
}

static void
outcome_take(
    struct rerun_run *r, struct rerun_wait *w, const struct record *rec, const struct json *d)
{
	static const char *const answered[] = {"ok", "error", "row_limit", "refused"};
	struct str status = member(d, "status"), media = member(json_get(d, "answer"), "media");
	bool whole = false;

	for (size_t i = 0; i < ARRAY_LEN(answered); i++)
		whole |= str_eqz(status, answered[i]);
	w->ok = str_eqz(status, "ok");
	text_set(&w->tag, member(d, "tag"));
	text_set(&w->sqlstate, member(d, "sqlstate"));
	w->rows = (uint64_t)json_int(json_get(d, "rows"));
	w->status = (uint32_t)json_int(json_get(d, "http_status"));
	if (!whole || json_get(d, "copy") != NULL ||
	    (w->kind != RERUN_CONNECT && !answer_read(r, rec, d, &w->answer)))
		return;
	if (media.n != 0 && w->kind == RERUN_HTTP) {
		buf_lz(&w->fields, "Content-Type");
		buf_lstr(&w->fields, media);
		w->nfields = 1;
	}
	w->how = RERUN_ANSWERED;
	r->v[w->event].missing = false;
}

void
rerun_answers_outcome(struct rerun_run *r, const struct record *rec, const struct json *d)
{
	struct str id = member(d, "action"), sha = member(d, "body_sha256");

	for (size_t i = r->n; i > 0 && sha.n != 0; i--) {
		struct rerun_event *e = &r->v[i - 1];

		if (e->action != NULL && str_eqz(id, e->action))
			text_set(&e->body, sha);
	}
	for (struct rerun_wait *w = r->waits; w != NULL; w = w->next)
		if (str_eqz(id, w->action))
			outcome_take(r, w, rec, d);
}

static void
entry_put(struct buf *out, const struct rerun_wait *w)
{
	AUTO_BUF struct buf b = BUF(BLOB_PLAIN_MAX + ((size_t)1 << 22));
	struct hash sent = {0};
	bool known = w->sent[0] != '\0' && hash_from_hex(str_z(w->sent), &sent);

	buf_u8(&b, (uint8_t)w->kind);
	buf_lz(&b, w->host);
	buf_u32(&b, w->port);
	buf_u8(&b, (uint8_t)w->how);
	buf_u8(&b, known ? 1 : 0);
	buf_put(&b, sent.b, HASH_LEN);
	buf_lstr(&b, buf_str(&w->match));
	buf_u8(&b, w->ok ? 1 : 0);
	buf_u64(&b, w->rows);
	buf_lz(&b, w->tag != NULL ? w->tag : "");
	buf_lz(&b, w->sqlstate != NULL ? w->sqlstate : "");
	buf_lz(&b, w->message != NULL ? w->message : "");
	buf_lz(&b, w->detail != NULL ? w->detail : "");
	buf_lz(&b, w->hint != NULL ? w->hint : "");
	buf_u16(&b, (uint16_t)w->status);
	buf_u32(&b, w->nfields);
	buf_lstr(&b, buf_str(&w->fields));
	buf_lstr(&b, buf_str(&w->answer));
	buf_lstr(out, buf_str(&b));
}

void
rerun_answers_end(struct rerun_run *r)
{
	struct rerun_wait *w;

	while ((w = r->waits) != NULL) {
		r->waits = w->next;
		entry_put(&r->answers, w);
		wait_free(w);
	}
}
