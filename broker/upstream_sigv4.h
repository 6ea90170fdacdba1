/*
 * AWS Signature Version 4, as "Signing AWS API requests" of the AWS General Reference and
 * "Signature Calculations for the Authorization Header" of the Amazon S3 API Reference have it.
 * Pure: the time is handed in. Upstream alone has secret keys to sign with.
 */
#ifndef BROKER_UPSTREAM_SIGV4_H
#define BROKER_UPSTREAM_SIGV4_H

#include "common/buf.h"
#include "common/hash.h"
#include "common/http.h"

#define SIGV4_DATE_SIZE 17   /* "20150830T123600Z" and NUL */
#define SIGV4_SCOPE_MAX 160  /* "20150830/us-east-1/iam/aws4_request" */
#define SIGV4_KEY_LEN 32     /* of a derived key: good for one day, region and service */
#define SIGV4_NAMES_MAX 8192 /* of all fields that are signed */

struct sigv4_scope {
	char date[SIGV4_DATE_SIZE];
	char text[SIGV4_SCOPE_MAX];
};
/* ERR_TOO_LARGE: region and service are too long together; ERR_INVALID: no such time. */
int sigv4_scope(int64_t unix_s, struct str region, struct str service, struct sigv4_scope *ret,
    struct err *err);
/* The caller wipes it. */
void sigv4_key(
    const struct sigv4_scope *scope, struct str secret, uint8_t ret[static SIGV4_KEY_LEN]);

struct sigv4_request {
	struct str method, target; /* the target as it goes out */
	struct str host;	   /* the value of Host */
	const struct http_field *fields;
	size_t nfields;
	struct str payload; /* hex of the body's hash, or the word that stands for it */
	bool s3;	    /* its paths are taken as they stand, and escaped once */
};
/*
 * The canonical request; the names of the fields in it go to *names, "a;b;c". Signed are Host,
 * Content-Type, Content-MD5 and X-Amz-*: what a server may hold a request to, and nothing that
 * belongs to one connection alone.
 */
void sigv4_canonical(const struct sigv4_request *r, struct buf *out, struct buf *names);
/* `canonical` is hashed; the signature in hex. */
void sigv4_sign(const struct sigv4_scope *scope, const uint8_t key[static SIGV4_KEY_LEN],
    struct str canonical, char ret[static HASH_HEX_SIZE]);
/*
 * One chunk of STREAMING-AWS4-HMAC-SHA256-PAYLOAD: `signature` is that of what was before it, and
 * its own afterwards.
 */
void sigv4_sign_chunk(const struct sigv4_scope *scope, const uint8_t key[static SIGV4_KEY_LEN],
    const struct hash *content, char signature[static HASH_HEX_SIZE]);
/* The value of Authorization. */
void sigv4_authorization(const struct sigv4_scope *scope, struct str id, struct str names,
    const char *signature, struct buf *out);

#endif
