/*
 * Between json_scan.c and json.c only: the strict scan, and what it notes of each value.
 */
#ifndef COMMON_JSON_SCAN_H
#define COMMON_JSON_SCAN_H

#include "common/json.h"

/* A value costs some 200 bytes of tree for 2 bytes of text: bound the count, not only the size. */
#define JSON_VALUES_MAX ((size_t)500000)
#define JSON_INT_MAX INT64_C(9007199254740991)
#define JSON_NUMBER_MAX 60 /* characters; cJSON cuts a number at 63 */

struct json {
	struct str key, str;
	int64_t num;		  /* integer, or 1 for true */
	const struct json **kids; /* in document order */
	enum json_type type;
	uint32_t off;	/* in the text: the value, or for a member its key */
	uint32_t count; /* children */
};

/*
 * Decides whether text is strict JSON. On success *ret holds all its values in document
 * order (key, str and kids not yet filled in), *ret_n how many; the caller frees. `numbers`: any
 * number of RFC 8259 will do.
 */
int json_scan(struct str text, const char *name, bool numbers, struct json **ret, size_t *ret_n,
    struct err *err);
/* Line and column (in characters) of a byte offset, both from 1. */
void json_scan_where(struct str text, size_t off, unsigned *ret_line, unsigned *ret_col);

#endif
