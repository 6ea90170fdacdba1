/* Credentials as core uses them: found by the policy's name, and only for the place they are bound
 * to. */
#ifndef BROKER_CORE_CRED_H
#define BROKER_CORE_CRED_H

#include "broker/core.h"
#include "broker/core_vault.h"

/* ERR_CONFIG names what is missing or does not fit: credential, scheme, host, port, user. Borrowed
 * from the vault. */
int core_cred_find(const struct core *c, const struct policy_target *t,
    const struct vault_entry **ret, struct err *err);
/*
 * The credentials of the run's http targets and of the proxies on their way, each once, but for
 * `own` (NULL: none is left out): those that the vault has for where the policy puts them now.
 * ERR_TOO_LARGE: over CORE_OTHERS_MAX; no answer may be looked at for fewer than all.
 */
#define CORE_OTHERS_MAX 32 /* as upstream takes */
struct core_others {
	const struct vault_entry *e[CORE_OTHERS_MAX]; /* borrowed from the vault */
	size_t n, parts;			      /* parts: secrets that they have together */
};
/* What of it must not come back: key, session token and id of an aws one. Returns how many. */
#define CORE_CRED_PARTS 3
size_t core_cred_parts(const struct vault_entry *e, struct str ret[CORE_CRED_PARTS]);
int core_cred_others(const struct core_run *run, const struct vault_entry *own,
    struct core_others *ret, struct err *err);
/* The same for the proxy in front of a target that has a via_credential. */
int core_cred_via(const struct core *c, const struct policy_target *t,
    const struct vault_entry **ret, struct err *err);
/* HMAC-SHA256 of a secret under a key of this broker, 8 bytes as hex: tells equal from other,
 * nothing else. */
void core_cred_fingerprint(const struct core *c, struct str secret, char out[17]);
/*
 * What stands for a credential in the sandbox of one run: "cfph_" and 26 digits of base32, the same
 * after a restart, and of no use elsewhere.
 */
#define CORE_PLACEHOLDER_PREFIX "cfph_"
#define CORE_PLACEHOLDER_SIZE 32 /* with its NUL */
void core_cred_placeholder(
    const struct core_run *run, struct str credential, char out[CORE_PLACEHOLDER_SIZE]);
/* New vault file and key (SIGHUP, start): the old ones stay when these do not open. */
int core_cred_load(struct core *c, int vault_fd, struct err *err);
void core_cred_key(struct core *c, struct secret *key); /* takes it */

#endif
