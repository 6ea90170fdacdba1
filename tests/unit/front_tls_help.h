/* Beside front_help.h: a CA as core has it, and a client under TLS on the same loop. */
#ifndef TESTS_UNIT_FRONT_TLS_HELP_H
#define TESTS_UNIT_FRONT_TLS_HELP_H

#include "tests/unit/ca_help.h"
#include "tests/unit/front_help.h"

#include <openssl/ssl.h>

#include "broker/core_ca.h"
#include "common/clock.h"

#define ESTABLISHED "HTTP/1.1 200 Connection established\r\n\r\n"

static uint16_t proxy;
static struct core_ca *ca;
static size_t nleaves;

static inline int
tls_up(void **state)
{
	AUTO_BUF struct buf key = BUF(8192);
	AUTO_BUF struct buf cert = BUF(8192);
	struct err err = {0};

	(void)set_up(state);
	ca_make(&key, &cert);
	if (core_ca_load(buf_str(&key), buf_str(&cert), &ca, &err) != 0)
		fail_msg("%s", err.msg);
	web = listen_on(FRONT_HTTPS, "web.test", 443);
	proxy = listen_on(FRONT_PROXY, "proxy.cofferdam.internal", 3128);
	nleaves = 0;
	return 0;
}

static inline int
tls_down(void **state)
{
	core_ca_free(TAKE_PTR(ca));
	return tear_down(state);
}
#define S(f) cmocka_unit_test_setup_teardown(f, tls_up, tls_down)

/* Answers one F_LEAF_ASK by a leaf that is good for `seconds` from now; 0: by none. */
static inline void
leaf(const char *host, int64_t seconds)
{
	struct rd r = rd_init(buf_str(&seen[expect(MSG_F_LEAF_ASK)].body));
	uint32_t listener = rd_u32(&r);
	struct str name = rd_lstr(&r), spki = rd_lstr(&r);
	AUTO_BUF struct buf pem = BUF(16384);
	AUTO_BUF struct buf b = BUF(32768);
	struct err err = {0};

	assert_true(rd_end(&r) && str_eqz(name, host));
	if (seconds != 0 &&
	    core_ca_sign(ca, spki, name, clock_wall_us() / 1000000 - CA_LEAF_SECONDS + seconds,
		&pem, &err) != 0)
		fail_msg("%s", err.msg);
	buf_u32(&b, listener);
	buf_lstr(&b, name);
	buf_lstr(&b, buf_str(&pem));
	tell(core, MSG_F_LEAF, &b);
	nleaves++;
}

/* --- a client under TLS ---------------------------------------------------------------- */

struct tls {
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;
	char why[200]; /* the handshake failed */
};

static inline void
tls_free(struct tls *t)
{
	SSL_free(t->ssl);
	SSL_CTX_free(t->ctx);
	if (t->fd >= 0)
		(void)close(t->fd);
	*t = (struct tls){.fd = -1};
}
#define AUTO_TLS __attribute__((cleanup(tls_free))) struct tls

/* alpn: NULL, or as on the wire. */
static inline struct tls
tls_begin(int fd, const char *sni, const char *alpn)
{
	struct tls t = {.fd = fd, .ctx = SSL_CTX_new(TLS_client_method())};

	t.ssl = SSL_new(t.ctx);
	assert_int_equal(SSL_set_fd(t.ssl, fd), 1);
	if (sni != NULL)
		assert_int_equal(SSL_set_tlsext_host_name(t.ssl, sni), 1);
	if (alpn != NULL)
		assert_int_equal(
		    SSL_set_alpn_protos(t.ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn)),
		    0);
	SSL_set_connect_state(t.ssl);
	return t;
}

static inline bool
tls_shake(struct tls *t)
{
	for (int i = 0; i < 50; i++) {
		int rc = SSL_do_handshake(t->ssl), e;

		pump(4);
		if (rc == 1)
			return true;
		e = SSL_get_error(t->ssl, rc);
		if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE)
			continue;
		(void)snprintf(t->why, sizeof(t->why), "%s",
		    e == SSL_ERROR_SSL ? ERR_reason_error_string(ERR_peek_error()) : "closed");
		ERR_clear_error();
		return false;
	}
	(void)snprintf(t->why, sizeof(t->why), "nothing happens");
	return false;
}

static inline void
tls_say(struct tls *t, const char *z)
{
	assert_int_equal(SSL_write(t->ssl, z, (int)strlen(z)), (int)strlen(z));
	pump(10);
}

/* As hear(); '$' for a goodbye, '!' for an end without one. */
static inline const char *
tls_hear(struct tls *t)
{
	static char out[100000];
	size_t n = 0;
	char *date;

	for (int i = 0; i < 4; i++) {
		int got;

		pump(4);
		while ((got = SSL_read(t->ssl, out + n, (int)(sizeof(out) - n - 2))) > 0)
			n += (size_t)got;
		switch (SSL_get_error(t->ssl, got)) {
		case SSL_ERROR_WANT_READ: continue;
		case SSL_ERROR_ZERO_RETURN: out[n++] = '$'; break;
		default: out[n++] = '!'; break;
		}
		break;
	}
	ERR_clear_error();
	out[n] = '\0';
	while ((date = strstr(out, "\r\nDate: ")) != NULL)
		memmove(date + 6, date + 37, strlen(date + 37) + 1);
	return out;
}

/* A client on the direct listener, as far as TLS goes; the first one of a test gets the leaf. */
static inline struct tls
tls_client(const char *sni, const char *alpn)
{
	struct tls t = tls_begin(client(web), sni, alpn);

	pump(5);
	if (nleaves == 0)
		leaf("web.test", CA_LEAF_SECONDS);
	(void)tls_shake(&t);
	return t;
}

static inline struct tls
tunnel(const char *authority, const char *host)
{
	int fd = client(proxy);
	AUTO_BUF struct buf line = BUF(1000);
	AUTO_BUF struct buf b = BUF(1000);
	uint64_t conn;
	struct rd r;

	buf_printf(&line, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority);
	say_str(fd, buf_str(&line));
	r = rd_init(buf_str(&seen[expect(MSG_H_CONNECT)].body));
	conn = rd_u64(&r);
	(void)rd_u32(&r);
	assert_true(str_eqz(rd_lstr(&r), host));
	buf_u64(&b, conn);
	buf_lz(&b, "another.test"); /* not what was asked */
	tell(core, MSG_H_CONNECTED, &b);
	pump(5);
	assert_int_equal(count(MSG_F_LEAF_ASK), 0);
	b = BUF(1000);
	buf_u64(&b, conn);
	buf_lz(&b, host);
	tell(core, MSG_H_CONNECTED, &b);
	leaf(host, CA_LEAF_SECONDS);
	assert_string_equal(hear(fd), ESTABLISHED);
	return tls_begin(fd, host, NULL);
}

static inline void
answer_empty(const struct act *a)
{
	go(a, false, 0, false);
	head(a, 200, "Content-Length:0");
	end(a, true);
	done(a);
}

#endif
