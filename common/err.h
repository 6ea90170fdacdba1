/*
 * Errors: a function returns 0 or a negative ERR_*, and fails with
 *	return err_set(err, ERR_X, "policy.json:35: quorum must be from 1 to 9, is %d", n);
 * so that no variable can still say success. Test `!= 0`. `err` may be NULL.
 */
#ifndef COMMON_ERR_H
#define COMMON_ERR_H

#include "common/cleanup.h"

enum {
#define X(name, num, http, sqlstate, text) name = (num),
#include "common/err.tbl"
#undef X
};

#define ERR_MSG_MAX 1024

struct err {
	int code;
	char msg[ERR_MSG_MAX];
};

/* Record code and message (cut at ERR_MSG_MAX). Returns code, which must be negative. */
int err_set(struct err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same with ": strerror(errnum)" appended. */
int err_sys(struct err *err, int code, int errnum, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* Put "prefix: " before the message already there. Returns the code already there. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
void err_clear(struct err *err);

/* Facts of the table; an unknown code is treated as ERR_INTERNAL. */
const char *err_name(int code);
const char *err_text(int code);
const char *err_sqlstate(int code);
int err_http(int code);

#endif
