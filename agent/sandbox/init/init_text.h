/* Text of bounded length, and the memory functions that the compiler counts on (init_start.c). */
#ifndef INIT_TEXT_H
#define INIT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memset(void *to, int byte, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *s);

/* What does not fit is left out. Always ends with NUL; n is without it. */
struct text {
	char *p;
	size_t n, room;
};
#define TEXT(array) ((struct text){.p = (array), .room = sizeof(array)})

static inline void
text_mem(struct text *t, const char *s, size_t n)
{
	for (size_t i = 0; i < n && t->n + 1 < t->room; i++)
		t->p[t->n++] = s[i];
	t->p[t->n] = '\0';
}
static inline void
text_put(struct text *t, const char *s)
{
	text_mem(t, s, strlen(s));
}
/* At most 1000 bytes of a name that came in an order. */
static inline void
text_name(struct text *t, const char *s)
{
	size_t n = strlen(s);

	text_mem(t, s, n < 1000 ? n : 1000);
	if (n > 1000)
		text_put(t, "...");
}
static inline void
text_num(struct text *t, long v)
{
	char digits[24];
	size_t i = sizeof(digits);
	unsigned long u = v < 0 ? 0ul - (unsigned long)v : (unsigned long)v;

	do {
		digits[--i] = (char)('0' + u % 10);
		u /= 10;
	} while (u != 0);
	if (v < 0)
		digits[--i] = '-';
	text_mem(t, digits + i, sizeof(digits) - i);
}

static inline bool
text_same(const char *a, const char *b)
{
	size_t n = strlen(a);

	return n == strlen(b) && memcmp(a, b, n) == 0;
}

#endif
