/*
 * Invitations and enrolments (process: core). An invitation is signed over bytes that core builds,
 * is used once, within a day, and dies with this process. Its link has a secret that is neither
 * signed nor recorded, so that who reads the log cannot use it. What the new authenticator said is
 * read here, and what comes out counts for nothing until the policy has it: a console, or an
 * authenticator, that lies gets no further than into a review.
 */
#include "broker/core_enrol.h"

#include <stdlib.h>

#include "broker/core_record.h"
#include "broker/core_sign.h"
#include "common/log.h"
#include "common/sig_webauthn.h"
#include "common/xalloc.h"
#include "policy/invite.h"

#include "common/banned.h"

#define SECOND INT64_C(1000000)
#define TOKEN_LEN 32
#define BODY_MAX ((size_t)16384)
#define KEY_LINE_MAX ((size_t)4096)

static void
invite_end(struct core_invite *v)
{
	free(v->person);
	*v = (struct core_invite){.person = NULL};
}

void
core_enrol_free_all(struct core_desk *d)
{
	for (size_t i = 0; i < CORE_INVITES_MAX; i++)
		invite_end(&d->invites[i]);
}

/* Those that are over go, then a free place; NULL: there is none. */
static struct core_invite *
invite_place(struct core_desk *d)
{
	struct core_invite *found = NULL;

	for (size_t i = 0; i < CORE_INVITES_MAX; i++) {
		struct core_invite *v = &d->invites[i];

		if (v->id[0] != '\0' && !v->busy && clock_wall_us() >= v->until_us)
			invite_end(v);
		if (v->id[0] == '\0')
			found = v;
	}
	return found;
}

static struct core_invite *
invite_find(struct core_desk *d, struct str id)
{
	for (size_t i = 0; id.n != 0 && i < CORE_INVITES_MAX; i++)
		if (str_eqz(id, d->invites[i].id))
			return &d->invites[i];
	return NULL;
}

/* --- inviting ---------------------------------------------------------------------- */

static struct invite
invite_of(const struct core *c, const struct core_invite *v, char broker[80], struct str signer)
{
	core_sign_broker(broker, c);
	return (struct invite){.broker = str_z(broker),
	    .id = str_z(v->id),
	    .origin = core_desk_origin_text(c->desk),
	    .person = str_z(v->person),
	    .until_us = v->until_us,
	    .signer = signer};
}

/* Who there is, when somebody is asked for who is not. */
static int
unknown_person(const struct policy *p, struct str person, struct err *err)
{
	AUTO_BUF struct buf b = BUF(512);
	size_t n = policy_person_count(p), i = 0;

	for (; i < n && b.n < 200; i++) {
		struct str id = policy_person_at(p, i)->id;

		buf_printf(&b, "%s%.*s", i != 0 ? ", " : "", STR_ARG(id));
	}
	if (i < n)
		buf_printf(&b, " and %zu more", n - i);
	return err_set(err, ERR_NOT_FOUND,
	    "\"%.*s\" is no person of the policy: there are %.*s; who is to come stands in the "
	    "policy "
	    "first, without keys",
	    STR_ARG(person), STR_ARG(buf_str(&b)));
}

int
core_enrol_verb_invite(struct core_call *call, struct err *err)
{
	struct core *c = call->core;
	struct str person = json_str(json_get(call->args, "person"));
	struct core_invite *v = invite_place(c->desk);
	char broker[80];

	if (core_desk_origin_text(c->desk).n == 0)
		return err_set(
		    err, ERR_STATE, "broker.json has no \"console\": nobody could enrol");
	if (!invite_person_ok(person))
		return err_set(err, ERR_INVALID,
		    "a person has 1 to %d of A-Z a-z 0-9 . _ -, as in the policy", POLICY_ID_MAX);
	if (c->policy != NULL && policy_person(c->policy, person) == NULL)
		return unknown_person(c->policy, person, err);
	if (v == NULL)
		return err_set(
		    err, ERR_TOO_LARGE, "%d invitations are open, the limit", CORE_INVITES_MAX);
	core_id(v->id, "");
	v->person = str_dup(person);
	v->until_us = (clock_wall_us() / SECOND + INVITE_VALID_S) * SECOND;
	core_sign_broker(broker, c);
	jcs_z(&call->j, "broker", broker);
	jcs_z(&call->j, "id", v->id);
	jcs_str(&call->j, "origin", core_desk_origin_text(c->desk));
	jcs_z(&call->j, "person", v->person);
	jcs_int(&call->j, "until_us", v->until_us);
	return 0;
}

/* One record on its way. */
struct enrol {
	struct core *core;
	uint64_t peer;
	char id[CORE_ID_SIZE];
	char token[2 * TOKEN_LEN + 1]; /* of an invitation that was signed */
	char *key, fingerprint[64];    /* of an enrolment */
};

static void
enrol_free(struct enrol *e)
{
	if (e == NULL)
		return;
	explicit_bzero(e->token, sizeof(e->token));
	free(e->key);
	free(e);
}
DEFINE_AUTO(enrol, struct enrol, enrol_free)

static struct enrol *
enrol_new(const struct core_call *call, const struct core_invite *v)
{
	struct enrol *e = xcalloc(1, sizeof(*e));

	e->core = call->core;
	e->peer = call->peer;
	memcpy(e->id, v->id, sizeof(e->id));
	return e;
}

static void
invite_acked(void *arg, const struct core_ack *ack)
{
	AUTO(enrol) struct enrol *e = arg;
	struct core_invite *v = invite_find(e->core->desk, str_z(e->id));
	AUTO_BUF struct buf b = BUF(2048);
	AUTO_FREE char *url = xasprintf("%s/enrol#%s", e->core->desk->origin, e->token);
	char until[CLOCK_TEXT_SIZE];
	struct jcs j;

	if (v != NULL)
		v->busy = false;
	if (ack->code != 0 || v == NULL) {
		core_control_reply(e->core, e->peer, ERR_UNAVAILABLE,
		    STR("the decision log is not available: nobody is invited"));
		return;
	}
	v->open = true;
	v->token = hash_sha256(str_z(e->token));
	clock_format_s(v->until_us, until);
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_z(&j, "person", v->person);
	jcs_z(&j, "until", until);
	jcs_z(&j, "url", url);
	jcs_close(&j);
	core_control_reply(e->core, e->peer, 0, buf_str(&b));
}

static void
data_invite(struct buf *out, const struct core_invite *v, struct str signer, struct str fp,
    struct str signature, const struct hash *statement)
{
	char at[CLOCK_TEXT_SIZE], until[CLOCK_TEXT_SIZE];
	struct jcs j;

	clock_format(clock_wall_us(), at);
	clock_format_s(v->until_us, until);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "at", at);
	jcs_z(&j, "id", v->id);
	jcs_str(&j, "key", fp);
	jcs_z(&j, "person", v->person);
	jcs_str_lossy(&j, "signature", signature);
	jcs_str(&j, "signer", signer);
	jcs_hex(&j, "statement", statement->b, HASH_LEN);
	jcs_z(&j, "until", until);
	jcs_close(&j);
}

/* The reason why it does not count, or NULL. */
static const char *
reject(const struct core_call *call, const struct core_invite *v, struct hash *statement,
    char fp[64], struct err *why)
{
	struct core *c = call->core;
	struct str signer = json_str(json_get(call->args, "person"));
	struct str signature = json_str(json_get(call->args, "signature"));
	AUTO_BUF struct buf bytes = BUF(STATEMENT_MAX);
	const struct policy_person *q;
	struct sig_sshsig sig;
	char broker[80];
	struct invite x = invite_of(c, v, broker, signer);
	const char *reason = core_sign_person(c->policy, signer, signature, &q, why);
	bool known;

	if (reason != NULL)
		return reason;
	if (!invite_may_sign(c->policy, signer)) {
		(void)err_set(
		    why, ERR_SIGNATURE, "%.*s is not one of the policy's owners", STR_ARG(signer));
		return "not_an_owner";
	}
	if (invite_bytes(&x, &bytes, why) != 0)
		return "statement";
	*statement = hash_sha256(buf_str(&bytes));
	reason = core_sign_verify(q, signature, buf_str(&bytes), &sig, &known, why);
	if (reason == NULL)
		sig_pubkey_fingerprint(&sig.key, fp);
	return reason;
}

static void
token_make(char out[2 * TOKEN_LEN + 1])
{
	AUTO_BUF struct buf hex = BUF(2 * TOKEN_LEN);
	uint8_t r[TOKEN_LEN];

	rand_bytes(r, sizeof(r));
	enc_hex(&hex, str_mem(r, sizeof(r)));
	explicit_bzero(r, sizeof(r));
	memcpy(out, hex.p, hex.n);
}

int
core_enrol_verb_sign(struct core_call *call, struct err *err)
{
	struct core *c = call->core;
	struct core_invite *v = invite_find(c->desk, json_str(json_get(call->args, "id")));
	AUTO_BUF struct buf b = BUF(16384);
	struct hash statement;
	struct err why = {0};
	struct enrol *e;
	char fp[64] = "";
	const char *reason;

	if (v == NULL || v->open || v->busy || clock_wall_us() >= v->until_us)
		return err_set(err, ERR_STATE, "there is no such invitation to sign: ask again");
	reason = reject(call, v, &statement, fp, &why);
	if (reason != NULL) {
		log_warn("invitation of %s: %s: %s", v->person, reason, why.msg);
		return err_set(err, ERR_SIGNATURE, "rejected: %s: %s", reason, why.msg);
	}
	data_invite(&b, v, json_str(json_get(call->args, "person")), str_z(fp),
	    json_str(json_get(call->args, "signature")), &statement);
	e = enrol_new(call, v);
	token_make(e->token);
	v->busy = true;
	if (core_record(c, &(struct core_append){.type = "console.invite",
			       .src = "human",
			       .flags = CORE_REC_CHECKPOINT,
			       .data = &b,
			       .fn = invite_acked,
			       .arg = e}) != NULL)
		return CORE_CALL_LATER;
	v->busy = false;
	enrol_free(e);
	return err_set(
	    err, ERR_UNAVAILABLE, "the decision log is not available: nobody is invited");
}

/* --- enrolling --------------------------------------------------------------------- */

static struct core_invite *
invite_open(const struct core_call *call, struct err *err)
{
	struct str token = json_str(json_get(call->args, "token"));
	struct hash h = hash_sha256(token);

	for (size_t i = 0; i < CORE_INVITES_MAX; i++) {
		struct core_invite *v = &call->core->desk->invites[i];

		if (v->open && !v->busy && hash_eq(&v->token, &h) && clock_wall_us() < v->until_us)
			return v;
	}
	(void)err_set(err, ERR_UNAUTHORISED,
	    "this invitation is not known here: it was used, is over, or the broker was restarted");
	return NULL;
}

/* What the new authenticator's challenge is, so that it is made for this invitation alone. */
static struct hash
challenge(const struct core *c, const struct core_invite *v)
{
	AUTO_BUF struct buf b = BUF(2048);
	char broker[80];

	core_sign_broker(broker, c);
	buf_printf(&b, "cofferdam-enrolment v1\nbroker: %s\norigin: %s\nid: %s\nperson: %s\nend\n",
	    broker, c->desk->origin, v->id, v->person);
	return hash_sha256(buf_str(&b));
}

int
core_enrol_begin(struct core_call *call, struct err *err)
{
	const struct core_invite *v = invite_open(call, err);
	struct hash h;

	if (v == NULL)
		return err->code;
	h = challenge(call->core, v);
	jcs_hex(&call->j, "challenge", h.b, HASH_LEN);
	jcs_z(&call->j, "person", v->person);
	return 0;
}

static void
enrol_acked(void *arg, const struct core_ack *ack)
{
	AUTO(enrol) struct enrol *e = arg;
	struct core_invite *v = invite_find(e->core->desk, str_z(e->id));
	AUTO_BUF struct buf b = BUF(8192);
	struct jcs j;

	if (ack->code != 0 || v == NULL) {
		if (v != NULL)
			v->busy = false;
		core_control_reply(e->core, e->peer, ERR_UNAVAILABLE,
		    STR("the decision log is not available: nothing was enrolled, try again"));
		return;
	}
	log_info(
	    "console: %s enrolled %s; it counts once the policy has it", v->person, e->fingerprint);
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_z(&j, "fingerprint", e->fingerprint);
	jcs_z(&j, "key", e->key);
	jcs_z(&j, "person", v->person);
	jcs_close(&j);
	core_control_reply(e->core, e->peer, 0, buf_str(&b));
	invite_end(v);
}

/* The line for the policy, from what the browser gave. */
static int
key_read(
    const struct core_call *call, const struct core_invite *v, struct enrol *e, struct err *err)
{
	const struct core *c = call->core;
	AUTO_BUF struct buf attestation = BUF(BODY_MAX);
	AUTO_BUF struct buf client = BUF(BODY_MAX);
	AUTO_BUF struct buf credential = BUF(SIG_CREDENTIAL_MAX);
	AUTO_BUF struct buf line = BUF(KEY_LINE_MAX);
	struct hash h = challenge(c, v);
	struct sig_pubkey key;
	int rc;

	if (!enc_unbase64(json_str(json_get(call->args, "attestation")), &attestation) ||
	    !enc_unbase64(json_str(json_get(call->args, "client_data")), &client))
		return err_set(err, ERR_INVALID, "attestation and client_data must be base64");
	rc = sig_webauthn_enrol(buf_str(&attestation), buf_str(&client), str_mem(h.b, HASH_LEN),
	    c->desk->origin, &key, &credential, err);
	if (rc != 0)
		return rc;
	sig_pubkey_put(&line, &key, buf_str(&credential));
	sig_pubkey_fingerprint(&key, e->fingerprint);
	e->key = buf_dup_z(&line);
	return 0;
}

int
core_enrol_make(struct core_call *call, struct err *err)
{
	struct core_invite *v = invite_open(call, err);
	AUTO_BUF struct buf b = BUF(16384);
	AUTO(enrol) struct enrol *e = NULL;
	char at[CLOCK_TEXT_SIZE];
	struct jcs j;
	int rc;

	if (v == NULL)
		return err->code;
	e = enrol_new(call, v);
	rc = key_read(call, v, e, err);
	if (rc != 0)
		return rc;
	clock_format(clock_wall_us(), at);
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_z(&j, "at", at);
	jcs_z(&j, "fingerprint", e->fingerprint);
	jcs_z(&j, "id", v->id);
	jcs_z(&j, "key", e->key);
	jcs_z(&j, "person", v->person);
	jcs_close(&j);
	if (core_record(call->core, &(struct core_append){.type = "console.enrol",
					.src = "human",
					.flags = CORE_REC_CHECKPOINT,
					.data = &b,
					.fn = enrol_acked,
					.arg = e}) == NULL)
		return err_set(err, ERR_UNAVAILABLE,
		    "the decision log is not available: nothing was enrolled, try again");
	v->busy = true;
	(void)TAKE_PTR(e);
	return CORE_CALL_LATER;
}
