/*
 * Ownership by attribute. A local that owns is declared AUTO_*, and handed over
 * with TAKE_PTR / TAKE_FD; what is AUTO is never freed by hand.
 */
#ifndef COMMON_CLEANUP_H
#define COMMON_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#define UNUSED __attribute__((unused))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline void
cleanup_free_ptr(void *pp)
{
	void **p = pp;

	free(*p);
	*p = NULL;
}

static inline void
cleanup_close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

/* The pointed-to type must be freeable with free(3). */
#define AUTO_FREE __attribute__((cleanup(cleanup_free_ptr)))
/* An int; -1 means none. */
#define AUTO_FD __attribute__((cleanup(cleanup_close_fd)))

/* AUTO_TYPE(name, type, fn): defines AUTO-able cleanup for `type *`, by fn(type *). */
#define DEFINE_AUTO(name, type, fn)                 \
	static inline void cleanup_##name(type **p) \
	{                                           \
		fn(*p);                             \
		*p = NULL;                          \
	}
#define AUTO(name) __attribute__((cleanup(cleanup_##name)))

#define TAKE_PTR(v)                            \
	({                                     \
		__typeof__(v) take_tmp_ = (v); \
		(v) = NULL;                    \
		take_tmp_;                     \
	})
#define TAKE_FD(v)                   \
	({                           \
		int take_tmp_ = (v); \
		(v) = -1;            \
		take_tmp_;           \
	})

#endif
