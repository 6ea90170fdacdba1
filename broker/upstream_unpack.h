/* gzip and deflate (RFC 1952, RFC 1950) undone piece by piece, so that an answer can be read. */
#ifndef BROKER_UPSTREAM_UNPACK_H
#define BROKER_UPSTREAM_UNPACK_H

#include "common/err.h"
#include "common/str.h"

#define UNPACK_MOST ((size_t)4 << 20) /* bytes that one piece may become */

struct unpack;
typedef void unpack_fn(void *arg, struct str plain);

struct unpack *unpack_new(unpack_fn *fn, void *arg);
void unpack_free(struct unpack *u); /* NULL is fine */
/* ERR_UPSTREAM: no such coding, or a piece that becomes over UNPACK_MOST bytes. */
int unpack_feed(struct unpack *u, struct str piece, struct err *err);
/* The coding has ended, or not begun: nothing at all is whole too. */
bool unpack_is_whole(const struct unpack *u);

#endif
