/* What a path of a request can be taken for. Pure. */
#ifndef POLICY_EFFECTS_HTTP_PATH_H
#define POLICY_EFFECTS_HTTP_PATH_H

#include "common/str.h"

/* Why servers may not agree on what the path names; NULL: they do. */
const char *http_path_fault(struct str path);
/* The same for a server that undoes escapes once and takes what it gets as it is: "%25" is a '%'.
 */
const char *http_path_fault_once(struct str path);
/*
 * Does the last segment name one thing, not a collection? An id has a digit, of letters, digits,
 * '-', '_', '.' alone, and is not a word with up to five digits behind it ("v2", "oauth2",
 * "user42"): what looks like a word may be a collection.
 */
bool http_path_names_one(struct str path);
/* Equal for a server that ignores case, a '/' at the end and needless escapes. */
bool http_path_alike(struct str path, struct str other);
/* A segment begins with "graphql", or is "gql" with or without a suffix: "/graphql/v2",
 * "/gql.json". */
bool http_path_is_graphql(struct str path);

#endif
