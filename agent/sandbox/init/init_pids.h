/* The processes that /proc shows; without what hides itself, or has just gone. */
#ifndef INIT_PIDS_H
#define INIT_PIDS_H

#include <stdbool.h>
#include <stddef.h>

/* fn for each, with its number as text; scratch is for this call. 0, or -errno. */
int pids_each(char *scratch, size_t size, void (*fn)(const char *pid, void *arg), void *arg);

struct pids_stat {
	char state; /* as ps shows it */
	int parent, group;
	long born; /* since boot, in hundredths of a second */
};
/* False: it is gone, or hides itself. */
bool pids_stat(const char *pid, struct pids_stat *ret);
/* The decimal number at s[*at], of n bytes; *at is then behind it and one more byte. */
long pids_number(const char *s, long n, long *at);

#endif
