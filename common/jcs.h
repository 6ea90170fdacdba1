/*
 * Emitter for the canonical JSON of the log (RFC 8785 restricted to strings, integers with
 * |n| < 2^53, booleans, arrays, objects). Keys must be added in ascending byte order; a
 * key out of order, a number out of range or invalid UTF-8 is an assertion: our own bug,
 * except jcs_str_lossy, which replaces invalid bytes by U+FFFD for text from outside.
 */
#ifndef COMMON_JCS_H
#define COMMON_JCS_H

#include "common/buf.h"
#include "common/json.h"

#define JCS_DEPTH_MAX 16

struct jcs {
	struct buf *out;
	unsigned depth;
	bool comma[JCS_DEPTH_MAX + 1];
	bool object[JCS_DEPTH_MAX + 1];
	size_t last_key[JCS_DEPTH_MAX + 1]; /* offset and length in out of the last key written */
	size_t last_len[JCS_DEPTH_MAX + 1];
};

void jcs_init(struct jcs *j, struct buf *out);
/* `key` is NULL inside an array and at the top. */
void jcs_open(struct jcs *j, const char *key);	/* { */
void jcs_close(struct jcs *j);			/* } */
void jcs_array(struct jcs *j, const char *key); /* [ */
void jcs_array_end(struct jcs *j);		/* ] */
void jcs_str(struct jcs *j, const char *key, struct str s);
void jcs_str_lossy(struct jcs *j, const char *key, struct str s);
void jcs_z(struct jcs *j, const char *key, const char *s);
void jcs_int(struct jcs *j, const char *key, int64_t v);
void jcs_bool(struct jcs *j, const char *key, bool v);
void jcs_hex(struct jcs *j, const char *key, const void *p, size_t n); /* lower case */
void jcs_time(struct jcs *j, const char *key, int64_t us);	       /* to the second */
void jcs_time_known(struct jcs *j, const char *key, int64_t us);       /* 0: left out */
/* A value that already is canonical JSON (checked only in that it is not empty). */
void jcs_raw(struct jcs *j, const char *key, struct str canonical);
/* As jcs_* but with a key of counted length. */
void jcs_key(struct jcs *j, struct str key); /* then call a function with key NULL */
/* The order of keys, RFC 8785 3.2.3. */
int jcs_key_cmp(struct str a, struct str b);
/* Re-emit a parsed value canonically (keys sorted; null is refused: ERR_INVALID). */
int jcs_value(struct jcs *j, const char *key, const struct json *v, struct err *err);
/* Is `text` exactly its own canonical form? */
bool jcs_is_canonical(struct str text, struct err *err);

#endif
