/* Looks of upstream against a raw server: what core hears of the answer, and front does not. */
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

static void
look(struct rig *r, struct upstream_lease *l)
{
	AUTO_BUF struct buf b = BUF(1 << 19);

	rig_fresh(r);
	rig_bearer(l);
	l->act = UINT64_C(1) << 63 | 1;
	rig_put_lease(l, &b);
	ipc_send(r->core, MSG_UH_LOOK, &b, NULL, 0);
	rig_run(r);
}

static void
etag(struct rig_peer *p)
{
	while (peer_head(p))
		peer_write(p, "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: 5\r\n\r\nhello");
}

static void
core_hears_of_it_and_front_does_not(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, etag);
	rig_lease_to(r, &l);
	look(r, &l);
	assert_done(r, 1);
	assert_string_equal(r->order, "LD");
	assert_string_equal(r->etag, "\"v1\"");
	assert_int_equal(r->content, 5);
	assert_false(r->over);
	assert_int_equal(r->done.http, 200);
	assert_has(rig_seen(r), "Authorization: Bearer " RIG_SECRET);
}

static void
reflect(struct rig_peer *p)
{
	while (peer_head(p))
		peer_write(p,
		    "HTTP/1.1 302 Found\r\nETag: \"a\"\r\nETag: \"b\"\r\nLocation: /other\r\n"
		    "Content-Length: 0\r\n\r\n");
}

static void
two_etags_are_none_and_a_redirect_is_not_followed(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, reflect);
	rig_lease_to(r, &l);
	look(r, &l);
	assert_done(r, 1);
	assert_string_equal(r->etag, "");
	assert_int_equal(r->done.http, 302);
	assert_null(strstr(rig_seen(r), "/other"));
}

static void
endless(struct rig_peer *p)
{
	AUTO_FREE char *chunk = xcalloc(1, 65536);

	if (!peer_head(p))
		return;
	memset(chunk, 'x', 65535);
	peer_write(p, "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\n\r\n");
	for (int i = 0; i < 64; i++)
		peer_write(p, chunk);
}

static void
more_than_a_look_may_have_is_not_read_to_its_end(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, endless);
	rig_lease_to(r, &l);
	look(r, &l);
	assert_done(r, 3);
	assert_true(r->over);
	assert_int_equal(r->content, 0);
	assert_has(r->done.why, "looked at");
}

static void
nothing_but_get_and_head_goes_out(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;
	AUTO_BUF struct buf b = BUF(1 << 19);

	rig_serve(r, NULL, etag);
	rig_lease_to(r, &l);
	l.method = STR("DELETE");
	rig_fresh(r);
	rig_put_lease(&l, &b);
	ipc_send(r->core, MSG_UH_LOOK, &b, NULL, 0);
	for (int i = 0; r->core != NULL && i < 400; i++)
		rig_pass(r, 50);
	assert_null(r->core); /* the wire is ended */
	assert_int_equal(r->done.count, 0);
	assert_string_equal(rig_seen(r), "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	    T(core_hears_of_it_and_front_does_not),
	    T(two_etags_are_none_and_a_redirect_is_not_followed),
	    T(more_than_a_look_may_have_is_not_read_to_its_end),
	    T(nothing_but_get_and_head_goes_out),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
