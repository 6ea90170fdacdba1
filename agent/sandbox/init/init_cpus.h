/* Where programs may run, when pid 1 was started on one processor (native_cpus.c). */
#ifndef INIT_CPUS_H
#define INIT_CPUS_H

#include <stdbool.h>
#include <stddef.h>

/* "cpus=" and 256 hexadecimal digits; false: it is another word. */
bool cpus_take(const char *s, size_t n);
/* The calling process may run there, once: *given is its own. Nothing if no word said where. */
void cpus_give(bool *given);

#endif
