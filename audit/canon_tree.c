/*
 * Canonical JSON as a flat array of nodes, each before what is below it. Runs in the command line,
 * over records that canon_check has let through; on other text it stops at an assertion, and never
 * reads behind the end.
 */
#include "audit/canon_tree.h"

#include <assert.h>

#include "common/xalloc.h"

#include "common/banned.h"

struct canon_tree {
	struct canon_node *v;
	uint32_t n, room;
	const char *p, *end; /* what is left to read */
	char *plain;	     /* strings that had escapes */
	size_t nplain, plain_room;
};

struct canon_tree *
canon_tree_new(void)
{
	return xcalloc(1, sizeof(struct canon_tree));
}

void
canon_tree_free(struct canon_tree *t)
{
	if (t == NULL)
		return;
	free(t->v);
	free(t->plain);
	free(t);
}

/* --- building ------------------------------------------------------------------------------- */

static char
unescape(const char **p)
{
	static const char letters[] = "bfnrt", means[] = "\b\f\n\r\t";
	char c = (*p)[1];
	const char *at = strchr(letters, c);

	if (c == 'u') { /* \u00XY, below 0x20 */
		char lo = (*p)[5];

		c = (char)(((*p)[4] - '0') << 4 | (lo <= '9' ? lo - '0' : lo - 'a' + 10));
		*p += 6;
		return c;
	}
	*p += 2;
	return at != NULL && c != '\0' ? means[at - letters] : c;
}

static struct str
plain(struct canon_tree *t, struct str s)
{
	const char *p = s.p, *end = s.p + s.n;
	char *to = t->plain + t->nplain;
	size_t n = 0;

	assert(s.n <= t->plain_room - t->nplain);
	while (p < end)
		to[n++] = *p == '\\' ? unescape(&p) : *p++;
	t->nplain += n;
	return str_mem(to, n);
}

/* At the opening quote; what stands between the quotes, as stored. */
static struct str
take_string(struct canon_tree *t, bool *ret_escaped)
{
	const char *from = ++t->p;

	*ret_escaped = false;
	for (;;) {
		const char *q = memchr(t->p, '"', (size_t)(t->end - t->p));
		const char *b;

		assert(q != NULL);
		b = memchr(t->p, '\\', (size_t)(q - t->p));
		if (b == NULL) {
			t->p = q + 1;
			return str_mem(from, (size_t)(q - from));
		}
		assert(t->end - b > 2);
		*ret_escaped = true;
		t->p = b + 2; /* a digit of \uXXXX is no quote */
	}
}

static uint32_t
add(struct canon_tree *t, struct str key, enum canon_type type)
{
	if (t->n == t->room) {
		t->room = t->room != 0 ? 2 * t->room : 128;
		t->v = xreallocarray(t->v, t->room, sizeof(*t->v));
	}
	t->v[t->n] = (struct canon_node){.key = key, .type = type};
	return t->n++;
}

static void take_value(struct canon_tree *t, struct str key, unsigned depth);

static void
take_inner(struct canon_tree *t, uint32_t at, char close, unsigned depth)
{
	t->p++;
	for (bool more = *t->p != close; more; more = *t->p == ',', t->p += more) {
		struct str key = STR_NONE;
		bool escaped;

		if (close == '}') {
			key = take_string(t, &escaped);
			assert(t->p < t->end && *t->p == ':');
			t->p++;
		}
		take_value(t, key, depth + 1);
		t->v[at].count++;
		assert(t->p < t->end && (*t->p == ',' || *t->p == close));
	}
	t->p++;
}

static void
take_value(struct canon_tree *t, struct str key, unsigned depth)
{
	const char *from = t->p;
	struct str s;
	uint32_t at;
	bool escaped;

	assert(t->end - from >= 1 && depth < 64);
	switch (*from) {
	case '"':
		at = add(t, key, CANON_STRING);
		s = take_string(t, &escaped);
		t->v[at].text = escaped ? plain(t, s) : s;
		t->v[at].size = 1;
		return;
	case '{':
	case '[':
		assert(t->end - from >= 2);
		at = add(t, key, *from == '{' ? CANON_OBJECT : CANON_ARRAY);
		take_inner(t, at, *from == '{' ? '}' : ']', depth);
		break;
	default:
		at = add(t, key, *from == 't' || *from == 'f' ? CANON_BOOL : CANON_INT);
		while (t->p < t->end && *t->p != ',' && *t->p != '}' && *t->p != ']')
			t->p++;
	}
	t->v[at].text = str_mem(from, (size_t)(t->p - from));
	t->v[at].size = t->n - at;
}

const struct canon_node *
canon_tree_set(struct canon_tree *t, struct str text)
{
	if (text.n > t->plain_room) {
		t->plain_room = text.n;
		t->plain = xreallocarray(t->plain, t->plain_room, 1);
	}
	t->n = 0;
	t->nplain = 0;
	t->p = text.p;
	t->end = text.p + text.n;
	take_value(t, STR_NONE, 0);
	assert(t->p == t->end);
	return t->v;
}

/* --- reading ---------------------------------------------------------------------------------- */

size_t
canon_count(const struct canon_node *v)
{
	return v != NULL ? v->count : 0;
}

const struct canon_node *
canon_first(const struct canon_node *v)
{
	return canon_count(v) != 0 ? v + 1 : NULL;
}

const struct canon_node *
canon_behind(const struct canon_node *v)
{
	return v + v->size;
}

const struct canon_node *
canon_member(const struct canon_node *object, const char *key)
{
	const struct canon_node *v = canon_first(object);
	size_t n = strlen(key);

	for (size_t i = 0; i < canon_count(object); i++, v = canon_behind(v))
		if (v->key.n == n && memcmp(v->key.p, key, n) == 0)
			return v;
	return NULL;
}

struct str
canon_text(const struct canon_node *v)
{
	return v != NULL && v->type == CANON_STRING ? v->text : STR_NONE;
}

int64_t
canon_int(const struct canon_node *v)
{
	bool minus = v != NULL && v->type == CANON_INT && *v->text.p == '-';
	uint64_t n = 0;

	if (v == NULL || v->type != CANON_INT ||
	    !str_to_u64(str_mem(v->text.p + minus, v->text.n - minus), INT64_MAX, &n))
		return 0;
	return minus ? -(int64_t)n : (int64_t)n;
}

bool
canon_true(const struct canon_node *v)
{
	return v != NULL && v->type == CANON_BOOL && *v->text.p == 't';
}
