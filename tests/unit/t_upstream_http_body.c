/*
 * Bodies of leased requests: inline, sealed, streamed by credit; exactly what was leased arrives,
 * or it does not end. Expect, answers before the end, a front that lies.
 */
#include "tests/unit/upstream_http_help.h"

#include "common/banned.h"

#define SEALED (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static struct rig rig;
/* A streamed body as the test gives it: `at` of `text` has gone. */
static struct str text;
static size_t at, piece;
static bool lie; /* the last frame is not marked, nothing more comes */

static int
set_up(void **state)
{
	rig_open(&rig, "/nonexistent");
	text = STR_NONE;
	at = 0;
	piece = 65536;
	lie = false;
	*state = &rig;
	return 0;
}

static int
tear_down(void **state)
{
	rig_close(*state);
	return 0;
}

/* As front does: so much as was asked for, then the last frame. */
static void
feed(struct rig *r)
{
	while (at < text.n && at < r->more && r->front != NULL) {
		size_t n = text.n - at < piece ? text.n - at : piece;

		if (n > r->more - at)
			n = (size_t)(r->more - at);
		at += n;
		rig_front_body(r, at == text.n && !lie, str_mem(text.p + at - n, n));
	}
	if (text.n == 0 && r->mores == 1 && at++ == 0)
		rig_front_body(r, true, STR(""));
}

static void
stream(struct rig *r, const struct upstream_lease *l, struct str body)
{
	text = body;
	at = 0;
	rig_fresh(r);
	r->step = feed;
	rig_send(r, l);
	rig_run(r);
}

static struct upstream_lease
streamed(const struct rig *r, enum lease_body kind, uint64_t length)
{
	struct upstream_lease l = rig_lease(r);

	l.method = STR("PUT");
	l.body = kind;
	l.length = length;
	return l;
}

/* --- the server: takes a body in either framing, and says how long it was --------- */

static uint64_t
take_length(struct rig_peer *p)
{
	static char chunk[65536];
	unsigned long long n = 0, left;
	const char *f = strstr(p->head, "Content-Length: ");

	if (f == NULL || sscanf(f, "Content-Length: %llu", &n) != 1)
		return 0;
	for (left = n; left != 0; left -= left < sizeof(chunk) ? left : sizeof(chunk))
		if (!peer_read(p, chunk, left < sizeof(chunk) ? left : sizeof(chunk)))
			_exit(0);
	return n;
}

static uint64_t
take_chunks(struct rig_peer *p)
{
	static char chunk[65536];
	uint64_t all = 0;

	for (;;) {
		char line[32] = "", *end = line;
		unsigned long n;

		while (end - line < 30 && strstr(line, "\r\n") == NULL)
			if (!peer_read(p, end++, 1))
				_exit(0);
		n = strtoul(line, NULL, 16);
		if (n > sizeof(chunk) - 2 || !peer_read(p, chunk, n + 2))
			_exit(0);
		if (n == 0)
			return all;
		all += n;
	}
}

static void
say_how_long(struct rig_peer *p)
{
	while (peer_head(p)) {
		char out[200];
		uint64_t n = strstr(p->head, "chunked") != NULL ? take_chunks(p) : take_length(p);

		(void)snprintf(out, sizeof(out), "%llu", (unsigned long long)n);
		(void)snprintf(p->head, sizeof(p->head),
		    "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(out), out);
		peer_write(p, p->head);
	}
}

static void
assert_took(struct rig *r, size_t n)
{
	AUTO_FREE char *want = xasprintf("%zu", n);

	assert_done(r, 1);
	if (!str_eqz(buf_str(&r->body), want))
		fail_msg("the server took %.*s, not %zu", STR_ARG(buf_str(&r->body)), n);
	assert_int_equal(r->done.body_bytes, n);
}

static void
fill(struct buf *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_put_c(b, (char)('a' + i * 7 % 25));
}

/* --- inline and sealed ----------------------------------------------------------- */

static void
an_inline_body_goes_with_its_length(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;
	AUTO_FREE char *want = NULL;
	struct hash h = hash_sha256(STR("a=1"));

	rig_serve(r, NULL, say_how_long);
	l = streamed(r, LEASE_INLINE, 3);
	l.content = STR("a=1");
	rig_field(&l, "Content-Type", "x/y");
	rig_ask(r, &l);
	assert_took(r, 3);
	want = xasprintf("PUT / HTTP/1.1\r\nHost: plain.test:%u\r\nContent-Length: 3\r\n"
			 "Connection: close\r\nContent-Type: x/y\r\n\r\na=1",
	    r->port);
	assert_string_equal(rig_seen(r), want);
	assert_memory_equal(r->done.body_sha.b, h.b, HASH_LEN);
	/* An empty one is one as well. */
	rig_forget(r);
	l = streamed(r, LEASE_INLINE, 0);
	l.method = STR("DELETE");
	rig_ask(r, &l);
	assert_took(r, 0);
	assert_has(rig_seen(r), "Content-Length: 0\r\n");
	/* A GET may have one. */
	l = streamed(r, LEASE_INLINE, 2);
	l.method = STR("GET");
	l.content = STR("{}");
	rig_ask(r, &l);
	assert_took(r, 2);
}

static void
a_sealed_body_is_sent_from_its_memory(void **state)
{
	struct rig *r = *state;
	AUTO_BUF struct buf big = BUF(3 << 20);
	struct upstream_lease l;
	struct hash h;

	fill(&big, (2 << 20) + 17);
	rig_serve(r, NULL, say_how_long);
	l = streamed(r, LEASE_SEALED, big.n);
	h = hash_sha256(buf_str(&big));
	l.bound = true;
	l.sha256 = h;
	rig_fresh(r);
	rig_sealed(r, rig_memfd(buf_str(&big), SEALED));
	rig_send(r, &l);
	rig_run(r);
	assert_took(r, big.n);
	assert_memory_equal(r->done.body_sha.b, h.b, HASH_LEN);
	assert_null(strstr(rig_seen(r), "Expect"));
}

static void
a_body_that_is_not_the_sealed_one_is_not_sent(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;
	static const int seals[] = {0, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW,
	    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE};

	rig_serve(r, NULL, say_how_long);
	l = streamed(r, LEASE_SEALED, 4);
	rig_ask(r, &l); /* none came */
	assert_done(r, 5);
	for (size_t i = 0; i < ARRAY_LEN(seals); i++) {
		rig_sealed(r, rig_memfd(STR("body"), seals[i]));
		rig_ask(r, &l);
		assert_done(r, 5);
		assert_has(r->done.why, "sealed");
	}
	rig_sealed(r, rig_memfd(STR("bodies"), SEALED));
	rig_ask(r, &l);
	assert_done(r, 5);
	l.bound = true;
	l.sha256 = hash_sha256(STR("b0dy"));
	rig_sealed(r, rig_memfd(STR("body"), SEALED));
	rig_ask(r, &l);
	assert_done(r, 4);
	l.body = LEASE_INLINE;
	l.content = STR("body");
	rig_ask(r, &l);
	assert_done(r, 4);
	assert_int_equal(atomic_load(&r->seen->conns), 0);
	l.sha256 = hash_sha256(STR("body"));
	rig_ask(r, &l);
	assert_took(r, 4);
}

/* --- streamed -------------------------------------------------------------------- */

static void
a_streamed_body_comes_by_credit(void **state)
{
	struct rig *r = *state;
	AUTO_BUF struct buf big = BUF(2 << 20);
	struct upstream_lease l;
	struct hash h;

	fill(&big, (1 << 20) + 5);
	h = hash_sha256(buf_str(&big));
	rig_serve(r, NULL, say_how_long);
	for (int kind = LEASE_STREAM; kind <= LEASE_CHUNKED; kind++) {
		rig_forget(r);
		l = streamed(r, (enum lease_body)kind, kind == LEASE_STREAM ? big.n : big.n + 100);
		stream(r, &l, buf_str(&big));
		assert_took(r, big.n);
		assert_memory_equal(r->done.body_sha.b, h.b, HASH_LEN);
		assert_true(r->mores > 1);
		assert_has(
		    rig_seen(r), kind == LEASE_STREAM
				     ? "Content-Length: 1048581\r\nConnection: close\r\n\r\n"
				     : "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
	}
	assert_int_equal(atomic_load(&r->seen->conns), 1); /* behind a body none is kept */
}

/* Of a push core judges its start: upstream has that from core, and from front what is behind. */
static void
the_start_that_core_judged_goes_first_whatever_front_sends(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_how_long);
	for (int kind = LEASE_STREAM; kind <= LEASE_CHUNKED; kind++) {
		rig_forget(r);
		l = streamed(r, (enum lease_body)kind, 11);
		rig_fresh(r);
		rig_sealed(r, rig_memfd(STR("judged"), SEALED));
		text = STR(" rest");
		at = 0;
		r->step = feed;
		rig_send(r, &l);
		rig_run(r);
		assert_took(r, 11);
		assert_has(rig_seen(r),
		    kind == LEASE_STREAM ? "\r\n\r\njudged" : "\r\n\r\n6\r\njudged\r\n");
	}
	/* Longer than the whole, not sealed, or with a placeholder: nothing goes. */
	l = streamed(r, LEASE_STREAM, 3);
	rig_fresh(r);
	rig_sealed(r, rig_memfd(STR("judged"), SEALED));
	rig_ask(r, &l);
	assert_done(r, 5);
	l = streamed(r, LEASE_CHUNKED, 100);
	rig_sealed(r, rig_memfd(STR("judged"), 0));
	rig_ask(r, &l);
	assert_done(r, 5);
	rig_sealed(r, rig_memfd(STR("cfph_abcdefghijklmnopqrstuvwxyz"), SEALED));
	rig_ask(r, &l);
	assert_done(r, 4);
}

static void
a_small_chunked_body_is_framed_exactly(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_how_long);
	l = streamed(r, LEASE_CHUNKED, 100);
	stream(r, &l, STR("hello"));
	assert_took(r, 5);
	assert_has(rig_seen(r),
	    "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
	rig_forget(r);
	stream(r, &l, STR(""));
	assert_took(r, 0);
	assert_has(rig_seen(r), "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n");
	rig_forget(r);
	l = streamed(r, LEASE_STREAM, 0);
	stream(r, &l, STR(""));
	assert_took(r, 0);
}

/* The server must not take for whole what front sent instead. */
static void
assert_not_whole(struct rig *r, const char *why)
{
	assert_done(r, 4);
	assert_has(r->done.why, why);
	assert_int_equal(r->norder != 0 && strchr(r->order, 'H') != NULL, 0);
	rig_pass(r, 50);
	assert_null(strstr(rig_seen(r), "0\r\n\r\n"));
	rig_forget(r);
}

static void
a_body_of_another_length_does_not_become_whole(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_how_long);
	l = streamed(r, LEASE_STREAM, 5);
	stream(r, &l, STR("hell"));
	assert_not_whole(r, "4 bytes");
	stream(r, &l, STR("hello!"));
	assert_not_whole(r, "more than");
	l = streamed(r, LEASE_CHUNKED, 5);
	stream(r, &l, STR("hello!"));
	assert_not_whole(r, "more than");
	stream(r, &l, STR("hello"));
	assert_took(r, 5);
}

static void
a_bound_body_keeps_its_last_byte_until_the_hash_is_right(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_how_long);
	for (int kind = LEASE_STREAM; kind <= LEASE_CHUNKED; kind++) {
		l = streamed(r, (enum lease_body)kind, 5);
		l.bound = true;
		l.sha256 = hash_sha256(STR("hello"));
		piece = 1;
		stream(r, &l, STR("hell0"));
		assert_done(r, 4);
		rig_pass(r, 50);
		assert_null(strchr(strstr(rig_seen(r), "\r\n\r\n"), '0'));
		assert_true(r->done.body_bytes <= strlen("hell"));
		rig_forget(r);
		/* All of it is here, but front does not say that it is all. */
		lie = true;
		text = STR("hello");
		at = 0;
		rig_fresh(r);
		r->step = feed;
		rig_send(r, &l);
		rig_pass(r, 300);
		assert_null(strchr(strstr(rig_seen(r), "\r\n\r\n"), 'o'));
		rig_abort(r);
		rig_run(r);
		assert_done(r, 2);
		lie = false;
		rig_forget(r);
		stream(r, &l, STR("hello"));
		assert_took(r, 5);
		rig_forget(r);
	}
}

static void
a_placeholder_in_a_body_ends_it(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_how_long);
	for (piece = 1; piece < 50; piece += 7) {
		l = streamed(r, LEASE_CHUNKED, 1000);
		stream(r, &l, STR("x=cfph_cfph_abcdefghijklmnopqrstuvwx23&y=1"));
		assert_not_whole(r, "placeholder");
		rig_forget(r);
		stream(r, &l, STR("x=cfph_abcdefghijklmnopqrstuvwx2&y=cfph_cfph"));
		assert_took(r, 44);
		rig_forget(r);
	}
}

static void
more_than_the_credit_ends_the_wire(void **state)
{
	struct rig *r = *state;
	AUTO_BUF struct buf big = BUF(1 << 20);
	struct upstream_lease l;

	fill(&big, 65536);
	rig_serve(r, NULL, say_how_long);
	l = streamed(r, LEASE_CHUNKED, 1 << 30);
	rig_fresh(r);
	rig_send(r, &l);
	rig_pass(r, 300);
	assert_int_equal(r->more, 64 << 10);
	rig_abort(r);
	rig_run(r);
	rig_fresh(r);
	l.expect = true; /* nothing is granted yet */
	rig_send(r, &l);
	rig_pass(r, 300);
	assert_int_equal(r->more, 0);
	rig_front_body(r, false, buf_str(&big));
	rig_pass(r, 300);
	rig_pass(r, 300);
	assert_true(r->front_gone);
	assert_int_equal(r->done.count, 1);
	assert_done(r, 2);
}

/* --- Expect, and answers before the end ------------------------------------------ */

static void
say_continue(struct rig_peer *p)
{
	while (peer_head(p)) {
		if (strstr(p->head, "/late") != NULL)
			(void)usleep(150000);
		else
			peer_write(p, "HTTP/1.1 100 Continue\r\n\r\n");
		if (strstr(p->head, "chunked") != NULL)
			(void)take_chunks(p);
		else
			(void)take_length(p);
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	}
}

static void
the_body_waits_for_100_or_a_while(void **state)
{
	struct rig *r = *state;
	struct upstream_http_times t = UPSTREAM_HTTP_TIMES;
	struct upstream_lease l;

	rig_serve(r, NULL, say_continue);
	for (int kind = LEASE_STREAM; kind <= LEASE_CHUNKED; kind++) {
		l = streamed(r, (enum lease_body)kind, 5);
		l.expect = true;
		stream(r, &l, STR("hello"));
		assert_done(r, 1);
		assert_has(rig_seen(r), "\r\nExpect: 100-continue\r\n");
		assert_int_equal(r->order[0], 'M');
		assert_int_equal(r->interim, 0); /* front says its own 100 */
	}
	t.expect = 50;
	upstream_http_times(r->http, &t);
	l.target = STR("/late");
	stream(r, &l, STR("hello"));
	assert_done(r, 1);
	assert_int_equal(r->done.body_bytes, 5);
}

/* The head alone is taken; the answer stays open for a while, so that more could come. */
static void
say_early(struct rig_peer *p)
{
	if (!peer_head(p))
		return;
	peer_write(p, strstr(p->head, "/417") != NULL
			  ? "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno"
		      : strstr(p->head, "/413") != NULL
			  ? "HTTP/1.1 413 Content Too Large\r\nTransfer-Encoding: chunked\r\n\r\n"
			  : "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	if (strstr(p->head, "/417") == NULL) {
		(void)usleep(50000);
		peer_write(p, "2\r\nno\r\n0\r\n\r\n");
	}
	(void)usleep(100000);
	(void)peer_some(p, p->head, 1); /* what came in spite of it */
}

static void
an_answer_before_the_body_ends_it(void **state)
{
	struct rig *r = *state;
	static const char *const targets[] = {"/417", "/413", "/200"};
	struct upstream_lease l;
	unsigned requests = 0;

	rig_serve(r, NULL, say_early);
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		for (int kind = LEASE_STREAM; kind <= LEASE_CHUNKED; kind++) {
			rig_forget(r);
			l = streamed(r, (enum lease_body)kind, 5);
			l.target = str_z(targets[i]);
			l.expect = true;
			rig_fresh(r);
			rig_send(r, &l);
			rig_run(r);
			assert_done(r, 1);
			assert_true(str_eqz(buf_str(&r->body), "no"));
			assert_int_equal(r->done.body_bytes, 0);
			assert_string_equal(r->order, "HBED"); /* no body was asked for */
			rig_pass(r, 150);
			assert_int_equal(atomic_load(&r->seen->requests), 1);
			requests++;
			assert_int_equal(atomic_load(&r->seen->conns), 1);
			assert_null(strstr(rig_seen(r), "0\r\n\r\n"));
		}
	}
	assert_int_equal(requests, 6);
}

/* Half of the body is here when the answer comes. */
static void
say_after_two(struct rig_peer *p)
{
	char two[2];

	if (peer_head(p) && peer_read(p, two, 2))
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	(void)usleep(100000);
}

static void
half(struct rig *r)
{
	if (r->mores == 1 && at == 0) {
		at = 2;
		rig_front_body(r, false, STR("he"));
	}
	if (strchr(r->order, 'H') != NULL && at == 2) {
		at = 5;
		rig_front_body(r, true, STR("llo")); /* was on its way */
	}
}

static void
what_front_sends_after_an_answer_is_dropped(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_after_two);
	l = streamed(r, LEASE_STREAM, 5);
	rig_fresh(r);
	r->step = half;
	rig_send(r, &l);
	rig_run(r);
	assert_done(r, 1);
	assert_int_equal(r->done.body_bytes, 2);
	rig_pass(r, 50);
	assert_false(r->front_gone);
	at = 0;
	rig_fresh(r);
	r->step = half;
	rig_send(r, &l);
	rig_run(r);
	/* The connection was not kept: the server may still wait for the rest. */
	assert_int_equal(atomic_load(&r->seen->conns), 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	    T(an_inline_body_goes_with_its_length),
	    T(a_sealed_body_is_sent_from_its_memory),
	    T(a_body_that_is_not_the_sealed_one_is_not_sent),
	    T(a_streamed_body_comes_by_credit),
	    T(the_start_that_core_judged_goes_first_whatever_front_sends),
	    T(a_small_chunked_body_is_framed_exactly),
	    T(a_body_of_another_length_does_not_become_whole),
	    T(a_bound_body_keeps_its_last_byte_until_the_hash_is_right),
	    T(a_placeholder_in_a_body_ends_it),
	    T(more_than_the_credit_ends_the_wire),
	    T(the_body_waits_for_100_or_a_while),
	    T(an_answer_before_the_body_ends_it),
	    T(what_front_sends_after_an_answer_is_dropped),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
