/* What glibc's header of this name has and musl's has not. */
#ifndef COMMON_MUSL_SYS_UIO_H
#define COMMON_MUSL_SYS_UIO_H

#include_next <sys/uio.h>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

#endif
