/* Witnesses as core counts them: what the writer may say, when enough have cosigned, and that a
 * proven conflict outweighs all others, one that is only said counts that witness for nothing. */
#include "tests/unit/core_run_help.h"

#include "broker/core_witness.h"
#include "common/banned.h"

static void
told(struct world *w, uint32_t n, uint64_t size, int64_t since_us, const char *name,
    const char *conflict, bool proven)
{
	AUTO_BUF struct buf b = BUF(8192);

	buf_u32(&b, n);
	for (uint32_t i = 0; i < n; i++) {
		buf_lz(&b, i == 0 ? name : "w");
		buf_u64(&b, size);
		buf_u64(&b, (uint64_t)since_us);
		buf_lz(&b, i == 0 ? conflict : "");
		buf_u8(&b, i == 0 && proven);
		buf_lz(&b, "why");
	}
	say(&w->writer, MSG_W_WITNESSES, &b);
	settle(w);
}

static void
assert_short(struct world *w, unsigned needed, const char *want)
{
	AUTO_FREE char *z = core_witness_short(w->c, needed);

	if (want == NULL)
		assert_null(z);
	else if (z == NULL || strstr(z, want) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", z != NULL ? z : "nothing", want);
}

static void
enough_have_cosigned_what_is_behind_the_record(void **state)
{
	struct world *w = *state;

	assert_false(core_witness_covers(w->c, 1, 9));
	assert_short(w, 1, "broker.json has 0");
	told(w, 2, 10, 0, "a", "", false);
	assert_true(core_witness_covers(w->c, 2, 9));
	assert_false(core_witness_covers(w->c, 2, 10)); /* that is the next */
	assert_false(core_witness_covers(w->c, 3, 9));
	assert_short(w, 2, NULL);
	assert_short(w, 3, "broker.json has 2");
	told(w, 2, 10, 5000000, "a", "", false);
	assert_short(w, 1, "and 0 do");
	assert_short(w, 0, NULL);
}

static void
a_proven_conflict_outweighs_all_others_and_a_claimed_one_is_not_counted(void **state)
{
	struct world *w = *state;

	told(w, 3, 10, 0, "a", "fork", true);
	assert_false(core_witness_covers(w->c, 2, 9));
	assert_short(w, 2, "refuses this log");
	told(w, 3, 10, 0, "a", "fork", false);
	assert_true(core_witness_covers(w->c, 2, 9));
	assert_false(core_witness_covers(w->c, 3, 9));
	assert_short(w, 2, NULL);
}

static void
what_the_writer_says_of_them_is_of_the_form_or_ends_it(void **state)
{
	static const struct {
		uint32_t n;
		int64_t since;
		size_t name;
		bool good;
	} rows[] = {{8, 0, 9, true}, {9, 0, 9, false}, {1, -1, 9, false}, {1, 0, 2000, false}};
	struct world *w = *state;
	char name[2001];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		memset(name, 'n', sizeof(name));
		name[rows[i].name] = '\0';
		told(w, rows[i].n, 10, rows[i].since, name, "", false);
		assert_int_equal(w->writer.fd >= 0, rows[i].good);
		if (!rows[i].good) {
			world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
			world_live(w);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(enough_have_cosigned_what_is_behind_the_record),
	    world_test(a_proven_conflict_outweighs_all_others_and_a_claimed_one_is_not_counted),
	    world_test(what_the_writer_says_of_them_is_of_the_form_or_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
