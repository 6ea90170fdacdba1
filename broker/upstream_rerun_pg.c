/*
 * PostgreSQL, from a recording (upstream, started as cofferdam-rerun). An exchange is known by the
 * bytes that went to the server then; one that was refused, by its statement. What is not on the
 * record is answered by an error that says so.
 */
#include "broker/upstream_rerun.h"

#include <stdlib.h>

#include "common/pgwire.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define KIND_QUERY 1
#define KIND_SYNC 2
#define STATUS_OK 1
#define STATUS_ERROR 2
#define SYNC_LEN 5

struct rerun_conn {
	struct rerun_conn *next;
	uint64_t id;
	char *host;
	uint32_t port;
	char txn;
};

/* What sessions need to know of a server; it is not recorded, so these are of any PostgreSQL 15. */
static const char *const parameters[][2] = {{"server_version", "15.0"}, {"server_encoding", "UTF8"},
    {"client_encoding", "UTF8"}, {"application_name", ""}, {"DateStyle", "ISO, MDY"},
    {"IntervalStyle", "postgres"}, {"TimeZone", "Etc/UTC"}, {"integer_datetimes", "on"},
    {"standard_conforming_strings", "on"}, {"is_superuser", "off"},
    {"default_transaction_read_only", "off"}, {"in_hot_standby", "off"}};

static struct rerun_conn **
find(struct rerun_hub *h, uint64_t id)
{
	struct rerun_conn **at = &h->conns;

	while (*at != NULL && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

static void
drop(struct rerun_conn **at)
{
	struct rerun_conn *c = *at;

	*at = c->next;
	free(c->host);
	free(c);
}

void
rerun_pg_end(struct rerun_hub *h)
{
	while (h->conns != NULL)
		drop(&h->conns);
}

static bool
any(const void *arg UNUSED, const struct rerun_entry *e UNUSED)
{
	return true;
}

static void
opened(struct rerun_hub *h, uint64_t id, const struct rerun_entry *e)
{
	bool ok = e == NULL || e->ok;
	AUTO_BUF struct buf b = BUF(65536);

	buf_u64(&b, id);
	buf_u8(&b, ok ? 1 : 0);
	buf_lstr(&b, ok ? STR("") : e->sqlstate.n != 0 ? e->sqlstate : STR("08006"));
	buf_lstr(&b, ok ? STR("") : e->message);
	buf_lz(&b, "");
	buf_lz(&b, "");
	buf_u32(&b, ok ? ARRAY_LEN(parameters) : 0);
	for (size_t i = 0; ok && i < ARRAY_LEN(parameters); i++) {
		buf_lz(&b, parameters[i][0]);
		buf_lz(&b, parameters[i][1]);
	}
	ipc_send(h->core, MSG_U_OPENED, &b, NULL, 0);
}

int
rerun_pg_open(struct rerun_hub *h, struct rd *body, int *fds UNUSED, struct err *err)
{
	uint64_t id = rd_u64(body);
	struct rerun_entry *e;
	struct rerun_conn *c;
	struct str host;
	uint32_t port;

	(void)rd_lstr(body); /* run */
	host = rd_lstr(body);
	(void)rd_lstr(body); /* address */
	port = rd_u32(body);
	if (body->bad || *find(h, id) != NULL)
		return err_set(err, ERR_PROTOCOL, "malformed");
	e = rerun_answers_next(h->answers, RERUN_CONNECT, host, port, any, NULL);
	if (e == NULL || e->ok) {
		c = xcalloc(1, sizeof(*c));
		*c = (struct rerun_conn){
		    .next = h->conns, .id = id, .host = str_dup(host), .port = port, .txn = 'I'};
		h->conns = c;
	}
	opened(h, id, e);
	return 0;
}

/* --- one exchange ---------------------------------------------------------------- */

struct request {
	struct str messages;
	struct hash sent;
	bool texts; /* it brings the text of a statement */
};

static bool
is_it(const void *arg, const struct rerun_entry *e)
{
	const struct request *r = arg;

	if (e->sent_known)
		return hash_eq(&e->sent, &r->sent);
	return !r->texts || (e->match.n != 0 && memmem(r->messages.p, r->messages.n, e->match.p,
						    e->match.n) != NULL);
}

static void
request_read(struct request *r)
{
	struct str s = r->messages;
	struct pgwire_msg m;

	r->sent = hash_sha256(s);
	while (s.n != 0 && pgwire_next(s, SIZE_MAX, &m, NULL) == 1) {
		r->texts |= m.type == 'Q' || m.type == 'P';
		s.p += m.whole.n;
		s.n -= m.whole.n;
	}
}

/* An error of the broker's own, and where the client waits for it, that it may go on. */
static void
error_put(struct rerun_conn *c, uint8_t kind, const struct pgwire_error *e, struct buf *out)
{
	pgwire_put_error(out, "ERROR", e);
	if (c->txn == 'T')
		c->txn = 'E';
	if (kind != KIND_QUERY && kind != KIND_SYNC)
		return;
	buf_put(out, "Z\0\0\0\5", 5);
	buf_put_c(out, c->txn);
}

static void
answer_send(struct rerun_hub *h, const struct rerun_conn *c, uint64_t act, struct str bytes)
{
	while (bytes.n != 0) {
		size_t n = bytes.n < RERUN_FRAME ? bytes.n : RERUN_FRAME;
		AUTO_BUF struct buf b = BUF(RERUN_FRAME + 64);

		buf_u64(&b, c->id);
		buf_u64(&b, act);
		buf_u8(&b, 1);
		buf_lstr(&b, str_mem(bytes.p, n));
		ipc_send(h->front, MSG_UF_DATA, &b, NULL, 0);
		bytes.p += n;
		bytes.n -= n;
	}
}

static void
done_send(struct rerun_hub *h, const struct rerun_conn *c, uint64_t act, const struct request *r,
    const struct rerun_entry *e, size_t bytes)
{
	static const struct rerun_entry none_recorded = {
	    .how = RERUN_ANSWERED, .sqlstate = {.p = ""}};
	const struct rerun_entry *a = e != NULL ? e : &none_recorded;
	bool ok = a->how == RERUN_ANSWERED && a->ok;
	struct hash none = {0};
	AUTO_BUF struct buf b = BUF(8192);

	buf_u64(&b, c->id);
	buf_u64(&b, act);
	buf_u8(&b, ok ? STATUS_OK : STATUS_ERROR);
	buf_u8(&b, (uint8_t)c->txn);
	buf_u64(&b, ok ? a->rows : 0);
	buf_u64(&b, bytes);
	buf_lstr(&b, ok ? a->tag : STR(""));
	buf_lstr(&b, !ok ? a->sqlstate : STR(""));
	buf_lstr(&b, STR(""));
	buf_put(&b, r->sent.b, HASH_LEN);
	buf_u8(&b, 0);
	buf_u64(&b, 0);
	buf_put(&b, none.b, HASH_LEN);
	ipc_send(h->core, MSG_U_DONE, &b, NULL, 0);
}

static void
serve(
    struct rerun_hub *h, struct rerun_conn *c, uint64_t act, uint8_t kind, const struct request *r)
{
	AUTO_BUF struct buf out = BUF((size_t)4 << 20);
	const struct rerun_entry *e = NULL;

	/* A Sync by itself is no action: it only says how things stand. */
	if (kind == KIND_SYNC && r->messages.n <= SYNC_LEN) {
		buf_put(&out, "Z\0\0\0\5", 5);
		buf_put_c(&out, c->txn);
		answer_send(h, c, act, buf_str(&out));
		done_send(
		    h, c, act, r, &(struct rerun_entry){.how = RERUN_ANSWERED, .ok = true}, out.n);
		return;
	}
	e = rerun_answers_next(h->answers, RERUN_PG, str_z(c->host), c->port, is_it, r);
	if (e != NULL && e->how == RERUN_ANSWERED) {
		buf_put_str(&out, e->answer);
		if (out.n >= 6 && memcmp(out.p + out.n - 6, "Z\0\0\0\5", 5) == 0)
			c->txn = (char)out.p[out.n - 1];
	} else if (e != NULL && e->how == RERUN_REFUSED) {
		error_put(c, kind,
		    &(struct pgwire_error){.sqlstate = e->sqlstate,
			.message = e->message,
			.detail = e->detail,
			.hint = e->hint},
		    &out);
	} else {
		error_put(c, kind,
		    &(struct pgwire_error){
			.sqlstate = STR("58000"), .message = STR(RERUN_MISSING_TEXT)},
		    &out);
	}
	answer_send(h, c, act, buf_str(&out));
	done_send(h, c, act, r, e, out.n);
}

int
rerun_pg_send(struct rerun_hub *h, struct rd *body, int *fds UNUSED, struct err *err)
{
	uint64_t id = rd_u64(body), act = rd_u64(body);
	uint8_t kind = rd_u8(body);
	struct request r = {.messages = rd_lstr(body)};
	struct rerun_conn *c = *find(h, id);

	if (body->bad || c == NULL || h->front == NULL)
		return err_set(err, ERR_PROTOCOL, "malformed, or of no connection");
	request_read(&r);
	serve(h, c, act, kind, &r);
	return 0;
}

int
rerun_pg_close(struct rerun_hub *h, struct rd *body, int *fds UNUSED, struct err *err UNUSED)
{
	struct rerun_conn **at = find(h, rd_u64(body));

	if (*at != NULL)
		drop(at);
	return 0;
}

/* Everything is answered at once: there is nothing to cancel. */
int
rerun_pg_cancel(struct rerun_hub *h, struct rd *body, int *fds UNUSED, struct err *err UNUSED)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_u64(&b, rd_u64(body));
	buf_u64(&b, rd_u64(body));
	buf_u8(&b, 0);
	buf_lz(&b, "it is over");
	ipc_send(h->core, MSG_U_CANCELLED, &b, NULL, 0);
	return 0;
}
