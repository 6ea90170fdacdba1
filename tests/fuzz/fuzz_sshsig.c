/*
 * Fuzzes the verifiers of SSHSIG and of our own form, and the key line reader. The first byte
 * chooses the form, so that mutations reach the blob behind the armor too. No input may crash; a
 * forged one that passes would be a find of another kind.
 */
#include <assert.h>

#include "common/buf.h"
#include "common/hash.h"
#include "common/sig.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
verify(struct str armored)
{
	struct sig_sshsig g = {0};
	struct err e = {0};
	int r = sig_verify(armored, "cofferdam-approval", STR("text\n"), NULL, 0, &g, &e);

	assert(r == 0 || (r == ERR_SIGNATURE && e.msg[0] != '\0'));
	/* What goes into a message must be fit for a terminal. */
	for (const char *p = e.msg; *p != '\0'; p++)
		assert((unsigned char)*p >= 0x20 && *p != 0x7f);
}

static void
wrap(const char *what, struct str blob, struct buf *out)
{
	AUTO_BUF struct buf b64 = BUF(8192);

	enc_base64(&b64, blob);
	buf_printf(out, "-----BEGIN %s SIGNATURE-----\n", what);
	for (size_t k = 0; k < b64.n; k += 70)
		buf_printf(out, "%.*s\n", (int)(b64.n - k < 70 ? b64.n - k : 70), b64.p + k);
	buf_printf(out, "-----END %s SIGNATURE-----\n", what);
}

static void
key(struct str blob)
{
	static const char *const types[] = {"ssh-ed25519 ", "sk-ssh-ed25519@openssh.com ",
	    "ecdsa-sha2-nistp256 ", "ecdsa-sha2-nistp384 ", "ecdsa-sha2-nistp521 ",
	    "sk-ecdsa-sha2-nistp256@openssh.com ", "cofferdam-ed25519 "};

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		AUTO_BUF struct buf line = BUF(8192);
		struct sig_pubkey k;
		char fp[64];

		buf_put_z(&line, types[i]);
		enc_base64(&line, blob);
		if (sig_pubkey_parse(buf_str(&line), &k, NULL) == 0) {
			sig_pubkey_fingerprint(&k, fp);
			assert(k.hardware == (i == 1 || i == 5) && sig_pubkey_eq(&k, &k));
		}
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf armor = BUF(16384);
	struct str s = str_mem(data, size);

	if (s.n == 0 || s.n > 4000)
		return 0;
	switch (s.p[0]) {
	case 'b':
		wrap("SSH", str_mem(s.p + 1, s.n - 1), &armor);
		verify(buf_str(&armor));
		break;
	case 'n':
		wrap("COFFERDAM", str_mem(s.p + 1, s.n - 1), &armor);
		verify(buf_str(&armor));
		break;
	case 'k': key(str_mem(s.p + 1, s.n - 1)); break;
	case 'l':
		(void)sig_pubkey_parse(str_mem(s.p + 1, s.n - 1), &(struct sig_pubkey){0}, NULL);
		break;
	default: verify(s); break;
	}
	return 0;
}
