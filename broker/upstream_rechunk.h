/*
 * A body in signed chunks, signed anew: what a client sends has signatures that are none, so the
 * content is taken out and put into chunks of our own.
 */
#ifndef BROKER_UPSTREAM_RECHUNK_H
#define BROKER_UPSTREAM_RECHUNK_H

#include "broker/upstream_sigv4.h"

#define RECHUNK_SIZE                                                                 \
	((size_t)65536) /* content of each but the last: a server wants 8192 or more \
			 */
#define RECHUNK_PUT_MAX ((size_t)16384)

struct rechunk;
/* seed: the signature of the head. length: of the content, as the head says. Copies all. */
struct rechunk *rechunk_new(const struct sigv4_scope *scope,
    const uint8_t key[static SIGV4_KEY_LEN], const char seed[static HASH_HEX_SIZE],
    uint64_t length);
void rechunk_free(struct rechunk *r); /* NULL is fine */
/* Bytes on the wire of that much content. */
uint64_t rechunk_length(uint64_t length);
/* Up to `room` bytes as they go out; 0: more must be put, or all has gone. */
size_t rechunk_take(struct rechunk *r, void *to, size_t room);
bool rechunk_ended(const struct rechunk *r); /* all has been taken */
/*
 * Bytes as they came, at most RECHUNK_PUT_MAX, after rechunk_take() had none. ERR_STATE: they are
 * not in signed chunks, or not of the length that was said.
 */
int rechunk_put(struct rechunk *r, struct str raw, struct err *err);
int rechunk_end(struct rechunk *r, struct err *err); /* nothing more comes */

#endif
