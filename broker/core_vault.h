/*
 * The vault file: "CFV1", a 24-byte nonce, and XChaCha20-Poly1305 (additional data: the
 * magic) under the 32-byte key file, of the canonical JSON
 *	{"credentials":[{"bind":{"field","host","port","scheme","user"},"kind","name","secret",
 *	"set","version"}]}
 * sorted by name; "secret" is base64, "set" the Unix time it was put in. "field" stands there
 * only if it is not empty, "set" only if it is known: files from before these are of the same
 * form. Plaintext lives in guarded memory only.
 */
#ifndef BROKER_CORE_VAULT_H
#define BROKER_CORE_VAULT_H

#include "broker/core_vault_bind.h"
#include "common/buf.h"
#include "common/secret.h"

#define VAULT_KEY_LEN 32
#define VAULT_FILE_MAX ((size_t)1 << 20)
#define VAULT_ENTRIES_MAX 1024

struct vault;
struct vault_entry {
	char *name, *kind, *scheme, *host, *user, *field; /* user, field: "" where there is none */
	uint16_t port;
	uint64_t version; /* counts from 1 */
	int64_t set_s;	  /* Unix time; 0: not known */
	struct secret *secret;
};

struct vault *vault_new(void);
void vault_free(struct vault *v);
DEFINE_AUTO(vault, struct vault, vault_free)
/* ERR_TAMPER when the key is wrong or a byte was changed. */
int vault_open(struct str file, const struct secret *key, struct vault **ret, struct err *err);
/* The sealed file, under a fresh nonce, is appended to out. */
int vault_seal(const struct vault *v, const struct secret *key, struct buf *out, struct err *err);

size_t vault_count(const struct vault *v);
const struct vault_entry *vault_at(const struct vault *v, size_t i);
const struct vault_entry *vault_find(const struct vault *v, struct str name); /* NULL: none */
/*
 * Add or replace by name: the version goes up by one. Errors of vault_bind_check. Takes `secret`
 * on success.
 */
int vault_put(struct vault *v, const struct vault_bind *b, struct secret *secret, struct err *err);
/* A new secret in place of the old one: same binding, the version goes up. As vault_put. */
int vault_rotate(
    struct vault *v, struct str name, struct secret *secret, int64_t set_s, struct err *err);
int vault_remove(struct vault *v, struct str name, struct err *err);

#endif
