/*
 * A listening socket on the loop (common/loop.h): who connects is handed over, and when there are
 * no descriptors or is no memory left it rests for a moment instead of keeping the loop turning.
 */
#ifndef COMMON_ACCEPTOR_H
#define COMMON_ACCEPTOR_H

#include "common/loop.h"

#define ACCEPTOR_REST_MS 200

struct acceptor;
/* fd is the callee's, non-blocking and close-on-exec. The callee may free the acceptor. */
typedef void acceptor_fn(void *arg, int fd);

/* listen_fd is non-blocking and stays the caller's: free this before it is closed. `what` stands in
 * the log line about a rest, and is borrowed. */
struct acceptor *acceptor_new(
    struct loop *l, int listen_fd, const char *what, acceptor_fn *fn, void *arg);
void acceptor_free(struct acceptor *a); /* NULL is fine */

#endif
