/*
 * GraphQL documents by recursive descent (October 2021, section 2). Runs in the parser on hostile
 * text, elsewhere on documents of a policy. It keeps the names of selections, flat, and nothing
 * else. Must never accept what it did not read to the end.
 */
#include "policy/graphql_internal.h"

#include "common/banned.h"

struct reader {
	struct lexer l;
	struct graphql_doc *d;
	unsigned depth;
	struct err *err;
};

static int
fail(struct reader *r, const char *what)
{
	return graphql_fail(&r->l, ERR_SYNTAX, r->err, "%s", what);
}

static int
next(struct reader *r)
{
	return graphql_next(&r->l, r->err);
}

static int
take(struct reader *r, int token, const char *what)
{
	return r->l.token == token ? next(r) : fail(r, what);
}

static bool
at_word(const struct reader *r, const char *word)
{
	return r->l.token == TOKEN_NAME && str_eqz(r->l.value, word);
}

static int
take_name(struct reader *r, struct str *ret)
{
	if (r->l.token != TOKEN_NAME)
		return fail(r, "a name is missing");
	*ret = r->l.value;
	return next(r);
}

static int
deeper(struct reader *r)
{
	if (++r->depth <= GRAPHQL_DEPTH_MAX)
		return 0;
	return graphql_fail(
	    &r->l, ERR_TOO_COMPLEX, r->err, "nested deeper than %d", GRAPHQL_DEPTH_MAX);
}

/* --- values, types, directives ------------------------------------------------------- */

static int read_value(struct reader *r, bool constant);

/* Behind the bracket; of an object each value has a name. */
static int
read_values(struct reader *r, int close, bool constant)
{
	int rc = deeper(r);

	while (rc == 0 && r->l.token != close) {
		struct str name = STR_NONE;

		if (close != ']') {
			rc = take_name(r, &name);
			if (rc == 0)
				rc = take(r, ':', "a name of an argument or member lacks its ':'");
		}
		if (rc == 0)
			rc = read_value(r, constant);
	}
	if (rc != 0)
		return rc;
	r->depth--;
	return next(r);
}

static int
read_value(struct reader *r, bool constant)
{
	int token = r->l.token, rc;
	struct str name = STR_NONE;

	if (token == TOKEN_NAME || token == TOKEN_NUMBER || token == TOKEN_STRING)
		return next(r);
	if (token != '[' && token != '{' && (token != '$' || constant))
		return fail(r, "a value is missing");
	rc = next(r);
	if (rc != 0)
		return rc;
	if (token == '$')
		return take_name(r, &name);
	return read_values(r, token == '[' ? ']' : '}', constant);
}

static int
read_arguments(struct reader *r, bool constant)
{
	int rc;

	if (r->l.token != '(')
		return 0;
	rc = next(r);
	if (rc == 0 && r->l.token == ')')
		return fail(r, "an argument is missing");
	return rc != 0 ? rc : read_values(r, ')', constant);
}

static int
read_directives(struct reader *r, bool constant)
{
	int rc = 0;

	while (rc == 0 && r->l.token == '@') {
		struct str name = STR_NONE;

		rc = next(r);
		if (rc == 0)
			rc = take_name(r, &name);
		if (rc == 0)
			rc = read_arguments(r, constant);
	}
	return rc;
}

static int
read_type(struct reader *r)
{
	struct str name = STR_NONE;
	int rc;

	if (r->l.token == '[') {
		rc = deeper(r);
		if (rc == 0)
			rc = next(r);
		if (rc == 0)
			rc = read_type(r);
		if (rc == 0)
			rc = take(r, ']', "a type of a list does not end");
		r->depth--;
	} else {
		rc = take_name(r, &name);
	}
	return rc == 0 && r->l.token == '!' ? next(r) : rc;
}

static int
read_variable(struct reader *r)
{
	struct str name = STR_NONE;
	int rc = take(r, '$', "a variable is missing");

	if (rc == 0)
		rc = take_name(r, &name);
	if (rc == 0)
		rc = take(r, ':', "a variable has no type");
	if (rc == 0)
		rc = read_type(r);
	if (rc == 0 && r->l.token == '=') {
		rc = next(r);
		if (rc == 0)
			rc = read_value(r, true);
	}
	return rc == 0 ? read_directives(r, true) : rc;
}

static int
read_variables(struct reader *r)
{
	int rc;

	if (r->l.token != '(')
		return 0;
	rc = next(r);
	do {
		if (rc == 0)
			rc = read_variable(r);
	} while (rc == 0 && r->l.token != ')');
	return rc == 0 ? next(r) : rc;
}

/* --- selections ---------------------------------------------------------------------- */

static int read_selections(struct reader *r, bool root);

/* There is room: as many items as the text has tokens. */
static void
item_add(struct reader *r, struct str name, bool spread, bool root)
{
	r->d->items[r->d->nitems++] = (struct item){.name = name, .spread = spread, .root = root};
}

static int
read_field(struct reader *r, bool root)
{
	struct str name = STR_NONE;
	int rc = take_name(r, &name);

	if (rc == 0 && r->l.token == ':') { /* that was an alias */
		rc = next(r);
		if (rc == 0)
			rc = take_name(r, &name);
	}
	if (rc != 0)
		return rc;
	item_add(r, name, false, root);
	rc = read_arguments(r, false);
	if (rc == 0)
		rc = read_directives(r, false);
	return rc == 0 && r->l.token == '{' ? read_selections(r, false) : rc;
}

/* Behind "...". What an inline fragment selects is selected where it stands. */
static int
read_spread(struct reader *r, bool root)
{
	struct str name = STR_NONE;
	int rc = 0;

	if (r->l.token == TOKEN_NAME && !at_word(r, "on")) {
		rc = take_name(r, &name);
		if (rc != 0)
			return rc;
		item_add(r, name, true, root);
		return read_directives(r, false);
	}
	if (at_word(r, "on")) {
		rc = next(r);
		if (rc == 0)
			rc = take_name(r, &name);
	}
	if (rc == 0)
		rc = read_directives(r, false);
	return rc == 0 ? read_selections(r, root) : rc;
}

static int
read_selections(struct reader *r, bool root)
{
	int rc = deeper(r);

	if (rc == 0)
		rc = take(r, '{', "a selection is missing");
	if (rc == 0 && r->l.token == '}')
		rc = fail(r, "a selection is empty");
	while (rc == 0 && r->l.token != '}') {
		if (r->l.token == TOKEN_SPREAD) {
			rc = next(r);
			if (rc == 0)
				rc = read_spread(r, root);
		} else {
			rc = read_field(r, root);
		}
	}
	if (rc != 0)
		return rc;
	r->depth--;
	return next(r);
}

/* --- definitions --------------------------------------------------------------------- */

const char *
graphql_type_name(enum graphql_type t)
{
	switch (t) {
	case GRAPHQL_NONE: return "none";
	case GRAPHQL_QUERY: return "query";
	case GRAPHQL_MUTATION: return "mutation";
	case GRAPHQL_SUBSCRIPTION: return "subscription";
	}
	return "none";
}

static int
read_operation(struct reader *r, struct definition *def)
{
	static const enum graphql_type types[] = {
	    GRAPHQL_QUERY, GRAPHQL_MUTATION, GRAPHQL_SUBSCRIPTION};
	int rc;

	r->d->noperations++;
	if (r->l.token == '{') {
		def->type = GRAPHQL_QUERY;
		return read_selections(r, true);
	}
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (at_word(r, graphql_type_name(types[i])))
			def->type = types[i];
	if (def->type == GRAPHQL_NONE)
		return fail(r, "this is no operation and no fragment");
	rc = next(r);
	if (rc == 0 && r->l.token == TOKEN_NAME)
		rc = take_name(r, &def->name);
	if (rc == 0)
		rc = read_variables(r);
	if (rc == 0)
		rc = read_directives(r, false);
	return rc == 0 ? read_selections(r, true) : rc;
}

static int
read_fragment(struct reader *r, struct definition *def)
{
	struct str type = STR_NONE;
	int rc = next(r);

	if (rc == 0 && at_word(r, "on"))
		return fail(r, "a fragment cannot be named \"on\"");
	if (rc == 0)
		rc = take_name(r, &def->name);
	if (rc == 0 && !at_word(r, "on"))
		return fail(r, "a fragment lacks its \"on\"");
	if (rc == 0)
		rc = next(r);
	if (rc == 0)
		rc = take_name(r, &type);
	if (rc == 0)
		rc = read_directives(r, false);
	return rc == 0 ? read_selections(r, true) : rc;
}

static int
read_document(struct reader *r)
{
	int rc = next(r);

	if (rc == 0 && r->l.token == TOKEN_END)
		return fail(r, "the document is empty");
	while (rc == 0 && r->l.token != TOKEN_END) {
		struct definition *def = &r->d->defs[r->d->ndefs];

		if (r->d->ndefs == GRAPHQL_DEFINITIONS_MAX)
			return graphql_fail(&r->l, ERR_TOO_COMPLEX, r->err,
			    "more than %d definitions", GRAPHQL_DEFINITIONS_MAX);
		def->first = r->d->nitems;
		rc = at_word(r, "fragment") ? read_fragment(r, def) : read_operation(r, def);
		def->n = r->d->nitems - def->first;
		r->d->ndefs++;
	}
	return rc;
}

/* Reads all tokens once, so that what is built from them has its size beforehand. */
static int
count_tokens(struct str text, size_t *ret, struct err *err)
{
	struct lexer l = {.text = text};
	size_t n = 0;

	do {
		int rc = graphql_next(&l, err);

		if (rc != 0)
			return rc;
		if (++n > GRAPHQL_TOKENS_MAX)
			return err_set(err, ERR_TOO_COMPLEX, "GraphQL: more than %d tokens",
			    GRAPHQL_TOKENS_MAX);
	} while (l.token != TOKEN_END);
	*ret = n;
	return 0;
}

/* Section 2.1.1, and UTF-8. */
static int
check_text(struct str text, struct err *err)
{
	if (text.n > GRAPHQL_TEXT_MAX)
		return err_set(err, ERR_TOO_COMPLEX, "GraphQL: the document is over %zu bytes",
		    GRAPHQL_TEXT_MAX);
	if (!str_is_utf8(text))
		return err_set(err, ERR_SYNTAX, "GraphQL: the document is not UTF-8");
	for (size_t i = 0; i < text.n; i++) {
		uint8_t c = (uint8_t)text.p[i];

		if (c < 0x20 && c != '\t' && c != '\n' && c != '\r')
			return err_set(err, ERR_SYNTAX,
			    "GraphQL: byte 0x%02x cannot stand in a document", (unsigned)c);
	}
	return 0;
}

int
graphql_parse(struct arena *a, struct str text, struct graphql_doc **ret, struct err *err)
{
	struct reader r = {.l = {.text = text}, .err = err};
	size_t tokens;
	int rc = check_text(text, err);

	if (rc == 0)
		rc = count_tokens(text, &tokens, err);
	if (rc != 0)
		return rc;
	r.d = arena_alloc(a, sizeof(*r.d));
	r.d->items = arena_alloc(a, tokens * sizeof(*r.d->items));
	r.d->defs = arena_alloc(a, (GRAPHQL_DEFINITIONS_MAX + 1) * sizeof(*r.d->defs));
	rc = read_document(&r);
	if (rc == 0)
		rc = graphql_link(a, r.d, err);
	if (rc != 0)
		return rc;
	*ret = r.d;
	return 0;
}
