/*
 * What glibc's header of this name has and musl's has not: the file descriptor based calls. For the
 * programs that are linked with musl (Makefile).
 */
#ifndef COMMON_MUSL_SYS_MOUNT_H
#define COMMON_MUSL_SYS_MOUNT_H

#include_next <sys/mount.h>

#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int
open_tree(int dir, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, dir, path, flags);
}

static inline int
move_mount(int from, const char *from_path, int to, const char *to_path, unsigned flags)
{
	return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}

static inline int
fsopen(const char *name, unsigned flags)
{
	return (int)syscall(SYS_fsopen, name, flags);
}

static inline int
fsconfig(int fs, unsigned what, const char *key, const void *value, int aux)
{
	return (int)syscall(SYS_fsconfig, fs, what, key, value, aux);
}

static inline int
fsmount(int fs, unsigned flags, unsigned attr)
{
	return (int)syscall(SYS_fsmount, fs, flags, attr);
}

static inline int
mount_setattr(int dir, const char *path, unsigned flags, struct mount_attr *attr, size_t size)
{
	return (int)syscall(SYS_mount_setattr, dir, path, flags, attr, size);
}

#endif
