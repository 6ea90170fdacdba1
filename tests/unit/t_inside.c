/* cofferdam-inside, each part as the process it is, with the files that could fool or hold it. */
#include "tests/unit/inside_help.h"

#include "common/banned.h"

/* --- what looks ---------------------------------------------------------------------- */

static void
file_is_read_up_to_the_limit_and_not_beyond(void **state UNUSED)
{
	AUTO_ANSWER struct answer a, b, c;

	put("hello", "hello\n\0Z", 0644);
	RUN(&a, STR_NONE, "read", "hello", "6");
	says(&a, 0, "");
	assert_true(str_eqz(buf_str(&a.data), "hello\n"));
	RUN(&b, STR_NONE, "read", "hello", "5");
	says(&b, ERR_TOO_LARGE, "larger than the limit of 5 bytes");
	assert_int_equal(b.data.n, 0);
	RUN(&c, STR_NONE, "read", "/proc/self/status", "20"); /* its size is 0 */
	says(&c, ERR_TOO_LARGE, "larger than the limit of 20 bytes");
}

static void
content_that_looks_like_frames_is_content(void **state UNUSED)
{
	static const char evil[] = "Z\0\0\0\10\0\0\0\0\0\0\0\0E\0\0\0\4abcd";
	AUTO_FREE char *path = in_top("evil");
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	AUTO_ANSWER struct answer a;

	assert_int_equal(write(fd, evil, sizeof(evil)), sizeof(evil));
	RUN(&a, STR_NONE, "read", "evil", "1000");
	says(&a, 0, "");
	assert_int_equal(a.data.n, sizeof(evil));
	assert_memory_equal(a.data.p, evil, sizeof(evil));
}

static void
what_is_no_regular_file_is_named_and_not_opened(void **state UNUSED)
{
	AUTO_FREE char *fifo = in_top("fifo"), *link = in_top("loop"), *sparse = in_top("sparse");
	AUTO_ANSWER struct answer a, b, c, d, e, f;

	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(symlink("loop", link), 0);
	put("sparse", "", 0600);
	assert_int_equal(truncate(sparse, (off_t)1 << 43), 0);
	RUN(&a, STR_NONE, "read", "fifo", "10");
	says(&a, ERR_INVALID, "it is a FIFO, not a regular file");
	RUN(&b, STR_NONE, "read", "/dev/zero", "10");
	says(&b, ERR_INVALID, "it is a device");
	RUN(&c, STR_NONE, "read", ".", "10");
	says(&c, ERR_INVALID, "it is a directory");
	RUN(&d, STR_NONE, "read", "loop", "10");
	says(&d, ERR_INVALID, "read loop");
	RUN(&e, STR_NONE, "read", "sparse", "1000000");
	says(&e, ERR_TOO_LARGE, "larger than the limit");
	RUN(&f, STR_NONE, "read", "nothing", "10");
	says(&f, ERR_NOT_FOUND, "read nothing");
}

static void
list_shows_odd_names_kinds_and_depth(void **state UNUSED)
{
	AUTO_FREE char *dir = in_top("l"), *deep = in_top("l/d"), *link = in_top("l/k"),
		       *big = in_top("l/big");
	struct timeval old[2] = {{.tv_sec = -5}, {.tv_sec = -5}};
	AUTO_ANSWER struct answer a, b, c;

	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(mkdir(deep, 0750), 0);
	put("l/d/x", "1", 0640);
	put("l/new\nline", "", 0600);
	put("l/\xff\xfe", "", 0600);
	put("l/big", "", 0600);
	assert_int_equal(truncate(big, (off_t)1 << 43), 0);
	assert_int_equal(utimes(big, old), 0);
	assert_int_equal(symlink("d/x", link), 0);
	RUN(&a, STR_NONE, "list", "l", "1");
	says(&a, 0, "");
	buf_put_c(&a.json, '\0');
	assert_non_null(
	    strstr((char *)a.json.p, "{\"mode\":384,\"mtime_ms\":-5000,\"name\":\"big\",\"path\":"
				     "\"l/big\",\"size\":8796093022208,"
				     "\"type\":\"file\"}"));
	assert_non_null(strstr((char *)a.json.p, "\"name\":\"new\\nline\""));
	assert_non_null(strstr((char *)a.json.p, "{\"bytes\":\"6c2ffffe\","));
	assert_non_null(strstr((char *)a.json.p, "\"target\":\"d/x\",\"type\":\"link\""));
	assert_null(strstr((char *)a.json.p, "\"l/d/x\""));
	RUN(&b, STR_NONE, "list", "l/", "2");
	buf_put_c(&b.json, '\0');
	assert_non_null(strstr((char *)b.json.p, "\"path\":\"l/d/x\""));
	RUN(&c, STR_NONE, "list", "l/k", "1");
	says(&c, ERR_INVALID, "not a directory");
}

static void
list_ends_at_its_limits(void **state UNUSED)
{
	AUTO_FREE char *dir = in_top("many");
	AUTO_ANSWER struct answer a, b, c;

	assert_int_equal(mkdir(dir, 0700), 0);
	for (unsigned i = 0; i < FRAME_ENTRIES_MAX; i++) {
		AUTO_FREE char *name = xasprintf("many/%u", i);

		put(name, "", 0600);
	}
	RUN(&a, STR_NONE, "list", "many", "1");
	says(&a, 0, "");
	put("many/x", "", 0600);
	RUN(&b, STR_NONE, "list", "many", "1");
	says(&b, ERR_TOO_LARGE, "more than 10000 entries");
	RUN(&c, STR_NONE, "list", "many", "129");
	says(&c, ERR_INVALID, "depth must be from 1 to 128, is 129");
}

/* --- what changes -------------------------------------------------------------------- */

static void
write_makes_parents_and_appears_whole(void **state UNUSED)
{
	AUTO_BUF struct buf in = BUF((size_t)1 << 20);
	AUTO_ANSWER struct answer a, b, c;

	framed(&in, STR("hello"));
	RUN(&a, buf_str(&in), "write", "w/a/b", "384");
	says(&a, 0, "");
	is("w/a/b", "hello");
	RUN(&b, buf_str(&in), "write", "w/a", "384");
	says(&b, ERR_INVALID, "it is a directory");
	RUN(&c, buf_str(&in), "write", "w/a/b/c", "384");
	says(&c, ERR_NOT_FOUND, "Not a directory");
}

static void
write_that_is_cut_changes_nothing(void **state UNUSED)
{
	AUTO_BUF struct buf in = BUF((size_t)1 << 20), wrong = BUF(1000);
	AUTO_ANSWER struct answer a, b, c, list;

	put("w2", "before", 0600);
	framed(&in, STR("after!"));
	RUN(&a, str_mem(in.p, in.n - 3), "write", "w2", "384");
	says(&a, ERR_PROTOCOL, "input ended before its last frame");
	is("w2", "before");
	frame_put(&wrong, FRAME_DATA, STR("after!"));
	buf_put(&wrong, "Z\0\0\0\10\0\0\0\0\0\0\0\7", 13);
	RUN(&b, buf_str(&wrong), "write", "w2", "384");
	says(&b, ERR_PROTOCOL, "bytes are missing");
	is("w2", "before");
	RUN(&c, STR("X\0\0\0\1a"), "write", "w2", "384");
	says(&c, ERR_PROTOCOL, "frame of type");
	RUN(&list, STR_NONE, "list", ".", "1");
	buf_put_c(&list.json, '\0');
	assert_null(strstr((char *)list.json.p, ".cofferdam-"));
}

static void
write_replaces_a_link_and_not_what_it_points_to(void **state UNUSED)
{
	AUTO_FREE char *link = in_top("w3");
	AUTO_BUF struct buf in = BUF((size_t)1 << 20);
	AUTO_ANSWER struct answer a;

	put("w3-target", "kept", 0600);
	assert_int_equal(symlink("w3-target", link), 0);
	framed(&in, STR("new"));
	RUN(&a, buf_str(&in), "write", "w3", "420");
	says(&a, 0, "");
	is("w3-target", "kept");
	is("w3", "new");
}

static void
rename_and_remove_do_what_they_say(void **state UNUSED)
{
	AUTO_ANSWER struct answer a, b, c, d, e;

	put("r", "r", 0600);
	RUN(&a, STR_NONE, "rename", "r", "q/r2");
	says(&a, 0, "");
	is("q/r2", "r");
	RUN(&b, STR_NONE, "remove", "q", "one");
	says(&b, ERR_EXISTS, "not empty");
	RUN(&c, STR_NONE, "remove", "q", "tree");
	says(&c, 0, "");
	is("q/r2", NULL);
	RUN(&d, STR_NONE, "remove", "q", "tree");
	says(&d, ERR_NOT_FOUND, "remove q");
	RUN(&e, STR_NONE, "rename", "r", "q");
	says(&e, ERR_NOT_FOUND, "rename r");
}

static void
tree_of_any_depth_and_mode_is_removed(void **state UNUSED)
{
	AUTO_FREE char *path = in_top("deep");
	AUTO_FD int at = -1;
	AUTO_ANSWER struct answer a;

	assert_int_equal(mkdir(path, 0700), 0);
	at = open(path, O_DIRECTORY | O_CLOEXEC);
	/* Far beyond the longest path and the most descriptors. */
	for (int i = 0; i < 1500; i++) {
		int next;

		assert_int_equal(mkdirat(at, "d", 0700), 0);
		(void)close(openat(at, "f", O_CREAT | O_CLOEXEC, 0));
		next = openat(at, "d", O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(fchmod(at, i % 3 == 0 ? 0 : 0500), 0);
		(void)close(at);
		at = next;
	}
	RUN(&a, STR_NONE, "remove", "deep", "tree");
	says(&a, 0, "");
	assert_int_equal(access(path, F_OK), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(file_is_read_up_to_the_limit_and_not_beyond),
	    cmocka_unit_test(content_that_looks_like_frames_is_content),
	    cmocka_unit_test(what_is_no_regular_file_is_named_and_not_opened),
	    cmocka_unit_test(list_shows_odd_names_kinds_and_depth),
	    cmocka_unit_test(list_ends_at_its_limits),
	    cmocka_unit_test(write_makes_parents_and_appears_whole),
	    cmocka_unit_test(write_that_is_cut_changes_nothing),
	    cmocka_unit_test(write_replaces_a_link_and_not_what_it_points_to),
	    cmocka_unit_test(rename_and_remove_do_what_they_say),
	    cmocka_unit_test(tree_of_any_depth_and_mode_is_removed),
	};

	return cmocka_run_group_tests(tests, inside_setup, inside_teardown);
}
