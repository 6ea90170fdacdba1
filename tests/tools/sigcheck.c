/*
 * A driver for 27-keys.t: what common/sig says of one signature, key line or attestation. Never
 * part of the product. sigcheck verify NAMESPACE TEXT-FILE SIGNATURE-FILE KEY-LINE... sigcheck key
 * KEY-LINE sigcheck enrol ATTESTATION-FILE CLIENT-DATA-FILE CHALLENGE-HEX ORIGIN
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/hash.h"
#include "common/sig_webauthn.h"

#include "common/banned.h"

#define KEYS_MAX 16

static void
slurp(const char *path, struct buf *out)
{
	FILE *f = fopen(path, "re");
	int c;

	if (f == NULL)
		exit(2);
	while ((c = fgetc(f)) != EOF)
		buf_put_c(out, (char)c);
	(void)fclose(f);
}

static int
refused(const struct err *err)
{
	(void)printf("refused: %s\n", err->msg);
	return 1;
}

static int
verify(int argc, char **argv)
{
	AUTO_BUF struct buf text = BUF(1 << 16);
	AUTO_BUF struct buf sig = BUF(1 << 16);
	struct sig_pubkey keys[KEYS_MAX];
	struct sig_sshsig by = {0};
	struct err err;
	size_t n = 0;
	char fp[64];

	slurp(argv[3], &text);
	slurp(argv[4], &sig);
	for (int i = 5; i < argc && n < KEYS_MAX; i++)
		if (sig_pubkey_parse(str_z(argv[i]), &keys[n++], &err) != 0)
			return refused(&err);
	if (sig_verify(buf_str(&sig), argv[2], buf_str(&text), keys, n, &by, &err) != 0)
		return refused(&err);
	sig_pubkey_fingerprint(&by.key, fp);
	for (size_t i = 0; i < n; i++)
		if (sig_pubkey_eq(&keys[i], &by.key))
			(void)printf(
			    "key %zu %s flags %u counter %u\n", i, fp, by.flags, by.counter);
	return 0;
}

static int
show_key(const struct sig_pubkey *k, struct str credential)
{
	AUTO_BUF struct buf line = BUF(8192);
	char fp[64];

	sig_pubkey_fingerprint(k, fp);
	sig_pubkey_put(&line, k, credential);
	(void)printf("%s\n%.*s\n", fp, STR_ARG(buf_str(&line)));
	return 0;
}

static int
key(const char *line)
{
	AUTO_BUF struct buf cred = BUF(SIG_CREDENTIAL_MAX);
	struct sig_pubkey k;
	struct err err;

	if (sig_pubkey_parse(str_z(line), &k, &err) != 0)
		return refused(&err);
	if (k.form == SIG_FORM_WEBAUTHN && sig_webauthn_credential(str_z(line), &cred, &err) != 0)
		return refused(&err);
	return show_key(&k, buf_str(&cred));
}

static int
enrol(char **argv)
{
	AUTO_BUF struct buf att = BUF(1 << 16);
	AUTO_BUF struct buf client = BUF(1 << 16);
	AUTO_BUF struct buf challenge = BUF(64);
	AUTO_BUF struct buf cred = BUF(SIG_CREDENTIAL_MAX);
	struct sig_pubkey k;
	struct err err;

	slurp(argv[2], &att);
	slurp(argv[3], &client);
	if (!enc_unhex(str_z(argv[4]), &challenge))
		return 2;
	if (sig_webauthn_enrol(buf_str(&att), buf_str(&client), buf_str(&challenge), argv[5], &k,
		&cred, &err) != 0)
		return refused(&err);
	return show_key(&k, buf_str(&cred));
}

int
main(int argc, char **argv)
{
	if (argc >= 5 && strcmp(argv[1], "verify") == 0)
		return verify(argc, argv);
	if (argc == 3 && strcmp(argv[1], "key") == 0)
		return key(argv[2]);
	if (argc == 6 && strcmp(argv[1], "enrol") == 0)
		return enrol(argv);
	return 2;
}
