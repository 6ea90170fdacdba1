/*
 * The answer to a leased request on its way to front: read strictly, freed of secrets, counted,
 * hashed, and its beginning kept to be sealed.
 */
#ifndef BROKER_UPSTREAM_HTTP_ANSWER_H
#define BROKER_UPSTREAM_HTTP_ANSWER_H

#include "audit/blob.h"
#include "broker/upstream_http_lease.h"

#define ANSWER_FRAME ((size_t)64 << 10) /* most bytes in one UF_BODY */
#define ANSWER_INTERIM_MAX 16		/* heads before the final one */

struct answer;
/* Frames for front: called with UF_HEAD, UF_BODY, UF_END. */
typedef void answer_send_fn(void *arg, uint16_t type, const struct buf *body);

/* The blob key is copied. `set`: what the answer may not show, NULL nothing; takes one hold of it.
 */
struct answer *answer_new(
    const struct upstream_lease *l, struct scrub_set *set, answer_send_fn *send, void *arg);
void answer_free(struct answer *a); /* NULL is fine */

/*
 * One line of a head as received. *ret_head: 100 to 999 when that was its end, else 0; an interim
 * head has been passed on, a final one too. ERR_UPSTREAM: nothing that could be passed on.
 */
int answer_line(struct answer *a, struct str line, unsigned *ret_head, struct err *err);
/*
 * Content without its framing. What is settled waits for answer_flush(), or for a frame's worth of
 * it. Compressed content that must be read goes on as plain. ERR_UPSTREAM: it cannot be read.
 */
int answer_content(struct answer *a, struct str bytes, struct err *err);
void answer_flush(struct answer *a);
/*
 * The end: what waits, then UF_END, if a final head went out. False for whole: the server broke
 * off, or sent more or less than it said (ERR_UPSTREAM then).
 */
int answer_end(struct answer *a, bool whole, struct err *err);

/*
 * How the content of a final answer that is read from the connection itself ends. Of a 101 that was
 * agreed to it never does: what follows is a stream, passed on as content by answer_content().
 */
bool answer_switched(const struct answer *a);
enum http_body answer_framing(const struct answer *a, uint64_t *ret_length);
/* Bytes of a stream are held back, since they may begin a secret; and they are let go of. */
bool answer_waits(const struct answer *a);
void answer_settle(struct answer *a);

unsigned answer_status(const struct answer *a);		  /* of the final head; 0: none */
uint64_t answer_sent(struct answer *a, struct hash *ret); /* content; call it once, last */
uint32_t answer_replaced(const struct answer *a);
/* A text for people, without the secrets. */
void answer_clean(struct answer *a, struct str in, struct buf *out);
/*
 * The beginning of the content as a frame for the writer, at most as many bytes as were leased for
 * it; the media type says "cut" when there was more. False: nothing is to be sealed.
 */
bool answer_seal(struct answer *a, struct buf *frame, struct blob_ref *ret);

#endif
