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
/* A short hash of each field, to tell which of two actions' fields differs. Proves nothing. */
struct digest_parts {
	uint16_t present; /* bit: tag */
	uint64_t h[DIGEST_EFFECTS + 1];
};
#define DIGEST_PARTS_HEX ((size_t)DIGEST_EFFECTS * 16) /* "-" in place of what is not there */
const char *digest_tag_name(enum digest_tag tag);      /* "protocol", "operation", ... */
/* The first tag in which they differ; 0: in none. */
unsigned digest_parts_differ(const struct digest_parts *a, const struct digest_parts *b);
bool digest_parts_same(
    const struct digest_parts *a, const struct digest_parts *b, enum digest_tag tag);
void digest_parts_put(struct buf *out, const struct digest_parts *p);
bool digest_parts_read(struct str hex, struct digest_parts *ret);

/* Of actions that are approved as one, in this order; of one alone: its own. */
struct hash digest_sequence(const struct hash *steps, size_t n);

struct digest;
struct digest *digest_begin(void);
void digest_field(struct digest *d, enum digest_tag tag, struct str v); /* asserts ascending tags */
struct hash digest_end(struct digest *d);				/* frees */
struct hash digest_end_parts(struct digest *d, struct digest_parts *ret);

#endif
