/*
 * One transfer of libcurl. Runs in upstream. libcurl connects, speaks TLS and HTTP/1.1 framing; it
 * is kept from all it would decide by itself: names, which proxy, redirects, authentication,
 * cookies, and above all from sending a change a second time.
 */
#include "broker/upstream_http_int.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "broker/upstream_scrub.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define TWICE "the server has closed a connection that was kept open; this is not sent twice"

static void
touch(struct exchange *x)
{
	x->active = loop_now_ms(x->h->hub->loop);
}

/* --- callbacks: the way there ---------------------------------------------------- */

static bool
is_pinned(const struct exchange *x, const struct resolve_addr *a)
{
	for (size_t i = 0; i < x->naddrs; i++)
		if (upstream_address_eq(&x->addrs[i], a))
			return true;
	return false;
}

/*
 * A kept connection may go while it is being used. libcurl tries again if no byte of an answer
 * came; a read may be repeated (RFC 9110 section 9.2.2), once. Core leases `fresh` with all else.
 */
static bool
may_repeat(struct exchange *x)
{
	static const char *const safe[] = {"GET", "HEAD", "OPTIONS"};

	for (size_t i = 0; i < ARRAY_LEN(safe); i++) {
		if (strcmp(x->method, safe[i]) != 0 || x->fresh || x->repeated ||
		    body_wire_length(x->body) != 0)
			continue;
		x->repeated = true;
		x->sent = false;
		return true;
	}
	return false;
}

/* What is dialled is one of the addresses that were checked, and not for a second attempt. */
static curl_socket_t
open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
	struct exchange *x = arg;
	struct resolve_addr a = {.len = to->addrlen};
	struct err err = {0};

	if (x->sent && !may_repeat(x)) {
		(void)err_set(&err, ERR_UPSTREAM, TWICE);
		exchange_fail(x, END_NO_ANSWER, &err);
		return CURL_SOCKET_BAD;
	}
	if (to->addrlen <= sizeof(a.sa))
		memcpy(&a.sa, &to->addr, to->addrlen);
	if (purpose != CURLSOCKTYPE_IPCXN || !is_pinned(x, &a)) {
		(void)err_set(&err, ERR_INTERNAL, "an address that was not checked");
		exchange_fail(x, END_NOT_SENT, &err);
		return CURL_SOCKET_BAD;
	}
	x->proxy.layers = 0;
	x->fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
	return x->fd >= 0 ? x->fd : CURL_SOCKET_BAD;
}

/* Names are resolved before; if libcurl ever wants to, it must not. */
static int
no_resolving(void *state, void *reserved, void *arg)
{
	struct err err = {0};

	(void)state;
	(void)reserved;
	(void)err_set(&err, ERR_INTERNAL, "libcurl wanted to resolve a name");
	exchange_fail(arg, END_NOT_SENT, &err);
	return 1;
}

/* Of a proxy with TLS its own comes first, then the target's inside it. */
static CURLcode
set_up_tls(CURL *easy, void *ctx, void *arg)
{
	struct exchange *x = arg;
	bool own = x->proxy.kind == LEASE_VIA_HTTPS && x->proxy.layers++ == 0;
	int rc = own ? upstream_http_tls(ctx, x->proxy.store, x->proxy.host)
		     : upstream_http_tls(ctx, x->store, x->host);

	(void)easy;
	return rc == 0 ? CURLE_OK : CURLE_ABORTED_BY_CALLBACK;
}

static int
note_certificate(struct exchange *x, struct err *err)
{
	AUTO_BUF struct buf binding = BUF(64);
	struct curl_tlssessioninfo *tls = NULL;

	if (curl_easy_getinfo(x->easy, CURLINFO_TLS_SSL_PTR, &tls) != CURLE_OK || tls == NULL ||
	    tls->internals == NULL)
		return err_set(err, ERR_UPSTREAM, "TLS has no session");
	return upstream_tls_peer(tls->internals, x->cert, &binding, err);
}

/* The connection stands, new or used before; the request is about to be written. */
static int
before_request(void *arg, char *peer, char *local, int peer_port, int local_port)
{
	struct exchange *x = arg;
	struct resolve_addr a;
	struct err err = {0};

	(void)local;
	if (x->fd >= 0) {
		sock_note(x, x->fd, (uint16_t)local_port, (uint16_t)peer_port);
		x->fd = -1;
	} else if (!sock_is_clean(x, (uint16_t)local_port, (uint16_t)peer_port)) {
		x->dirty = true;
		return CURL_PREREQFUNC_ABORT;
	}
	if (x->sent && !may_repeat(x))
		(void)err_set(&err, ERR_UPSTREAM, TWICE);
	else if (!resolve_numeric(peer, (uint16_t)peer_port, &a) || !is_pinned(x, &a))
		(void)err_set(
		    &err, ERR_INTERNAL, "a connection to %s, which was not checked", peer);
	else if (x->tls)
		(void)note_certificate(x, &err);
	if (err.code != 0) {
		exchange_fail(x, x->sent ? END_NO_ANSWER : END_NOT_SENT, &err);
		return CURL_PREREQFUNC_ABORT;
	}
	resolve_text(&a, x->peer, sizeof(x->peer));
	x->sent = true;
	touch(x);
	return CURL_PREREQFUNC_OK;
}

/* --- callbacks: the request's body ----------------------------------------------- */

void
transfer_credit(struct exchange *x)
{
	AUTO_BUF struct buf b = BUF(32);
	uint32_t n = x->waits ? 0 : body_credit(x->body);

	if (n == 0)
		return;
	buf_u64(&b, x->conn);
	buf_u64(&b, x->act);
	buf_u32(&b, n);
	upstream_hub_front(x->h->hub, MSG_UF_MORE, &b);
}

/* Neither 100 nor anything else came: RFC 9110 section 10.1.1 has the body sent all the same. */
static void
on_expect(void *arg)
{
	struct exchange *x = arg;

	x->expect = NULL;
	x->waits = false;
	transfer_credit(x);
}

static size_t
read_body(char *to, size_t size, size_t count, void *arg)
{
	struct exchange *x = arg;
	struct err err = {0};
	size_t n = 0;
	int rc;

	if (x->waits && x->expect == NULL)
		x->expect = loop_timer_add(x->h->hub->loop, x->h->times.expect, on_expect, x);
	transfer_credit(x);
	rc = body_read(x->body, to, size * count, &n, &err);
	switch (rc) {
	case BODY_MORE: touch(x); return n;
	case BODY_END: return 0;
	case BODY_WAIT:
		transfer_credit(x); /* it may all have been taken without a byte going out */
		x->send_paused = true;
		return CURL_READFUNC_PAUSE;
	}
	exchange_fail(x, rc == ERR_STATE ? END_BODY : END_NO_ANSWER, &err);
	return CURL_READFUNC_ABORT;
}

/* --- callbacks: the answer ------------------------------------------------------- */

/*
 * A final answer before the end of a streamed body: the rest is not asked for. The connection is
 * of no more use, since the server may still wait for it.
 */
static void
answered(struct exchange *x)
{
	x->waits = false;
	if (!body_is_streamed(x->body) || body_is_whole(x->body))
		return;
	body_stop(x->body);
	(void)curl_easy_setopt(x->easy, CURLOPT_FORBID_REUSE, 1L);
	x->wake = true;
}

static size_t
take_line(char *p, size_t size, size_t count, void *arg)
{
	struct exchange *x = arg;
	struct err err = {0};
	unsigned head;

	touch(x);
	if (answer_line(x->answer, str_mem(p, size * count), &head, &err) != 0) {
		exchange_fail(x, answer_status(x->answer) != 0 ? END_BROKEN : END_NO_ANSWER, &err);
		return 0;
	}
	if (head >= 200)
		answered(x);
	if (head == 100 && x->waits) {
		x->waits = false;
		transfer_credit(x);
	}
	return size * count;
}

static size_t
take_content(char *p, size_t size, size_t count, void *arg)
{
	struct exchange *x = arg;
	struct upstream_hub *hub = x->h->hub;
	struct err err = {0};

	if (hub->front != NULL && ipc_queued(hub->front) > UPSTREAM_QUEUE_HIGH)
		hub->throttled = x->throttled = true;
	if (x->hold || x->throttled) {
		x->recv_paused = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	touch(x);
	if (answer_content(x->answer, str_mem(p, size * count), &err) == 0 &&
	    !(x->look != NULL && look_is_over(x->look, &err)))
		return size * count;
	exchange_fail(x, END_BROKEN, &err);
	return 0;
}

void
transfer_resume(struct exchange *x)
{
	CURLcode rc;

	if (x->state == X_RUNNING && x->files != NULL)
		exchange_files_resume(x);
	if (x->state == X_RUNNING && x->stream != NULL) {
		stream_resume(x);
		return;
	}
	if (x->state != X_RUNNING || x->easy == NULL)
		return;
	x->wake = false;
	x->recv_paused = x->recv_paused && (x->hold || x->throttled);
	/* Reading the body pauses again if there is nothing. */
	x->send_paused = false;
	rc = curl_easy_pause(x->easy, x->recv_paused ? CURLPAUSE_RECV : CURLPAUSE_CONT);
	touch(x);
	/* Without a connection there was no pause; else what was held back was not taken. */
	if (rc != CURLE_OK && rc != CURLE_BAD_FUNCTION_ARGUMENT)
		transfer_done(x, rc);
}

/* --- the end --------------------------------------------------------------------- */

static void
explain(const struct exchange *x, CURLcode rc, struct buf *out)
{
	long e = 0;

	(void)curl_easy_getinfo(x->easy, CURLINFO_OS_ERRNO, &e);
	switch ((int)rc) {
	case CURLE_COULDNT_CONNECT:
		buf_printf(out, "no connection to %s:%u", x->host, x->port);
		if (e != 0)
			buf_printf(out, ": %s", strerror((int)e));
		break;
	case CURLE_OPERATION_TIMEDOUT:
		buf_printf(out, "no connection to %s:%u within %u ms", x->host, x->port,
		    x->h->times.connect);
		break;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CONNECT_ERROR:
		buf_printf(out, "TLS with %s: %s", x->host,
		    x->text[0] != '\0' ? x->text : curl_easy_strerror(rc));
		break;
	case CURLE_GOT_NOTHING:
		buf_put_z(out, "the server closed the connection without an answer");
		break;
	case CURLE_PARTIAL_FILE: buf_put_z(out, "the server broke the answer off"); break;
	default: buf_put_z(out, x->text[0] != '\0' ? x->text : curl_easy_strerror(rc)); break;
	}
}

static struct multi *
multi_of(struct exchange *x)
{
	return x->stream != NULL ? stream_multi(x) : &x->h->multi;
}

static void
easy_drop(struct exchange *x)
{
	if (x->easy != NULL) {
		const struct multi *m = multi_of(x);

		stream_drop(x);
		if (m != NULL)
			(void)curl_multi_remove_handle(m->curl, x->easy);
		curl_easy_cleanup(TAKE_PTR(x->easy));
		sock_release(x);
	}
	curl_slist_free_all(TAKE_PTR(x->resolve));
	curl_slist_free_all(TAKE_PTR(x->via));
}

/* Nothing has been written yet: once more, on a connection of its own. libcurl closed the other. */
static void
start_afresh(struct exchange *x)
{
	struct err err = {0};

	x->dirty = false;
	x->fresh = true;
	easy_drop(x);
	if (transfer_start(x, &err) != 0)
		exchange_end(x, END_NOT_SENT, err.msg);
}

void
transfer_done(struct exchange *x, CURLcode rc)
{
	AUTO_BUF struct buf b = BUF(1000);
	AUTO_FREE char *why = NULL;
	bool answered_at_all = answer_status(x->answer) != 0;

	if (x->state != X_RUNNING)
		return;
	if (x->end != END_NONE) {
		exchange_end(x, x->end, x->why.msg);
	} else if (x->dirty && (!x->sent || may_repeat(x))) {
		start_afresh(x);
	} else if (rc == CURLE_OK && x->stream != NULL) {
		stream_begin(x);
	} else if (rc == CURLE_OK && answered_at_all) {
		exchange_end(x, END_WHOLE, "");
	} else {
		if (proxy_failed(x))
			proxy_explain(x, rc, &b);
		else
			explain(x, rc, &b);
		why = buf_dup_z(&b);
		exchange_end(x,
		    answered_at_all ? END_BROKEN
		    : x->sent	    ? END_NO_ANSWER
				    : END_NOT_SENT,
		    why);
	}
}

void
transfer_drop(struct exchange *x)
{
	easy_drop(x);
	curl_slist_free_all(TAKE_PTR(x->fields));
	curl_slist_free_all(TAKE_PTR(x->proxy.fields));
	secret_free(TAKE_PTR(x->proxy.secret));
	buf_free(&x->target);
}

/* --- the start ------------------------------------------------------------------- */

static bool
set_callbacks(struct exchange *x)
{
	return SET(x, CURLOPT_PRIVATE, x) && SET(x, CURLOPT_ERRORBUFFER, x->text) &&
	       SET(x, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
	       SET(x, CURLOPT_OPENSOCKETDATA, x) &&
	       SET(x, CURLOPT_CLOSESOCKETFUNCTION, sock_close) &&
	       SET(x, CURLOPT_CLOSESOCKETDATA, x->h) &&
	       SET(x, CURLOPT_RESOLVER_START_FUNCTION, no_resolving) &&
	       SET(x, CURLOPT_RESOLVER_START_DATA, x) &&
	       SET(x, CURLOPT_PREREQFUNCTION, before_request) && SET(x, CURLOPT_PREREQDATA, x) &&
	       SET(x, CURLOPT_HEADERFUNCTION, take_line) && SET(x, CURLOPT_HEADERDATA, x) &&
	       SET(x, CURLOPT_WRITEFUNCTION, take_content) && SET(x, CURLOPT_WRITEDATA, x);
}

/* Nothing that libcurl would find in the environment, in files or in an answer. */
static bool
set_alone(struct exchange *x)
{
	return SET(x, CURLOPT_NOSIGNAL, 1L) && SET(x, CURLOPT_PROXY, "") &&
	       SET(x, CURLOPT_NOPROXY, "*") && SET(x, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) &&
	       SET(x, CURLOPT_FOLLOWLOCATION, 0L) && SET(x, CURLOPT_PROTOCOLS_STR, "http,https") &&
	       SET(x, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
	       SET(x, CURLOPT_HTTP09_ALLOWED, 0L) && SET(x, CURLOPT_HTTP_CONTENT_DECODING, 0L) &&
	       SET(x, CURLOPT_PATH_AS_IS, 1L) &&
	       SET(x, CURLOPT_CONNECTTIMEOUT_MS, (long)x->h->times.connect) &&
	       SET(x, CURLOPT_MAXAGE_CONN, (long)x->h->times.keep / 1000 + 1) &&
	       SET(x, CURLOPT_FRESH_CONNECT, x->fresh ? 1L : 0L) &&
	       SET(x, CURLOPT_FORBID_REUSE, body_wire_length(x->body) != 0 ? 1L : 0L) &&
	       SET(x, CURLOPT_BUFFERSIZE, 65536L) && SET(x, CURLOPT_TCP_KEEPALIVE, 1L);
}

static bool
set_tls(struct exchange *x)
{
	return SET(x, CURLOPT_SSL_VERIFYPEER, 1L) && SET(x, CURLOPT_SSL_VERIFYHOST, 2L) &&
	       SET(x, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) &&
	       SET(x, CURLOPT_SSL_SESSIONID_CACHE, 0L) && SET(x, CURLOPT_CAINFO, NULL) &&
	       SET(x, CURLOPT_CAPATH, NULL) && SET(x, CURLOPT_CA_CACHE_TIMEOUT, 0L) &&
	       SET(x, CURLOPT_SSL_CTX_FUNCTION, set_up_tls) && SET(x, CURLOPT_SSL_CTX_DATA, x);
}

static bool
set_request(struct exchange *x, uint64_t length)
{
	bool ok;

	/* libcurl connects, with TLS and through the proxy; the rest is upstream_http_stream.c. */
	if (x->stream != NULL)
		return SET(x, CURLOPT_CONNECT_ONLY, 1L);
	ok = SET(x, CURLOPT_HTTPHEADER, x->fields) &&
	     SET(x, CURLOPT_REQUEST_TARGET, (const char *)x->target.p);

	if (strcmp(x->method, "HEAD") == 0)
		return ok && SET(x, CURLOPT_NOBODY, 1L);
	ok = ok && SET(x, CURLOPT_CUSTOMREQUEST, x->method);
	if (length == 0)
		return ok;
	return ok && SET(x, CURLOPT_UPLOAD, 1L) && SET(x, CURLOPT_READFUNCTION, read_body) &&
	       SET(x, CURLOPT_READDATA, x) &&
	       SET(x, CURLOPT_INFILESIZE_LARGE,
		   length == UINT64_MAX ? (curl_off_t)-1 : (curl_off_t)length);
}

void
transfer_put_addresses(const struct exchange *x, struct buf *out)
{
	char text[64];

	for (size_t i = 0; i < x->naddrs; i++) {
		char *colon;

		resolve_text(&x->addrs[i], text, sizeof(text));
		colon = strrchr(text, ':'); /* before the port */
		*colon = '\0';
		buf_printf(out, "%s%s", i != 0 ? "," : "", text);
	}
	buf_put_c(out, '\0');
}

/*
 * The addresses go in under a name of their own, made of all that a connection depends on: libcurl
 * uses a connection again only under the same name, so never across runs, CAs or address sets.
 */
static bool
set_place(struct exchange *x)
{
	AUTO_BUF struct buf via = BUF(256), resolve = BUF(2048), url = BUF(512);
	bool v6 = strchr(x->host, ':') != NULL;
	char pin[HASH_HEX_SIZE];

	hash_hex(&x->pin, pin);
	pin[32] = '\0';
	buf_printf(&url, v6 ? "%s://[%s]:%u/" : "%s://%s:%u/", x->tls ? "https" : "http", x->host,
	    x->port);
	buf_printf(&via, "::pin-%s:%u", pin, x->port);
	buf_printf(&resolve, "+pin-%s:%u:", pin, x->port);
	transfer_put_addresses(x, &resolve);
	buf_put_c(&url, '\0');
	buf_put_c(&via, '\0');
	if (x->proxy.kind != LEASE_DIRECT)
		return SET(x, CURLOPT_URL, (const char *)url.p) && proxy_set(x, pin);
	x->via = curl_slist_append(NULL, (const char *)via.p);
	x->resolve = curl_slist_append(NULL, (const char *)resolve.p);
	return x->via != NULL && x->resolve != NULL && SET(x, CURLOPT_URL, (const char *)url.p) &&
	       SET(x, CURLOPT_CONNECT_TO, x->via) && SET(x, CURLOPT_RESOLVE, x->resolve);
}

int
transfer_start(struct exchange *x, struct err *err)
{
	x->fd = -1;
	x->easy = curl_easy_init();
	if (x->easy == NULL || !set_callbacks(x) || !set_alone(x) || !set_tls(x) ||
	    !set_request(x, body_wire_length(x->body)) || !set_place(x))
		return err_set(err, ERR_INTERNAL, "libcurl does not take the request");
	x->state = X_RUNNING;
	if (multi_of(x) == NULL || curl_multi_add_handle(multi_of(x)->curl, x->easy) != CURLM_OK)
		return err_set(err, ERR_INTERNAL, "libcurl does not start the request");
	return 0;
}
