/* Requests to switch protocols, and 101s: what asks for one thing, and what agrees to just that. */
#include "tests/unit/http_help.h"

#include "broker/upstream_upgrade.h"

#include "common/banned.h"

#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" /* of RFC 6455 section 1.3 */
#define ACCEPT "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define UP "Connection: Upgrade\r\nUpgrade: "
#define WS UP "websocket\r\n" KEY VERSION
#define H101 "HTTP/1.1 101 Switching Protocols\r\n"

static void
assert_asks(const char *head, const char *want)
{
	struct http_request r;
	struct str protocol = STR("?");
	struct err err = {0};

	if (http_request_parse(str_z(head), &r, &err) != 0)
		fail_msg("%s: %s", head, err.msg);
	if (http_upgrade_asks(&r, &protocol) != (want != NULL) ||
	    !str_eqz(protocol, want != NULL ? want : ""))
		fail_msg("%s asks for \"%.*s\"", head, STR_ARG(protocol));
}

static void
one_protocol_is_asked_for_in_one_way(void **state UNUSED)
{
	assert_asks(GET(WS), "websocket");
	assert_asks(GET(UP "WebSocket\r\n" KEY VERSION), "WebSocket");
	assert_asks(GET("Connection: keep-alive, upgrade\r\nUpgrade: SPDY/3.1\r\n"), "SPDY/3.1");
	assert_asks(POST(UP "SPDY/3.1\r\nContent-Length: 0\r\n"), "SPDY/3.1");
	assert_asks(GET(""), NULL);
	assert_asks(GET("Connection: Upgrade\r\n"), NULL);
	assert_asks(GET("Upgrade: websocket\r\n" KEY VERSION), NULL);
	assert_asks(GET(UP "websocket, h2c\r\n" KEY VERSION), NULL);
	assert_asks(GET(WS "Upgrade: x\r\n"), NULL);
	assert_asks(GET(WS "HTTP2-Settings: AAMAAABk\r\n"), NULL);
	assert_asks(GET(UP "h2c\r\n"), NULL);
	assert_asks(GET(UP "h2\r\n"), NULL);
	assert_asks(GET(UP "HTTP/2.0\r\n"), NULL);
	assert_asks(GET(UP "TLS/1.0\r\n"), NULL);
	assert_asks(GET(UP "a/b/c\r\n"), NULL);
	assert_asks(GET(UP "a/\r\n"), NULL);
	assert_asks(GET(UP "\r\n"), NULL);
	assert_asks("GET / HTTP/1.0\r\nHost: a.test\r\n" WS "\r\n", NULL);
	assert_asks(POST(UP "SPDY/3.1\r\nContent-Length: 1\r\n"), NULL);
	assert_asks(POST(UP "SPDY/3.1\r\nTransfer-Encoding: chunked\r\n"), NULL);
	assert_asks(POST(UP "SPDY/3.1\r\nContent-Length: 0\r\nExpect: 100-continue\r\n"), NULL);
	assert_asks(GET(WS "Expect: 100-continue\r\n"), NULL);
	assert_asks("HEAD / HTTP/1.1\r\nHost: a.test\r\n" UP "SPDY/3.1\r\n\r\n", NULL);
}

static void
a_websocket_has_its_key_and_version(void **state UNUSED)
{
	assert_asks(GET(UP "websocket\r\n" VERSION), NULL);
	assert_asks(GET(UP "websocket\r\n" KEY), NULL);
	assert_asks(GET(UP "websocket\r\n" KEY "Sec-WebSocket-Version: 8\r\n"), NULL);
	assert_asks(GET(WS KEY), NULL);
	assert_asks(GET(WS VERSION), NULL);
	assert_asks(GET(UP "websocket\r\nSec-WebSocket-Key: c2hvcnQ=\r\n" VERSION), NULL);
	assert_asks(GET(UP "websocket\r\nSec-WebSocket-Key: %%%\r\n" VERSION), NULL);
	assert_asks(POST(WS "Content-Length: 0\r\n"), NULL);
}

static const struct http_field ws_asked[] = {{STR("Upgrade"), STR("websocket")},
    {STR("Sec-WebSocket-Key"), STR("dGhlIHNhbXBsZSBub25jZQ==")},
    {STR("Sec-WebSocket-Protocol"), STR("chat, v4.channel.k8s.io")},
    {STR("Sec-WebSocket-Protocol"), STR("superchat")}};
static const struct http_field spdy_asked[] = {{STR("Upgrade"), STR("SPDY/3.1")}};

static int
checked(const struct http_field *f, size_t n, const char *head)
{
	struct upgrade_ask *a = n != 0 ? upgrade_ask_new(f, n) : NULL;
	struct http_response r;
	struct err err = {0};
	int rc = http_response_parse(str_z(head), false, &r, &err);

	assert_int_equal(rc, 0);
	rc = upgrade_check(a, &r, &err);
	upgrade_ask_free(a);
	return rc;
}

static void
a_101_agrees_to_what_was_asked_and_nothing_else(void **state UNUSED)
{
	static const struct {
		const char *head;
		int rc;
	} rows[] = {
	    {H101 UP "websocket\r\n" ACCEPT "\r\n", 0},
	    {H101 UP "WebSocket\r\n" ACCEPT "Date: x\r\n\r\n", 0},
	    {H101 UP "websocket\r\n" ACCEPT "Sec-WebSocket-Protocol: superchat\r\n\r\n", 0},
	    {H101 UP "websocket\r\n" ACCEPT "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n", 0},
	    {H101 UP "websocket\r\n" ACCEPT "Sec-WebSocket-Protocol: Chat\r\n\r\n", ERR_UPSTREAM},
	    {H101 UP "websocket\r\n" ACCEPT "Sec-WebSocket-Protocol: chat, superchat\r\n\r\n",
		ERR_UPSTREAM},
	    {H101 UP "websocket\r\n" ACCEPT
		     "Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Protocol: chat\r\n\r\n",
		ERR_UPSTREAM},
	    {H101 UP "websocket\r\n" ACCEPT "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
		ERR_UPSTREAM},
	    {H101 UP "websocket\r\n" ACCEPT ACCEPT "\r\n", ERR_UPSTREAM},
	    {H101 UP "websocket\r\nSec-WebSocket-Accept: x\r\n\r\n", ERR_UPSTREAM},
	    {H101 UP "websocket\r\n\r\n", ERR_UPSTREAM},
	    {H101 UP "h2c\r\n" ACCEPT "\r\n", ERR_UPSTREAM},
	    {H101 UP "websocket, x\r\n" ACCEPT "\r\n", ERR_UPSTREAM},
	    {H101 UP "websocket\r\nUpgrade: x\r\n" ACCEPT "\r\n", ERR_UPSTREAM},
	    {H101 "Upgrade: websocket\r\n" ACCEPT "\r\n", ERR_UPSTREAM},
	    {H101 "Connection: Upgrade\r\n" ACCEPT "\r\n", ERR_UPSTREAM},
	    {H101 UP "websocket\r\n" ACCEPT "Content-Length: 0\r\n\r\n", ERR_UPSTREAM},
	    {"HTTP/1.0 101 x\r\n" UP "websocket\r\n" ACCEPT "\r\n", ERR_UPSTREAM},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (checked(ws_asked, ARRAY_LEN(ws_asked), rows[i].head) != rows[i].rc)
			fail_msg("row %zu: %s", i, rows[i].head);
	assert_int_equal(checked(spdy_asked, 1, H101 UP "SPDY/3.1\r\n\r\n"), 0);
	assert_int_equal(checked(spdy_asked, 1, H101 UP "SPDY/3\r\n\r\n"), ERR_UPSTREAM);
	/* Who has not asked is not answered so. */
	assert_int_equal(checked(NULL, 0, H101 UP "SPDY/3.1\r\n\r\n"), ERR_UPSTREAM);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_protocol_is_asked_for_in_one_way),
	    cmocka_unit_test(a_websocket_has_its_key_and_version),
	    cmocka_unit_test(a_101_agrees_to_what_was_asked_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
