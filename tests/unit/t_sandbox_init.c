/* Pid 1 of a sandbox, the real program, driven by a supervisor of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/init_help.h"

#include "common/banned.h"

static char out[1 << 16];

static void
it_says_what_holds(void **state UNUSED)
{
	struct box b = box_start(&(struct box_want){0});
	struct frame f;

	frame_want(&b, &f, INSIDE_READY, 0);
	assert_non_null(strstr(f.body, "\"seccomp\":\"filter\",\"seccomp_filters\":"));
	assert_non_null(
	    strstr(f.body, "\"no_new_privs\":true,\"capabilities\":\"none\",\"landlock_abi\":"));
	assert_int_equal(box_end(&b), 0);
}

static void
a_program_runs_and_its_end_is_told(void **state UNUSED)
{
	struct box b = box_ready(&(struct box_want){0});

	assert_int_equal(run(&b, 7, &SH("echo hello; exit 3"), out, sizeof(out)), 3 << 8);
	assert_string_equal(out, "hello\n");
	assert_int_equal(run(&b, 8, &SH("kill -9 $$"), out, sizeof(out)), SIGKILL);
	assert_int_equal(box_end(&b), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_says_what_holds),
	    cmocka_unit_test(a_program_runs_and_its_end_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
