/*
 * GraphQL executable documents (specification of October 2021, sections 2, 5.2, 5.5 and 6.1),
 * strictly: what this does not read, is refused. Only the names of fields and fragments are kept.
 * Runs in the parser on what agents send; in core and the command line on documents that a policy
 * registered. Memory is bounded by the number of tokens, recursion by the depth.
 */
#ifndef POLICY_GRAPHQL_H
#define POLICY_GRAPHQL_H

#include "common/arena.h"
#include "common/err.h"

#define GRAPHQL_TEXT_MAX ((size_t)1 << 20)
#define GRAPHQL_TOKENS_MAX 50000
#define GRAPHQL_DEPTH_MAX 64
#define GRAPHQL_DEFINITIONS_MAX 1024
/* An arena of this size holds any document and its operations. */
#define GRAPHQL_ARENA_MAX ((size_t)16 << 20)

enum graphql_type { GRAPHQL_NONE = 0, GRAPHQL_QUERY, GRAPHQL_MUTATION, GRAPHQL_SUBSCRIPTION };
const char *graphql_type_name(enum graphql_type t);

struct graphql_doc; /* borrows from the text and the arena */
/*
 * ERR_SYNTAX: no such document, or one whose fragments are not there, twice there or in a circle,
 * or whose operations cannot be told apart. ERR_TOO_COMPLEX: over a limit.
 */
int graphql_parse(struct arena *a, struct str text, struct graphql_doc **ret, struct err *err);

struct graphql_op {
	enum graphql_type type;
	unsigned operations; /* in the document */
	/* Fields of the root, through fragments, by their own names, not their aliases; what stands
	 * beneath them. Each sorted and unique; @skip and @include count as if they were not there.
	 */
	size_t nfields, nnested;
	struct str *fields, *nested;
};
/* The operation that `name` selects; an empty name selects the only one. ERR_SYNTAX: none. */
int graphql_select(struct arena *a, const struct graphql_doc *d, struct str name,
    struct graphql_op *ret, struct err *err);

#endif
