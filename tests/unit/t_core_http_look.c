/* Looks in core: recorded, leased, told; what they say binds; their ends. */
#include "tests/unit/core_http_help.h"

#include "common/banned.h"

#define PUT "PUT /v1/things/7 HTTP/1.1\r\nHost: api.test\r\nContent-Length: 2\r\n\r\n"
#define LOOK (CORE_LOOK_BIT | 1)

static int
setup(void **state)
{
	int rc = http_setup(state);
	struct world *w = *state;
	AUTO_FREE char *text = http_policy(w, NULL, 3);
	char *at_ = strstr(text, "\"max_body\":10000000");

	assert_non_null(at_);
	memcpy(at_, "\"preview\":\"look\"   ", 19);
	http_planned(w, text);
	return rc;
}
#define look_test(f) cmocka_unit_test_setup_teardown(f, setup, http_teardown)

static void
puts_(struct world *w, uint64_t act)
{
	asks(w, &(struct ask){.act = act, .head = PUT, .content = "hi"});
}

/* UH_LOOKED and UH_DONE. */
static void
shows(struct world *w, uint64_t act, const char *etag, const struct hash *head)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_u64(&b, 7);
	buf_u64(&b, act | CORE_LOOK_BIT);
	buf_lz(&b, etag);
	buf_u8(&b, 0);
	buf_lz(&b, "");
	say(&w->upstream, MSG_UH_LOOKED, &b);
	answers(w, &(struct answered){.act = act | CORE_LOOK_BIT, .http = 200, .head = *head});
}

static void
looked(struct world *w, uint64_t act, const char *etag)
{
	struct http_lease l = http_leased_as(w, MSG_UH_LOOK);

	assert_int_equal(l.act, act | CORE_LOOK_BIT);
	shows(w, act, etag, &l.hash);
}

static void
a_look_goes_out_once_it_is_durable_and_carries_nothing_of_the_client(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *p = NULL;
	struct http_lease l;

	w->hold_writer = true;
	puts_(w, 1);
	assert_int_equal(count(w, "preview"), 1);
	assert_int_equal(count(w, "action") + count(w, "approval.request"), 0);
	assert_true(silent(&w->upstream, MSG_UH_LOOK)); /* not durable yet */
	w->hold_writer = false;
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	l = http_leased_as(w, MSG_UH_LOOK);
	assert_int_equal(l.act, LOOK);
	assert_state(l.method, "HEAD");
	assert_state(l.target, "/v1/things/7");
	assert_int_equal(l.nfields, 2);
	assert_int_equal(l.body, 0);
	assert_state(l.secret, SECRET);
	p = last(w, "preview");
	assert_state(json_str(json_get(json_root(p), "method")), "HEAD");
	shows(w, 1, "\"v1\"", &l.hash);
	assert_problem(w, 403, "needs_approval");
	assert_string_equal(newest_request(w)->preview, "if-match=\"v1\"");
}

static void
what_is_signed_goes_out_as_a_condition_while_it_is_still_so(void **state)
{
	struct world *w = *state;
	struct http_lease l;

	puts_(w, 1);
	looked(w, 1, "\"v1\"");
	assert_problem(w, 403, "needs_approval");
	arms(w);
	puts_(w, 2);
	assert_true(silent(&w->upstream, MSG_UH_SEND)); /* it is looked at again first */
	looked(w, 2, "\"v1\"");
	l = http_leased(w);
	assert_state(lease_field(&l, "If-Match")->value, "\"v1\"");
	assert_int_equal(newest_request(w)->state, CORE_RQ_CONSUMED);
}

static void
what_has_changed_is_void_and_asked_anew(void **state)
{
	struct world *w = *state;
	struct core_request *rq;

	puts_(w, 1);
	looked(w, 1, "\"v1\"");
	assert_problem(w, 403, "needs_approval");
	arms(w);
	rq = newest_request(w);
	puts_(w, 2);
	looked(w, 2, "\"v2\"");
	assert_problem(w, 403, "needs_approval");
	assert_int_equal(rq->state, CORE_RQ_VOID);
	assert_string_equal(rq->reason, "preview_changed");
	assert_ptr_not_equal(newest_request(w), rq);
	assert_string_equal(newest_request(w)->preview, "if-match=\"v2\"");
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

static void
a_second_look_that_fails_sends_nothing_and_burns_nothing(void **state)
{
	struct world *w = *state;
	struct http_lease l;

	puts_(w, 1);
	looked(w, 1, "\"v1\"");
	assert_problem(w, 403, "needs_approval");
	arms(w);
	puts_(w, 2);
	l = http_leased_as(w, MSG_UH_LOOK);
	answers(w, &(struct answered){.act = LOOK + 7, .status = 5, .head = l.hash}); /* nobody's */
	assert_true(silent(&w->front, MSG_H_REFUSED));
	{
		AUTO_BUF struct buf b = BUF(4096);

		buf_u64(&b, 7);
		buf_u64(&b, CORE_LOOK_BIT | 2);
		buf_lz(&b, "");
		buf_u8(&b, 0);
		buf_lz(&b, "");
		say(&w->upstream, MSG_UH_LOOKED, &b);
	}
	answers(w, &(struct answered){.act = CORE_LOOK_BIT | 2, .status = 5, .head = l.hash});
	assert_problem(w, 503, "send_again");
	assert_int_equal(newest_request(w)->state, CORE_RQ_ARMED);
	assert_true(silent(&w->upstream, MSG_UH_SEND));
}

static void
a_client_that_goes_away_ends_the_look_and_nobody_is_asked(void **state)
{
	struct world *w = *state;

	puts_(w, 1);
	(void)http_leased_as(w, MSG_UH_LOOK);
	front_says(w, MSG_H_CLOSE, 1);
	(void)heard(&w->upstream, MSG_UH_ABORT);
	assert_int_equal(count(w, "approval.request"), 0);
	assert_null(core_http_by_id(w->c, 7, 1));
}

static void
a_read_is_not_looked_at(void **state)
{
	struct world *w = *state;

	asks(w, &(struct ask){0});
	assert_true(silent(&w->upstream, MSG_UH_LOOK));
	passes(w, 1);
	assert_int_equal(count(w, "preview"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    look_test(a_look_goes_out_once_it_is_durable_and_carries_nothing_of_the_client),
	    look_test(what_is_signed_goes_out_as_a_condition_while_it_is_still_so),
	    look_test(what_has_changed_is_void_and_asked_anew),
	    look_test(a_second_look_that_fails_sends_nothing_and_burns_nothing),
	    look_test(a_client_that_goes_away_ends_the_look_and_nobody_is_asked),
	    look_test(a_read_is_not_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
