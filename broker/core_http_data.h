/* What records say of an HTTP exchange; docs/format-log.md lists the members. */
#ifndef BROKER_CORE_HTTP_DATA_H
#define BROKER_CORE_HTTP_DATA_H

#include "broker/core_http.h"

void core_http_data_facts(const struct core_http *h, struct jcs *j);   /* "facts" */
void core_http_data_request(const struct core_http *h, struct jcs *j); /* "http" */
/* Method, or what a head that was not well-formed claims; may be empty. */
struct str core_http_method(const struct core_http *h);

/* Of UH_DONE. */
enum core_ended {
	CORE_ENDED_NONE, /* there was no stream */
	CORE_ENDED_SERVER,
	CORE_ENDED_CLIENT,
	CORE_ENDED_SILENT,
	CORE_ENDED_LIMIT,
	CORE_ENDED_PROTOCOL, /* what came is none of the protocol */
	CORE_ENDED_BROKER,
	CORE_ENDED_LOST, /* the connection broke */
	CORE_ENDED_COUNT
};
/* UH_DONE; strings borrowed. */
struct core_http_done {
	uint8_t status;
	uint16_t http_status;
	uint64_t answer_bytes, body_bytes;
	struct hash answer_sha, body_sha, head;
	struct str peer, peer_cert, message, blob;
	uint32_t reflected;
	uint8_t ended;		       /* who ended the stream behind a 101: enum core_ended */
	const struct blob_ref *answer; /* NULL: not kept */
};
const char *core_http_status_name(const struct core_http_done *d);
void core_http_data_outcome(
    const struct core_http *h, const struct core_http_done *d, struct buf *out);

#endif
