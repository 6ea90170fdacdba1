/*
 * TLS of HTTP exchanges: a server is believed for the name, the CA and the time of its certificate
 * alone; before that it sees nothing of a request.
 */
#include "tests/unit/ca_help.h"
#include "tests/unit/upstream_http_help.h"

#include "common/banned.h"

static struct rig rig;
static char ca_file[] = "/tmp/t_upstream_http_ca.XXXXXX";
static struct buf ca_key = {.max = 8192}, ca_cert = {.max = 8192};
static struct buf strange_key = {.max = 8192}, strange_cert = {.max = 8192};

struct leaf {
	const char *names; /* subjectAltName */
	const char *cn;
	long from, to; /* seconds from now */
	bool strange;  /* by the other CA */
	int version;   /* of TLS, at most; 0: any */
};

static EVP_PKEY *
key_of(struct buf *pem)
{
	BIO *b = BIO_new_mem_buf(pem->p, (int)pem->n);
	EVP_PKEY *k = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);

	BIO_free_all(b);
	assert_non_null(k);
	return k;
}

static X509 *
cert_of(struct buf *pem)
{
	BIO *b = BIO_new_mem_buf(pem->p, (int)pem->n);
	X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);

	BIO_free_all(b);
	assert_non_null(x);
	return x;
}

static SSL_CTX *
server_ctx(const struct leaf *l)
{
	EVP_PKEY *k = EVP_EC_gen("P-256"), *by = key_of(l->strange ? &strange_key : &ca_key);
	X509 *x = X509_new(), *ca = cert_of(l->strange ? &strange_cert : &ca_cert);
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	X509V3_CTX v;
	X509_EXTENSION *e;

	(void)X509_set_version(x, X509_VERSION_3);
	(void)ASN1_INTEGER_set(X509_get_serialNumber(x), 2);
	(void)X509_gmtime_adj(X509_getm_notBefore(x), l->from);
	(void)X509_gmtime_adj(X509_getm_notAfter(x), l->to);
	if (l->cn != NULL)
		(void)X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
		    (const unsigned char *)l->cn, -1, -1, 0);
	(void)X509_set_issuer_name(x, X509_get_subject_name(ca));
	(void)X509_set_pubkey(x, k);
	X509V3_set_ctx(&v, ca, x, NULL, NULL, 0);
	if (l->names != NULL) {
		e = X509V3_EXT_conf_nid(NULL, &v, NID_subject_alt_name, l->names);
		assert_non_null(e);
		(void)X509_add_ext(x, e, -1);
		X509_EXTENSION_free(e);
	}
	assert_true(X509_sign(x, by, EVP_sha256()) > 0);
	assert_true(SSL_CTX_use_certificate(ctx, x) == 1 && SSL_CTX_use_PrivateKey(ctx, k) == 1);
	if (l->version != 0) {
		SSL_CTX_set_security_level(ctx, 0);
		(void)SSL_CTX_set_max_proto_version(ctx, l->version);
	}
	X509_free(x);
	X509_free(ca);
	EVP_PKEY_free(k);
	EVP_PKEY_free(by);
	return ctx;
}

static int
set_up_all(void **state)
{
	int fd = mkstemp(ca_file);

	(void)state;
	ca_make(&ca_key, &ca_cert);
	ca_make(&strange_key, &strange_cert);
	assert_true(fd >= 0 && write(fd, ca_cert.p, ca_cert.n) == (ssize_t)ca_cert.n);
	(void)close(fd);
	return 0;
}

static int
tear_down_all(void **state)
{
	(void)state;
	(void)unlink(ca_file);
	buf_free(&ca_key);
	buf_free(&ca_cert);
	buf_free(&strange_key);
	buf_free(&strange_cert);
	return 0;
}

static int
set_up(void **state)
{
	rig_open(&rig, ca_file);
	*state = &rig;
	return 0;
}

static int
tear_down(void **state)
{
	rig_close(*state);
	return 0;
}

static void
say_ok(struct rig_peer *p)
{
	while (peer_head(p))
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

static void
serve(struct rig *r, const struct leaf *l)
{
	SSL_CTX *ctx = server_ctx(l);

	rig_serve(r, ctx, say_ok);
	SSL_CTX_free(ctx);
}

static struct upstream_lease
lease(struct rig *r)
{
	struct upstream_lease l = rig_lease(r);

	l.tls = true;
	l.host = STR("good.test");
	l.ca = buf_str(&ca_cert);
	rig_bearer(&l);
	return l;
}

static const struct leaf good = {
    .names = "DNS:good.test,DNS:*.wild.test,IP:127.0.0.1", .from = -3600, .to = 3600};

static void
a_proven_server_gets_the_request(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;
	AUTO_FREE char *want = NULL;

	serve(r, &good);
	l = lease(r);
	rig_ask(r, &l);
	assert_done(r, 1);
	want = xasprintf("GET / HTTP/1.1\r\nHost: good.test:%u\r\nAuthorization: Bearer " RIG_SECRET
			 "\r\n\r\n",
	    r->port);
	assert_string_equal(rig_seen(r), want);
	assert_int_equal(strlen(r->done.cert), 64);
	/* Kept under TLS as well; the certificate is told again. */
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_int_equal(strlen(r->done.cert), 64);
	assert_int_equal(atomic_load(&r->seen->conns), 1);
	/* By the system's CAs, by a wildcard, by a numeric address. */
	l.ca = STR("");
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_int_equal(atomic_load(&r->seen->conns), 2);
	l.host = STR("a.wild.test");
	rig_ask(r, &l);
	assert_done(r, 1);
	l.host = STR("127.0.0.1");
	rig_ask(r, &l);
	assert_done(r, 1);
}

static void
a_server_that_is_not_proven_sees_nothing(void **state)
{
	struct rig *r = *state;
	static const struct {
		struct leaf leaf;
		const char *host, *why;
	} rows[] = {
	    {{"DNS:other.test", NULL, -3600, 3600, false, 0}, "good.test", "good.test"},
	    {{NULL, "good.test", -3600, 3600, false, 0}, "good.test", "TLS"},
	    {{"DNS:good.test", NULL, -7200, -3600, false, 0}, "good.test", "expired"},
	    {{"DNS:good.test", NULL, 3600, 7200, false, 0}, "good.test", "not yet valid"},
	    {{"DNS:good.test", NULL, -3600, 3600, true, 0}, "good.test", "TLS"},
	    {{"DNS:*.test", NULL, -3600, 3600, false, 0}, "a.b.test", "TLS"},
	    {{"DNS:g*.test", NULL, -3600, 3600, false, 0}, "good.test", "TLS"},
	    {{"DNS:127.0.0.1", NULL, -3600, 3600, false, 0}, "127.0.0.1", "TLS"},
	    {{"DNS:good.test", NULL, -3600, 3600, false, TLS1_1_VERSION}, "good.test", "TLS"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct upstream_lease l;

		serve(r, &rows[i].leaf);
		l = lease(r);
		l.host = str_z(rows[i].host);
		rig_ask(r, &l);
		if (r->done.status != 5)
			fail_msg("row %zu: ended %u, %s", i, r->done.status, r->done.why);
		assert_has(r->done.why, rows[i].why);
		assert_string_equal(r->order, "D");
		assert_int_equal(atomic_load(&r->seen->n), 0);
		rig_stop_server(r);
	}
}

/* The CA takes part in what makes a connection this one. */
static void
a_connection_under_one_ca_is_none_under_another(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	serve(r, &good);
	l = lease(r);
	rig_ask(r, &l);
	assert_done(r, 1);
	l.ca = buf_str(&strange_cert);
	rig_ask(r, &l);
	assert_done(r, 5);
	l.ca = STR("no certificate");
	rig_ask(r, &l);
	assert_done(r, 5);
	l.ca = buf_str(&ca_cert);
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_int_equal(atomic_load(&r->seen->requests), 2);
}

static void
a_server_without_tls_sees_nothing(void **state)
{
	struct rig *r = *state;
	struct upstream_http_times t = UPSTREAM_HTTP_TIMES;
	struct upstream_lease l;

	t.connect = 300;
	upstream_http_times(r->http, &t);
	rig_serve(r, NULL, say_ok);
	l = lease(r);
	rig_ask(r, &l);
	assert_done(r, 5);
	assert_null(strstr(rig_seen(r), RIG_SECRET));
	assert_null(memmem(rig_seen(r), atomic_load(&r->seen->n), "GET", 3));
}

/* --- through a proxy ------------------------------------------------------------- */

#define PX_SECRET "pr0xy-9876543210"

static SSL_CTX *behind;	       /* the origin's, in the server's children */
static const char *px_answers; /* instead of letting it through */

/* A proxy and the origin behind it in one; what it decrypts is seen as well. */
static void
say_through(struct rig_peer *p)
{
	if (!peer_head(p))
		return;
	if (px_answers != NULL) {
		peer_write(p, px_answers);
		return;
	}
	peer_write(p, "HTTP/1.1 200 OK\r\nX-Proxy: " PX_SECRET "\r\n\r\n");
	p->ssl = SSL_new(behind);
	if (SSL_set_fd(p->ssl, p->fd) != 1 || SSL_accept(p->ssl) != 1)
		_exit(0);
	while (peer_head(p))
		peer_write(p, "HTTP/1.1 200 OK\r\nX-Knows: " PX_SECRET
			      "\r\nContent-Length: 54\r\n\r\n" PX_SECRET
			      " cm9ib3Q6cHIweHktOTg3NjU0MzIxMA== ....");
}

static struct upstream_lease
lease_via(struct rig *r)
{
	struct upstream_lease l = lease(r);

	l.address = STR("");
	l.port = 443;
	l.via = LEASE_VIA_HTTP;
	l.via_host = STR("two.test");
	l.via_port = r->port;
	l.via_user = STR("robot");
	l.via_secret = STR(PX_SECRET);
	return l;
}

static void
serve_via(struct rig *r, const struct leaf *l, const char *answers)
{
	behind = server_ctx(l);
	px_answers = answers;
	rig_serve(r, NULL, say_through);
	SSL_CTX_free(behind);
}

#define PX_HEAD                              \
	"CONNECT good.test:443 HTTP/1.1\r\n" \
	"Host: good.test:443\r\n"            \
	"Proxy-Authorization: Basic cm9ib3Q6cHIweHktOTg3NjU0MzIxMA==\r\n\r\n"
#define PX_GET "GET / HTTP/1.1\r\nHost: good.test\r\nAuthorization: Bearer " RIG_SECRET "\r\n\r\n"

static void
through_a_proxy_goes_a_connect_and_then_the_targets_own(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;
	AUTO_FREE char *peer = NULL;

	serve_via(r, &good, NULL);
	l = lease_via(r);
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_string_equal(rig_seen(r), PX_HEAD PX_GET);
	peer = xasprintf("127.0.0.2:%u", r->port);
	assert_string_equal(r->done.peer, peer);
	assert_int_equal(strlen(r->done.cert), 64);
	/* Of the proxy's answer nothing; its credential is in none. */
	buf_put_c(&r->fields, '\0');
	assert_null(strstr((const char *)r->fields.p, "X-Proxy"));
	assert_null(strstr((const char *)r->fields.p, PX_SECRET));
	assert_null(memmem(r->body.p, r->body.n, PX_SECRET, sizeof(PX_SECRET) - 1));
	assert_null(memmem(r->body.p, r->body.n, "cm9ib3Q6", 8));
	assert_int_equal(r->body.n, 54);
	assert_int_equal(r->done.replaced, 3);
	/* Kept, and for the same proxy and credential alone. */
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_int_equal(atomic_load(&r->seen->conns), 1);
	l.via_secret = STR("pr0xy-another-one");
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_int_equal(atomic_load(&r->seen->conns), 2);
	l.run = STR("run-2");
	rig_ask(r, &l);
	assert_done(r, 1);
	l.via_host = STR("127.0.0.1");
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_int_equal(atomic_load(&r->seen->conns), 4);
}

static void
what_a_proxy_answers_instead_is_no_answer(void **state)
{
	struct rig *r = *state;
	static const struct {
		const char *answer, *why;
	} rows[] = {
	    {"HTTP/1.1 407 " PX_SECRET "\r\nProxy-Authenticate: Basic realm=\"" PX_SECRET
	     "\"\r\nContent-Length: 16\r\n\r\n" PX_SECRET,
		"answered 407 to CONNECT good.test:443: it does not take the via_credential"},
	    {"HTTP/1.1 502 Bad\r\nContent-Length: 2\r\n\r\nno", "answered 502"},
	    {"HTTP/1.1 302 Found\r\nLocation: https://evil.test/\r\n\r\n", "answered 302"},
	    {"HTTP/1.1 403 No\r\n\r\nuntil the end", "answered 403"},
	    {"", "no way through the proxy two.test"},
	    {PX_SECRET "\r\n\r\n", "no way through the proxy two.test"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct upstream_lease l;

		serve_via(r, &good, rows[i].answer);
		l = lease_via(r);
		rig_ask(r, &l);
		if (r->done.status != 5)
			fail_msg("row %zu: ended %u, %s", i, r->done.status, r->done.why);
		assert_has(r->done.why, rows[i].why);
		assert_null(strstr(r->done.why, PX_SECRET));
		assert_string_equal(r->order, "D");
		rig_stop_server(r);
	}
}

static void
a_target_behind_a_proxy_is_proven_for_its_own_name(void **state)
{
	struct rig *r = *state;
	static const struct leaf other = {.names = "DNS:two.test", .from = -3600, .to = 3600};
	struct upstream_lease l;

	serve_via(r, &other, NULL);
	l = lease_via(r);
	rig_ask(r, &l);
	assert_done(r, 5);
	assert_has(r->done.why, "TLS with good.test");
	assert_string_equal(rig_seen(r), PX_HEAD);
}

static void
a_proxys_credential_goes_in_clear_to_loopback_alone(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	serve_via(r, &good, NULL);
	l = lease_via(r);
	l.via_host = STR("meta.test"); /* 169.254.169.254 */
	rig_ask(r, &l);
	assert_done(r, 5);
	assert_has(r->done.why, "without TLS the credential goes to loopback alone");
	l.via_host = STR("10.99.99.99");
	rig_ask(r, &l);
	assert_done(r, 5);
	assert_has(r->done.why, "loopback alone");
	assert_int_equal(atomic_load(&r->seen->conns), 0);
}

static void
a_lease_of_half_a_proxy_is_not_sent(void **state)
{
	struct rig *r = *state;

	serve_via(r, &good, NULL);
	for (unsigned i = 0; i < 8; i++) {
		struct upstream_lease l = lease_via(r);

		switch (i) {
		case 0: l.via = LEASE_DIRECT; break;
		case 1: l.via_port = 0; break;
		case 2: l.via_host = STR("Two.test"); break;
		case 3: l.tls = false; break;
		case 4: l.address = STR("127.0.0.1"); break;
		case 5: l.via_user = STR("a:b"); break;
		case 6: l.via_secret = STR(""); break;
		case 7:
			l.networks[0] = STR("10.0.0.0/8");
			l.nnetworks = 1;
			break;
		}
		rig_ask(r, &l);
		if (r->done.status != 5)
			fail_msg("row %u: ended %u, %s", i, r->done.status, r->done.why);
	}
	assert_int_equal(atomic_load(&r->seen->conns), 0);
}

/* Its own certificate is the first of two, by the system's CAs and its own name. */
static void
a_proxy_with_tls_that_is_not_proven_sees_nothing(void **state)
{
	struct rig *r = *state;
	SSL_CTX *ctx = server_ctx(&good);
	struct upstream_lease l;

	rig_serve(r, ctx, say_through);
	SSL_CTX_free(ctx);
	l = lease_via(r);
	l.via = LEASE_VIA_HTTPS;
	rig_ask(r, &l);
	assert_done(r, 5);
	assert_int_equal(atomic_load(&r->seen->n), 0);
}

static void
without_the_system_s_ca_a_target_needs_its_own(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_close(r);
	rig_open(r, "/nonexistent");
	serve(r, &good);
	l = lease(r);
	l.ca = STR("");
	rig_ask(r, &l);
	assert_done(r, 5);
	assert_has(r->done.why, "names no CA");
	l = lease(r);
	rig_ask(r, &l);
	assert_done(r, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	    T(a_proven_server_gets_the_request),
	    T(a_server_that_is_not_proven_sees_nothing),
	    T(a_connection_under_one_ca_is_none_under_another),
	    T(a_server_without_tls_sees_nothing),
	    T(through_a_proxy_goes_a_connect_and_then_the_targets_own),
	    T(what_a_proxy_answers_instead_is_no_answer),
	    T(a_target_behind_a_proxy_is_proven_for_its_own_name),
	    T(a_proxys_credential_goes_in_clear_to_loopback_alone),
	    T(a_lease_of_half_a_proxy_is_not_sent),
	    T(a_proxy_with_tls_that_is_not_proven_sees_nothing),
	    T(without_the_system_s_ca_a_target_needs_its_own),
#undef T
	};

	return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
