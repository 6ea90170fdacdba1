/* Erasure in core: who may ask, which keys never go, and what comes before what. */
#include "tests/unit/core_help.h"

#include "broker/core_erase.h"
#include "broker/core_live.h"

#include "common/banned.h"

#define ASK(runs) "{\"reason\":\"why\",\"runs\":[" runs "],\"subject\":\"run:x\"}"

static unsigned
asked_by(struct world *w, uid_t uid, const char *args, struct str *ret)
{
	AUTO_BUF struct buf b = BUF(1 << 18);
	struct rd r;
	unsigned code;

	end_close(&w->cli);
	(void)core_peer_new(w->c, IPC_ROLE_CLI, end_open(&w->cli, IPC_ROLE_CLI), uid);
	buf_u32(&b, IPC_VERSION);
	buf_lz(&b, "log-erase");
	buf_lz(&b, args);
	say(&w->cli, MSG_Q_CALL, &b);
	settle(w);
	if (silent(&w->cli, MSG_Q_REPLY))
		return 999;
	r = heard(&w->cli, MSG_Q_REPLY);
	code = rd_u32(&r);
	*ret = rd_lstr(&r);
	return code;
}

static void
key_put(const struct world *w, const char *run)
{
	AUTO_FREE char *name = xasprintf("%s.key", run);
	AUTO_FD int fd = openat(w->dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, "01234567890123456789012345678901", 32), 32);
}

static bool
is_there(const struct world *w, const char *name)
{
	return faccessat(w->dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static size_t
erasures(const struct world *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->nrecords; i++)
		n += strcmp(w->records[i].type, "erasure") == 0;
	return n;
}

static void
root_and_the_brokers_user_may_erase_and_no_other_person(void **state)
{
	struct world *w = *state;
	struct str said;

	key_put(w, "r-old");
	key_put(w, "r-older");
	w->c->uid = 65010;
	assert_int_equal(asked_by(w, 61001, ASK("\"r-old\""), &said), -ERR_UNAUTHORISED); /* dana */
	assert_int_equal(asked_by(w, 65000, ASK("\"r-old\""), &said), -ERR_UNAUTHORISED);
	assert_true(is_there(w, "r-old.key") && erasures(w) == 0);
	assert_int_equal(asked_by(w, 0, ASK("\"r-old\""), &said), 0);
	assert_int_equal(asked_by(w, 65010, ASK("\"r-older\""), &said), 0);
	assert_true(!is_there(w, "r-old.key") && !is_there(w, "r-older.key"));
	assert_int_equal(erasures(w), 2);
}

static void
keys_of_living_runs_of_the_policies_and_of_nothing_are_not_touched(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *alive = xasprintf(
	    "{\"reason\":\"why\",\"runs\":[\"r-old\",\"%s\"],\"subject\":\"x\"}", w->run->id);
	static const char *const bad[] = {ASK(""), ASK("\"policy\""), ASK("\"../r-old\""), ASK("7"),
	    ASK("\"\""), "{\"reason\":\"\",\"runs\":[\"r-old\"],\"subject\":\"x\"}",
	    "{\"reason\":\"a\\nb\",\"runs\":[\"r-old\"],\"subject\":\"x\"}",
	    "{\"reason\":\"why\",\"runs\":[\"r-old\"]}", "{\"reason\":\"why\",\"subject\":\"x\"}"};
	struct str said;

	key_put(w, "r-old");
	key_put(w, "policy");
	assert_int_equal(asked_by(w, 0, alive, &said), -ERR_STATE);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(asked_by(w, 0, bad[i], &said), -ERR_INVALID);
	assert_true(is_there(w, "r-old.key") && is_there(w, "policy.key"));
	assert_true(!is_there(w, "erasing") && erasures(w) == 0);
	assert_int_equal(asked_by(w, 0, ASK("\"r-old\",\"r-none\""), &said), 0);
	assert_non_null(memmem(said.p, said.n, "\"gone\":1", 8));
}

static void
a_key_goes_only_when_its_record_is_durable(void **state)
{
	struct world *w = *state;
	struct str said;

	key_put(w, "r-old");
	w->hold_writer = true;
	assert_int_equal(asked_by(w, 0, ASK("\"r-old\""), &said), 999); /* no answer yet */
	assert_true(is_there(w, "r-old.key") && is_there(w, "erasing") && erasures(w) == 1);
	assert_int_equal(asked_by(w, 0, ASK("\"r-two\""), &said), -ERR_STATE); /* one at a time */
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	assert_true(!is_there(w, "r-old.key") && !is_there(w, "erasing"));
}

static void
what_was_begun_is_gone_on_with_and_what_was_not_is_dropped(void **state)
{
	struct world *w = *state;
	AUTO_FD int fd = openat(w->dirfd, "erasing", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	static const char half[] = "{\"by\":\"x\",\"id\":\"e-1\",\"reas";
	static const char whole[] =
	    "{\"by\":\"x\",\"id\":\"e-1\",\"reason\":\"why\",\"runs\":[\"r-old\"]"
	    ",\"subject\":\"run:r-old\"}\n";

	key_put(w, "r-old");
	assert_int_equal(write(fd, half, sizeof(half) - 1), sizeof(half) - 1);
	core_erase_settle(w->c);
	settle(w);
	assert_true(is_there(w, "r-old.key") && !is_there(w, "erasing") && erasures(w) == 0);
	cleanup_close_fd(&fd);
	fd = openat(w->dirfd, "erasing", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, whole, sizeof(whole) - 1), sizeof(whole) - 1);
	core_erase_settle(w->c);
	settle(w);
	assert_true(!is_there(w, "r-old.key") && !is_there(w, "erasing"));
	assert_int_equal(erasures(w), 1);
	assert_string_equal(w->records[w->nrecords - 1].data,
	    "{\"by\":\"x\",\"id\":\"e-1\",\"reason\":\"why\","
	    "\"runs\":[\"r-old\"],\"subject\":\"run:r-old\"}");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(root_and_the_brokers_user_may_erase_and_no_other_person),
	    world_test(keys_of_living_runs_of_the_policies_and_of_nothing_are_not_touched),
	    world_test(a_key_goes_only_when_its_record_is_durable),
	    world_test(what_was_begun_is_gone_on_with_and_what_was_not_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
