/*
 * Expressions, names and FROM items: which functions, operators, types and relations a
 * statement uses. Runs in cofferdam-parser alone. Beware of attribute notation: the server
 * takes (x).f and, where x is a function in FROM, x.f for the call f(x) (measured on 15.20:
 * "SELECT x.pg_sleep FROM abs(1.0) x" sleeps), so such names are functions here too. What is
 * left: t.f of a table's own row, which the text cannot tell from a column.
 */
#include "policy/facts_sql_internal.h"

#include <ctype.h>
#include <stdlib.h>

#include "common/banned.h"

/* Output columns of the server's own functions: as a field, these are no calls. */
static const char *const outnames[] = {
#define X(name) name,
#include "policy/pg_outnames.tbl"
#undef X
};

static int
compare_name(const void *key, const void *elem)
{
	return str_cmp(*(const struct str *)key, str_z(*(const char *const *)elem));
}

void
on_leaf(struct walk *w, const struct node *node, const cJSON *obj)
{
	(void)w;
	(void)node;
	(void)obj;
}

static const char *
function_prefix(const struct walk *w)
{
	return w->planned ? "planfunc:" : "func:";
}

/* Each call replaces one object: bulk, unless the text says which. */
static void
mark_state_call(struct walk *w, struct str name, const cJSON *object)
{
	static const char *const names[] = {
	    "lo_put", "lo_truncate", "lo_truncate64", "lo_unlink", "lowrite", "setval"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eqz(name, names[i]) && !value_listed(object))
			walk_mark_run(w, "call:bulk");
}

/* Attribute notation: x.f for f(x), where x comes from a row. */
static void
mark_field_call(struct walk *w, struct str name)
{
	walk_mark_name(w, function_prefix(w), name);
	mark_state_call(w, name, NULL);
}

/* --- names of WITH and FROM ------------------------------------------------------------ */

/* False, and the text is refused, when it makes us search too much. */
static bool
lookup_allowed(struct walk *w)
{
	if (w->lookups++ < WALK_LOOKUPS_MAX)
		return true;
	w->too_complex = true;
	return false;
}

static bool
is_cte(struct walk *w, struct str name)
{
	for (const struct frame *f = w->frames; f != NULL; f = f->up) {
		const cJSON *cte = f->ctes == NULL ? NULL : f->ctes->child;

		for (int i = 0; i < f->ctes_visible && cte != NULL && lookup_allowed(w);
		     i++, cte = cte->next)
			if (str_eq(tree_str(tree_node(cte, "CommonTableExpr"), "ctename"), name))
				return true;
	}
	return false;
}

void
on_range_var(struct walk *w, const struct node *node, const cJSON *obj)
{
	struct str schema = tree_str(obj, "schemaname");
	struct str name = tree_str(obj, "relname");

	(void)node;
	/* A WITH name cannot be written to: there the relation is meant. */
	if (schema.n != 0 || w->target || !is_cte(w, name))
		walk_relation(w, schema, name);
}

static const cJSON *
function_of(const cJSON *range_function)
{
	const cJSON *functions = tree_get(range_function, "functions");
	const cJSON *first = cJSON_GetArrayItem(functions, 0);

	return tree_node(
	    cJSON_GetArrayItem(tree_get(tree_node(first, "List"), "items"), 0), "FuncCall");
}

static struct str
last_name(const cJSON *list)
{
	int n = cJSON_GetArraySize(list);

	return n == 0 ? STR("") : tree_string_node(cJSON_GetArrayItem(list, n - 1));
}

bool
from_has_function(const cJSON *from)
{
	const cJSON *join;
	const cJSON *item;

	if (cJSON_IsArray(from)) {
		cJSON_ArrayForEach(item, from) if (from_has_function(item)) return true;
		return false;
	}
	if (tree_node(from, "RangeFunction") != NULL)
		return true;
	join = tree_node(from, "JoinExpr");
	return join != NULL && (from_has_function(tree_get(join, "larg")) ||
				   from_has_function(tree_get(join, "rarg")));
}

/* Does `name` stand for this FROM item? *ret_function: the RangeFunction, or NULL. */
static bool
from_find(struct walk *w, const cJSON *from, struct str name, const cJSON **ret_function)
{
	const cJSON *item;
	const cJSON *sample = tree_node(from, "RangeTableSample");
	const cJSON *join = tree_node(from, "JoinExpr");
	struct str own;

	if (!lookup_allowed(w))
		return false;
	if (cJSON_IsArray(from)) {
		cJSON_ArrayForEach(
		    item, from) if (from_find(w, item, name, ret_function)) return true;
		return false;
	}
	if (sample != NULL)
		return from_find(w, tree_get(sample, "relation"), name, ret_function);
	item = from == NULL ? NULL : from->child;
	own = tree_str(tree_get(item, "alias"), "aliasname");
	*ret_function = tree_node(from, "RangeFunction");
	if (own.n == 0)
		own = *ret_function != NULL
			  ? last_name(tree_get(function_of(*ret_function), "funcname"))
			  : tree_str(item, "relname");
	if (own.n != 0 && str_eq(own, name))
		return true;
	*ret_function = NULL;
	return join != NULL && (from_find(w, tree_get(join, "larg"), name, ret_function) ||
				   from_find(w, tree_get(join, "rarg"), name, ret_function));
}

static bool
frames_find(struct walk *w, struct str name, const cJSON **ret_function)
{
	for (const struct frame *f = w->frames; f != NULL; f = f->up)
		if (from_find(w, f->from, name, ret_function))
			return true;
	return false;
}

static bool
list_holds(const cJSON *list, struct str name)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, list)
	{
		const cJSON *def = tree_node(v, "ColumnDef");

		if (str_eq(def != NULL ? tree_str(def, "colname") : tree_string_node(v), name))
			return true;
	}
	return false;
}

/* f1, f2 ... are the fields of ROW(). */
static bool
is_field(struct str name)
{
	if (bsearch(&name, outnames, ARRAY_LEN(outnames), sizeof(outnames[0]), compare_name) !=
	    NULL)
		return true;
	return name.n > 1 && name.p[0] == 'f' && isdigit((unsigned char)name.p[1]);
}

/* These give a row of a type that the caller names: any field, and never a scalar to call with. */
static bool
gives_rows(const cJSON *call)
{
	static const char *const names[] = {"json_populate_record", "json_populate_recordset",
	    "jsonb_populate_record", "jsonb_populate_recordset"};
	struct str name = last_name(tree_get(call, "funcname"));

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eqz(name, names[i]))
			return true;
	return false;
}

/* `name` of a function in FROM: one of its columns, or a call? */
static bool
function_column(const cJSON *function, struct str alias, struct str name)
{
	const cJSON *call = function_of(function);

	return str_eq(name, alias) || is_field(name) || str_eqz(name, "ordinality") ||
	       list_holds(tree_get(tree_get(function, "alias"), "colnames"), name) ||
	       list_holds(tree_get(function, "coldeflist"), name) ||
	       str_eq(name, last_name(tree_get(call, "funcname"))) || gives_rows(call);
}

void
on_column_ref(struct walk *w, const struct node *node, const cJSON *obj)
{
	const cJSON *fields = tree_get(obj, "fields");
	const cJSON *function;
	struct str alias;
	struct str name;

	(void)node;
	if (w->frames == NULL || !w->frames->has_function || cJSON_GetArraySize(fields) != 2)
		return;
	alias = tree_string_node(cJSON_GetArrayItem(fields, 0));
	name = tree_string_node(cJSON_GetArrayItem(fields, 1));
	if (name.n == 0 || !frames_find(w, alias, &function) || function == NULL)
		return;
	if (!function_column(function, alias, name))
		mark_field_call(w, name);
}

/* (arg).name: is `arg` a row whose fields may have any name? */
static bool
is_row(struct walk *w, const cJSON *arg, struct str name)
{
	const cJSON *fields = tree_get(tree_node(arg, "ColumnRef"), "fields");
	const cJSON *call = tree_node(arg, "FuncCall");
	const cJSON *function;
	struct str alias;

	if (call != NULL)
		return gives_rows(call);
	if (cJSON_GetArraySize(fields) != 1)
		return false;
	alias = tree_string_node(cJSON_GetArrayItem(fields, 0));
	if (!frames_find(w, alias, &function))
		return false;
	return function == NULL || function_column(function, alias, name);
}

void
on_indirection(struct walk *w, const struct node *node, const cJSON *obj)
{
	const cJSON *arg = tree_get(obj, "arg");
	const cJSON *step;

	cJSON_ArrayForEach(step, tree_get(obj, "indirection"))
	{
		struct str name = tree_string_node(step);

		if (name.n != 0 && !is_field(name) && !is_row(w, arg, name))
			mark_field_call(w, name);
		arg = NULL; /* what a second step stands on is not in the text */
	}
	walk_children(w, node, obj);
}

/* --- functions, operators, types --------------------------------------------------------- */

void
on_func_call(struct walk *w, const struct node *node, const cJSON *obj)
{
	const cJSON *name = tree_get(obj, "funcname");

	walk_mark_names(w, function_prefix(w), name);
	mark_state_call(w, last_name(name), cJSON_GetArrayItem(tree_get(obj, "args"), 0));
	walk_children_but(w, node, obj, "funcname", NULL);
}

void
on_table_sample(struct walk *w, const struct node *node, const cJSON *obj)
{
	walk_mark_names(w, function_prefix(w), tree_get(obj, "method"));
	walk_children_but(w, node, obj, "method", NULL);
}

void
on_a_expr(struct walk *w, const struct node *node, const cJSON *obj)
{
	/* BETWEEN and its kin name no operator; the server uses its own >= and <=. */
	if (!str_has_prefix(tree_str(obj, "kind"), "AEXPR_BETWEEN") &&
	    !str_has_prefix(tree_str(obj, "kind"), "AEXPR_NOT_BETWEEN"))
		walk_mark_names(w, "op:", tree_get(obj, "name"));
	walk_children_but(w, node, obj, "name", NULL);
}

void
on_sublink(struct walk *w, const struct node *node, const cJSON *obj)
{
	if (tree_get(obj, "operName") != NULL)
		walk_mark_names(w, "op:", tree_get(obj, "operName"));
	walk_children_but(w, node, obj, "operName", NULL);
}

void
on_sort_by(struct walk *w, const struct node *node, const cJSON *obj)
{
	if (tree_get(obj, "useOp") != NULL)
		walk_mark_names(w, "op:", tree_get(obj, "useOp"));
	walk_children_but(w, node, obj, "useOp", NULL);
}

/* What follows when the row referred to goes or changes: NO ACTION and RESTRICT stop it instead. */
static bool
reference_cascades(const cJSON *constraint)
{
	static const char *const when[] = {"fk_del_action", "fk_upd_action"};

	for (size_t i = 0; i < ARRAY_LEN(when); i++) {
		struct str action = tree_str(constraint, when[i]);

		if (action.n != 0 && !str_eqz(action, "a") && !str_eqz(action, "r"))
			return true;
	}
	return false;
}

/* EXCLUDE (a WITH &&): each item is a list of the element and its operator's name. */
void
on_constraint(struct walk *w, const struct node *node, const cJSON *obj)
{
	const cJSON *item;

	if (reference_cascades(obj))
		walk_mark_run(w, "constraint:cascade");
	cJSON_ArrayForEach(item, tree_get(obj, "exclusions"))
	{
		const cJSON *pair = tree_get(tree_node(item, "List"), "items");
		const cJSON *name =
		    tree_get(tree_node(cJSON_GetArrayItem(pair, 1), "List"), "items");

		walk_mark_names(w, "op:", name);
	}
	walk_children(w, node, obj);
}

void
on_type_name(struct walk *w, const struct node *node, const cJSON *obj)
{
	const cJSON *names = tree_get(obj, "names");

	if (cJSON_GetArraySize(names) > 1 &&
	    !str_eqz(tree_string_node(cJSON_GetArrayItem(names, 0)), "pg_catalog"))
		walk_mark_names(w, "type:", names);
	walk_children_but(w, node, obj, "names", NULL);
}
