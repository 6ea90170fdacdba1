/* What glibc's header of this name has and musl's has not. */
#ifndef COMMON_MUSL_UNISTD_H
#define COMMON_MUSL_UNISTD_H

#include_next <unistd.h>

#include <linux/close_range.h>
#include <sys/syscall.h>

static inline int
close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

#endif
