/*
 * Typed reading of policy JSON by tables: what is not in a table is an error with its place.
 * Runs in the command line on source and in core on bundles; trusts neither. Must never
 * skip a member it does not know: a rule that was not understood would be a rule not kept.
 */
#include "policy/policy_internal.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/banned.h"

int
read_type(
    struct reader *r, const struct json *v, enum json_type t, const char *what, struct err *err)
{
	static const char *const names[] = {[JSON_NULL] = "null",
	    [JSON_BOOL] = "true or false",
	    [JSON_INT] = "a whole number",
	    [JSON_STRING] = "a string",
	    [JSON_ARRAY] = "an array",
	    [JSON_OBJECT] = "an object"};

	if (json_type(v) == t)
		return 0;
	return json_err(r->doc, v, err, ERR_INVALID, "%s must be %s, is %s", what, names[t],
	    names[json_type(v)]);
}

static const struct read_field *
field_find(const struct read_field *fields, size_t n, struct str key)
{
	for (size_t i = 0; i < n; i++)
		if (str_eqz(key, fields[i].key))
			return &fields[i];
	return NULL;
}

int
read_object(struct reader *r, const struct json *v, const char *what,
    const struct read_field *fields, size_t n, void *out, struct err *err)
{
	int rc = read_type(r, v, JSON_OBJECT, what, err);

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < json_count(v); i++) {
		const struct json *m = json_at(v, i);
		const struct read_field *f = field_find(fields, n, json_key(v, i));

		if (f == NULL)
			return json_err(r->doc, m, err, ERR_INVALID, "unknown key \"%.*s\" in %s",
			    STR_ARG(json_key(v, i)), what);
		rc = f->fn(r, m, (char *)out + f->offset, err);
		if (rc != 0)
			return rc;
	}
	for (size_t i = 0; i < n; i++)
		if (fields[i].required && json_get(v, fields[i].key) == NULL)
			return json_err(
			    r->doc, v, err, ERR_INVALID, "%s has no \"%s\"", what, fields[i].key);
	return 0;
}

bool
read_is_id(struct str s)
{
	if (s.n == 0 || s.n > POLICY_ID_MAX)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    c != '.' && c != '_' && c != '-')
			return false;
	}
	return true;
}

int
read_check_id(
    struct reader *r, const struct json *at, struct str id, const char *what, struct err *err)
{
	if (read_is_id(id))
		return 0;
	return json_err(r->doc, at, err, ERR_INVALID,
	    "%s must be 1 to %d characters of A-Z a-z 0-9 . _ -, is \"%.*s\"", what, POLICY_ID_MAX,
	    STR_ARG(id));
}

struct str
read_keep(struct reader *r, struct str s)
{
	return arena_str(r->p->mem, s);
}

int
read_id(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct str *ret = out;
	int rc = read_type(r, v, JSON_STRING, "an id", err);

	if (rc != 0)
		return rc;
	rc = read_check_id(r, v, json_str(v), "an id", err);
	if (rc == 0)
		*ret = read_keep(r, json_str(v));
	return rc;
}

int
read_text(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct str *ret = out;
	int rc = read_type(r, v, JSON_STRING, "a text", err);

	if (rc != 0)
		return rc;
	if (json_str(v).n == 0 || json_str(v).n > POLICY_TEXT_MAX)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "a text must have from 1 to %d bytes, has %zu", POLICY_TEXT_MAX, json_str(v).n);
	/* Look-alike letters and direction marks would let a reviewed text say another thing. */
	if (!str_is_ascii_print(json_str(v)))
		return json_err(r->doc, v, err, ERR_INVALID, "a text must be printable ASCII");
	*ret = read_keep(r, json_str(v));
	return 0;
}

/* One string or an array of strings. */
static int
read_list(struct reader *r, const struct json *v, read_fn *one, struct strs *ret, struct err *err)
{
	bool array = json_type(v) == JSON_ARRAY;
	size_t n = array ? json_count(v) : 1;
	struct strs l = {.n = n};

	if (n == 0 || n > POLICY_ARRAY_MAX)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "a list must have from 1 to %d elements, has %zu", POLICY_ARRAY_MAX, n);
	l.v = arena_alloc(r->p->mem, n * sizeof(*l.v));
	for (size_t i = 0; i < n; i++) {
		const struct json *e = array ? json_at(v, i) : v;
		int rc = one(r, e, &l.v[i], err);

		if (rc != 0)
			return rc;
		for (size_t k = 0; k < i; k++)
			if (str_eq(l.v[k], l.v[i]))
				return json_err(r->doc, e, err, ERR_INVALID,
				    "\"%.*s\" stands twice in the list", STR_ARG(l.v[i]));
	}
	*ret = l;
	return 0;
}

int
read_ids(struct reader *r, const struct json *v, void *out, struct err *err)
{
	return read_list(r, v, read_id, out, err);
}

int
read_texts(struct reader *r, const struct json *v, void *out, struct err *err)
{
	return read_list(r, v, read_text, out, err);
}

int
read_ignore(
    struct reader *r UNUSED, const struct json *v UNUSED, void *out UNUSED, struct err *err UNUSED)
{
	return 0;
}

int
read_int(struct reader *r, const struct json *v, const char *what, int64_t min, int64_t max,
    int64_t *ret, struct err *err)
{
	int rc = read_type(r, v, JSON_INT, what, err);

	if (rc != 0)
		return rc;
	if (json_int(v) < min || json_int(v) > max)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "%s must be from %lld to %lld, is %lld", what, (long long)min, (long long)max,
		    (long long)json_int(v));
	*ret = json_int(v);
	return 0;
}

static int64_t
unit_seconds(char c)
{
	switch (c) {
	case 's': return 1;
	case 'm': return 60;
	case 'h': return 3600;
	case 'd': return 86400;
	default: return 0;
	}
}

int
read_duration(struct reader *r, const struct json *v, const char *what, int64_t min, int64_t max,
    int64_t *ret, struct err *err)
{
	struct str s;
	uint64_t n;
	int64_t unit, total;
	int rc = read_type(r, v, JSON_STRING, what, err);

	if (rc != 0)
		return rc;
	s = json_str(v);
	unit = s.n != 0 ? unit_seconds(s.p[s.n - 1]) : 0;
	if (unit == 0 || !str_to_u64(str_mem(s.p, s.n - 1), 1000000000, &n))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "%s must be a number and one of s m h d (\"30m\"), is \"%.*s\"", what,
		    STR_ARG(s));
	total = (int64_t)n * unit;
	if (total < min || total > max)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "%s must be from %llds to %llds, is \"%.*s\"", what, (long long)min,
		    (long long)max, STR_ARG(s));
	*ret = total;
	return 0;
}

void
read_warn(struct reader *r, const struct json *v, const char *fmt, ...)
{
	char msg[ERR_MSG_MAX];
	unsigned line = 0, col = 0;
	va_list ap;

	if (r->warnings == NULL || buf_over(r->warnings))
		return;
	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	json_where(r->doc, v, &line, &col);
	buf_printf(r->warnings, "%s:%u:%u: warning: %s\n", json_name(r->doc), line, col, msg);
}
