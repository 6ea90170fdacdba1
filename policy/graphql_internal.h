/* Between the files of the GraphQL reader. */
#ifndef POLICY_GRAPHQL_INTERNAL_H
#define POLICY_GRAPHQL_INTERNAL_H

#include "policy/graphql.h"

/* Any other is the punctuator itself: '{' and so on. */
enum token {
	TOKEN_END = 0,
	TOKEN_NAME,
	TOKEN_NUMBER,
	TOKEN_STRING, /* also a block string */
	TOKEN_SPREAD, /* three dots */
};

struct lexer {
	struct str text;
	size_t at;    /* behind the current token */
	size_t start; /* of the current token */
	int token;
	struct str value; /* of a name */
};
/* Moves to the next token. ERR_SYNTAX. */
int graphql_next(struct lexer *l, struct err *err);
/* "GraphQL:LINE:COLUMN: ..." of the current token. */
int graphql_fail(const struct lexer *l, int code, struct err *err, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* One selection; those of a definition stand together. */
struct item {
	struct str name;   /* of the field, or of the fragment that is spread */
	uint32_t fragment; /* of a spread: index of its definition */
	bool spread;
	bool root; /* in the definition's own selection set, inline fragments dissolved */
};
struct definition {
	enum graphql_type type; /* GRAPHQL_NONE: a fragment */
	struct str name;	/* empty: anonymous */
	uint32_t first, n;	/* of items */
};
struct graphql_doc {
	struct definition *defs;
	struct item *items;
	uint32_t ndefs, nitems, noperations;
};
/* graphql_link.c: spreads find their fragments; circles and equal names are refused. */
int graphql_link(struct arena *a, struct graphql_doc *d, struct err *err);

#endif
