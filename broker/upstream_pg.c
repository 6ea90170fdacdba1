/*
 * What a server sends once the session stands. Runs in upstream. Messages that carry rows are
 * passed on in pieces and never held whole; those that decide something (completion, error,
 * ReadyForQuery, parameters) are read whole, up to a bound, and checked against what is owed.
 */
#include "broker/upstream.h"

#include "broker/upstream_act.h"
#include "broker/upstream_copy.h"

#include "common/banned.h"

static uint32_t
length_at(const uint8_t *p)
{
	return (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
}

/* NoticeResponse, NotificationResponse, ParameterStatus: at any time, in whatever is going on. */
static int
asynchronous(struct upstream_conn *c, const struct pgwire_msg *m, struct err *err)
{
	if (m->type == 'S') {
		int rc = upstream_auth_parameter(c, m->body, err);

		if (rc != 0)
			return rc;
	}
	if (c->act != NULL)
		upstream_act_body(c, m->whole);
	else
		upstream_act_frame(c, 0, false, m->whole);
	return 0;
}

/* FATAL and PANIC end the session; the client hears it from front, when core has recorded it. */
static bool
is_fatal(struct upstream_conn *c, const struct pgwire_msg *m)
{
	struct pgwire_error e;
	AUTO_FREE char *state = NULL, *text = NULL;

	if (m->type != 'E' || pgwire_error_parse(m->body, &e, NULL) != 0)
		return false;
	if (c->act != NULL && !str_eqz(e.severity, "FATAL") && !str_eqz(e.severity, "PANIC"))
		return false;
	state = str_dup(e.sqlstate.n == 5 ? e.sqlstate : STR("08006"));
	text = str_dup(e.message);
	upstream_conn_end(c, state, text);
	return true;
}

/* A whole message. */
static int
message(struct upstream_conn *c, const struct pgwire_msg *m, struct err *err)
{
	int rc;

	if (c->state != UP_READY)
		return upstream_auth_message(c, m, err);
	if (m->type == 'N' || m->type == 'A' || m->type == 'S')
		return asynchronous(c, m, err);
	if (is_fatal(c, m))
		return 0;
	if (c->act == NULL)
		return err_set(err, ERR_PROTOCOL,
		    "the server sent message type %u and owes nothing", (unsigned)(uint8_t)m->type);
	switch (upstream_plan_step(&c->act->plan, m->type)) {
	case UPSTREAM_STEP_BODY: upstream_act_body(c, m->whole); break;
	case UPSTREAM_STEP_TAIL:
		rc = upstream_act_tail(c, m, err);
		if (rc != 0)
			return rc;
		break;
	case UPSTREAM_STEP_COPY_IN: return upstream_copy_open(c, m, err);
	case UPSTREAM_STEP_BAD:
		return err_set(err, ERR_PROTOCOL, "the server sent message type %u out of order",
		    (unsigned)(uint8_t)m->type);
	}
	return upstream_plan_done(&c->act->plan) ? upstream_act_next(c, err) : 0;
}

/* Types whose content nobody here looks at, however large they are. */
static bool
passes_through(const struct upstream_conn *c, char type)
{
	return c->state == UP_READY && c->act != NULL &&
	       (type == 'D' || type == 'd' || type == 'T' || type == 't' || type == 'V');
}

/* Begin of a message that is passed on in pieces: counted by its head. */
static int
stream_begin(struct upstream_conn *c, char type, size_t len, struct err *err)
{
	if (upstream_plan_step(&c->act->plan, type) != UPSTREAM_STEP_BODY)
		return err_set(err, ERR_PROTOCOL, "the server sent message type %u out of order",
		    (unsigned)(uint8_t)type);
	c->body_left = len;
	return 0;
}

static int
stream_more(struct upstream_conn *c, size_t have, struct err *err)
{
	size_t n = have < c->body_left ? have : c->body_left;

	upstream_act_body(c, str_mem(c->in.p + c->in_at, n));
	c->in_at += n;
	c->body_left -= n;
	if (c->body_left == 0 && c->act != NULL && upstream_plan_done(&c->act->plan))
		return upstream_act_next(c, err);
	return 0;
}

/* 1: something was handled; 0: more bytes are needed. */
static int
next(struct upstream_conn *c, struct err *err)
{
	size_t have = c->in.n - c->in_at;
	const uint8_t *p = c->in.p + c->in_at;
	struct pgwire_msg m;
	uint32_t len;
	int rc;

	if (c->body_left != 0 && have != 0) {
		rc = stream_more(c, have, err);
		return rc != 0 ? rc : 1;
	}
	if (have < 5)
		return 0;
	len = length_at(p);
	if (len >= 4 && len <= INT32_MAX && passes_through(c, (char)p[0])) {
		rc = stream_begin(c, (char)p[0], (size_t)len + 1, err);
		return rc != 0 ? rc : 1;
	}
	rc = pgwire_next(str_mem(p, have), UPSTREAM_MESSAGE_MAX, &m, err);
	if (rc <= 0)
		return rc < 0 ? err_wrap(err, "from the server") : 0;
	c->in_at += m.whole.n;
	rc = message(c, &m, err);
	return rc != 0 ? rc : 1;
}

int
upstream_pg_pump(struct upstream_conn *c, struct err *err)
{
	int rc = 1;

	while (rc == 1 && c->state != UP_DEAD && !c->paused && !c->throttled)
		rc = next(c, err);
	if (c->state == UP_DEAD)
		return 0;
	if (c->in_at == c->in.n) {
		buf_reset(&c->in);
		c->in_at = 0;
	} else if (c->in_at != 0 && rc != 1) {
		buf_drop(&c->in, c->in_at);
		c->in_at = 0;
	}
	return rc < 0 ? rc : 0;
}
