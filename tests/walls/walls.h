/*
 * What code inside a sandbox tries: one function a check. A check has an identity (that of the
 * list it comes from, and a word), the layers that are meant to stop it, and one sentence. It is
 * run in a process of its own and says whether the attempt got anywhere. Canaries of the host come
 * as NAME=VALUE arguments; a check whose canary is not given is not run.
 */
#ifndef TESTS_WALLS_WALLS_H
#define TESTS_WALLS_WALLS_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum wall_result { REFUSED = 0, REACHED = 1, SKIPPED = 2 };
enum wall_kind {
	WALL_ATTACK, /* many in one sandbox */
	WALL_NEAR,   /* the nearest thing that is allowed: REACHED is right */
	WALL_ALONE,  /* a sandbox of its own, with these options; who started it judges, too */
};

struct wall {
	const char *id, *layers, *what, *options;
	int (*fn)(void);
	enum wall_kind kind;
};

/* The linker collects the pointers, so a check stands in one place only. */
#define WALL_(kind_, id_, fn_, layers_, options_, what_)                                   \
	static int fn_(void);                                                              \
	static const struct wall wall_##fn_ = {id_, layers_, what_, options_, fn_, kind_}; \
	__attribute__((section("walls"), used)) static const struct wall *const at_##fn_ = \
	    &wall_##fn_;                                                                   \
	static int fn_(void)
#define WALL(id_, fn_, layers_, what_) WALL_(WALL_ATTACK, id_, fn_, layers_, "", what_)
#define NEAR(id_, fn_, what_) WALL_(WALL_NEAR, "ok-" id_, fn_, "", "", what_)
#define ALONE(id_, fn_, layers_, options_, what_) \
	WALL_(WALL_ALONE, id_, fn_, layers_, options_, what_)

/* A system call that the filter alone must refuse: the pointers are bad, so that any other answer
 * than EPERM or ENOSYS comes from kernel code that was reached. */
#define BAD ((void *)8)
#define CALL(id_, fn_, what_, ...)                     \
	WALL(id_, fn_, "seccomp", what_)               \
	{                                              \
		return filtered(syscall(__VA_ARGS__)); \
	}

/* The n-th value of a canary, or NULL. */
const char *canary(const char *name, int n);
/* Said beside a verdict that is wrong. */
void detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Of a system call's answer: refused by the filter, and by nothing behind it. */
int filtered(long rc);
/* Of an answer of the kernel's own: reached unless it failed. */
int failed(long rc);
/* A whole small file as text (NUL becomes a blank); false: it cannot be opened. */
bool slurp(const char *path, char *out, size_t size);
extern char room[1 << 20];

#endif
