/* TLS towards clients: certificates by name, what a handshake must agree with, tunnels of the
 * proxy. */
#include "tests/unit/ca_help.h"
#include "tests/unit/front_help.h"

#include <openssl/ssl.h>

#include "broker/core_ca.h"
#include "common/clock.h"

#include "common/banned.h"

#define GET "GET / HTTP/1.1\r\nHost: web.test\r\n\r\n"
#define ESTABLISHED "HTTP/1.1 200 Connection established\r\n\r\n"

static uint16_t web, proxy;
static struct core_ca *ca;
static size_t nleaves;

static int
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

static int
tls_down(void **state)
{
	core_ca_free(TAKE_PTR(ca));
	return tear_down(state);
}
#define S(f) cmocka_unit_test_setup_teardown(f, tls_up, tls_down)

/* Answers one F_LEAF_ASK by a leaf that is good for `seconds` from now; 0: by none. */
static void
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

static void
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
static struct tls
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

static bool
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

static void
tls_say(struct tls *t, const char *z)
{
	assert_int_equal(SSL_write(t->ssl, z, (int)strlen(z)), (int)strlen(z));
	pump(10);
}

/* As hear(); '$' for a goodbye, '!' for an end without one. */
static const char *
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
static struct tls
tls_client(const char *sni, const char *alpn)
{
	struct tls t = tls_begin(client(web), sni, alpn);

	pump(5);
	if (nleaves == 0)
		leaf("web.test", CA_LEAF_SECONDS);
	(void)tls_shake(&t);
	return t;
}

static struct tls
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

static void
answer_empty(const struct act *a)
{
	go(a, false, 0, false);
	head(a, 200, "Content-Length:0");
	end(a, true);
	done(a);
}

/* --- the handshake --------------------------------------------------------------------- */

static void
request_under_tls_is_told_with_the_name_of_the_handshake(void **state UNUSED)
{
	AUTO_TLS t = tls_client("WEB.test", "\2h2\10http/1.1");
	const unsigned char *alpn = NULL;
	unsigned n = 0;
	AUTO_ACT a = {0};

	assert_string_equal(t.why, "");
	SSL_get0_alpn_selected(t.ssl, &alpn, &n);
	assert_int_equal(n, 8);
	assert_memory_equal(alpn, "http/1.1", 8);
	tls_say(&t, GET);
	a = act();
	assert_string_equal(a.fault, "");
	assert_string_equal(a.sni, "web.test");
	assert_string_equal(a.host, "web.test");
	assert_true(a.tls == 1 && a.port == 443);
	answer_empty(&a);
	assert_string_equal(tls_hear(&t), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate\r\n\r\n");
}

static void
client_that_speaks_http_1_0_alone_is_served(void **state UNUSED)
{
	AUTO_TLS t = tls_client("web.test", "\10http/1.0");
	const unsigned char *alpn = NULL;
	unsigned n = 0;

	assert_string_equal(t.why, "");
	SSL_get0_alpn_selected(t.ssl, &alpn, &n);
	assert_int_equal(n, 8);
	assert_memory_equal(alpn, "http/1.0", 8);
}

static void
handshake_for_another_name_or_protocol_is_refused(void **state UNUSED)
{
	static const struct {
		const char *sni, *alpn, *why;
	} bad[] = {
	    {"other.test", NULL, "tlsv1 unrecognized name"},
	    {"web.test.evil.test", NULL, "tlsv1 unrecognized name"},
	    {NULL, NULL, "tlsv13 alert missing extension"},
	    {"web.test", "\2h2", "tlsv1 alert no application protocol"},
	    {"web.test", "\12postgresql", "tlsv1 alert no application protocol"},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO_TLS t = tls_client(bad[i].sni, bad[i].alpn);
		char byte;

		/* Under TLS 1.3 the client may be through before it hears of it. */
		if (t.why[0] == '\0' && SSL_read(t.ssl, &byte, 1) <= 0)
			(void)snprintf(
			    t.why, sizeof(t.why), "%s", ERR_reason_error_string(ERR_get_error()));
		assert_string_equal(t.why, bad[i].why);
	}
	{
		AUTO_TLS t = tls_client("web.test", NULL);

		assert_string_equal(t.why, "");
	}
	assert_int_equal(count(MSG_H_ACT), 0);
}

static void
http2_preface_is_a_fault(void **state UNUSED)
{
	AUTO_TLS t = tls_client("web.test", NULL);
	AUTO_ACT a = {0};

	tls_say(&t, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	a = act();
	assert_string_equal(a.fault, "HTTP/2 is not spoken here, only HTTP/1.1");
	refuse(&a, 400, true, "{}");
	assert_non_null(strstr(tls_hear(&t), "{}$"));
	assert_int_equal(count(MSG_H_ACT), 0);
}

static void
sessions_are_not_resumed(void **state UNUSED)
{
	static const int versions[] = {TLS1_3_VERSION, TLS1_2_VERSION};

	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		AUTO_TLS one = tls_client("web.test", NULL);
		AUTO_TLS two = tls_begin(client(web), "web.test", NULL);
		AUTO_TLS three = tls_begin(client(web), "web.test", NULL);
		AUTO_ACT a = {0};

		SSL_set_max_proto_version(two.ssl, versions[i]);
		assert_true(tls_shake(&two));
		tls_say(&two, GET); /* the other side's tickets, if any, are read with the answer */
		a = act();
		answer_empty(&a);
		(void)tls_hear(&two);
		SSL_set_session(three.ssl, SSL_get0_session(two.ssl));
		SSL_set_max_proto_version(three.ssl, versions[i]);
		assert_true(tls_shake(&three));
		assert_int_equal(SSL_session_reused(three.ssl), 0);
	}
}

static void
address_needs_no_name(void **state UNUSED)
{
	uint16_t ip = listen_on(FRONT_HTTPS, "127.0.0.1", 443);
	AUTO_TLS t = tls_begin(client(ip), NULL, NULL);

	leaf("127.0.0.1", CA_LEAF_SECONDS);
	assert_true(tls_shake(&t));
}

static void
answer_that_breaks_off_has_no_goodbye(void **state UNUSED)
{
	AUTO_TLS t = tls_client("web.test", NULL);
	AUTO_ACT a = {0};

	tls_say(&t, GET);
	a = act();
	go(&a, false, 0, false);
	head(&a, 200, "Content-Length:2");
	data(&a, STR("x"));
	end(&a, false);
	assert_string_equal(tls_hear(&t), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate\r\n\r\nx!");
}

/* Not so when it was whole, and only its record was waited for. */
static void
answer_that_is_there_as_a_whole_ends_with_goodbye(void **state UNUSED)
{
	AUTO_TLS t = tls_client("web.test", NULL);
	AUTO_BUF struct buf run = BUF(100);
	AUTO_ACT a = {0};

	tls_say(&t, GET);
	a = act();
	go(&a, false, 0, false);
	head(&a, 200, "Content-Length:0");
	end(&a, true);
	(void)tls_hear(&t);
	buf_lz(&run, "r-1");
	ipc_send(core, MSG_F_UNLISTEN, &run, NULL, 0);
	assert_string_equal(tls_hear(&t), "$");
}

/* --- certificates ------------------------------------------------------------------------ */

static void
leaf_is_asked_for_once_and_those_who_wait_are_woken(void **state UNUSED)
{
	AUTO_TLS one = tls_begin(client(web), "web.test", NULL);
	AUTO_TLS two = tls_begin(client(web), "web.test", NULL);
	uint16_t again = listen_run(901, FRONT_HTTPS, "r-1", "web.test", 8443);
	uint16_t others = listen_run(902, FRONT_HTTPS, "r-2", "web.test", 443);
	uint16_t host = listen_run(903, FRONT_HTTPS, "r-1", "api.test", 443);

	pump(10);
	assert_int_equal(count(MSG_F_LEAF_ASK), 1);
	{
		AUTO_TLS run = tls_begin(client(others), "web.test", NULL);
		AUTO_TLS name = tls_begin(client(host), "api.test", NULL);

		pump(10);
		assert_int_equal(count(MSG_F_LEAF_ASK), 3);
		leaf("web.test", CA_LEAF_SECONDS);
		assert_true(tls_shake(&one));
		assert_true(tls_shake(&two));
		/* Another run, another name: they wait for their own. */
		assert_false(tls_shake(&run));
		assert_false(tls_shake(&name));
		leaf("web.test", CA_LEAF_SECONDS);
		leaf("api.test", CA_LEAF_SECONDS);
		assert_true(tls_shake(&run));
		assert_true(tls_shake(&name));
	}
	{
		AUTO_TLS three = tls_begin(client(again), "web.test", NULL);

		assert_true(tls_shake(&three)); /* one for each run and host */
	}
}

static void
leaf_that_ends_within_the_hour_is_replaced(void **state UNUSED)
{
	AUTO_TLS one = tls_begin(client(web), "web.test", NULL);
	AUTO_TLS two = {.fd = -1};
	AUTO_TLS three = {.fd = -1};

	leaf("web.test", 3500);
	assert_true(tls_shake(&one));
	two = tls_begin(client(web), "web.test", NULL);
	leaf("web.test", 4000);
	assert_true(tls_shake(&two));
	three = tls_begin(client(web), "web.test", NULL);
	assert_true(tls_shake(&three));
	assert_int_equal(count(MSG_F_LEAF_ASK), 0);
}

static void
without_a_leaf_there_is_no_connection(void **state UNUSED)
{
	AUTO_FD int fd = client(web);
	AUTO_TLS later = {.fd = -1};

	leaf("web.test", 0);
	assert_string_equal(hear(fd), "$");
	/* Asked again by the next one. */
	later = tls_begin(client(web), "web.test", NULL);
	leaf("web.test", CA_LEAF_SECONDS);
	assert_true(tls_shake(&later));
}

static void
handshake_has_its_time(void **state UNUSED)
{
	AUTO_FD int fd = -1;

	hub->clocks.startup = 60;
	fd = client(web);
	leaf("web.test", CA_LEAF_SECONDS);
	assert_string_equal(hear(fd), "");
	pump(80);
	assert_string_equal(hear(fd), "$");
}

/* --- the proxy ---------------------------------------------------------------------------- */

static void
requests_in_a_tunnel_are_told_with_all_three_names(void **state UNUSED)
{
	AUTO_TLS t = tunnel("A.test.:443", "a.test");
	AUTO_ACT a = {0};

	assert_true(tls_shake(&t));
	tls_say(&t, "GET /1 HTTP/1.1\r\nHost: A.TEST.\r\n\r\n");
	a = act();
	assert_string_equal(a.fault, "");
	assert_string_equal(a.host, "a.test");
	assert_string_equal(a.connect, "a.test:443");
	assert_string_equal(a.sni, "a.test");
	assert_true(a.port == 443 && a.tls == 1);
	answer_empty(&a);
	(void)tls_hear(&t);
	act_free(&a);
	/* Another Host, later in the same tunnel: core sees that they differ. */
	tls_say(&t, "GET /2 HTTP/1.1\r\nHost: b.test\r\n\r\n");
	a = act();
	assert_string_equal(a.host, "a.test");
	assert_non_null(strstr(a.head, "\r\nHost: b.test\r\n"));
	refuse(&a, 421, false, "{}");
	assert_true(strncmp(tls_hear(&t), "HTTP/1.1 421 ", 13) == 0);
	act_free(&a);
	tls_say(&t, "GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n");
	a = act();
	assert_true(a.fault[0] != '\0');
	assert_string_equal(a.connect, "a.test:443");
}

static void
tunnel_for_one_name_does_not_take_another(void **state UNUSED)
{
	AUTO_TLS t = tunnel("a.test:443", "a.test");

	SSL_set_tlsext_host_name(t.ssl, "b.test");
	assert_false(tls_shake(&t));
	assert_string_equal(t.why, "tlsv1 unrecognized name");
}

/* NET-05 and NET-03: what is no name and port never becomes a question about one. */
static void
connect_to_what_is_no_name_and_port_is_a_fault(void **state UNUSED)
{
	static const struct str bad[] = {{"ok.test:0", 9}, {"ok.test:65536", 13},
	    {"ok.test:443x", 12}, {"ok.test", 7}, {"ok.test:", 8}, {":443", 4},
	    {"evil.test\0.ok.test:443", 22}, {"ok.test%00.evil.test:443", 24},
	    {"a.ok.test@evil.test:443", 23}, {"2130706433:443", 14}, {"0177.0.0.1:443", 14},
	    {"a\uff0eok.test:443", 15}, {"[::ffff:127.0.0.1:443", 21}};
	AUTO_BUF struct buf label = BUF(1000);

	for (size_t i = 0; i < 256; i++)
		buf_put_c(&label, 'a');
	buf_put_z(&label, ".ok.test:443");
	for (size_t i = 0; i <= ARRAY_LEN(bad); i++) {
		AUTO_FD int fd = client(proxy);
		AUTO_ACT a = {0};
		struct str name = i < ARRAY_LEN(bad) ? bad[i] : buf_str(&label);
		AUTO_BUF struct buf b = BUF(2000);

		buf_put_z(&b, "CONNECT ");
		buf_put_str(&b, name);
		buf_put_z(&b, " HTTP/1.1\r\nHost: ");
		buf_put_str(&b, name);
		buf_put_z(&b, "\r\n\r\n");
		say_str(fd, buf_str(&b));
		a = act();
		if (a.fault[0] == '\0')
			fail_msg("%s: \"%s\"", name.p, a.fault);
		refuse(&a, 400, true, "{}");
		assert_non_null(strstr(hear(fd), "{}$"));
	}
	assert_int_equal(count(MSG_H_CONNECT), 0);
}

static void
connect_reaches_core_as_one_spelling(void **state UNUSED)
{
	static const struct {
		const char *target, *host;
		uint32_t port;
	} good[] = {{"a.ok.test.:443", "a.ok.test", 443}, {"A.OK.TEST:22", "a.ok.test", 22},
	    {"[::FFFF:7f00:1]:5432", "::ffff:127.0.0.1", 5432},
	    {"evilok.test:443", "evilok.test", 443}};

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		AUTO_FD int fd = client(proxy);
		AUTO_BUF struct buf b = BUF(1000);
		struct act none = {0};
		struct rd r;

		buf_printf(
		    &b, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", good[i].target, good[i].target);
		say_str(fd, buf_str(&b));
		r = rd_init(buf_str(&seen[expect(MSG_H_CONNECT)].body));
		none.conn = rd_u64(&r);
		(void)rd_u32(&r);
		assert_true(str_eqz(rd_lstr(&r), good[i].host));
		assert_int_equal(rd_u32(&r), good[i].port);
		assert_true(str_eqz(rd_lstr(&r), good[i].target));
		assert_true(rd_end(&r));
		refuse(&none, 403, false, "{}");
		assert_non_null(strstr(hear(fd), "\r\nContent-Length: 2\r\n\r\n{}"));
		/* A proxy that said no can be asked for something else. */
		say(fd, "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n");
		{
			AUTO_ACT a = act();

			assert_string_equal(a.fault, "");
			assert_string_equal(a.connect, "");
		}
	}
}

static void
bytes_behind_connect_are_no_handshake(void **state UNUSED)
{
	AUTO_FD int fd = client(proxy);
	AUTO_ACT a = {0};

	say(fd, "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n\x16\x03\x01");
	a = act();
	assert_string_equal(a.fault, "bytes behind CONNECT, before its answer");
	assert_int_equal(count(MSG_H_CONNECT), 0);
}

static void
tunnel_without_a_leaf_is_refused_in_words(void **state UNUSED)
{
	AUTO_FD int fd = client(proxy);
	AUTO_BUF struct buf b = BUF(1000);
	struct rd r;

	say(fd, "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n");
	r = rd_init(buf_str(&seen[expect(MSG_H_CONNECT)].body));
	buf_u64(&b, rd_u64(&r));
	buf_lz(&b, "a.test");
	tell(core, MSG_H_CONNECTED, &b);
	leaf("a.test", 0);
	assert_true(strncmp(hear(fd), "HTTP/1.1 503 ", 13) == 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    S(request_under_tls_is_told_with_the_name_of_the_handshake),
	    S(client_that_speaks_http_1_0_alone_is_served),
	    S(handshake_for_another_name_or_protocol_is_refused),
	    S(http2_preface_is_a_fault),
	    S(sessions_are_not_resumed),
	    S(address_needs_no_name),
	    S(answer_that_breaks_off_has_no_goodbye),
	    S(answer_that_is_there_as_a_whole_ends_with_goodbye),
	    S(leaf_is_asked_for_once_and_those_who_wait_are_woken),
	    S(leaf_that_ends_within_the_hour_is_replaced),
	    S(without_a_leaf_there_is_no_connection),
	    S(handshake_has_its_time),
	    S(requests_in_a_tunnel_are_told_with_all_three_names),
	    S(tunnel_for_one_name_does_not_take_another),
	    S(connect_to_what_is_no_name_and_port_is_a_fault),
	    S(connect_reaches_core_as_one_spelling),
	    S(bytes_behind_connect_are_no_handshake),
	    S(tunnel_without_a_leaf_is_refused_in_words),
	};

	return cmocka_run_group_tests_name("front_https", tests, NULL, NULL);
}
