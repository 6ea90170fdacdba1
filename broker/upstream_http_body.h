/*
 * The body of a leased request on its way out: inline, from a sealed memfd, or streamed from front
 * by credit. Exactly what was leased goes out, or the last byte does not.
 */
#ifndef BROKER_UPSTREAM_HTTP_BODY_H
#define BROKER_UPSTREAM_HTTP_BODY_H

#include "broker/upstream_http_lease.h"

#define BODY_CREDIT ((size_t)64 << 10) /* of a streamed body in this process and on its way */
#define BODY_CHUNK ((size_t)16 << 10)  /* content of one chunk that goes out */

struct body;
/*
 * For a lease that was checked; takes fd (of LEASE_SEALED; of a streamed one its start, which was
 * judged, or -1), also on error. ERR_CONFIG: not sealed or of another length; ERR_STATE: not the
 * body that was bound.
 */
int body_new(const struct upstream_lease *l, int fd, struct body **ret, struct err *err);
void body_free(struct body *b); /* NULL is fine */
/* Of one that is here: none, inline or sealed. */
int body_hash_here(const struct body *b, struct hash *ret, struct err *err);
struct rechunk;
/* Before the first byte: it goes out in chunks that are signed anew; takes r. */
void body_rechunk(struct body *b, struct rechunk *r, uint64_t wire_length);

/*
 * Up to `room` bytes as they go on the wire, chunk framing included. *ret_n 0: BODY_WAIT (more will
 * come from front), BODY_END, or ERR_SYSTEM.
 */
enum { BODY_MORE = 0, BODY_WAIT, BODY_END };
int body_read(struct body *b, void *to, size_t room, size_t *ret_n, struct err *err);
/*
 * From front. ERR_PROTOCOL: more than it may send; ERR_STATE: not as leased, and the request must
 * not become whole: too long, too short, another hash, or a placeholder in it.
 */
int body_take(struct body *b, bool last, struct str bytes, struct err *err);
/* What front may send besides, from now on; 0: nothing new. */
uint32_t body_credit(struct body *b);
/* An answer is here before the end: nothing more goes out. */
void body_stop(struct body *b);
/* Bytes on the wire: 0 none, UINT64_MAX not known. */
uint64_t body_wire_length(const struct body *b);
bool body_is_streamed(const struct body *b);
bool body_is_whole(const struct body *b); /* all of it has been read */
/* Content that has been read; ends the digest: call it once, last. */
uint64_t body_sent(struct body *b, struct hash *ret);

#endif
