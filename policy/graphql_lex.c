/*
 * Tokens of GraphQL (October 2021, section 2.1). Runs in the parser on hostile text. Must end each
 * string and each comment exactly where the specification does, since what stands behind it is
 * what is judged.
 */
#include "policy/graphql_internal.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/banned.h"

int
graphql_fail(const struct lexer *l, int code, struct err *err, const char *fmt, ...)
{
	unsigned line = 1, col = 1;
	char msg[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	for (size_t i = 0; i < l->start && i < l->text.n; i++) {
		char c = l->text.p[i];
		bool pair = c == '\r' && i + 1 < l->text.n && l->text.p[i + 1] == '\n';

		if (c == '\n' || (c == '\r' && !pair)) {
			line++;
			col = 1;
		} else if (((uint8_t)c & 0xc0) != 0x80) {
			col++;
		}
	}
	return err_set(err, code, "GraphQL:%u:%u: %s", line, col, msg);
}

static int
peek(const struct lexer *l, size_t ahead)
{
	return l->at + ahead < l->text.n ? (uint8_t)l->text.p[l->at + ahead] : -1;
}

static bool
is_name_start(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool
is_digit(int c)
{
	return c >= '0' && c <= '9';
}

/* A comment runs to the end of its line, and a lone CR ends a line as well. */
static void
skip_comment(struct lexer *l)
{
	int c;

	while ((c = peek(l, 0)) >= 0 && c != '\n' && c != '\r')
		l->at++;
}

static void
skip_ignored(struct lexer *l)
{
	for (;;) {
		int c = peek(l, 0);

		if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',')
			l->at++;
		else if (c == '#')
			skip_comment(l);
		else if (c == 0xef && peek(l, 1) == 0xbb && peek(l, 2) == 0xbf)
			l->at += 3;
		else
			return;
	}
}

static int
lex_name(struct lexer *l)
{
	while (is_name_start(peek(l, 0)) || is_digit(peek(l, 0)))
		l->at++;
	l->value = str_mem(l->text.p + l->start, l->at - l->start);
	l->token = TOKEN_NAME;
	return 0;
}

static int
lex_digits(struct lexer *l, struct err *err)
{
	if (!is_digit(peek(l, 0)))
		return graphql_fail(l, ERR_SYNTAX, err, "a number lacks a digit");
	while (is_digit(peek(l, 0)))
		l->at++;
	return 0;
}

/* Sections 2.9.1 and 2.9.2: no leading zero, and no name or dot right behind. */
static int
lex_number(struct lexer *l, struct err *err)
{
	int c, rc;

	if (peek(l, 0) == '-')
		l->at++;
	if (peek(l, 0) == '0' && is_digit(peek(l, 1)))
		return graphql_fail(l, ERR_SYNTAX, err, "a number begins with 0");
	rc = lex_digits(l, err);
	if (rc == 0 && peek(l, 0) == '.') {
		l->at++;
		rc = lex_digits(l, err);
	}
	if (rc == 0 && (peek(l, 0) == 'e' || peek(l, 0) == 'E')) {
		l->at++;
		if (peek(l, 0) == '+' || peek(l, 0) == '-')
			l->at++;
		rc = lex_digits(l, err);
	}
	if (rc != 0)
		return rc;
	c = peek(l, 0);
	if (is_name_start(c) || is_digit(c) || c == '.')
		return graphql_fail(l, ERR_SYNTAX, err, "a number runs into what follows");
	l->token = TOKEN_NUMBER;
	return 0;
}

/* Behind the backslash. */
static int
lex_escape(struct lexer *l, struct err *err)
{
	int c = peek(l, 0);

	if (c < 0 || strchr("\"\\/bfnrtu", c) == NULL)
		return graphql_fail(l, ERR_SYNTAX, err, "a string has an unknown escape");
	l->at++;
	for (int i = 0; c == 'u' && i < 4; i++, l->at++) {
		int h = peek(l, 0);

		if (!is_digit(h) && !(h >= 'a' && h <= 'f') && !(h >= 'A' && h <= 'F'))
			return graphql_fail(l, ERR_SYNTAX, err, "\\u needs four hex digits");
	}
	return 0;
}

static int
lex_string(struct lexer *l, struct err *err)
{
	int c, rc;

	l->at++;
	while ((c = peek(l, 0)) != '"') {
		if (c < 0 || c == '\n' || c == '\r')
			return graphql_fail(l, ERR_SYNTAX, err, "a string does not end");
		l->at++;
		if (c == '\\' && (rc = lex_escape(l, err)) != 0)
			return rc;
	}
	l->at++;
	l->token = TOKEN_STRING;
	return 0;
}

static bool
three_quotes(const struct lexer *l)
{
	return peek(l, 0) == '"' && peek(l, 1) == '"' && peek(l, 2) == '"';
}

/* Only \""" is an escape in it. */
static int
lex_block_string(struct lexer *l, struct err *err)
{
	l->at += 3;
	while (!three_quotes(l)) {
		int c = peek(l, 0);

		if (c < 0)
			return graphql_fail(l, ERR_SYNTAX, err, "a block string does not end");
		l->at++;
		if (c == '\\' && three_quotes(l))
			l->at += 3;
	}
	l->at += 3;
	l->token = TOKEN_STRING;
	return 0;
}

int
graphql_next(struct lexer *l, struct err *err)
{
	int c;

	skip_ignored(l);
	l->start = l->at;
	l->value = STR("");
	c = peek(l, 0);
	if (c < 0) {
		l->token = TOKEN_END;
		return 0;
	}
	if (is_name_start(c))
		return lex_name(l);
	if (is_digit(c) || c == '-')
		return lex_number(l, err);
	if (c == '"')
		return three_quotes(l) ? lex_block_string(l, err) : lex_string(l, err);
	if (c == '.' && peek(l, 1) == '.' && peek(l, 2) == '.') {
		l->at += 3;
		l->token = TOKEN_SPREAD;
		return 0;
	}
	if (c == '\0' || strchr("!$()@:=[]{}", c) == NULL)
		return graphql_fail(l, ERR_SYNTAX, err, "byte 0x%02x begins nothing", (unsigned)c);
	l->at++;
	l->token = c;
	return 0;
}
