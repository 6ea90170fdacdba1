/*
 * Reads names of query strings and forms. Runs in core on what front says was sent, in the parser
 * on bodies; both hold what the agent chose. Must never miss a spelling that some server decodes.
 */
#include "policy/webform.h"

#include "common/hash.h"

#include "common/banned.h"

#define NAME_MAX_READ 128 /* more of a name than any that we look for */
#define LAYERS_MAX 3	  /* how often a name may be encoded over */

int
webform_hex(const char *p, size_t n)
{
	int v = 0;

	for (size_t i = 0; i < n; i++) {
		int d = enc_hex_digit(p[i]);

		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

bool
webform_next(struct str *rest, struct str *ret_name, struct str *ret_value)
{
	struct str pair = *rest;

	if (rest->n == 0)
		return false;
	for (size_t i = 0; i < rest->n; i++) {
		if (rest->p[i] != '&' && rest->p[i] != ';')
			continue;
		pair.n = i;
		break;
	}
	rest->p += pair.n;
	rest->n -= pair.n;
	if (rest->n != 0) {
		rest->p++;
		rest->n--;
	}
	*ret_value = pair;
	if (!str_cut(ret_value, '=', ret_name)) {
		*ret_name = pair;
		*ret_value = STR("");
	}
	return true;
}

bool
webform_decode(struct str raw, struct buf *out)
{
	size_t from = out->n;

	for (size_t i = 0; i < raw.n; i++) {
		int c = (uint8_t)raw.p[i];

		if (c == '+') {
			c = ' ';
		} else if (c == '%') {
			c = raw.n - i > 2 ? webform_hex(raw.p + i + 1, 2) : -1;
			i += 2;
		}
		if (c <= 0)
			return false;
		buf_put_c(out, (char)c);
	}
	return buf_over(out) || str_is_utf8(str_mem(out->p + from, out->n - from));
}

/* --- the method by another name ------------------------------------------------------ */

/* One layer, without what leads a name to nothing: white space in front. Never longer. */
static size_t
decode_loosely(struct str raw, char out[NAME_MAX_READ])
{
	size_t n = 0;

	for (size_t i = 0; i < raw.n && n < NAME_MAX_READ; i++) {
		int c = (uint8_t)raw.p[i], v = -1;

		if (c == '%' && raw.n - i > 5 && (raw.p[i + 1] == 'u' || raw.p[i + 1] == 'U') &&
		    (v = webform_hex(raw.p + i + 2, 4)) >= 0) {
			i += 5;
			c = v < 0x80 ? v : '?';
		} else if (c == '%' && raw.n - i > 2 && (v = webform_hex(raw.p + i + 1, 2)) >= 0) {
			i += 2;
			c = v;
		} else if (c == '+') {
			c = ' ';
		}
		if (n == 0 && (c == ' ' || (c >= '\t' && c <= '\r')))
			continue;
		out[n++] = (char)c;
	}
	return n;
}

/* PHP makes '_' of ' ' '.' and a first '['; CGI makes it of '-'. */
static char
fold(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c + ('a' - 'A'));
	if (c == '.' || c == ' ' || c == '-')
		return '_';
	return c;
}

static const char *const overriding[] = {
    "_method", "_httpmethod", "x_http_method", "x_http_method_override", "x_method_override", NULL};
static const char *const graphql[] = {"query", "operationname", "operation_name", "variables",
    "extensions", "id", "doc_id", "docid", "documentid", "document_id", "queryid", "query_id",
    "hash", "sha256hash", "persistedquery", "mutation", "operations", "map", "batch", NULL};

/* Up to what makes it an element of an array. */
static bool
name_is_one_of(const char *const *names, const char *name, size_t n)
{
	char folded[NAME_MAX_READ + 1];
	size_t end = 0;

	while (end < n && name[end] != ']' && (end == 0 || name[end] != '[')) {
		folded[end] = fold(name[end]);
		end++;
	}
	if (end != 0 && folded[0] == '[')
		folded[0] = '_';
	folded[end] = '\0';
	for (; *names != NULL; names++)
		if (strcmp(folded, *names) == 0)
			return true;
	return false;
}

/* By one layer of encoding or more. */
static bool
decodes_to(const char *const *names, struct str raw)
{
	char layers[LAYERS_MAX][NAME_MAX_READ];
	struct str s = raw;

	for (unsigned i = 0; i < LAYERS_MAX; i++) {
		s = str_mem(layers[i], decode_loosely(s, layers[i]));
		if (name_is_one_of(names, s.p, s.n))
			return true;
	}
	return false;
}

static bool
any_decodes_to(const char *const *names, struct str query)
{
	struct str name, value;

	while (webform_next(&query, &name, &value))
		if (decodes_to(names, name))
			return true;
	return false;
}

bool
webform_overrides(struct str raw_name)
{
	return decodes_to(overriding, raw_name);
}

bool
webform_query_overrides(struct str query)
{
	return any_decodes_to(overriding, query);
}

bool
webform_is_graphql(struct str raw_name)
{
	return decodes_to(graphql, raw_name);
}

bool
webform_query_is_graphql(struct str query)
{
	return any_decodes_to(graphql, query);
}

/* --- media types (RFC 9110 8.3) ------------------------------------------------------ */

static bool
is_token_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static struct str
take_token(struct str *s)
{
	struct str t = {s->p, 0};

	while (t.n < s->n && is_token_char(s->p[t.n]))
		t.n++;
	s->p += t.n;
	s->n -= t.n;
	return t;
}

static bool
take_char(struct str *s, char c)
{
	if (s->n == 0 || s->p[0] != c)
		return false;
	s->p++;
	s->n--;
	return true;
}

static void
skip_space(struct str *s)
{
	while (take_char(s, ' ') || take_char(s, '\t'))
		;
}

/* A token, or a quoted string without escapes. */
static bool
take_value(struct str *s, struct str *ret)
{
	if (!take_char(s, '"')) {
		*ret = take_token(s);
		return ret->n != 0;
	}
	return str_cut(s, '"', ret) && memchr(ret->p, '\\', ret->n) == NULL;
}

/* RFC 2046 5.1.1 without the space, which only quoting servers would read alike. */
static bool
is_boundary(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!(s.p[i] >= '0' && s.p[i] <= '9') && !(s.p[i] >= 'a' && s.p[i] <= 'z') &&
		    !(s.p[i] >= 'A' && s.p[i] <= 'Z') && strchr("'()+_,-./:=?", s.p[i]) == NULL)
			return false;
	return s.n != 0 && s.n <= 70;
}

/* Those in which a byte below 0x80 is what it looks like. */
static bool
charset_is_ascii(struct str s)
{
	return str_ieqz(s, "utf-8") || str_ieqz(s, "utf8") || str_ieqz(s, "us-ascii") ||
	       str_ieqz(s, "iso-8859-1");
}

/* The parameters behind the type; false: one of them is odd. */
static bool
read_parameters(struct str s, struct media_type *t)
{
	for (;;) {
		struct str name, value;

		skip_space(&s);
		if (s.n == 0)
			return true;
		if (!take_char(&s, ';'))
			return false;
		skip_space(&s);
		if (s.n == 0)
			return true; /* "type;" */
		name = take_token(&s);
		if (name.n == 0 || !take_char(&s, '=') || !take_value(&s, &value))
			return false;
		if (str_ieqz(name, "charset")) {
			if (!charset_is_ascii(value))
				return false;
		} else if (name.n >= 8 && str_ieqz((struct str){name.p, 8}, "boundary")) {
			if (name.n != 8 || t->boundary.n != 0 || !is_boundary(value))
				return false; /* also boundary*0= */
			t->boundary = value;
		}
	}
}

static enum media
media_of(struct str type)
{
	static const struct {
		const char *name;
		enum media media;
	} types[] = {
	    {"application/json", MEDIA_JSON},
	    {"application/graphql+json", MEDIA_JSON},
	    {"application/graphql", MEDIA_GRAPHQL},
	    {"application/x-www-form-urlencoded", MEDIA_FORM},
	    {"multipart/form-data", MEDIA_MULTIPART},
	};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_ieqz(type, types[i].name))
			return types[i].media;
	if (type.n >= 10 && str_ieqz((struct str){type.p, 10}, "multipart/"))
		return MEDIA_MIXED;
	return MEDIA_OTHER;
}

struct media_type
media_type_parse(struct str content_type)
{
	struct media_type t = {.media = MEDIA_NONE};
	struct str s = str_trim(content_type), type, sub;

	if (s.n == 0)
		return t;
	type = take_token(&s);
	if (type.n == 0 || !take_char(&s, '/') || (sub = take_token(&s)).n == 0) {
		t.media = MEDIA_FORM; /* what some server will take it for */
		t.odd = true;
		return t;
	}
	type.n += 1 + sub.n;
	t.media = media_of(type);
	t.odd = !read_parameters(s, &t);
	if (t.media == MEDIA_MULTIPART && t.boundary.n == 0)
		t.odd = true;
	return t;
}
