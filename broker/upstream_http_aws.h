/*
 * Requests to AWS: what of a lease is signed, and the fields that say so. The credential of such a
 * lease: `user` is the access key's id, `secret` the secret key and, behind a blank, the session
 * token if there is one, `field` is REGION/SERVICE.
 */
#ifndef BROKER_UPSTREAM_HTTP_AWS_H
#define BROKER_UPSTREAM_HTTP_AWS_H

#include "broker/upstream_http_body.h"
#include "broker/upstream_http_head.h"

/* Is it of that form? For lease_check(). */
bool aws_credential_ok(const struct upstream_lease *l);
/* Fields that upstream makes itself. */
bool aws_field_is_ours(struct str name);
#define AWS_ID_SCRUBBED_MIN 16 /* a shorter id is found in innocent text */
#define AWS_SECRETS_MAX 4
/* Secret key, session token, and the id, which clients know by its placeholder. Returns how many.
 */
size_t aws_secrets(const struct upstream_lease *l, struct scrub_secret ret[AWS_SECRETS_MAX]);

struct aws_signer;
/* Derives the key of this day, region and service. ERR_CONFIG, ERR_INVALID. */
int aws_signer_new(
    const struct upstream_lease *l, int64_t now_s, struct aws_signer **ret, struct err *err);
void aws_signer_free(struct aws_signer *s); /* NULL is fine */
struct str aws_signer_key(const struct aws_signer *s);
/*
 * Signs the head of a checked lease, whose body `b` is, and has a body in signed chunks signed
 * anew. *ret is what joins the head; it lives as long as signer and lease. ERR_STATE: not the body
 * that X-Amz-Content-Sha256 names; ERR_UNSUPPORTED, ERR_CONFIG: a form that cannot be signed.
 */
int aws_sign(struct aws_signer *s, const struct upstream_lease *l, struct body *b,
    struct head_more *ret, struct err *err);

#endif
