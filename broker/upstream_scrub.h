/*
 * Takes secrets out of what a server sends back: an answer that repeats a credential would hand it
 * to the sandbox. Each byte of one in any of the forms below is replaced by one byte, so lengths
 * stay: the placeholder that stands for that secret, cut or padded with '*'. Pure, linear in the
 * input for each secret, and holds back only what may be the beginning of a form.
 *
 * Forms: raw; percent-encoded, any of its characters, also as form data; JSON-escaped, any of its
 * characters; hex in either case; base64, standard and URL-safe, at all three alignments, also
 * itself percent-encoded or JSON-escaped; at the end of a text also the first half and more of one.
 * Of a secret under UPSTREAM_SCRUB_SHORT bytes not hex and base64: what is left of it there is so
 * short that it is found in innocent text. At the edges of a base64 run up to 4 bits of the secret
 * share a character with its neighbours, and stay.
 */
#ifndef BROKER_UPSTREAM_SCRUB_H
#define BROKER_UPSTREAM_SCRUB_H

#include "broker/upstream_scrub_set.h"

struct scrub;
struct scrub *scrub_new(struct scrub_set *set); /* takes one hold of the set */
void scrub_free(struct scrub *s);		/* NULL is fine */
/* Appends to *out what is settled; the rest waits for more. */
void scrub_feed(struct scrub *s, struct str in, struct buf *out);
/* The text is over: appends the rest; what comes next is another text. */
void scrub_end(struct scrub *s, struct buf *out);
/* One whole text, between others. */
void scrub_text(struct scrub *s, struct str in, struct buf *out);
bool scrub_waits(const struct scrub *s);     /* some bytes are held back */
uint32_t scrub_count(const struct scrub *s); /* runs of bytes replaced so far */

#endif
