/* A test's directory and all that is in it. */
#ifndef TESTS_TEMP_HELP_H
#define TESTS_TEMP_HELP_H

#include <ftw.h>
#include <stdio.h>

static inline int
temp_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void
temp_remove(const char *path)
{
	(void)nftw(path, temp_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
