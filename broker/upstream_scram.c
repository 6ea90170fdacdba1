/*
 * The SCRAM client. Runs in upstream. Trusts nothing the server says until its signature
 * has been checked. Password, salted password and keys live in struct secret only and go
 * when the exchange ends; they must never reach a log or a message.
 */
#include "broker/upstream_scram.h"

#include "common/ossl.h"
#include <openssl/hmac.h>

#include "common/hash.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define TEXT_MAX 4096
#define SALT_MAX 256
#define PASSWORD_MAX 1024

struct upstream_scram {
	struct secret *password, *salted;
	char *user, *nonce;
	struct buf bare;    /* client-first-message-bare */
	struct buf gs2;	    /* header, and the binding data: what c= carries */
	struct buf message; /* AuthMessage */
	bool proved;
};

static int
password_check(const struct secret *password, struct err *err)
{
	struct str s = secret_str(password);

	if (s.n == 0 || s.n > PASSWORD_MAX)
		return err_set(err, ERR_UNSUPPORTED,
		    "the credential's password has %zu bytes, must be 1 to %d", s.n, PASSWORD_MAX);
	if (!str_is_ascii_print(s))
		return err_set(err, ERR_UNSUPPORTED,
		    "the credential's password has a byte outside printable ASCII; SASLprep of "
		    "such passwords is not supported");
	return 0;
}

int
upstream_scram_new(struct secret *password, struct str user, const char *nonce,
    struct upstream_scram **ret, struct err *err)
{
	AUTO(upstream_scram) struct upstream_scram *s = xcalloc(1, sizeof(*s));
	uint8_t raw[18];

	s->password = password;
	buf_init(&s->bare, TEXT_MAX);
	buf_init(&s->gs2, TEXT_MAX);
	buf_init(&s->message, TEXT_MAX * 4);
	if (password_check(password, err) != 0)
		return err->code;
	s->user = str_dup(user);
	if (nonce != NULL) {
		s->nonce = xstrdup(nonce);
	} else {
		AUTO_BUF struct buf b = BUF(64);

		rand_bytes(raw, sizeof(raw));
		enc_base64(&b, str_mem(raw, sizeof(raw)));
		s->nonce = buf_dup_z(&b);
	}
	*ret = TAKE_PTR(s);
	return 0;
}

void
upstream_scram_free(struct upstream_scram *s)
{
	if (s == NULL)
		return;
	secret_free(s->password);
	secret_free(s->salted);
	free(s->user);
	free(s->nonce);
	buf_free(&s->bare);
	buf_free(&s->gs2);
	buf_free(&s->message);
	free(s);
}

static bool
is_offered(struct str offered, const char *mechanism)
{
	struct str one;

	while (str_cut(&offered, '\0', &one))
		if (one.n != 0 && str_eqz(one, mechanism))
			return true;
	return false;
}

int
upstream_scram_first(struct upstream_scram *s, struct str offered, struct str binding,
    const char **ret_mechanism, struct buf *out, struct err *err)
{
	bool plus = is_offered(offered, "SCRAM-SHA-256-PLUS") && binding.n != 0;
	const char *header = plus ? "p=tls-server-end-point,," : binding.n != 0 ? "y,," : "n,,";

	if (!plus && !is_offered(offered, "SCRAM-SHA-256"))
		return err_set(err, ERR_UNSUPPORTED,
		    "the server offers no SASL mechanism of ours: only SCRAM-SHA-256 and "
		    "SCRAM-SHA-256-PLUS are spoken");
	buf_printf(&s->bare, "n=%s,r=%s", s->user, s->nonce);
	buf_put_z(&s->gs2, header);
	buf_put_z(out, header);
	buf_put_str(out, buf_str(&s->bare));
	if (plus)
		buf_put_str(&s->gs2, binding);
	*ret_mechanism = plus ? "SCRAM-SHA-256-PLUS" : "SCRAM-SHA-256";
	return 0;
}

/* The value of attribute `name`, which must be the next one in *s. */
static bool
attribute(struct str *s, char name, struct str *ret)
{
	struct str one;

	if (!str_cut(s, ',', &one)) {
		one = *s;
		*s = STR_NONE;
	}
	if (one.n < 3 || one.p[0] != name || one.p[1] != '=')
		return false;
	*ret = str_mem(one.p + 2, one.n - 2);
	return true;
}

static int
server_first_parse(const struct upstream_scram *s, struct str text, struct str *nonce,
    struct buf *salt, uint64_t *iterations, struct err *err)
{
	struct str v;

	if (text.n > TEXT_MAX || !attribute(&text, 'r', nonce))
		return err_set(err, ERR_PROTOCOL, "SCRAM: malformed server-first message");
	if (!str_has_prefix(*nonce, s->nonce) || nonce->n <= strlen(s->nonce) ||
	    !str_is_ascii_print(*nonce))
		return err_set(err, ERR_PROTOCOL, "SCRAM: the server's nonce does not extend ours");
	if (!attribute(&text, 's', &v) || !enc_unbase64(v, salt))
		return err_set(
		    err, ERR_PROTOCOL, "SCRAM: malformed salt in the server-first message");
	if (!attribute(&text, 'i', &v) || !str_to_u64(v, UINT32_MAX, iterations))
		return err_set(err, ERR_PROTOCOL, "SCRAM: malformed iteration count");
	if (*iterations < SCRAM_ITERATIONS_MIN || *iterations > SCRAM_ITERATIONS_MAX)
		return err_set(err, ERR_UNSUPPORTED, "SCRAM: iteration count %u, must be %d to %d",
		    (unsigned)*iterations, SCRAM_ITERATIONS_MIN, SCRAM_ITERATIONS_MAX);
	if (text.n != 0)
		return err_set(
		    err, ERR_UNSUPPORTED, "SCRAM: unknown extension \"%.*s\"", STR_ARG(text));
	return 0;
}

static int
hmac(struct str key, struct str data, uint8_t *out, struct err *err)
{
	if (HMAC(EVP_sha256(), key.p, (int)key.n, (const unsigned char *)data.p, data.n, out,
		NULL) == NULL)
		return err_set(err, ERR_CRYPTO, "HMAC-SHA-256 failed");
	return 0;
}

static int
salt_password(
    struct upstream_scram *s, const struct buf *salt, uint64_t iterations, struct err *err)
{
	struct str pw = secret_str(s->password);

	s->salted = secret_new(HASH_LEN);
	if (PKCS5_PBKDF2_HMAC(pw.p, (int)pw.n, salt->p, (int)salt->n, (int)iterations, EVP_sha256(),
		HASH_LEN, secret_bytes(s->salted)) != 1)
		return err_set(err, ERR_CRYPTO, "PBKDF2 failed");
	secret_free(s->password);
	s->password = NULL;
	return 0;
}

/* ClientProof = ClientKey XOR HMAC(H(ClientKey), AuthMessage). The proof itself is no secret. */
static int
client_proof(struct upstream_scram *s, struct buf *out, struct err *err)
{
	AUTO(secret) struct secret *key = secret_new(HASH_LEN);
	uint8_t proof[HASH_LEN];
	struct hash stored;

	if (hmac(secret_str(s->salted), STR("Client Key"), secret_bytes(key), err) != 0)
		return err->code;
	stored = hash_sha256(secret_str(key));
	if (hmac(str_mem(stored.b, HASH_LEN), buf_str(&s->message), proof, err) != 0)
		return err->code;
	for (size_t i = 0; i < HASH_LEN; i++)
		proof[i] ^= secret_bytes(key)[i];
	enc_base64(out, str_mem(proof, HASH_LEN));
	return 0;
}

int
upstream_scram_continue(
    struct upstream_scram *s, struct str server_first, struct buf *out, struct err *err)
{
	AUTO_BUF struct buf salt = BUF(SALT_MAX);
	AUTO_BUF struct buf final = BUF(TEXT_MAX);
	struct str nonce = STR("");
	uint64_t iterations = 0;

	if (s->password == NULL || s->bare.n == 0)
		return err_set(err, ERR_PROTOCOL, "SCRAM: a server-first message out of order");
	if (server_first_parse(s, server_first, &nonce, &salt, &iterations, err) != 0)
		return err->code;
	if (salt_password(s, &salt, iterations, err) != 0)
		return err->code;
	buf_put_z(&final, "c=");
	enc_base64(&final, buf_str(&s->gs2));
	buf_printf(&final, ",r=%.*s", STR_ARG(nonce));
	buf_printf(&s->message, "%.*s,%.*s,", STR_ARG(buf_str(&s->bare)), STR_ARG(server_first));
	buf_put_str(&s->message, buf_str(&final));
	buf_put_z(&final, ",p=");
	if (client_proof(s, &final, err) != 0)
		return err->code;
	if (buf_over(&final)) /* what it is made of is shorter: the other cannot be */
		return err_set(
		    err, ERR_TOO_LARGE, "SCRAM: a message is larger than %d bytes", TEXT_MAX);
	buf_put_str(out, buf_str(&final));
	return 0;
}

int
upstream_scram_finish(struct upstream_scram *s, struct str server_final, struct err *err)
{
	AUTO(secret) struct secret *key = secret_new(HASH_LEN);
	AUTO_BUF struct buf got = BUF(TEXT_MAX);
	struct str v, rest = server_final;
	struct hash want;

	if (s->salted == NULL)
		return err_set(err, ERR_PROTOCOL, "SCRAM: a server-final message out of order");
	if (attribute(&rest, 'e', &v))
		return err_set(
		    err, ERR_UNAUTHORISED, "SCRAM: the server refuses: %.*s", STR_ARG(v));
	rest = server_final;
	if (!attribute(&rest, 'v', &v) || rest.n != 0 || !enc_unbase64(v, &got) ||
	    got.n != HASH_LEN)
		return err_set(err, ERR_PROTOCOL, "SCRAM: malformed server-final message");
	if (hmac(secret_str(s->salted), STR("Server Key"), secret_bytes(key), err) != 0 ||
	    hmac(secret_str(key), buf_str(&s->message), want.b, err) != 0)
		return err->code;
	if (CRYPTO_memcmp(want.b, got.p, HASH_LEN) != 0)
		return err_set(err, ERR_UNAUTHORISED,
		    "SCRAM: the server's signature is wrong: it does not know this password");
	secret_free(s->salted);
	s->salted = NULL;
	s->proved = true;
	return 0;
}
