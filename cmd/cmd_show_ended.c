/*
 * A request that the broker has forgotten, since its run is over: what the log says of it, and how
 * it ended. Runs as whoever may read the log. Each line's hash is checked, signatures are not (`log
 * verify` does). What an agent or a person wrote reaches the terminal encoded.
 */
#include "cmd/cmd_show_ended.h"

#include <stdio.h>

#include "audit/canon.h"
#include "audit/reader.h"
#include "cmd/cmd_control.h"
#include "cmd/cmd_place.h"
#include "cmd/cmd_via.h"
#include "common/jcs.h"
#include "common/json.h"

#include "common/banned.h"

#define BODY_MAX ((size_t)1 << 20)
#define GRANTS_MAX 64

/* Bodies of its records; empty: there is none. */
struct ended {
	const char *id;
	struct buf request, end, outcome, run_end;
	size_t ngrants;
	struct buf grant[GRANTS_MAX];
};

static void
ended_init(struct ended *e, const char *id)
{
	*e = (struct ended){.id = id};
	buf_init(&e->request, BODY_MAX);
	buf_init(&e->end, BODY_MAX);
	buf_init(&e->outcome, BODY_MAX);
	buf_init(&e->run_end, BODY_MAX);
}

static void
ended_free(struct ended *e)
{
	buf_free(&e->request);
	buf_free(&e->end);
	buf_free(&e->outcome);
	buf_free(&e->run_end);
	for (size_t i = 0; i < e->ngrants; i++)
		buf_free(&e->grant[i]);
}

/* --- reading -------------------------------------------------------------------------------- */

static void
keep(struct buf *b, struct str body)
{
	buf_reset(b);
	buf_put_str(b, body);
}

static void
keep_grant(struct ended *e, struct str body)
{
	if (e->ngrants == GRANTS_MAX)
		return;
	buf_init(&e->grant[e->ngrants], BODY_MAX);
	buf_put_str(&e->grant[e->ngrants++], body);
}

static bool
is_of(const struct record *r, const char *key, struct str value)
{
	return value.n != 0 && str_eq(canon_plain(canon_get(r->data, key)), value);
}

static struct str
data_of(const struct buf *body, const char *key)
{
	return canon_plain(canon_get(canon_get(buf_str(body), "data"), key));
}

/* What ends a request stands behind it; one that was denied can become void by that. */
static void
take(struct ended *e, const struct record *r)
{
	struct str type = r->type;

	if (str_has_prefix(type, "approval.") && is_of(r, "id", str_z(e->id))) {
		if (str_eqz(type, "approval.request"))
			keep(&e->request, r->body);
		else if (str_eqz(type, "approval.grant"))
			keep_grant(e, r->body);
		else if (!str_eqz(type, "approval.rejected") && !str_eqz(type, "approval.mismatch"))
			keep(&e->end, r->body);
		return;
	}
	if (e->request.n == 0)
		return;
	if (str_eqz(type, "run.end") &&
	    str_eq(r->run, canon_plain(canon_get(buf_str(&e->request), "run"))))
		keep(&e->run_end, r->body);
	else if (str_eqz(type, "outcome") && e->end.n != 0 &&
		 is_of(r, "action", data_of(&e->end, "action")))
		keep(&e->outcome, r->body);
}

static int
read_log(const char *state, struct ended *e, struct err *err)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	AUTO(reader) struct reader *reader = NULL;
	struct reader_place at;
	struct record r;
	struct hash leaf;
	int n, rc = cmd_place_open(state, NULL, &place, err);

	if (rc == 0)
		rc = reader_open(place.logdir, &reader, err);
	if (rc != 0)
		return err_wrap(err, "it may stand in the log, which cannot be read here");
	while ((n = reader_next(reader, &r, &at, &leaf, err)) == 1)
		take(e, &r);
	if (n < 0)
		return err_wrap(err, "the log is not whole (run log verify)");
	return e->request.n != 0 ? 0
				 : err_set(err, ERR_NOT_FOUND,
				       "there is no request \"%s\", nor has the log one", e->id);
}

/* --- telling -------------------------------------------------------------------------------- */

/* "approval.consumed" is "consumed". One that nothing ended went with its run. */
static struct str
state_of(const struct ended *e)
{
	struct str type = canon_plain(canon_get(buf_str(&e->end), "type"));

	if (type.n == 0)
		return STR("pending");
	type.p += strlen("approval.");
	type.n -= strlen("approval.");
	return str_eqz(type, "deny") ? STR("denied") : type;
}

static void
put_raw(struct jcs *j, const char *key, struct str value)
{
	if (value.n != 0)
		jcs_raw(j, key, value);
}

/* Members of a record's data, in order of their names; "at" is when it was recorded. */
static void
put_members(struct jcs *j, const struct buf *body, const char *const *names, size_t n)
{
	struct str data = canon_get(buf_str(body), "data");

	for (size_t i = 0; i < n; i++)
		put_raw(j, names[i],
		    strcmp(names[i], "at") == 0 ? canon_get(buf_str(body), "time")
						: canon_get(data, names[i]));
}

static void
put_part(struct jcs *j, const char *key, const struct buf *body, const char *const *names, size_t n)
{
	if (body->n == 0)
		return;
	jcs_open(j, key);
	put_members(j, body, names, n);
	jcs_close(j);
}

/* As `show --json` names them; `ended` alone says that it comes from the log. */
static void
put_all(struct jcs *j, const struct ended *e)
{
	static const char *const
	    end[] = {"action", "at", "key", "note", "person", "reason", "role"},
	    *const outcome[] = {"at", "http_status", "preview", "rows", "sqlstate", "status",
		"tag"},
	    *const run[] = {"at", "status", "text"}, *const grant[] = {"at", "person", "role"};
	struct str data = canon_get(buf_str(&e->request), "data");

	jcs_open(j, NULL);
	put_raw(j, "action", canon_get(data, "action"));
	put_raw(j, "agent", canon_get(data, "agent"));
	put_raw(j, "asked", canon_get(buf_str(&e->request), "time"));
	put_raw(j, "effects", canon_get(data, "effects"));
	put_part(j, "ended", &e->end, end, ARRAY_LEN(end));
	jcs_array(j, "grants");
	for (size_t i = 0; i < e->ngrants; i++)
		put_part(j, NULL, &e->grant[i], grant, ARRAY_LEN(grant));
	jcs_array_end(j);
	put_raw(j, "id", canon_get(data, "id"));
	put_raw(j, "max_rows", canon_get(data, "max_rows"));
	put_part(j, "outcome", &e->outcome, outcome, ARRAY_LEN(outcome));
	put_raw(j, "owner", canon_get(data, "owner"));
	put_raw(j, "policy", canon_get(data, "policy"));
	put_raw(j, "preview", canon_get(data, "preview"));
	put_raw(j, "rule", canon_get(data, "rule"));
	put_raw(j, "run", canon_get(buf_str(&e->request), "run"));
	put_part(j, "run_end", &e->run_end, run, ARRAY_LEN(run));
	put_raw(j, "slots", canon_get(data, "slots"));
	jcs_str(j, "state", state_of(e));
	put_raw(j, "target", canon_get(data, "target"));
	jcs_close(j);
}

static void
line(const char *label, const struct json *o, const char *key)
{
	AUTO_FREE char *z =
	    json_type(json_get(o, key)) == JSON_ARRAY ? control_list(o, key) : control_text(o, key);

	if (z[0] != '\0')
		(void)printf("%-12s %s\n", label, z);
}

static void
print_end(const struct json *o)
{
	const struct json *end = json_get(o, "ended");
	AUTO_FREE char *at = control_text(end, "at"), *person = control_text(end, "person"),
		       *note = control_text(end, "note"), *reason = control_text(end, "reason");

	if (end == NULL)
		return;
	(void)printf("%-12s %s%s%s%s%s\n", "ended", at, person[0] != '\0' ? " by " : "", person,
	    note[0] != '\0' || reason[0] != '\0' ? ": " : "", note[0] != '\0' ? note : reason);
}

static void
print_outcome(const struct json *o)
{
	const struct json *out = json_get(o, "outcome"), *rows = json_get(out, "rows"),
			  *http = json_get(out, "http_status");
	AUTO_FREE char *status = control_text(out, "status"), *tag = control_text(out, "tag"),
		       *sqlstate = control_text(out, "sqlstate");

	if (out == NULL)
		return;
	(void)printf("%-12s %s", "outcome", status);
	if (tag[0] != '\0' || sqlstate[0] != '\0')
		(void)printf(" (%s)", tag[0] != '\0' ? tag : sqlstate);
	if (json_type(rows) == JSON_INT)
		(void)printf(", %lld rows", (long long)json_int(rows));
	if (http != NULL)
		(void)printf(", HTTP %lld", (long long)json_int(http));
	(void)printf("\n");
}

static void
print_grants(const struct json *o)
{
	const struct json *g = json_get(o, "grants");

	for (size_t i = 0; i < json_count(g); i++) {
		AUTO_FREE char *at = control_text(json_at(g, i), "at"),
			       *person = control_text(json_at(g, i), "person"),
			       *role = control_text(json_at(g, i), "role");

		(void)printf("%-12s %s as %s, %s\n", "signed by", person, role, at);
	}
}

static void
print_all(const struct json *o)
{
	const struct json *run = json_get(o, "run_end");
	AUTO_FREE char *id = control_text(o, "run"), *status = control_text(run, "status"),
		       *at = control_text(run, "at");

	line("request", o, "id");
	line("state", o, "state");
	line("target", o, "target");
	line("effects", o, "effects");
	line("rule", o, "rule");
	(void)printf("%-12s %s", "run", id);
	if (run != NULL)
		(void)printf(", which ended %s (%s)", at, status);
	(void)printf("\n");
	line("owner", o, "owner");
	line("agent", o, "agent");
	if (json_get(o, "max_rows") != NULL)
		(void)printf(
		    "%-12s %lld\n", "max rows", (long long)json_int(json_get(o, "max_rows")));
	line("preview", o, "preview");
	line("asked", o, "asked");
	line("of", o, "slots");
	print_grants(o);
	print_end(o);
	print_outcome(o);
	(void)printf("%-12s sealed; cofferdam replay timeline %s shows it\n", "action", id);
}

int
show_ended(const char *state, const char *id, bool json, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf b = BUF((size_t)4 << 20);
	struct ended e;
	struct jcs j;
	int rc;

	if (state != NULL && via_is(state))
		return err_set(err, ERR_NOT_FOUND,
		    "there is no request \"%s\" (of a run that is over only the log tells: ask on "
		    "the "
		    "broker's machine)",
		    id);
	ended_init(&e, id);
	rc = read_log(state, &e, err);
	if (rc == 0) {
		jcs_init(&j, &b);
		put_all(&j, &e);
		rc = json_parse(buf_str(&b), "the log", &doc, err);
	}
	ended_free(&e);
	if (rc != 0)
		return rc;
	if (json)
		(void)printf("%.*s\n", STR_ARG(buf_str(&b)));
	else
		print_all(json_root(doc));
	return 0;
}
