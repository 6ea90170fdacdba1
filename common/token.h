/* Shapes of credentials: tokens whose issuers gave them a prefix, JSON Web Tokens, private keys. */
#ifndef COMMON_TOKEN_H
#define COMMON_TOKEN_H

#include "common/str.h"

/* The first token in s by its shape, borrowed; false: none. */
bool token_find(struct str s, struct str *ret);

#endif
