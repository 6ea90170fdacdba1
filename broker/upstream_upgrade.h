/* What a leased request asks to switch to, and whether a 101 agrees to just that. */
#ifndef BROKER_UPSTREAM_UPGRADE_H
#define BROKER_UPSTREAM_UPGRADE_H

#include "common/err.h"
#include "common/http.h"

struct upgrade_ask;
/* Of a lease that was checked. */
struct upgrade_ask *upgrade_ask_new(const struct http_field *f, size_t n);
void upgrade_ask_free(struct upgrade_ask *a); /* NULL is fine */
struct str upgrade_protocol(const struct upgrade_ask *a);
/*
 * ERR_UPSTREAM: nobody asked (a NULL), another protocol, content or framing; of WebSocket (RFC 6455
 * section 4.1) another Sec-WebSocket-Accept, an extension, a subprotocol that was not offered.
 */
int upgrade_check(const struct upgrade_ask *a, const struct http_response *r, struct err *err);

#endif
