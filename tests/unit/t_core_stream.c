/* Upgrades in core: what is leased and signed, what the record says, what ends a stream. */
#include "tests/unit/core_http_help.h"

#include "common/banned.h"

#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define OTHER_KEY "Sec-WebSocket-Key: b3RoZXIgc2FtcGxlIGtleQ==\r\n"
#define WS(key)                                                              \
	"GET /v1/live HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\n" \
	"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"                \
	"Sec-WebSocket-Extensions: permessage-deflate\r\n" key "\r\n"
/* api.test with `upgrade` in its policy. */
static void
policy(struct world *w, int serial, const char *upgrade)
{
	AUTO_FREE char *text = http_policy(w, NULL, serial), *with = NULL;
	char *at = strstr(text, "\"max_body\":10000000");

	*at = '\0';
	with = xasprintf("%s%s\"max_body\":10000000%s", text, upgrade, at + 19);
	core_boot_policy_use(w->c, world_parse(with));
}

#define BOTH "\"upgrade\":{\"websocket\":[\"write\"],\"tcp\":[\"delete\"]},"

static struct http_lease
begins(struct world *w, uint64_t act, const char *head)
{
	asks(w, &(struct ask){.act = act, .head = head});
	return http_leased(w);
}

/* Time passes, until core has looked. */
static void
looks(struct world *w)
{
	for (int i = 0; i < 100; i++) {
		turn(w, 1);
		settle(w);
	}
}

static void
assert_ended(struct world *w, const char *word, const char *status)
{
	AUTO(json) struct json_doc *o = last(w, "outcome");
	const struct json *d = json_root(o);

	assert_state(json_str(json_get(d, "ended")), word);
	assert_state(json_str(json_get(d, "status")), status);
	assert_int_equal(json_int(json_get(d, "http_status")), 101);
	assert_int_equal(json_int(json_get(d, "body_bytes")), 2);
}

static void
an_upgrade_is_leased_with_its_protocol_and_recorded_with_both_ways(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *a = NULL;
	struct http_lease l;
	struct rd r;

	policy(w, 3, BOTH);
	l = begins(w, 1, WS(KEY));
	r = heard(&w->front, MSG_H_GO);
	(void)rd_bytes(&r, 16);
	assert_int_equal(rd_u8(&r), 2);
	assert_int_equal(rd_u64(&r), 10000000);
	assert_int_equal(l.body, 5);
	assert_int_equal(l.length, 10000000);
	assert_int_equal(l.fresh, 1);
	assert_state(lease_field(&l, "Upgrade")->value, "websocket");
	assert_non_null(lease_field(&l, "Sec-WebSocket-Key"));
	assert_null(lease_field(&l, "Sec-WebSocket-Extensions"));
	assert_null(lease_field(&l, "Connection"));
	a = last(w, "action");
	assert_state(json_str(json_get(at(a, "request", "http"), "upgrade")), "websocket");
	answers(w, &(struct answered){.http = 101,
		       .head = l.hash,
		       .ended = 1,
		       .body_bytes = 2,
		       .body = hash_sha256(STR("hi"))});
	(void)heard(&w->front, MSG_H_DONE);
	assert_ended(w, "server", "ok");
	assert_int_equal(w->c->nhttps, 0);
	assert_int_equal(w->run->nstreams, 0);
}

static void
without_the_policys_word_it_is_opaque(void **state)
{
	struct world *w = *state;

	asks(w, &(struct ask){.head = WS(KEY)});
	assert_problem(w, 403, "denied");
	policy(w, 3, "\"upgrade\":{\"tcp\":[\"write\"]},");
	asks(w, &(struct ask){.act = 2, .head = WS(KEY)});
	assert_problem(w, 403, "denied");
	policy(w, 4, "\"upgrade\":{\"websocket\":[\"read\"]},\"upgrade_paths\":[\"/v1/liv\"],");
	asks(w, &(struct ask){.act = 3, .head = WS(KEY)});
	assert_problem(w, 403, "denied");
	assert_true(silent(&w->upstream, MSG_UH_SEND));
	policy(w, 5, "\"upgrade\":{\"websocket\":[\"read\"]},\"upgrade_paths\":[\"/v1/live\"],");
	assert_int_equal(begins(w, 4, WS(KEY)).body, 5);
}

static char *
digest_of(struct world *w, uint64_t act, const char *head)
{
	AUTO(json) struct json_doc *a = NULL;

	asks(w, &(struct ask){.act = act, .head = head});
	a = last(w, "action");
	return str_dup(json_str(at(a, "request", "digest")));
}

static void
what_is_signed_covers_the_protocol_and_not_the_key(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *one = NULL, *two = NULL, *other = NULL, *plain = NULL;

	policy(w, 3, "\"upgrade\":{\"websocket\":[\"delete\"]},");
	one = digest_of(w, 1, WS(KEY));
	two = digest_of(w, 2, WS(OTHER_KEY));
	other = digest_of(w, 3, WS(KEY "X-A: b\r\n"));
	plain = digest_of(w, 4, "GET /v1/live HTTP/1.1\r\nHost: api.test\r\n\r\n");
	assert_string_equal(one, two);
	assert_string_not_equal(one, other);
	assert_string_not_equal(one, plain);
	assert_true(has(str_z(newest_request(w)->show), "Upgrade: websocket"));
}

static void
a_token_in_a_subprotocol_is_a_find(void **state)
{
	struct world *w = *state;

	policy(w, 3, BOTH);
	asks(w, &(struct ask){.head = WS(KEY "Sec-WebSocket-Protocol: "
					     "base64url.bearer.authorization.k8s.io.ZXhh\r\n")});
	assert_problem(w, 403, "credential_foreign");
	assert_non_null(lease_field(
	    &(struct http_lease[1]){begins(w, 2, WS(KEY "Sec-WebSocket-Protocol: a\r\n"))}[0],
	    "Sec-WebSocket-Protocol"));
}

static void
cut(struct world *w, const struct http_lease *l, uint64_t act, const char *word)
{
	looks(w);
	(void)heard(&w->front, MSG_H_ABORT);
	(void)heard(&w->upstream, MSG_UH_ABORT);
	answers(w, &(struct answered){.act = act,
		       .status = 3,
		       .http = 101,
		       .head = l->hash,
		       .ended = 6,
		       .body_bytes = 2,
		       .body = hash_sha256(STR("hi"))});
	assert_ended(w, word, "broken");
	assert_true(silent(&w->front, MSG_H_DONE));
	assert_int_equal(w->c->nhttps, 0);
}

static void
what_would_refuse_it_now_ends_it(void **state)
{
	struct world *w = *state;
	struct http_lease l;

	policy(w, 3, BOTH);
	l = begins(w, 1, WS(KEY));
	looks(w);
	policy(w, 4, BOTH);
	looks(w);
	assert_true(silent(&w->front, MSG_H_ABORT)); /* another policy that says the same of it */
	w->run->paused = true;
	cut(w, &l, 1, "paused");
	w->run->paused = false;
	l = begins(w, 2, WS(KEY));
	policy(w, 6, "\"upgrade\":{\"tcp\":[\"write\"]},");
	cut(w, &l, 2, "policy");
	policy(w, 7, BOTH);
	l = begins(w, 3, WS(KEY));
	policy(w, 8, "\"upgrade\":{\"websocket\":[\"write\",\"schema\"]},");
	cut(w, &l, 3, "policy"); /* it is allowed, too, but it is not what was recorded */
	l = begins(w, 4, WS(KEY));
	http_credential(w, "api-key", "bearer", "api.test", 443, "another-secret");
	cut(w, &l, 4, "credential");
}

static void
a_run_that_ends_waits_for_the_account_of_its_stream(void **state)
{
	struct world *w = *state;
	struct http_lease l;

	policy(w, 3, BOTH);
	l = begins(w, 1, WS(KEY));
	core_run_end(w->run, "stopped", STR("enough"), false);
	settle(w);
	assert_int_equal(count(w, "run.end"), 0);
	(void)heard(&w->upstream, MSG_UH_ABORT);
	answers(w, &(struct answered){.status = 3,
		       .http = 101,
		       .head = l.hash,
		       .ended = 6,
		       .body_bytes = 2,
		       .body = hash_sha256(STR("hi"))});
	assert_ended(w, "run", "broken");
	settle(w);
	assert_int_equal(count(w, "run.end"), 1);
}

static void
but_not_for_ever(void **state)
{
	struct world *w = *state;

	policy(w, 3, BOTH);
	(void)begins(w, 1, WS(KEY));
	core_run_end(w->run, "stopped", STR("enough"), false);
	settle(w);
	assert_int_equal(count(w, "run.end"), 0);
	for (int i = 0; i < 400 && count(w, "run.end") == 0; i++) {
		turn(w, 1);
		settle(w);
	}
	assert_int_equal(count(w, "run.end"), 1);
	assert_int_equal(count(w, "outcome"), 1);
}

static void
no_word_that_nobody_knows_ends_a_stream(void **state)
{
	struct world *w = *state;
	struct http_lease l;

	policy(w, 3, BOTH);
	l = begins(w, 1, WS(KEY));
	answers(w, &(struct answered){.http = 101, .head = l.hash, .ended = 8});
	assert_null(w->c->upstream);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
	    http_test(an_upgrade_is_leased_with_its_protocol_and_recorded_with_both_ways),
	    http_test(without_the_policys_word_it_is_opaque),
	    http_test(what_is_signed_covers_the_protocol_and_not_the_key),
	    http_test(a_token_in_a_subprotocol_is_a_find),
	    http_test(what_would_refuse_it_now_ends_it),
	    http_test(a_run_that_ends_waits_for_the_account_of_its_stream),
	    http_test(but_not_for_ever),
	    http_test(no_word_that_nobody_knows_ends_a_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
