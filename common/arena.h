/* One request's memory, freed at once. Bounded at birth; over the bound the process ends (parser
 * only). */
#ifndef COMMON_ARENA_H
#define COMMON_ARENA_H

#include <stddef.h>

#include "common/str.h"

struct arena;
struct arena *arena_new(size_t max);
void arena_free(struct arena *a);
void arena_reset(struct arena *a);
void *arena_alloc(struct arena *a, size_t n);	     /* zeroed, aligned for any type */
struct str arena_str(struct arena *a, struct str s); /* copy, NUL behind it */

#endif
