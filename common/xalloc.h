/* Allocation that cannot fail: out of memory ends the process, and the parent restarts it. */
#ifndef COMMON_XALLOC_H
#define COMMON_XALLOC_H

#include <stdarg.h>
#include <stddef.h>

#include "common/cleanup.h"

void *xmalloc(size_t n); /* n may be 0 */
void *xcalloc(size_t n, size_t size);
void *xreallocarray(void *p, size_t n, size_t size);
char *xstrdup(const char *s);
/* printf into fresh memory; the caller frees. */
char *xasprintf(const char *fmt, ...) PRINTF_LIKE(1, 2);
char *xvasprintf(const char *fmt, va_list ap) PRINTF_LIKE(1, 0);

#endif
