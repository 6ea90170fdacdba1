/* The proxy: CONNECT, what follows in a tunnel, and which names make one. */
#include "tests/unit/front_tls_help.h"

#include "common/banned.h"

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

/* Under a wildcard a run can make up names without end. */
static void
names_of_a_run_that_are_kept_are_bounded(void **state UNUSED)
{
	struct front_listener *l;
	struct front_listener *other;

	(void)listen_run(901, FRONT_PROXY, "r-1", "", 3128);
	(void)listen_run(902, FRONT_PROXY, "r-2", "", 3128);
	l = front_listen_find(hub, 901);
	other = front_listen_find(hub, 902);
	assert_null(front_leaf_get(other, "first.test"));
	leaf("first.test", CA_LEAF_SECONDS);
	for (int i = 0; i < 600; i++) {
		char host[40];

		(void)snprintf(host, sizeof(host), "h%d.test", i);
		assert_null(front_leaf_get(l, host));
		leaf(host, i == 0 ? CA_LEAF_SECONDS : 0);
		if (i == 511)
			assert_non_null(front_leaf_get(l, "h0.test"));
	}
	assert_int_equal(hub->nleaves, 513);
	assert_non_null(front_leaf_get(other, "first.test"));
	assert_null(front_leaf_get(l, "h0.test"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    S(names_of_a_run_that_are_kept_are_bounded),
	    S(requests_in_a_tunnel_are_told_with_all_three_names),
	    S(tunnel_for_one_name_does_not_take_another),
	    S(connect_to_what_is_no_name_and_port_is_a_fault),
	    S(connect_reaches_core_as_one_spelling),
	    S(bytes_behind_connect_are_no_handshake),
	    S(tunnel_without_a_leaf_is_refused_in_words),
	};

	return cmocka_run_group_tests_name("front_proxy", tests, NULL, NULL);
}
