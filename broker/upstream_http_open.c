/*
 * From a lease to a transfer. Runs in upstream. Where it goes is settled here: the addresses that a
 * name leads to are held against the lease, and what passes is all that libcurl can dial.
 */
#include "broker/upstream_http_aws.h"
#include "broker/upstream_http_head.h"
#include "broker/upstream_http_int.h"
#include "broker/upstream_scrub.h"
#include "common/clock.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* --- secrets to look for --------------------------------------------------------- */

static void
on_sweep(void *arg)
{
	struct upstream_http *h = arg;

	h->sweep = NULL;
	if (scrub_sets_sweep(h->scrubs) != 0)
		h->sweep = loop_timer_add(h->hub->loop, SCRUB_SETS_IDLE_MS, on_sweep, h);
}

static struct scrub_set *
secrets_of(struct upstream_http *h, const struct upstream_lease *l, const struct aws_signer *signer)
{
	struct scrub_secret s[SCRUB_SECRETS_MAX];
	size_t n = lease_secrets(l, s);
	struct scrub_set *set;

	if (signer != NULL)
		s[n++] =
		    (struct scrub_secret){aws_signer_key(signer), STR(""), l->placeholder, false};
	set = n != 0 ? scrub_sets_get(h->scrubs, s, n) : NULL;

	if (set != NULL && h->sweep == NULL)
		h->sweep = loop_timer_add(h->hub->loop, SCRUB_SETS_IDLE_MS, on_sweep, h);
	return set;
}

/* --- where it goes --------------------------------------------------------------- */

/* Which of the addresses may be dialled. */
static int
choose(struct exchange *x, const struct resolve_addr *a, size_t n, bool given, struct err *err)
{
	bool proxy = x->proxy.kind != LEASE_DIRECT;
	bool clear = proxy ? x->proxy.secret != NULL && x->proxy.kind == LEASE_VIA_HTTP
			   : x->credential && !x->tls;
	const char *host = proxy ? x->proxy.host : x->host;
	char text[64] = "";

	for (size_t i = 0; i < n && x->naddrs < RESOLVE_ADDRS_MAX; i++) {
		bool may = given || upstream_address_may(&a[i], x->nets, x->nnets);

		if (may && (!clear || upstream_address_is_loopback(&a[i])))
			x->addrs[x->naddrs++] = a[i];
		else
			resolve_text(&a[i], text, sizeof(text));
		if (may)
			continue;
		(void)err_set(err, ERR_DENIED,
		    "%s leads to %s, which is %s: the target's \"networks\" must name it", host,
		    text, upstream_address_special(&a[i]));
	}
	if (x->naddrs != 0) {
		err_clear(err);
		return 0;
	}
	if (err->code == 0)
		return err_set(err, ERR_DENIED,
		    "%s leads to %s: without TLS the credential goes to loopback alone", host,
		    text);
	return err->code;
}

/* The same addresses in another order are the same place. */
static int
addr_cmp(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct resolve_addr));
}

static void
start(struct exchange *x)
{
	struct resolve_addr sorted[RESOLVE_ADDRS_MAX];
	struct str parts[2] = {
	    str_mem(x->pin.b, HASH_LEN), str_mem(sorted, x->naddrs * sizeof(sorted[0]))};
	struct err err = {0};

	memcpy(sorted, x->addrs, sizeof(sorted));
	qsort(sorted, x->naddrs, sizeof(sorted[0]), addr_cmp);
	x->pin = hash_sha256_parts(parts, 2);
	if (transfer_start(x, &err) != 0)
		exchange_end(x, END_NOT_SENT, err.msg);
}

static void
on_addresses(void *arg, const struct resolve_addr *addrs, size_t n, const char *why)
{
	struct exchange *x = arg;
	bool proxy = x->proxy.kind != LEASE_DIRECT;
	struct err err = {0};

	x->query = NULL;
	if (n == 0)
		(void)err_set(&err, ERR_UPSTREAM, "%s %s cannot be resolved: %s",
		    proxy ? "the proxy" : "host", proxy ? x->proxy.host : x->host, why);
	else
		(void)choose(x, addrs, n, proxy, &err);
	if (err.code != 0)
		exchange_end(x, END_NOT_SENT, err.msg);
	else
		start(x);
}

/*
 * An address of the target's, or a host that is one, was chosen by whoever wrote the policy, and so
 * was a proxy: its name may lead anywhere.
 */
static int
find_way(struct exchange *x, const struct upstream_lease *l, struct err *err)
{
	bool proxy = l->via != LEASE_DIRECT;
	uint16_t port = proxy ? x->proxy.port : x->port;
	AUTO_FREE char *address = str_dup(proxy		      ? l->via_host
					  : l->address.n != 0 ? l->address
							      : l->host);
	struct resolve_addr a;
	int rc;

	if (resolve_numeric(address, port, &a)) {
		rc = choose(x, &a, 1, true, err);
		if (rc == 0)
			start(x);
		return rc;
	}
	if (l->address.n != 0)
		return err_set(err, ERR_CONFIG, "address \"%s\" is not numeric", address);
	x->query = resolver_ask(x->h->hub->resolver, address, port, on_addresses, x);
	return 0;
}

static void
send_front(void *arg, uint16_t type, const struct buf *body)
{
	struct exchange *x = arg;

	upstream_hub_front(x->h->hub, type, body);
}

/* The head is the last thing to be made: a signature covers the body. */
static int
make_head(
    struct exchange *x, const struct upstream_lease *l, struct aws_signer *signer, struct err *err)
{
	struct head_more more = {.nfields = 0};
	int rc = signer != NULL ? aws_sign(signer, l, x->body, &more, err) : 0;

	return rc == 0 ? head_make(l, &more, &x->target, &x->fields, err) : rc;
}

static int
make_request(struct exchange *x, const struct upstream_lease *l, int *fd, struct err *err)
{
	struct aws_signer *signer = NULL;
	int rc = 0;

	if (l->credential == LEASE_AWS)
		rc = aws_signer_new(l, clock_wall_us() / 1000000, &signer, err);
	x->answer =
	    answer_new(l, secrets_of(x->h, l, signer), x->look != NULL ? look_take : send_front, x);
	if (rc == 0)
		rc = body_new(l, l->body >= LEASE_SEALED ? TAKE_FD(*fd) : -1, &x->body, err);
	if (rc == 0)
		rc = make_head(x, l, signer, err);
	aws_signer_free(signer);
	return rc;
}

static int
prepare(struct exchange *x, const struct upstream_lease *l, int fd, struct err *err)
{
	AUTO_FD int sealed = fd;
	int rc = lease_check(l, err);

	if (rc == 0 && x->h->hub->front == NULL)
		rc = err_set(err, ERR_UNAVAILABLE, "no wire to front");
	if (rc == 0 && x->h->count > UPSTREAM_HTTP_MAX)
		rc = err_set(
		    err, ERR_UNAVAILABLE, "over %d requests are on their way", UPSTREAM_HTTP_MAX);
	if (rc != 0)
		return rc;
	x->lease = lease_hash(l);
	rc = make_request(x, l, &sealed, err);
	for (; rc == 0 && x->nnets < l->nnetworks; x->nnets += rc == 0)
		rc = upstream_net_parse(l->networks[x->nnets], &x->nets[x->nnets], err);
	if (rc == 0 && l->tls && l->via != LEASE_VIA_FILES)
		rc = stores_get(x->h->stores, l->ca, &x->store, err);
	if (rc == 0 && l->via == LEASE_VIA_HTTPS)
		rc = stores_get(x->h->stores, l->via_ca, &x->proxy.store, err);
	buf_put_c(&x->target, '\0');
	return rc;
}

static void
pin_place(struct exchange *x, const struct upstream_lease *l)
{
	char tls = l->tls ? 's' : '-', zero = '\0', via = (char)l->via;
	struct hash ca = hash_sha256(l->ca), via_ca = hash_sha256(l->via_ca);
	struct str end = str_mem(&zero, 1);
	struct str parts[] = {str_mem(&tls, 1), l->run, end, l->host, end, l->address, end,
	    str_mem(ca.b, HASH_LEN), str_mem(&via, 1), l->via_host, end,
	    str_mem(&l->via_port, sizeof(l->via_port)), str_mem(via_ca.b, HASH_LEN), l->via_user,
	    end, l->via_secret};

	x->pin = hash_sha256_parts(parts, ARRAY_LEN(parts));
}

static void
note_proxy(struct exchange_proxy *p, const struct upstream_lease *l)
{
	if (l->via == LEASE_DIRECT || l->via == LEASE_VIA_FILES)
		return;
	p->kind = l->via;
	p->host = str_dup(l->via_host);
	p->port = (uint16_t)l->via_port;
	p->user = str_dup(l->via_user);
	if (l->via_secret.n != 0)
		p->secret = secret_copy(l->via_secret);
}

static struct exchange *
exchange_new(struct upstream_http *h, const struct upstream_lease *l)
{
	struct exchange *x = xcalloc(1, sizeof(*x));

	x->h = h;
	x->conn = l->conn;
	x->act = l->act;
	x->run = str_dup(l->run);
	x->host = str_dup(l->host);
	x->method = str_dup(l->method);
	x->port = (uint16_t)l->port;
	x->tls = l->tls;
	x->credential = l->credential != LEASE_OPEN;
	x->fresh = l->fresh || l->body == LEASE_UPGRADE;
	if (l->body == LEASE_UPGRADE)
		x->stream = stream_new();
	x->waits = l->expect && (l->body == LEASE_STREAM || l->body == LEASE_CHUNKED);
	buf_init(&x->target, HTTP_TARGET_MAX + 4 * UPSTREAM_SECRET_MAX);
	buf_init(&x->done, 8192);
	buf_init(&x->blob, 1024);
	note_proxy(&x->proxy, l);
	pin_place(x, l);
	exchange_add(x);
	return x;
}

void
exchange_open(struct upstream_http *h, const struct upstream_lease *l, int fd, bool look)
{
	struct exchange *x = exchange_new(h, l);
	struct err err = {0};
	int rc;

	x->look = look ? look_new() : NULL;
	rc = prepare(x, l, fd, &err);

	if (rc == 0 && l->via == LEASE_VIA_FILES)
		exchange_files_begin(x, l);
	else if (rc == 0)
		rc = find_way(x, l, &err);
	if (rc != 0)
		exchange_end(x, rc == ERR_STATE ? END_BODY : END_NOT_SENT, err.msg);
}
