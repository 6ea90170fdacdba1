/*
 * Outcomes in doubt (process: core). What stands here comes from the log, by way of the writer at a
 * start and of our own outcomes later; who settles one is known by the login of the socket's peer.
 * Settling changes what people are told, never what may pass. Must never drop one that a person has
 * not settled on the record, but for the oldest when there are very many: the log has those still.
 */
#include "broker/core_doubt.h"

#include "broker/core_data.h"
#include "broker/core_peer.h"
#include "broker/core_record.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "policy/lift.h"

#include "common/banned.h"

#define DOUBTS_MAX 4096 /* as many as the writer tells of */
#define DOUBTS_TOLD 50

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
	if (note.n == 0 || note.n > LIFT_REASON_MAX || !str_is_ascii_print(note))
		return err_set(err, ERR_INVALID,
		    "a note has 1 to %d bytes of printable ASCII, is %zu: say how you know",
		    LIFT_REASON_MAX, note.n);
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
