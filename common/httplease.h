/*
 * The head of an HTTP request as core leases it to upstream, as one number: what core records and
 * what upstream reports must be equal. The credential, Host and the framing of the body, which
 * upstream adds, are not in it.
 */
#ifndef COMMON_HTTPLEASE_H
#define COMMON_HTTPLEASE_H

#include "common/hash.h"
#include "common/http.h"

/* SHA-256 over: method SP target LF, then for each field in order: name ": " value LF. */
struct hash http_lease_hash(
    struct str method, struct str target, const struct http_field *f, size_t n);

#endif
