/*
 * The action digest (what an approval binds): SHA-256 over a domain string and tagged fields,
 * u8 tag, u32 length, bytes, ascending tags, none twice. docs/format-approval.md lists the tags.
 */
#ifndef POLICY_DIGEST_H
#define POLICY_DIGEST_H

#include "common/hash.h"

enum digest_tag {
	DIGEST_PROTOCOL = 1,
	DIGEST_TARGET = 2,
	DIGEST_UPSTREAM = 3,	/* host:port */
	DIGEST_UPSTREAM_ID = 4, /* address and certificate hash of the peer */
	DIGEST_CREDENTIAL = 5,
	DIGEST_AGENT = 6,
	DIGEST_RUN = 7,
	DIGEST_OPERATION = 8, /* SQL bytes | method | verb | ref commands */
	DIGEST_RESOURCE = 9,
	DIGEST_HEADERS = 10,
	DIGEST_BODY = 11,
	DIGEST_PARAMETERS = 12,
	DIGEST_SESSION = 13,
	DIGEST_PRECONDITIONS = 14,
	DIGEST_EFFECTS = 15,
};
struct digest;
struct digest *digest_begin(void);
void digest_field(struct digest *d, enum digest_tag tag, struct str v); /* asserts ascending tags */
struct hash digest_end(struct digest *d);				/* frees */

#endif
