/*
 * Secrets live only here: libsodium guarded, locked, wiped memory. Linked by core,
 * upstream, writer and the command line; a test reads that front and parser have no
 * secret_ symbol.
 */
#ifndef COMMON_SECRET_H
#define COMMON_SECRET_H

#include "common/err.h"
#include "common/str.h"

struct secret;

struct secret *secret_new(size_t n);	  /* zeroed */
struct secret *secret_copy(struct str s); /* the caller wipes its own copy */
void secret_free(struct secret *s);	  /* NULL is fine */
DEFINE_AUTO(secret, struct secret, secret_free)
uint8_t *secret_bytes(struct secret *s);
/* From hide to show its bytes cannot be read, not by ourselves either; one needs no hide first. */
void secret_hide(struct secret *s);
void secret_show(struct secret *s);
struct str secret_str(const struct secret *s);
/* Read all of fd (at most max bytes) into guarded memory; a trailing LF is kept. */
int secret_read_fd(int fd, size_t max, struct secret **ret, struct err *err);

#endif
