/*
 * What looks like a credential by its place: fields and query parameters that carry one (its shapes
 * are common/token.h's). Tables only; what follows from a find is core_http_cred.c's.
 */
#ifndef BROKER_CORE_TOKEN_H
#define BROKER_CORE_TOKEN_H

#include "common/str.h"

bool core_token_field(struct str name);	    /* "Authorization", "X-Api-Key", ... */
bool core_token_parameter(struct str name); /* decoded; "access_token", ... */
/* One name to servers that take '-', '_', '.' and blanks for the same, in any case. */
bool core_token_alike(struct str name, const char *z);
/* The name that is meant by "name[]", "name[a]" and " name"; borrowed. */
struct str core_token_parameter_stem(struct str name);
/* The first placeholder in s: CORE_PLACEHOLDER_PREFIX and 26 digits of base32. */
bool core_token_placeholder(struct str s, struct str *ret);

#endif
