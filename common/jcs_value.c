/*
 * Parsed JSON in its canonical form again. Runs in core, writer and the command line. Apart from
 * jcs.c, so that the static programs of the sandbox can write JSON without the parser's library.
 */
#include "common/jcs.h"

#include "common/xalloc.h"

#include "common/banned.h"

/* All that could fail, before the first byte is written. */
static int
check_value(const struct json *v, unsigned depth, struct err *err)
{
	enum json_type t = json_type(v);
	int r;

	if (t == JSON_NULL)
		return err_set(err, ERR_INVALID, "null has no canonical form here");
	if (t == JSON_NUMBER)
		return err_set(
		    err, ERR_INVALID, "a number that is no integer has no canonical form");
	if ((t == JSON_ARRAY || t == JSON_OBJECT) && depth >= JCS_DEPTH_MAX)
		return err_set(err, ERR_TOO_COMPLEX, "nested deeper than %d levels", JCS_DEPTH_MAX);
	for (size_t i = 0; i < json_count(v); i++)
		if ((r = check_value(json_at(v, i), depth + 1, err)) != 0)
			return r;
	return 0;
}

struct member {
	struct str key;
	const struct json *v;
};

static int
member_cmp(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return jcs_key_cmp(x->key, y->key);
}

static void emit(struct jcs *j, const char *key, const struct json *v);

static void
emit_object(struct jcs *j, const struct json *v)
{
	size_t n = json_count(v);
	AUTO_FREE struct member *m = xreallocarray(NULL, n, sizeof(*m));

	for (size_t i = 0; i < n; i++)
		m[i] = (struct member){json_key(v, i), json_at(v, i)};
	qsort(m, n, sizeof(*m), member_cmp);
	for (size_t i = 0; i < n; i++) {
		jcs_key(j, m[i].key);
		emit(j, NULL, m[i].v);
	}
}

/* Depth was checked before. */
static void
emit(struct jcs *j, const char *key, const struct json *v)
{
	switch (json_type(v)) {
	case JSON_NULL:
	case JSON_NUMBER: break; /* refused before */
	case JSON_BOOL: jcs_bool(j, key, json_bool(v)); break;
	case JSON_INT: jcs_int(j, key, json_int(v)); break;
	case JSON_STRING: jcs_str(j, key, json_str(v)); break;
	case JSON_ARRAY:
		jcs_array(j, key);
		for (size_t i = 0; i < json_count(v); i++)
			emit(j, NULL, json_at(v, i));
		jcs_array_end(j);
		break;
	case JSON_OBJECT:
		jcs_open(j, key);
		emit_object(j, v);
		jcs_close(j);
		break;
	}
}

int
jcs_value(struct jcs *j, const char *key, const struct json *v, struct err *err)
{
	int r = check_value(v, j->depth, err);

	if (r != 0)
		return r;
	emit(j, key, v);
	return 0;
}

bool
jcs_is_canonical(struct str text, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO_BUF struct buf out = BUF(text.n); /* a longer form is not this text */
	struct jcs j;
	bool same;

	if (json_parse(text, "json", &d, err) != 0)
		return false;
	jcs_init(&j, &out);
	if (jcs_value(&j, NULL, json_root(d), err) != 0)
		return false;
	same = !buf_over(&out) && str_eq(buf_str(&out), text);
	if (!same)
		(void)err_set(err, ERR_INVALID, "JSON is not in canonical form");
	return same;
}
