/*
 * Frames of a WebSocket server (RFC 6455 section 5), passed on byte for byte but for secrets, which
 * are looked for in each message as one text, also across its fragments. No extension was agreed
 * to, so a frame that an extension has changed is none.
 */
#ifndef BROKER_UPSTREAM_WS_H
#define BROKER_UPSTREAM_WS_H

#include "broker/upstream_scrub.h"
#include "common/err.h"

#define UPSTREAM_WS_PIECE ((size_t)16384) /* most that is fed at once */
#define UPSTREAM_WS_OUT ((size_t)5 << 16) /* and that comes out of it: what waited, too */

struct ws;
/* `set`: what the frames may not show, NULL nothing; it holds it. */
struct ws *ws_new(struct scrub_set *set);
void ws_free(struct ws *w); /* NULL is fine */
/* Appends to *out what is settled: at most UPSTREAM_WS_OUT. ERR_SYNTAX. */
int ws_feed(struct ws *w, struct str piece, struct buf *out, struct err *err);
/* No more will come. */
void ws_end(struct ws *w, struct buf *out);
uint32_t ws_replaced(const struct ws *w);

#endif
