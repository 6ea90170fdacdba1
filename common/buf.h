/*
 * A byte buffer that grows up to a maximum given at birth and is wiped when freed.
 * Writing past the maximum sets a sticky flag and writes nothing more; whoever ships
 * the bytes must look at buf_over() once. Allocation failure ends the process.
 * Also the one encoding used on internal wires: big-endian integers, and strings as
 * u32 length and bytes; `struct rd` reads it back, with a sticky flag too.
 */
#ifndef COMMON_BUF_H
#define COMMON_BUF_H

#include "common/cleanup.h"
#include "common/str.h"

struct buf {
	uint8_t *p;
	size_t n;
	size_t cap;
	size_t max;
	bool over;
};

void buf_init(struct buf *b, size_t max);
/* Wipes and frees; the buffer may be used again with the same maximum. */
void buf_free(struct buf *b);
#define AUTO_BUF __attribute__((cleanup(buf_free)))
/* {0} plus a maximum, for declarations: AUTO_BUF struct buf b = BUF(4096); */
#define BUF(maximum) ((struct buf){.max = (maximum)})

bool buf_over(const struct buf *b);
void buf_reset(struct buf *b); /* wipes, length 0, flag cleared, keeps the memory */
struct str buf_str(const struct buf *b);
void buf_put(struct buf *b, const void *p, size_t n);
void buf_put_str(struct buf *b, struct str s); /* bytes only, no length */
void buf_put_z(struct buf *b, const char *z);  /* bytes only, no NUL */
void buf_put_c(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_u8(struct buf *b, uint8_t v);
void buf_u16(struct buf *b, uint16_t v);
void buf_u32(struct buf *b, uint32_t v);
void buf_u64(struct buf *b, uint64_t v);
void buf_lstr(struct buf *b, struct str s); /* u32 length, bytes */
void buf_lz(struct buf *b, const char *z);  /* the same for a C string; NULL is empty */
/* Room for n more bytes, uninitialised, already counted; NULL when over the maximum. */
uint8_t *buf_grow(struct buf *b, size_t n);
/* Drop n bytes from the front (memmove). n <= b->n. */
void buf_drop(struct buf *b, size_t n);
/* NUL-terminated copy of the contents; the caller frees. */
char *buf_dup_z(const struct buf *b);

struct rd {
	const uint8_t *p;
	size_t n;
	bool bad;
};

struct rd rd_init(struct str s);
uint8_t rd_u8(struct rd *r);
uint16_t rd_u16(struct rd *r);
uint32_t rd_u32(struct rd *r);
uint64_t rd_u64(struct rd *r);
struct str rd_lstr(struct rd *r); /* borrowed from the message */
struct str rd_bytes(struct rd *r, size_t n);
/* True when nothing was short and nothing is left over. Call it on every message. */
bool rd_end(const struct rd *r);

#endif
