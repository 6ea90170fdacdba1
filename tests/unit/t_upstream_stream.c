/* Requests to switch protocols in upstream: what goes out, what a 101 must be, and the pipe. */
#include "tests/unit/upstream_http_help.h"

#include "common/banned.h"

#define SPDY "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"

static int
set_up(void **state)
{
	struct rig *r = xcalloc(1, sizeof(*r));

	rig_open(r, "/nonexistent");
	*state = r;
	return 0;
}

static int
tear_down(void **state)
{
	rig_close(*state);
	free(*state);
	return 0;
}

static void
lease(const struct rig *r, struct upstream_lease *l)
{
	rig_lease_to(r, l);
	rig_bearer(l);
	l->body = LEASE_UPGRADE;
	l->length = 100000;
	rig_field(l, "X-A", "b");
	rig_field(l, "Upgrade", "tcp");
}

static void
say_echo(struct rig_peer *p)
{
	char c;

	if (!peer_head(p))
		return;
	peer_write(p, SPDY "early");
	while (peer_read(p, &c, 1))
		peer_put(p, &c, 1);
	peer_write(p, "over");
}

static void
talk(struct rig *r)
{
	if (r->mores != 1 || r->body.n < 5)
		return;
	r->step = NULL;
	rig_front_body(r, false, STR("hello "));
	rig_front_body(r, true, STR("there"));
}

static void
a_stream_goes_both_ways_and_ends_in_order(void **state)
{
	struct rig *r = *state;
	struct hash sum = hash_sha256(STR("hello there"));
	struct upstream_lease l;

	rig_serve(r, NULL, say_echo);
	lease(r, &l);
	rig_fresh(r);
	r->step = talk;
	rig_send(r, &l);
	rig_run(r);
	assert_int_equal(r->done.status, 1);
	assert_int_equal(r->done.http, 101);
	assert_int_equal(r->done.ended, 2); /* the client had ended it */
	assert_int_equal(r->interim, 101);
	assert_true(str_eqz(buf_str(&r->body), "earlyhello thereover"));
	assert_int_equal(r->done.bytes, 20);
	assert_int_equal(r->done.body_bytes, 11);
	assert_true(hash_eq(&r->done.body_sha, &sum));
	assert_int_equal(r->whole, 1);
	assert_non_null(strstr((char *)r->seen->bytes,
	    "Connection: Upgrade\r\nX-A: b\r\nUpgrade: tcp\r\nAuthorization: Bearer " RIG_SECRET
	    "\r\n\r\n"));
}

static void
say_by_target(struct rig_peer *p)
{
	if (!peer_head(p))
		return;
	if (strncmp(p->head, "GET /good", 9) == 0)
		peer_write(p, SPDY);
	else if (strncmp(p->head, "GET /other", 10) == 0)
		peer_write(p, "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
	else if (strncmp(p->head, "GET /chunks", 11) == 0)
		peer_write(
		    p, "HTTP/1.1 426 x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n");
	else if (strncmp(p->head, "GET /short", 10) == 0)
		peer_write(p, "HTTP/1.1 200 x\r\nContent-Length: 5\r\n\r\nab");
	else if (strncmp(p->head, "GET /early", 10) == 0)
		peer_write(
		    p, "HTTP/1.1 103 x\r\n\r\nHTTP/1.1 200 x\r\nContent-Length: 2\r\n\r\nab");
	else if (strncmp(p->head, "GET /leak", 9) == 0)
		peer_write(p, SPDY "<" RIG_SECRET ">");
	else
		peer_write(p, "HTTP/1.1 101 x\r\nConnec");
}

static void
what_the_server_says_instead_is_an_answer_or_none(void **state)
{
	struct rig *r = *state;
	static const struct {
		const char *target;
		uint8_t status;
		uint16_t http;
		uint8_t ended;
		const char *body;
	} rows[] = {
	    {"/good", 1, 101, 1, ""},
	    {"/leak", 1, 101, 1, "<cfph_abcdefghijkl>"},
	    {"/other", 2, 0, 0, ""},
	    {"/chunks", 1, 426, 0, "ab"},
	    {"/short", 3, 200, 0, "ab"},
	    {"/early", 1, 200, 0, "ab"},
	    {"/half", 2, 0, 0, ""},
	};
	struct upstream_lease l;

	rig_serve(r, NULL, say_by_target);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		lease(r, &l);
		l.target = str_z(rows[i].target);
		rig_ask(r, &l);
		if (r->done.status != rows[i].status || r->done.http != rows[i].http ||
		    r->done.ended != rows[i].ended || !str_eqz(buf_str(&r->body), rows[i].body))
			fail_msg("%s: %d, http %d, ended %d, \"%.*s\" (%s)", rows[i].target,
			    r->done.status, r->done.http, r->done.ended, STR_ARG(buf_str(&r->body)),
			    r->done.why);
		if (strcmp(rows[i].target, "/leak") == 0)
			assert_int_equal(r->done.replaced, 1);
	}
}

static void
a_lease_names_exactly_one_protocol(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_by_target);
	lease(r, &l);
	rig_field(&l, "Upgrade", "x");
	rig_ask(r, &l);
	assert_int_equal(r->done.status, 5);
	lease(r, &l);
	l.fields[1].value = STR("h2c");
	rig_ask(r, &l);
	assert_int_equal(r->done.status, 5);
	lease(r, &l);
	l.nfields = 1;
	rig_ask(r, &l);
	assert_int_equal(r->done.status, 5);
	lease(r, &l);
	l.body = LEASE_NONE;
	l.length = 0;
	rig_ask(r, &l);
	assert_int_equal(r->done.status, 5);
	lease(r, &l);
	rig_field(&l, "Connection", "Upgrade");
	rig_ask(r, &l);
	assert_int_equal(r->done.status, 5);
	assert_int_equal(atomic_load(&r->seen->requests), 0);
	lease(r, &l);
	l.target = STR("/good");
	rig_ask(r, &l);
	assert_int_equal(r->done.status, 1);
}

static void
say_nothing_more(struct rig_peer *p)
{
	char c;

	if (!peer_head(p))
		return;
	peer_write(p, SPDY "s3cr");
	(void)peer_read(p, &c, 1);
	(void)pause();
}

static void
too_much(struct rig *r)
{
	AUTO_BUF struct buf b = BUF(1 << 17);

	if (r->mores == 0)
		return;
	r->step = NULL;
	for (int i = 0; i < 60000; i++)
		buf_put_c(&b, 'x');
	rig_front_body(r, false, buf_str(&b));
}

static void
a_stream_has_its_limits(void **state)
{
	struct rig *r = *state;
	struct upstream_http_times times = UPSTREAM_HTTP_TIMES;
	struct upstream_lease l;

	times.connect = times.first = times.idle = 100;
	times.stream = 600;
	times.half = 200;
	upstream_http_times(r->http, &times);
	rig_serve(r, NULL, say_nothing_more);
	lease(r, &l);
	rig_ask(r, &l);
	assert_int_equal(r->done.status, 3);
	assert_int_equal(r->done.ended, 3); /* silence */
	assert_non_null(strstr(r->done.why, "silent for 600 ms"));
	/* What only began like a secret was let go of before that. */
	assert_true(str_eqz(buf_str(&r->body), "s3cr"));
	lease(r, &l);
	l.length = 59999;
	rig_fresh(r);
	r->step = too_much;
	rig_send(r, &l);
	rig_run(r);
	assert_int_equal(r->done.status, 3);
	assert_int_equal(r->done.ended, 4); /* a limit */
	assert_int_equal(r->done.body_bytes, 0);
	lease(r, &l);
	l.length = 60000;
	rig_fresh(r);
	r->step = too_much;
	rig_send(r, &l);
	rig_run(r);
	assert_int_equal(r->done.ended, 3);
	assert_int_equal(r->done.body_bytes, 60000);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		a_stream_goes_both_ways_and_ends_in_order, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(
		what_the_server_says_instead_is_an_answer_or_none, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_lease_names_exactly_one_protocol, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(a_stream_has_its_limits, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
