/* What glibc's header of this name has and musl's has not. */
#ifndef COMMON_MUSL_SYS_RESOURCE_H
#define COMMON_MUSL_SYS_RESOURCE_H

#include_next <sys/resource.h>

typedef int __rlimit_resource_t;

#endif
