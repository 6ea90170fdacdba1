/*
 * The run CA: certifies keys that front made, for the host names of targets of a live run.
 * The CA key never leaves core.
 */
#ifndef BROKER_CORE_CA_H
#define BROKER_CORE_CA_H

#include "broker/core.h"

#define CA_LEAF_SECONDS (24 * 3600)
#define CA_BACKDATE_SECONDS 300 /* for clients whose clock is a little behind */

/* Both are PEM; they must belong together. */
int core_ca_load(struct str key_pem, struct str cert_pem, struct core_ca **ret, struct err *err);
void core_ca_free(struct core_ca *ca);
struct str core_ca_pem(const struct core_ca *ca); /* the CA certificate, for the sandbox */
/*
 * Sign a server leaf for `host` (DNS name or numeric address, as subjectAltName) and the key in
 * spki (DER SubjectPublicKeyInfo: EC P-256, or RSA of 2048 to 4096 bits). PEM goes to out.
 */
int core_ca_sign(const struct core_ca *ca, struct str spki, struct str host, int64_t now_s,
    struct buf *out, struct err *err);

int core_ca_on_ask(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);

#endif
