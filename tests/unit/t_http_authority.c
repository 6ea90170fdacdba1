/* HTTP authorities: one spelling for a host, and Host beside the target. */
#include "tests/unit/http_help.h"

#include "common/banned.h"

static void
authority_has_one_spelling(void **state UNUSED)
{
	static const struct {
		const char *in, *host;
		uint16_t port;
	} cases[] = {
	    {"a.test", "a.test", 0},
	    {"A.OK.Test", "a.ok.test", 0},
	    {"a.ok.test.", "a.ok.test", 0},
	    {"a.ok.test.:443", "a.ok.test", 443},
	    {"a_b-c.test:1", "a_b-c.test", 1},
	    {"localhost:65535", "localhost", 65535},
	    {"127.0.0.1:80", "127.0.0.1", 80},
	    {"127.0.0.1.", "127.0.0.1", 0},
	    {"1.2.3.example", "1.2.3.example", 0},
	    {"0x7f.test", "0x7f.test", 0},
	    {"a.0xg", "a.0xg", 0},
	    {"xn--bcher-kva.test", "xn--bcher-kva.test", 0},
	    {"[::1]", "::1", 0},
	    {"[2001:DB8:0:0::0001]:8443", "2001:db8::1", 8443},
	    {"[::FFFF:127.0.0.1]", "::ffff:127.0.0.1", 0},
	    {"[::ffff:7f00:1]", "::ffff:127.0.0.1", 0},
	};
	char host[HTTP_HOST_SIZE];
	uint16_t port;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = {0};

		if (http_authority_parse(str_z(cases[i].in), host, &port, &err) != 0)
			fail_msg("%s: %s", cases[i].in, err.msg);
		assert_string_equal(host, cases[i].host);
		assert_int_equal(port, cases[i].port);
	}
}

static void
authority_of_two_meanings_is_refused(void **state UNUSED)
{
	static const struct str cases[] = {
	    STR(""),
	    STR("."),
	    STR(".."),
	    STR(":80"),
	    STR("a..test"),
	    STR(".a.test"),
	    STR("a.test.."),
	    STR("-a.test"),
	    STR("evil.test\0.ok.test"),
	    STR("ok.test%00.evil.test"),
	    STR("a.ok.test@evil.test"),
	    STR("user:x@a.test"),
	    STR("a b.test"),
	    STR(" a.test"),
	    STR("a.test "),
	    STR("a.test/"),
	    STR("a.test?"),
	    STR("a.test#"),
	    STR("a,b"),
	    STR("a.test,b.test"),
	    STR("b\xc3\xbc"
		"cher.test"),
	    STR("ok\xef\xbc\x8etest"),
	    STR("*.ok.test"),
	    STR("a%2etest"),
	    STR("\"a.test\""),
	    /* What a resolver takes for an address. */
	    STR("2130706433"),
	    STR("0177.0.0.1"),
	    STR("127.1"),
	    STR("0x7f.0.0.1"),
	    STR("0x7f000001"),
	    STR("127.0.0.0x1"),
	    STR("0x"),
	    STR("1.2.3.4.5"),
	    STR("256.0.0.1"),
	    STR("127.0.0.01"),
	    STR("1.2.3."),
	    STR("a.1"),
	    STR("0X7F000001"),
	    /* Ports. */
	    STR("a.test:"),
	    STR("a.test:0"),
	    STR("a.test:65536"),
	    STR("a.test:443x"),
	    STR("a.test:0443"),
	    STR("a.test:+443"),
	    STR("a.test: 443"),
	    STR("a.test:443:443"),
	    STR("a.test:-1"),
	    STR("a.test:18446744073709552059"),
	    STR("::1"),
	    STR("::1:443"),
	    /* Brackets. */
	    STR("["),
	    STR("[]"),
	    STR("[::1"),
	    STR("[::1]443"),
	    STR("[::1]:"),
	    STR("[::1]x:443"),
	    STR("[127.0.0.1]"),
	    STR("[::1%25eth0]"),
	    STR("[::1%eth0]"),
	    STR("[a.test]"),
	    STR("[::g]"),
	    STR("[[::1]]"),
	    STR("[1:2:3:4:5:6:7:8:9]"),
	    STR("x[::1]"),
	    STR("[0000:0000:0000:0000:0000:0000:0000:0000:0000:0001]"),
	    STR("[::1\0]"),
	};
	char host[HTTP_HOST_SIZE] = "untouched";
	uint16_t port = 7;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = {0};

		if (http_authority_parse(cases[i], host, &port, &err) != ERR_SYNTAX)
			fail_msg("\"%s\" passed", cases[i].p);
		assert_true(err.msg[0] != '\0');
		assert_string_equal(host, "untouched");
		assert_int_equal(port, 7);
	}
}

static int
name_of(size_t label, size_t total, bool dot)
{
	AUTO_BUF struct buf b = BUF(1024);
	char host[HTTP_HOST_SIZE];
	uint16_t port;

	for (size_t i = 0; i < total; i++)
		buf_put_c(&b, i % (label + 1) == label ? '.' : 'a');
	if (dot)
		buf_put_c(&b, '.');
	return http_authority_parse(buf_str(&b), host, &port, NULL);
}

static void
names_and_labels_have_the_lengths_of_dns(void **state UNUSED)
{
	assert_int_equal(name_of(63, 63, false), 0);
	assert_int_equal(name_of(64, 64, false), ERR_SYNTAX);
	assert_int_equal(name_of(256, 256, false), ERR_SYNTAX);
	assert_int_equal(name_of(63, HTTP_HOST_MAX, false), 0);
	assert_int_equal(name_of(63, HTTP_HOST_MAX, true), 0);
	assert_int_equal(name_of(63, HTTP_HOST_MAX + 1, false), ERR_SYNTAX);
	assert_int_equal(name_of(31, 1000, false), ERR_SYNTAX);
}

#define WITH(target, host) STR("GET " target " HTTP/1.1\r\nHost: " host "\r\n\r\n")

static void
there_is_one_host_and_it_is_the_target(void **state UNUSED)
{
	static const struct http_pair cases[] = {
	    {"no Host", STR("GET / HTTP/1.1\r\n\r\n"), ERR_SYNTAX, STR(GET(""))},
	    {"no Host", STR("GET / HTTP/1.0\r\n\r\n"), ERR_SYNTAX,
		STR("GET / HTTP/1.0\r\nHost: a\r\n\r\n")},
	    {"no Host", STR("GET http://a.test/ HTTP/1.1\r\n\r\n"), ERR_SYNTAX,
		STR("GET http://a.test/ HTTP/1.0\r\n\r\n")},
	    {"no Host", STR("CONNECT a.test:443 HTTP/1.1\r\n\r\n"), ERR_SYNTAX,
		STR("CONNECT a.test:443 HTTP/1.0\r\n\r\n")},
	    {"more than one Host", STR(GET("host: a.test\r\n")), ERR_SYNTAX,
		STR(GET("X-Host: a.test\r\n"))},
	    {"more than one Host", STR(GET("X: y\r\nHOST: b.test\r\n")), ERR_SYNTAX,
		STR(GET("X: y\r\n"))},
	    {"host: 0 bytes", WITH("/", ""), ERR_SYNTAX, WITH("/", "a")},
	    {"host", WITH("/", "user@a.test"), ERR_SYNTAX, WITH("/", "user.a.test")},
	    {"port", WITH("/", "a.test:443x"), ERR_SYNTAX, WITH("/", "\ta.test:443 ")},
	    {"authority of the target", WITH("http://a.test/", "b.test"), ERR_SYNTAX,
		WITH("http://a.test/", "a.test")},
	    {"authority of the target", WITH("http://a.test/", "a.test:8080"), ERR_SYNTAX,
		WITH("http://a.test:8080/", "a.test:8080")},
	    {"authority of the target", WITH("http://a.test:8080/", "a.test"), ERR_SYNTAX,
		WITH("http://a.test:80/", "a.test")},
	    {"authority of the target", WITH("http://a.test/", "a.test:443"), ERR_SYNTAX,
		WITH("https://a.test/", "a.test:443")},
	    {"authority of the target", WITH("https://a.test/", "a.test:80"), ERR_SYNTAX,
		WITH("http://a.test/", "A.TEST.:80")},
	    {"host", WITH("http://x@a.test/", "a.test"), ERR_SYNTAX,
		WITH("http://a.test/x@", "a.test")},
	    {"host: 0 bytes", WITH("http:///x", "a.test"), ERR_SYNTAX,
		WITH("http://a.test/x", "a.test")},
	};

	http_assert_pairs(cases);
}

#define TUNNEL(target, host) STR("CONNECT " target " HTTP/1.1\r\nHost: " host "\r\n\r\n")

static void
tunnel_needs_host_and_port(void **state UNUSED)
{
	static const struct http_pair cases[] = {
	    {"host:port", TUNNEL("a.test", "a.test"), ERR_SYNTAX, TUNNEL("a.test:22", "a.test:22")},
	    {"port", TUNNEL("a.test:0", "a.test"), ERR_SYNTAX, TUNNEL("a.test:443", "a.test")},
	    {"port", TUNNEL("a.test:65536", "a.test"), ERR_SYNTAX, TUNNEL("a.test:80", "a.test")},
	    {"port", TUNNEL("a.test:443x", "a.test"), ERR_SYNTAX, TUNNEL("[::1]:443", "[::1]:443")},
	    {"port", TUNNEL("https://a.test:443", "a.test:443"), ERR_SYNTAX,
		TUNNEL("a.test:443", "a.test:443")},
	    {"port", TUNNEL("a.test:443/", "a.test"), ERR_SYNTAX, TUNNEL("a.test:443", "a.test")},
	    {"host", TUNNEL("/", "a.test"), ERR_SYNTAX, TUNNEL("a.test:443", "a.test")},
	    {"host", TUNNEL("*", "a.test"), ERR_SYNTAX, TUNNEL("a.test:443", "a.test")},
	    {"authority of the target", TUNNEL("a.test:443", "b.test:443"), ERR_SYNTAX,
		TUNNEL("A.test.:443", "a.Test:443")},
	    {"authority of the target", TUNNEL("a.test:443", "a.test:80"), ERR_SYNTAX,
		TUNNEL("a.test:80", "a.test:80")},
	    {"authority of the target", TUNNEL("a.test:8443", "a.test"), ERR_SYNTAX,
		TUNNEL("a.test:8443", "a.test:8443")},
	    {"neither", STR("connect a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n"), ERR_SYNTAX,
		TUNNEL("a.test:443", "a.test:443")},
	};
	static struct http_request r;

	http_assert_pairs(cases);
	http_parsed(TUNNEL("A.Test:443", "a.test"), &r);
	assert_int_equal(r.form, HTTP_AUTHORITY);
	assert_string_equal(r.host, "a.test");
	assert_int_equal(r.port, 443);
	assert_true(r.path.n == 0 && !r.has_query && !r.tls);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(authority_has_one_spelling),
	    cmocka_unit_test(authority_of_two_meanings_is_refused),
	    cmocka_unit_test(names_and_labels_have_the_lengths_of_dns),
	    cmocka_unit_test(there_is_one_host_and_it_is_the_target),
	    cmocka_unit_test(tunnel_needs_host_and_port),
	};

	return cmocka_run_group_tests_name("http_authority", tests, NULL, NULL);
}
