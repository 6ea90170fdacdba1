/* What the writer keeps for core besides records: what was let through and counts for a rate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "audit/writer_live.h"
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_counts_is_told_as_windows),
	    cmocka_unit_test(a_window_that_is_over_is_not_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
