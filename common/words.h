/*
 * A command line as POSIX shells write it (Shell Command Language, 2.2): words without any
 * expansion, so that a list of arguments can be read by people and taken apart again.
 */
#ifndef COMMON_WORDS_H
#define COMMON_WORDS_H

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/err.h"

/*
 * NULL-terminated arguments, with one space between; in single quotes where a shell needs them.
 * Returns their number.
 */
size_t words_quote(struct buf *out, char *const *argv);
/*
 * What words_quote() wrote, or a person with ' and \. *ret is NULL-terminated and the caller's:
 * words_free(). ERR_SYNTAX: a quote that does not end, or a NUL byte.
 */
int words_split(struct str line, char ***ret, struct err *err);
void words_free(char **argv);
DEFINE_AUTO(words, char *, words_free)

#endif
