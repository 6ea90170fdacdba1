/*
 * The error table and the one way to fail. Linked into every process; trusts its
 * callers' format strings, never prints by itself.
 */
#include "common/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/banned.h"

static const struct {
	int code;
	int http;
	const char *name;
	const char *sqlstate;
	const char *text;
} err_table[] = {
#define X(n, num, h, s, t) {(num), (h), #n, (s), (t)},
#include "common/err.tbl"
#undef X
};

static size_t
err_index(int code)
{
	for (size_t i = 0; i < ARRAY_LEN(err_table); i++)
		if (err_table[i].code == code)
			return i;
	return 0;
}

const char *
err_name(int code)
{
	return err_table[err_index(code)].name;
}

const char *
err_text(int code)
{
	return err_table[err_index(code)].text;
}

const char *
err_sqlstate(int code)
{
	return err_table[err_index(code)].sqlstate;
}

int
err_http(int code)
{
	return err_table[err_index(code)].http;
}

static void PRINTF_LIKE(3, 0) err_vset(struct err *err, int code, const char *fmt, va_list ap)
{
	assert(code < 0);
	if (err == NULL)
		return;
	err->code = code;
	(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
}

int
err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_vset(err, code, fmt, ap);
	va_end(ap);
	return code;
}

static const char *
error_text(int errnum, char *room, size_t size)
{
#ifdef __GLIBC__
	return strerror_r(errnum, room, size);
#else
	return strerror_r(errnum, room, size) == 0 ? room : "unknown error";
#endif
}

int
err_sys(struct err *err, int code, int errnum, const char *fmt, ...)
{
	va_list ap;
	char text[128];
	const char *s;
	size_t n;

	va_start(ap, fmt);
	err_vset(err, code, fmt, ap);
	va_end(ap);
	if (err == NULL)
		return code;
	s = error_text(errnum, text, sizeof(text));
	n = strlen(err->msg);
	/* C libraries word it each their own way, none says what to do. */
	(void)snprintf(err->msg + n, sizeof(err->msg) - n, ": %s%s", s,
	    errnum == EMFILE ? " (raise the limit of open files, ulimit -n)" : "");
	return code;
}

int
err_wrap(struct err *err, const char *fmt, ...)
{
	va_list ap;
	char old[ERR_MSG_MAX];
	int n;

	if (err == NULL)
		return ERR_INTERNAL;
	assert(err->code < 0);
	memcpy(old, err->msg, sizeof(old));
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(err->msg))
		(void)snprintf(err->msg + n, sizeof(err->msg) - (size_t)n, ": %.*s",
		    (int)(sizeof(err->msg) - (size_t)n), old);
	return err->code;
}

void
err_clear(struct err *err)
{
	if (err == NULL)
		return;
	err->code = 0;
	err->msg[0] = '\0';
}
