/*
 * HTTP exchanges of upstream against a raw server: the bytes of the request, the answer in every
 * framing, what is no answer, connections kept and not.
 */
#include <time.h>

#include "tests/unit/upstream_http_help.h"

#include "common/banned.h"

static struct rig rig;

static int
set_up(void **state)
{
	rig_open(&rig, "/nonexistent");
	*state = &rig;
	return 0;
}

static int
tear_down(void **state)
{
	rig_close(*state);
	return 0;
}

/* --- requests -------------------------------------------------------------------- */

static void
say_ok(struct rig_peer *p)
{
	while (peer_head(p))
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

static void
a_request_goes_out_byte_for_byte(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;
	AUTO_FREE char *want = NULL;
	struct hash h;

	rig_serve(r, NULL, say_ok);
	rig_lease_to(r, &l);
	l.method = STR("PROPFIND");
	l.target = STR("/a/../b//c;d?x=%2f&y=[1]&&?");
	rig_field(&l, "X-Second", "first  of two");
	rig_field(&l, "accept", "text/html");
	rig_field(&l, "User-Agent", "it/1");
	rig_field(&l, "X-Second", "");
	rig_field(&l, "Accept-Encoding", "gzip");
	rig_field(&l, "Cookie", "a=b");
	rig_field(&l, "Range", "bytes=0-1");
	rig_ask(r, &l);
	assert_done(r, 1);
	want = xasprintf("PROPFIND /a/../b//c;d?x=%%2f&y=[1]&&? HTTP/1.1\r\n"
			 "Host: plain.test:%u\r\n"
			 "X-Second: first  of two\r\naccept: text/html\r\nUser-Agent: it/1\r\n"
			 "X-Second:\r\nAccept-Encoding: gzip\r\nCookie: a=b\r\n"
			 "Range: bytes=0-1\r\n\r\n",
	    r->port);
	assert_string_equal(rig_seen(r), want);
	h = http_lease_hash(l.method, l.target, l.fields, l.nfields);
	assert_memory_equal(h.b, r->done.head.b, HASH_LEN);
	assert_int_equal(r->done.http, 200);
	assert_int_equal(r->done.body_bytes, 0);
}

static void
an_ipv6_host_stands_in_brackets(void **state)
{
	struct rig *r = *state;
	int v6 = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	AUTO_FREE char *want = NULL;
	struct upstream_lease l;
	bool has = v6 >= 0 && bind(v6, (struct sockaddr *)&a, sizeof(a)) == 0;

	(void)close(v6);
	if (!has)
		skip(); /* no IPv6 on loopback here */
	rig_serve(r, NULL, say_ok);
	rig_lease_to(r, &l);
	l.host = STR("::1");
	l.address = STR("");
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_has(r->done.peer, "[::1]:");
	want = xasprintf("GET / HTTP/1.1\r\nHost: [::1]:%u\r\n\r\n", r->port);
	assert_string_equal(rig_seen(r), want);
	/* By a name, and an address of the target's. */
	l.host = STR("under_score.test");
	l.address = STR("::1");
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_has(r->done.peer, "[::1]:");
}

static void
nothing_is_added_to_a_bare_request(void **state)
{
	struct rig *r = *state;
	static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "DELETE", "POST"};
	struct upstream_lease l;

	/* What libcurl would look for in its environment. */
	(void)setenv("http_proxy", "http://127.0.0.1:9", 1);
	(void)setenv("ALL_PROXY", "http://127.0.0.1:9", 1);
	rig_serve(r, NULL, say_ok);
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		AUTO_FREE char *want =
		    xasprintf("%s / HTTP/1.1\r\nHost: plain.test:%u\r\n%s\r\n", methods[i], r->port,
			strcmp(methods[i], "POST") == 0 ? "Content-Length: 0\r\n" : "");

		rig_forget(r);
		rig_lease_to(r, &l);
		l.method = str_z(methods[i]);
		rig_ask(r, &l);
		assert_done(r, 1);
		assert_string_equal(rig_seen(r), want);
	}
	(void)unsetenv("http_proxy");
	(void)unsetenv("ALL_PROXY");
}

static void
a_lease_that_is_not_one_request_is_not_sent(void **state)
{
	struct rig *r = *state;
	static const char *const fields[][2] = {{"Host", "x"}, {"Content-Length", "1"},
	    {"Transfer-Encoding", "chunked"}, {"Expect", "100-continue"}, {"Connection", "close"},
	    {"Proxy-Authorization", "x"}, {"Upgrade", "h2c"}, {"A B", "x"}, {"A:", "x"}, {"", "x"},
	    {"A", "x\r\nB: y"}, {"A", "x\ny"}, {"A", " x"}};
	static const char *const targets[] = {"", "a", "http://x/", "/ x", "/\r\n", "/#f", "/\x80"};
	static const char *const methods[] = {"", "CONNECT", "GET ", "G\r\nT"};
	static const char *const hosts[] = {"", "PLAIN.test", "plain.test.", "plain.test:80", "a b",
	    "127.1", "[::1]", "x/y", "user@x"};
	struct upstream_lease l;

	rig_serve(r, NULL, say_ok);
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		rig_lease_to(r, &l);
		rig_field(&l, fields[i][0], fields[i][1]);
		rig_ask(r, &l);
		assert_done(r, 5);
	}
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		rig_lease_to(r, &l);
		l.target = str_z(targets[i]);
		rig_ask(r, &l);
		assert_done(r, 5);
	}
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		rig_lease_to(r, &l);
		l.method = str_z(methods[i]);
		rig_ask(r, &l);
		assert_done(r, 5);
	}
	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		rig_lease_to(r, &l);
		l.host = str_z(hosts[i]);
		rig_ask(r, &l);
		assert_done(r, 5);
	}
	assert_int_equal(r->norder, 1); /* nothing to front, ever */
	assert_int_equal(atomic_load(&r->seen->conns), 0);
	rig_lease_to(r, &l);
	rig_field(&l, "A", "x");
	rig_ask(r, &l);
	assert_done(r, 1);
}

/* --- answers --------------------------------------------------------------------- */

static void
say_many(struct rig_peer *p)
{
	static const char *const answers[] = {
	    "HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 5\r\nConnection: keep-alive, x-hop\r\n"
	    "X-Hop: 1\r\nKeep-Alive: 5\r\n\r\nhello",
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nhe\r\n"
	    "3\r\nllo\r\n0\r\nX-T: 1\r\n\r\n",
	    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5"
	    "\r\n\r\nhello",
	    "HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n",
	    "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n",
	    "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
	    "HTTP/1.1 302 Found\r\nLocation: http://other.test/\r\nContent-Length: 5\r\n\r\nhello",
	    "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 5\r\n\r\n"
	    "hello",
	    "HTTP/1.0 200 OK\r\n\r\nhello",
	};
	unsigned at = 0;

	while (peer_head(p) && sscanf(p->head, "GET /%u", &at) == 1) {
		peer_write(p, answers[at]);
		if (at == ARRAY_LEN(answers) - 1)
			return;
	}
}

static void
each_framing_of_an_answer_arrives_whole(void **state)
{
	struct rig *r = *state;
	static const struct {
		const char *target, *order, *fields, *body;
		unsigned status;
	} rows[] = {
	    {"/0", "HBED", "X-A: 1\nContent-Length: 5\n", "hello", 200},
	    {"/1", "HBED", "", "hello", 200},
	    {"/2", "HHBED", "Link: </a>\nContent-Length: 5\n", "hello", 200},
	    {"/3", "HED", "X-A: 1\n", "", 204},
	    {"/4", "HED", "Content-Length: 77\n", "", 304},
	    {"/5", "HBED", "Content-Length: 5\n", "hello", 200},
	    {"/6", "HBED", "Location: http://other.test/\nContent-Length: 5\n", "hello", 302},
	    {"/7", "HBED", "WWW-Authenticate: Basic realm=\"x\"\nContent-Length: 5\n", "hello",
		401},
	    {"/8", "HBED", "", "hello", 200},
	};

	rig_serve(r, NULL, say_many);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct upstream_lease l = rig_lease(r);
		struct hash h = hash_sha256(str_z(rows[i].body));

		l.target = str_z(rows[i].target);
		rig_ask(r, &l);
		assert_done(r, 1);
		assert_string_equal(r->order, rows[i].order);
		assert_true(str_eqz(buf_str(&r->fields), rows[i].fields));
		assert_true(str_eqz(buf_str(&r->body), rows[i].body));
		assert_int_equal(r->status, rows[i].status);
		assert_int_equal(r->done.http, rows[i].status);
		assert_int_equal(r->whole, 1);
		assert_int_equal(r->done.bytes, strlen(rows[i].body));
		assert_memory_equal(r->done.sha.b, h.b, HASH_LEN);
		assert_has(r->done.peer, "127.0.0.1:");
	}
	/* Nothing was asked twice, and all but the last left the connection fit for the next. */
	assert_int_equal(atomic_load(&r->seen->requests), ARRAY_LEN(rows));
	assert_int_equal(atomic_load(&r->seen->conns), 1);
}

static void
say_head_only(struct rig_peer *p)
{
	while (peer_head(p))
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 77\r\n\r\n");
}

static void
an_answer_to_head_has_no_body(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_head_only);
	rig_lease_to(r, &l);
	l.method = STR("HEAD");
	rig_ask(r, &l);
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_string_equal(r->order, "HED");
	assert_true(str_eqz(buf_str(&r->fields), "Content-Length: 77\n"));
	assert_int_equal(atomic_load(&r->seen->conns), 1);
}

static const char *const no_answers[] = {
    "",
    "hello\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nab",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\nContent-Length: 2\n\nab",
    "HTTP/1.1 200 OK\r\nX-A: 1\r\n folded\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 200 OK\r\nX-A : 1\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "HTTP/2 200\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 200 OK\r\nContent-Le",
};

static void
say_none(struct rig_peer *p)
{
	unsigned at = 0;

	if (!peer_head(p) || sscanf(p->head, "GET /%u", &at) != 1)
		return;
	if (at < ARRAY_LEN(no_answers)) {
		peer_write(p, no_answers[at]);
		return;
	}
	peer_write(p, "HTTP/1.1 200 OK\r\n");
	for (int i = 0; i < 1100; i++)
		peer_write(p, "X-Long: 0123456789012345678901234567890123456789012345678\r\n");
	peer_write(p, "Content-Length: 0\r\n\r\n");
}

static void
what_is_no_answer_never_reaches_front(void **state)
{
	struct rig *r = *state;

	rig_serve(r, NULL, say_none);
	for (unsigned i = 0; i <= ARRAY_LEN(no_answers); i++) {
		AUTO_FREE char *target = xasprintf("/%u", i);
		struct upstream_lease l = rig_lease(r);

		l.target = str_z(target);
		rig_ask(r, &l);
		if (r->done.status != 2 || strcmp(r->order, "D") != 0)
			fail_msg("answer %u: ended %u, %s", i, r->done.status, r->order);
		assert_true(r->done.why[0] != '\0');
	}
	assert_int_equal(atomic_load(&r->seen->requests), ARRAY_LEN(no_answers) + 1);
}

static void
say_half(struct rig_peer *p)
{
	if (!peer_head(p))
		return;
	peer_write(p, strstr(p->head, "/chunked") != NULL
			  ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
			  : "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
}

static void
an_answer_broken_off_is_told_apart(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_half);
	rig_lease_to(r, &l);
	for (int i = 0; i < 2; i++) {
		rig_ask(r, &l);
		assert_done(r, 3);
		assert_string_equal(r->order, "HBED");
		assert_int_equal(r->whole, 0);
		assert_int_equal(r->done.bytes, 5);
		l.target = STR("/chunked");
	}
}

/* --- connections ----------------------------------------------------------------- */

static void
a_connection_is_used_again_only_in_its_own_place(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;
	int conns = 1;

	rig_serve(r, NULL, say_ok);
	rig_lease_to(r, &l);
	rig_ask(r, &l);
	rig_ask(r, &l);
	assert_int_equal(atomic_load(&r->seen->conns), conns);
	l.fresh = true;
	rig_ask(r, &l);
	assert_int_equal(atomic_load(&r->seen->conns), ++conns);
	rig_lease_to(r, &l);
	l.run = STR("run-2");
	rig_ask(r, &l);
	assert_int_equal(atomic_load(&r->seen->conns), ++conns);
	rig_lease_to(r, &l);
	l.host = STR("other.test");
	rig_ask(r, &l);
	assert_int_equal(atomic_load(&r->seen->conns), ++conns);
	rig_lease_to(r, &l);
	l.address = STR("127.0.0.2");
	rig_ask(r, &l);
	assert_int_equal(atomic_load(&r->seen->conns), ++conns);
	assert_has(r->done.peer, "127.0.0.2:");
	rig_lease_to(r, &l);
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_int_equal(atomic_load(&r->seen->conns), conns);
}

/* The second request on a connection is read, and then the connection is gone. */
static void
say_once(struct rig_peer *p)
{
	if (peer_head(p))
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	(void)peer_head(p);
}

static void
say_nothing(struct rig_peer *p)
{
	(void)peer_head(p);
}

static void
a_change_is_never_sent_twice(void **state)
{
	struct rig *r = *state;
	static const char *const methods[] = {"POST", "DELETE", "PUT"};
	struct upstream_lease l;

	rig_serve(r, NULL, say_once);
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		rig_forget(r);
		rig_lease_to(r, &l);
		rig_ask(r, &l);
		assert_done(r, 1);
		l.method = str_z(methods[i]);
		rig_ask(r, &l);
		assert_done(r, 2);
		assert_string_equal(r->order, "D");
		rig_pass(r, 50);
		assert_int_equal(atomic_load(&r->seen->requests), 2);
		assert_int_equal(atomic_load(&r->seen->conns), 1);
	}
	/* With a connection of its own there is nothing to doubt. */
	l.fresh = true;
	rig_ask(r, &l);
	assert_done(r, 1);
}

/* Every connection is answered once, so a read that is repeated has its answer. */
static void
a_read_is_repeated_once_when_its_kept_connection_is_gone(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_once);
	rig_lease_to(r, &l);
	for (int i = 0; i < 2; i++) {
		rig_ask(r, &l);
		assert_done(r, 1);
	}
	assert_int_equal(atomic_load(&r->seen->requests), 3);
	assert_int_equal(atomic_load(&r->seen->conns), 2);

	/* A connection of its own that goes without a word is an answer that did not come. */
	rig_forget(r);
	rig_serve(r, NULL, say_nothing);
	rig_lease_to(r, &l);
	rig_ask(r, &l);
	assert_done(r, 2);
	assert_int_equal(atomic_load(&r->seen->requests), 1);
}

/* An answer, and a while later another that nobody asked for. */
static void
say_more(struct rig_peer *p)
{
	static const struct timespec while_ = {.tv_nsec = 20000000};

	while (peer_head(p)) {
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
		(void)nanosleep(&while_, NULL);
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong");
	}
}

static void
what_a_server_says_unasked_is_no_answer_to_the_next_request(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_more);
	rig_lease_to(r, &l);
	for (int i = 0; i < 4; i++) {
		buf_reset(&r->body);
		rig_ask(r, &l);
		assert_done(r, 1);
		assert_true(str_eqz(buf_str(&r->body), "ok"));
		rig_pass(r, 60);
	}
	assert_int_equal(atomic_load(&r->seen->requests), 4);
	assert_int_equal(atomic_load(&r->seen->conns), 4);
}

static void
say_and_close(struct rig_peer *p)
{
	if (peer_head(p))
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

static void
a_connection_that_was_closed_meanwhile_is_not_used(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_and_close);
	rig_lease_to(r, &l);
	for (int i = 0; i < 3; i++) {
		rig_ask(r, &l);
		assert_done(r, 1);
		rig_pass(r, 50);
	}
	assert_int_equal(atomic_load(&r->seen->conns), 3);
}

static void
nothing_listening_is_not_sent(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_ok);
	rig_stop_server(r);
	rig_lease_to(r, &l);
	rig_ask(r, &l);
	assert_done(r, 5);
	assert_has(r->done.why, "Connection refused");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	    T(a_request_goes_out_byte_for_byte),
	    T(an_ipv6_host_stands_in_brackets),
	    T(nothing_is_added_to_a_bare_request),
	    T(a_lease_that_is_not_one_request_is_not_sent),
	    T(each_framing_of_an_answer_arrives_whole),
	    T(an_answer_to_head_has_no_body),
	    T(what_is_no_answer_never_reaches_front),
	    T(an_answer_broken_off_is_told_apart),
	    T(a_connection_is_used_again_only_in_its_own_place),
	    T(a_change_is_never_sent_twice),
	    T(a_read_is_repeated_once_when_its_kept_connection_is_gone),
	    T(what_a_server_says_unasked_is_no_answer_to_the_next_request),
	    T(a_connection_that_was_closed_meanwhile_is_not_used),
	    T(nothing_listening_is_not_sent),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
