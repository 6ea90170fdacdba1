/*
 * Freezes, exceptions and break-glass in core: what holds when, what is durable before it acts,
 * what a forged log cannot make, and what the clock does to it.
 */
#include "tests/unit/core_help.h"

#include "broker/core_lift.h"
#include "broker/core_live.h"
#include "policy/lift.h"

#include "common/banned.h"

#define SQL "DELETE FROM t WHERE id = 17"
#define OTHER "UPDATE t SET v = 1 WHERE id = 17"
#define RULES                                                                              \
	"{\"id\":\"work\",\"permit\":{\"effects\":{\"only\":[\"@data\",\"@change\",\"@"    \
	"destructive\"]}}},"                                                               \
	"{\"id\":\"never\",\"forbid\":{\"effects\":{\"any\":[\"@escape\"]}},\"override\":" \
	"\"never\"},"                                                                      \
	"{\"id\":\"soft\",\"forbid\":{\"effects\":{\"any\":[\"delete\"]}},\"override\":"   \
	"\"exception\"},"                                                                  \
	"{\"id\":\"hard\",\"forbid\":{\"effects\":{\"any\":[\"schema\"]}},\"override\":"   \
	"\"breakglass\"}"

/* --- the policy --------------------------------------------------------------------- */

/* dana is the change-manager, olivia (who owns the run) another, omar may break the glass; their
 * keys are `omar_key`. */
static void
lift_policy(struct world *w, int serial, const char *more, const char *omar_key)
{
	AUTO_FREE char *text = xasprintf(
	    "{\"schema\":\"cofferdam-policy/"
	    "1\",\"policy\":\"t\",\"serial\":%d,\"clock\":\"trusted\",%s"
	    "\"targets\":{\"db\":{\"kind\":\"postgres\",\"env\":\"prod\",\"host\":\"127.0.0.1\","
	    "\"port\":5432,\"database\":\"app\",\"user\":\"agent\",\"credential\":\"cred\",\"tls\":"
	    "\"off\"}},\"people\":{\"olivia\":{\"roles\":[\"change-manager\",\"breakglass\"],"
	    "\"login\":["
	    "\"unix:olivia\"],\"keys\":[\"%s\"]},\"dana\":{\"roles\":[\"change-manager\"],"
	    "\"login\":["
	    "\"unix:dana\"],\"keys\":[\"%s\"]},\"omar\":{\"roles\":[\"breakglass\"],\"login\":["
	    "\"unix:omar\"],\"keys\":[\"%s\"]}},\"rules\":[" RULES "]}",
	    serial, more, w->olivia.line, w->dana.line, omar_key);

	core_boot_policy_use(w->c, world_parse(text));
	settle(w);
}

static int
setup(void **state)
{
	struct world *w = world_new();

	lift_policy(w, 2, "", w->omar.line);
	*state = w;
	return 0;
}

/* --- a person at the control socket ---------------------------------------------------- */

static void
send_call(struct world *w, const char *verb, struct str args)
{
	AUTO_BUF struct buf b = BUF(1 << 18);

	if (w->cli.fd <= 0)
		(void)core_peer_new(w->c, IPC_ROLE_CLI, end_open(&w->cli, IPC_ROLE_CLI), 0);
	buf_u32(&b, IPC_VERSION);
	buf_lz(&b, verb);
	buf_lstr(&b, args);
	say(&w->cli, MSG_Q_CALL, &b);
	settle(w);
}

static unsigned
reply(struct world *w, struct str *ret)
{
	struct rd r = heard(&w->cli, MSG_Q_REPLY);
	uint32_t code = rd_u32(&r);

	*ret = rd_lstr(&r);
	return code;
}

static struct core_lift *
newest(const struct world *w)
{
	struct core_lift *l = TAILQ_LAST(&w->c->lifts, core_lifts);

	assert_non_null(l);
	return l;
}

static unsigned
ask(struct world *w, const char *args, struct str *ret)
{
	send_call(w, "lift-request", str_z(args));
	return reply(w, ret);
}

static struct core_lift *
asked(struct world *w, const char *args)
{
	struct str text;

	if (ask(w, args, &text) != 0)
		fail_msg("%.*s", STR_ARG(text));
	return newest(w);
}

static char *
exception_args(int uses, const char *more)
{
	int64_t now = clock_wall_us(), to = now + INT64_C(3600000000);

	return xasprintf(
	    "{\"kind\":\"exception\",\"rule\":\"soft\",\"target\":\"db\",\"effects\":"
	    "\"delete\",\"from_us\":%lld,\"to_us\":%lld,\"uses\":%d,\"ticket\":\"C-1\","
	    "\"reason\":\"why\"%s}",
	    (long long)now, (long long)to, uses, more);
}

#define FREEZE "{\"kind\":\"freeze\",\"effects\":\"@destructive\",\"reason\":\"stop\"}"
#define GLASS                                                                                \
	"{\"kind\":\"breakglass\",\"target\":\"db\",\"effects\":\"schema\",\"seconds\":600," \
	"\"reason\":\"outage\"}"

struct signing {
	enum lift_decision d;
	const char *person, *role, *note;
	const struct person *key;
	int flags; /* -1: a software key; else those of a hardware key */
};

/* As openssh-portable PROTOCOL.u2f has it; the authenticator is this function. */
static void
hardware_sign(const struct person *p, struct str msg, uint8_t flags, struct buf *armor)
{
	AUTO_BUF struct buf tbs = BUF(1024), data = BUF(1024), blob = BUF(2048), key = BUF(512),
			    sig = BUF(512), b64 = BUF(8192);
	uint8_t h[64], s[64];
	struct hash app = hash_sha256(STR("ssh:")), m;

	hash_sha512(msg, h);
	buf_put_z(&tbs, "SSHSIG");
	put_sstr(&tbs, STR(STATEMENT_NAMESPACE));
	put_sstr(&tbs, STR(""));
	put_sstr(&tbs, STR("sha512"));
	put_sstr(&tbs, str_mem(h, 64));
	m = hash_sha256(buf_str(&tbs));
	buf_put(&data, app.b, HASH_LEN);
	buf_u8(&data, flags);
	buf_u32(&data, 7);
	buf_put(&data, m.b, HASH_LEN);
	(void)crypto_sign_detached(s, NULL, data.p, data.n, p->sec);
	put_sstr(&key, STR("sk-ssh-ed25519@openssh.com"));
	put_sstr(&key, str_mem(p->pub, 32));
	put_sstr(&key, STR("ssh:"));
	put_sstr(&sig, STR("sk-ssh-ed25519@openssh.com"));
	put_sstr(&sig, str_mem(s, 64));
	buf_u8(&sig, flags);
	buf_u32(&sig, 7);
	buf_put_z(&blob, "SSHSIG");
	buf_u32(&blob, 1);
	put_sstr(&blob, buf_str(&key));
	put_sstr(&blob, STR(STATEMENT_NAMESPACE));
	put_sstr(&blob, STR(""));
	put_sstr(&blob, STR("sha512"));
	put_sstr(&blob, buf_str(&sig));
	enc_base64(&b64, buf_str(&blob));
	buf_put_z(armor, "-----BEGIN SSH SIGNATURE-----\n");
	for (size_t i = 0; i < b64.n; i += 70)
		buf_printf(armor, "%.*s\n", (int)(b64.n - i < 70 ? b64.n - i : 70),
		    (const char *)b64.p + i);
	buf_put_z(armor, "-----END SSH SIGNATURE-----\n");
}

/* The call that `sign` makes, without waiting for the answer. */
static void
send_sign(struct world *w, const struct core_lift *l, const struct signing *s)
{
	AUTO_BUF struct buf bytes = BUF(STATEMENT_MAX), armor = BUF(8192), args = BUF(16384);
	struct core_lift_words words;
	struct lift x = core_lift_of(l, &words);
	struct jcs j;
	struct err err;

	if (lift_bytes(&x,
		&(struct lift_signer){.decision = s->d,
		    .role = str_z(s->role),
		    .person = str_z(s->person),
		    .note = str_z(s->note)},
		&bytes, &err) != 0)
		fail_msg("%s", err.msg);
	if (s->flags < 0)
		person_sign(s->key, STATEMENT_NAMESPACE, buf_str(&bytes), &armor);
	else
		hardware_sign(s->key, buf_str(&bytes), (uint8_t)s->flags, &armor);
	jcs_init(&j, &args);
	jcs_open(&j, NULL);
	jcs_z(&j, "decision", lift_decision_name(l->kind, s->d));
	jcs_z(&j, "id", l->id);
	jcs_str(&j, "note", str_z(s->note));
	jcs_z(&j, "person", s->person);
	jcs_z(&j, "role", s->role);
	jcs_str(&j, "signature", buf_str(&armor));
	jcs_close(&j);
	send_call(w, "lift-sign", buf_str(&args));
}

static unsigned
sign(struct world *w, enum lift_decision d, const char *person, const char *role,
    const struct person *key)
{
	struct str text;

	send_sign(w, newest(w),
	    &(struct signing){.d = d, .person = person, .role = role, .key = key, .flags = -1});
	return reply(w, &text);
}

static void
frozen(struct world *w)
{
	(void)asked(w, FREEZE);
	assert_int_equal(sign(w, LIFT_START, "omar", "any", &w->omar), 0);
	assert_int_equal(newest(w)->state, CORE_LIFT_FORCE);
}

static void
granted(struct world *w, int uses, const char *more)
{
	AUTO_FREE char *args = exception_args(uses, more);

	(void)asked(w, args);
	assert_int_equal(sign(w, LIFT_START, "dana", "change-manager", &w->dana), 0);
	assert_int_equal(newest(w)->state, CORE_LIFT_FORCE);
}

static void
broken(struct world *w, const char *person, const struct person *key)
{
	(void)asked(w, GLASS);
	assert_int_equal(sign(w, LIFT_START, person, "breakglass", key), 0);
	assert_int_equal(newest(w)->state, CORE_LIFT_FORCE);
}

/* One statement of the client: does it go upstream? If so the server does it. */
static bool
passes(struct world *w, const char *sql)
{
	static uint64_t act = 100;
	bool sent;

	client_query(w, 1, ++act, sql);
	sent = !silent(&w->upstream, MSG_U_SEND);
	if (!sent) {
		(void)refused(w);
		return false;
	}
	(void)leased(w);
	server_done(w, 1, act, 1, 'I', 1);
	(void)heard(&w->front, MSG_PG_DONE);
	return true;
}

/* --- freezes ------------------------------------------------------------------------ */

static void
a_freeze_holds_before_its_record_is_durable(void **state)
{
	struct world *w = *state;
	struct str text;
	size_t n;

	granted(w, 9, "");
	client_ready(w, 1);
	assert_true(passes(w, SQL));
	(void)asked(w, FREEZE);
	w->hold_writer = true;
	send_sign(w, newest(w),
	    &(struct signing){
		.d = LIFT_START, .person = "omar", .role = "any", .key = &w->omar, .flags = -1});
	assert_true(silent(&w->cli, MSG_Q_REPLY));
	assert_int_equal(newest(w)->state, CORE_LIFT_FORCE);
	n = w->nrecords;
	client_query(w, 1, 2, SQL);
	assert_verdict(w, "deny");
	assert_true(silent(&w->upstream, MSG_U_SEND));
	w->hold_writer = false;
	for (size_t i = n - 1; i < w->nrecords; i++)
		ack(w, &w->records[i]);
	settle(w);
	assert_int_equal(reply(w, &text), 0);
	(void)refused(w);
}

static void
one_person_alone_does_not_lift_a_freeze(void **state)
{
	struct world *w = *state;
	struct core_lift *l;

	frozen(w);
	l = newest(w);
	assert_int_equal(sign(w, LIFT_STOP, "dana", "any", &w->dana), 0);
	assert_int_equal(sign(w, LIFT_STOP, "dana", "any", &w->dana), 0); /* again: the same */
	assert_ptr_equal(newest(w), l);
	assert_int_equal(l->state, CORE_LIFT_FORCE);
	assert_int_equal(sign(w, LIFT_STOP, "omar", "any", &w->omar), 0);
	assert_true(TAILQ_EMPTY(&w->c->lifts));
	assert_int_equal(count(w, "freeze.end"), 1);
}

static void
what_nobody_signs_is_not_in_force_and_has_a_ceiling(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *args = exception_args(1, "");
	struct str text;

	for (int i = 0; i < CORE_LIFT_ASKED_BY_MAX; i++)
		(void)asked(w, args);
	assert_int_equal(ask(w, args, &text), -ERR_TOO_LARGE);
	assert_true(has(text, "the limits are 64 and 8"));
	(void)asked(w, GLASS); /* each kind has its own */
}

static void
what_was_asked_and_never_signed_does_not_keep_a_freeze_from_starting(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 3 * CORE_LIFT_ASKED_BY_MAX; i++)
		(void)asked(w, FREEZE);
	assert_int_equal(
	    core_lift_count(w->c, LIFT_KIND_FREEZE, CORE_LIFT_ASKED), CORE_LIFT_ASKED_BY_MAX);
	assert_int_equal(count(w, "freeze.end"), 2 * CORE_LIFT_ASKED_BY_MAX);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_FREEZE, CORE_LIFT_FORCE), 0);
	assert_int_equal(sign(w, LIFT_START, "dana", "any", &w->dana), 0);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_FREEZE, CORE_LIFT_FORCE), 1);
	for (int i = 0; i < 3 * CORE_LIFT_ASKED_BY_MAX; i++)
		(void)asked(w, FREEZE);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_FREEZE, CORE_LIFT_FORCE), 1);
}

static void
what_a_kind_does_not_have_is_refused(void **state)
{
	struct world *w = *state;
	struct str text;

	assert_int_equal(ask(w,
			     "{\"kind\":\"freeze\",\"effects\":\"delete\",\"reason\":\"x\","
			     "\"seconds\":5}",
			     &text),
	    -ERR_INVALID);
	assert_true(has(text, "a freeze has no seconds"));
	assert_int_equal(ask(w,
			     "{\"kind\":\"breakglass\",\"effects\":\"delete\",\"reason\":\"x\","
			     "\"target\":\"db\",\"seconds\":5,\"rule\":\"soft\"}",
			     &text),
	    -ERR_INVALID);
	assert_int_equal(ask(w, "{\"kind\":\"blessing\"}", &text), -ERR_INVALID);
	assert_true(TAILQ_EMPTY(&w->c->lifts));
}

/* --- exceptions ----------------------------------------------------------------------- */

static void
an_exception_acts_when_its_signature_is_durable(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *args = exception_args(1, "");
	struct str text;

	client_ready(w, 1);
	assert_false(passes(w, SQL));
	(void)asked(w, args);
	w->hold_writer = true;
	send_sign(w, newest(w),
	    &(struct signing){.d = LIFT_START,
		.person = "dana",
		.role = "change-manager",
		.key = &w->dana,
		.flags = -1});
	assert_int_equal(newest(w)->state, CORE_LIFT_ASKED);
	w->hold_writer = false;
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	assert_int_equal(reply(w, &text), 0);
	assert_int_equal(newest(w)->state, CORE_LIFT_FORCE);
	assert_true(passes(w, SQL));
	assert_false(passes(w, SQL));
}

static void
a_use_is_recorded_before_the_action_and_burnt_if_that_fails(void **state)
{
	struct world *w = *state;

	granted(w, 1, "");
	client_ready(w, 1);
	w->hold_writer = true;
	client_query(w, 1, 2, SQL);
	assert_string_equal(w->records[w->nrecords - 2].type, "exception.use");
	assert_int_equal(w->records[w->nrecords - 2].flags, CORE_REC_CHECKPOINT);
	assert_string_equal(w->records[w->nrecords - 1].type, "action");
	assert_true(silent(&w->upstream, MSG_U_SEND));
	assert_int_equal(newest(w)->used, 1);
	w->hold_writer = false;
	ack(w, &w->records[w->nrecords - 2]);
	ack(w, &w->records[w->nrecords - 1]);
	settle(w);
	(void)leased(w);
}

static void
an_owners_grant_does_not_help_their_own_run(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *args = exception_args(5, "");

	client_ready(w, 1);
	(void)asked(w, args);
	assert_int_equal(sign(w, LIFT_START, "olivia", "change-manager", &w->olivia), 0);
	assert_int_equal(newest(w)->state, CORE_LIFT_FORCE); /* for others' runs */
	assert_false(passes(w, SQL));
	free(w->run->owner);
	w->run->owner = xstrdup("omar");
	assert_true(passes(w, SQL));
}

static void
an_owner_cannot_grant_what_names_their_run(void **state)
{
	struct world *w = *state;
	AUTO_FREE char *more = xasprintf(",\"run\":\"%s\"", w->run->id);
	AUTO_FREE char *args = exception_args(5, more);
	struct str text;

	(void)asked(w, args);
	send_sign(w, newest(w),
	    &(struct signing){.d = LIFT_START,
		.person = "olivia",
		.role = "change-manager",
		.key = &w->olivia,
		.flags = -1});
	assert_int_equal(reply(w, &text), -ERR_SIGNATURE);
	assert_true(has(text, "separation_of_duties"));
	assert_int_equal(count(w, "exception.rejected"), 1);
	assert_int_equal(sign(w, LIFT_START, "dana", "change-manager", &w->dana), 0);
	client_ready(w, 1);
	assert_true(passes(w, SQL));
}

static void
a_freeze_is_not_lifted_by_an_exception(void **state)
{
	struct world *w = *state;

	granted(w, 5, "");
	client_ready(w, 1);
	assert_true(passes(w, SQL));
	frozen(w);
	assert_false(passes(w, SQL));
	assert_true(passes(w, OTHER)); /* the nearest that it does not name */
}

/* --- break-glass ---------------------------------------------------------------------- */

#define DDL "ALTER TABLE t ADD COLUMN x int"

static void
ones_own_glass_waits_for_a_second_person(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	broken(w, "olivia", &w->olivia);
	assert_false(passes(w, DDL));
	assert_int_equal(sign(w, LIFT_CONFIRM, "olivia", "any", &w->olivia), -ERR_SIGNATURE);
	assert_false(passes(w, DDL));
	assert_int_equal(sign(w, LIFT_CONFIRM, "dana", "any", &w->dana), 0);
	assert_true(passes(w, DDL));
}

static void
ones_own_glass_acts_when_nobody_answered_in_time(void **state)
{
	struct world *w = *state;

	lift_policy(
	    w, 3, "\"emergency\":{\"breakglass\":{\"answer_within\":\"0s\"}},", w->omar.line);
	client_ready(w, 1);
	broken(w, "olivia", &w->olivia);
	assert_true(passes(w, DDL));
}

static void
anothers_glass_acts_at_once_and_is_reviewed_by_another(void **state)
{
	struct world *w = *state;
	struct str text;

	client_ready(w, 1);
	broken(w, "omar", &w->omar);
	assert_true(passes(w, DDL));
	assert_false(passes(w, SQL)); /* a rule with another override */
	assert_int_equal(sign(w, LIFT_STOP, "dana", "any", &w->dana), 0);
	assert_int_equal(newest(w)->state, CORE_LIFT_REVIEW);
	assert_false(passes(w, DDL));
	(void)asked(w, GLASS);
	send_sign(w, newest(w),
	    &(struct signing){.d = LIFT_START,
		.person = "olivia",
		.role = "breakglass",
		.key = &w->olivia,
		.flags = -1});
	assert_int_equal(reply(w, &text), -ERR_STATE);
	assert_true(has(text, "must be reviewed first"));
}

static void
a_policy_may_ask_for_a_verified_hardware_key(void **state)
{
	struct world *w = *state;
	AUTO_BUF struct buf blob = BUF(512), line = BUF(1024);
	AUTO_FREE char *z = NULL;
	static const struct {
		int flags;
		const char *says;
	} tries[] = {{0, "signature"}, {4, "signature"}, {1, "user_verification"}, {5, NULL}};

	put_sstr(&blob, STR("sk-ssh-ed25519@openssh.com"));
	put_sstr(&blob, str_mem(w->omar.pub, 32));
	put_sstr(&blob, STR("ssh:"));
	buf_put_z(&line, "sk-ssh-ed25519@openssh.com ");
	enc_base64(&line, buf_str(&blob));
	z = buf_dup_z(&line);
	lift_policy(w, 3, "\"emergency\":{\"breakglass\":{\"key\":\"verified\"}},", z);
	(void)asked(w, GLASS);
	for (size_t i = 0; i < ARRAY_LEN(tries); i++) {
		struct str text;
		unsigned code;

		send_sign(w, newest(w),
		    &(struct signing){.d = LIFT_START,
			.person = "omar",
			.role = "breakglass",
			.key = &w->omar,
			.flags = tries[i].flags});
		code = reply(w, &text);
		if (tries[i].says == NULL)
			assert_int_equal(code, 0);
		else if (code == 0 || !has(text, tries[i].says))
			fail_msg("flags %d: %.*s", tries[i].flags, STR_ARG(text));
	}
	assert_int_equal(newest(w)->state, CORE_LIFT_FORCE);
}

/* --- after a restart -------------------------------------------------------------------- */

static void
tell_live(struct world *w, const char *type, const char *data, uint64_t seq)
{
	AUTO_BUF struct buf body = BUF(1 << 16);
	AUTO_BUF struct buf b = BUF(1 << 17);
	uint8_t root[32] = {7};

	buf_printf(&body,
	    "{\"data\":%s,\"run\":\"%s\",\"seq\":%llu,\"time\":\"2026-01-01T00:00:00.000000Z\","
	    "\"type\":\"%s\"}",
	    data, w->run->id, (unsigned long long)seq, type);
	buf_lstr(&b, buf_str(&body));
	buf_put(&b, root, 32);
	say(&w->writer, MSG_W_LIVE, &b);
}

/* A restart whose log has the records of the three kinds, but for `without`, each as `change` makes
 * it. */
static void
restarted(struct world *w, const char *without, char *(*change)(const char *type, char *data))
{
	size_t n = w->nrecords;
	uint64_t seq = 0;

	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	tell_live(w, "run.start", "{}", 0);
	for (size_t i = 0; i < n; i++) {
		const struct record *r = &w->records[i];
		AUTO_FREE char *data = xstrdup(r->data);
		struct str type = str_z(r->type);

		seq++; /* as ack() counted: every record so far was acknowledged once */
		if ((!str_has_prefix(type, "freeze.") && !str_has_prefix(type, "exception.") &&
			!str_has_prefix(type, "breakglass.")) ||
		    (without != NULL && strcmp(r->type, without) == 0))
			continue;
		if (change != NULL)
			data = change(r->type, data);
		tell_live(w, r->type, data, seq - 1);
	}
	world_live(w);
}

static char *
replaced(char *data, const char *from, const char *to)
{
	char *at = strstr(data, from), *z;

	if (at == NULL)
		return data;
	z = xasprintf("%.*s%s%s", (int)(at - data), data, to, at + strlen(from));
	free(data);
	return z;
}

static void
all_three_come_back_from_the_log(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	granted(w, 3, "");
	assert_true(passes(w, SQL));
	broken(w, "omar", &w->omar);
	restarted(w, NULL, NULL);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_EXCEPTION, CORE_LIFT_FORCE), 1);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_BREAKGLASS, CORE_LIFT_FORCE), 1);
	assert_int_equal(TAILQ_FIRST(&w->c->lifts)->used, 1);
	assert_int_equal(count(w, "exception.begin"), 1); /* it began once */
	assert_true(passes(w, SQL));
	assert_true(passes(w, DDL));
	frozen(w);
	restarted(w, NULL, NULL);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_FREEZE, CORE_LIFT_FORCE), 1);
	assert_false(passes(w, SQL));
}

static char *
more_uses(const char *type, char *data)
{
	return strcmp(type, "exception.request") == 0 ? replaced(data, "\"uses\":1", "\"uses\":900")
						      : data;
}

static char *
wider(const char *type, char *data)
{
	return strcmp(type, "breakglass.request") == 0
		   ? replaced(data, "\"seconds\":600", "\"seconds\":3600")
		   : data;
}

static char *
renamed(const char *type, char *data)
{
	(void)type;
	return replaced(data, "\"person\":\"dana\"", "\"person\":\"olivia\"");
}

static void
what_was_not_signed_so_does_not_come_back(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	granted(w, 1, "");
	restarted(w, NULL, more_uses);
	assert_true(TAILQ_EMPTY(&w->c->lifts));
	assert_false(passes(w, SQL));
	granted(w, 2, "");
	restarted(w, NULL, renamed);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_EXCEPTION, CORE_LIFT_FORCE), 0);
	assert_false(passes(w, SQL));
}

static void
a_grant_that_is_missing_or_was_never_made_lifts_nothing(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	granted(w, 2, "");
	restarted(w, "exception.sign", NULL); /* it says that it began, but nobody signed */
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_EXCEPTION, CORE_LIFT_FORCE), 0);
	assert_false(passes(w, SQL));
}

static void
a_glass_whose_signature_does_not_verify_must_be_reviewed(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	broken(w, "omar", &w->omar);
	restarted(w, NULL, wider);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_BREAKGLASS, CORE_LIFT_FORCE), 0);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_BREAKGLASS, CORE_LIFT_REVIEW), 1);
	assert_false(passes(w, DDL));
}

static char *
unsigned_freeze(const char *type, char *data)
{
	return strcmp(type, "freeze.sign") == 0
		   ? replaced(data, "\"person\":\"omar\"", "\"person\":\"dana\"")
		   : data;
}

static void
a_freeze_holds_although_its_signature_does_not_verify(void **state)
{
	struct world *w = *state;

	client_ready(w, 1);
	granted(w, 5, "");
	frozen(w);
	restarted(w, NULL, unsigned_freeze);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_FREEZE, CORE_LIFT_FORCE), 1);
	assert_false(passes(w, SQL));
}

static void
forge_lift(struct world *w, const char *person)
{
	AUTO_FREE char *data =
	    xasprintf("{\"at\":\"2026-01-01T00:00:00.000000Z\",\"decision\":\"lift\",\"id\":\"%s\","
		      "\"person\":\"%s\",\"role\":\"any\",\"signature\":\"x\"}",
		newest(w)->id, person);

	tell_live(w, "freeze.sign", data, 90);
}

static void
a_freeze_is_not_lifted_by_forged_signatures(void **state)
{
	struct world *w = *state;
	size_t n;

	client_ready(w, 1);
	granted(w, 5, "");
	frozen(w);
	n = w->nrecords;
	world_wire(w, &w->writer, IPC_ROLE_WRITER, "");
	tell_live(w, "run.start", "{}", 0);
	for (size_t i = 0; i < n; i++)
		if (str_has_prefix(str_z(w->records[i].type), "freeze."))
			tell_live(w, w->records[i].type, w->records[i].data, i);
	settle(w);
	forge_lift(w, "omar");
	forge_lift(w, "dana");
	world_live(w);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_FREEZE, CORE_LIFT_FORCE), 1);
	assert_int_equal(count(w, "freeze.end"), 0);
}

static void
another_policy_ends_what_loosens_and_keeps_a_freeze(void **state)
{
	struct world *w = *state;

	granted(w, 5, "");
	broken(w, "omar", &w->omar);
	frozen(w);
	lift_policy(w, 3, "", w->omar.line);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_EXCEPTION, CORE_LIFT_FORCE), 0);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_BREAKGLASS, CORE_LIFT_REVIEW), 1);
	assert_int_equal(core_lift_count(w->c, LIFT_KIND_FREEZE, CORE_LIFT_FORCE), 1);
}

/* --- the clock ---------------------------------------------------------------------------- */

static struct json_doc *
status(struct world *w)
{
	struct json_doc *d = NULL;
	struct str text;
	struct err err;

	send_call(w, "status", STR("{}"));
	assert_int_equal(reply(w, &text), 0);
	if (json_parse(text, "status", &d, &err) != 0)
		fail_msg("%s", err.msg);
	return d;
}

static void
a_clock_behind_the_log_is_frozen_and_says_so(void **state)
{
	struct world *w = *state;
	AUTO(json) struct json_doc *good = NULL, *bad = NULL;
	const struct json *why;

	client_ready(w, 1);
	granted(w, 5, "");
	assert_true(passes(w, SQL));
	good = status(w);
	assert_int_equal(json_count(json_get(json_root(good), "frozen")), 0);
	w->c->last_us = clock_wall_us() + INT64_C(90) * 1000000;
	bad = status(w);
	why = json_get(json_root(bad), "frozen");
	assert_int_equal(json_count(why), 1);
	assert_true(has(json_str(json_at(why, 0)), "behind"));
	assert_false(json_bool(json_get(json_get(json_root(bad), "clock"), "known")));
	assert_true(json_int(json_get(json_get(json_root(bad), "clock"), "behind_us")) > 0);
	assert_false(passes(w, SQL)); /* nor does anything lift while the time is not known */
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, world_teardown)
	const struct CMUnitTest tests[] = {
	    T(a_freeze_holds_before_its_record_is_durable),
	    T(one_person_alone_does_not_lift_a_freeze),
	    T(what_nobody_signs_is_not_in_force_and_has_a_ceiling),
	    T(what_was_asked_and_never_signed_does_not_keep_a_freeze_from_starting),
	    T(what_a_kind_does_not_have_is_refused),
	    T(an_exception_acts_when_its_signature_is_durable),
	    T(a_use_is_recorded_before_the_action_and_burnt_if_that_fails),
	    T(an_owners_grant_does_not_help_their_own_run),
	    T(an_owner_cannot_grant_what_names_their_run),
	    T(a_freeze_is_not_lifted_by_an_exception),
	    T(ones_own_glass_waits_for_a_second_person),
	    T(ones_own_glass_acts_when_nobody_answered_in_time),
	    T(anothers_glass_acts_at_once_and_is_reviewed_by_another),
	    T(a_policy_may_ask_for_a_verified_hardware_key),
	    T(all_three_come_back_from_the_log),
	    T(what_was_not_signed_so_does_not_come_back),
	    T(a_grant_that_is_missing_or_was_never_made_lifts_nothing),
	    T(a_glass_whose_signature_does_not_verify_must_be_reviewed),
	    T(a_freeze_holds_although_its_signature_does_not_verify),
	    T(a_freeze_is_not_lifted_by_forged_signatures),
	    T(another_policy_ends_what_loosens_and_keeps_a_freeze),
	    T(a_clock_behind_the_log_is_frozen_and_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
