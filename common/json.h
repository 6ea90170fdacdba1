/*
 * A strict JSON reader over cJSON, which by itself lets through duplicate keys, trailing
 * bytes, a BOM, invalid UTF-8, raw control characters, leading zeros and cuts at NUL.
 * A scan of our own runs first and refuses all of these with line and column; only then
 * does cJSON build the tree. Numbers: integers with |n| <= 2^53 - 1, no fraction or exponent,
 * unless asked otherwise.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include "common/err.h"
#include "common/str.h"

#define JSON_DEPTH_MAX 32
#define JSON_SIZE_MAX ((size_t)8 << 20)

struct json; /* a value; borrowed from its document */
struct json_doc;
/* JSON_NUMBER comes from json_parse_numbers alone. */
enum json_type {
	JSON_NULL,
	JSON_BOOL,
	JSON_INT,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
	JSON_NUMBER
};

/* `name` stands in messages ("policy.json:35:7: duplicate key \"rules\""). The text is copied. */
int json_parse(struct str text, const char *name, struct json_doc **ret, struct err *err);
/*
 * The same for JSON that others define: a number with a fraction or an exponent, beyond 2^53 - 1,
 * or "-0" is a JSON_NUMBER, whose value nobody here reads. At most 60 characters of it.
 */
int json_parse_numbers(struct str text, const char *name, struct json_doc **ret, struct err *err);
void json_free(struct json_doc *d);
DEFINE_AUTO(json, struct json_doc, json_free)
const struct json *json_root(const struct json_doc *d);
const char *json_name(const struct json_doc *d);

/* A NULL value (a member that is not there) is like JSON null: "", 0, false, none. */
enum json_type json_type(const struct json *v);
struct str json_str(
    const struct json *v); /* "" unless a string; may hold no NUL (\u0000 is refused) */
int64_t json_int(const struct json *v);			    /* 0 unless an integer */
bool json_bool(const struct json *v);			    /* false unless true */
size_t json_count(const struct json *v);		    /* of an array or object */
const struct json *json_at(const struct json *v, size_t i); /* element or member value */
struct str json_key(const struct json *v, size_t i);	    /* member name */
const struct json *json_get(
    const struct json *obj, const char *key); /* NULL if absent; case matters */
/* Where the value (or, for a member, its key) begins, 1-based; for messages. */
void json_where(
    const struct json_doc *d, const struct json *v, unsigned *ret_line, unsigned *ret_col);
/* The same of one value after another, without reading the text anew where they come in order; *m
 * begins as zeros. */
struct json_mark {
	const struct json_doc *doc;
	size_t off;
	unsigned line, col;
};
void json_where_next(struct json_mark *m, const struct json_doc *d, const struct json *v);
/* err_set with "name:line:col: " before the message. */
int json_err(const struct json_doc *d, const struct json *v, struct err *err, int code,
    const char *fmt, ...) PRINTF_LIKE(5, 6);

#endif
