/*
 * Names and marks that the walk collects, and small readers of the parse tree. Runs in
 * cofferdam-parser alone. A name is the agent's: a part that holds a '.' or '"' is quoted, so
 * that no single identifier can be taken for a qualified one.
 */
#include "policy/facts_sql_internal.h"

#include <stdlib.h>

#include "common/xalloc.h"

#include "common/banned.h"

void
names_add(struct names *names, struct str s)
{
	if (names->n == names->cap) {
		names->cap = names->cap == 0 ? 32 : names->cap * 2;
		names->v = xreallocarray(names->v, names->cap, sizeof(*names->v));
	}
	names->v[names->n++] = s;
}

static int
compare_str(const void *a, const void *b)
{
	return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

void
names_sort_unique(struct names *names)
{
	size_t kept = 0;

	if (names->n == 0)
		return;
	qsort(names->v, names->n, sizeof(*names->v), compare_str);
	for (size_t i = 1; i < names->n; i++)
		if (!str_eq(names->v[i], names->v[kept]))
			names->v[++kept] = names->v[i];
	names->n = kept + 1;
}

void
names_free(struct names *names)
{
	free(names->v);
	*names = (struct names){0};
}

void
walk_mark(struct walk *w, const char *mark)
{
	names_add(&w->marks, str_z(mark));
}

void
walk_mark_run(struct walk *w, const char *mark)
{
	if (!w->planned)
		walk_mark(w, mark);
}

static void
put_part(struct buf *b, struct str part)
{
	bool quote = memchr(part.p, '.', part.n) != NULL || memchr(part.p, '"', part.n) != NULL;

	if (quote)
		buf_put_c(b, '"');
	buf_put_str(b, part);
	if (quote)
		buf_put_c(b, '"');
}

void
walk_mark_name(struct walk *w, const char *prefix, struct str name)
{
	AUTO_BUF struct buf b = BUF(512);

	buf_put_z(&b, prefix);
	put_part(&b, name);
	names_add(&w->marks, arena_str(w->arena, buf_str(&b)));
}

void
walk_mark_names(struct walk *w, const char *prefix, const cJSON *list)
{
	AUTO_BUF struct buf b = BUF(1024);
	const cJSON *part;
	bool first = true;

	buf_put_z(&b, prefix);
	cJSON_ArrayForEach(part, list)
	{
		struct str s = tree_string_node(part);

		if (!first)
			buf_put_c(&b, '.');
		first = false;
		put_part(&b, s);
	}
	names_add(
	    &w->marks, buf_over(&b) ? STR("node:long_name") : arena_str(w->arena, buf_str(&b)));
}

/* The server finds pg_* names in pg_catalog first when no schema is written. */
static bool
is_catalog(struct str schema, struct str name)
{
	if (schema.n == 0)
		return str_has_prefix(name, "pg_");
	return str_has_prefix(schema, "pg_catalog") || str_eqz(schema, "information_schema") ||
	       str_has_prefix(schema, "pg_toast");
}

void
walk_relation(struct walk *w, struct str schema, struct str name)
{
	AUTO_BUF struct buf b = BUF(512);

	if (name.n == 0)
		return;
	if (schema.n != 0) {
		put_part(&b, schema);
		buf_put_c(&b, '.');
	}
	put_part(&b, name);
	names_add(&w->rel, arena_str(w->arena, buf_str(&b)));
	if (w->target && is_catalog(schema, name)) {
		walk_mark_run(w, "catalog");
		if (str_eqz(name, "pg_settings"))
			walk_mark_run(w, "catalog:pg_settings");
	}
}

void
walk_relation_list(struct walk *w, const cJSON *list, int drop)
{
	int n = cJSON_GetArraySize(list) - drop;

	if (n < 1)
		return;
	walk_relation(w, n > 1 ? tree_string_node(cJSON_GetArrayItem(list, n - 2)) : STR_NONE,
	    tree_string_node(cJSON_GetArrayItem(list, n - 1)));
}

const cJSON *
tree_get(const cJSON *obj, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(obj, key);
}

struct str
tree_str(const cJSON *obj, const char *key)
{
	const cJSON *v = tree_get(obj, key);

	return cJSON_IsString(v) ? str_z(v->valuestring) : STR("");
}

bool
tree_true(const cJSON *obj, const char *key)
{
	return cJSON_IsTrue(tree_get(obj, key));
}

bool
tree_is(const cJSON *obj, const char *key, const char *value)
{
	return str_eqz(tree_str(obj, key), value);
}

const cJSON *
tree_node(const cJSON *wrapped, const char *type)
{
	const cJSON *inner = tree_get(wrapped, type);

	return cJSON_IsObject(inner) ? inner : NULL;
}

struct str
tree_string_node(const cJSON *wrapped)
{
	return tree_str(tree_node(wrapped, "String"), "sval");
}

/* As defGetBoolean: no value is true; 0, "false" and "off" are false; what it refuses counts as
 * true. */
static bool
option_true(const cJSON *arg)
{
	const cJSON *integer = tree_node(arg, "Integer");
	struct str word = tree_string_node(arg);

	if (arg == NULL)
		return true;
	if (integer != NULL)
		return tree_get(integer, "ival") != NULL;
	return !str_ieqz(word, "false") && !str_ieqz(word, "off");
}

bool
tree_option(const cJSON *options, const char *name)
{
	const cJSON *o;

	cJSON_ArrayForEach(o, options)
	{
		const cJSON *def = tree_node(o, "DefElem");

		if (tree_is(def, "defname", name) && option_true(tree_get(def, "arg")))
			return true;
	}
	return false;
}
