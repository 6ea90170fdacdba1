/* What the supervisor reads and writes by itself: the spec, orders, /etc and the names in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/sandbox/super_state.h"
#include "common/xalloc.h"

#include "common/banned.h"

static const struct sandbox_bind bind_one = {"/srv/data", "/opt/data"};
static const struct sandbox_target target_one = {"db", "127.70.0.1", 5432};
static const char *const label_one[] = {"a=b", NULL}, *const env_one[] = {"X=1", NULL};
static const struct sandbox_spec full = {.limits = {.memory_mib = 77, .pids = 9, .linger_s = 5},
    .backend = "runsc",
    .name = "box-1",
    .labels = label_one,
    .image = "/img",
    .workspace = "/w",
    .overlay = true,
    .binds = &bind_one,
    .nbinds = 1,
    .targets = &target_one,
    .ntargets = 1,
    .env = env_one,
    .ca_pem = "PEM",
    .ca_hash = "00c0ffee",
    .keystore = {"\0\1", 2},
    .may_lack = SANDBOX_LAYER_NOTIFY};

static void
supervisor_reads_what_the_caller_wrote(void **state UNUSED)
{
	AUTO_BUF struct buf out = BUF(1 << 20);
	struct super_spec s;
	struct err e = {0};

	sandbox_spec_encode(&full, &out);
	assert_int_equal(super_spec_decode(buf_str(&out), &s, &e), 0);
	assert_int_equal(s.limits.memory_mib, 77);
	assert_int_equal(s.limits.pids, 9);
	assert_int_equal(s.limits.linger_s, 5);
	assert_int_equal(s.limits.wall_s, sandbox_limits_default().wall_s);
	assert_int_equal(s.limits.open_files, sandbox_limits_default().open_files);
	assert_string_equal(s.backend, "runsc");
	assert_string_equal(s.name, "box-1");
	assert_string_equal(s.image, "/img");
	assert_string_equal(s.workspace, "/w");
	assert_true(s.overlay);
	assert_int_equal(s.may_lack, SANDBOX_LAYER_NOTIFY);
	assert_string_equal(s.ca_pem, "PEM");
	assert_string_equal(s.ca_hash, "00c0ffee");
	assert_null(s.roots_pem);
	assert_true(str_eq(s.keystore, full.keystore));
	assert_string_equal(s.labels[0], "a=b");
	assert_null(s.labels[1]);
	assert_string_equal(s.env[0], "X=1");
	assert_string_equal(s.binds[0].inside, "/opt/data");
	assert_string_equal(s.targets[0].address, "127.70.0.1");
	assert_int_equal(s.targets[0].port, 5432);
	super_spec_free(&s);
}

static void
spec_that_is_cut_or_too_long_is_refused_at_each_byte(void **state UNUSED)
{
	AUTO_BUF struct buf out = BUF(1 << 20);
	struct super_spec s;
	struct err e = {0};

	sandbox_spec_encode(&full, &out);
	for (size_t n = 0; n < out.n; n++) {
		AUTO_FREE char *part = str_dup(str_mem(out.p, n));

		assert_int_equal(super_spec_decode(str_mem(part, n), &s, &e), ERR_PROTOCOL);
	}
	buf_u8(&out, 0);
	assert_int_equal(super_spec_decode(buf_str(&out), &s, &e), ERR_PROTOCOL);
	out.n--;
	out.p[0] = CALL_VERSION + 1;
	assert_int_equal(super_spec_decode(buf_str(&out), &s, &e), ERR_PROTOCOL);
	assert_non_null(strstr(e.msg, "version"));
}

static void
name_that_could_be_another_file_is_refused(void **state UNUSED)
{
	static const char *const bad[] = {
	    "../x", "a/b", "-x", "A", "a.b", "a b", "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddX"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO_BUF struct buf out = BUF(1 << 20);
		struct super_spec s;
		struct err e = {0};

		sandbox_spec_encode(&(struct sandbox_spec){.name = bad[i]}, &out);
		assert_int_equal(super_spec_decode(buf_str(&out), &s, &e), ERR_INVALID);
	}
}

/* --- orders
 * --------------------------------------------------------------------------------------- */

static void
order_becomes_the_frame_of_pid_1(void **state UNUSED)
{
	char *argv[] = {(char[]){"a"}, (char[]){"b\"c"}, NULL};
	const char *env[] = {"X=1", "Y=2", NULL};
	const struct sandbox_exec x = {
	    .argv = argv, .cwd = "/tmp", .tty = true, .rows = 3, .cols = 4, .pipe_stdin = true};
	static const char want[] = "/tmp\0a\0b\"c\0X=1\0Y=2";
	AUTO_BUF struct buf b = BUF(1 << 20);
	struct super_order o;
	struct inside_spawn h;
	struct err e = {0};

	sandbox_exec_encode(&x, env, &b);
	assert_int_equal(super_order_make(buf_str(&b), 7, &o, &e), 0);
	memcpy(&h, o.frame.p, sizeof(h));
	assert_int_equal(h.flags, INSIDE_TTY | INSIDE_STDIN | INSIDE_MERGE);
	assert_true(h.argc == 2 && h.envc == 2 && h.code_size == 0 && h.rows == 3 && h.cols == 4);
	assert_true(str_eq(
	    str_mem(o.frame.p + sizeof(h), o.frame.n - sizeof(h)), str_mem(want, sizeof(want))));
	assert_string_equal(o.argv, "[\"a\",\"b\\\"c\"]");
	assert_false(o.tied);
	super_order_free(&o);
	/* Flags: tied is the supervisor's alone, one that is not known is refused. */
	b.p[0] |= 32;
	assert_int_equal(super_order_make(buf_str(&b), 7, &o, &e), 0);
	memcpy(&h, o.frame.p, sizeof(h));
	assert_true(o.tied && h.flags == (INSIDE_TTY | INSIDE_STDIN | INSIDE_MERGE));
	super_order_free(&o);
	b.p[0] |= 64;
	assert_int_equal(super_order_make(buf_str(&b), 7, &o, &e), ERR_PROTOCOL);
	for (size_t n = 0; n < b.n; n++)
		assert_int_equal(super_order_make(str_mem(b.p, n), 7, &o, &e), ERR_PROTOCOL);
}

static void
code_follows_with_the_name_of_its_file(void **state UNUSED)
{
	const char *none[] = {NULL};
	struct sandbox_exec x = {.language = "python", .code = STR("print(1)")};
	AUTO_BUF struct buf b = BUF(1 << 20);
	struct super_order o;
	struct err e = {0};

	sandbox_exec_encode(&x, none, &b);
	assert_int_equal(super_order_make(buf_str(&b), 7, &o, &e), 0);
	assert_true(str_has_suffix(buf_str(&o.frame), "print(1)"));
	assert_non_null(memmem(o.frame.p, o.frame.n, "/7.py", 6));
	super_order_free(&o);
}

static void
long_arguments_are_cut_in_lists_alone(void **state UNUSED)
{
	AUTO_FREE char *much = xcalloc(1, 100001);
	char *argv[] = {much, much, NULL};
	const char *none[] = {NULL};
	AUTO_BUF struct buf b = BUF(1 << 20);
	struct super_order o;
	struct err e = {0};

	memset(much, '\1', 100000);
	sandbox_exec_encode(&(struct sandbox_exec){.argv = argv}, none, &b);
	assert_int_equal(super_order_make(buf_str(&b), 1, &o, &e), 0);
	assert_true(o.frame.n > 200000 && strlen(o.argv) == 512 * 6 + 4);
	super_order_free(&o);
}

/* --- /etc
 * ------------------------------------------------------------------------------------------ */

struct seen {
	char text[65536];
	size_t n;
};

static void
note(struct seen *s, const char *path, const char *what, struct str more)
{
	s->n += (size_t)snprintf(
	    s->text + s->n, sizeof(s->text) - s->n, "%s%s%.*s\n", path, what, STR_ARG(more));
}

static int
on_file(void *arg, const char *path, struct str content, struct err *err UNUSED)
{
	note(arg, path, content.p == NULL ? "/" : "=", content.p == NULL ? STR_NONE : content);
	return 0;
}

static int
on_link(void *arg, const char *path, const char *to, struct err *err UNUSED)
{
	note(arg, path, "->", str_z(to));
	return 0;
}

static int
on_file_fail(void *arg, const char *path, struct str content UNUSED, struct err *err)
{
	(*(int *)arg)++;
	return strcmp(path, "etc/hosts") == 0 ? err_set(err, ERR_DISK_FULL, "full") : 0;
}

static void
etc_has_users_names_and_certificates(void **state UNUSED)
{
	AUTO_FREE struct seen *s = xcalloc(1, sizeof(*s));
	struct super_spec spec = {.ca_pem = (char[]){"CA"},
	    .ca_hash = (char[]){"00c0ffee"},
	    .roots_pem = (char[]){"ROOTS"},
	    .keystore = STR("KS"),
	    .ntargets = 1};
	struct super_spec empty = {0};
	struct err e = {0};
	int n = 0;

	spec.targets[0] = (struct spec_target){(char[]){"db"}, (char[]){"127.70.0.1"}, 1};
	assert_int_equal(backend_etc(&spec, on_file, on_link, s, &e), 0);
	assert_non_null(strstr(s->text, "etc/passwd=root:x:0:0"));
	assert_non_null(strstr(s->text, "127.70.0.1 db\n"));
	assert_non_null(strstr(s->text, "etc/ssl/certs/ca-certificates.crt=CA\nROOTS\n"));
	assert_non_null(strstr(s->text, "etc/ssl/certs/java/cacerts=KS\n"));
	assert_non_null(strstr(s->text, "etc/ssl/certs/00c0ffee.0->/etc/cofferdam/ca.pem\n"));
	assert_non_null(strstr(s->text, "etc/ssl/cert.pem->certs/ca-certificates.crt\n"));
	assert_true(strstr(s->text, "etc/ssl/certs/\n") < strstr(s->text, "etc/ssl/certs/java/\n"));
	/* Without certificates the files are there, and empty; not directories. */
	s->n = 0;
	assert_int_equal(backend_etc(&empty, on_file, on_link, s, &e), 0);
	assert_non_null(strstr(s->text, "etc/cofferdam/ca.pem=\n"));
	/* The first error is the last call. */
	assert_int_equal(backend_etc(&empty, on_file_fail, on_link, &n, &e), ERR_DISK_FULL);
	assert_int_equal(n, 15);
}

static void
shared_name_stands_once_with_each_address(void **state UNUSED)
{
	char db[] = "db", one[] = "127.7.0.1", two[] = "127.7.0.2";
	const struct spec_target t[] = {{db, one, 1}, {db, one, 2}, {NULL, two, 1}, {db, two, 2}};
	AUTO_BUF struct buf b = BUF(1000);

	backend_hosts_text(t, ARRAY_LEN(t), &b);
	assert_true(str_eqz(buf_str(&b),
	    "127.0.0.1 localhost sandbox\n::1 localhost\n127.7.0.1 db\n127.7.0.2 db\n"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(supervisor_reads_what_the_caller_wrote),
	    cmocka_unit_test(spec_that_is_cut_or_too_long_is_refused_at_each_byte),
	    cmocka_unit_test(name_that_could_be_another_file_is_refused),
	    cmocka_unit_test(order_becomes_the_frame_of_pid_1),
	    cmocka_unit_test(code_follows_with_the_name_of_its_file),
	    cmocka_unit_test(long_arguments_are_cut_in_lists_alone),
	    cmocka_unit_test(etc_has_users_names_and_certificates),
	    cmocka_unit_test(shared_name_stands_once_with_each_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
