/*
 * SQL facts to effects, by tables alone. Linked into core and the command line; pure. The
 * facts come from the parser process, which may have been taken over by the text it read:
 * nothing here trusts their form, and what is not in a table is opaque. Never an error,
 * never a default that permits.
 */
#include "policy/facts.h"

#include <stdlib.h>

#include "policy/facts_pg.h"

#include "common/banned.h"

#define NONE 0u
#define READ EFFECT_read
#define TXN EFFECT_txn
#define WRITE EFFECT_write
#define SCHEMA EFFECT_schema
#define DELETE EFFECT_delete
#define BULK EFFECT_bulk
#define DROP EFFECT_drop
#define OVERWRITE EFFECT_overwrite
#define DISRUPT EFFECT_disrupt
#define SESSION EFFECT_session
#define EXEC EFFECT_exec
#define PRIV EFFECT_priv
#define NET EFFECT_net
#define AUDIT EFFECT_audit
#define SECRET EFFECT_secret
#define OPAQUE EFFECT_opaque

enum {
	PLAIN = 1,   /* nothing but transaction control */
	EXECUTE = 2, /* an EXECUTE: counts unless core knows the name */
	COPY_IN = 4,
	HIDDEN_DML = 8,
};

struct mark {
	const char *name;
	uint32_t effects;
	unsigned flags;
};
static const struct mark marks[] = {
#define X(name, effects, flags) {name, (uint32_t)(effects), flags},
#include "policy/sql_marks.tbl"
#undef X
};

struct function {
	const char *name;
	uint32_t effects;
};
static const struct function functions[] = {
#define FN(name, effects) {name, (uint32_t)(effects)},
#define EXT(name, effects)
#include "policy/pg_func_effects.tbl"
#undef FN
#undef EXT
};
static const struct function extensions[] = {
#define FN(name, effects)
#define EXT(name, effects) {name, (uint32_t)(effects)},
#include "policy/pg_func_effects.tbl"
#undef FN
#undef EXT
};

#define X(name) name,
static const char *const pure_functions[] = {
#include "policy/pg_functions.tbl"
};
static const char *const operators[] = {
#include "policy/pg_operators.tbl"
};
static const char *const secret_relations[] = {
#include "policy/pg_secret.tbl"
};
#undef X

static int
compare_name(const void *key, const void *elem)
{
	return str_cmp(*(const struct str *)key, str_z(*(const char *const *)elem));
}

/* Both kinds of row begin with the name. */
#define LOOKUP(key, table) \
	bsearch(&(key), (table), ARRAY_LEN(table), sizeof((table)[0]), compare_name)

/* "schema.name" when the schema is plain and known; `name` keeps quotes if the walk put them. */
static bool
split_schema(struct str *name, struct str *ret_schema)
{
	*ret_schema = STR_NONE;
	return str_cut(name, '.', ret_schema);
}

static uint32_t
extension_effects(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(extensions); i++)
		if (str_glob(str_z(extensions[i].name), name))
			return extensions[i].effects;
	return NONE;
}

/* `planned`: under EXPLAIN, where the server runs nothing volatile of its own. */
static uint32_t
function_effects(struct str name, bool planned)
{
	struct str schema;
	struct str whole = name;
	const struct function *f;
	uint32_t ext;

	if (split_schema(&name, &schema) && !str_eqz(schema, "pg_catalog")) {
		if (LOOKUP(whole, pure_functions) != NULL) /* information_schema's */
			return NONE;
		/* The last part is the name, also in catalog.schema.name. */
		while (split_schema(&name, &schema))
			continue;
		ext = extension_effects(name);
		return ext != NONE ? ext : OPAQUE;
	}
	if (LOOKUP(name, pure_functions) != NULL)
		return NONE;
	f = LOOKUP(name, functions);
	if (f != NULL)
		return planned ? NONE : f->effects;
	ext = extension_effects(name);
	return ext != NONE ? ext : OPAQUE;
}

static uint32_t
operator_effects(struct str name)
{
	struct str schema;

	if (split_schema(&name, &schema) && !str_eqz(schema, "pg_catalog"))
		return OPAQUE;
	return LOOKUP(name, operators) != NULL ? NONE : OPAQUE;
}

/*
 * A type's input, output and cast functions are code, but only a superuser makes base types;
 * enums, domains and composites of the application stand in public or on the pinned search
 * path. A type of another schema is one that the search path would not find: opaque.
 */
static uint32_t
type_effects(struct str name)
{
	struct str schema;

	if (!split_schema(&name, &schema))
		return NONE;
	return str_eqz(schema, "pg_catalog") || str_eqz(schema, "public") ||
		       str_eqz(schema, "information_schema")
		   ? NONE
		   : OPAQUE;
}

static uint32_t
set_effects(struct str name)
{
	struct str head;

	if (str_cut(&name, '=', &head))
		return facts_pg_pinned_value(head, name) ? READ : SESSION;
	if (str_eqz(name, "role") || str_eqz(name, "session_authorization"))
		return SESSION | PRIV;
	return facts_pg_setting_harmless(name) ? READ : SESSION;
}

struct found {
	uint32_t effects;
	uint32_t resolved; /* without what EXECUTE of an unknown name adds */
	unsigned flags;
	bool other; /* a mark that is not plain transaction control */
};

static void
mark_apply(struct str mark, struct found *f)
{
	struct str kind;
	struct str rest = mark;
	const struct mark *m = LOOKUP(mark, marks);
	uint32_t effects = OPAQUE;
	unsigned flags = 0;

	if (m != NULL) {
		effects = m->effects;
		flags = m->flags;
	} else if (str_cut(&rest, ':', &kind)) {
		if (str_eqz(kind, "func"))
			effects = function_effects(rest, false);
		else if (str_eqz(kind, "planfunc"))
			effects = function_effects(rest, true);
		else if (str_eqz(kind, "op"))
			effects = operator_effects(rest);
		else if (str_eqz(kind, "type"))
			effects = type_effects(rest);
		else if (str_eqz(kind, "set"))
			effects = set_effects(rest);
	}
	f->effects |= effects;
	if ((flags & EXECUTE) == 0)
		f->resolved |= effects;
	f->flags |= flags;
	if ((flags & PLAIN) == 0)
		f->other = true;
}

/* Reading what holds credentials; the name alone counts, schema pg_catalog or none. */
static uint32_t
relation_effects(struct str name)
{
	struct str schema;

	if (split_schema(&name, &schema) && !str_eqz(schema, "pg_catalog"))
		return NONE;
	return LOOKUP(name, secret_relations) != NULL ? SECRET : NONE;
}

static const char *const string_lists[] = {"dealloc", "exec", "marks", "prep", "rel", "tag", "txn"};

static bool
member_valid(struct str key, const struct json *v)
{
	if (str_eqz(key, "n") || str_eqz(key, "dml"))
		return json_type(v) == JSON_INT && json_int(v) >= 0 &&
		       json_int(v) <= (int64_t)FACTS_SQL_MAX;
	if (str_eqz(key, "fence"))
		return json_type(v) == JSON_BOOL;
	for (size_t i = 0; i < ARRAY_LEN(string_lists); i++) {
		if (!str_eqz(key, string_lists[i]))
			continue;
		if (json_type(v) != JSON_ARRAY)
			return false;
		for (size_t k = 0; k < json_count(v); k++)
			if (json_type(json_at(v, k)) != JSON_STRING)
				return false;
		return true;
	}
	return false;
}

static bool
facts_valid(const struct json *facts)
{
	if (facts == NULL || json_type(facts) != JSON_OBJECT)
		return false;
	for (size_t i = 0; i < json_count(facts); i++)
		if (!member_valid(json_key(facts, i), json_at(facts, i)))
			return false;
	return json_get(facts, "marks") != NULL && json_get(facts, "n") != NULL &&
	       json_get(facts, "rel") != NULL && json_get(facts, "dml") != NULL;
}

void
effects_sql(const struct json *facts, struct facts_sql_view *ret)
{
	struct found f = {0};
	const struct json *list;
	const struct json *fence;
	int64_t n;

	*ret =
	    (struct facts_sql_view){.effects = OPAQUE, .effects_resolved = OPAQUE, .statements = 1};
	if (!facts_valid(facts))
		return;
	list = json_get(facts, "marks");
	for (size_t i = 0; i < json_count(list); i++)
		mark_apply(json_str(json_at(list, i)), &f);
	list = json_get(facts, "rel");
	for (size_t i = 0; i < json_count(list); i++) {
		uint32_t effects = relation_effects(json_str(json_at(list, i)));

		f.effects |= effects;
		f.resolved |= effects;
	}
	n = json_int(json_get(facts, "n"));
	if (n == 0 && json_count(json_get(facts, "marks")) == 0)
		f.effects = f.resolved = READ; /* empty, or nothing but comments: a ping */
	if (f.effects == NONE)
		f.effects = f.resolved = OPAQUE; /* nothing was understood of it */
	ret->effects = f.effects;
	ret->effects_resolved = f.resolved;
	ret->statements = n == 0 ? 1 : (unsigned)n;
	ret->dml = (unsigned)json_int(json_get(facts, "dml"));
	fence = json_get(facts, "fence");
	ret->fence = fence != NULL && json_bool(fence);
	ret->copy_in = (f.flags & COPY_IN) != 0;
	ret->hidden_dml = (f.flags & HIDDEN_DML) != 0;
	ret->txn_only = n > 0 && !f.other && (f.flags & PLAIN) != 0;
}

/* Nobody can sign for rows that come when the statement runs. */
const char *
effects_sql_unapprovable(const struct facts_sql_view *v)
{
	return v->copy_in ? "COPY FROM STDIN that needs approval is not supported: the data cannot "
			    "be shown before it is sent"
			  : NULL;
}
