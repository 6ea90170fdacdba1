/*
 * Pointer and length, for everything that was parsed or came from outside. A struct
 * str borrows: who owns the bytes is the business of whoever made it. May hold NUL.
 */
#ifndef COMMON_STR_H
#define COMMON_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct err;
struct str {
	const char *p;
	size_t n;
};

#define STR(lit) ((struct str){"" lit, sizeof(lit) - 1})
#define STR_NONE ((struct str){NULL, 0})
/*
 * printf("%.*s", STR_ARG(s)); lengths over INT_MAX never occur: buffers are capped far below.
 * Evaluates s twice: a call in it may only look (tests/house.sh).
 */
#define STR_ARG(s) (int)(s).n, ((s).n != 0 ? (s).p : "")

struct str str_z(const char *z); /* z may be NULL */
struct str str_mem(const void *p, size_t n);
bool str_eq(struct str a, struct str b);
bool str_eqz(struct str a, const char *z);
bool str_ieq(struct str a, struct str b); /* ASCII case folded */
bool str_ieqz(struct str a, const char *z);
bool str_has_prefix(struct str a, const char *z);
bool str_has_suffix(struct str a, const char *z);
int str_cmp(struct str a, struct str b); /* memcmp order, then length */
struct str str_trim(struct str s);	 /* ASCII space, tab, CR, LF at both ends */
/* The part before the first c goes to *ret_head, what follows is left in *s; false: no c, nothing
 * changed. */
bool str_cut(struct str *s, char c, struct str *ret_head);
/* Takes c, or exactly n decimal digits (n at most 9), off the front; false: it does not stand
 * there, and s is as before. */
bool str_skip(struct str *s, char c);
bool str_digits(struct str *s, size_t n, int *ret);
/* NUL-terminated copy; the caller frees. Dies when out of memory. */
char *str_dup(struct str s);
/* Decimal digits only, no sign, no leading zero but "0" itself; false when not that or over max. */
bool str_to_u64(struct str s, uint64_t max, uint64_t *ret);
/* Well-formed UTF-8 of RFC 3629 (no surrogates, no overlongs), NUL allowed. */
bool str_is_utf8(struct str s);
bool str_is_ascii_print(struct str s);
/* Printable ASCII of min to max bytes; ERR_INVALID names `what`, and the byte that is wrong. */
int str_text_check(const char *what, struct str s, size_t min, size_t max, struct err *err);
/* `pattern` with `*` for any run of bytes (also none); all else literal. At most pattern times text
 * steps. */
bool str_glob(struct str pattern, struct str s);

#endif
