/* What a signed head covers: leaves from files and lines, on from where the last head was, and
 * marks that are the leaves which were signed. */
#include "audit/covered.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit/leaves.h"
#include "audit/tree.h"

#include "tests/unit/temp_help.h"

#include "common/banned.h"

#define N 1500
#define PRUNED 100 /* of these there are leaves alone */
#define SEALED 700 /* of these both; of the rest lines alone */

struct fixture {
	char path[64];
	int dir, segdir;
	struct hash leaf[N];
};

static void
put(const struct fixture *f, uint64_t first, const char *suffix, const void *p, size_t n)
{
	char name[LOG_NAME_SIZE];
	AUTO_FD int fd = -1;

	log_name(name, first, suffix);
	fd = openat(f->segdir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), n);
}

/* The lines of a segment, up to a record. */
static void
put_lines(struct fixture *f, size_t first, size_t end)
{
	AUTO_BUF struct buf lines = BUF(1 << 20);

	for (size_t i = first; i < end; i++) {
		AUTO_BUF struct buf body = BUF(64);

		buf_printf(&body, "{\"n\":%zu}", i);
		record_line(&lines, buf_str(&body), &f->leaf[i]);
	}
	put(f, first, LOG_LINES, lines.p, lines.n);
}

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	(void)snprintf(f->path, sizeof(f->path), "/tmp/t_covered.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(f->dir, LOG_SEG, 0700), 0);
	f->segdir = openat(f->dir, LOG_SEG, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put_lines(f, 0, PRUNED);
	put(f, 0, LOG_LEAVES, f->leaf, PRUNED * HASH_LEN);
	assert_int_equal(unlinkat(f->segdir, "00000000000000000000.jsonl", 0), 0);
	put_lines(f, PRUNED, SEALED);
	put(f, PRUNED, LOG_LEAVES, f->leaf + PRUNED, (SEALED - PRUNED) * HASH_LEN);
	put_lines(f, SEALED, N);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	close(f->segdir);
	close(f->dir);
	temp_remove(f->path);
	free(f);
	return 0;
}

static struct checkpoint
head(const struct fixture *f, uint64_t size)
{
	return (struct checkpoint){.size = size, .root = tree_root_of(f->leaf, size)};
}

/* From one head to the next, whatever lies between them. */
static void
test_onward(void **state)
{
	static const uint64_t sizes[] = {0, 1, 99, 100, 101, 255, 256, 257, 699, 700, 701, 1024, N};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct covered *c = covered_new(f->dir);

		for (size_t k = i; k < ARRAY_LEN(sizes); k++) {
			struct checkpoint cp = head(f, sizes[k]);

			assert_int_equal(covered_to(c, &cp, 0, NULL), 0);
			assert_int_equal(covered_to(c, &cp, 0, NULL), 0);
		}
		covered_free(c);
	}
}

static void
test_marks(void **state)
{
	struct fixture *f = *state;
	struct covered *c = covered_new(f->dir);
	struct checkpoint cp = head(f, 1000);
	uint64_t marks = 0;

	assert_int_equal(covered_to(c, &cp, 50, NULL), 0);
	for (uint64_t seq = 50; seq < N; seq++) {
		const struct hash *mark = covered_mark(c, seq);
		bool is = seq == PRUNED - 1 || seq == SEALED - 1 || seq == 999 ||
			  ((seq + 1) % COVERED_STRIDE == 0 && seq < 1000);

		assert_int_equal(mark != NULL, is);
		marks += is;
		if (is)
			assert_true(hash_eq(mark, &f->leaf[seq]));
	}
	assert_int_equal(marks, 6);
	cp = head(f, N);
	assert_int_equal(covered_to(c, &cp, 999, NULL), 0);
	assert_null(covered_mark(c, 998));
	assert_true(hash_eq(covered_mark(c, 999), &f->leaf[999]));
	assert_true(hash_eq(covered_mark(c, N - 1), &f->leaf[N - 1]));
	covered_free(c);
}

/* What does not fit changes nothing: the head before holds still, and goes on. */
static void
test_other(void **state)
{
	struct fixture *f = *state;
	struct covered *c = covered_new(f->dir);
	struct checkpoint good = head(f, 800), end = head(f, N), bad = head(f, 900);
	struct err err = {0};

	assert_int_equal(covered_to(c, &good, 0, NULL), 0);
	bad.root.b[7] ^= 1;
	assert_int_equal(covered_to(c, &bad, 0, &err), ERR_TAMPER);
	assert_non_null(strstr(err.msg, "not the one that was signed up to size 900"));
	assert_null(covered_mark(c, 899));
	put_lines(f, SEALED, 1400);
	assert_int_equal(covered_to(c, &end, 0, &err), ERR_TAMPER);
	assert_non_null(strstr(err.msg, "record 1400 is not there or not whole, but 1500"));
	put_lines(f, SEALED, N);
	assert_int_equal(covered_to(c, &end, 0, NULL), 0);
	covered_free(c);
}

/* Leaves that end early, and lines that were changed. */
static void
test_not_whole(void **state)
{
	struct fixture *f = *state;
	struct covered *c = covered_new(f->dir);
	struct checkpoint end = head(f, N);
	struct hash was = f->leaf[300];

	put(f, PRUNED, LOG_LEAVES, f->leaf + PRUNED, 100 * HASH_LEN + 5);
	assert_int_equal(covered_to(c, &end, 0, NULL), ERR_TAMPER);
	f->leaf[300].b[0] ^= 1;
	put(f, PRUNED, LOG_LEAVES, f->leaf + PRUNED, (SEALED - PRUNED) * HASH_LEN);
	assert_int_equal(covered_to(c, &end, 0, NULL), ERR_TAMPER);
	f->leaf[300] = was;
	put(f, PRUNED, LOG_LEAVES, f->leaf + PRUNED, (SEALED - PRUNED) * HASH_LEN);
	assert_int_equal(covered_to(c, &end, 0, NULL), 0);
	covered_free(c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_onward, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_marks, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_other, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_not_whole, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
