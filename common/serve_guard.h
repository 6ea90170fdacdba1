/*
 * Who may speak to a server of serve.h: bearer tokens from a file, and the rules that keep web
 * pages out (a page that a browser shows can send requests to loopback, under a name of its own
 * choice: DNS rebinding).
 */
#ifndef COMMON_SERVE_GUARD_H
#define COMMON_SERVE_GUARD_H

#include "common/serve.h"

#define SERVE_TOKENS_MAX 256
#define SERVE_NAME_MAX 64
#define SERVE_TOKEN_MIN 16
#define SERVE_TOKEN_MAX 512

struct serve_tokens;
/*
 * Lines "NAME TOKEN" ('#' begins a comment; NAME of [a-z0-9._-], which is the principal). Only
 * hashes are kept. ERR_CONFIG: not ours alone to read (mode 0600 or less, own user or root), empty,
 * malformed, a name or token twice.
 */
int serve_tokens_load(const char *path, struct serve_tokens **ret, struct err *err);
void serve_tokens_free(struct serve_tokens *t);
DEFINE_AUTO(serve_tokens, struct serve_tokens, serve_tokens_free)
/* The name that goes with the token; NULL: none. In a time that does not tell how near it was. */
const char *serve_tokens_who(const struct serve_tokens *t, struct str token);
/* "Bearer TOKEN" (RFC 6750 2.1) to TOKEN; empty: it is not that. */
struct str serve_bearer(const struct serve_conn *c);

struct serve_guard {
	const char *const *hosts; /* names besides loopback's that Host may have; NULL-terminated */
	const char *const *origins; /* Origins that may ask, "https://app.example"; else none */
};
/*
 * 0; or 421: Host is not localhost, an address that this connection came in at, nor of `hosts`;
 * 403: an Origin that is neither this server's own on loopback nor of `origins`. *err says why.
 */
unsigned serve_guard_check(
    const struct serve_guard *g, const struct serve_conn *c, struct err *err);

#endif
