/* The head that goes out: the leased one, Host, the framing of the body, and the credential. */
#ifndef BROKER_UPSTREAM_HTTP_HEAD_H
#define BROKER_UPSTREAM_HTTP_HEAD_H

#include "broker/upstream_http_lease.h"

struct curl_slist;
/* What joins the leased fields. */
struct head_more {
	const struct http_field *fields;
	size_t nfields;
	bool rechunked; /* the body goes out in another coding: of that length */
	uint64_t length;
};
/*
 * For a lease that was checked; more: NULL, nothing. Appends the request target to *target and
 * gives the fields as libcurl wants them; both hold the credential: the caller wipes. ERR_CONFIG:
 * the credential's query parameter is in the target already.
 */
int head_make(const struct upstream_lease *l, const struct head_more *more, struct buf *target,
    struct curl_slist **ret_fields, struct err *err);
/* The whole head of such a request, where libcurl does not write it. */
void head_write(struct str method, const char *target, const struct curl_slist *f, struct buf *out);

#endif
