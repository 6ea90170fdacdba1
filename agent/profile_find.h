/* Where profiles are: the person's own directory, then the installed one. */
#ifndef AGENT_PROFILE_FIND_H
#define AGENT_PROFILE_FIND_H

#include "agent/profile.h"

#define PROFILES_MAX 256

/* A name that both directories have is the person's. Sorted by name. */
struct profile_list {
	struct profile *v[PROFILES_MAX];
	size_t n;
	size_t broken; /* files that were told of and passed over */
};
void profile_list_read(struct profile_list *ret);
void profile_list_free(struct profile_list *l);
#define AUTO_PROFILES __attribute__((cleanup(profile_list_free)))

/* ERR_NOT_FOUND names the directories; a file that is no profile is an error. */
int profile_load(const char *name, struct profile **ret, struct err *err);
/* The named one; else (name NULL) the one profile that there is for a program, which is said. *ret
 * stays NULL where there is none, or more than one. */
int profile_choose(const char *name, const char *program, struct profile **ret, struct err *err);
/* NULL: there is no home. The caller frees. */
char *profile_dir_own(void);
char *profile_dir_installed(void);

#endif
