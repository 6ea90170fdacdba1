/*
 * The JSON tree. Runs in every process that reads JSON, mostly on bytes of an attacker.
 * Only text that the strict scan has accepted reaches cJSON, whose tree is then walked in
 * step with the notes of the scan; where the two disagree the process ends. Never picks
 * one of two equal keys.
 */
#include "common/json.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/json_scan.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct json_doc {
	char *name;
	struct str text; /* copy, NUL behind it */
	struct json *v;	 /* all values, in document order */
	size_t n;
	const struct json **kids; /* what the values' kids point into */
	cJSON *tree;
};

/*
 * Give value `i` and all below it their text and their children, from cJSON's tree; returns
 * the index behind them. Where the two readers disagree, one of them is broken.
 */
static size_t
join(struct json_doc *d, const cJSON *c, size_t i, const struct json ***kids)
{
	static const int type_of[] = {[JSON_NULL] = cJSON_NULL,
	    [JSON_BOOL] = cJSON_True | cJSON_False,
	    [JSON_INT] = cJSON_Number,
	    [JSON_STRING] = cJSON_String,
	    [JSON_ARRAY] = cJSON_Array,
	    [JSON_OBJECT] = cJSON_Object,
	    [JSON_NUMBER] = cJSON_Number};
	struct json *v = &d->v[i++];
	size_t k = 0;

	assert((c->type & 0xff & type_of[v->type]) != 0);
	v->key = str_z(c->string);
	if (v->type == JSON_STRING)
		v->str = str_z(c->valuestring);
	else
		v->str = STR("");
	if (v->type == JSON_INT)
		assert(c->valuedouble == (double)v->num);
	v->kids = *kids;
	*kids += v->count;
	for (const cJSON *kid = c->child; kid != NULL; kid = kid->next, k++) {
		assert(k < v->count);
		v->kids[k] = &d->v[i];
		i = join(d, kid, i, kids);
	}
	assert(k == v->count);
	return i;
}

static int
by_key(const void *a, const void *b)
{
	const struct json *x = *(const struct json *const *)a, *y = *(const struct json *const *)b;
	int r = str_cmp(x->key, y->key);

	return r != 0 ? r : (x->off > y->off) - (x->off < y->off);
}

static int
refuse_duplicates(const struct json_doc *d, const struct json *v, struct err *err)
{
	AUTO_FREE const struct json **sorted = NULL;

	if (v->count < 2)
		return 0;
	sorted = xreallocarray(NULL, v->count, sizeof(const struct json *));
	memcpy(sorted, v->kids, v->count * sizeof(const struct json *));
	qsort(sorted, v->count, sizeof(const struct json *), by_key);
	for (size_t i = 1; i < v->count; i++) {
		AUTO_FREE char *key = NULL;

		if (!str_eq(sorted[i - 1]->key, sorted[i]->key))
			continue;
		key = log_vis(sorted[i]->key);
		return json_err(d, sorted[i], err, ERR_SYNTAX, "duplicate key \"%.200s\"", key);
	}
	return 0;
}

static int
build(struct json_doc *d, struct err *err)
{
	const struct json **kids;
	size_t joined;
	int r;

	d->tree = cJSON_ParseWithLengthOpts(d->text.p, d->text.n + 1, NULL, true);
	if (d->tree == NULL)
		fatal("json: out of memory"); /* the text was proved good */
	d->kids = xcalloc(d->n, sizeof(const struct json *));
	kids = d->kids;
	joined = join(d, d->tree, 0, &kids);
	assert(joined == d->n);
	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].type == JSON_OBJECT && (r = refuse_duplicates(d, &d->v[i], err)) != 0)
			return r;
	return 0;
}

static int
parse(struct str text, const char *name, bool numbers, struct json_doc **ret, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	struct json *v;
	size_t n;
	int r;

	if ((r = json_scan(text, name, numbers, &v, &n, err)) != 0)
		return r;
	d = xcalloc(1, sizeof(*d));
	d->name = xstrdup(name);
	d->text = str_mem(str_dup(text), text.n);
	d->v = v;
	d->n = n;
	if ((r = build(d, err)) != 0)
		return r;
	*ret = TAKE_PTR(d);
	return 0;
}

int
json_parse(struct str text, const char *name, struct json_doc **ret, struct err *err)
{
	return parse(text, name, false, ret, err);
}

int
json_parse_numbers(struct str text, const char *name, struct json_doc **ret, struct err *err)
{
	return parse(text, name, true, ret, err);
}

static void
wipe(struct str s)
{
	if (s.n != 0)
		explicit_bzero((void *)(uintptr_t)s.p, s.n);
}

/* Wiped, because a token answer or a vault entry is JSON too. */
void
json_free(struct json_doc *d)
{
	if (d == NULL)
		return;
	for (size_t i = 0; i < d->n && d->kids != NULL; i++) {
		wipe(d->v[i].key);
		wipe(d->v[i].str);
	}
	wipe(d->text);
	cJSON_Delete(d->tree);
	free(d->kids);
	free(d->v);
	free((void *)(uintptr_t)d->text.p);
	free(d->name);
	free(d);
}

const struct json *
json_root(const struct json_doc *d)
{
	return &d->v[0];
}

const char *
json_name(const struct json_doc *d)
{
	return d->name;
}

enum json_type
json_type(const struct json *v)
{
	return v != NULL ? v->type : JSON_NULL;
}

struct str
json_str(const struct json *v)
{
	return v != NULL && v->type == JSON_STRING ? v->str : STR("");
}

int64_t
json_int(const struct json *v)
{
	return v != NULL && v->type == JSON_INT ? v->num : 0;
}

bool
json_bool(const struct json *v)
{
	return v != NULL && v->type == JSON_BOOL && v->num != 0;
}

size_t
json_count(const struct json *v)
{
	return v != NULL ? v->count : 0;
}

const struct json *
json_at(const struct json *v, size_t i)
{
	assert(v != NULL && i < v->count);
	return v->kids[i];
}

struct str
json_key(const struct json *v, size_t i)
{
	assert(v != NULL && i < v->count);
	return v->type == JSON_OBJECT ? v->kids[i]->key : STR("");
}

const struct json *
json_get(const struct json *obj, const char *key)
{
	struct str k = str_z(key);

	if (obj == NULL || obj->type != JSON_OBJECT)
		return NULL;
	for (size_t i = 0; i < obj->count; i++)
		if (str_eq(obj->kids[i]->key, k))
			return obj->kids[i];
	return NULL;
}

void
json_where(const struct json_doc *d, const struct json *v, unsigned *ret_line, unsigned *ret_col)
{
	json_scan_where(d->text, v->off, ret_line, ret_col);
}

void
json_where_next(struct json_mark *m, const struct json_doc *d, const struct json *v)
{
	unsigned line, col;

	if (m->doc != d || v->off < m->off)
		*m = (struct json_mark){.doc = d, .line = 1, .col = 1};
	json_scan_where(
	    (struct str){d->text.p + m->off, d->text.n - m->off}, v->off - m->off, &line, &col);
	m->col = line == 1 ? m->col + col - 1 : col;
	m->line += line - 1;
	m->off = v->off;
}

int
json_err(
    const struct json_doc *d, const struct json *v, struct err *err, int code, const char *fmt, ...)
{
	AUTO_FREE char *msg = NULL;
	unsigned line, col;
	va_list ap;

	va_start(ap, fmt);
	msg = xvasprintf(fmt, ap);
	va_end(ap);
	json_where(d, v, &line, &col);
	return err_set(err, code, "%s:%u:%u: %s", d->name, line, col, msg);
}
