/* What the writer keeps for core besides records: what was let through and counts for a rate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "audit/live.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct told {
	size_t nactions, nrates;
	char rate[2048];
};

static void
hear(void *arg, struct str body, const struct hash *root UNUSED)
{
	struct told *t = arg;

	if (memmem(body.p, body.n, "\"type\":\"rate\"", 13) == NULL) {
		t->nactions++;
		return;
	}
	t->nrates++;
	(void)snprintf(t->rate, sizeof(t->rate), "%.*s", STR_ARG(body));
}

static void
record(struct live *l, const char *data)
{
	struct tree_range tree = {0};
	struct record r = {
	    .type = STR("action"), .run = STR("r-1"), .data = str_z(data), .body = STR("{}")};

	live_record(l, &r, &tree);
}

#define ACTION(counted, sent, second, statements)                                                  \
	"{\"action\":\"a-1\",\"decision\":{\"at\":\"2026-01-01T00:00:" second ".000000Z\"" counted \
	"},\"dispatch\":{\"sent\":" sent "},\"request\":{\"input\":{\"statements\":" statements    \
	"}}}"
#define COUNTED                                                                               \
	",\"counted\":[{\"in\":60,\"key\":\"a\\\"b\",\"over\":25,\"per\":\"agent\",\"rule\":" \
	"\"many\"}]"

static void
what_counts_is_told_as_windows(void **state UNUSED)
{
	struct live *l = live_new();
	struct told t = {0};

	record(l, ACTION(COUNTED, "true", "01", "1"));
	record(l, ACTION(COUNTED, "true", "02", "3"));
	record(l, ACTION("", "true", "03", "1"));
	live_each(l, hear, &t);
	assert_int_equal(t.nactions, 3);
	assert_int_equal(t.nrates, 1);
	assert_string_equal(t.rate,
	    "{\"data\":{\"in\":60,\"key\":\"a\\\"b\",\"lost_until\":0,\"marks\":["
	    "[1767225601000000,1],[1767225602000000,3]],\"over\":25,\"per\":\"agent\",\"rule\":"
	    "\"many\"},\"type\":\"rate\"}");
	live_free(l);
}

static void
a_window_that_is_over_is_not_told(void **state UNUSED)
{
	struct live *l = live_new();
	struct told t = {0};
	AUTO_FREE char *other = NULL;

	record(l, ACTION(COUNTED, "false", "01", "1"));
	other =
	    xstrdup("{\"action\":\"a-1\",\"decision\":{\"at\":\"2026-01-01T00:01:01.000000Z\""
		    ",\"counted\":[{\"in\":60,\"key\":\"c\",\"over\":25,\"per\":\"agent\","
		    "\"rule\":\"many\"}]},\"dispatch\":{\"sent\":false},\"request\":{\"input\":{"
		    "\"statements\":1}}}");
	record(l, other);
	live_each(l, hear, &t);
	assert_int_equal(t.nrates, 1);
	assert_non_null(strstr(t.rate, "\"key\":\"c\""));
	live_free(l);
}

static void
outcome(struct live *l, const char *type, const char *data)
{
	struct tree_range tree = {0};
	struct record r = {
	    .type = str_z(type), .run = STR("r-1"), .data = str_z(data), .body = STR("{}")};

	live_record(l, &r, &tree);
}

static void
a_doubt_is_told_until_a_person_has_settled_it(void **state UNUSED)
{
	struct live *l = live_new();

	outcome(l, "outcome", "{\"action\":\"a-1\",\"status\":\"unknown\"}");
	outcome(l, "outcome", "{\"action\":\"a-2\",\"status\":\"lost\"}");
	outcome(l, "outcome", "{\"action\":\"a-3\",\"status\":\"ok\"}");
	outcome(l, "outcome", "{\"action\":\"a-4\",\"status\":\"not_sent\"}");
	outcome(l, "outcome", "{\"action\":\"a-5\",\"reads\":true,\"status\":\"lost\"}");
	outcome(l, "outcome", "{\"action\":\"a-6\",\"reads\":true,\"status\":\"unknown\"}");
	assert_int_equal(live_count(l), 2);
	outcome(l, "outcome.settled", "{\"action\":\"a-1\",\"status\":\"done\"}");
	outcome(l, "outcome.settled", "{\"action\":\"a-9\",\"status\":\"done\"}");
	assert_int_equal(live_count(l), 1);
	live_free(l);
}

static void
of_very_many_doubts_the_newest_are_told(void **state UNUSED)
{
	struct live *l = live_new();

	record(l, ACTION("", "true", "01", "1")); /* the oldest of all, and the first to have one */
	for (int i = 0; i < LIVE_DOUBTS_MAX; i++) {
		AUTO_FREE char *data = xasprintf("{\"action\":\"b-%d\",\"status\":\"lost\"}", i);

		outcome(l, "outcome", data);
	}
	for (int i = 1; i <= LIVE_DOUBTS_MAX + 10; i++) {
		AUTO_FREE char *data = xasprintf("{\"action\":\"a-%d\",\"status\":\"lost\"}", i);

		outcome(l, "outcome", data);
	}
	assert_int_equal(live_count(l), LIVE_DOUBTS_MAX);
	outcome(l, "outcome.settled", "{\"action\":\"a-10\",\"status\":\"done\"}");
	assert_int_equal(live_count(l), LIVE_DOUBTS_MAX);
	outcome(l, "outcome.settled", "{\"action\":\"a-11\",\"status\":\"done\"}");
	assert_int_equal(live_count(l), LIVE_DOUBTS_MAX - 1);
	live_free(l);
}

/* --- what was refused --- */

static void
refused(struct live *l, const char *run, const char *verdict, unsigned n)
{
	struct tree_range tree = {0};
	AUTO_FREE char *data = xasprintf("{\"action\":\"a-%u\",\"decision\":{\"approval\":\"q\","
					 "\"attempt\":%u,\"verdict\":\"%s\"},"
					 "\"dispatch\":{\"sent\":false},\"request\":{\"input\":{"
					 "\"relations\":[\"a\\\"b\",\"c\"]},"
					 "\"target\":\"t\"}}",
	    n, n, verdict);
	struct record r = {.type = STR("action"),
	    .run = str_z(run),
	    .seq = n,
	    .data = str_z(data),
	    .body = STR("{}")};

	live_record(l, &r, &tree);
}

struct heard {
	size_t n;
	char first[512], last[512];
};

static void
hear_refused(void *arg, struct str body, const struct hash *root UNUSED)
{
	struct heard *h = arg;

	if (memmem(body.p, body.n, "\"type\":\"refused\"", 16) == NULL)
		return;
	if (h->n++ == 0)
		(void)snprintf(h->first, sizeof(h->first), "%.*s", STR_ARG(body));
	(void)snprintf(h->last, sizeof(h->last), "%.*s", STR_ARG(body));
}

static void
of_what_was_refused_each_runs_last_are_told_until_it_ends(void **state UNUSED)
{
	struct live *l = live_new();
	struct heard h = {0}, after = {0};

	refused(l, "r-1", "allow", 1);
	for (unsigned i = 2; i < LIVE_REFUSED_RUN + 5; i++)
		refused(l, "r-1", i % 2 == 0 ? "deny" : "needs_approval", i);
	refused(l, "r-2", "deny", 9999);
	live_each(l, hear_refused, &h);
	assert_int_equal(h.n, LIVE_REFUSED_RUN + 1);
	assert_string_equal(h.first,
	    "{\"data\":{\"approval\":\"q\",\"attempt\":5,\"relations\":[\"a\\\"b\",\"c\"],"
	    "\"target\":\"t\","
	    "\"verdict\":\"needs_approval\"},\"run\":\"r-1\",\"seq\":5,\"type\":\"refused\"}");
	outcome(l, "run.end", "{}"); /* of r-1 */
	live_each(l, hear_refused, &after);
	assert_int_equal(after.n, 1);
	assert_non_null(strstr(after.last, "\"run\":\"r-2\""));
	live_free(l);
}

static void
what_is_saved_is_restored_and_a_part_of_it_is_not(void **state UNUSED)
{
	AUTO_BUF struct buf b = BUF(65536), again = BUF(65536);
	struct live *l = live_new(), *m = live_new();
	struct rd in;

	record(l, ACTION(COUNTED, "true", "01", "1"));
	outcome(l, "outcome", "{\"action\":\"a-7\",\"status\":\"lost\"}");
	refused(l, "r-1", "deny", 3);
	assert_true(live_save(l, &b));
	in = rd_init(buf_str(&b));
	assert_true(live_restore(m, &in));
	assert_true(live_save(m, &again));
	assert_true(str_eq(buf_str(&b), buf_str(&again)));
	live_free(m);
	for (size_t n = 0; n < b.n; n++) {
		m = live_new();
		in = rd_init(str_mem(b.p, n));
		assert_false(live_restore(m, &in));
		live_free(m);
	}
	live_free(l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_counts_is_told_as_windows),
	    cmocka_unit_test(a_window_that_is_over_is_not_told),
	    cmocka_unit_test(a_doubt_is_told_until_a_person_has_settled_it),
	    cmocka_unit_test(of_very_many_doubts_the_newest_are_told),
	    cmocka_unit_test(of_what_was_refused_each_runs_last_are_told_until_it_ends),
	    cmocka_unit_test(what_is_saved_is_restored_and_a_part_of_it_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
