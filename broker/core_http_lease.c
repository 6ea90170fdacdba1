/*
 * Leases of HTTP requests (process: core): the only message by which a request goes out, built
 * after its record is durable, from the head and body that were judged. The secrets stand in one
 * buffer, which is wiped when freed.
 */
#include "broker/core_http.h"

#include <stdlib.h>

#include "broker/core_cred.h"
#include "broker/core_receipt.h"
#include "common/log.h"

#include "common/banned.h"

/* Of UH_SEND. */
enum { LEASE_NONE, LEASE_INLINE, LEASE_SEALED, LEASE_LENGTH, LEASE_STREAMED, LEASE_UPGRADE };

struct request {
	uint64_t bit; /* CORE_LOOK_BIT, or 0 */
	struct str method, target;
	const struct http_field *fields;
	size_t nfields;
};

static void
name_put(struct buf *b, const struct core_http *h)
{
	buf_u64(b, h->from.id);
	buf_u64(b, h->act);
}

static uint8_t
body_kind(const struct core_http *h)
{
	if (h->view.upgrade)
		return LEASE_UPGRADE;
	if (h->body == CORE_BODY_NONE)
		return LEASE_NONE;
	if (h->body == CORE_BODY_INLINE)
		return LEASE_INLINE;
	if (h->fd >= 0 && !h->start)
		return LEASE_SEALED;
	return h->body == CORE_BODY_LENGTH ? LEASE_LENGTH : LEASE_STREAMED;
}

static uint64_t
most(const struct core_http *h, const struct policy_target *t)
{
	if (!h->view.upgrade && (h->body == CORE_BODY_LENGTH || h->bound))
		return h->length;
	return t->max_body != 0 ? t->max_body : CORE_HTTP_BODY_MAX;
}

static void
place_put(struct buf *b, const struct core_http *h, const struct policy_target *t)
{
	buf_lz(b, h->from.run->id);
	buf_u8(b, t->tls ? 1 : 0);
	buf_lz(b, h->host);
	buf_u32(b, h->port);
	buf_lstr(b, t->address);
	buf_u32(b, (uint32_t)t->nnetworks);
	for (size_t i = 0; i < t->nnetworks; i++)
		buf_lstr(b, t->networks[i]);
	buf_lstr(b, t->ca_pem);
}

static void
head_put(struct buf *b, const struct request *r)
{
	buf_lstr(b, r->method);
	buf_lstr(b, r->target);
	buf_u32(b, (uint32_t)r->nfields);
	for (size_t i = 0; i < r->nfields; i++) {
		buf_lstr(b, r->fields[i].name);
		buf_lstr(b, r->fields[i].value);
	}
}

static void
no_body_put(struct buf *b)
{
	static const struct hash none;

	buf_u8(b, LEASE_NONE);
	buf_u64(b, 0);
	buf_lz(b, "");
	buf_u8(b, 0);
	buf_u8(b, 0);
	buf_put(b, none.b, HASH_LEN);
}

static void
body_put(struct buf *b, const struct core_http *h, const struct policy_target *t)
{
	static const struct hash none;
	const struct hash *sha = h->bound ? &h->sha : core_http_aws_hash(h);
	uint8_t kind = body_kind(h);
	bool streamed = kind == LEASE_LENGTH || kind == LEASE_STREAMED;

	buf_u8(b, kind);
	buf_u64(b, kind >= LEASE_LENGTH ? most(h, t) : h->length);
	buf_lstr(b, kind == LEASE_INLINE ? h->bytes : STR(""));
	buf_u8(b, streamed && h->expect && !h->start ? 1 : 0); /* it was asked for */
	buf_u8(b, sha != NULL ? 1 : 0);
	buf_put(b, sha != NULL ? sha->b : none.b, HASH_LEN);
}

static uint8_t
credential_kind(const struct vault_entry *e)
{
	static const char *const kinds[] = {"", "bearer", "basic", "header", "query", "aws"};

	for (size_t i = 1; e != NULL && i < ARRAY_LEN(kinds); i++)
		if (strcmp(e->kind, kinds[i]) == 0)
			return (uint8_t)i;
	return 0;
}

static void
credential_put(struct buf *b, const struct core_http *h, const struct vault_entry *e)
{
	struct str user = str_z(e != NULL ? e->user : ""), field = str_z(e != NULL ? e->field : "");
	struct str secret = e != NULL ? secret_str(e->secret) : STR("");
	char placeholder[CORE_PLACEHOLDER_SIZE] = "";

	if (e != NULL)
		core_cred_placeholder(h->from.run, str_z(e->name), placeholder);
	if (h->aws != NULL) {
		(void)str_cut(&secret, ' ', &user); /* ID KEY TOKEN */
		field = str_z(h->aws->scope);
	}
	buf_u8(b, credential_kind(e));
	buf_lstr(b, field);
	buf_lstr(b, user);
	buf_lstr(b, secret);
	buf_lz(b, placeholder);
}

/* They do not go out: its answer is searched for them. */
static void
others_put(struct buf *b, const struct core_http *h, const struct core_others *o)
{
	buf_u32(b, (uint32_t)o->parts);
	for (size_t i = 0; i < o->n; i++) {
		const struct vault_entry *e = o->e[i];
		char placeholder[CORE_PLACEHOLDER_SIZE];
		struct str part[CORE_CRED_PARTS];
		size_t n = core_cred_parts(e, part);

		core_cred_placeholder(h->from.run, str_z(e->name), placeholder);
		for (size_t k = 0; k < n; k++) {
			buf_lstr(b, part[k]);
			buf_lz(b, strcmp(e->kind, "basic") == 0 ? e->user : "");
			buf_lz(b, placeholder);
		}
	}
}

bool
core_http_seals(const struct core_http *h)
{
	const struct policy_target *t = core_http_policy(h);

	return h->model || (t != NULL && t->seal);
}

/*
 * The words of models are kept, and what the policy wants kept: upstream seals the answer with a
 * key that opens nothing else. Of a look nothing is.
 */
static void
seal_put(struct buf *b, const struct core_http *h, bool look)
{
	AUTO(secret) struct secret *key = NULL;
	struct core_run *run = h->from.run;
	uint8_t wrap[BLOB_WRAP_LEN];
	struct err err = {0};
	bool keep = !look && core_http_seals(h);

	if (keep && blob_key_new(run->key, str_z(run->id), &key, wrap, &err) != 0)
		fatal("run %s: %s", run->id, err.msg);
	buf_u64(b, keep ? BLOB_PLAIN_MAX : 0);
	buf_lz(b, keep ? run->id : "");
	buf_lstr(b, keep ? secret_str(key) : STR(""));
	buf_lstr(b, keep ? str_mem(wrap, sizeof(wrap)) : STR(""));
}

/* The proxy on the way, verified by the system's store; or the directory, no way at all. */
static void
via_put(struct buf *b, const struct policy_target *t, const struct vault_entry *e)
{
	buf_u8(b, t->files.n != 0 ? 3 : t->via.n == 0 ? 0 : t->via_tls ? 2 : 1);
	buf_lstr(b, t->files.n != 0 ? t->files : t->via_host);
	buf_u32(b, t->via_port);
	buf_lstr(b, STR(""));
	buf_lz(b, e != NULL ? e->user : "");
	buf_lstr(b, e != NULL ? secret_str(e->secret) : STR(""));
}

/* As it was when it was judged. */
static int
target_now(const struct core_http *h, const struct policy_target **ret_t,
    const struct vault_entry **ret_e, const struct vault_entry **ret_via, struct err *err)
{
	const struct core *c = h->from.run->core;
	const struct policy_target *t = core_http_policy(h);

	*ret_t = t;
	*ret_e = *ret_via = NULL;
	if (c->upstream == NULL)
		return err_set(err, ERR_UNAVAILABLE, "upstream is being restarted");
	if (t == NULL || !hash_eq(policy_digest(c->policy), &h->policy))
		return err_set(
		    err, ERR_UNAVAILABLE, "the policy has changed meanwhile: send it again");
	if (t->via_credential.n != 0 && core_cred_via(c, t, ret_via, err) != 0)
		return err->code;
	return t->credential.n != 0 ? core_cred_find(c, t, ret_e, err) : 0;
}

static void
go_send(const struct core_http *h, const struct policy_target *t, bool beyond)
{
	AUTO_BUF struct buf b = BUF(1024), receipt = BUF(RECEIPT_MAX);
	uint8_t kind = body_kind(h);
	bool streamed = kind >= LEASE_LENGTH;

	name_put(&b, h);
	buf_u8(&b, kind == LEASE_UPGRADE ? 2 : streamed ? 1 : 0);
	buf_u64(&b, streamed ? most(h, t) : 0);
	buf_u8(&b, beyond ? 1 : 0);
	core_receipt_put(h->from.run->core, &h->a->receipt, &receipt);
	buf_lstr(&b, buf_str(&receipt));
	core_send(h->from.run->core->front, MSG_H_GO, &b);
}

/* All of UH_SEND or UH_LOOK. The caller's buffer, which is wiped when freed. */
static int
lease_put(struct buf *b, struct core_http *h, const struct request *r,
    const struct policy_target **ret_t, struct err *err)
{
	const struct policy_target *t = NULL;
	const struct vault_entry *e = NULL, *via = NULL;
	struct core_others others = {.n = 0};
	bool look = r->bit != 0;
	int rc = target_now(h, &t, &e, &via, err);

	if (rc == 0)
		rc = core_cred_others(h->from.run, e, &others, err);
	if (rc != 0 || t == NULL)
		return rc;
	buf_u64(b, h->from.id);
	buf_u64(b, h->act | r->bit);
	place_put(b, h, t);
	head_put(b, r);
	if (look)
		no_body_put(b);
	else
		body_put(b, h, t);
	credential_put(b, h, e);
	others_put(b, h, &others);
	buf_u8(b, !look && (h->view.upgrade || (h->a->effects & ~EFFECT_SET_DATA) != 0) ? 1 : 0);
	seal_put(b, h, look);
	via_put(b, t, via);
	*ret_t = t;
	if (buf_over(b))
		return err_set(err, ERR_TOO_LARGE, "request is over %zu bytes", b->max);
	return 0;
}

int
core_http_lease(struct core_http *h, struct err *err)
{
	const struct core *c = h->from.run->core;
	const struct policy_target *t = NULL;
	struct request r = {0, h->req->method, buf_str(&h->target), h->fields, h->nfields};
	AUTO_BUF struct buf b = BUF(1 << 20);
	AUTO_BUF struct buf name = BUF(64);
	int rc = lease_put(&b, h, &r, &t, err);

	if (rc != 0 || t == NULL)
		return rc;
	go_send(h, t, (h->a->effects & ~EFFECT_SET_DATA) != 0);
	if (h->fd >= 0) {
		name_put(&name, h);
		ipc_send(c->upstream->wire, MSG_UH_BODY, &name, &h->fd, 1);
	}
	core_send(c->upstream, MSG_UH_SEND, &b);
	return 0;
}

int
core_http_lease_look(struct core_http *h, struct str method, struct str target,
    const struct http_field *f, size_t n, struct err *err)
{
	const struct policy_target *t = NULL;
	struct request r = {CORE_LOOK_BIT, method, target, f, n};
	AUTO_BUF struct buf b = BUF(1 << 20);
	int rc = lease_put(&b, h, &r, &t, err);

	if (rc == 0 && t != NULL)
		core_send(h->from.run->core->upstream, MSG_UH_LOOK, &b);
	return rc;
}

void
core_http_abort_look(const struct core_http *h)
{
	AUTO_BUF struct buf b = BUF(64);

	buf_u64(&b, h->from.id);
	buf_u64(&b, h->act | CORE_LOOK_BIT);
	if (h->from.run->core->upstream != NULL)
		core_send(h->from.run->core->upstream, MSG_UH_ABORT, &b);
}

void
core_http_abort(const struct core_http *h)
{
	AUTO_BUF struct buf b = BUF(64);

	name_put(&b, h);
	core_send(h->from.run->core->upstream, MSG_UH_ABORT, &b);
}
