/*
 * WebAuthn assertions and attestations. Runs in core (a person approves in the console, core
 * checks), in the console and the command line. Everything here came through a browser: JSON and
 * CBOR are read strictly, nothing may be left over, and what a signature covers is what is
 * compared. A page can show another text than the one that is signed: docs/format-approval.md.
 */
#include "common/sig_webauthn.h"

#include "common/hash.h"
#include "common/json.h"
#include "common/sig_cose.h"
#include "common/sig_ecdsa.h"
#include "common/sig_int.h"

#include "common/banned.h"

#define CLIENT_DATA_MAX 2048
#define AUTH_DATA_MAX 2048
#define AUTH_HEAD 37 /* rpIdHash, flags, signCount */
#define ATTESTED 0x40
#define EXTENSIONS 0x80
#define AAGUID 16

/* --- base64url ------------------------------------------------------------------------- */

static void
put_b64url(struct buf *out, struct str s)
{
	AUTO_BUF struct buf b = BUF(2 * SIG_SSHSIG_MAX);

	enc_base64(&b, s);
	for (size_t i = 0; i < b.n && b.p[i] != '='; i++)
		buf_put_c(out, b.p[i] == '+' ? '-' : b.p[i] == '/' ? '_' : (char)b.p[i]);
}

static bool
take_b64url(struct str s, struct buf *out)
{
	AUTO_BUF struct buf b = BUF(2 * SIG_SSHSIG_MAX);

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == '+' || c == '/' || c == '=')
			return false;
		buf_put_c(&b, c == '-' ? '+' : c == '_' ? '/' : c);
	}
	while (b.n % 4 != 0 && !buf_over(&b))
		buf_put_c(&b, '=');
	return !buf_over(&b) && enc_unbase64(buf_str(&b), out);
}

/* --- key lines -------------------------------------------------------------------------- */

/* "https://HOST[:PORT]", as a browser writes an origin; its host is the relying party. */
static bool
origin_host(struct str origin, struct str *ret)
{
	static const char scheme[] = "https://";
	struct str s = origin, host;

	if (!str_has_prefix(s, scheme))
		return false;
	s = str_mem(s.p + sizeof(scheme) - 1, s.n - (sizeof(scheme) - 1));
	host = s;
	if (str_cut(&s, ':', &host)) {
		uint64_t port;

		if (!str_to_u64(s, 65535, &port) || port == 0 || port == 443)
			return false;
	}
	for (size_t i = 0; i < host.n; i++) {
		char c = host.p[i];

		if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.')
			return false;
	}
	*ret = host;
	return host.n != 0 && host.p[0] != '.' && host.p[host.n - 1] != '.';
}

int
sig_webauthn_line(struct str line, struct sig_pubkey *ret, struct buf *cred, struct err *err)
{
	AUTO_BUF struct buf id = BUF(SIG_CREDENTIAL_MAX);
	AUTO_BUF struct buf raw = BUF(256);
	struct str rest = {line.p + strlen("webauthn:"), line.n - strlen("webauthn:")};
	struct str origin = STR_NONE, text = STR_NONE, host;
	struct sig_pubkey k;
	struct rd r;

	if (!str_cut(&rest, ' ', &origin) || !str_cut(&rest, ' ', &text))
		return err_set(err, ERR_SIGNATURE,
		    "key must look like \"webauthn:https://HOST[:PORT] CREDENTIAL KEY\"");
	if (origin.n >= sizeof(k.application) || !origin_host(origin, &host))
		return err_set(err, ERR_SIGNATURE,
		    "origin must be https://HOST[:PORT] in lower case, of at most %zu characters, "
		    "is \"%s\"",
		    sizeof(k.application) - 1, sig_quote(origin).z);
	if (!take_b64url(text, &id) || id.n == 0)
		return err_set(err, ERR_SIGNATURE,
		    "credential must be 1 to %d bytes in base64url without padding",
		    SIG_CREDENTIAL_MAX);
	if (!take_b64url(rest, &raw))
		return err_set(err, ERR_SIGNATURE, "key is not base64url without padding");
	r = rd_init(buf_str(&raw));
	if (!cose_key_read(&r, &k) || !rd_end(&r))
		return err_set(
		    err, ERR_SIGNATURE, "key must be a COSE key of ES256 or EdDSA, canonical");
	memcpy(k.application, origin.p, origin.n);
	if (cred != NULL)
		buf_put_str(cred, buf_str(&id));
	*ret = k;
	return 0;
}

int
sig_webauthn_credential(struct str line, struct buf *ret, struct err *err)
{
	struct sig_pubkey k;

	if (!str_has_prefix(line, "webauthn:"))
		return err_set(err, ERR_SIGNATURE, "not a WebAuthn key");
	return sig_webauthn_line(line, &k, ret, err);
}

void
sig_webauthn_put(struct buf *out, const struct sig_pubkey *k, struct str credential)
{
	AUTO_BUF struct buf cose = BUF(256);

	cose_key_put(&cose, k);
	buf_printf(out, "webauthn:%s ", k->application);
	put_b64url(out, credential);
	buf_put_c(out, ' ');
	put_b64url(out, buf_str(&cose));
}

/* --- client data ------------------------------------------------------------------------- */

/* 5.8.1: an object that a browser wrote; members that we do not know are let be. */
static int
client_data_check(
    struct str text, const char *type, struct str challenge, const char *origin, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf want = BUF(256);
	const struct json *o, *cross;
	int rc = text.n <= CLIENT_DATA_MAX
		     ? json_parse(text, "client data", &doc, err)
		     : err_set(err, ERR_INVALID, "client data has %zu bytes, limit %d", text.n,
			   CLIENT_DATA_MAX);

	if (rc != 0)
		return err_set(err, ERR_SIGNATURE, "client data is not as a browser writes it");
	o = json_root(doc);
	cross = json_get(o, "crossOrigin");
	put_b64url(&want, challenge);
	if (json_type(o) != JSON_OBJECT || !str_eqz(json_str(json_get(o, "type")), type))
		return err_set(err, ERR_SIGNATURE, "client data's type must be \"%s\", is \"%s\"",
		    type, sig_quote(json_str(json_get(o, "type"))).z);
	if (!str_eq(json_str(json_get(o, "challenge")), buf_str(&want)))
		return err_set(err, ERR_SIGNATURE, "client data's challenge is not this text's");
	if (!str_eqz(json_str(json_get(o, "origin")), origin))
		return err_set(err, ERR_SIGNATURE, "origin is \"%s\", must be \"%s\"",
		    sig_quote(json_str(json_get(o, "origin"))).z, origin);
	if ((cross != NULL && (json_type(cross) != JSON_BOOL || json_bool(cross))) ||
	    json_get(o, "topOrigin") != NULL)
		return err_set(err, ERR_SIGNATURE, "signed inside a page of another origin");
	return 0;
}

/* --- authenticator data ---------------------------------------------------------------------- */

struct auth {
	struct rd rest; /* behind the head */
	uint8_t flags;
	uint32_t counter;
};

static int
auth_read(struct str data, const char *origin, struct auth *ret, struct err *err)
{
	struct rd r = rd_init(data);
	struct str hash = rd_bytes(&r, HASH_LEN), host = STR_NONE;
	struct hash rp;

	ret->flags = rd_u8(&r);
	ret->counter = rd_u32(&r);
	ret->rest = r;
	if (r.bad)
		return err_set(err, ERR_SIGNATURE, "authenticator data has %zu bytes, at least %d",
		    data.n, AUTH_HEAD);
	if (!origin_host(str_z(origin), &host))
		return err_set(err, ERR_SIGNATURE, "origin must be https://HOST[:PORT], is \"%s\"",
		    sig_quote(str_z(origin)).z);
	rp = hash_sha256(host);
	if (hash.n != HASH_LEN || memcmp(hash.p, rp.b, HASH_LEN) != 0)
		return err_set(err, ERR_SIGNATURE, "relying party is not \"%.*s\"", STR_ARG(host));
	if ((ret->flags & SIG_TOUCHED) == 0 || (ret->flags & SIG_VERIFIED) == 0)
		return err_set(err, ERR_SIGNATURE,
		    "person was not there or not verified (flags 0x%02x, must have 0x05)",
		    ret->flags);
	return 0;
}

/* Behind what comes before: one map of extensions if the flag says so, and nothing else. */
static bool
auth_end(struct auth *a)
{
	if ((a->flags & EXTENSIONS) != 0) {
		struct rd look = a->rest;
		enum cbor_major m;
		uint64_t n;

		if (!cbor_head(&look, &m, &n) || m != CBOR_MAP || !cbor_skip(&a->rest))
			return false;
	}
	return rd_end(&a->rest);
}

/* --- assertions --------------------------------------------------------------------------------
 */

struct assertion {
	struct buf auth, client, sig;
};

static void
assertion_free(struct assertion *a)
{
	buf_free(&a->auth);
	buf_free(&a->client);
	buf_free(&a->sig);
}

static int
assertion_read(struct str text, struct assertion *a, struct err *err)
{
	static const char *const known[] = {
	    "authenticator_data", "client_data", "credential", "signature"};
	struct buf *const into[] = {&a->auth, &a->client, NULL, &a->sig};
	AUTO_BUF struct buf cred = BUF(SIG_CREDENTIAL_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	const struct json *o;
	size_t found = 0;

	if (text.n > SIG_SSHSIG_MAX)
		return err_set(err, ERR_SIGNATURE, "assertion must be at most %d bytes, is %zu",
		    SIG_SSHSIG_MAX, text.n);
	if (json_parse(text, "assertion", &doc, err) != 0)
		return err_set(err, ERR_SIGNATURE, "assertion is not JSON");
	o = json_root(doc);
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		const struct json *v = json_get(o, known[i]);

		if (v == NULL && into[i] == NULL)
			continue;
		if (json_type(v) != JSON_STRING ||
		    !take_b64url(json_str(v), into[i] != NULL ? into[i] : &cred))
			return err_set(err, ERR_SIGNATURE,
			    "assertion's %s must be base64url without padding", known[i]);
		found++;
	}
	if (found != json_count(o))
		return err_set(err, ERR_SIGNATURE, "assertion has a member that is not known");
	return 0;
}

static bool
matches(const struct sig_pubkey *k, struct str data, struct str sig)
{
	if (k->alg == SIG_ED25519)
		return sig.n == SIG_ED25519_SIG &&
		       sig_ed25519_verify(k->pub, data, (const uint8_t *)sig.p);
	return sig_ecdsa_verify_der(k->alg, k->pub, data, sig);
}

/* 7.2, for one key. */
static int
assertion_check(const struct assertion *a, struct str msg, const struct sig_pubkey *k,
    struct sig_sshsig *ret, struct err *err)
{
	AUTO_BUF struct buf data = BUF(AUTH_DATA_MAX + HASH_LEN);
	struct hash challenge = hash_sha256(msg), client = hash_sha256(buf_str(&a->client));
	struct auth auth;
	int rc = client_data_check(buf_str(&a->client), "webauthn.get",
	    str_mem(challenge.b, HASH_LEN), k->application, err);

	if (rc == 0)
		rc = auth_read(buf_str(&a->auth), k->application, &auth, err);
	if (rc != 0)
		return rc;
	if ((auth.flags & ATTESTED) != 0 || !auth_end(&auth))
		return err_set(err, ERR_SIGNATURE, "authenticator data has bytes left over");
	buf_put_str(&data, buf_str(&a->auth));
	buf_put(&data, client.b, HASH_LEN);
	if (buf_over(&data) || !matches(k, buf_str(&data), buf_str(&a->sig)))
		return err_set(err, ERR_SIGNATURE, "signature does not match the text and the key");
	*ret = (struct sig_sshsig){.key = *k, .flags = auth.flags, .counter = auth.counter};
	return 0;
}

int
sig_webauthn_verify(struct str assertion, struct str msg, const struct sig_pubkey *keys,
    size_t nkeys, struct sig_sshsig *ret, struct err *err)
{
	__attribute__((cleanup(assertion_free))) struct assertion a = {
	    .auth = BUF(AUTH_DATA_MAX), .client = BUF(CLIENT_DATA_MAX + 1), .sig = BUF(256)};
	int rc = assertion_read(assertion, &a, err);

	if (rc != 0)
		return rc;
	rc = err_set(err, ERR_SIGNATURE, "person has no WebAuthn key in the policy");
	for (size_t i = 0; i < nkeys && rc != 0; i++)
		if (keys[i].form == SIG_FORM_WEBAUTHN)
			rc = assertion_check(&a, msg, &keys[i], ret, err);
	return rc;
}

/* --- enrolment ---------------------------------------------------------------------------------
 */

/* 6.5.4: {"fmt": text, "attStmt": anything, "authData": bytes}, in any order. */
static bool
attestation_read(struct str object, struct str *ret_auth)
{
	struct rd r = rd_init(object);
	enum cbor_major m;
	uint64_t n;
	bool found = false;

	if (!cbor_head(&r, &m, &n) || m != CBOR_MAP || n != 3)
		return false;
	for (unsigned i = 0; i < 3; i++) {
		struct str key;

		if (!cbor_string(&r, CBOR_TEXT, &key))
			return false;
		if (str_eqz(key, "authData") && !found) {
			found = cbor_string(&r, CBOR_BYTES, ret_auth);
			if (!found)
				return false;
		} else if ((!str_eqz(key, "fmt") && !str_eqz(key, "attStmt")) || !cbor_skip(&r)) {
			return false;
		}
	}
	return found && rd_end(&r);
}

int
sig_webauthn_enrol(struct str attestation, struct str client_data, struct str challenge,
    const char *origin, struct sig_pubkey *ret, struct buf *credential, struct err *err)
{
	struct str data, id;
	struct auth auth;
	struct sig_pubkey k;
	int rc = client_data_check(client_data, "webauthn.create", challenge, origin, err);

	if (rc != 0)
		return rc;
	if (!attestation_read(attestation, &data))
		return err_set(err, ERR_SIGNATURE, "attestation object is malformed");
	rc = auth_read(data, origin, &auth, err);
	if (rc != 0)
		return rc;
	(void)rd_bytes(&auth.rest, AAGUID);
	id = rd_bytes(&auth.rest, rd_u16(&auth.rest));
	if ((auth.flags & ATTESTED) == 0 || auth.rest.bad || id.n == 0 || id.n > SIG_CREDENTIAL_MAX)
		return err_set(err, ERR_SIGNATURE, "authenticator data holds no new credential");
	if (!cose_key_read(&auth.rest, &k) || !auth_end(&auth))
		return err_set(err, ERR_SIGNATURE,
		    "the new key must be a COSE key of ES256 or EdDSA, with nothing behind");
	if (strlen(origin) >= sizeof(k.application))
		return err_set(
		    err, ERR_TOO_LARGE, "origin is over %zu characters", sizeof(k.application) - 1);
	memcpy(k.application, origin, strlen(origin));
	buf_put_str(credential, id);
	*ret = k;
	return 0;
}
