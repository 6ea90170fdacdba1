/*
 * Fuzzes what comes through a browser: assertions as JSON, client data, CBOR, COSE keys,
 * attestation objects, key lines. The first byte chooses; what passes must say the same when it is
 * written and read again.
 */
#include <assert.h>

#include "common/buf.h"
#include "common/hash.h"
#include "common/sig_cose.h"
#include "common/sig_webauthn.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of the corpus: tests/lib/authenticator.py, seed "fuzz". */
static const char line[] = "webauthn:https://approve.example.org "
			   "GXBK68lzhMrAVJTeguFwi4hoxEJbL1Z4KHuOvuuCjjk "
			   "pAEBAycgBiFYIBkSmc0LLzhXHeqlA5sX5hfM59k1Pp0FXVNTPjbjTt5l";

static void
said(const struct err *e)
{
	assert(e->msg[0] != '\0');
	for (const char *p = e->msg; *p != '\0'; p++)
		assert((unsigned char)*p >= 0x20 && *p != 0x7f);
}

static void
assertion(struct str s)
{
	struct sig_pubkey k = {0};
	struct sig_sshsig by = {0};
	struct err e = {0};

	if (sig_pubkey_parse(str_z(line), &k, NULL) != 0)
		return;
	if (sig_webauthn_verify(s, STR("text\n"), &k, 1, &by, &e) != 0)
		said(&e);
}

/* Client data and authenticator data as they are; the JSON around them is ours. */
static void
parts(struct str s)
{
	AUTO_BUF struct buf json = BUF(16384);
	AUTO_BUF struct buf b64 = BUF(16384);
	size_t n = s.n != 0 ? (uint8_t)s.p[0] % (s.n + 1) : 0;
	const struct str part[] = {str_mem(s.p, n), str_mem(s.p + n, s.n - n)};

	for (size_t i = 0; i < ARRAY_LEN(part); i++) {
		buf_reset(&b64);
		enc_base64(&b64, part[i]);
		buf_put_z(&json, i == 0 ? "{\"authenticator_data\":\"" : "\",\"client_data\":\"");
		for (size_t k = 0; k < b64.n && b64.p[k] != '='; k++)
			buf_put_c(&json, b64.p[k] == '+'   ? '-'
					 : b64.p[k] == '/' ? '_'
							   : (char)b64.p[k]);
	}
	buf_put_z(&json, "\",\"signature\":\"AAAA\"}");
	assertion(buf_str(&json));
}

static void
cbor(struct str s)
{
	struct rd r = rd_init(s), k = rd_init(s);
	struct sig_pubkey key;
	AUTO_BUF struct buf again = BUF(256);
	bool whole = cbor_skip(&r);

	assert(r.n <= s.n);
	if (!cose_key_read(&k, &key))
		return;
	assert(whole && r.n == k.n);
	cose_key_put(&again, &key);
	assert(again.n == s.n - k.n && memcmp(again.p, s.p, again.n) == 0);
}

static void
enrol(struct str s)
{
	AUTO_BUF struct buf cred = BUF(SIG_CREDENTIAL_MAX);
	static const char client[] =
	    "{\"type\":\"webauthn.create\",\"challenge\":\"AAAA\",\"origin\":\"https://"
	    "approve.example.org\"}";
	struct sig_pubkey k;
	struct err e = {0};
	const char challenge[3] = {0};

	if (sig_webauthn_enrol(s, str_z(client), str_mem(challenge, 3),
		"https://approve.example.org", &k, &cred, &e) != 0)
		said(&e);
	else
		assert(cred.n != 0 && k.form == SIG_FORM_WEBAUTHN);
}

static void
key_line(struct str s)
{
	AUTO_BUF struct buf cred = BUF(SIG_CREDENTIAL_MAX);
	AUTO_BUF struct buf again = BUF(8192);
	struct sig_pubkey k, same;
	struct err e = {0};

	if (sig_webauthn_credential(s, &cred, &e) != 0) {
		said(&e);
		return;
	}
	assert(sig_pubkey_parse(s, &k, NULL) == 0);
	sig_pubkey_put(&again, &k, buf_str(&cred));
	assert(sig_pubkey_parse(buf_str(&again), &same, NULL) == 0 && sig_pubkey_eq(&k, &same));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str s = str_mem(data, size), rest;

	if (s.n == 0 || s.n > 4000)
		return 0;
	rest = str_mem(s.p + 1, s.n - 1);
	switch (s.p[0]) {
	case 'p': parts(rest); break;
	case 'c': cbor(rest); break;
	case 'e': enrol(rest); break;
	case 'l': key_line(rest); break;
	default: assertion(s); break;
	}
	return 0;
}
