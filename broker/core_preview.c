/*
 * Previews (process: core). The statements are the broker's own, of a closed list: BEGIN READ ONLY,
 * a timeout, EXPLAIN of the statement, a count that the parser process built from its tree. They
 * are recorded before they go out, on the run's own session and so as its database user, and
 * undone. What the server says is shown to people and signed by them, and decides nothing.
 */
#include "broker/core_preview.h"

#include <inttypes.h>
#include <stdlib.h>

#include "broker/core_approve.h"
#include "common/log.h"
#include "common/pgwire.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define MESSAGES_MAX ((size_t)250000)
#define TIMEOUT "2000" /* milliseconds, for each of the two */
#define COUNT_MAX 10000

struct core_preview {
	struct core_act *act;
	struct core_facts *facts; /* of the count; NULL: only the plan is asked for */
	struct core_ask *ask;
	struct core_ticket *ticket;
	struct buf msgs;
	struct hash sent;
	bool counts, sending;
	unsigned names;
};

void
core_preview_free(struct core_preview *p)
{
	if (p == NULL)
		return;
	core_facts_forget(p->ask);
	core_facts_unref(p->facts);
	core_record_forget(p->ticket);
	buf_free(&p->msgs);
	free(p);
}

/* --- the end ----------------------------------------------------------------------- */

static const struct core_action *
asked(const struct core_preview *p)
{
	return p->act->actions[p->act->nactions - 1];
}

static void
end(struct core_preview *p, struct str says)
{
	struct core_act *act = p->act;
	struct core_request *rq = asked(p)->request;

	if (core_request_open(rq)) {
		free(rq->preview);
		rq->preview = str_dup(says);
	}
	act->preview = NULL;
	core_preview_free(p);
	core_act_previewed(act);
}

/* --- what is sent ------------------------------------------------------------------- */

static void
own(struct core_preview *p, struct str sql, struct str types, struct str values)
{
	AUTO_FREE char *name = xasprintf("cofferdam_preview_%s_%u", asked(p)->id, ++p->names);

	pgwire_put_own_bound(&p->msgs, str_z(name), sql, types, values);
}

/* A Bind behind its names: formats and values, without the formats of the result. */
static struct str
values_of(struct str params)
{
	struct rd r = rd_init(params);

	if (params.n == 0)
		return STR("\0\0\0\0");
	(void)rd_bytes(&r, (size_t)2 * rd_u16(&r));
	for (uint16_t n = rd_u16(&r); n != 0 && !r.bad; n--) {
		uint32_t len = rd_u32(&r);

		if (len != UINT32_MAX)
			(void)rd_bytes(&r, len);
	}
	return str_mem(params.p, params.n - r.n);
}

static struct str
count_query(const struct core_preview *p)
{
	return json_str(json_get(json_root(p->facts->doc), "count"));
}

static void
messages(struct core_preview *p)
{
	const struct core_action *a = asked(p);
	struct str none = STR("\0\0\0\0"), values = values_of(a->params);
	struct str types =
	    a->stmt != NULL ? str_mem(a->stmt->types, a->stmt->ntypes_bytes) : STR("");
	AUTO_BUF struct buf sql = BUF(MESSAGES_MAX);

	own(p, STR("BEGIN READ ONLY"), STR(""), none);
	own(p, STR("SET LOCAL statement_timeout = " TIMEOUT), STR(""), none);
	buf_put_z(&sql, "EXPLAIN (FORMAT JSON) ");
	buf_put_str(&sql, a->text);
	own(p, buf_str(&sql), types, values);
	if (p->counts) {
		struct str query = count_query(p);

		buf_reset(&sql);
		buf_printf(&sql, "SELECT count(*) FROM (%.*s LIMIT %d) AS counted", STR_ARG(query),
		    COUNT_MAX + 1);
		own(p, buf_str(&sql), types, values);
	}
	pgwire_put_sync(&p->msgs);
}

static void
send(struct core_preview *p)
{
	const struct core_conn *conn = p->act->conn;
	AUTO_BUF struct buf b = BUF(MESSAGES_MAX + 64);

	p->sending = true;
	buf_u64(&b, conn->from.id);
	buf_u64(&b, p->act->id);
	buf_lstr(&b, buf_str(&p->msgs));
	core_send(conn->from.run->core->upstream, MSG_U_PREVIEW, &b);
}

static void
recorded(void *arg, const struct core_ack *ack)
{
	struct core_preview *p = arg;

	p->ticket = NULL;
	if (ack->code != 0 || p->act->conn->from.run->core->upstream == NULL)
		end(p, STR("failed=not-asked"));
	else
		send(p);
}

static void
record(struct core_preview *p)
{
	const struct core_run *run = p->act->conn->from.run;
	AUTO_BUF struct buf b = BUF(1024);
	struct jcs j;

	messages(p);
	if (buf_over(&p->msgs)) {
		end(p, STR("failed=too-large"));
		return;
	}
	p->sent = hash_sha256(buf_str(&p->msgs));
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_z(&j, "action", asked(p)->id);
	jcs_bool(&j, "count", p->counts);
	jcs_z(&j, "id", asked(p)->request->id);
	jcs_z(&j, "origin", "broker");
	jcs_hex(&j, "sent", p->sent.b, HASH_LEN);
	jcs_z(&j, "target", p->act->conn->from.target->id);
	jcs_close(&j);
	p->ticket = core_record(run->core,
	    &(struct core_append){
		.type = "preview", .run = run->id, .data = &b, .fn = recorded, .arg = p});
	if (p->ticket == NULL)
		end(p, STR("failed=not-asked"));
}

/* --- the query that counts -------------------------------------------------------------- */

static void
facts_settled(void *arg)
{
	struct core_preview *p = arg;

	p->ask = NULL;
	p->counts = p->facts->status == CORE_FACTS_OK && count_query(p).n != 0;
	record(p);
}

/* A plain change that goes alone in an idle session; nothing else has a plan to speak of. */
static bool
can_ask(const struct core_act *act, const struct core_action *a)
{
	const struct core_conn *conn = act->conn;

	return act->nactions == 1 && a->request_new && conn->txn.state == 'I' && !conn->pipeline &&
	       !conn->skipping && a->facts != NULL && a->facts->view.dml == 1 &&
	       a->statements == 1 && !a->hidden_dml && !a->facts->view.copy_in &&
	       a->inner == NULL && (a->op == CORE_OP_QUERY || a->op == CORE_OP_EXECUTE);
}

bool
core_preview_begin(struct core_act *act)
{
	const struct core_action *a = act->nactions != 0 ? act->actions[act->nactions - 1] : NULL;
	struct core_run *run = act->conn->from.run;
	const struct policy *policy = run->core->policy;
	const struct policy_target *t =
	    policy != NULL ? policy_target(policy, str_z(act->conn->from.target->id)) : NULL;
	struct core_preview *p;

	if (a == NULL || t == NULL || t->preview == PREVIEW_NONE || !can_ask(act, a))
		return false;
	p = xcalloc(1, sizeof(*p));
	p->act = act;
	buf_init(&p->msgs, MESSAGES_MAX);
	act->preview = p;
	act->phase = CORE_PHASE_PREVIEW;
	if (t->preview == PREVIEW_COUNT) {
		p->facts = core_facts_new_http(CORE_SQL_COUNT);
		p->ask = core_facts_ask(run, p->facts, a->text, facts_settled, p);
	} else {
		record(p);
	}
	return true;
}

/* --- what the server said ------------------------------------------------------------------- */

/* Rows that the plan expects to reach the change: it says 0 of the change itself. */
static bool
plan_rows(struct str plan, int64_t *ret)
{
	AUTO(json) struct json_doc *doc = NULL;
	const struct json *node;

	if (json_parse_numbers(plan, "plan", &doc, NULL) != 0)
		return false;
	node = json_get(json_at(json_root(doc), 0), "Plan");
	if (str_eqz(json_str(json_get(node, "Node Type")), "ModifyTable"))
		node = json_at(json_get(node, "Plans"), 0);
	if (json_type(json_get(node, "Plan Rows")) != JSON_INT)
		return false;
	*ret = json_int(json_get(node, "Plan Rows"));
	return true;
}

static void
put_failed(struct buf *b, const char *what, struct str sqlstate)
{
	if (b->n != 0)
		buf_put_c(b, ' ');
	buf_printf(b, "%s-failed=%.*s", what, STR_ARG(sqlstate.n != 0 ? sqlstate : STR("none")));
}

static void
says(const struct core_preview *p, const struct str *rows, size_t n, struct str sqlstate,
    struct buf *b)
{
	int64_t plan;
	uint64_t count;

	if (n == 0 || !plan_rows(rows[0], &plan)) {
		put_failed(b, "plan", sqlstate);
		return;
	}
	buf_printf(b, "plan-rows=%" PRId64, plan);
	if (!p->counts)
		return;
	if (n < 2 || !str_to_u64(rows[1], COUNT_MAX + 1, &count))
		put_failed(b, "count", sqlstate);
	else if (count > COUNT_MAX)
		buf_printf(b, " count=over-%d", COUNT_MAX);
	else
		buf_printf(b, " count=%" PRIu64, count);
}

int
core_preview_on_previewed(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	uint64_t id = rd_u64(body), act = rd_u64(body);
	uint8_t status = rd_u8(body);
	uint32_t n = rd_u32(body), kept = 0;
	struct str rows[2], sqlstate, sent;
	struct core_conn *conn = core_pg_find(p->core, id);
	struct core_preview *v;
	AUTO_BUF struct buf b = BUF(256);

	(void)fds;
	(void)nfds;
	for (uint32_t i = 0; i < n && !body->bad; i++) {
		struct str row = rd_lstr(body);

		if (i < ARRAY_LEN(rows))
			rows[kept++] = row;
	}
	sqlstate = rd_lstr(body);
	(void)rd_lstr(body);
	sent = rd_bytes(body, HASH_LEN);
	if (!rd_end(body) || sqlstate.n > 5 || !str_is_ascii_print(sqlstate))
		return err_set(err, ERR_PROTOCOL, "U_PREVIEWED is malformed");
	v = conn != NULL && conn->act != NULL && conn->act->id == act ? conn->act->preview : NULL;
	if (v == NULL || !v->sending || status == 4)
		return 0; /* of a connection that core has ended, or that U_GONE ends */
	if (memcmp(sent.p, v->sent.b, HASH_LEN) != 0)
		return err_set(err, ERR_TAMPER,
		    "connection %llu: upstream sent another preview than was recorded",
		    (unsigned long long)id);
	says(v, rows, kept, sqlstate, &b);
	end(v, buf_str(&b));
	return 0;
}
