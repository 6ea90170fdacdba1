/*
 * Calls that have cost others CVEs. Included last in every .c file, so that a use
 * does not compile. (#pragma GCC poison fails on macros of glibc's own.)
 */
#ifndef COMMON_BANNED_H
#define COMMON_BANNED_H

#define BANNED(f) use_of_##f##_is_banned

#undef strcpy
#define strcpy(a, b) BANNED(strcpy)
#undef strcat
#define strcat(a, b) BANNED(strcat)
#undef strncpy
#define strncpy(a, b, c) BANNED(strncpy)
#undef strncat
#define strncat(a, b, c) BANNED(strncat)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf)
#undef strtok
#define strtok(a, b) BANNED(strtok)
#undef gets
#define gets(a) BANNED(gets)
#undef alloca
#define alloca(n) BANNED(alloca)
#undef system
#define system(c) BANNED(system)
#undef popen
#define popen(a, b) BANNED(popen)
#undef localtime
#define localtime(a) BANNED(localtime)
#undef gmtime
#define gmtime(a) BANNED(gmtime)
#undef rand
#define rand() BANNED(rand)
#undef atoi
#define atoi(a) BANNED(atoi)
#undef atol
#define atol(a) BANNED(atol)

#endif
