/* What glibc's header of this name has and musl's has not: signals by name. */
#ifndef COMMON_MUSL_STRING_H
#define COMMON_MUSL_STRING_H

#include_next <string.h>

static inline const char *
sigabbrev_np(int signo)
{
	static const char names[][7] = {"", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS",
	    "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT",
	    "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH",
	    "POLL", "PWR", "SYS"};

	return signo > 0 && signo < (int)(sizeof(names) / sizeof(*names)) ? names[signo] : NULL;
}

static inline const char *
sigdescr_np(int signo)
{
	return sigabbrev_np(signo) != NULL ? strsignal(signo) : NULL;
}

#endif
