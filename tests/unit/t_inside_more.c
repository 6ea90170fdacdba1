/* cofferdam-inside: watching a directory, and snapshots. */
#include "tests/unit/inside_help.h"

#include "common/banned.h"

/* --- watch --------------------------------------------------------------------------- */

/* Waits until the part has told of `words`. */
static void
tells(struct part *p, struct answer *a, const char *words)
{
	for (;;) {
		struct pollfd f = {.fd = p->out, .events = POLLIN};
		AUTO_FREE char *all = buf_dup_z(&a->json);
		char room[4096];
		ssize_t k = 0;

		if (strstr(all, words) != NULL)
			return;
		if (poll(&f, 1, HANGS_MS) <= 0 || (k = read(p->out, room, sizeof(room))) <= 0) {
			(void)kill(p->pid, SIGKILL);
			fail_msg("no %s in:\n%s", words, all);
		}
		assert_int_equal(frame_feed(&a->reader, str_mem(room, (size_t)k), &a->err), 0);
	}
}

static void
watch_begun(struct part *p, struct answer *a)
{
	tells(p, a, "\"op\":\"ready\"");
	put("v/probe", "", 0600);
	tells(p, a, "\"path\":\"v/probe\"");
}

static void
watch_tells_of_changes_below(void **state UNUSED)
{
	const char *const argv[] = {"watch", "v", "tree", NULL};
	AUTO_FREE char *dir = in_top("v"), *sub = in_top("v/s"), *moved = in_top("v/t"),
		       *out = in_top("outside"), *file = in_top("v/t/f"), *here = in_top("v/t/g");
	AUTO_ANSWER struct answer a;
	struct part p;

	assert_int_equal(mkdir(dir, 0700), 0);
	answer_init(&a);
	p = part_start(argv);
	watch_begun(&p, &a);
	assert_int_equal(mkdir(sub, 0700), 0);
	tells(&p, &a, "{\"op\":\"create\",\"path\":\"v/s\"}");
	put("v/s/f", "1", 0600);
	tells(&p, &a, "{\"op\":\"write\",\"path\":\"v/s/f\"}");
	assert_int_equal(rename(sub, moved), 0);
	tells(&p, &a, "{\"op\":\"rename\",\"path\":\"v/s\",\"to\":\"v/t\"}");
	/* The directory is known by its new name. */
	put("v/t/f", "2", 0640);
	tells(&p, &a, "{\"op\":\"chmod\",\"path\":\"v/t/f\"}");
	assert_int_equal(rename(file, out), 0);
	tells(&p, &a, "{\"op\":\"remove\",\"path\":\"v/t/f\"}");
	assert_int_equal(rename(out, here), 0);
	tells(&p, &a, "{\"op\":\"create\",\"path\":\"v/t/g\"}");
	assert_int_equal(unlink(here), 0);
	tells(&p, &a, "{\"op\":\"remove\",\"path\":\"v/t/g\"}");
	put("v/new\nline", "", 0600);
	tells(&p, &a, "\"path\":\"v/new\\nline\"");
	assert_int_equal(kill(p.pid, 0), 0);
	(void)close(p.in); /* the order to end */
	p.in = -1;
	part_ended(&p);
}

static void
watch_that_loses_changes_says_so(void **state UNUSED)
{
	const char *const argv[] = {"watch", "o", "one", NULL};
	AUTO_FREE char *dir = in_top("o");
	AUTO_ANSWER struct answer a;
	struct part p;

	assert_int_equal(mkdir(dir, 0700), 0);
	answer_init(&a);
	p = part_start(argv);
	tells(&p, &a, "\"op\":\"ready\"");
	/* Nobody reads meanwhile: its pipe fills, then the kernel's queue (16384 by default). */
	for (int i = 0; i < 30000; i++) {
		AUTO_FREE char *path = xasprintf("%s/%d", dir, i);

		(void)close(open(path, O_CREAT | O_CLOEXEC, 0600));
	}
	tells(&p, &a, "{\"op\":\"overflow\",\"path\":\"o\"}");
	part_ended(&p);
}

/* --- snapshots ----------------------------------------------------------------------- */

static void
snapshot_comes_back_with_odd_names_and_modes(void **state UNUSED)
{
	AUTO_FREE char *from = in_top("s"), *to = in_top("s2"), *no = in_top("s/no"),
		       *fifo = in_top("s/fifo"), *sparse = in_top("s/sparse"),
		       *link = in_top("s/l"), *there = in_top("s2/no"),
		       *beside = in_top("s2/.cofferdam-restore-new"), *back = in_top("s2/sparse");
	AUTO_BUF struct buf in = BUF((size_t)64 << 20);
	AUTO_ANSWER struct answer a, b, c, d;
	struct stat st;

	assert_int_equal(mkdir(from, 0700), 0);
	assert_int_equal(mkdir(no, 0700), 0);
	put("s/no/secret", "s", 04000);
	put("s/new\nline\xff", "n", 0751);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	put("s/sparse", "", 0600);
	assert_int_equal(truncate(sparse, (off_t)1 << 40), 0);
	assert_int_equal(symlink("/etc/passwd", link), 0);
	assert_int_equal(chmod(no, 0), 0);
	RUN(&a, STR_NONE, "snapshot", from);
	says(&a, 0, "");
	assert_true(a.data.n < 1 << 20);
	/* What was opened up for tar is closed again. */
	assert_int_equal(stat(no, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0);

	assert_int_equal(mkdir(to, 0700), 0);
	put("s2/old", "o", 0);
	framed(&in, buf_str(&a.data));
	RUN(&b, buf_str(&in), "restore", to);
	says(&b, 0, "");
	is("s2/old", NULL);
	is("s2/new\nline\xff", "n");
	assert_int_equal(stat(there, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0);
	assert_int_equal(stat(back, &st), 0);
	assert_int_equal(st.st_size, (off_t)1 << 40);
	assert_true(st.st_blocks < 100);
	assert_int_equal(chmod(there, 0700), 0);
	is("s2/no/secret", "s");

	/* Cut, and not a snapshot: neither changes anything, and nothing of either stays. */
	RUN(&c, str_mem(in.p, in.n / 2), "restore", to);
	says(&c, ERR_PROTOCOL, "input ended");
	is("s2/no/secret", "s");
	is("s2/new\nline\xff", "n");
	buf_reset(&in);
	framed(&in, STR("\0\0\0\0 this is no archive at all, and says nothing of files"));
	RUN(&d, buf_str(&in), "restore", to);
	says(&d, ERR_INVALID, "tar: exit 2; nothing was changed");
	is("s2/no/secret", "s");
	is("s2/new\nline\xff", "n");
	assert_int_equal(access(beside, F_OK), -1);
}

/* As a restore leaves them that is killed in between; then the next one begins. */
static void
cut_off_swap_is_undone_by_the_next(void **state UNUSED)
{
	AUTO_FREE char *dir = in_top("c"), *old = in_top("c/.cofferdam-restore-old"),
		       *in = in_top("c/.cofferdam-restore-in"),
		       *fresh = in_top("c/.cofferdam-restore-new"),
		       *sub = in_top("c/.cofferdam-restore-old/shut"), *back = in_top("c/shut");
	AUTO_ANSWER struct answer a, b, c;
	struct stat st;

	/* The old aside in part, the new still whole. */
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(mkdir(old, 0700), 0);
	assert_int_equal(mkdir(sub, 0), 0);
	assert_int_equal(mkdir(fresh, 0700), 0);
	put("c/here", "old", 0600);
	put("c/.cofferdam-restore-new/here", "new", 0600);
	RUN(&a, STR_NONE, "snapshot", dir);
	says(&a, 0, "");
	is("c/here", "old");
	assert_int_equal(stat(back, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0);
	assert_true(access(old, F_OK) != 0 && access(fresh, F_OK) != 0);

	/* The new in its place in part. */
	assert_int_equal(mkdir(old, 0700), 0);
	assert_int_equal(mkdir(in, 0700), 0);
	put("c/.cofferdam-restore-old/here", "old", 0600);
	put("c/here", "new", 0600);
	put("c/more", "new", 0600);
	RUN(&b, STR_NONE, "snapshot", dir);
	says(&b, 0, "");
	is("c/here", "old");
	is("c/more", NULL);
	assert_true(access(old, F_OK) != 0 && access(in, F_OK) != 0);

	/* All of it in its place: what was there goes. */
	assert_int_equal(mkdir(old, 0700), 0);
	put("c/.cofferdam-restore-old/here", "older", 0600);
	RUN(&c, STR_NONE, "snapshot", dir);
	says(&c, 0, "");
	is("c/here", "old");
	assert_true(access(old, F_OK) != 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(watch_tells_of_changes_below),
	    cmocka_unit_test(watch_that_loses_changes_says_so),
	    cmocka_unit_test(cut_off_swap_is_undone_by_the_next),
	    cmocka_unit_test(snapshot_comes_back_with_odd_names_and_modes),
	};

	return cmocka_run_group_tests(tests, inside_setup, inside_teardown);
}
