/* A web origin (RFC 6454) in the one spelling that browsers send. */
#ifndef COMMON_WEBORIGIN_H
#define COMMON_WEBORIGIN_H

#include "common/http.h"

struct weborigin {
	char host[HTTP_HOST_SIZE];
	uint16_t port; /* never 0 */
};

/*
 * "https://HOST" or "https://HOST:PORT", lower case, without the port that goes without saying. The
 * host is a name: no credential can be bound to an address (WebAuthn). ERR_INVALID says what is
 * wrong.
 */
int weborigin_parse(struct str s, struct weborigin *ret, struct err *err);

#endif
