/* HTTP request heads: what frames a body, what keeps a connection, what a request waits for. */
#include "tests/unit/http_help.h"

#include "common/banned.h"

#define CL "Content-Length: "
#define TE "Transfer-Encoding: "
#define POST10(fields) "POST / HTTP/1.0\r\n" HOST fields "\r\n"

static void
content_length_is_one_plain_number(void **state UNUSED)
{
	static const struct http_pair cases[] = {
	    {"more than one", STR(POST(CL "5\r\n" CL "6\r\n")), ERR_SYNTAX, STR(POST(CL "5\r\n"))},
	    {"more than one", STR(POST(CL "5\r\n" CL "5\r\n")), ERR_SYNTAX, STR(POST(CL "5\r\n"))},
	    {"more than one", STR(POST(CL "5\r\nX: y\r\ncontent-length: 5\r\n")), ERR_SYNTAX,
		STR(POST("content-length: 5\r\n"))},
	    {"decimal", STR(POST(CL "5, 5\r\n")), ERR_SYNTAX, STR(POST(CL "5\r\n"))},
	    {"decimal", STR(POST(CL "+5\r\n")), ERR_SYNTAX, STR(POST(CL "5\r\n"))},
	    {"decimal", STR(POST(CL "-5\r\n")), ERR_SYNTAX, STR(POST(CL "5\r\n"))},
	    {"decimal", STR(POST(CL "-0\r\n")), ERR_SYNTAX, STR(POST(CL "0\r\n"))},
	    {"decimal", STR(POST(CL "\r\n")), ERR_SYNTAX, STR(POST(CL "0\r\n"))},
	    {"decimal", STR(POST(CL "05\r\n")), ERR_SYNTAX, STR(POST(CL "50\r\n"))},
	    {"decimal", STR(POST(CL "0x5\r\n")), ERR_SYNTAX, STR(POST(CL "5\r\n"))},
	    {"decimal", STR(POST(CL "5 5\r\n")), ERR_SYNTAX, STR(POST(CL "  55  \r\n"))},
	    {"decimal", STR(POST(CL "5;\r\n")), ERR_SYNTAX, STR(POST(CL "5\r\n"))},
	    {"decimal", STR(POST(CL "\xd9\xa5\r\n")), ERR_SYNTAX, STR(POST(CL "5\r\n"))},
	    {"decimal", STR(POST(CL "9223372036854775808\r\n")), ERR_SYNTAX,
		STR(POST(CL "9223372036854775807\r\n"))},
	    {"decimal", STR(POST(CL "18446744073709551621\r\n")), ERR_SYNTAX,
		STR(POST(CL "5\r\n"))},
	    {"a tab in", STR(POST(CL "\t5\r\n")), ERR_SYNTAX, STR(POST(CL "5\r\n"))},
	    {"not a token", STR(POST("Content-Length : 5\r\n")), ERR_SYNTAX,
		STR(POST("Content-Length:5\r\n"))},
	    {"white space", STR(POST("X: y\r\n Content-Length: 5\r\n")), ERR_SYNTAX,
		STR(POST("X: y\r\nContent-Length: 5\r\n"))},
	};

	http_assert_pairs(cases);
}

static void
transfer_encoding_is_chunked_and_alone(void **state UNUSED)
{
	static const struct http_pair cases[] = {
	    {"both", STR(POST(CL "5\r\n" TE "chunked\r\n")), ERR_SYNTAX,
		STR(POST(TE "chunked\r\n"))},
	    {"both", STR(POST(TE "chunked\r\n" CL "0\r\n")), ERR_SYNTAX, STR(POST(CL "0\r\n"))},
	    {"not \"chunked\"", STR(POST(TE "xchunked\r\n")), ERR_SYNTAX,
		STR(POST(TE "Chunked\r\n"))},
	    {"not \"chunked\"", STR(POST(TE "chunked, chunked\r\n")), ERR_SYNTAX,
		STR(POST(TE "chunked\r\n"))},
	    {"not \"chunked\"", STR(POST(TE "chunked, identity\r\n")), ERR_SYNTAX,
		STR(POST(TE "chunked\r\n"))},
	    {"not \"chunked\"", STR(POST(TE "chunked, chunked, chunked\r\n")), ERR_SYNTAX,
		STR(POST(TE "chunked\r\n"))},
	    {"not \"chunked\"", STR(POST(TE "identity\r\n")), ERR_SYNTAX,
		STR(POST(TE " chunked \r\n"))},
	    {"not \"chunked\"", STR(POST(TE "gzip\r\n")), ERR_SYNTAX, STR(POST(TE "chunked\r\n"))},
	    {"not \"chunked\"", STR(POST(TE "\r\n")), ERR_SYNTAX, STR(POST(TE "chunked\r\n"))},
	    {"not \"chunked\"", STR(POST(TE "chunked;q=1\r\n")), ERR_SYNTAX,
		STR(POST(TE "chunked\r\n"))},
	    {"not \"chunked\"", STR(POST(TE "\"chunked\"\r\n")), ERR_SYNTAX,
		STR(POST(TE "chunked\r\n"))},
	    {"not \"chunked\"", STR(POST(TE ",chunked\r\n")), ERR_SYNTAX,
		STR(POST(TE "chunked\r\n"))},
	    {"not \"chunked\"", STR(POST(TE "chunked,\r\n")), ERR_SYNTAX,
		STR(POST(TE "chunked\r\n"))},
	    {"not \"chunked\"", STR(POST(TE "chunked\xa0\r\n")), ERR_SYNTAX,
		STR(POST(TE "chunked\r\n"))},
	    {"a tab in", STR(POST(TE "chunked\t\r\n")), ERR_SYNTAX, STR(POST(TE "chunked \r\n"))},
	    {"control",
		STR(POST(TE "\x0b"
			    "chunked\r\n")),
		ERR_SYNTAX, STR(POST(TE "chunked\r\n"))},
	    {"more than one", STR(POST(TE "chunked\r\n" TE "chunked\r\n")), ERR_SYNTAX,
		STR(POST(TE "chunked\r\n"))},
	    {"more than one", STR(POST(TE "gzip\r\ntransfer-encoding: chunked\r\n")), ERR_SYNTAX,
		STR(POST("transfer-encoding: chunked\r\n"))},
	    {"not a token", STR(POST("Transfer-Encoding : chunked\r\n")), ERR_SYNTAX,
		STR(POST("Transfer-Encoding:chunked\r\n"))},
	    {"in HTTP/1.0", STR(POST10(TE "chunked\r\n")), ERR_SYNTAX, STR(POST10(CL "5\r\n"))},
	    {"a transfer coding", STR(POST(TE "gzip, chunked\r\n")), ERR_UNSUPPORTED,
		STR(POST("Content-Encoding: gzip\r\n" TE "chunked\r\n"))},
	};

	http_assert_pairs(cases);
}

static void
framing_is_what_the_fields_say(void **state UNUSED)
{
	static struct http_request r;

	http_parsed(STR(POST("")), &r);
	assert_int_equal(r.body, HTTP_BODY_NONE);
	http_parsed(STR(GET(CL "7\r\n")), &r);
	assert_int_equal(r.body, HTTP_BODY_LENGTH);
	assert_int_equal(r.length, 7);
	http_parsed(STR(POST(CL "0\r\n")), &r);
	assert_int_equal(r.body, HTTP_BODY_LENGTH);
	assert_int_equal(r.length, 0);
	http_parsed(STR(POST(TE "CHUNKED\r\n")), &r);
	assert_int_equal(r.body, HTTP_BODY_CHUNKED);
	assert_int_equal(r.length, 0);
	/* Fields that only sound like it. */
	http_parsed(STR(POST("Content-Lengths: 5\r\nX-Transfer-Encoding: chunked\r\n")), &r);
	assert_int_equal(r.body, HTTP_BODY_NONE);
}

static void
tunnel_has_no_body(void **state UNUSED)
{
#define TUNNEL(fields) STR("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n" fields "\r\n")
	static const struct http_pair cases[] = {
	    {"CONNECT with a body", TUNNEL(CL "5\r\n"), ERR_SYNTAX, TUNNEL(CL "0\r\n")},
	    {"CONNECT with a body", TUNNEL(TE "chunked\r\n"), ERR_SYNTAX, TUNNEL("")},
	};

	http_assert_pairs(cases);
}

static void
connection_is_kept_as_its_version_says(void **state UNUSED)
{
	static const struct {
		struct str head;
		bool keep;
	} cases[] = {
	    {STR(GET("")), true},
	    {STR(GET("Connection: Close\r\n")), false},
	    {STR(GET("Connection: keep-alive\r\n")), true},
	    {STR(GET("Connection: x,\tclose\r\n")), false},
	    {STR(GET("Connection: x\r\nConnection: close\r\n")), false},
	    {STR(GET("Connection: closed\r\n")), true},
	    {STR(GET("Connection: close, keep-alive\r\n")), false},
	    {STR(GET("Proxy-Connection: close\r\n")), false},
	    {STR(POST10("")), false},
	    {STR(POST10("Connection: Keep-Alive\r\n")), true},
	    {STR(POST10("Connection: keep-alive, close\r\n")), false},
	    {STR(POST10("Proxy-Connection: keep-alive\r\n")), false},
	};
	static struct http_request r;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		http_parsed(cases[i].head, &r);
		if (r.keep_alive != cases[i].keep)
			fail_msg("%s", cases[i].head.p);
	}
}

static void
connection_cannot_name_what_every_reader_needs(void **state UNUSED)
{
	static const struct http_pair cases[] = {
	    {"names Host", STR(GET("Connection: Host\r\n")), ERR_SYNTAX,
		STR(GET("Connection: X-Host\r\n"))},
	    {"names content-length", STR(POST("Connection: x, content-length\r\n" CL "5\r\n")),
		ERR_SYNTAX, STR(POST("Connection: x\r\n" CL "5\r\n"))},
	    {"names Content-Type", STR(POST("Connection: Content-Type\r\n")), ERR_SYNTAX,
		STR(POST("Connection: Content\r\n"))},
	    {"names authorization", STR(GET("Connection: close\r\nConnection: authorization\r\n")),
		ERR_SYNTAX, STR(GET("Connection: close\r\nConnection: x-authorization\r\n"))},
	    {"names x-amz-target", STR(POST("Connection: x-amz-target\r\n")), ERR_SYNTAX,
		STR(POST("Connection: X-Amz-Meta-A\r\n"))},
	    {"names Sec-WebSocket-Key", STR(GET("Connection: Upgrade, Sec-WebSocket-Key\r\n")),
		ERR_SYNTAX, STR(GET("Connection: Upgrade, X-Sec-WebSocket-Key\r\n"))},
	    {"names Cookie", STR(GET("Connection: Cookie\r\n")), ERR_SYNTAX,
		STR(GET("Connection: Cookies\r\n"))},
	    {"names Expect", STR(GET("Connection: Expect\r\n")), ERR_SYNTAX,
		STR(GET("Connection: Expected\r\n"))},
	    {"tokens", STR(GET("Connection: \"close\"\r\n")), ERR_SYNTAX,
		STR(GET("Connection: close,,\r\n"))},
	    {"tokens", STR(GET("Connection: close;x\r\n")), ERR_SYNTAX,
		STR(GET("Connection:\r\n"))},
	};

	http_assert_pairs(cases);
}

static void
hop_fields_are_the_known_ones_and_what_connection_names(void **state UNUSED)
{
	static const struct http_field f[] = {
	    {STR("connection"), STR("close, X-Foo")}, {STR("Connection"), STR("x-bar,host")}};
	static const char *const hop[] = {"CONNECTION", "Keep-Alive", "Proxy-Authorization",
	    "Proxy-Connection", "proxy-x", "TE", "Trailer", "Transfer-Encoding", "upgrade",
	    "HTTP2-Settings", "x-foo", "X-Bar", "close"};
	static const char *const end[] = {
	    "Host", "X-Fo", "X-Foo2", "Content-Length", "Authorization", "Accept", "TEA", "Prox"};

	for (size_t i = 0; i < ARRAY_LEN(hop); i++)
		assert_true(http_field_is_hop(f, ARRAY_LEN(f), str_z(hop[i])));
	for (size_t i = 0; i < ARRAY_LEN(end); i++)
		assert_false(http_field_is_hop(f, ARRAY_LEN(f), str_z(end[i])));
}

static void
the_only_field_is_none_where_there_are_two(void **state UNUSED)
{
	static const struct http_field f[] = {{STR("A"), STR("1")}, {STR("b"), STR("2")},
	    {STR("a"), STR("1")}, {STR("ab"), STR("3")}};

	assert_ptr_equal(http_field_only(f, 4, "B"), &f[1]);
	assert_null(http_field_only(f, 4, "a"));
	assert_ptr_equal(http_field_only(f, 2, "a"), &f[0]);
	assert_null(http_field_only(f, 4, "c"));
}

static void
expectation_is_100_continue_or_refused(void **state UNUSED)
{
#define EXPECT(v) "Expect: " v "\r\n"
	static const struct http_pair cases[] = {
	    {"100-continue", STR(POST(CL "5\r\n" EXPECT("x"))), ERR_UNSUPPORTED,
		STR(POST(CL "5\r\n" EXPECT("100-continue")))},
	    {"100-continue", STR(POST(EXPECT(""))), ERR_UNSUPPORTED,
		STR(POST(EXPECT("100-CONTINUE")))},
	    {"100-continue", STR(POST(EXPECT("100-continue, 100-continue"))), ERR_UNSUPPORTED,
		STR(POST(EXPECT(" 100-continue ")))},
	    {"100-continue", STR(POST(EXPECT("100-continue") EXPECT("100-continue"))),
		ERR_UNSUPPORTED, STR(POST(EXPECT("100-continue")))},
	};
	static struct http_request r;

	http_assert_pairs(cases);
	http_parsed(STR(POST(CL "5\r\n" EXPECT("100-Continue"))), &r);
	assert_true(r.expect);
	http_parsed(STR(POST(TE "chunked\r\n" EXPECT("100-continue"))), &r);
	assert_true(r.expect);
	/* Nothing to wait for; and HTTP/1.0 knows no interim answer. */
	http_parsed(STR(POST(CL "0\r\n" EXPECT("100-continue"))), &r);
	assert_false(r.expect);
	http_parsed(STR(POST(EXPECT("100-continue"))), &r);
	assert_false(r.expect);
	http_parsed(STR(POST10(CL "5\r\n" EXPECT("100-continue"))), &r);
	assert_false(r.expect);
}

static void
upgrade_is_told(void **state UNUSED)
{
	static struct http_request r;

	http_parsed(STR(GET("")), &r);
	assert_false(r.upgrade);
	http_parsed(STR(GET("upgrade: websocket\r\nConnection: Upgrade\r\n")), &r);
	assert_true(r.upgrade);
	http_parsed(STR(GET("Upgrade: h2c\r\n")), &r);
	assert_true(r.upgrade);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(content_length_is_one_plain_number),
	    cmocka_unit_test(transfer_encoding_is_chunked_and_alone),
	    cmocka_unit_test(framing_is_what_the_fields_say),
	    cmocka_unit_test(tunnel_has_no_body),
	    cmocka_unit_test(connection_is_kept_as_its_version_says),
	    cmocka_unit_test(connection_cannot_name_what_every_reader_needs),
	    cmocka_unit_test(hop_fields_are_the_known_ones_and_what_connection_names),
	    cmocka_unit_test(the_only_field_is_none_where_there_are_two),
	    cmocka_unit_test(expectation_is_100_continue_or_refused),
	    cmocka_unit_test(upgrade_is_told),
	};

	return cmocka_run_group_tests_name("http_framing", tests, NULL, NULL);
}
