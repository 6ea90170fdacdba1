/*
 * The way of a transfer through a forward proxy: what libcurl is told of it, and why it did not
 * lead on. Runs in upstream. The proxy is trusted with its own credential and with nothing else: it
 * sees no field of the request, and what it says is never shown.
 */
#include "broker/upstream_http_int.h"

#include <string.h>

#include "common/banned.h"

/* What a CONNECT carries besides Host and the credential: nothing. */
static bool
set_head(struct exchange *x)
{
	AUTO_BUF struct buf user = BUF(2 * UPSTREAM_SECRET_MAX);
	AUTO_BUF struct buf secret = BUF(2 * UPSTREAM_SECRET_MAX);
	struct exchange_proxy *p = &x->proxy;

	if (p->fields == NULL) {
		p->fields = curl_slist_append(NULL, "User-Agent:");
		if (p->fields == NULL || curl_slist_append(p->fields, "Proxy-Connection:") == NULL)
			return false;
	}
	if (!SET(x, CURLOPT_PROXYHEADER, p->fields) ||
	    !SET(x, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE) ||
	    !SET(x, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) || !SET(x, CURLOPT_HTTPPROXYTUNNEL, 1L))
		return false;
	if (p->secret == NULL)
		return true;
	buf_put_z(&user, p->user);
	buf_put_c(&user, '\0');
	buf_put_str(&secret, secret_str(p->secret));
	buf_put_c(&secret, '\0');
	return SET(x, CURLOPT_PROXYAUTH, (long)CURLAUTH_BASIC) &&
	       SET(x, CURLOPT_PROXYUSERNAME, (const char *)user.p) &&
	       SET(x, CURLOPT_PROXYPASSWORD, (const char *)secret.p);
}

static bool
set_tls(struct exchange *x)
{
	return SET(x, CURLOPT_PROXY_SSL_VERIFYPEER, 1L) &&
	       SET(x, CURLOPT_PROXY_SSL_VERIFYHOST, 2L) &&
	       SET(x, CURLOPT_PROXY_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) &&
	       SET(x, CURLOPT_PROXY_CAINFO, NULL) && SET(x, CURLOPT_PROXY_CAPATH, NULL);
}

/*
 * The proxy's addresses stand under the name made for this, as a target's own do. With TLS the
 * proxy must be called by its real name, so there each request has a connection of its own.
 */
bool
proxy_set(struct exchange *x, const char *pin)
{
	AUTO_BUF struct buf proxy = BUF(512), resolve = BUF(2048);
	const struct exchange_proxy *p = &x->proxy;
	bool tls = p->kind == LEASE_VIA_HTTPS, v6 = strchr(p->host, ':') != NULL;
	struct resolve_addr a;

	if (tls)
		buf_printf(&proxy, v6 ? "https://[%s]:%u" : "https://%s:%u", p->host, p->port);
	else
		buf_printf(&proxy, "http://pin-%s:%u", pin, p->port);
	buf_put_c(&proxy, '\0');
	if (!tls || !resolve_numeric(p->host, p->port, &a)) {
		buf_printf(&resolve, "+%s%s:%u:", tls ? "" : "pin-", tls ? p->host : pin, p->port);
		transfer_put_addresses(x, &resolve);
		x->resolve = curl_slist_append(NULL, (const char *)resolve.p);
		if (x->resolve == NULL || !SET(x, CURLOPT_RESOLVE, x->resolve))
			return false;
	}
	if (tls && (!SET(x, CURLOPT_FRESH_CONNECT, 1L) || !SET(x, CURLOPT_FORBID_REUSE, 1L)))
		return false;
	return SET(x, CURLOPT_PROXY, (const char *)proxy.p) && SET(x, CURLOPT_NOPROXY, "") &&
	       set_tls(x) && set_head(x);
}

bool
proxy_failed(const struct exchange *x)
{
	long code = 0;

	if (x->proxy.kind == LEASE_DIRECT || x->sent)
		return false;
	(void)curl_easy_getinfo(x->easy, CURLINFO_HTTP_CONNECTCODE, &code);
	return code / 100 != 2;
}

/* Nothing of what the proxy said but its number: it may repeat the credential it was given. */
void
proxy_explain(const struct exchange *x, CURLcode rc, struct buf *out)
{
	const struct exchange_proxy *p = &x->proxy;
	long code = 0, e = 0;

	(void)curl_easy_getinfo(x->easy, CURLINFO_HTTP_CONNECTCODE, &code);
	(void)curl_easy_getinfo(x->easy, CURLINFO_OS_ERRNO, &e);
	if (code != 0) {
		buf_printf(out, "the proxy %s:%u answered %ld to CONNECT %s:%u", p->host, p->port,
		    code, x->host, x->port);
		if (code == 407)
			buf_put_z(out, p->secret != NULL ? ": it does not take the via_credential"
							 : ": it wants a via_credential");
		return;
	}
	buf_printf(out, "no way through the proxy %s:%u: %s", p->host, p->port,
	    rc == CURLE_COULDNT_CONNECT && e != 0 ? strerror((int)e) : curl_easy_strerror(rc));
}
