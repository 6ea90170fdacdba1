/*
 * Reading the body of INSIDE_SPAWN. No system calls, so that a fuzzer reads it as pid 1 does.
 * Nothing is copied: all strings stay where the body is.
 */
#ifndef INIT_ORDER_H
#define INIT_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/sandbox/inside.h"

#define ORDER_ARGS_MAX 4096u
#define ORDER_ENV_MAX 4096u
#define ORDER_CODE_NAME_MAX 200u
#define ORDER_CODE_DIR "/tmp/.code"
#define ORDER_FLAGS                                                                          \
	((uint32_t)(INSIDE_MERGE | INSIDE_KEEP | INSIDE_STDIN | INSIDE_TTY | INSIDE_HELPER | \
		    INSIDE_GIVEN))

struct order {
	uint32_t flags;
	uint16_t rows, cols;
	const char *cwd;
	/* argv[-1] is free, and argv[argc] as well (NULL), with argv[argc + 1] NULL: room for a
	 * shell before it and for the file of the code behind it. */
	char **argv, **env;
	uint32_t argc;
	const char *code_path; /* NULL: no code */
	const char *code;
	size_t code_size;
};

/*
 * Of a body's first bytes: how many pointers order_read needs, or 0 and *ret_wrong. n is the size
 * of the whole body.
 */
static inline size_t
order_pointers(const struct inside_spawn *s, size_t n, const char **ret_wrong)
{
	*ret_wrong = NULL;
	if (n < sizeof(*s))
		*ret_wrong = "it is shorter than its fixed part";
	else if ((s->flags & ~ORDER_FLAGS) != 0)
		*ret_wrong = "it has an unknown flag";
	else if (s->argc == 0)
		*ret_wrong = "it has no argument, must have from 1 to 4096";
	else if (s->argc > ORDER_ARGS_MAX)
		*ret_wrong = "it has more than 4096 arguments";
	else if (s->envc > ORDER_ENV_MAX)
		*ret_wrong = "it has more than 4096 variables";
	else if (s->code_size > n)
		*ret_wrong = "its code is longer than itself";
	return *ret_wrong != NULL ? 0 : (size_t)s->argc + s->envc + 4;
}

/* The next string of at[0..left), or NULL when no NUL ends it. */
static inline char *
order_string(char **at, size_t *left)
{
	char *s = *at;

	for (size_t i = 0; i < *left; i++)
		if (s[i] == '\0') {
			*at += i + 1;
			*left -= i + 1;
			return s;
		}
	return NULL;
}

/* ORDER_CODE_DIR, "/" and a plain name. */
static inline bool
order_code_ok(const char *s)
{
	static const char dir[] = ORDER_CODE_DIR "/";
	size_t n = 0;

	for (size_t i = 0; i + 1 < sizeof(dir); i++)
		if (*s++ != dir[i])
			return false;
	for (; s[n] != '\0'; n++)
		if (s[n] == '/' || n >= ORDER_CODE_NAME_MAX)
			return false;
	return n != 0 && !(s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.')));
}

/*
 * body[0..n) begins with *s, which order_pointers found right; table has as many pointers as it
 * said. NULL, or what is wrong; then *ret is not to be used.
 */
static inline const char *
order_read(const struct inside_spawn *s, char *body, size_t n, char **table, struct order *ret)
{
	char *at = body + sizeof(*s);
	size_t left = n - sizeof(*s);
	char **p = table;

	ret->flags = s->flags;
	ret->rows = s->rows;
	ret->cols = s->cols;
	ret->argc = s->argc;
	ret->code_path = NULL;
	ret->code = NULL;
	ret->code_size = s->code_size;
	ret->cwd = order_string(&at, &left);
	if (ret->cwd == NULL || ret->cwd[0] != '/')
		return "its directory is not an absolute path";
	*p++ = NULL;
	ret->argv = p;
	for (uint32_t i = 0; i < s->argc; i++)
		if ((*p++ = order_string(&at, &left)) == NULL)
			return "an argument does not end";
	*p++ = NULL;
	*p++ = NULL;
	ret->env = p;
	for (uint32_t i = 0; i < s->envc; i++)
		if ((*p++ = order_string(&at, &left)) == NULL)
			return "a variable does not end";
	*p = NULL;
	if (s->code_size != 0) {
		ret->code_path = order_string(&at, &left);
		if (ret->code_path == NULL || !order_code_ok(ret->code_path))
			return "its code must be " ORDER_CODE_DIR
			       "/NAME, NAME of 200 bytes or fewer";
		ret->code = at;
	}
	return left == s->code_size ? NULL : "its size is not that of its parts";
}

#endif
