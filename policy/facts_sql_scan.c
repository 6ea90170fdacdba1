/*
 * A look at a SQL text before libpg_query sees it. Runs in cofferdam-parser on the agent's
 * bytes. libpg_query 15-4.0.0 overflows its stack on long chains of operators (measured:
 * 65 000 terms in 8 MiB) and takes quadratic time for nested comments and long runs of
 * operator characters, so size, comment depth, bracket depth and runs are bounded here. It
 * follows the server's lexer closely enough for that, and decides nothing else: where it
 * misreads a text the parser, the limits of the process or its clock have the last word.
 */
#include "policy/facts.h"
#include "policy/facts_sql_internal.h"

#include "common/banned.h"

#define BRACKET_DEPTH_MAX 500
#define OPERATOR_RUN_MAX 64 /* the server's own limit is NAMEDATALEN */

struct scan {
	const char *p;
	size_t n;
	size_t i;
	unsigned brackets;
	struct err *err;
};

static char
at(const struct scan *s, size_t ahead)
{
	if (s->i + ahead >= s->n)
		return '\0';
	return s->p[s->i + ahead];
}

static bool
is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || (unsigned char)c >= 0x80;
}

/* `i` stands on the second byte of the opening; nested ones count, as in the server. */
static int
skip_comment(struct scan *s)
{
	unsigned depth = 1;

	s->i += 2;
	while (s->i < s->n && depth > 0) {
		if (at(s, 0) == '/' && at(s, 1) == '*') {
			if (++depth > FACTS_SQL_COMMENT_DEPTH)
				return err_set(s->err, ERR_TOO_COMPLEX,
				    "statement too complex: comments nested deeper than %d",
				    FACTS_SQL_COMMENT_DEPTH);
			s->i += 2;
		} else if (at(s, 0) == '*' && at(s, 1) == '/') {
			depth--;
			s->i += 2;
		} else {
			s->i++;
		}
	}
	return 0;
}

/* From the opening quote to behind the closing one. A doubled quote is two strings to us. */
static void
skip_quoted(struct scan *s, char quote, bool escapes)
{
	for (s->i++; s->i < s->n && s->p[s->i] != quote; s->i++)
		if (escapes && s->p[s->i] == '\\')
			s->i++;
	if (s->i < s->n)
		s->i++;
}

/* $tag$ ... $tag$; a lone '$' or a parameter is just passed. */
static void
skip_dollar(struct scan *s)
{
	size_t len = 1;
	const char *end;

	if (at(s, 1) >= '0' && at(s, 1) <= '9') {
		s->i++;
		return;
	}
	while (is_word(at(s, len)))
		len++;
	if (at(s, len) != '$') {
		s->i++;
		return;
	}
	len++;
	end = memmem(s->p + s->i + len, s->n - s->i - len, s->p + s->i, len);
	s->i = end == NULL ? s->n : (size_t)(end - s->p) + len;
}

/* A word, and the string that it may introduce: E'...' has backslash escapes. */
static void
skip_word(struct scan *s)
{
	size_t start = s->i;

	while (is_word(at(s, 0)) || (at(s, 0) == '$' && s->i > start))
		s->i++;
	if (at(s, 0) == '\'' && s->i - start == 1 && (s->p[start] == 'e' || s->p[start] == 'E'))
		skip_quoted(s, '\'', true);
}

static int
skip_operators(struct scan *s)
{
	size_t start = s->i;

	while (s->i < s->n && strchr("+-*/<>=~!@#%^&|`?", s->p[s->i]) != NULL) {
		if ((at(s, 0) == '/' && at(s, 1) == '*') || (at(s, 0) == '-' && at(s, 1) == '-'))
			break;
		s->i++;
	}
	if (s->i - start > OPERATOR_RUN_MAX)
		return err_set(s->err, ERR_TOO_COMPLEX,
		    "statement too complex: %zu operator characters in a row, limit %d",
		    s->i - start, OPERATOR_RUN_MAX);
	return 0;
}

static int
skip_other(struct scan *s)
{
	char c = s->p[s->i];

	if (c == '(' || c == '[') {
		if (++s->brackets > BRACKET_DEPTH_MAX)
			return err_set(s->err, ERR_TOO_COMPLEX,
			    "statement too complex: brackets nested deeper than %d",
			    BRACKET_DEPTH_MAX);
	} else if ((c == ')' || c == ']') && s->brackets > 0) {
		s->brackets--;
	}
	s->i++;
	return 0;
}

static int
scan_step(struct scan *s)
{
	char c = s->p[s->i];

	if (c == '-' && at(s, 1) == '-') {
		while (s->i < s->n && s->p[s->i] != '\n' && s->p[s->i] != '\r')
			s->i++;
	} else if (c == '/' && at(s, 1) == '*') {
		return skip_comment(s);
	} else if (c == '\'' || c == '"') {
		skip_quoted(s, c, false);
	} else if (c == '$') {
		skip_dollar(s);
	} else if (is_word(c)) {
		skip_word(s);
	} else if (strchr("+-*/<>=~!@#%^&|`?", c) != NULL) {
		return skip_operators(s);
	} else {
		return skip_other(s);
	}
	return 0;
}

int
sql_scan(struct str sql, struct err *err)
{
	struct scan s = {.p = sql.p, .n = sql.n, .err = err};
	int rc;

	if (sql.n > FACTS_SQL_MAX)
		return err_set(err, ERR_TOO_COMPLEX, "statement too complex: %zu bytes, limit %zu",
		    sql.n, FACTS_SQL_MAX);
	if (sql.n == 0)
		return 0;
	if (memchr(sql.p, 0, sql.n) != NULL)
		return err_set(err, ERR_SYNTAX, "statement holds a NUL byte");
	if (!str_is_utf8(sql))
		return err_set(err, ERR_SYNTAX, "statement is not valid UTF-8");
	while (s.i < s.n) {
		rc = scan_step(&s);
		if (rc != 0)
			return rc;
	}
	return 0;
}
