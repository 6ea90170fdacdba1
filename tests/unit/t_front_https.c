/* TLS towards clients: certificates by name, what a handshake must agree with, tunnels of the
 * proxy. */
#include "tests/unit/front_tls_help.h"

#include "common/banned.h"

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
	};

	return cmocka_run_group_tests_name("front_https", tests, NULL, NULL);
}
