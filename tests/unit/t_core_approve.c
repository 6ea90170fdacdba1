/* Requests for approval: made, signed, armed, used once; ended by people, time, policy and run;
 * rebuilt from the log. */
#include "tests/unit/core_help.h"

#include "broker/core_live.h"
#include "common/banned.h"

#define SQL "DELETE FROM t WHERE id = 17"

/* --- a person at the control socket ---------------------------------------------- */

static void
person_connects(struct world *w, unsigned uid)
{
	end_close(&w->cli);
	(void)core_peer_new(w->c, IPC_ROLE_CLI, end_open(&w->cli, IPC_ROLE_CLI), uid);
}

/* code (positive), and the result or the error's text in *ret. */
static unsigned
call(struct world *w, const char *verb, const char *args, struct str *ret)
{
	AUTO_BUF struct buf b = BUF(1 << 18);
	struct rd r;
	uint32_t code;

	if (w->cli.fd <= 0)
		person_connects(w, 0);
	buf_u32(&b, IPC_VERSION);
	buf_lz(&b, verb);
	buf_lz(&b, args);
	say(&w->cli, MSG_Q_CALL, &b);
	settle(w);
	r = heard(&w->cli, MSG_Q_REPLY);
	code = rd_u32(&r);
	*ret = rd_lstr(&r);
	assert_true(rd_end(&r));
	return code;
}

static struct core_request *
only_request(const struct world *w)
{
	struct core_request *rq = TAILQ_FIRST(&w->run->requests);

	assert_non_null(rq);
	assert_null(TAILQ_NEXT(rq, link));
	return rq;
}

static struct core_request *
newest(const struct world *w)
{
	return TAILQ_LAST(&w->run->requests, core_requests);
}

struct signing {
	const struct core_request *rq;
	const char *decision, *person, *role, *ns;
	const struct person *key;
	const char *change;   /* a text appended to what is signed */
	const char *log_head; /* instead of the request's; NULL: that */
};

static unsigned
sign_with(struct world *w, const struct signing *s, struct str *ret)
{
	AUTO_BUF struct buf bytes = BUF(STATEMENT_MAX + 64);
	AUTO_BUF struct buf armor = BUF(4096);
	AUTO_BUF struct buf args = BUF(16384);
	struct core_statement st;
	struct jcs j;
	struct err err;

	core_sign_statement(s->rq, s->decision, str_z(s->role), str_z(s->person), &st);
	if (s->log_head != NULL)
		st.s.log_head = str_z(s->log_head);
	if (statement_bytes(&st.s, &bytes, &err) != 0)
		fail_msg("%s", err.msg);
	core_sign_statement_free(&st);
	if (s->change != NULL)
		buf_put_z(&bytes, s->change);
	person_sign(s->key, s->ns != NULL ? s->ns : STATEMENT_NAMESPACE, buf_str(&bytes), &armor);
	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_z(&j, "id", s->rq->id);
	jcs_z(&j, "person", s->person);
	jcs_z(&j, "role", s->role);
	jcs_str(&j, "signature", buf_str(&armor));
	jcs_close(&j);
	buf_put(&args, "", 1);
	return call(w, s->decision, (const char *)args.p, ret);
}

static unsigned
sign(struct world *w, const char *decision, const char *person, const char *role,
    const struct person *key)
{
	struct str text;

	return sign_with(w,
	    &(struct signing){
		.rq = newest(w), .decision = decision, .person = person, .role = role, .key = key},
	    &text);
}

static void
asked(struct world *w)
{
	client_ready(w, 1);
	client_query(w, 1, 2, SQL);
	(void)refused(w);
}

static void
armed(struct world *w)
{
	asked(w);
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), 0);
	assert_int_equal(newest(w)->state, CORE_RQ_PENDING);
	assert_int_equal(sign(w, "approve", "omar", "oncall", &w->omar), 0);
	assert_int_equal(newest(w)->state, CORE_RQ_ARMED);
}

/* --- made ------------------------------------------------------------------------ */

static void
a_request_is_durable_before_the_client_hears_of_it(void **state)
{
	struct world *w = *state;
	struct refusal x;

	client_ready(w, 1);
	w->hold_writer = true;
	client_query(w, 1, 2, SQL);
	assert_true(silent(&w->front, MSG_PG_REFUSED));
	assert_int_equal(count(w, "approval.request"), 1);
	ack(w, &w->records[w->nrecords - 2]);
	settle(w);
	assert_true(silent(&w->front, MSG_PG_REFUSED));
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	x = refused(w);
	assert_true(has(x.hint, only_request(w)->id));
	assert_true(has(x.hint, "dba:1, oncall:1"));
	assert_true(str_has_prefix(str_z(only_request(w)->log_head), "test.example/log "));
	assert_string_equal(only_request(w)->show, SQL);
}

static void
the_same_action_is_the_same_request_and_another_is_not(void **state)
{
	struct world *w = *state;

	asked(w);
	client_query(w, 1, 3, SQL);
	assert_true(has(refused(w).hint, only_request(w)->id));
	assert_int_equal(count(w, "approval.request"), 1);
	client_query(w, 1, 4, "DELETE FROM t WHERE id = 18");
	(void)refused(w);
	assert_int_equal(count(w, "approval.request"), 2);
}

static void
a_run_has_a_ceiling_of_open_requests_and_the_next_is_refused_and_recorded(void **state)
{
	struct world *w = *state;
	struct refusal x;

	client_ready(w, 1);
	for (uint64_t i = 0; i <= CORE_PENDING_MAX; i++) {
		AUTO_FREE char *sql = xasprintf("DELETE FROM t WHERE id = %d", (int)i);

		client_query(w, 1, 10 + i, sql);
		x = refused(w);
		assert_true(i < CORE_PENDING_MAX ? has(x.hint, "request ")
						 : has(x.hint, "64 open requests"));
	}
	assert_int_equal(count(w, "approval.request"), CORE_PENDING_MAX);
	assert_verdict(w, "needs_approval");
}

/* --- signed ---------------------------------------------------------------------- */

static void
two_people_arm_it_and_it_passes_once_with_its_row_limit(void **state)
{
	struct world *w = *state;
	struct lease l;

	armed(w);
	client_query(w, 1, 3, SQL);
	assert_int_equal(count(w, "approval.consumed"), 1);
	assert_string_equal(w->records[w->nrecords - 2].type,
	    "approval.consumed"); /* before the action, same batch */
	assert_string_equal(w->records[w->nrecords - 1].type, "action");
	l = leased(w);
	assert_int_equal(l.wrap, 1);
	assert_int_equal(l.max_rows, 5);
	assert_int_equal(l.hold_all, 1);
	{
		AUTO(json) struct json_doc *d = last(w, "action");

		assert_int_equal(json_count(at(d, "decision", "grants")), 2);
		assert_state(json_str(at(d, "decision", "approval")), only_request(w)->id);
	}
	server_done(w, 1, 3, 1, 'I', 1);
	(void)heard(&w->front, MSG_PG_DONE);
	client_query(w, 1, 4, SQL);
	assert_true(has(refused(w).hint, "request "));
	assert_verdict(w, "needs_approval");
	assert_true(silent(&w->upstream, MSG_U_SEND));
}

/* A transaction in which an approved change has run. */
static void
changed_in_a_transaction(struct world *w)
{
	AUTO_FREE char *text = world_policy(w,
	    "{\"id\":\"work\",\"permit\":{\"effects\":{\"only\":[\"@data\",\"delete\"]}}},"
	    "{\"id\":\"ask\",\"require\":{\"effects\":{\"any\":[\"delete\"]}},\"approve\":[{"
	    "\"role\":"
	    "\"dba\",\"count\":1}],\"within\":\"30m\",\"use_within\":\"5m\"}",
	    2);

	core_boot_policy_use(w->c, world_parse(text));
	settle(w);
	client_ready(w, 1);
	for (uint64_t act = 2; act <= 5; act += 3) {
		client_query(w, 1, act, "BEGIN");
		(void)leased(w);
		server_done(w, 1, act, 1, 'T', 0);
		client_query(w, 1, act + 1, SQL);
		if (act == 2) {
			assert_true(leased(w).token.n != 0);
			server_done(w, 1, 3, 5, 'E', 0);
			client_query(w, 1, 4, "ROLLBACK");
			(void)leased(w);
			server_done(w, 1, 4, 1, 'I', 0);
			assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), 0);
		}
	}
	assert_int_equal(leased(w).token.n, 0);
	server_done(w, 1, 6, 1, 'T', 1);
}

/* One statement of an open transaction, refused. */
static void
wants(struct world *w, uint64_t act, const char *sql)
{
	client_query(w, 1, act, sql);
	assert_true(leased(w).token.n != 0);
	server_done(w, 1, act, 5, 'E', 0);
}

static void
runs(struct world *w, uint64_t act, const char *sql, char txn)
{
	client_query(w, 1, act, sql);
	assert_int_equal(leased(w).token.n, 0);
	server_done(w, 1, act, 1, txn, 1);
}

/* Two statements of one transaction, asked for and signed as one. */
static void
two_are_armed(struct world *w)
{
	client_ready(w, 1);
	runs(w, 2, "BEGIN", 'T');
	wants(w, 3, SQL);
	assert_int_equal(core_request_steps(newest(w)), 1);
	wants(w, 4, SQL "0");
	assert_int_equal(core_request_steps(newest(w)), 2);
	assert_true(TAILQ_FIRST(&w->run->requests)->covered);
	assert_int_equal(TAILQ_FIRST(&w->run->requests)->state, CORE_RQ_VOID);
	runs(w, 5, "ROLLBACK", 'I');
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), 0);
	assert_int_equal(sign(w, "approve", "omar", "oncall", &w->omar), 0);
	assert_int_equal(newest(w)->state, CORE_RQ_ARMED);
}

static void
two_statements_of_a_transaction_are_signed_and_used_as_one(void **state)
{
	struct world *w = *state;

	two_are_armed(w);
	runs(w, 6, "BEGIN", 'T');
	runs(w, 7, SQL, 'T');
	assert_int_equal(newest(w)->state, CORE_RQ_CONSUMED);
	runs(w, 8, SQL "0", 'T');
	assert_int_equal(count(w, "approval.consumed"), 1);
	runs(w, 9, "COMMIT", 'I');
}

static void
the_first_of_two_is_not_committed_alone(void **state)
{
	struct world *w = *state;

	two_are_armed(w);
	runs(w, 6, "BEGIN", 'T');
	runs(w, 7, SQL, 'T');
	client_query(w, 1, 8, "COMMIT");
	assert_true(leased(w).token.n != 0);
	assert_verdict(w, "deny");
	server_done(w, 1, 8, 5, 'E', 0);
	assert_int_equal(newest(w)->state, CORE_RQ_CONSUMED);
}

static void
what_rollback_to_may_have_undone_is_not_committed_in_part(void **state)
{
	struct world *w = *state;

	two_are_armed(w);
	runs(w, 6, "BEGIN", 'T');
	runs(w, 7, "SAVEPOINT s", 'T');
	runs(w, 8, SQL, 'T');
	runs(w, 9, SQL "0", 'T');
	runs(w, 10, "ROLLBACK TO s", 'T');
	client_query(w, 1, 11, "COMMIT");
	assert_true(leased(w).token.n != 0);
	assert_verdict(w, "deny");
}

static void
signatures_of_a_transaction_cover_its_commit(void **state)
{
	struct world *w = *state;

	changed_in_a_transaction(w);
	client_query(w, 1, 7, "COMMIT");
	assert_int_equal(leased(w).token.n, 0);
	{
		AUTO(json) struct json_doc *d = last(w, "action");
		const struct json *g = json_at(at(d, "decision", "grants"), 0);

		assert_state(json_str(at(d, "decision", "verdict")), "allow");
		assert_state(json_str(json_get(g, "person")), "dana");
		assert_state(json_str(json_get(g, "role")), "dba");
	}
}

static void
they_do_not_cover_another_change_in_the_same_text(void **state)
{
	struct world *w = *state;

	changed_in_a_transaction(w);
	client_query(w, 1, 7, "DELETE FROM u WHERE id = 2; COMMIT");
	assert_true(leased(w).token.n != 0);
	assert_verdict(w, "needs_approval");
}

static void
nothing_is_sent_before_the_consumption_is_durable(void **state)
{
	struct world *w = *state;

	armed(w);
	w->hold_writer = true;
	client_query(w, 1, 3, SQL);
	ack(w, &w->records[w->nrecords - 2]); /* consumed, the action not */
	settle(w);
	assert_true(silent(&w->upstream, MSG_U_SEND));
	end_close(&w->writer);
	settle(w);
	assert_state(refused(w).sqlstate, "57P03");
	assert_int_equal(newest(w)->state, CORE_RQ_CONSUMED); /* burnt, though nothing ran */
}

static void
the_owner_cannot_approve_and_the_attempt_is_recorded(void **state)
{
	struct world *w = *state;
	struct str text;
	AUTO(json) struct json_doc *d = NULL;

	asked(w);
	assert_int_equal(sign_with(w,
			     &(struct signing){.rq = only_request(w),
				 .decision = "approve",
				 .person = "olivia",
				 .role = "oncall",
				 .key = &w->olivia},
			     &text),
	    -ERR_SIGNATURE);
	assert_true(has(text, "separation_of_duties"));
	d = last(w, "approval.rejected");
	assert_state(json_str(json_get(json_root(d), "reason")), "separation_of_duties");
	assert_int_equal(only_request(w)->ngrants, 0);
}

static void
signatures_that_are_not_exactly_right_do_not_count(void **state)
{
	struct world *w = *state;
	struct person stranger;
	struct str text;
	const struct signing bad[] = {
	    {.person = "dana", .role = "dba", .key = &stranger},   /* not enrolled */
	    {.person = "dana", .role = "dba", .key = &w->omar},	   /* another person's key */
	    {.person = "dana", .role = "oncall", .key = &w->dana}, /* a role she does not have */
	    {.person = "mallory", .role = "dba", .key = &w->dana}, /* nobody */
	    {.person = "dana", .role = "dba", .key = &w->dana, .ns = "file"},
	    {.person = "dana", .role = "dba", .key = &w->dana, .change = "x"},
	};

	asked(w);
	person_make(&stranger);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct signing s = bad[i];

		s.rq = only_request(w);
		s.decision = "approve";
		assert_int_equal(sign_with(w, &s, &text), -ERR_SIGNATURE);
		assert_int_equal(count(w, "approval.rejected"), i + 1);
	}
	assert_int_equal(only_request(w)->ngrants, 0);
	assert_int_equal(
	    call(w, "approve", "{\"id\":\"x\",\"person\":\"dana\",\"role\":\"dba\"}", &text),
	    -ERR_NOT_FOUND);
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), 0); /* the right one does */
	assert_int_equal(only_request(w)->ngrants, 1);
}

/* Signed over another history, by a person who was shown one: longer, of another root, of another
 * log. */
static void
a_statement_over_a_head_that_the_log_does_not_extend_does_not_count(void **state)
{
	struct world *w = *state;
	const struct core_request *rq;
	AUTO_FREE char *longer = NULL, *root = NULL, *other = NULL;
	const char *heads[3];
	struct str text, size, rest, origin;

	asked(w);
	rq = only_request(w);
	rest = str_z(rq->log_head);
	assert_true(str_cut(&rest, ' ', &origin) && str_cut(&rest, ' ', &size));
	heads[0] = longer =
	    xasprintf("%.*s 1%.*s %.*s", STR_ARG(origin), STR_ARG(size), STR_ARG(rest));
	heads[1] = root =
	    xasprintf("%.*s %.*s q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s=", STR_ARG(origin),
		STR_ARG(size));
	heads[2] = other = xasprintf("other.example/log %.*s %.*s", STR_ARG(size), STR_ARG(rest));
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		const struct signing s = {.rq = rq,
		    .decision = "approve",
		    .person = "dana",
		    .role = "dba",
		    .key = &w->dana,
		    .log_head = heads[i]};

		assert_int_equal(sign_with(w, &s, &text), -ERR_SIGNATURE);
		assert_int_equal(count(w, "approval.rejected"), i + 1);
	}
	assert_int_equal(rq->ngrants, 0);
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), 0);
	assert_int_equal(rq->ngrants, 1);
}

static void
a_name_alone_is_rejected(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *args = NULL;
	struct str text;

	asked(w);
	args =
	    xasprintf("{\"id\":\"%s\",\"person\":\"dana\",\"role\":\"dba\"}", only_request(w)->id);
	assert_int_equal(call(w, "approve", args, &text), -ERR_SIGNATURE);
	assert_true(has(text, "no_signature"));
	assert_int_equal(count(w, "approval.rejected"), 1);
}

static void
the_same_person_twice_is_one_person(void **state)
{
	struct world *w = *state;

	asked(w);
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), 0);
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), 0);
	assert_int_equal(count(w, "approval.grant"), 1);
	assert_int_equal(only_request(w)->state, CORE_RQ_PENDING);
}

static void
a_signature_that_cannot_be_recorded_does_not_count(void **state)
{
	struct world *w = *state;

	asked(w);
	end_close(&w->writer);
	settle(w);
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), -ERR_UNAVAILABLE);
	assert_int_equal(only_request(w)->ngrants, 0);
}

static void
one_denial_ends_it_and_the_next_attempt_is_a_linked_request_of_its_own(void **state)
{
	struct world *w = *state;

	armed(w);
	assert_int_equal(sign(w, "deny", "omar", "oncall", &w->omar), 0);
	assert_int_equal(only_request(w)->state, CORE_RQ_DENIED);
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), -ERR_STATE);
	client_query(w, 1, 3, SQL);
	assert_true(has(refused(w).hint, newest(w)->id));
	assert_int_equal(count(w, "approval.request"), 2);
	{
		AUTO(json) struct json_doc *d = last(w, "action");

		assert_non_null(at(d, "decision", "link"));
	}
}

static void
an_armed_request_can_be_revoked(void **state)
{
	struct world *w = *state;

	armed(w);
	assert_int_equal(sign(w, "revoke", "dana", "dba", &w->dana), 0);
	assert_int_equal(only_request(w)->state, CORE_RQ_VOID);
	client_query(w, 1, 3, SQL);
	(void)refused(w);
	assert_true(silent(&w->upstream, MSG_U_SEND));
}

/* --- ended ----------------------------------------------------------------------- */

static void
silence_is_not_consent(void **state)
{
	struct world *w = *state;
	struct core_request *rq;

	asked(w);
	rq = only_request(w);
	rq->approve_by_us = clock_wall_us() + 30000;
	core_approve_timer(rq);
	turn(w, 60);
	settle(w);
	assert_int_equal(rq->state, CORE_RQ_EXPIRED);
	assert_int_equal(count(w, "approval.expired"), 1);
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), -ERR_STATE);
}

static void
an_armed_request_expires_if_it_is_not_used(void **state)
{
	struct world *w = *state;
	struct core_request *rq;

	armed(w);
	rq = only_request(w);
	rq->use_by_us = clock_wall_us() + 30000;
	core_approve_timer(rq);
	turn(w, 60);
	settle(w);
	assert_int_equal(rq->state, CORE_RQ_EXPIRED);
	client_query(w, 1, 3, SQL);
	(void)refused(w);
	assert_true(silent(&w->upstream, MSG_U_SEND));
}

static void
another_policy_voids_what_was_signed_under_the_old(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *text = world_policy(w, NULL, 2);

	armed(w);
	core_boot_policy_use(w->c, world_parse(text));
	settle(w);
	assert_int_equal(only_request(w)->state, CORE_RQ_VOID);
	assert_int_equal(count(w, "approval.void"), 1);
	client_query(w, 1, 3, SQL);
	(void)refused(w);
	assert_true(silent(&w->upstream, MSG_U_SEND));
}

/* The parent's word on the policy, as a descriptor. */
static void
policy_comes(struct world *w, const char *path)
{
	struct err err;

	if (core_boot_fd(w->c, STR("policy"), open(path, O_RDONLY | O_CLOEXEC), &err) != 0)
		fail_msg("policy: %s", err.msg);
	settle(w);
}

static void
a_policy_that_is_taken_away_refuses_everything_until_it_is_back(void **state)
{
	struct world *w = *state;
	AUTO(policy) struct policy *p = world_parse(w->policy_text);
	AUTO_BUF struct buf bundle = BUF((size_t)4 << 20);
	AUTO_FREE char *path = xasprintf("%s/bundle", w->dir);
	struct err err;
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(policy_bundle(p, &bundle, &err), 0);
	assert_int_equal(write(fd, bundle.p, bundle.n), (ssize_t)bundle.n);
	(void)close(fd);
	armed(w);
	policy_comes(w, "/dev/null");
	assert_int_equal(count(w, "policy.unload"), 1);
	assert_int_equal(only_request(w)->state, CORE_RQ_VOID);
	client_query(w, 1, 3, "SELECT 1");
	assert_true(has(refused(w).message, "no policy is active"));
	assert_verdict(w, "deny");
	policy_comes(w, "/dev/null"); /* said again, nothing new */
	assert_int_equal(count(w, "policy.unload"), 1);
	policy_comes(w, path);
	assert_int_equal(count(w, "policy.load"), 1);
	client_query(w, 1, 4, "SELECT 1");
	(void)leased(w);
}

static void
a_policy_that_is_taken_away_in_flight_is_not_used_after(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	w->hold_writer = true;
	client_query(w, 1, 2, "DELETE FROM t WHERE id = 3"); /* judged, not recorded yet */
	policy_comes(w, "/dev/null");
	w->hold_writer = false;
	for (size_t i = 0, n = w->nrecords; i < n; i++)
		if (strcmp(w->records[i].type, "policy.unload") != 0 || i + 1 == n)
			ack(w, &w->records[i]);
	settle(w);
	client_query(w, 1, 3, SQL);
	assert_true(silent(&w->upstream, MSG_U_SEND));
}

/* --- the schema moves beneath it ------------------------------------------------- */

static void
a_schema_change_of_the_run_voids_what_was_shown_before(void **state)
{
	struct world *w = *state;

	armed(w);
	client_query(w, 1, 3, "CREATE TABLE s1.t (id int)");
	(void)leased(w);
	assert_int_equal(only_request(w)->state, CORE_RQ_VOID); /* not only when it is done */
	server_done(w, 1, 3, 1, 'I', 0);
	assert_string_equal(only_request(w)->reason, "the schema changed after it was shown");
	assert_int_equal(count(w, "approval.void"), 1);
	client_query(w, 1, 4, SQL);
	assert_true(has(refused(w).hint, newest(w)->id));
	assert_int_equal(count(w, "approval.request"), 2);
	assert_true(silent(&w->upstream, MSG_U_SEND));
}

static void
what_leaves_the_schema_alone_leaves_requests_alone(void **state)
{
	struct world *w = *state;

	armed(w);
	client_query(w, 1, 3, "INSERT INTO t VALUES (1)");
	(void)leased(w);
	server_done(w, 1, 3, 1, 'I', 1);
	assert_int_equal(only_request(w)->state, CORE_RQ_ARMED);
	client_query(w, 1, 4, "DROP TABLE t"); /* refused: it changes nothing */
	(void)refused(w);
	assert_int_equal(only_request(w)->state, CORE_RQ_ARMED);
	client_query(w, 1, 5, SQL);
	assert_int_equal(leased(w).wrap, 1);
}

static void
a_request_on_another_target_is_not_touched(void **state)
{
	struct world *w = *state;

	armed(w);
	free(only_request(w)->target);
	only_request(w)->target = xstrdup("elsewhere");
	client_query(w, 1, 3, "CREATE TABLE s1.t (id int)");
	(void)leased(w);
	server_done(w, 1, 3, 1, 'I', 0);
	assert_int_equal(only_request(w)->state, CORE_RQ_ARMED);
}

static void
what_was_shown_while_a_change_was_in_flight_is_void_when_it_is_done(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_ready(w, 2);
	client_query(w, 2, 2, "CREATE TABLE s1.t (id int)"); /* waits for a lock, say */
	(void)leased(w);
	client_query(w, 1, 2, SQL);
	(void)refused(w);
	assert_int_equal(only_request(w)->state, CORE_RQ_PENDING);
	server_done(w, 2, 2, 1, 'I', 0);
	assert_int_equal(only_request(w)->state, CORE_RQ_VOID);
}

static void
no_approval_is_used_while_another_connection_may_commit_a_change(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_ready(w, 2);
	client_query(w, 2, 2, "BEGIN; CREATE TABLE s1.t (id int)");
	(void)leased(w);
	server_done(w, 2, 2, 1, 'T', 0);
	client_query(w, 1, 2, SQL);
	(void)refused(w);
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), 0);
	assert_int_equal(sign(w, "approve", "omar", "oncall", &w->omar), 0);
	client_query(w, 1, 3, SQL);
	assert_true(has(refused(w).hint, newest(w)->id));
	assert_int_equal(count(w, "approval.consumed"), 0);
	assert_true(silent(&w->upstream, MSG_U_SEND));
	client_query(w, 2, 3, "ROLLBACK");
	(void)leased(w);
	server_done(w, 2, 3, 1, 'I', 0);
	assert_int_equal(newest(w)->state, CORE_RQ_PENDING); /* nothing came of it */
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), 0);
	assert_int_equal(sign(w, "approve", "omar", "oncall", &w->omar), 0);
	client_query(w, 1, 4, SQL);
	assert_int_equal(leased(w).wrap, 1);
}

/* --- the row limit --------------------------------------------------------------- */

static void
a_change_whose_rows_cannot_be_counted_is_refused_not_asked_for(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	client_query(
	    w, 1, 2, "WITH d AS (DELETE FROM t WHERE id = 1 RETURNING *) SELECT count(*) FROM d");
	assert_true(has(refused(w).message, "cannot be counted"));
	client_query(w, 1, 3, "DELETE FROM t WHERE id = 1; COMMIT");
	assert_true(has(refused(w).message, "transaction control"));
	assert_int_equal(count(w, "approval.request"), 0);
}

/* --- who may look ---------------------------------------------------------------- */

static void
only_people_of_the_policy_may_look(void **state)
{
	struct world *w = *state;
	struct str text;

	asked(w);
	person_connects(w, 61001); /* dana */
	assert_int_equal(call(w, "pending", "{}", &text), 0);
	assert_true(has(text, only_request(w)->id));
	person_connects(w, 61002);
	assert_int_equal(call(w, "pending", "{}", &text), -ERR_UNAUTHORISED);
	assert_int_equal(call(w, "status", "{}", &text), -ERR_UNAUTHORISED);
	person_connects(w, 0);
	assert_int_equal(call(w, "status", "{}", &text), 0);
	assert_int_equal(call(w, "no-such-verb", "{}", &text), -ERR_INVALID);
}

/* --- after a restart ------------------------------------------------------------- */

static void
tell_live_root(struct world *w, const char *type, const char *data, uint64_t seq, uint8_t first)
{
	AUTO_BUF struct buf body = BUF(1 << 16);
	AUTO_BUF struct buf b = BUF(1 << 17);
	uint8_t root[32] = {first};

	buf_printf(&body,
	    "{\"data\":%s,\"run\":\"%s\",\"seq\":%llu,\"time\":\"2026-01-01T00:00:00.000000Z\","
	    "\"type\":\"%s\"}",
	    data, w->run->id, (unsigned long long)seq, type);
	buf_lstr(&b, buf_str(&body));
	buf_put(&b, root, 32);
	say(&w->writer, MSG_W_LIVE, &b);
}

static void
tell_live(struct world *w, const char *type, const char *data, uint64_t seq)
{
	tell_live_root(w, type, data, seq, 7); /* as the records were acknowledged with */
}

static void
tell_all_live(struct world *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_has_prefix(str_z(w->records[i].type), "approval."))
			tell_live(w, w->records[i].type, w->records[i].data, i);
}

static void
requests_signatures_and_arming_come_back_from_the_log(void **state)
{
	struct world *w = *state;
	size_t n;

	armed(w);
	n = w->nrecords;
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	tell_live(w, "run.start", "{}", 0);
	tell_all_live(w, n);
	world_live(w);
	assert_int_equal(only_request(w)->state, CORE_RQ_ARMED);
	assert_string_equal(only_request(w)->show, SQL);
	client_query(w, 1, 3, SQL);
	assert_int_equal(leased(w).wrap, 1);
}

static void
a_consumed_request_stays_consumed_after_a_restart(void **state)
{
	struct world *w = *state;
	size_t n;

	armed(w);
	client_query(w, 1, 3, SQL);
	(void)leased(w);
	server_done(w, 1, 3, 1, 'I', 1);
	n = w->nrecords;
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	tell_live(w, "run.start", "{}", 0);
	tell_all_live(w, n);
	world_live(w);
	assert_int_equal(only_request(w)->state, CORE_RQ_CONSUMED);
	client_query(w, 1, 4, SQL);
	(void)refused(w);
	assert_true(silent(&w->upstream, MSG_U_SEND));
}

static void
a_quorum_whose_arming_was_not_recorded_is_armed_again(void **state)
{
	struct world *w = *state;
	size_t n;

	armed(w);
	n = w->nrecords;
	assert_string_equal(w->records[n - 1].type, "approval.armed");
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	tell_live(w, "run.start", "{}", 0);
	tell_all_live(w, n - 1);
	world_live(w);
	assert_int_equal(only_request(w)->state, CORE_RQ_ARMED);
	assert_int_equal(count(w, "approval.armed"), 2);
}

/* The same records, behind others than were there when people signed. */
static void
signatures_over_another_history_than_the_logs_void_their_request(void **state)
{
	struct world *w = *state;
	size_t n;

	armed(w);
	n = w->nrecords;
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	tell_live(w, "run.start", "{}", 0);
	for (size_t i = 0; i < n; i++)
		if (str_has_prefix(str_z(w->records[i].type), "approval."))
			tell_live_root(w, w->records[i].type, w->records[i].data, i, 8);
	world_live(w);
	assert_int_equal(only_request(w)->state, CORE_RQ_VOID);
	client_query(w, 1, 3, SQL);
	(void)refused(w);
	assert_true(silent(&w->upstream, MSG_U_SEND));
}

/* --- a log that somebody else appended to ----------------------------------------- */

/* A restart whose log has the first n records, and what `forge` adds. */
static void
restarted(struct world *w, size_t n, void (*forge)(struct world *w))
{
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	tell_live(w, "run.start", "{}", 0);
	tell_all_live(w, n);
	if (forge != NULL)
		forge(w);
	world_live(w);
}

static char *
copied(const struct world *w, const char *type)
{
	for (size_t i = w->nrecords; i-- > 0;)
		if (strcmp(w->records[i].type, type) == 0)
			return w->records[i].data;
	fail_msg("no record %s", type);
	return NULL;
}

static void
forge_grant(struct world *w, const char *person, const char *role, const char *signature)
{
	AUTO_FREE char *data = NULL;
	struct sig_pubkey key;
	struct err err;
	char at[CLOCK_TEXT_SIZE], fp[64];

	clock_format(only_request(w)->not_before_us + 1, at);
	assert_int_equal(
	    sig_pubkey_parse(
		str_z(strcmp(person, "dana") == 0 ? w->dana.line : w->omar.line), &key, &err),
	    0);
	sig_pubkey_fingerprint(&key, fp);
	data = xasprintf("{\"at\":\"%s\",\"id\":\"%s\",\"key\":\"%s\",\"person\":\"%s\","
			 "\"role\":\"%s\",\"signature\":\"%s\",\"statement\":\"00\"}",
	    at, only_request(w)->id, fp, person, role, signature);
	tell_live(w, "approval.grant", data, 100);
}

static void
forge_two(struct world *w)
{
	settle(w);
	forge_grant(w, "dana", "dba", "");
	forge_grant(w, "omar", "oncall", "-----BEGIN SSH SIGNATURE-----");
}

static void
forge_second(struct world *w)
{
	settle(w);
	forge_grant(w, "omar", "oncall", "");
}

static void
forge_armed(struct world *w)
{
	AUTO_FREE char *data = NULL;

	settle(w);
	data = xasprintf(
	    "{\"id\":\"%s\",\"use_by\":\"2040-01-01T00:00:00.000000Z\"}", only_request(w)->id);
	tell_live(w, "approval.armed", data, 100);
}

static void
assert_void(struct world *w, const char *reason)
{
	AUTO(json) struct json_doc *d = last(w, "approval.void");

	assert_int_equal(only_request(w)->state, CORE_RQ_VOID);
	assert_state(json_str(json_get(json_root(d), "reason")), reason);
	client_query(w, 1, 9, SQL);
	(void)refused(w);
	assert_true(silent(&w->upstream, MSG_U_SEND));
}

static void
a_forged_grant_in_the_log_voids_its_request(void **state)
{
	struct world *w = *state;

	asked(w);
	restarted(w, w->nrecords, forge_two);
	assert_int_equal(only_request(w)->ngrants, 0);
	assert_void(w, "signature does not verify");
}

static void
a_true_grant_beside_a_forged_one_does_not_save_it(void **state)
{
	struct world *w = *state;

	asked(w);
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), 0);
	restarted(w, w->nrecords, forge_second);
	assert_void(w, "signature does not verify");
}

static void
a_true_grant_alone_counts_after_a_restart_and_the_other_may_follow(void **state)
{
	struct world *w = *state;

	asked(w);
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), 0);
	restarted(w, w->nrecords, NULL);
	assert_int_equal(only_request(w)->state, CORE_RQ_PENDING);
	assert_int_equal(only_request(w)->ngrants, 1);
	assert_int_equal(sign(w, "approve", "omar", "oncall", &w->omar), 0);
	assert_int_equal(only_request(w)->state, CORE_RQ_ARMED);
}

/* dana's own signature, over this very request, but said to be omar's. */
static void
forge_renamed(struct world *w)
{
	AUTO_FREE char *data = xstrdup(copied(w, "approval.grant"));
	char *p = strstr(data, "\"person\":\"dana\"");

	memcpy(p, "\"person\":\"omar\"", strlen("\"person\":\"omar\""));
	tell_live(w, "approval.grant", data, 100);
}

static void
a_signature_in_another_persons_name_does_not_count(void **state)
{
	struct world *w = *state;

	asked(w);
	assert_int_equal(sign(w, "approve", "dana", "dba", &w->dana), 0);
	restarted(w, w->nrecords, forge_renamed);
	assert_void(w, "signature does not verify");
}

static void
arming_without_signatures_voids(void **state)
{
	struct world *w = *state;

	asked(w);
	restarted(w, w->nrecords, forge_armed);
	assert_void(w, "armed without its signatures");
}

static void
a_used_request_is_not_armed_again_by_a_record(void **state)
{
	struct world *w = *state;

	armed(w);
	client_query(w, 1, 3, SQL);
	(void)leased(w);
	server_done(w, 1, 3, 1, 'I', 1);
	restarted(w, w->nrecords, forge_armed);
	assert_int_equal(only_request(w)->state, CORE_RQ_CONSUMED);
}

static void
forge_denial(struct world *w)
{
	AUTO_FREE char *data = NULL;

	settle(w);
	data = xasprintf("{\"at\":\"2026-01-01T00:00:00.000000Z\",\"id\":\"%s\",\"person\":"
			 "\"omar\",\"role\":\"oncall\",\"signature\":\"x\"}",
	    only_request(w)->id);
	tell_live(w, "approval.deny", data, 100);
}

static void
a_denial_stays_and_a_forged_one_voids(void **state)
{
	struct world *w = *state;
	size_t n;

	asked(w);
	n = w->nrecords;
	assert_int_equal(sign(w, "deny", "omar", "oncall", &w->omar), 0);
	restarted(w, w->nrecords, NULL);
	assert_int_equal(only_request(w)->state, CORE_RQ_DENIED);
	assert_int_equal(count(w, "approval.void"), 0);
	restarted(w, n, forge_denial);
	assert_void(w, "signature does not verify");
}

static void
signatures_under_an_older_policy_stay_void(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *text = world_policy(w, NULL, 2);
	size_t n;

	armed(w);
	core_boot_policy_use(w->c, world_parse(text));
	settle(w);
	n = w->nrecords;
	restarted(w, n, NULL);
	assert_void(w, "policy_changed");
	assert_int_equal(count(w, "approval.void"), 1);
}

static void
a_live_record_that_is_not_of_the_form_ends_the_writers_wire(void **state)
{
	struct world *w = *state;

	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	tell_live(w, "run.start", "{}", 0);
	tell_live(w, "approval.request", "{\"id\":\"x\"}", 1);
	settle(w);
	assert_null(w->c->writer);
	assert_false(w->c->live);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    world_test(a_request_is_durable_before_the_client_hears_of_it),
	    world_test(the_same_action_is_the_same_request_and_another_is_not),
	    world_test(a_run_has_a_ceiling_of_open_requests_and_the_next_is_refused_and_recorded),
	    world_test(two_people_arm_it_and_it_passes_once_with_its_row_limit),
	    world_test(two_statements_of_a_transaction_are_signed_and_used_as_one),
	    world_test(the_first_of_two_is_not_committed_alone),
	    world_test(what_rollback_to_may_have_undone_is_not_committed_in_part),
	    world_test(signatures_of_a_transaction_cover_its_commit),
	    world_test(they_do_not_cover_another_change_in_the_same_text),
	    world_test(nothing_is_sent_before_the_consumption_is_durable),
	    world_test(the_owner_cannot_approve_and_the_attempt_is_recorded),
	    world_test(signatures_that_are_not_exactly_right_do_not_count),
	    world_test(a_statement_over_a_head_that_the_log_does_not_extend_does_not_count),
	    world_test(a_name_alone_is_rejected),
	    world_test(the_same_person_twice_is_one_person),
	    world_test(a_signature_that_cannot_be_recorded_does_not_count),
	    world_test(one_denial_ends_it_and_the_next_attempt_is_a_linked_request_of_its_own),
	    world_test(an_armed_request_can_be_revoked),
	    world_test(silence_is_not_consent),
	    world_test(an_armed_request_expires_if_it_is_not_used),
	    world_test(a_policy_that_is_taken_away_refuses_everything_until_it_is_back),
	    world_test(a_policy_that_is_taken_away_in_flight_is_not_used_after),
	    world_test(another_policy_voids_what_was_signed_under_the_old),
	    world_test(a_schema_change_of_the_run_voids_what_was_shown_before),
	    world_test(what_leaves_the_schema_alone_leaves_requests_alone),
	    world_test(a_request_on_another_target_is_not_touched),
	    world_test(what_was_shown_while_a_change_was_in_flight_is_void_when_it_is_done),
	    world_test(no_approval_is_used_while_another_connection_may_commit_a_change),
	    world_test(a_change_whose_rows_cannot_be_counted_is_refused_not_asked_for),
	    world_test(only_people_of_the_policy_may_look),
	    world_test(requests_signatures_and_arming_come_back_from_the_log),
	    world_test(signatures_over_another_history_than_the_logs_void_their_request),
	    world_test(a_consumed_request_stays_consumed_after_a_restart),
	    world_test(a_quorum_whose_arming_was_not_recorded_is_armed_again),
	    world_test(a_forged_grant_in_the_log_voids_its_request),
	    world_test(a_true_grant_beside_a_forged_one_does_not_save_it),
	    world_test(a_true_grant_alone_counts_after_a_restart_and_the_other_may_follow),
	    world_test(a_signature_in_another_persons_name_does_not_count),
	    world_test(arming_without_signatures_voids),
	    world_test(a_used_request_is_not_armed_again_by_a_record),
	    world_test(a_denial_stays_and_a_forged_one_voids),
	    world_test(signatures_under_an_older_policy_stay_void),
	    world_test(a_live_record_that_is_not_of_the_form_ends_the_writers_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
