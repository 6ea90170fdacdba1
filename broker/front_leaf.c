/*
 * Keys and certificates of the names that agents are answered under: one for each run and host,
 * made when first needed. Runs in front. The key stays here; core, which has the CA key, sees its
 * public half and decides whether the run may have the name.
 */
#include "broker/front.h"

#include "common/log.h"
#include "common/ossl.h"
#include <openssl/ssl.h>
#include "common/xalloc.h"

#include "common/banned.h"

#define LEAVES_MAX 4096 /* then the oldest goes; what uses it keeps it */
#define LEAVES_RUN_MAX 512

struct front_leaf {
	TAILQ_ENTRY(front_leaf) link;
	char *run, *host;
	struct evp_pkey_st *key;
	struct ssl_ctx_st *ctx; /* NULL: no certificate yet */
	bool asked;
};

static struct front_leaf *
leaf_find(struct front_hub *h, struct str run, struct str host)
{
	struct front_leaf *f;

	TAILQ_FOREACH (f, &h->leaves, link)
		if (str_eqz(run, f->run) && str_eqz(host, f->host))
			return f;
	return NULL;
}

static void
leaf_free(struct front_hub *h, struct front_leaf *f)
{
	TAILQ_REMOVE(&h->leaves, f, link);
	h->nleaves--;
	EVP_PKEY_free(f->key);
	SSL_CTX_free(f->ctx);
	free(f->run);
	free(f->host);
	free(f);
}

void
front_leaf_drop(struct front_hub *h, const struct str *run)
{
	struct front_leaf *f, *after;

	for (f = TAILQ_FIRST(&h->leaves); f != NULL; f = after) {
		after = TAILQ_NEXT(f, link);
		if (run == NULL || str_eqz(*run, f->run))
			leaf_free(h, f);
	}
}

/* The oldest of the run, or (NULL) of all, that nobody waits for. */
static struct front_leaf *
oldest(const struct front_hub *h, const char *run)
{
	struct front_leaf *f;

	TAILQ_FOREACH (f, &h->leaves, link)
		if (!f->asked && (run == NULL || strcmp(f->run, run) == 0))
			return f;
	return NULL;
}

static size_t
of_run(const struct front_hub *h, const char *run)
{
	const struct front_leaf *f;
	size_t n = 0;

	TAILQ_FOREACH (f, &h->leaves, link)
		n += strcmp(f->run, run) == 0;
	return n;
}

static void
make_room(struct front_hub *h, const char *run)
{
	struct front_leaf *f = NULL;

	if (of_run(h, run) >= LEAVES_RUN_MAX)
		f = oldest(h, run);
	else if (h->nleaves >= LEAVES_MAX)
		f = oldest(h, NULL);
	if (f != NULL)
		leaf_free(h, f);
}

static struct front_leaf *
leaf_new(struct front_listener *l, const char *host)
{
	struct front_leaf *f = xcalloc(1, sizeof(*f));

	make_room(l->hub, l->run);
	f->run = xstrdup(l->run);
	f->host = xstrdup(host);
	TAILQ_INSERT_TAIL(&l->hub->leaves, f, link);
	l->hub->nleaves++;
	return f;
}

static int
ask(struct front_listener *l, struct front_leaf *f, struct err *err)
{
	AUTO_BUF struct buf spki = BUF(4000);
	AUTO_BUF struct buf b = BUF(4096);
	int rc = 0;

	if (f->key == NULL)
		rc = front_tls_key(&f->key, err);
	if (rc == 0)
		rc = front_tls_spki(f->key, &spki, err);
	if (rc != 0)
		return rc;
	buf_u32(&b, l->id);
	buf_lz(&b, f->host);
	buf_lstr(&b, buf_str(&spki));
	front_hub_core(l->hub, MSG_F_LEAF_ASK, &b);
	f->asked = true;
	return 0;
}

struct ssl_ctx_st *
front_leaf_get(struct front_listener *l, const char *host)
{
	struct front_leaf *f = leaf_find(l->hub, str_z(l->run), str_z(host));
	struct err err = {0};

	if (f == NULL)
		f = leaf_new(l, host);
	if (f->ctx != NULL && front_tls_fresh(f->ctx))
		return f->ctx;
	if (!f->asked && ask(l, f, &err) != 0)
		log_error("run %s, host %s: %s", l->run, host, err.msg);
	return NULL;
}

/* Everybody who waits for it goes on, or hears that there is none. */
static void
wake(struct front_hub *h, const char *run, const char *host, struct ssl_ctx_st *ctx)
{
	for (size_t i = 0; i < FRONT_BUCKETS; i++) {
		struct front_conn *c, *after;

		for (c = LIST_FIRST(&h->conns[i]); c != NULL; c = after) {
			after = LIST_NEXT(c, link);
			if (c->phase == FRONT_LEAF && strcmp(c->listener->run, run) == 0 &&
			    strcmp(c->peer.host, host) == 0)
				front_conn_leaf(c, ctx);
		}
	}
}

int
front_leaf_on(
    struct front_hub *h, uint32_t listener, struct str host, struct str pem, struct err *err)
{
	struct front_listener *l = front_listen_find(h, listener);
	struct front_leaf *f;
	struct err why = {0};
	SSL_CTX *ctx = NULL;

	(void)err;
	f = l != NULL ? leaf_find(h, str_z(l->run), host) : NULL;
	if (f == NULL || !f->asked)
		return 0;
	f->asked = false;
	if (pem.n == 0)
		(void)err_set(&why, ERR_DENIED, "core refuses a certificate");
	else
		(void)front_tls_context(f->key, pem, &ctx, &why);
	if (why.code != 0) {
		log_error("run %s, host %s: %s", f->run, f->host, why.msg);
	} else {
		SSL_CTX_free(f->ctx);
		f->ctx = ctx;
	}
	wake(h, f->run, f->host, ctx);
	return 0;
}
