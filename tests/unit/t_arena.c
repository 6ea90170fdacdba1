/*
 * Unit tests of common/arena: alignment, zeroing, reuse, and the end at the bound.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/arena.h"
#include "common/cleanup.h"

#include "common/banned.h"

static void
allocations_are_zeroed_aligned_and_apart(void **state UNUSED)
{
	struct arena *a = arena_new(1 << 20);
	unsigned char *last = NULL;

	for (size_t n = 0; n < 300; n++) {
		unsigned char *p = arena_alloc(a, n);

		assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
		assert_ptr_not_equal(p, last);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0xee, n);
		last = p;
	}
	arena_free(a);
	arena_free(NULL);
}

static void
a_large_allocation_does_not_disturb_small_ones(void **state UNUSED)
{
	struct arena *a = arena_new(4 << 20);
	char *x = arena_alloc(a, 10), *big, *y;

	memset(x, 'x', 10);
	big = arena_alloc(a, 1 << 20);
	memset(big, 'b', 1 << 20);
	y = arena_alloc(a, 10);
	memset(y, 'y', 10);
	assert_memory_equal(x, "xxxxxxxxxx", 10);
	assert_int_equal(big[0], 'b');
	assert_int_equal(big[(1 << 20) - 1], 'b');
	arena_free(a);
}

static void
a_string_is_copied_with_nul_behind_it(void **state UNUSED)
{
	struct arena *a = arena_new(1000);
	char src[] = "hello";
	struct str s = arena_str(a, str_mem(src, 5)), none = arena_str(a, STR_NONE);

	src[0] = 'X';
	assert_true(str_eqz(s, "hello"));
	assert_int_equal(s.p[5], '\0');
	assert_true(none.n == 0 && none.p[0] == '\0');
	arena_free(a);
}

static void
after_reset_the_whole_bound_is_free_again(void **state UNUSED)
{
	struct arena *a = arena_new(1000);

	for (int i = 0; i < 50; i++) {
		unsigned char *p = arena_alloc(a, 900);

		assert_int_equal(p[0] | p[899], 0);
		memset(p, 0xff, 900);
		arena_reset(a);
	}
	arena_free(a);
}

static int
status_after(size_t max, size_t first, size_t second)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct arena *a = arena_new(max);

		(void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
		(void)arena_alloc(a, first);
		(void)arena_alloc(a, second);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
over_the_bound_the_process_ends(void **state UNUSED)
{
	assert_int_equal(status_after(1024, 512, 512), 0);
	assert_int_equal(status_after(1024, 512, 513), 1);
	assert_int_equal(status_after(1024, 1024, 0), 1);
	assert_int_equal(status_after(1024, 16, SIZE_MAX), 1);
	assert_int_equal(status_after(SIZE_MAX, 16, SIZE_MAX - 8), 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(allocations_are_zeroed_aligned_and_apart),
	    cmocka_unit_test(a_large_allocation_does_not_disturb_small_ones),
	    cmocka_unit_test(a_string_is_copied_with_nul_behind_it),
	    cmocka_unit_test(after_reset_the_whole_bound_is_free_again),
	    cmocka_unit_test(over_the_bound_the_process_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
