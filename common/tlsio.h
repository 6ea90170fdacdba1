/*
 * A non-blocking stream socket, plain or under TLS, behind one read and one write. The
 * caller keeps the buffers and the epoll interest; tlsio_events() tells what to wait for.
 */
#ifndef COMMON_TLSIO_H
#define COMMON_TLSIO_H

#include <sys/types.h>

#include "common/err.h"
#include "common/str.h"

struct ssl_st;

struct tlsio {
	int fd;
	struct ssl_st *ssl; /* NULL: plain */
	bool read_wants_write, write_wants_read;
};

#define TLSIO_AGAIN ((ssize_t)-1) /* nothing now */
#define TLSIO_ERROR ((ssize_t)-2) /* *err tells; the stream is dead */

/* Before confinement: what OpenSSL and the C library would read from files at first use. */
int tlsio_prepare(struct err *err);

/* Owns neither fd nor ssl until tlsio_close(), which closes both; plain at first. */
void tlsio_init(struct tlsio *t, int fd);
/* TLS from here on; takes ssl, whose accept or connect state is set already. */
void tlsio_start(struct tlsio *t, struct ssl_st *ssl);
/* 1 done, 0 not yet, or an error. Plain: 1. */
int tlsio_handshake(struct tlsio *t, struct err *err);
/* Bytes, 0 at the end of the stream (whether too early, the protocol inside tells), or TLSIO_*. */
ssize_t tlsio_read(struct tlsio *t, void *p, size_t n, struct err *err);
ssize_t tlsio_write(struct tlsio *t, const void *p, size_t n, struct err *err);
/* EPOLLIN and EPOLLOUT for somebody who wants to read resp. write. */
uint32_t tlsio_events(const struct tlsio *t, bool want_read, bool want_write);
/* Our half of the stream ends: close_notify, then FIN. What comes in can still be read from fd. */
void tlsio_shut(struct tlsio *t);
/* Says goodbye under TLS as far as the socket takes it, then closes. */
void tlsio_close(struct tlsio *t);
/* The oldest error of OpenSSL's queue as text (never empty), the queue emptied. */
const char *tlsio_reason(char *out, size_t size);

#endif
