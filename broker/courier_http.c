/*
 * Deliveries: one POST at a time for each webhook, by libcurl's multi interface. Runs in the
 * courier. The name is resolved here and each address held against what may be reached; libcurl
 * connects to one of these, proves who is there, and follows nothing that an answer says. An answer
 * is a status; its content is read to its end and thrown away.
 */
#include "broker/courier.h"

#include "audit/export.h"

#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "broker/upstream_http_tls.h"
#include "broker/upstream_multi.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/tlsio.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define CONNECT_MS 10000L
#define HOSTS_FILE "/etc/hosts"
#define CA_FILE "/etc/ssl/certs/ca-certificates.crt"

struct courier_http {
	struct courier *c;
	struct resolver *resolver;
	struct stores *stores;
	struct multi multi;
};

struct delivery {
	struct hook *h;
	struct resolve *ask;
	CURL *easy;
	struct curl_slist *fields, *resolve, *via;
	struct x509_store_st *store;
	size_t naddrs, got;
	struct resolve_addr addrs[RESOLVE_ADDRS_MAX];
	char why[COURIER_WHY_MAX]; /* found by us, and said rather than libcurl's words */
	char text[CURL_ERROR_SIZE];
};

#define SET(d, option, value) (curl_easy_setopt((d)->easy, (option), (value)) == CURLE_OK)

/* --- the end of one ------------------------------------------------------------------------- */

void
courier_http_drop(struct hook *h)
{
	struct delivery *d = h->delivery;

	if (d == NULL)
		return;
	h->delivery = NULL;
	resolve_cancel(d->ask);
	if (d->easy != NULL) {
		(void)curl_multi_remove_handle(h->c->http->multi.curl, d->easy);
		curl_easy_cleanup(d->easy);
	}
	curl_slist_free_all(d->fields);
	curl_slist_free_all(d->resolve);
	curl_slist_free_all(d->via);
	stores_drop(d->store);
	free(d);
}

static void
finish(struct delivery *d, const char *why, uint64_t retry_after_ms)
{
	struct hook *h = d->h;
	AUTO_BUF struct buf b = BUF(COURIER_WHY_MAX);
	char text[COURIER_WHY_MAX];

	/* OpenSSL's and libcurl's words may hold what the other side sent. */
	export_words(&b, str_z(why), sizeof(text) - 8);
	(void)snprintf(text, sizeof(text), "%.*s", STR_ARG(buf_str(&b)));
	courier_http_drop(h);
	if (h->conf->key != NULL)
		courier_witness_done(h, 0, STR(""), text);
	else
		courier_delivered(h, text, retry_after_ms);
}

/* What it says is the writer's to judge, whatever the status is. */
static void
witness_answered(struct delivery *d, long status)
{
	AUTO_BUF struct buf content = BUF(COURIER_ANSWER_MAX);
	struct hook *h = d->h;

	buf_put_str(&content, buf_str(&h->answer));
	courier_http_drop(h);
	courier_witness_done(h, (unsigned)status, buf_str(&content), "");
}

static void
answered(struct delivery *d)
{
	curl_off_t after = 0;
	char why[HTTP_HOST_SIZE + 80];
	long status = 0;

	(void)curl_easy_getinfo(d->easy, CURLINFO_RESPONSE_CODE, &status);
	(void)curl_easy_getinfo(d->easy, CURLINFO_RETRY_AFTER, &after);
	if (d->h->conf->key != NULL) {
		witness_answered(d, status);
		return;
	}
	d->h->http_status = status;
	if (status >= 200 && status < 300) {
		finish(d, "", 0);
		return;
	}
	(void)snprintf(why, sizeof(why), "%s answered %ld%s", d->h->url.host, status,
	    status >= 300 && status < 400 ? ": a redirect is not followed" : "");
	if (after < 0 || after > 86400)
		after = 86400;
	finish(d, why, (uint64_t)after * 1000);
}

static void
transfer_done(struct delivery *d, CURLcode rc)
{
	AUTO_BUF struct buf b = BUF(512);
	AUTO_FREE char *z = NULL;
	long e = 0;

	if (rc == CURLE_OK && d->why[0] == '\0') {
		answered(d);
		return;
	}
	(void)curl_easy_getinfo(d->easy, CURLINFO_OS_ERRNO, &e);
	if (d->why[0] != '\0')
		buf_put_z(&b, d->why);
	else if (rc == CURLE_COULDNT_CONNECT)
		buf_printf(&b, "no connection to %s:%u: %s", d->h->url.host, d->h->url.port,
		    e != 0 ? strerror((int)e) : "refused");
	else if (rc == CURLE_OPERATION_TIMEDOUT)
		buf_printf(&b, "%s did not answer within %lld s", d->h->url.host,
		    (long long)d->h->conf->timeout_s);
	else
		buf_printf(&b, "%s: %s", d->h->url.host,
		    d->text[0] != '\0' ? d->text : curl_easy_strerror(rc));
	z = buf_dup_z(&b);
	finish(d, z, 0);
}

/* --- libcurl's questions ------------------------------------------------------------------------
 */

static bool
is_pinned(const struct delivery *d, const struct resolve_addr *a)
{
	for (size_t i = 0; i < d->naddrs; i++)
		if (upstream_address_eq(&d->addrs[i], a))
			return true;
	return false;
}

static curl_socket_t
open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
	struct delivery *d = arg;
	struct resolve_addr a = {.len = to->addrlen};
	int fd;

	if (to->addrlen <= sizeof(a.sa))
		memcpy(&a.sa, &to->addr, to->addrlen);
	if (purpose != CURLSOCKTYPE_IPCXN || !is_pinned(d, &a)) {
		(void)snprintf(d->why, sizeof(d->why), "an address that was not checked");
		return CURL_SOCKET_BAD;
	}
	fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
	return fd >= 0 ? fd : CURL_SOCKET_BAD;
}

/* Names are resolved before; if libcurl ever wants to, it must not. */
static int
no_resolving(void *state UNUSED, void *reserved UNUSED, void *arg)
{
	struct delivery *d = arg;

	(void)snprintf(d->why, sizeof(d->why), "libcurl wanted to resolve a name");
	return 1;
}

static CURLcode
set_up_tls(CURL *easy UNUSED, void *ctx, void *arg)
{
	const struct delivery *d = arg;

	return upstream_http_tls(ctx, d->store, d->h->url.host) == 0 ? CURLE_OK
								     : CURLE_ABORTED_BY_CALLBACK;
}

/* Of the head and of the content: only counted. */
static size_t
take(char *p UNUSED, size_t size, size_t count, void *arg)
{
	struct delivery *d = arg;

	d->got += size * count;
	if (d->got <= COURIER_ANSWER_MAX)
		return size * count;
	(void)snprintf(d->why, sizeof(d->why), "%.100s: an answer of more than %zu bytes",
	    d->h->url.host, COURIER_ANSWER_MAX);
	return 0;
}

/* What answers of OTLP and of witnesses say is looked at. */
static size_t
take_content(char *p, size_t size, size_t count, void *arg)
{
	struct delivery *d = arg;
	size_t n = take(p, size, count, d);

	if (d->h->conf->otlp || d->h->conf->key != NULL)
		buf_put(&d->h->answer, p, n);
	return n;
}

/* --- the start of one
 * ----------------------------------------------------------------------------- */

static bool
add_field(struct delivery *d, const char *name, struct str value)
{
	AUTO_FREE char *z = xasprintf("%s: %.*s", name, STR_ARG(value));
	struct curl_slist *l = curl_slist_append(d->fields, z);

	if (l == NULL)
		return false;
	d->fields = l;
	return true;
}

static bool
set_otlp_fields(struct delivery *d)
{
	const struct hook *h = d->h;
	struct str value, name;
	bool ok = add_field(d, "Content-Type", STR("application/json")) &&
		  add_field(d, "User-Agent", STR("OTel-OTLP-Exporter-cofferdam/1"));

	if (ok && h->header != NULL) {
		AUTO_FREE char *z = NULL;

		value = secret_str(h->header);
		ok = str_cut(&value, ':', &name);
		z = str_dup(name);
		ok = ok && add_field(d, z, str_trim(value));
	}
	d->fields = ok ? curl_slist_append(d->fields, "Expect:") : d->fields;
	return ok && d->fields != NULL && SET(d, CURLOPT_HTTPHEADER, d->fields);
}

static bool
set_fields(struct delivery *d, struct str id)
{
	AUTO_BUF struct buf sig = BUF(256), at = BUF(32);
	const struct hook *h = d->h;
	int64_t now = clock_wall_us() / 1000000;
	bool ok;

	if (h->conf->otlp)
		return set_otlp_fields(d);
	if (h->conf->key != NULL) {
		d->fields = curl_slist_append(NULL, "Expect:");
		return d->fields != NULL && add_field(d, "Content-Type", STR("text/plain")) &&
		       add_field(d, "User-Agent", STR("cofferdam-courier/1")) &&
		       SET(d, CURLOPT_HTTPHEADER, d->fields);
	}
	buf_printf(&at, "%lld", (long long)now);
	courier_sign(h->secrets, h->nsecrets, id, now, buf_str(&h->body), &sig);
	ok = add_field(d, "Content-Type", STR("application/json")) &&
	     add_field(d, "User-Agent", STR("cofferdam-courier/1")) &&
	     add_field(d, "webhook-id", id) && add_field(d, "webhook-timestamp", buf_str(&at));
	if (ok && sig.n != 0)
		ok = add_field(d, "webhook-signature", buf_str(&sig));
	d->fields = ok ? curl_slist_append(d->fields, "Expect:") : d->fields;
	return ok && d->fields != NULL && SET(d, CURLOPT_HTTPHEADER, d->fields);
}

static bool
set_callbacks(struct delivery *d)
{
	return SET(d, CURLOPT_PRIVATE, d) && SET(d, CURLOPT_ERRORBUFFER, d->text) &&
	       SET(d, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
	       SET(d, CURLOPT_OPENSOCKETDATA, d) &&
	       SET(d, CURLOPT_RESOLVER_START_FUNCTION, no_resolving) &&
	       SET(d, CURLOPT_RESOLVER_START_DATA, d) && SET(d, CURLOPT_HEADERFUNCTION, take) &&
	       SET(d, CURLOPT_HEADERDATA, d) && SET(d, CURLOPT_WRITEFUNCTION, take_content) &&
	       SET(d, CURLOPT_WRITEDATA, d);
}

/* Nothing that libcurl would find in the environment, in files or in an answer. */
static bool
set_alone(struct delivery *d)
{
	return SET(d, CURLOPT_NOSIGNAL, 1L) && SET(d, CURLOPT_PROXY, "") &&
	       SET(d, CURLOPT_NOPROXY, "*") && SET(d, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) &&
	       SET(d, CURLOPT_FOLLOWLOCATION, 0L) && SET(d, CURLOPT_PROTOCOLS_STR, "https") &&
	       SET(d, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
	       SET(d, CURLOPT_HTTP09_ALLOWED, 0L) && SET(d, CURLOPT_HTTP_CONTENT_DECODING, 0L) &&
	       SET(d, CURLOPT_PATH_AS_IS, 1L) && SET(d, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) &&
	       SET(d, CURLOPT_TIMEOUT_MS, (long)d->h->conf->timeout_s * 1000);
}

static bool
set_tls(struct delivery *d)
{
	return SET(d, CURLOPT_SSL_VERIFYPEER, 1L) && SET(d, CURLOPT_SSL_VERIFYHOST, 2L) &&
	       SET(d, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) &&
	       SET(d, CURLOPT_SSL_SESSIONID_CACHE, 0L) && SET(d, CURLOPT_CAINFO, NULL) &&
	       SET(d, CURLOPT_CAPATH, NULL) && SET(d, CURLOPT_CA_CACHE_TIMEOUT, 0L) &&
	       SET(d, CURLOPT_SSL_CTX_FUNCTION, set_up_tls) && SET(d, CURLOPT_SSL_CTX_DATA, d);
}

/* A connection is used again under this name alone: never by a webhook with another CA. */
static bool
set_place(struct delivery *d)
{
	const struct hook *h = d->h;
	bool v6 = strchr(h->url.host, ':') != NULL;
	AUTO_FREE char *url =
	    xasprintf(v6 ? "https://[%s]:%u/" : "https://%s:%u/", h->url.host, h->url.port);
	AUTO_FREE char *via = xasprintf("::hook-%u:%u", h->i, h->url.port);
	AUTO_FREE char *target = xasprintf(h->conf->key != NULL ? "%s/add-checkpoint" : "%s",
	    h->conf->key != NULL && strcmp(h->url.target, "/") == 0 ? "" : h->url.target);
	AUTO_BUF struct buf addrs = BUF(1024);

	buf_printf(&addrs, "+hook-%u:%u:", h->i, h->url.port);
	for (size_t i = 0; i < d->naddrs; i++) {
		char text[64];

		resolve_text(&d->addrs[i], text, sizeof(text));
		*strrchr(text, ':') = '\0';
		buf_printf(&addrs, "%s%s", i != 0 ? "," : "", text);
	}
	buf_put_c(&addrs, '\0');
	d->via = curl_slist_append(NULL, via);
	d->resolve = curl_slist_append(NULL, (const char *)addrs.p);
	return d->via != NULL && d->resolve != NULL && SET(d, CURLOPT_URL, url) &&
	       SET(d, CURLOPT_REQUEST_TARGET, target) && SET(d, CURLOPT_CONNECT_TO, d->via) &&
	       SET(d, CURLOPT_RESOLVE, d->resolve);
}

static void
dial(struct delivery *d)
{
	AUTO_BUF struct buf id = BUF(COURIER_ID_MAX);
	struct hook *h = d->h;
	struct err err = {0};
	bool ok;

	if (stores_get(h->c->http->stores, buf_str(&h->ca), &d->store, &err) != 0) {
		finish(d, err.msg, 0);
		return;
	}
	buf_printf(&id, "%s#%llu", h->c->origin, (unsigned long long)h->seq);
	d->easy = curl_easy_init();
	ok = d->easy != NULL && set_callbacks(d) && set_alone(d) && set_tls(d) && set_place(d) &&
	     SET(d, CURLOPT_POST, 1L) && SET(d, CURLOPT_POSTFIELDS, (const char *)h->body.p) &&
	     SET(d, CURLOPT_POSTFIELDSIZE, (long)h->body.n) && set_fields(d, buf_str(&id)) &&
	     curl_multi_add_handle(h->c->http->multi.curl, d->easy) == CURLM_OK;
	if (!ok)
		finish(d, "libcurl does not take the request", 0);
}

static void
on_addrs(void *arg, const struct resolve_addr *addrs, size_t n, const char *why)
{
	struct delivery *d = arg;
	const struct hook *h = d->h;
	AUTO_BUF struct buf b = BUF(512);
	AUTO_FREE char *z = NULL;

	d->ask = NULL;
	for (size_t i = 0; i < n; i++)
		if (upstream_address_may(&addrs[i], h->nets, h->nnets))
			d->addrs[d->naddrs++] = addrs[i];
	if (d->naddrs != 0) {
		dial(d);
		return;
	}
	if (n == 0) {
		buf_printf(&b, "%s has no address: %s", h->url.host, why);
	} else {
		char text[64];

		resolve_text(&addrs[0], text, sizeof(text));
		buf_printf(&b, "%s leads to %s, which is %s: name its network in \"networks\"",
		    h->url.host, text, upstream_address_special(&addrs[0]));
	}
	z = buf_dup_z(&b);
	finish(d, z, 0);
}

void
courier_http_send(struct hook *h)
{
	struct delivery *d = xcalloc(1, sizeof(*d));

	d->h = h;
	h->http_status = 0;
	buf_reset(&h->answer);
	h->delivery = d;
	d->ask = resolver_ask(h->c->http->resolver, h->url.host, h->url.port, on_addrs, d);
}

/* --- life ----------------------------------------------------------------------------------- */

static void
on_done(void *delivery, CURLcode result)
{
	transfer_done(delivery, result);
}

int
courier_http_new(struct courier *c, struct err *err)
{
	struct courier_http *x = xcalloc(1, sizeof(*x));
	int rc = tlsio_prepare(err);

	c->http = x;
	x->c = c;
	x->stores = stores_new(CA_FILE);
	if (rc == 0)
		rc = resolver_new(c->loop, HOSTS_FILE, &x->resolver, err);
	if (rc != 0)
		return rc;
	if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK)
		return err_set(err, ERR_SYSTEM, "libcurl cannot start");
	return multi_init(&x->multi, c->loop, on_done, WEBHOOKS_MAX + WITNESSES_MAX, err);
}

void
courier_http_free(struct courier_http *x)
{
	if (x == NULL)
		return;
	multi_free(&x->multi);
	curl_global_cleanup();
	resolver_free(x->resolver);
	stores_free(x->stores);
	free(x);
}
