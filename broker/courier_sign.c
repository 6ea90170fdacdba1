/*
 * Signatures of webhooks, as Standard Webhooks has them. Runs in the courier. A key lives in
 * guarded memory; what is signed has the time in it, so that an old message is not a new one.
 */
#include <sodium.h>

#include "broker/courier.h"

#include "common/banned.h"

#define PREFIX "whsec_"
#define KEY_MIN 24
#define KEY_MAX 64

int
courier_secret_parse(struct str line, struct secret **ret, struct err *err)
{
	AUTO_BUF struct buf key = BUF(2 * KEY_MAX);
	struct str s = str_trim(line);

	if (!str_has_prefix(s, PREFIX) ||
	    !enc_unbase64(str_mem(s.p + strlen(PREFIX), s.n - strlen(PREFIX)), &key) ||
	    buf_over(&key) || key.n < KEY_MIN || key.n > KEY_MAX)
		return err_set(err, ERR_CONFIG,
		    "a secret is %s and %d to %d random bytes in base64 (openssl rand -base64 32)",
		    PREFIX, KEY_MIN, KEY_MAX);
	*ret = secret_copy(buf_str(&key));
	return 0;
}

void
courier_sign(struct secret *const *keys, size_t n, struct str id, int64_t at_s, struct str body,
    struct buf *out)
{
	AUTO_BUF struct buf head = BUF(COURIER_ID_MAX + 32);
	uint8_t mac[crypto_auth_hmacsha256_BYTES];
	crypto_auth_hmacsha256_state st;

	buf_put_str(&head, id);
	buf_printf(&head, ".%lld.", (long long)at_s);
	for (size_t i = 0; i < n; i++) {
		struct str key = secret_str(keys[i]);

		(void)crypto_auth_hmacsha256_init(&st, (const uint8_t *)key.p, key.n);
		(void)crypto_auth_hmacsha256_update(&st, head.p, head.n);
		(void)crypto_auth_hmacsha256_update(&st, (const uint8_t *)body.p, body.n);
		(void)crypto_auth_hmacsha256_final(&st, mac);
		buf_put_z(out, i == 0 ? "v1," : " v1,");
		enc_base64(out, str_mem(mac, sizeof(mac)));
	}
	sodium_memzero(&st, sizeof(st));
}
