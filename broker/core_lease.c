/*
 * Leases (process: core): the only two messages by which anything goes out. They are built
 * after the records are durable, from the bytes that were judged. The secret stands in one
 * buffer, which is wiped when freed.
 */
#include "broker/core_lease.h"

#include "audit/blob.h"
#include "broker/core_cred.h"
#include "common/log.h"

#include "common/banned.h"

int
core_lease_open(struct core_conn *conn, struct err *err)
{
	struct core *c = conn->from.run->core;
	AUTO_BUF struct buf b = BUF(131072);
	const struct policy_target *t =
	    c->policy != NULL ? policy_target(c->policy, str_z(conn->from.target->id)) : NULL;
	const struct vault_entry *e = NULL;
	int rc;

	if (core_action_outdated(c, conn->open))
		return err_set(
		    err, ERR_UNAVAILABLE, "the policy has changed meanwhile: connect again");
	if (t == NULL)
		return err_set(err, ERR_CONFIG, "target %s is not in the policy any more",
		    conn->from.target->id);
	rc = core_cred_find(c, t, &e, err);
	if (rc != 0)
		return rc;
	if (c->upstream == NULL)
		return err_set(err, ERR_UNAVAILABLE, "upstream is being restarted");
	buf_u64(&b, conn->from.id);
	buf_lz(&b, conn->from.run->id);
	buf_lstr(&b, t->host);
	buf_lstr(&b, t->address);
	buf_u32(&b, t->port);
	buf_lstr(&b, t->database);
	buf_lstr(&b, t->user);
	buf_u8(&b, t->tls_verify ? 1 : 0);
	buf_lstr(&b, t->ca_pem);
	buf_lstr(&b, secret_str(e->secret));
	buf_put_str(&b, buf_str(&conn->params));
	if (buf_over(&b))
		return err_set(err, ERR_TOO_LARGE, "start-up of target %s is over %zu bytes",
		    conn->from.target->id, b.max);
	core_send(c->upstream, MSG_U_OPEN, &b);
	return 0;
}

bool
core_lease_seals(const struct core_conn *conn)
{
	const struct core *c = conn->from.run->core;
	const struct policy_target *t =
	    c->policy != NULL ? policy_target(c->policy, str_z(conn->from.target->id)) : NULL;

	return t != NULL && t->seal;
}

/* Where the policy wants the answer kept: upstream seals it with a key that opens nothing else. */
static void
seal_send(const struct core_act *act)
{
	struct core_run *run = act->conn->from.run;
	AUTO(secret) struct secret *key = NULL;
	AUTO_BUF struct buf b = BUF(1024);
	uint8_t wrap[BLOB_WRAP_LEN];
	struct err err = {0};

	if (!core_lease_seals(act->conn))
		return;
	if (blob_key_new(run->key, str_z(run->id), &key, wrap, &err) != 0)
		fatal("run %s: %s", run->id, err.msg);
	buf_u64(&b, act->conn->from.id);
	buf_u64(&b, act->id);
	buf_u64(&b, BLOB_PLAIN_MAX);
	buf_lz(&b, run->id);
	buf_lstr(&b, secret_str(key));
	buf_lstr(&b, str_mem(wrap, sizeof(wrap)));
	core_send(run->core->upstream, MSG_U_SEAL, &b);
}

int
core_lease_send(struct core_act *act, struct err *err)
{
	struct core *c = act->conn->from.run->core;
	const struct core_action *last = act->actions[act->nactions - 1];
	AUTO_BUF struct buf b = BUF(1300000);
	bool poison = act->poison[0] != '\0';

	if (c->upstream == NULL)
		return err_set(err, ERR_UNAVAILABLE, "upstream is being restarted");
	buf_u64(&b, act->conn->from.id);
	buf_u64(&b, act->id);
	buf_u8(&b, (uint8_t)act->kind);
	buf_lstr(&b, str_mem(act->msgs.p, act->send));
	buf_u8(&b, act->wrap ? 1 : 0);
	buf_u64(&b, act->wrap ? (uint64_t)last->d.max_rows : 0);
	buf_u8(&b, act->wrap ? 1 : 0);
	buf_lz(&b, poison ? act->poison : "");
	buf_lz(&b, poison ? last->sqlstate : "");
	buf_lz(&b, poison ? last->message : "");
	buf_lz(&b, poison ? last->detail : "");
	buf_lz(&b, poison ? last->hint : "");
	buf_u8(&b, act->copy_in ? 1 : 0);
	if (buf_over(&b))
		return err_set(err, ERR_TOO_LARGE, "exchange is over %zu bytes", b.max);
	seal_send(act);
	core_send(c->upstream, MSG_U_SEND, &b);
	return 0;
}

void
core_lease_close(const struct core_conn *conn)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u64(&b, conn->from.id);
	buf_u8(&b, conn->revoked ? 1 : 0);
	core_send(conn->from.run->core->upstream, MSG_U_CLOSE, &b);
}
