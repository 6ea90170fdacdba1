/*
 * Field names, values and lists of HTTP messages. Runs in front, core, upstream and the agent's
 * loop, on bytes from hostile clients. Compares names without case and nothing else loosely: what
 * is not exactly the name or token asked for is not it.
 */
#include <strings.h>

#include "common/http_head.h"

#include "common/banned.h"

bool
http_name_is(struct str name, const char *z)
{
	return str_ieqz(name, z);
}

static bool
is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool
http_is_token(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_alnum(s.p[i]) &&
		    (s.p[i] == '\0' || strchr("!#$%&'*+-.^_`|~", s.p[i]) == NULL))
			return false;
	return s.n != 0;
}

/* Bytes from 0x80 on stay: RFC 9110 5.5 has them as obs-text, and clients send UTF-8. */
bool
http_is_value(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		uint8_t c = (uint8_t)s.p[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

const struct http_field *
http_field_find(const struct http_field *f, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (str_ieqz(f[i].name, name))
			return &f[i];
	return NULL;
}

const struct http_field *
http_field_only(const struct http_field *f, size_t n, const char *name)
{
	return http_field_count(f, n, name) == 1 ? http_field_find(f, n, name) : NULL;
}

size_t
http_field_count(const struct http_field *f, size_t n, const char *name)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += str_ieqz(f[i].name, name);
	return count;
}

bool
http_list_next(struct str *list, struct str *ret)
{
	if (list->p == NULL)
		return false;
	if (!str_cut(list, ',', ret)) {
		*ret = *list;
		*list = STR_NONE;
	}
	*ret = str_trim(*ret);
	return true;
}

static bool
list_has(const struct http_field *f, size_t n, const char *name, struct str token)
{
	struct str list, one;

	for (size_t i = 0; i < n; i++) {
		if (!str_ieqz(f[i].name, name))
			continue;
		list = f[i].value;
		while (http_list_next(&list, &one))
			if (str_ieq(one, token))
				return true;
	}
	return false;
}

bool
http_field_has(const struct http_field *f, size_t n, const char *name, const char *token)
{
	return list_has(f, n, name, str_z(token));
}

static bool
has_iprefix(struct str name, const char *z)
{
	size_t n = strlen(z);

	return name.n >= n && str_ieqz((struct str){name.p, n}, z);
}

bool
http_field_is_kept(struct str name)
{
	return http_name_is(name, "Host") || http_name_is(name, "Authorization") ||
	       http_name_is(name, "Cookie") || http_name_is(name, "Expect") ||
	       has_iprefix(name, "Content-") ||
	       (has_iprefix(name, "X-Amz-") && !has_iprefix(name, "X-Amz-Meta-")) ||
	       has_iprefix(name, "Sec-");
}

bool
http_field_is_hop(const struct http_field *f, size_t n, struct str name)
{
	static const char *const hop[] = {"Connection", "Keep-Alive", "TE", "Trailer",
	    "Transfer-Encoding", "Upgrade", "HTTP2-Settings"};

	for (size_t i = 0; i < ARRAY_LEN(hop); i++)
		if (http_name_is(name, hop[i]))
			return true;
	if (has_iprefix(name, "Proxy-"))
		return true;
	return !http_field_is_kept(name) && list_has(f, n, "Connection", name);
}
