/*
 * Sliding windows: exact against a list of everything, bounded in memory, and told from one
 * process to the other without loss; what there was no room for is not known, never none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "audit/rates.h"
#include "common/json.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define SECOND ((int64_t)1000000)
#define T0 ((int64_t)1767225600 * SECOND)

static struct rate_name
name(const char *rule, const char *key, unsigned over, int64_t in_s)
{
	return (struct rate_name){
	    .rule = str_z(rule), .key = str_z(key), .per = STR("run"), .over = over, .in_s = in_s};
}

static unsigned
counted(const struct rates *r, struct rate_name n, int64_t at_us)
{
	unsigned k = 0;

	assert_true(rates_count(r, &n, at_us, &k));
	return k;
}

static void
a_window_is_open_at_its_old_end(void **state UNUSED)
{
	struct rates *r = rates_new();
	struct rate_name n = name("r", "a", 25, 60);

	rates_add(r, &n, T0, 1);
	assert_int_equal(counted(r, n, T0), 1);
	assert_int_equal(counted(r, n, T0 + 60 * SECOND - 1), 1);
	assert_int_equal(counted(r, n, T0 + 60 * SECOND), 0);
	rates_free(r);
}

static void
each_name_counts_for_itself(void **state UNUSED)
{
	struct rates *r = rates_new();
	struct rate_name a = name("r", "a", 25, 60), b = name("r", "b", 25, 60),
			 c = name("s", "a", 25, 60), d = name("r", "a", 24, 60),
			 e = name("r", "a", 25, 61), f = a;

	f.per = STR("owner");
	rates_add(r, &a, T0, 3);
	assert_int_equal(counted(r, a, T0), 3);
	assert_int_equal(counted(r, b, T0), 0);
	assert_int_equal(counted(r, c, T0), 0);
	assert_int_equal(counted(r, d, T0), 0);
	assert_int_equal(counted(r, e, T0), 0);
	assert_int_equal(counted(r, f, T0), 0);
	rates_free(r);
}

static uint32_t
next_random(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*s >> 33);
}

struct told {
	struct rates *to;
	size_t n;
};

static void
tell(void *arg, struct str body)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct told *t = arg;

	assert_true(body.n <= RATES_TOLD_MAX);
	assert_int_equal(json_parse(body, "told", &doc, NULL), 0);
	assert_true(str_eqz(json_str(json_get(json_root(doc), "type")), "rate"));
	assert_true(rates_told(t->to, json_get(json_root(doc), "data")));
	t->n++;
}

/* Against a list of everything that was ever counted; and a copy that was told half-way. */
static void
counts_are_exact_up_to_what_matters(void **state UNUSED)
{
	enum { N = 4000 };
	struct rates *r = rates_new(), *copy = rates_new();
	AUTO_FREE int64_t *at = xcalloc(N, sizeof(*at));
	AUTO_FREE unsigned *n = xcalloc(N, sizeof(*n));
	struct rate_name w = name("r", "a", 40, 100);
	struct told t = {.to = copy};
	uint64_t seed = 3;
	int64_t now = T0;

	for (int i = 0; i < N; i++) {
		unsigned want = 0, is = counted(r, w, now);

		for (int k = 0; k < i; k++)
			if (at[k] > now - w.in_s * SECOND)
				want += n[k];
		if (want <= w.over + 1)
			assert_int_equal(is, want);
		else
			assert_true(is >= w.over + 1);
		if (i >= N / 2)
			assert_int_equal(counted(copy, w, now), is);
		at[i] = now;
		n[i] = 1 + next_random(&seed) % 4;
		rates_add(r, &w, at[i], n[i]);
		if (i >= N / 2)
			rates_add(copy, &w, at[i], n[i]);
		if (i == N / 2 - 1)
			rates_tell(r, now, tell, &t);
		if (next_random(&seed) % 3 != 0)
			now += (int64_t)(next_random(&seed) % 12) * SECOND;
	}
	assert_int_equal(t.n, 1);
	rates_free(r);
	rates_free(copy);
}

static void
a_clock_that_goes_back_makes_nothing_younger(void **state UNUSED)
{
	struct rates *r = rates_new();
	struct rate_name n = name("r", "a", 25, 60);

	rates_add(r, &n, T0, 1);
	rates_add(r, &n, T0 - 30 * SECOND, 1);
	assert_int_equal(counted(r, n, T0 + 59 * SECOND), 2);
	rates_free(r);
}

static void
what_has_no_room_is_not_known_until_it_would_be_over(void **state UNUSED)
{
	struct rates *r = rates_new(), *copy = rates_new();
	struct told t = {.to = copy};
	struct rate_name late = name("r", "late", 25, 60), first = name("r", "k0", 25, 60);
	unsigned k;

	for (unsigned i = 0; i < RATES_WINDOWS_MAX; i++) {
		char key[16];
		struct rate_name n;

		(void)snprintf(key, sizeof(key), "k%u", i);
		n = name("r", key, 25, 60);
		rates_add(r, &n, T0, 1);
	}
	rates_add(r, &late, T0, 1);
	assert_false(rates_count(r, &late, T0, &k));
	assert_false(rates_count(r, &late, T0 + 60 * SECOND - 1, &k));
	assert_int_equal(counted(r, first, T0), 1); /* what has its place is known */
	assert_int_equal(counted(r, late, T0 + 60 * SECOND), 0);
	/* Then there is room again. */
	rates_add(r, &late, T0 + 60 * SECOND, 1);
	assert_int_equal(counted(r, late, T0 + 60 * SECOND), 1);
	rates_tell(r, T0 + 60 * SECOND, tell, &t);
	assert_int_equal(t.n, 1);
	assert_int_equal(counted(copy, late, T0 + 60 * SECOND), 1);
	rates_free(r);
	rates_free(copy);
}

static void
marks_without_room_make_their_window_unknown_and_it_is_told(void **state UNUSED)
{
	struct rates *r = rates_new(), *copy = rates_new();
	struct told t = {.to = copy};
	struct rate_name big = name("r", "big", 2000000, 3600), other = name("r", "o", 25, 60);
	unsigned k;

	for (size_t i = 0; i <= RATES_MARKS_MAX; i++)
		rates_add(r, &big, T0 + (int64_t)i, 1);
	assert_false(rates_count(r, &big, T0 + (int64_t)RATES_MARKS_MAX, &k));
	rates_tell(r, T0 + (int64_t)RATES_MARKS_MAX, tell, &t);
	assert_true(t.n > 100); /* in parts */
	assert_false(rates_count(copy, &big, T0 + (int64_t)RATES_MARKS_MAX, &k));
	/* Others that need none of their own keep counting once it is over. */
	rates_add(r, &other, T0 + 7200 * SECOND, 1);
	assert_int_equal(counted(r, other, T0 + 7200 * SECOND), 1);
	rates_free(r);
	rates_free(copy);
}

static void
what_is_told_in_another_form_is_refused(void **state UNUSED)
{
	static const char *const bad[] = {"{}", "{\"marks\":[]}",
	    "{\"in\":60,\"key\":\"a\",\"lost_until\":0,\"marks\":[[1]],\"over\":1,\"per\":\"run\","
	    "\"rule\":\"r\"}",
	    "{\"in\":60,\"key\":\"a\",\"lost_until\":0,\"marks\":[[1,0]],\"over\":1,\"per\":"
	    "\"run\",\"rule\":\"r\"}",
	    "{\"in\":0,\"key\":\"a\",\"lost_until\":0,\"marks\":[],\"over\":1,\"per\":\"run\","
	    "\"rule\":\"r\"}",
	    "{\"in\":60,\"key\":\"a\",\"lost_until\":0,\"marks\":[],\"over\":-1,\"per\":\"run\","
	    "\"rule\":\"r\"}",
	    "{\"in\":60,\"key\":\"a\",\"lost_until\":0,\"marks\":[],\"over\":1,\"per\":\"run\","
	    "\"rule\":\"\"}"};
	struct rates *r = rates_new();

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO(json) struct json_doc *doc = NULL;

		assert_int_equal(json_parse(str_z(bad[i]), "bad", &doc, NULL), 0);
		assert_false(rates_told(r, json_root(doc)));
	}
	rates_free(r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_window_is_open_at_its_old_end),
	    cmocka_unit_test(each_name_counts_for_itself),
	    cmocka_unit_test(counts_are_exact_up_to_what_matters),
	    cmocka_unit_test(a_clock_that_goes_back_makes_nothing_younger),
	    cmocka_unit_test(what_has_no_room_is_not_known_until_it_would_be_over),
	    cmocka_unit_test(marks_without_room_make_their_window_unknown_and_it_is_told),
	    cmocka_unit_test(what_is_told_in_another_form_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
