/*
 * Outcomes in doubt (process: core). What stands here comes from the log, by way of the writer at a
 * start and of our own outcomes later; who settles one is known by the login of the socket's peer.
 * Settling changes what people are told, never what may pass. Must never drop one that a person has
 * not settled on the record, but for the oldest when there are very many: the log has those still.
 */
#include "broker/core_doubt.h"

#include <inttypes.h>

#include "broker/core_act.h"
#include "broker/core_data.h"
#include "broker/core_http.h"
#include "broker/core_peer.h"
#include "broker/core_pg.h"
#include "broker/core_record.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "policy/lift.h"

#include "common/banned.h"

#define DOUBTS_MAX 4096 /* as many as the writer tells of */
#define DOUBTS_TOLD 50
#define ACTIONS_MAX ((size_t)1 << 24) /* bytes of ids and runs */

struct doubt {
	char action[CORE_ID_SIZE], run[CORE_ID_SIZE];
	char time[CLOCK_TEXT_SIZE];
	uint64_t seq;
	bool lost;
	bool settling; /* its record is on the way */
};

struct core_doubts {
	size_t n;
	struct doubt d[DOUBTS_MAX];
};

struct settle {
	struct core *core;
	uint64_t peer;
	char action[CORE_ID_SIZE];
	char *by;
	bool done;
};

void
core_doubt_reset(struct core *c)
{
	buf_reset(&c->doubt);
	buf_reset(&c->doubt_more);
	free(TAKE_PTR(c->doubts));
}

static struct doubt *
doubt_find(const struct core *c, struct str action)
{
	for (size_t i = 0; c->doubts != NULL && i < c->doubts->n; i++)
		if (str_eqz(action, c->doubts->d[i].action))
			return &c->doubts->d[i];
	return NULL;
}

static void
doubt_drop(struct core *c, const struct doubt *d)
{
	struct core_doubts *l = c->doubts;
	size_t at = (size_t)(d - l->d);

	l->n--;
	memmove(&l->d[at], &l->d[at + 1], (l->n - at) * sizeof(*d));
}

static void
copy(char *to, size_t size, struct str s)
{
	size_t n = s.n < size ? s.n : size - 1;

	if (n != 0)
		memcpy(to, s.p, n);
	to[n] = '\0';
}

void
core_doubt_outcome(struct core *c, struct str run, struct str time, uint64_t seq, struct str action,
    struct str status)
{
	bool lost = str_eqz(status, "lost");
	struct doubt *d;

	if ((!lost && !str_eqz(status, "unknown")) || doubt_find(c, action) != NULL)
		return;
	if (c->doubts == NULL)
		c->doubts = xcalloc(1, sizeof(*c->doubts));
	if (c->doubts->n == DOUBTS_MAX)
		doubt_drop(c, &c->doubts->d[0]);
	d = &c->doubts->d[c->doubts->n++];
	*d = (struct doubt){.seq = seq, .lost = lost};
	copy(d->action, sizeof(d->action), action);
	copy(d->run, sizeof(d->run), run);
	copy(d->time, sizeof(d->time), time);
}

/* --- sent, and no outcome ------------------------------------------------------------ */

/* Effects that this process has no name for are not known to read. */
static bool
action_reads(const struct json *request)
{
	const struct json *txn = json_get(request, "txn_effects");
	uint32_t effects, before = 0;

	return effect_from_json(json_get(request, "effects"), &effects) &&
	       (txn == NULL || effect_from_json(txn, &before)) &&
	       core_effects_read(effects, before);
}

int
core_doubt_action(
    struct core *c, struct str run, uint64_t seq, const struct json *data, struct err *err)
{
	char id[CORE_ID_SIZE] = "", of[CORE_ID_SIZE] = "";
	struct str a = json_str(json_get(data, "action"));

	if (a.n == 0 || a.n >= CORE_ID_SIZE || run.n >= CORE_ID_SIZE)
		return err_set(err, ERR_TAMPER,
		    "live record %" PRIu64 ": action is missing or malformed", seq);
	memcpy(id, a.p, a.n);
	if (run.n != 0)
		memcpy(of, run.p, run.n);
	buf_put(&c->doubt, id, sizeof(id));
	buf_put(&c->doubt_more, of, sizeof(of));
	buf_u64(&c->doubt_more, seq);
	buf_u8(&c->doubt_more, action_reads(json_get(data, "request")));
	if (c->doubt_more.n > ACTIONS_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "over %zu bytes of actions without outcome", ACTIONS_MAX);
	return 0;
}

static bool
in_flight(const struct core *c, const char *id)
{
	struct core_conn *conn;

	if (core_http_in_flight(c, id))
		return true;
	for (size_t b = 0; b < CORE_CONN_BUCKETS; b++)
		LIST_FOREACH (conn, &c->conns[b], link) {
			if (conn->open != NULL && conn->state == CORE_CONN_OPENING &&
			    strcmp(conn->open->id, id) == 0)
				return true;
			for (size_t i = 0; conn->act != NULL && i < conn->act->nactions; i++)
				if (strcmp(conn->act->actions[i]->id, id) == 0 &&
				    conn->act->phase == CORE_PHASE_SENT)
					return true;
		}
	return false;
}

bool
core_doubt_lists(const struct buf *list, const char *id)
{
	for (size_t i = 0; i + CORE_ID_SIZE <= list->n; i += CORE_ID_SIZE)
		if (strncmp((const char *)list->p + i, id, CORE_ID_SIZE) == 0)
			return true;
	return false;
}

void
core_doubt_settle(struct core *c)
{
	struct rd more = rd_init(buf_str(&c->doubt_more));

	for (size_t i = 0; i + CORE_ID_SIZE <= c->doubt.n; i += CORE_ID_SIZE) {
		const char *id = (const char *)c->doubt.p + i;
		struct str run = rd_bytes(&more, CORE_ID_SIZE);
		uint64_t seq = rd_u64(&more);
		bool reads = rd_u8(&more) != 0;

		if (in_flight(c, id) || core_record_keeps(c, id))
			continue;
		if (core_doubt_lists(&c->not_sent, id))
			core_record_not_sent(c, run.p[0] != '\0' ? run.p : NULL, id, seq);
		else
			core_record_doubt(
			    c, run.p[0] != '\0' ? run.p : NULL, id, seq, reads, "unknown");
	}
	core_record_settle(c);
	buf_reset(&c->not_sent);
	buf_reset(&c->doubt);
	buf_reset(&c->doubt_more);
}

/* --- settling ------------------------------------------------------------------------ */

static void
on_recorded(void *arg, const struct core_ack *ack)
{
	struct settle *s = arg;
	struct doubt *d = doubt_find(s->core, str_z(s->action));
	AUTO_BUF struct buf b = BUF(1024);
	struct jcs j;

	if (ack->code != 0) {
		if (d != NULL)
			d->settling = false;
		core_control_reply(s->core, s->peer, ack->code,
		    STR("the log has not taken it in time; look again before you repeat it"));
	} else {
		if (d != NULL)
			doubt_drop(s->core, d);
		jcs_init(&j, &b);
		jcs_open(&j, NULL);
		jcs_z(&j, "action", s->action);
		jcs_z(&j, "by", s->by);
		jcs_int(&j, "seq", (int64_t)ack->seq);
		jcs_z(&j, "status", s->done ? "done" : "not_done");
		jcs_close(&j);
		core_control_reply(s->core, s->peer, 0, buf_str(&b));
	}
	free(s->by);
	free(s);
}

static void
put_data(struct buf *out, const struct settle *s, const struct doubt *d, struct str note)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "action", d->action);
	jcs_z(&j, "by", s->by);
	jcs_str(&j, "note", note);
	jcs_int(&j, "outcome_seq", (int64_t)d->seq);
	jcs_z(&j, "status", s->done ? "done" : "not_done");
	jcs_close(&j);
}

static int
check(const struct core_call *call, struct doubt **ret, struct err *err)
{
	struct str action = json_str(json_get(call->args, "action"));
	struct str note = json_str(json_get(call->args, "note"));
	struct str status = json_str(json_get(call->args, "status"));
	struct doubt *d = doubt_find(call->core, action);

	if (!str_eqz(status, "done") && !str_eqz(status, "not_done"))
		return err_set(err, ERR_INVALID, "status must be done or not_done");
	if (str_text_check("a note", note, 1, LIFT_REASON_MAX, err) != 0)
		return err->code;
	if (d == NULL)
		return err_set(err, ERR_NOT_FOUND,
		    "no outcome in doubt is of action \"%.*s\": it has one, or is not among the "
		    "newest %d",
		    STR_ARG(action), DOUBTS_MAX);
	if (d->settling)
		return err_set(err, ERR_STATE, "action %s is being settled already", d->action);
	*ret = d;
	return 0;
}

int
core_doubt_verb(struct core_call *call, struct err *err)
{
	const struct core_peer *p = core_peer_by_serial(call->core, call->peer);
	const char *login = p != NULL ? core_peer_login(p) : NULL;
	AUTO_BUF struct buf b = BUF(4096);
	struct doubt *d = NULL;
	struct settle *s;
	int rc = check(call, &d, err);

	if (rc != 0)
		return rc;
	s = xcalloc(1, sizeof(*s));
	s->core = call->core;
	s->peer = call->peer;
	s->done = str_eqz(json_str(json_get(call->args, "status")), "done");
	s->by = login != NULL ? xstrdup(login) : xasprintf("uid %u", p != NULL ? p->uid : 0);
	memcpy(s->action, d->action, sizeof(s->action));
	put_data(&b, s, d, json_str(json_get(call->args, "note")));
	d->settling = true;
	if (core_record(call->core, &(struct core_append){.type = "outcome.settled",
					.src = "human",
					.run = d->run[0] != '\0' ? d->run : NULL,
					.data = &b,
					.fn = on_recorded,
					.arg = s}) != NULL)
		return CORE_CALL_LATER;
	d->settling = false;
	free(s->by);
	free(s);
	return err_set(err, ERR_UNAVAILABLE, "the log cannot take it now, try again");
}

void
core_doubt_status(struct jcs *j, const struct core *c)
{
	size_t n = c->doubts != NULL ? c->doubts->n : 0;

	jcs_int(j, "doubt_count", (int64_t)n);
	jcs_array(j, "doubts");
	for (size_t i = n > DOUBTS_TOLD ? n - DOUBTS_TOLD : 0; i < n; i++) {
		const struct doubt *d = &c->doubts->d[i];

		jcs_open(j, NULL);
		jcs_z(j, "action", d->action);
		jcs_z(j, "run", d->run);
		jcs_int(j, "seq", (int64_t)d->seq);
		jcs_z(j, "status", d->lost ? "lost" : "unknown");
		jcs_z(j, "time", d->time);
		jcs_close(j);
	}
	jcs_array_end(j);
}
