/*
 * HTTP exchanges over time: limits, aborts, lost wires, many at once, a reader who is slow, answers
 * sealed for the writer, and all of it under the filter of system calls.
 */
#include "tests/unit/upstream_http_help.h"

#include <sys/resource.h>

#include "audit/blob.h"
#include "common/json.h"
#include "common/proc.h"

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

/* --- time ------------------------------------------------------------------------ */

static void
say_slowly(struct rig_peer *p)
{
	if (!peer_head(p))
		return;
	if (strstr(p->head, "/mute") != NULL)
		(void)usleep(5000000);
	peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na");
	for (const char *c = "bcd"; *c != '\0'; c++) {
		(void)usleep(strstr(p->head, "/stuck") != NULL ? 5000000 : 200000);
		peer_put(p, c, 1);
	}
}

static void
a_server_has_so_much_time_and_no_more(void **state)
{
	struct rig *r = *state;
	const struct upstream_http_times t = {
	    .connect = 900, .first = 700, .idle = 500, .expect = 100};
	struct upstream_lease l;

	upstream_http_times(r->http, &t);
	rig_serve(r, NULL, say_slowly);
	rig_lease_to(r, &l);
	rig_ask(r, &l);
	assert_done(r, 1); /* 600 ms in all, 200 at a time */
	l.target = STR("/mute");
	rig_ask(r, &l);
	assert_done(r, 2);
	assert_has(r->done.why, "no answer");
	assert_string_equal(r->order, "D");
	l.target = STR("/stuck");
	rig_ask(r, &l);
	assert_done(r, 3);
	assert_has(r->done.why, "silent");
	assert_string_equal(r->order, "HBED");
	assert_int_equal(r->whole, 0);
	/* Nobody is there. */
	rig_lease_to(r, &l);
	l.address = STR("198.51.100.1");
	rig_ask(r, &l);
	assert_done(r, 5);
}

static void
answer_until_it_ends(struct rig_peer *p)
{
	char c;

	while (peer_head(p))
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	if (recv(p->fd, &c, 1, 0) == 0)
		atomic_fetch_add(&p->seen->go, 1);
}

/* Nothing but time passes: no later transfer makes libcurl look at what it keeps. */
static void
a_connection_that_nobody_uses_ends_by_itself(void **state)
{
	struct rig *r = *state;
	struct upstream_http_times t = UPSTREAM_HTTP_TIMES;
	struct upstream_lease l;

	t.keep = 1000;
	upstream_http_times(r->http, &t);
	rig_serve(r, NULL, answer_until_it_ends);
	rig_lease_to(r, &l);
	rig_ask(r, &l);
	assert_done(r, 1);
	rig_pass(r, 300);
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_int_equal(atomic_load(&r->seen->conns), 1); /* in time: used again */
	assert_int_equal(atomic_load(&r->seen->go), 0);
	for (int i = 0; i < 100 && atomic_load(&r->seen->go) == 0; i++)
		rig_pass(r, 50);
	assert_int_equal(atomic_load(&r->seen->go), 1);
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_int_equal(atomic_load(&r->seen->conns), 2);
}

/* --- ends from our side ---------------------------------------------------------- */

static void
say_half_and_wait(struct rig_peer *p)
{
	if (!peer_head(p))
		return;
	if (strstr(p->head, "/half") != NULL)
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
	(void)peer_some(p, p->head, 1);
	(void)atomic_fetch_add(&p->seen->go, 1);
}

static void
an_abort_ends_an_exchange_wherever_it_is(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_half_and_wait);
	rig_lease_to(r, &l);
	rig_fresh(r);
	rig_send(r, &l);
	rig_pass(r, 300);
	rig_abort(r);
	rig_run(r);
	assert_done(r, 2);
	assert_string_equal(r->order, "D");
	rig_pass(r, 50);
	assert_int_equal(atomic_load(&r->seen->go), 1); /* the server was told, by the close */
	l.target = STR("/half");
	rig_fresh(r);
	rig_send(r, &l);
	rig_pass(r, 300);
	rig_abort(r);
	rig_run(r);
	assert_done(r, 3);
	assert_string_equal(r->order, "HBED");
	rig_abort(r); /* of nothing */
	rig_pass(r, 20);
	assert_int_equal(r->done.count, 1);
}

static void
without_front_nothing_is_sent_and_what_runs_ends(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_half_and_wait);
	rig_lease_to(r, &l);
	rig_fresh(r);
	rig_send(r, &l);
	rig_pass(r, 300);
	ipc_free(TAKE_PTR(r->front));
	rig_run(r);
	assert_done(r, 2);
	rig_ask(r, &l);
	assert_done(r, 5);
	assert_int_equal(atomic_load(&r->seen->requests), 1);
	r->front = rig_wire(r, IPC_ROLE_FRONT, rig_front);
	rig_fresh(r);
	rig_send(r, &l);
	rig_pass(r, 300);
	assert_int_equal(atomic_load(&r->seen->requests), 2);
	/* Core goes: nobody is told, and the server sees the end. */
	ipc_free(TAKE_PTR(r->core));
	rig_pass(r, 300);
	assert_int_equal(atomic_load(&r->seen->go), 2);
}

/* --- many, and slow -------------------------------------------------------------- */

static void
say_some(struct rig_peer *p)
{
	static char content[20000];

	memset(content, 'x', sizeof(content));
	while (peer_head(p)) {
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n");
		peer_put(p, content, sizeof(content));
	}
}

static void
many_exchanges_run_at_once(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_some);
	rig_lease_to(r, &l);
	for (int round = 0; round < 3; round++) {
		rig_fresh(r);
		r->want = 64;
		for (uint64_t i = 0; i < 64; i++) {
			l.conn = 100 + i;
			rig_send(r, &l);
		}
		rig_run(r);
		rig_pass(r, 300); /* the wires of core and front are two */
		assert_done(r, 1);
		assert_int_equal(r->done.count, 64);
		assert_int_equal(r->body.n, 64 * 20000);
	}
	assert_int_equal(atomic_load(&r->seen->requests), 3 * 64);
	assert_true(atomic_load(&r->seen->conns) <= 2 * 64);
}

static void
say_much(struct rig_peer *p)
{
	static char content[65536];

	memset(content, 'x', sizeof(content));
	if (!peer_head(p))
		return;
	peer_write(p, "HTTP/1.1 200 OK\r\n\r\n");
	for (int i = 0; i < 64 * 16; i++) /* 64 MiB */
		peer_put(p, content, sizeof(content));
}

static long
peak_kib(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss;
}

static void
what_front_does_not_take_stays_with_the_server(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;
	size_t held;
	long before;

	rig_serve(r, NULL, say_much);
	rig_lease_to(r, &l);
	rig_fresh(r);
	rig_send(r, &l);
	rig_pass(r, 20);
	rig_hold(r, true);
	rig_pass(r, 300);
	held = r->body.n;
	assert_true(held < (size_t)60 << 20);
	rig_pass(r, 200);
	assert_int_equal(r->body.n, held);
	rig_hold(r, false);
	rig_run(r);
	rig_pass(r, 300);
	assert_done(r, 1);
	assert_int_equal(r->body.n, (size_t)64 << 20);

	/* The same when front itself does not read its wire. */
	rig_fresh(r);
	rig_send(r, &l);
	before = peak_kib();
	ipc_read_enable(r->front, false);
	rig_pass(r, 500);
	assert_true(peak_kib() - before < 8 << 10);
	assert_true(r->body.n == 0 && r->done.count == 0);
	ipc_read_enable(r->front, true);
	rig_run(r);
	rig_pass(r, 300);
	assert_done(r, 1);
	assert_int_equal(r->body.n, (size_t)64 << 20);
}

static void
say_a_little(struct rig_peer *p)
{
	if (!peer_head(p))
		return;
	peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
	for (int i = 0; i < 100; i++) {
		peer_put(p, "x", 1);
		(void)usleep(5000);
	}
}

static void
a_hold_stops_even_a_trickle(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;
	size_t held;

	rig_serve(r, NULL, say_a_little);
	rig_lease_to(r, &l);
	rig_fresh(r);
	rig_send(r, &l);
	rig_pass(r, 200);
	rig_hold(r, true);
	rig_pass(r, 50);
	held = r->body.n;
	assert_true(held > 0 && held < 100);
	rig_pass(r, 600);
	assert_int_equal(r->body.n, held);
	rig_hold(r, false);
	rig_run(r);
	rig_pass(r, 50);
	assert_done(r, 1);
	assert_int_equal(r->body.n, 100);
}

/* --- events ---------------------------------------------------------------------- */

static void
say_events(struct rig_peer *p)
{
	if (!peer_head(p))
		return;
	peer_write(p, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
		      "Transfer-Encoding: chunked\r\n\r\n");
	for (unsigned i = 1; i <= 3; i++) {
		peer_write(p, "9\r\ndata: 1\n\n\r\n");
		peer_wait(p, i); /* until the test has seen it */
	}
	peer_write(p, "0\r\n\r\n");
}

static void
count_events(struct rig *r)
{
	atomic_store(&r->seen->go, (unsigned)(r->body.n / 9));
}

static void
each_event_arrives_at_once(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;

	rig_serve(r, NULL, say_events);
	rig_lease_to(r, &l);
	rig_bearer(&l); /* scrubbing must not hold them up */
	rig_fresh(r);
	r->step = count_events;
	rig_send(r, &l);
	rig_run(r);
	assert_done(r, 1);
	assert_string_equal(r->order, "HBBBED");
}

/* --- sealing --------------------------------------------------------------------- */

static void
say_secret(struct rig_peer *p)
{
	while (peer_head(p))
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Type: Text/Plain; charset=x\r\n"
			      "Content-Length: 30\r\n\r\nyour key is " RIG_SECRET "!");
}

static void
opens_as(struct rig *r, struct str key, const char *want, const char *media)
{
	AUTO(secret) struct secret *k = secret_copy(key);
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf plain = BUF(4096);
	struct blob_ref ref;
	struct err err = {0};

	assert_int_equal(json_parse(str_z(r->done.blob), "blob", &doc, &err), 0);
	assert_int_equal(blob_ref_parse(json_root(doc), &ref, &err), 0);
	assert_int_equal(blob_open(k, buf_str(&r->frames), &ref, &plain, &err), 0);
	assert_true(str_eqz(buf_str(&plain), want));
	assert_string_equal(ref.media, media);
	assert_string_equal(ref.kid, "run-1");
}

static void
the_beginning_of_an_answer_goes_sealed_to_the_writer(void **state)
{
	struct rig *r = *state;
	AUTO(secret) struct secret *run = secret_copy(STR("0123456789abcdef0123456789abcdef"));
	AUTO(secret) struct secret *own = NULL;
	uint8_t wrap[BLOB_WRAP_LEN];
	struct upstream_lease l;

	assert_int_equal(blob_key_new(run, STR("run-1"), &own, wrap, NULL), 0);
	rig_serve(r, NULL, say_secret);
	rig_lease_to(r, &l);
	rig_bearer(&l);
	l.kid = STR("run-1");
	l.blob_key = secret_str(own);
	l.wrap = str_mem(wrap, sizeof(wrap));
	l.seal = 1000;
	rig_ask(r, &l);
	assert_done(r, 1);
	assert_string_equal(r->order, "HBEFD"); /* the frame before the word to core */
	opens_as(r, secret_str(run), "your key is cfph_abcdefghijkl!", "Text/Plain");
	l.seal = 8;
	rig_ask(r, &l);
	opens_as(r, secret_str(run), "your key", "Text/Plain;cut");
	l.seal = 0;
	rig_ask(r, &l);
	assert_string_equal(r->order, "HBED");
	assert_string_equal(r->done.blob, "");
	l.seal = 8;
	l.blob_key = STR("short");
	rig_ask(r, &l);
	assert_done(r, 5);
	l.blob_key = secret_str(own);
	l.wrap = STR("short");
	rig_ask(r, &l);
	assert_done(r, 5);
}

static void
say_two_mib(struct rig_peer *p)
{
	static char content[2 << 20];

	memset(content, 'x', sizeof(content));
	while (peer_head(p)) {
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 2097152\r\n\r\n");
		peer_put(p, content, sizeof(content));
	}
}

static void
core_hears_of_an_answer_when_its_frame_has_left(void **state)
{
	struct rig *r = *state;
	static const char key[33] = "0123456789abcdef0123456789abcdef";
	static const uint8_t wrap[BLOB_WRAP_LEN];
	struct upstream_lease l;

	rig_serve(r, NULL, say_two_mib);
	rig_lease_to(r, &l);
	l.kid = STR("run-1");
	l.blob_key = str_mem(key, 32);
	l.wrap = str_mem(wrap, sizeof(wrap));
	l.seal = UINT64_MAX; /* as much as a frame holds */
	rig_fresh(r);
	r->want = 8;
	ipc_read_enable(r->writer, false);
	for (uint64_t i = 0; i < 8; i++) {
		l.conn = 100 + i;
		rig_send(r, &l);
	}
	rig_pass(r, 500);
	assert_int_equal(r->done.count, 0);
	assert_null(strchr(r->order, 'D'));
	ipc_read_enable(r->writer, true);
	rig_run(r);
	rig_pass(r, 300);
	assert_done(r, 1);
	assert_true(r->frames.n > (size_t)8 << 21);
	assert_true(r->done.blob[0] == '{');

	/* The writer goes while a frame is on its way: no record may name it. */
	rig_fresh(r);
	ipc_read_enable(r->writer, false);
	rig_send(r, &l);
	rig_pass(r, 300);
	assert_int_equal(r->done.count, 0);
	ipc_free(TAKE_PTR(r->writer));
	rig_run(r);
	assert_done(r, 1);
	assert_string_equal(r->done.blob, "");
}

/* --- confined -------------------------------------------------------------------- */

#ifndef MODE_SANITIZED
static void
say_ok(struct rig_peer *p)
{
	while (peer_head(p))
		peer_write(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

/* No file can be opened and no thread started there, or the child dies of SIGSYS. */
static void
exchanges_need_no_more_than_the_filter_leaves(void **state)
{
	struct rig *r = *state;
	struct upstream_lease l;
	int status;
	pid_t pid;

	rig_serve(r, NULL, say_ok);
	pid = fork();
	if (pid == 0) {
		if (proc_harden(NULL) != 0 || proc_seccomp(upstream_syscalls, NULL) != 0)
			_exit(3);
		rig_lease_to(r, &l);
		rig_bearer(&l);
		l.networks[l.nnetworks++] = STR("127.0.0.0/8");
		for (int i = 0; i < 3; i++) {
			l.fresh = i == 1;
			l.address = i == 2 ? STR("") : STR("127.0.0.1");
			rig_fresh(r);
			rig_send(r, &l);
			if (loop_run(r->loop) != 0 || r->done.status != 1)
				_exit(4);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("the confined process ended with %#x", (unsigned)status);
}
#endif

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	    T(a_server_has_so_much_time_and_no_more),
	    T(a_connection_that_nobody_uses_ends_by_itself),
	    T(an_abort_ends_an_exchange_wherever_it_is),
	    T(without_front_nothing_is_sent_and_what_runs_ends),
	    T(many_exchanges_run_at_once),
	    T(what_front_does_not_take_stays_with_the_server),
	    T(a_hold_stops_even_a_trickle),
	    T(each_event_arrives_at_once),
	    T(the_beginning_of_an_answer_goes_sealed_to_the_writer),
	    T(core_hears_of_an_answer_when_its_frame_has_left),
#ifndef MODE_SANITIZED
	    T(exchanges_need_no_more_than_the_filter_leaves),
#endif
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
