/*
 * Reading one exchange (process: core): is it of the shape its kind has, and which texts need
 * facts. The bytes come from front, which has checked them; front may lie, so they are checked.
 */
#include "broker/core_act.h"

#include <stdlib.h>

#include "common/pgwire.h"
#include "common/xalloc.h"

#include "common/banned.h"

const char *
core_act_kind_name(enum core_act_kind k)
{
	switch (k) {
	case CORE_ACT_QUERY: return "query";
	case CORE_ACT_SYNC: return "sync";
	case CORE_ACT_FLUSH: return "flush";
	case CORE_ACT_CUT: return "cut";
	}
	return "invalid";
}

/* Which types a kind may hold, and what ends it. */
int
core_act_shape(struct core_act *act, struct err *err)
{
	struct str s = buf_str(&act->msgs);
	size_t n = 0;
	char last = '\0';

	while (s.n != 0) {
		struct pgwire_msg m;
		int rc = pgwire_next(s, PGWIRE_MESSAGE_MAX, &m, err);
		bool simple, end;

		if (rc < 0)
			return rc;
		if (rc == 0)
			return err_set(err, ERR_PROTOCOL, "the exchange ends inside a message");
		rc = pgwire_check_frontend(&m, err);
		if (rc != 0)
			return rc;
		simple = m.type == 'Q' || m.type == 'F';
		end = m.type == 'S' || m.type == 'H';
		if (strchr("QFPBDECSH", m.type) == NULL ||
		    simple != (act->kind == CORE_ACT_QUERY) || (simple && n != 0) ||
		    (end && s.n != m.whole.n) || n >= CORE_ACT_MESSAGES)
			return err_set(err, ERR_PROTOCOL,
			    "message %zu of type %u does not fit an exchange of kind %s", n,
			    (unsigned)(uint8_t)m.type, core_act_kind_name(act->kind));
		act->nexec += simple || m.type == 'E';
		last = m.type;
		s = str_mem(s.p + m.whole.n, s.n - m.whole.n);
		n++;
	}
	if (n == 0 || (act->kind == CORE_ACT_SYNC) != (last == 'S') ||
	    (act->kind == CORE_ACT_FLUSH) != (last == 'H'))
		return err_set(err, ERR_PROTOCOL, "exchange of kind %s ends with message type %u",
		    core_act_kind_name(act->kind), (unsigned)(uint8_t)last);
	return 0;
}

static struct core_facts *
facts_for(struct core_conn *conn, struct str text)
{
	struct hash h = hash_sha256(text);
	struct core_facts **slot = &conn->facts[h.b[0] % CORE_FACTS_CACHE];
	AUTO_FREE char *why = NULL;

	if (*slot != NULL && hash_eq(&(*slot)->text, &h) && (*slot)->status != CORE_FACTS_LOST)
		return core_facts_ref(*slot);
	core_facts_unref(*slot);
	*slot = core_facts_new(&h);
	if (!str_is_utf8(text)) {
		core_facts_fail(*slot, CORE_FACTS_INVALID, "the statement is not valid UTF-8");
	} else if (text.n > FACTS_SQL_MAX) {
		why = xasprintf(
		    "statement too complex: it has %zu bytes, limit %zu", text.n, FACTS_SQL_MAX);
		core_facts_fail(*slot, CORE_FACTS_COMPLEX, why);
	}
	return core_facts_ref(*slot);
}

/* The texts of the act, each asked once. */
void
core_act_ask(struct core_act *act, core_facts_fn *settled)
{
	struct str s = buf_str(&act->msgs);
	struct pgwire_msg m;

	for (; pgwire_next(s, SIZE_MAX, &m, NULL) == 1;
	     s = str_mem(s.p + m.whole.n, s.n - m.whole.n)) {
		struct rd r = rd_init(m.body);
		struct core_facts *f;
		struct str text;
		bool asked = false;

		if (m.type != 'Q' && m.type != 'P')
			continue;
		if (m.type == 'P')
			(void)pgwire_rd_z(&r);
		text = pgwire_rd_z(&r);
		f = facts_for(act->conn, text);
		for (size_t i = 0; i < act->nfacts; i++)
			asked = asked || act->facts[i] == f;
		act->facts[act->nfacts] = f;
		if (f->status == CORE_FACTS_PENDING && !asked) {
			act->asks[act->nfacts] =
			    core_facts_ask(act->conn->from.run, f, text, settled, act);
			act->waiting++;
		}
		act->nfacts++;
	}
}
