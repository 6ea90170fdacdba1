/*
 * Check that bytes are canonical JSON (RFC 8785 without fractions, exponents and null) in one
 * pass, without a tree: the writer splices what it was handed, the verifier hashes what is
 * stored, and neither may rest on a parser that repairs its input.
 */
#ifndef AUDIT_CANON_H
#define AUDIT_CANON_H

#include "common/err.h"
#include "common/str.h"

#define CANON_DEPTH_MAX                                                          \
	16 /* of one value; a BODY is one deeper, since `data` is a value itself \
	    */

/* Exactly one canonical value and nothing behind it. ERR_INVALID names byte offset and reason. */
int canon_check(struct str text, struct err *err);
/* The same to another depth; *ret (both may be NULL) is this member's value, or STR_NONE. */
int canon_check_member(
    struct str text, unsigned depth_max, const char *name, struct str *ret, struct err *err);
/* The member's value in an object that passed canon_check, as stored; STR_NONE if there is none. */
struct str canon_get(struct str object, const char *key);
/* Elements of an array (true: *ret is the next one); start with *at = 0. */
bool canon_next(struct str array, size_t *at, struct str *ret);
/* The text of a string value without escapes inside; STR_NONE when it has some or is no string. */
struct str canon_plain(struct str value);
bool canon_u64(struct str value, uint64_t *ret); /* a non-negative integer */

#endif
