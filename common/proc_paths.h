/* Where the programs find one another: beside the running one, else in the installed place. */
#ifndef COMMON_PROC_PATHS_H
#define COMMON_PROC_PATHS_H

#define COFFERDAM_LIBEXEC "/usr/libexec/cofferdam"
#define COFFERDAM_SHARE "/usr/share/cofferdam"

/* Absolute path of a program of ours ("cofferdam-parser"); the caller frees. Never looks at PATH.
 */
char *proc_program(const char *name);
/* The same of a directory that is shipped ("profiles"). */
char *proc_share(const char *name);

#endif
