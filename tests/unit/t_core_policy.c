/*
 * Which policy core lets come into force: what goes back, lacks its owners or is no bundle changes
 * nothing and is on the record; also over a restart and a withdrawal. What the one before had
 * leased and not sent yet is judged anew, and the session goes on.
 */
#include "tests/unit/core_help.h"

#include <sys/mman.h>

#include "broker/core_policy.h"
#include "common/banned.h"
#include "policy/policy_source.h"
#include "policy/succession.h"

#define READ "{\"id\":\"read\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}}"
#define WRITE "{\"id\":\"write\",\"permit\":{\"effects\":{\"only\":[\"@data\",\"write\"]}}}"

/* The bundle of the test's people with these rules and owners. */
static void
bundle(const struct world *w, const char *rules, const char *owners, int serial, struct buf *out)
{
	AUTO_FREE char *text = world_policy(w, rules, serial);
	AUTO_FREE char *with = NULL;
	AUTO(policy) struct policy *p = NULL;
	const char *targets = strstr(text, "\"targets\"");
	struct err err;

	with = xasprintf("%.*s%s%s", (int)(targets - text), text, owners, targets);
	if (policy_parse(str_z(with), "t.json", NULL, NULL, &p, NULL, &err) != 0 ||
	    policy_bundle(p, out, &err) != 0)
		fail_msg("%s", err.msg);
}

static void
hand(struct world *w, const char *name, struct str text)
{
	int fd = memfd_create("t", MFD_CLOEXEC);
	struct err err = {0};

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text.p, text.n), (ssize_t)text.n);
	if (core_boot_fd(w->c, str_z(name), fd, &err) != 0)
		fail_msg("%s", err.msg);
	settle(w);
}

static int64_t
serial(const struct world *w)
{
	return w->c->policy != NULL ? policy_serial(w->c->policy) : 0;
}

static void
assert_refused(struct world *w, const char *why)
{
	AUTO(json) struct json_doc *d = last(w, "policy.refused");
	struct str reason = json_str(json_get(json_root(d), "reason"));

	if (!has(reason, why))
		fail_msg("\"%.*s\" does not say \"%s\"", STR_ARG(reason), why);
}

static void
sign_step(const struct policy *before, const struct policy *next, const char *name,
    const struct person *key, struct buf *armor)
{
	AUTO_BUF struct buf text = BUF(SUCCESSION_STATEMENT_MAX);

	succession_statement(next, policy_digest(before), str_z(name), &text);
	person_sign(key, SUCCESSION_NAMESPACE, buf_str(&text), armor);
}

/* dana's and omar's signatures over the step, as the file has them. */
static void
signatures(const struct world *w, struct str before, struct str next, size_t n, struct buf *out)
{
	AUTO(policy) struct policy *p = NULL, *q = NULL;
	AUTO_BUF struct buf a = BUF(SIG_SSHSIG_MAX), b = BUF(SIG_SSHSIG_MAX);
	struct succession s = {.n = n};

	assert_int_equal(policy_load(before, &p, NULL), 0);
	assert_int_equal(policy_load(next, &q, NULL), 0);
	sign_step(p, q, "dana", &w->dana, &a);
	sign_step(p, q, "omar", &w->omar, &b);
	s.before = *policy_digest(p);
	s.bundle = *policy_digest(q);
	s.sig[0] = (struct succession_signature){STR("dana"), buf_str(&a)};
	s.sig[1] = (struct succession_signature){STR("omar"), buf_str(&b)};
	succession_put(&s, out);
}

#define OWNERS "\"owners\":{\"count\":2,\"people\":[\"dana\",\"omar\",\"olivia\"]},"
#define BUNDLE(name) AUTO_BUF struct buf name = BUF((size_t)1 << 20)

/* --- refused --------------------------------------------------------------------- */

static void
a_serial_that_does_not_rise_is_refused_and_the_one_in_force_stays(void **state)
{
	struct world *w = *state;
	BUNDLE(five);
	BUNDLE(other);
	BUNDLE(four);
	BUNDLE(six);

	bundle(w, READ, "", 5, &five);
	bundle(w, WRITE, "", 5, &other);
	bundle(w, WRITE, "", 4, &four);
	bundle(w, WRITE, "", 6, &six);
	hand(w, "policy", buf_str(&five));
	assert_int_equal(serial(w), 5);
	hand(w, "policy", buf_str(&other));
	assert_refused(w, "serial must be over 5, that of the policy before, is 5");
	hand(w, "policy", buf_str(&four));
	assert_int_equal(count(w, "policy.refused"), 2);
	assert_int_equal(serial(w), 5);
	client_ready(w, 1); /* it is still in force */
	hand(w, "policy", buf_str(&five));
	assert_int_equal(count(w, "policy.refused"), 2);
	hand(w, "policy", buf_str(&six));
	assert_int_equal(serial(w), 6);
}

static void
what_is_no_bundle_is_refused_and_the_one_in_force_stays(void **state)
{
	struct world *w = *state;

	hand(w, "policy", STR("{\"schema\":\"cofferdam-bundle/1\"}"));
	assert_refused(w, "has no");
	assert_int_equal(serial(w), 1);
	client_ready(w, 1);
}

static void
owners_must_have_signed_the_step(void **state)
{
	struct world *w = *state;
	BUNDLE(one);
	BUNDLE(two);
	BUNDLE(three);
	BUNDLE(sig);

	bundle(w, READ, OWNERS, 5, &one);
	bundle(w, READ, "", 6, &two);
	bundle(w, WRITE, "", 7, &three);
	hand(w, "policy", buf_str(&one));
	hand(w, "policy", buf_str(&two));
	assert_refused(w, "signatures of 2 of its owners are needed (dana, omar, olivia), 0 count");
	signatures(w, buf_str(&one), buf_str(&two), 1, &sig);
	hand(w, "policy-signatures", buf_str(&sig));
	hand(w, "policy", buf_str(&two));
	assert_refused(w, "1 count");
	buf_reset(&sig);
	/* Signatures of another bundle are none of this one. */
	signatures(w, buf_str(&one), buf_str(&three), 2, &sig);
	hand(w, "policy-signatures", buf_str(&sig));
	hand(w, "policy", buf_str(&two));
	assert_refused(w, "0 count");
	assert_int_equal(serial(w), 5);
	buf_reset(&sig);
	signatures(w, buf_str(&one), buf_str(&two), 2, &sig);
	hand(w, "policy-signatures", buf_str(&sig));
	hand(w, "policy", buf_str(&two));
	assert_int_equal(serial(w), 6);
	hand(w, "policy", buf_str(&three)); /* which has no owners any more */
	assert_int_equal(serial(w), 7);
}

static void
withdrawing_a_policy_does_not_forget_its_owners(void **state)
{
	struct world *w = *state;
	BUNDLE(one);
	BUNDLE(two);
	BUNDLE(sig);

	bundle(w, READ, OWNERS, 5, &one);
	bundle(w, READ, "", 6, &two);
	hand(w, "policy", buf_str(&one));
	hand(w, "policy", STR(""));
	assert_int_equal(serial(w), 0);
	hand(w, "policy", buf_str(&two));
	assert_refused(w, "0 count");
	assert_int_equal(serial(w), 0);
	hand(w, "policy", buf_str(&one)); /* the same may come again */
	assert_int_equal(serial(w), 5);
	hand(w, "policy", STR(""));
	signatures(w, buf_str(&one), buf_str(&two), 2, &sig);
	hand(w, "policy-signatures", buf_str(&sig));
	hand(w, "policy", buf_str(&two));
	assert_int_equal(serial(w), 6);
}

/* --- over a restart -------------------------------------------------------------- */

static void
tell_live(struct world *w, const char *type, const char *data)
{
	AUTO_BUF struct buf body = BUF(1 << 16);
	AUTO_BUF struct buf b = BUF(1 << 17);
	struct hash root = {0};

	buf_printf(&body,
	    "{\"data\":%s,\"run\":\"\",\"seq\":0,\"time\":\"2026-01-01T00:00:00.000000Z\",\"type\":"
	    "\"%s\"}",
	    data, type);
	buf_lstr(&b, buf_str(&body));
	buf_put(&b, root.b, HASH_LEN);
	say(&w->writer, MSG_W_LIVE, &b);
}

/* As a core that starts: it has no policy, and the log tells the last policy.load. */
static void
restart(struct world *w, bool unloaded)
{
	AUTO_FREE char *load = NULL;

	for (size_t i = 0; i < w->nrecords; i++)
		if (strcmp(w->records[i].type, "policy.load") == 0) {
			free(load);
			load = xstrdup(w->records[i].data);
		}
	assert_non_null(load);
	core_boot_policy_drop(w->c);
	settle(w);
	policy_free(w->c->policy_before);
	w->c->policy_before = NULL;
	w->c->no_policy = false;
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	w->c->last_policy_known = w->c->live_policy_known = false;
	tell_live(w, "policy.load", load);
	if (unloaded)
		tell_live(w, "policy.unload", "{}");
	world_live(w);
}

static void
after_a_restart_the_next_one_follows_what_the_log_says(void **state)
{
	struct world *w = *state;
	BUNDLE(one);
	BUNDLE(two);
	BUNDLE(sig);

	bundle(w, READ, OWNERS, 5, &one);
	bundle(w, READ, "", 6, &two);
	hand(w, "policy", buf_str(&one));
	signatures(w, buf_str(&one), buf_str(&two), 2, &sig);
	for (int unloaded = 0; unloaded < 2; unloaded++) {
		restart(w, unloaded);
		hand(w, "policy", buf_str(&two));
		assert_refused(w, "2 owners of the policy before, sha256:");
		assert_int_equal(serial(w), 0);
	}
	/* Signatures alone do: but only beside the bundle that has the keys. */
	hand(w, "policy-signatures", buf_str(&sig));
	hand(w, "policy", buf_str(&two));
	assert_int_equal(serial(w), 0);
	hand(w, "policy-before", buf_str(&one));
	hand(w, "policy-signatures", buf_str(&sig));
	hand(w, "policy", buf_str(&two));
	assert_int_equal(serial(w), 6);
}

static void
after_a_restart_the_logs_own_policy_stands_in_for_one_that_is_refused(void **state)
{
	struct world *w = *state;
	BUNDLE(one);
	BUNDLE(two);

	bundle(w, READ, OWNERS, 5, &one);
	bundle(w, READ, "", 6, &two);
	hand(w, "policy", buf_str(&one));
	restart(w, false);
	hand(w, "policy-before", buf_str(&one));
	hand(w, "policy", buf_str(&two));
	assert_refused(w, "0 count");
	assert_int_equal(serial(w), 5);
	/* One that was withdrawn does not come back by itself. */
	restart(w, true);
	hand(w, "policy-before", buf_str(&one));
	hand(w, "policy", buf_str(&two));
	assert_int_equal(serial(w), 0);
}

static void
a_bundle_before_that_is_not_the_logs_last_is_of_no_use(void **state)
{
	struct world *w = *state;
	BUNDLE(one);
	BUNDLE(mine);
	BUNDLE(two);

	bundle(w, READ, OWNERS, 5, &one);
	bundle(w, WRITE, "", 4, &mine); /* has no owners */
	bundle(w, WRITE, "", 6, &two);
	hand(w, "policy", buf_str(&one));
	restart(w, false);
	hand(w, "policy-before", buf_str(&mine));
	hand(w, "policy", buf_str(&two));
	assert_refused(w, "2 owners of the policy before");
	assert_int_equal(serial(w), 0);
}

/* --- what was leased ------------------------------------------------------------- */

static void
what_was_not_sent_yet_is_judged_anew_and_the_session_goes_on(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	w->hold_writer = true;
	client_query(w, 1, 2, "UPDATE t SET a = 1 WHERE id = 17");
	assert_int_equal(count(w, "action"), 2);
	core_boot_policy_use(w->c, world_parse(w->policy_text)); /* the same: nothing changes */
	free(w->policy_text);
	w->policy_text = world_policy(w, READ, 2);
	core_boot_policy_use(w->c, world_parse(w->policy_text));
	w->hold_writer = false;
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	assert_true(silent(&w->upstream, MSG_U_SEND));
	assert_int_equal(count(w, "action"), 3);
	assert_verdict(w, "deny");
	{
		AUTO(json) struct json_doc *d = last(w, "outcome");

		assert_true(str_eqz(json_str(json_get(json_root(d), "status")), "not_sent"));
	}
	assert_state(refused(w).sqlstate, "42501");
	client_query(w, 1, 3, "SELECT 1"); /* the session lives */
	(void)leased(w);
}

static void
what_both_policies_allow_passes_once(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	w->hold_writer = true;
	client_query(w, 1, 2, "SELECT 1");
	free(w->policy_text);
	w->policy_text = world_policy(w, READ, 2);
	core_boot_policy_use(w->c, world_parse(w->policy_text));
	w->hold_writer = false;
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	(void)leased(w);
	assert_true(silent(&w->upstream, MSG_U_SEND));
	assert_verdict(w, "allow");
	server_done(w, 1, 2, 1, 'I', 1);
	(void)heard(&w->front, MSG_PG_DONE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(a_serial_that_does_not_rise_is_refused_and_the_one_in_force_stays),
	    world_test(what_is_no_bundle_is_refused_and_the_one_in_force_stays),
	    world_test(owners_must_have_signed_the_step),
	    world_test(withdrawing_a_policy_does_not_forget_its_owners),
	    world_test(after_a_restart_the_next_one_follows_what_the_log_says),
	    world_test(after_a_restart_the_logs_own_policy_stands_in_for_one_that_is_refused),
	    world_test(a_bundle_before_that_is_not_the_logs_last_is_of_no_use),
	    world_test(what_was_not_sent_yet_is_judged_anew_and_the_session_goes_on),
	    world_test(what_both_policies_allow_passes_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
