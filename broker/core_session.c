/*
 * Sessions of people in their browsers (process: core). Signing in is an assertion over a text that
 * core builds: who, at which broker and console, with a nonce that is used once and soon. What
 * comes of it is a token that core knows by its hash alone, and that dies with the console's
 * process. It opens nothing but looking.
 */
#include <sodium.h>
#include <stdlib.h>

#include "broker/core_console.h"
#include "broker/core_sign.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define TOKEN_LEN 32

static void
session_end(struct core_session *s)
{
	free(s->person);
	*s = (struct core_session){.person = NULL};
}

void
core_session_end_all(struct core_desk *d)
{
	for (size_t i = 0; i < CORE_SESSIONS_MAX; i++)
		session_end(&d->sessions[i]);
}

static struct core_session *
session_find(struct core *c, struct str token)
{
	struct hash h = hash_sha256(token);
	struct core_session *found = NULL;

	/* All are compared, so that the time tells nothing of which. */
	for (size_t i = 0; i < CORE_SESSIONS_MAX; i++) {
		struct core_session *s = &c->desk->sessions[i];

		if (s->person != NULL && loop_now_ms(c->loop) >= s->until_ms)
			session_end(s);
		if (hash_eq(&s->token, &h) && s->person != NULL)
			found = s;
	}
	return token.n != 0 ? found : NULL;
}

const struct policy_person *
core_session_person(struct core *c, struct str token)
{
	const struct core_session *s = session_find(c, token);

	return s != NULL && c->policy != NULL ? policy_person(c->policy, str_z(s->person)) : NULL;
}

int64_t
core_session_left(struct core *c, struct str token)
{
	const struct core_session *s = session_find(c, token);

	return s != NULL ? (int64_t)(s->until_ms - loop_now_ms(c->loop)) / 1000 : 0;
}

void
core_session_close(struct core *c, struct str token)
{
	struct core_session *s = session_find(c, token);

	if (s != NULL)
		session_end(s);
}

/* --- signing in -------------------------------------------------------------------- */

/*
 * A nonce is 8 bytes of when it is over, 8 random ones and a MAC of both, so that those who only
 * begin leave nothing here that could run full.
 */
static void
nonce_mac(const struct core_desk *d, uint8_t nonce[CORE_NONCE_LEN])
{
	_Static_assert(CORE_NONCE_LEN == 16 + crypto_auth_BYTES, "the MAC is the rest");
	(void)crypto_auth(nonce + 16, nonce, 16, d->key);
}

static void
nonce_make(const struct core *c, uint8_t nonce[CORE_NONCE_LEN])
{
	uint64_t until = loop_now_ms(c->loop) + (uint64_t)CORE_SIGN_IN_S * 1000;

	for (unsigned i = 0; i < 8; i++)
		nonce[i] = (uint8_t)(until >> (56 - 8 * i));
	rand_bytes(nonce + 8, 8);
	nonce_mac(c->desk, nonce);
}

static int
nonce_check(const struct core *c, struct str hex, uint8_t nonce[CORE_NONCE_LEN],
    uint64_t *ret_until, struct err *err)
{
	AUTO_BUF struct buf b = BUF(CORE_NONCE_LEN);
	struct rd r;

	if (hex.n != (size_t)2 * CORE_NONCE_LEN || !enc_unhex(hex, &b) ||
	    crypto_auth_verify(b.p + 16, b.p, 16, c->desk->key) != 0)
		return err_set(
		    err, ERR_UNAUTHORISED, "there is no such sign-in under way: begin again");
	memcpy(nonce, b.p, CORE_NONCE_LEN);
	r = rd_init(str_mem(nonce, 8));
	*ret_until = rd_u64(&r);
	if (loop_now_ms(c->loop) >= *ret_until)
		return err_set(err, ERR_UNAUTHORISED, "the sign-in took over %d s: begin again",
		    CORE_SIGN_IN_S);
	for (size_t i = 0; i < CORE_SIGN_INS_MAX; i++)
		if (c->desk->used[i].until_ms != 0 &&
		    memcmp(c->desk->used[i].nonce, nonce, CORE_NONCE_LEN) == 0)
			return err_set(err, ERR_UNAUTHORISED, "this sign-in was used already");
	return 0;
}

static int
nonce_use(
    const struct core *c, const uint8_t nonce[CORE_NONCE_LEN], uint64_t until, struct err *err)
{
	for (size_t i = 0; i < CORE_SIGN_INS_MAX; i++) {
		struct core_used *u = &c->desk->used[i];

		if (loop_now_ms(c->loop) < u->until_ms)
			continue;
		u->until_ms = until;
		memcpy(u->nonce, nonce, CORE_NONCE_LEN);
		return 0;
	}
	return err_set(err, ERR_UNAVAILABLE, "over %d sign-ins in %d s, try again",
	    CORE_SIGN_INS_MAX, CORE_SIGN_IN_S);
}

/* Printable and without line ends: the origin was checked, the nonce is hexadecimal. */
static void
sign_in_text(const struct core *c, struct str nonce, struct buf *out)
{
	char broker[80];

	core_sign_broker(broker, c);
	buf_printf(out, "cofferdam-sign-in v1\nbroker: %s\norigin: %s\nnonce: %.*s\nend\n", broker,
	    c->desk->origin, STR_ARG(nonce));
}

int
core_session_begin(struct core_call *call, struct err *err)
{
	AUTO_BUF struct buf text = BUF(2048);
	AUTO_BUF struct buf hex = BUF((size_t)2 * CORE_NONCE_LEN);
	uint8_t nonce[CORE_NONCE_LEN];
	struct hash h;

	(void)err;
	nonce_make(call->core, nonce);
	enc_hex(&hex, str_mem(nonce, sizeof(nonce)));
	sign_in_text(call->core, buf_str(&hex), &text);
	h = hash_sha256(buf_str(&text));
	jcs_hex(&call->j, "challenge", h.b, HASH_LEN);
	jcs_str(&call->j, "nonce", buf_str(&hex));
	return 0;
}

/* The oldest goes when there is no room: somebody signs in again. */
static struct core_session *
session_new(struct core *c)
{
	struct core_session *s = &c->desk->sessions[0];

	for (size_t i = 0; i < CORE_SESSIONS_MAX; i++) {
		struct core_session *o = &c->desk->sessions[i];

		if (o->person == NULL)
			return o;
		if (o->until_ms < s->until_ms)
			s = o;
	}
	session_end(s);
	return s;
}

static void
session_open(struct core_call *call, const struct policy_person *q)
{
	AUTO_BUF struct buf hex = BUF(2 * TOKEN_LEN);
	struct core *c = call->core;
	struct core_session *s = session_new(c);
	uint8_t token[TOKEN_LEN];

	rand_bytes(token, sizeof(token));
	enc_hex(&hex, str_mem(token, sizeof(token)));
	explicit_bzero(token, sizeof(token));
	s->token = hash_sha256(buf_str(&hex));
	s->person = str_dup(q->id);
	s->until_ms = loop_now_ms(c->loop) + (uint64_t)CORE_SESSION_S * 1000;
	jcs_str(&call->j, "person", q->id);
	jcs_int(&call->j, "seconds", CORE_SESSION_S);
	jcs_str(&call->j, "session", buf_str(&hex));
}

int
core_session_open(struct core_call *call, struct err *err)
{
	struct core *c = call->core;
	struct str signature = json_str(json_get(call->args, "signature"));
	struct str hex = json_str(json_get(call->args, "nonce"));
	AUTO_BUF struct buf text = BUF(2048);
	uint8_t nonce[CORE_NONCE_LEN];
	const struct policy_person *q;
	struct sig_sshsig sig;
	struct err why = {0};
	const char *reason;
	uint64_t until = 0;
	bool known;
	int rc = nonce_check(c, hex, nonce, &until, err);

	if (rc != 0)
		return rc;
	sign_in_text(c, hex, &text);
	reason = core_sign_person(
	    c->policy, json_str(json_get(call->args, "person")), signature, &q, &why);
	if (reason == NULL)
		reason = core_sign_verify(q, signature, buf_str(&text), &sig, &known, &why);
	if (reason != NULL) {
		log_warn("console: a sign-in was refused: %s: %s", reason, why.msg);
		return err_set(err, ERR_UNAUTHORISED, "sign-in refused: %s: %s", reason, why.msg);
	}
	rc = nonce_use(c, nonce, until, err);
	if (rc != 0)
		return rc;
	log_info("console: %.*s signed in", STR_ARG(q->id));
	session_open(call, q);
	return 0;
}
