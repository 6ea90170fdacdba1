/* What a sandbox may be asked to be; its encoding; how output is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/sandbox/call.h"
#include "agent/sandbox/sandbox.h"
#include "agent/sandbox/sandbox_result.h"
#include "common/xalloc.h"

#include "common/banned.h"

static void
spec_is(const struct sandbox_spec *s, int want, const char *why)
{
	struct err e = {0};
	int rc = sandbox_spec_check(s, &e);

	if (rc != want || (rc != 0 && strstr(e.msg, why) == NULL))
		fail_msg("%d \"%s\", wanted %d \"%s\"", rc, e.msg, want, why);
}

static void
empty_spec_is_the_closed_sandbox(void **state UNUSED)
{
	spec_is(&(struct sandbox_spec){0}, 0, "");
}

static void
limits_out_of_range_are_refused_by_name(void **state UNUSED)
{
	spec_is(&(struct sandbox_spec){.limits.memory_mib = 16}, 0, "");
	spec_is(&(struct sandbox_spec){.limits.memory_mib = 15}, ERR_INVALID,
	    "limit memory must be from 16 to 1048576, is 15");
	spec_is(&(struct sandbox_spec){.limits.wall_s = 86401}, ERR_INVALID, "limit wall");
	spec_is(&(struct sandbox_spec){.limits.pids = 1}, ERR_INVALID, "limit pids");
	spec_is(&(struct sandbox_spec){.limits.cpu_percent = 6401}, ERR_INVALID, "limit cpu");
}

static void
workspace_must_be_a_plain_path_of_its_own(void **state UNUSED)
{
	static const char *const bad[] = {"", "x", "/", "/etc", "/a/../b", "/a/./b", "/a//b", "/a/",
	    "/root", "/usr", "/tmp", "/a\nb", "/a/.."};

	spec_is(&(struct sandbox_spec){.workspace = "/home/a/work"}, 0, "");
	spec_is(&(struct sandbox_spec){.workspace = "/a/..b"}, 0, "");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		spec_is(&(struct sandbox_spec){.workspace = bad[i]}, ERR_INVALID, "workspace");
}

static void
bind_cannot_cover_what_the_sandbox_builds(void **state UNUSED)
{
	static const char *const bad[] = {"/usr", "/usr/local", "/etc/x", "/work", "/tmp/x",
	    "/proc/self", "/dev/x", "/", "opt", "/opt/../etc", "/lib64/x", "/var/x"};
	struct sandbox_bind b[2] = {{"/srv/data", "/opt/data"}, {"/srv/data", "/opt/more"}};

	spec_is(&(struct sandbox_spec){.binds = b, .nbinds = 2}, 0, "");
	b[1].inside = "/opt/data";
	spec_is(&(struct sandbox_spec){.binds = b, .nbinds = 2}, ERR_INVALID, "given twice");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		b[0].inside = bad[i];
		spec_is(
		    &(struct sandbox_spec){.binds = b, .nbinds = 1}, ERR_INVALID, "destination");
	}
	b[0] = (struct sandbox_bind){"../x", "/opt/x"};
	spec_is(&(struct sandbox_spec){.binds = b, .nbinds = 1}, ERR_INVALID, "source");
}

static void
target_needs_a_loopback_address_of_its_own(void **state UNUSED)
{
	struct sandbox_target t[2] = {
	    {"db.internal", "127.70.0.1", 5432}, {"db2", "127.70.0.2", 5432}};
	static const char *const addresses[] = {
	    "127.0.0.1", "128.0.0.1", "10.0.0.1", "0.0.0.0", "127.1", "::1", "", "127.0.0.1x"};
	static const char *const hosts[] = {
	    "localhost", "a b", "a\nb 1.2.3.4", "x#", ".x", "x.", "-x"};

	spec_is(&(struct sandbox_spec){.targets = t, .ntargets = 2}, 0, "");
	t[1].address = "127.70.0.1";
	spec_is(&(struct sandbox_spec){.targets = t, .ntargets = 2}, ERR_INVALID, "share");
	t[1].port = 5433;
	spec_is(&(struct sandbox_spec){.targets = t, .ntargets = 2}, 0, "");
	t[0].port = 0;
	spec_is(&(struct sandbox_spec){.targets = t, .ntargets = 1}, ERR_INVALID, "port 0");
	for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
		t[0] = (struct sandbox_target){"db", addresses[i], 5432};
		spec_is(
		    &(struct sandbox_spec){.targets = t, .ntargets = 1}, ERR_INVALID, "address");
	}
	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		t[0] = (struct sandbox_target){hosts[i], "127.70.0.1", 5432};
		spec_is(&(struct sandbox_spec){.targets = t, .ntargets = 1}, ERR_INVALID, "host");
	}
}

static void
variable_must_be_name_and_value(void **state UNUSED)
{
	const char *env[] = {"A=b", "PG_HOST2=", NULL};

	spec_is(&(struct sandbox_spec){.env = env}, 0, "");
	env[1] = "NOVALUE";
	spec_is(&(struct sandbox_spec){.env = env}, ERR_INVALID, "variable 2");
	env[1] = "=x";
	spec_is(&(struct sandbox_spec){.env = env}, ERR_INVALID, "variable 2");
	env[1] = "A-B=x";
	spec_is(&(struct sandbox_spec){.env = env}, ERR_INVALID, "A-B");
}

static void
a_ca_hash_is_eight_digits_and_certificates_have_a_limit(void **state UNUSED)
{
	static const char *const bad[] = {"", "0123456", "../../x", "0123456X", "012345678"};
	AUTO_FREE char *big = xcalloc(1, SANDBOX_TRUST_MAX + 2);

	spec_is(&(struct sandbox_spec){.ca_hash = "01234cde"}, 0, "");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		spec_is(&(struct sandbox_spec){.ca_hash = bad[i]}, ERR_INVALID, "8 hexadecimal");
	memset(big, 'x', SANDBOX_TRUST_MAX);
	spec_is(&(struct sandbox_spec){.roots_pem = big}, 0, "");
	big[SANDBOX_TRUST_MAX] = 'x';
	spec_is(&(struct sandbox_spec){.roots_pem = big}, ERR_TOO_LARGE, "certificates");
	spec_is(&(struct sandbox_spec){.keystore = {big, SANDBOX_TRUST_MAX + 1}}, ERR_TOO_LARGE,
	    "certificates");
}

static void
a_target_without_a_name_is_an_address_alone(void **state UNUSED)
{
	struct sandbox_target t = {"", "127.70.0.1", 443};

	spec_is(&(struct sandbox_spec){.targets = &t, .ntargets = 1}, 0, "");
	t.host = "::1";
	spec_is(&(struct sandbox_spec){.targets = &t, .ntargets = 1}, ERR_INVALID, "::1");
}

static void
a_name_is_a_file_name_that_needs_no_quotes(void **state UNUSED)
{
	static const char *const bad[] = {"", "-a", "A", "a/b", "../x", "a.b", "a b", "a\n",
	    "\xc3\xa4", "a1234567890123456789012345678901234567890"};

	spec_is(&(struct sandbox_spec){.name = "a-1"}, 0, "");
	spec_is(&(struct sandbox_spec){.name = "0"}, 0, "");
	spec_is(&(struct sandbox_spec){.name = "a123456789012345678901234567890123456789"}, 0, "");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		spec_is(&(struct sandbox_spec){.name = bad[i]}, ERR_INVALID, "name");
}

static void
a_label_is_one_line_of_key_and_value(void **state UNUSED)
{
	static const char *const bad[] = {
	    "", "a", "=b", "A=b", "a b=c", "a=b\nc", "a=\x7f", "a=\xff", "a=\x1b[0m"};
	const char *labels[SANDBOX_LABELS_MAX + 2] = {
	    "owner=Ola Nordmann, \xc3\xa5", "a.b-c/d_2=", NULL};

	spec_is(&(struct sandbox_spec){.labels = labels}, 0, "");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		labels[1] = bad[i];
		spec_is(&(struct sandbox_spec){.labels = labels}, ERR_INVALID, "label");
	}
	for (size_t i = 0; i < SANDBOX_LABELS_MAX; i++)
		labels[i] = "a=b";
	spec_is(&(struct sandbox_spec){.labels = labels}, 0, "");
	labels[SANDBOX_LABELS_MAX] = "a=b";
	spec_is(&(struct sandbox_spec){.labels = labels}, ERR_TOO_LARGE, "labels");
}

static void
back_end_layers_image_and_overlay_are_known_or_refused(void **state UNUSED)
{
	static const char *const good[] = {"native", "crun", "runc", "runsc"};
	static const char *const bad[] = {"", "docker", "Native", "../crun"};

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		spec_is(&(struct sandbox_spec){.backend = good[i]}, 0, "");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		spec_is(&(struct sandbox_spec){.backend = bad[i]}, ERR_INVALID, "back end");
	spec_is(&(struct sandbox_spec){.may_lack = 15}, 0, "");
	spec_is(&(struct sandbox_spec){.may_lack = 16}, ERR_INVALID, "layers");
	spec_is(&(struct sandbox_spec){.image = "/srv/image"}, 0, "");
	spec_is(&(struct sandbox_spec){.image = "image"}, ERR_INVALID, "image");
	spec_is(&(struct sandbox_spec){.image = "/"}, ERR_INVALID, "image");
	spec_is(&(struct sandbox_spec){.overlay = true}, ERR_INVALID, "overlay");
	spec_is(&(struct sandbox_spec){.overlay = true, .workspace = "/home/a/work"}, 0, "");
}

/* The layout that super_spec.c reads, byte for byte. */
static void
the_encoding_is_as_documented(void **state UNUSED)
{
	const struct sandbox_bind b = {"/srv/data", "/opt/data"};
	const struct sandbox_target t = {"db", "127.70.0.1", 5432};
	const char *labels[] = {"a=b", NULL}, *env[] = {"X=1", NULL};
	struct sandbox_spec s = {.limits = {.memory_mib = 77, .pids = 9},
	    .name = "box",
	    .overlay = true,
	    .may_lack = SANDBOX_LAYER_FREEZER,
	    .labels = labels,
	    .env = env,
	    .binds = &b,
	    .nbinds = 1,
	    .targets = &t,
	    .ntargets = 1,
	    .ca_hash = "00c0ffee",
	    .keystore = {"\0\1", 2},
	    .workspace = "/w"};
	static const uint32_t limits[] = {3600, 200, 77, 9, 64, 512, 8192, 600};
	AUTO_BUF struct buf out = BUF(1 << 20), want = BUF(1 << 20);

	sandbox_spec_encode(&s, &out);
	buf_u8(&want, CALL_VERSION);
	buf_u8(&want, 1);
	buf_u32(&want, 4);
	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		buf_u32(&want, limits[i]);
	buf_lz(&want, "");
	buf_lz(&want, "box");
	buf_lz(&want, "");
	buf_lz(&want, "/w");
	buf_lz(&want, "");
	buf_lz(&want, "00c0ffee");
	buf_lz(&want, "");
	buf_lstr(&want, s.keystore);
	buf_u32(&want, 1);
	buf_lz(&want, "a=b");
	buf_u32(&want, 1);
	buf_lz(&want, "/srv/data");
	buf_lz(&want, "/opt/data");
	buf_u32(&want, 1);
	buf_lz(&want, "db");
	buf_lz(&want, "127.70.0.1");
	buf_u16(&want, 5432);
	buf_u32(&want, 1);
	buf_lz(&want, "X=1");
	assert_true(str_eq(buf_str(&out), buf_str(&want)));
	/* An unnamed one needs no environment: its only caller has it. */
	buf_reset(&out);
	s.name = NULL;
	sandbox_spec_encode(&s, &out);
	assert_int_equal(out.n, want.n - strlen("box") - 4 - strlen("X=1"));
}

static void
feed(struct sandbox_result *r, const char *text, size_t piece, size_t head, size_t tail)
{
	size_t n = strlen(text);

	sandbox_result_init(r, head, tail);
	for (size_t i = 0; i < n; i += piece)
		sandbox_result_add(r, str_mem(text + i, n - i < piece ? n - i : piece), head, tail);
	sandbox_result_end(r, tail);
}

static void
output_is_cut_to_its_begin_and_end_with_the_count(void **state UNUSED)
{
	static const size_t pieces[] = {1, 3, 7, 100};

	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		AUTO_BUF struct buf out = BUF(1000);
		struct sandbox_result r;

		feed(&r, "0123456789abcdefghij", pieces[i], 4, 3);
		assert_int_equal(r.total, 20);
		sandbox_result_text(&r, &out);
		assert_true(str_eqz(buf_str(&out), "0123\n[... 13 of 20 bytes left out ...]\nhij"));
		sandbox_result_free(&r);
		buf_reset(&out);
		feed(&r, "0123456", pieces[i], 4, 3);
		sandbox_result_text(&r, &out);
		assert_true(str_eqz(buf_str(&out), "0123456"));
		sandbox_result_free(&r);
	}
}

static void
causes_of_an_end_are_told_apart_in_words(void **state UNUSED)
{
	static const struct {
		enum sandbox_cause cause;
		int value;
		const char *words, *name;
	} rows[] = {{SANDBOX_EXITED, 137, "exit 137", "exited"},
	    {SANDBOX_SIGNALLED, 9, "signal 9 (Killed)", "signalled"},
	    {SANDBOX_TIMEOUT, 0, "time limit", "timeout"},
	    {SANDBOX_MEMORY, 9, "memory limit", "memory"},
	    {SANDBOX_OUTPUT, 0, "output limit", "output"},
	    {SANDBOX_UNAVAILABLE, 0, "went away", "sandbox_unavailable"}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct sandbox_result r = {.cause = rows[i].cause, .value = rows[i].value};
		AUTO_FREE char *words = sandbox_result_words(&r);

		assert_non_null(strstr(words, rows[i].words));
		assert_string_equal(sandbox_cause_name(rows[i].cause), rows[i].name);
	}
}

static void
unknown_language_has_no_interpreter(void **state UNUSED)
{
	assert_string_equal(sandbox_interpreter("bash", NULL), "/bin/bash");
	assert_string_equal(sandbox_interpreter("python", NULL), "/usr/bin/python3");
	assert_null(sandbox_interpreter("cobol", NULL));
	assert_null(sandbox_interpreter("", NULL));
	assert_null(sandbox_interpreter("/bin/bash", NULL));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(empty_spec_is_the_closed_sandbox),
	    cmocka_unit_test(limits_out_of_range_are_refused_by_name),
	    cmocka_unit_test(workspace_must_be_a_plain_path_of_its_own),
	    cmocka_unit_test(bind_cannot_cover_what_the_sandbox_builds),
	    cmocka_unit_test(target_needs_a_loopback_address_of_its_own),
	    cmocka_unit_test(variable_must_be_name_and_value),
	    cmocka_unit_test(a_ca_hash_is_eight_digits_and_certificates_have_a_limit),
	    cmocka_unit_test(a_target_without_a_name_is_an_address_alone),
	    cmocka_unit_test(a_name_is_a_file_name_that_needs_no_quotes),
	    cmocka_unit_test(a_label_is_one_line_of_key_and_value),
	    cmocka_unit_test(back_end_layers_image_and_overlay_are_known_or_refused),
	    cmocka_unit_test(the_encoding_is_as_documented),
	    cmocka_unit_test(output_is_cut_to_its_begin_and_end_with_the_count),
	    cmocka_unit_test(causes_of_an_end_are_told_apart_in_words),
	    cmocka_unit_test(unknown_language_has_no_interpreter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
