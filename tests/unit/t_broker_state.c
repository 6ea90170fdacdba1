/*
 * Unit tests of the state directory and broker.json: what the broker refuses to start on,
 * and that the message names the file, what it has and what it must have.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/broker_config.h"
#include "broker/broker_state.h"

#include "common/banned.h"

static char dir[64];
static const struct broker_ids as_ourselves;

static const char *
at(const char *path)
{
	static char full[2][512];
	static int turn;

	turn = !turn;
	(void)snprintf(full[turn], sizeof(full[turn]), "%s/%s", dir, path);
	return full[turn];
}

static void
put(const char *path, const char *text, mode_t mode)
{
	int fd = open(at(path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)fchmod(fd, mode);
	(void)close(fd);
}

static int
setup(void **state UNUSED)
{
	static const char *const dirs[] = {
	    "keys", "keys/log", "keys/ca", "keys/blob", "log", "log/seg", "policy", "run"};
	static const char *const files[] = {
	    "vault", "keys/vault.key", "keys/log/seed", "keys/ca/key.pem", "keys/blob/r-1.key"};

	(void)snprintf(dir, sizeof(dir), "/tmp/t_state.XXXXXX");
	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		assert_int_equal(mkdir(at(dirs[i]), 0700), 0);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		put(files[i], "secret", 0600);
	put("VERSION", "1\n", 0644);
	put("broker.json", "{\"schema\":\"cofferdam-broker/1\",\"origin\":\"example.org/log\"}",
	    0644);
	put("keys/log/vkey", "x", 0644);
	put("keys/ca/cert.pem", "x", 0644);
	put("log/seg/0", "x", 0600);
	return 0;
}

static int
teardown(void **state UNUSED)
{
	static const char *const paths[] = {"VERSION", "broker.json", "vault", "keys/vault.key",
	    "keys/log/seed", "keys/log/vkey", "keys/ca/key.pem", "keys/ca/cert.pem",
	    "keys/blob/r-1.key", "keys/blob", "keys/ca", "keys/log", "keys", "log/seg/0", "log/seg",
	    "log/link", "log", "policy/active",
	    "policy/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.json",
	    "policy/44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a.json",
	    "policy", "run/LOCK", "run/broker.pid", "run", "courier", ""};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (remove(at(paths[i])) != 0 && errno != ENOENT)
			fail_msg("%s: %s", at(paths[i]), strerror(errno));
	return 0;
}

/* 0, or the code; err tells. */
static int
try_state(const struct broker_ids *ids, struct err *err)
{
	struct broker_state s;
	int rc = broker_state_open(dir, &s, err);

	if (rc != 0)
		return rc;
	rc = broker_state_check(&s, ids, err);
	broker_state_close(&s);
	return rc;
}

static void
assert_refused(const char *text)
{
	struct err err = {0};

	assert_int_equal(try_state(&as_ourselves, &err), ERR_CONFIG);
	if (strstr(err.msg, text) == NULL)
		fail_msg("message is \"%s\", wanted \"%s\"", err.msg, text);
	/* Names the place as well. */
	assert_non_null(strstr(err.msg, dir));
}

static void
assert_accepted(void)
{
	struct err err = {0};

	if (try_state(&as_ourselves, &err) != 0)
		fail_msg("refused: %s", err.msg);
}

static void
a_closed_directory_of_this_version_is_accepted(void **state UNUSED)
{
	assert_accepted();
}

static void
a_missing_run_or_courier_directory_is_made(void **state UNUSED)
{
	struct stat st;

	assert_int_equal(rmdir(at("run")), 0);
	assert_accepted();
	assert_int_equal(stat(at("run"), &st), 0);
	assert_int_equal(stat(at("courier"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
}

static void
a_looser_mode_is_refused_and_a_closer_one_is_not(void **state UNUSED)
{
	static const struct {
		const char *path;
		mode_t mode;
		const char *text;
	} cases[] = {
	    {"keys/vault.key", 0640, "keys/vault.key: mode is 0640, must be 0600"},
	    {"keys/vault.key", 0604, "keys/vault.key: mode is 0604, must be 0600"},
	    {"keys/vault.key", 0400, NULL},
	    {"vault", 0660, "vault: mode is 0660, must be 0600"},
	    {"keys/log/seed", 0644, "keys/log/seed: mode is 0644, must be 0600"},
	    {"keys/ca/key.pem", 0644, "keys/ca/key.pem: mode is 0644, must be 0600"},
	    {"keys/blob/r-1.key", 0644, "keys/blob/r-1.key: mode is 0644, must be 0600"},
	    {"keys/blob/r-1.key", 0600, NULL},
	    {"broker.json", 0664, "broker.json: mode is 0664, must be 0644"},
	    {"broker.json", 0600, NULL},
	    {"VERSION", 0666, "VERSION: mode is 0666, must be 0644"},
	    {"keys", 0750, "keys: mode is 0750, must be 0700"},
	    {"keys/blob", 0701, "keys/blob: mode is 0701, must be 0700"},
	    {"log", 0755, "log: mode is 0755, must be 0700"},
	    {"policy", 0770, "policy: mode is 0770, must be 0700"},
	    {"run", 0711, "run: mode is 0711, must be 0700"},
	    {"", 0755, ": mode is 0755, must be 0700"},
	    {"", 0700, NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct stat st;

		assert_int_equal(stat(at(cases[i].path), &st), 0);
		assert_int_equal(chmod(at(cases[i].path), cases[i].mode), 0);
		if (cases[i].text != NULL)
			assert_refused(cases[i].text);
		else
			assert_accepted();
		assert_int_equal(chmod(at(cases[i].path), st.st_mode & 07777), 0);
	}
}

static void
a_newer_version_is_refused(void **state UNUSED)
{
	put("VERSION", "2\n", 0644);
	assert_refused("VERSION is 2, this program knows 1");
}

static void
a_version_that_is_not_a_line_with_a_number_is_refused(void **state UNUSED)
{
	static const char *const bad[] = {
	    "1", "0\n", "01\n", "one\n", "", "1\n\n", "99999999999\n"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		put("VERSION", bad[i], 0644);
		assert_refused("VERSION: must be a number and LF");
	}
	assert_int_equal(unlink(at("VERSION")), 0);
	assert_refused("no VERSION");
}

static void
a_link_in_the_place_of_a_file_is_refused(void **state UNUSED)
{
	struct broker_state s;
	struct err err = {0};
	int fd = -1;

	assert_int_equal(unlink(at("vault")), 0);
	assert_int_equal(symlink("keys/vault.key", at("vault")), 0);
	assert_refused("vault");
	assert_int_equal(rename(at("keys"), at("policy/keys")), 0);
	assert_int_equal(symlink("policy/keys", at("keys")), 0);
	assert_refused("/vault");
	/* Nor through a link on the way. */
	assert_int_equal(broker_state_open(dir, &s, &err), 0);
	assert_int_equal(broker_state_file(&s, "policy/keys/vault.key", O_RDONLY, &fd, &err), 0);
	(void)close(fd);
	assert_int_equal(broker_state_file(&s, "keys/vault.key", O_RDONLY, &fd, &err), ERR_SYSTEM);
	assert_int_equal(broker_state_file(&s, "../vault", O_RDONLY, &fd, &err), ERR_SYSTEM);
	broker_state_close(&s);
	assert_int_equal(unlink(at("vault")), 0);
	put("vault", "x", 0600);
	assert_refused("/keys: must be a directory");
	assert_int_equal(unlink(at("keys")), 0);
	assert_int_equal(rename(at("policy/keys"), at("keys")), 0);
	assert_accepted();
}

static void
a_missing_file_or_one_of_another_kind_is_named(void **state UNUSED)
{
	assert_int_equal(unlink(at("keys/log/seed")), 0);
	assert_refused("keys/log/seed: No such file");
	assert_int_equal(mkfifo(at("keys/log/seed"), 0600), 0);
	assert_refused("keys/log/seed: must be a plain file");
}

static void
somebody_elses_file_is_refused(void **state UNUSED)
{
	if (geteuid() != 0) {
		print_message("# skipped: not for this user\n");
		return;
	}
	assert_int_equal(chown(at("vault"), 63999, 63999), 0);
	assert_refused("vault: owner is uid 63999, must be 0");
}

/* --- as root: handing over ---------------------------------------------------------------- */

static void
ids_fill(struct broker_ids *ids)
{
	struct broker_config c = {.uid_base = 63100};
	struct err err = {0};

	assert_int_equal(broker_config_ids(&c, ids, &err), 0);
}

static void
what_a_child_writes_is_given_to_it_and_then_still_accepted(void **state UNUSED)
{
	struct broker_state s;
	struct broker_ids ids;
	struct err err = {0};
	struct stat st;

	if (geteuid() != 0) {
		print_message("# skipped: not for this user\n");
		return;
	}
	ids_fill(&ids);
	assert_int_equal(broker_state_open(dir, &s, &err), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(broker_state_check(&s, &ids, &err), 0);
		assert_int_equal(broker_state_hand_over(&s, &ids, &err), 0);
	}
	assert_int_equal(stat(at("log/seg/0"), &st), 0);
	assert_int_equal(st.st_uid, ids.uid[IPC_ROLE_WRITER]);
	assert_int_equal(stat(at("keys/blob/r-1.key"), &st), 0);
	assert_int_equal(st.st_uid, ids.uid[IPC_ROLE_CORE]);
	assert_int_equal(stat(at("keys/log/seed"), &st), 0);
	assert_int_equal(st.st_uid, 0);
	/* The writer's directory is not core's. */
	assert_int_equal(chown(at("log"), ids.uid[IPC_ROLE_CORE], 0), 0);
	assert_int_equal(broker_state_check(&s, &ids, &err), ERR_CONFIG);
	broker_state_close(&s);
}

static void
a_hard_link_in_the_writers_directory_is_not_given_away(void **state UNUSED)
{
	struct broker_state s;
	struct broker_ids ids;
	struct err err = {0};
	struct stat st;

	if (geteuid() != 0) {
		print_message("# skipped: not for this user\n");
		return;
	}
	ids_fill(&ids);
	assert_int_equal(broker_state_open(dir, &s, &err), 0);
	assert_int_equal(link(at("vault"), at("log/link")), 0);
	assert_int_equal(broker_state_hand_over(&s, &ids, &err), ERR_CONFIG);
	assert_non_null(strstr(err.msg, "log/link"));
	assert_int_equal(stat(at("vault"), &st), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(unlink(at("log/link")), 0);
	assert_int_equal(symlink("/etc/passwd", at("log/link")), 0);
	assert_int_equal(broker_state_hand_over(&s, &ids, &err), ERR_CONFIG);
	broker_state_close(&s);
}

/* --- one broker --------------------------------------------------------------------------------
 */

static void
a_second_broker_is_refused_while_the_first_lives(void **state UNUSED)
{
	struct broker_state a, b;
	struct err err = {0};
	char text[64];

	assert_int_equal(broker_state_open(dir, &a, &err), 0);
	assert_int_equal(broker_state_open(dir, &b, &err), 0);
	assert_int_equal(broker_state_lock(&a, &err), 0);
	assert_int_equal(broker_state_lock(&b, &err), ERR_EXISTS);
	(void)snprintf(text, sizeof(text), "in use by another broker (pid %d)", (int)getpid());
	assert_non_null(strstr(err.msg, text));
	broker_state_close(&a);
	assert_int_equal(access(at("run/broker.pid"), F_OK), -1);
	assert_int_equal(broker_state_lock(&b, &err), 0);
	broker_state_close(&b);
}

/* --- policy/active ------------------------------------------------------------------------------
 */

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define DIGEST_OF_BRACES "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

static int
policy(struct err *err)
{
	struct broker_state s;
	AUTO_FD int fd = -1;
	int rc;

	assert_int_equal(broker_state_open(dir, &s, err), 0);
	rc = broker_state_policy(&s, &fd, err);
	assert_int_equal(fd >= 0, rc == 0);
	broker_state_close(&s);
	return rc;
}

static void
the_active_policy_is_opened_by_its_digest(void **state UNUSED)
{
	struct err err = {0};

	assert_int_equal(policy(&err), ERR_NOT_FOUND);
	put("policy/active", DIGEST "\n", 0600);
	assert_int_equal(policy(&err), ERR_CONFIG);
	assert_non_null(strstr(err.msg, DIGEST ".json: named by policy/active, missing"));
	put("policy/" DIGEST ".json", "{}", 0600);
	assert_int_equal(policy(&err), ERR_TAMPER);
	assert_non_null(strstr(err.msg, DIGEST ".json: its SHA-256 is " DIGEST_OF_BRACES));
	put("policy/" DIGEST_OF_BRACES ".json", "{}", 0600);
	put("policy/active", DIGEST_OF_BRACES "\n", 0600);
	assert_int_equal(policy(&err), 0);
}

static void
an_active_policy_that_is_not_a_digest_is_refused(void **state UNUSED)
{
	static const char *const bad[] = {"", DIGEST, DIGEST "\n\n",
	    "../../../../../../../../../../../../../../../../../etc/passwd\n\n\n\n",
	    "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\n"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = {0};

		put("policy/active", bad[i], 0600);
		assert_int_equal(policy(&err), ERR_CONFIG);
		assert_non_null(strstr(err.msg, "must be 64 lower-case hex digits and LF"));
	}
}

/* --- broker.json
 * ----------------------------------------------------------------------------------- */

static int
parse(const char *text, struct broker_config *c, struct err *err)
{
	return broker_config_parse(str_z(text), "broker.json", c, err);
}

static void
a_configuration_with_every_key_is_read(void **state UNUSED)
{
	struct broker_config c;
	struct err err = {0};

	assert_int_equal(
	    parse("{\"schema\":\"cofferdam-broker/1\",\"origin\":\"a/b\",\"clock\":\"trusted\","
		  "\"log_level\":\"debug\",\"uid_base\":70000}",
		&c, &err),
	    0);
	assert_string_equal(c.origin, "a/b");
	assert_string_equal(c.clock, "trusted");
	assert_int_equal(broker_config_level(&c), LOG_DEBUG_);
	assert_int_equal(c.uid_base, 70000);
	broker_config_free(&c);
	assert_int_equal(
	    parse("{\"schema\":\"cofferdam-broker/1\",\"origin\":\"a\"}", &c, &err), 0);
	assert_null(c.clock);
	assert_int_equal(c.uid_base, BROKER_UID_BASE);
	assert_int_equal(broker_config_level(&c), LOG_INFO_);
	broker_config_free(&c);
}

static void
a_configuration_with_a_mistake_is_refused_and_named(void **state UNUSED)
{
	static const struct {
		const char *json, *text;
	} cases[] = {
	    {"{\"origin\":\"a\"}", "\"schema\" is missing"},
	    {"{\"schema\":\"cofferdam-broker/1\"}", "\"origin\" is missing"},
	    {"{\"schema\":\"cofferdam-broker/2\",\"origin\":\"a\"}", "schema must be"},
	    {"{\"schema\":\"cofferdam-broker/1\",\"origin\":\"\"}", "origin must be"},
	    {"{\"schema\":\"cofferdam-broker/1\",\"origin\":\"a b\"}", "origin must be"},
	    {"{\"schema\":\"cofferdam-broker/1\",\"origin\":\"a+b\"}", "origin must be"},
	    {"{\"schema\":\"cofferdam-broker/1\",\"origin\":1}", "origin must be"},
	    {"{\"schema\":\"cofferdam-broker/1\",\"origin\":\"a\",\"Clock\":\"trusted\"}",
		"unknown key \"Clock\""},
	    {"{\"schema\":\"cofferdam-broker/1\",\"origin\":\"a\",\"clock\":\"ntp\"}",
		"clock \"ntp\" is not known"},
	    {"{\"schema\":\"cofferdam-broker/1\",\"origin\":\"a\",\"clock\":\"\"}", "clock"},
	    {"{\"schema\":\"cofferdam-broker/1\",\"origin\":\"a\",\"uid_base\":999}",
		"uid_base must be from 1000"},
	    {"{\"schema\":\"cofferdam-broker/1\",\"origin\":\"a\",\"uid_base\":\"1000\"}",
		"uid_base must be"},
	    {"{\"schema\":\"cofferdam-broker/1\",\"origin\":\"a\",\"log_level\":\"all\"}",
		"log_level \"all\""},
	    {"{\"schema\":\"cofferdam-broker/1\",\"origin\":\"a\",\"origin\":\"b\"}", "origin"},
	    {"[]", "must be an object"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct broker_config c = {0};
		struct err err = {0};

		assert_int_not_equal(parse(cases[i].json, &c, &err), 0);
		assert_null(c.origin);
		if (strstr(err.msg, cases[i].text) == NULL ||
		    strstr(err.msg, "broker.json:1:") == NULL)
			fail_msg("message is \"%s\", wanted \"%s\"", err.msg, cases[i].text);
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(a_closed_directory_of_this_version_is_accepted),
	    T(a_missing_run_or_courier_directory_is_made),
	    T(a_looser_mode_is_refused_and_a_closer_one_is_not),
	    T(a_newer_version_is_refused),
	    T(a_version_that_is_not_a_line_with_a_number_is_refused),
	    T(a_link_in_the_place_of_a_file_is_refused),
	    T(a_missing_file_or_one_of_another_kind_is_named),
	    T(somebody_elses_file_is_refused),
	    T(what_a_child_writes_is_given_to_it_and_then_still_accepted),
	    T(a_hard_link_in_the_writers_directory_is_not_given_away),
	    T(a_second_broker_is_refused_while_the_first_lives),
	    T(the_active_policy_is_opened_by_its_digest),
	    T(an_active_policy_that_is_not_a_digest_is_refused),
	    cmocka_unit_test(a_configuration_with_every_key_is_read),
	    cmocka_unit_test(a_configuration_with_a_mistake_is_refused_and_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
