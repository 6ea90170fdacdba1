/*
 * Counting replies. Runs in upstream on every message type a server sends; trusts the
 * messages that were sent (they are ours), not the server.
 */
#include "broker/upstream_plan.h"

#include "common/banned.h"

/* What one client message makes the server owe; a Describe of a statement owes two. */
static const char *
owed_for(const struct pgwire_msg *m)
{
	switch (m->type) {
	case 'Q': return "Q";
	case 'F': return "F";
	case 'P': return "1";
	case 'B': return "2";
	case 'C': return "3";
	case 'D': return m->body.n != 0 && m->body.p[0] == 'S' ? "tD" : "D";
	case 'E': return "E";
	case 'S': return "Z";
	case 'H': return "";
	default: return NULL;
	}
}

int
upstream_plan_add(struct upstream_plan *p, struct str s, struct err *err)
{
	struct pgwire_msg m;

	while (s.n != 0) {
		int rc = pgwire_next(s, SIZE_MAX, &m, err);
		const char *owed;

		if (rc < 0)
			return rc;
		if (rc == 0)
			return err_set(err, ERR_PROTOCOL,
			    "messages to send end inside a message (%zu bytes left)", s.n);
		owed = owed_for(&m);
		if (owed == NULL)
			return err_set(err, ERR_PROTOCOL, "message type %u is never sent upstream",
			    (unsigned)(uint8_t)m.type);
		p->executes = p->executes || m.type == 'Q' || m.type == 'E' || m.type == 'F';
		for (; *owed != '\0'; owed++) {
			if (p->n == UPSTREAM_PLAN_MAX)
				return err_set(err, ERR_TOO_LARGE, "more than %d replies owed",
				    UPSTREAM_PLAN_MAX);
			p->owed[p->n++] = *owed;
		}
		s.p += m.whole.n;
		s.n -= m.whole.n;
	}
	return 0;
}

bool
upstream_plan_done(const struct upstream_plan *p)
{
	return p->at == p->n;
}

static enum upstream_step
pop(struct upstream_plan *p, enum upstream_step s)
{
	p->at++;
	return s;
}

/* In the extended protocol an error makes the server ignore all up to the next Sync. */
static enum upstream_step
failed(struct upstream_plan *p)
{
	char head = p->owed[p->at];

	p->failed = true;
	p->copying = p->filling = false;
	if (head == 'Q' || head == 'F' || head == 'Z')
		return UPSTREAM_STEP_TAIL; /* its ReadyForQuery follows */
	while (p->at < p->n && p->owed[p->at] != 'Z')
		p->at++;
	p->skip = p->at == p->n;
	return UPSTREAM_STEP_TAIL;
}

/* Rows and the ends of one statement, as Query and Execute both bring them. */
static enum upstream_step
statement(struct upstream_plan *p, char type, bool *ret_end)
{
	*ret_end = false;
	if (p->filling)
		return UPSTREAM_STEP_BAD;
	switch (type) {
	case 'D': return p->copying ? UPSTREAM_STEP_BAD : UPSTREAM_STEP_BODY;
	case 'H':
		if (p->copying)
			return UPSTREAM_STEP_BAD;
		p->copying = true;
		return UPSTREAM_STEP_BODY;
	case 'd': return p->copying ? UPSTREAM_STEP_BODY : UPSTREAM_STEP_BAD;
	case 'c':
		if (!p->copying)
			return UPSTREAM_STEP_BAD;
		p->copying = false;
		return UPSTREAM_STEP_BODY;
	case 'C':
	case 'I':
		if (p->copying)
			return UPSTREAM_STEP_BAD;
		*ret_end = true;
		return UPSTREAM_STEP_TAIL;
	case 'G':
		if (p->copying)
			return UPSTREAM_STEP_BAD;
		p->filling = true;
		return UPSTREAM_STEP_COPY_IN;
	default: return UPSTREAM_STEP_BAD; /* 'W', too: COPY both ways is replication's */
	}
}

static enum upstream_step
query(struct upstream_plan *p, char type)
{
	bool end;

	bool within = p->copying || p->filling;

	if (type == 'Z')
		return within ? UPSTREAM_STEP_BAD : pop(p, UPSTREAM_STEP_TAIL);
	if (type == 'T')
		return within ? UPSTREAM_STEP_BAD : UPSTREAM_STEP_BODY;
	return statement(p, type, &end);
}

static enum upstream_step
execute(struct upstream_plan *p, char type)
{
	enum upstream_step s;
	bool end;

	if (type == 's' && !p->copying && !p->filling)
		return pop(p, UPSTREAM_STEP_TAIL);
	s = statement(p, type, &end);
	return end ? pop(p, s) : s;
}

static enum upstream_step
call(struct upstream_plan *p, char type)
{
	if (type == 'V')
		return UPSTREAM_STEP_BODY;
	return type == 'Z' ? pop(p, UPSTREAM_STEP_TAIL) : UPSTREAM_STEP_BAD;
}

void
upstream_plan_filled(struct upstream_plan *p)
{
	p->filling = false;
}

enum upstream_step
upstream_plan_step(struct upstream_plan *p, char type)
{
	char head;

	if (upstream_plan_done(p))
		return UPSTREAM_STEP_BAD;
	if (type == 'E')
		return failed(p);
	head = p->owed[p->at];
	switch (head) {
	case 'Q': return query(p, type);
	case 'F': return call(p, type);
	case 'E': return execute(p, type);
	case 'Z': return type == 'Z' ? pop(p, UPSTREAM_STEP_TAIL) : UPSTREAM_STEP_BAD;
	case 'D':
		return type == 'T' || type == 'n' ? pop(p, UPSTREAM_STEP_BODY) : UPSTREAM_STEP_BAD;
	case '1':
	case '2':
	case '3':
	case 't': return type == head ? pop(p, UPSTREAM_STEP_BODY) : UPSTREAM_STEP_BAD;
	default: return UPSTREAM_STEP_BAD;
	}
}
