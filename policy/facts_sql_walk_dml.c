/*
 * SELECT, INSERT, UPDATE, DELETE and MERGE. Runs in cofferdam-parser alone. A removal or
 * change counts as bounded only where the text itself pins rows by value; everything else is
 * bulk, since the row limit of an approval must not rest on a guess about the data.
 */
#include "policy/facts_sql_internal.h"

#include "common/banned.h"

/* Where a frame begins and ends: the names of WITH and FROM that hold inside one statement. */
static void
frame_push(struct walk *w, struct frame *f, const cJSON *from)
{
	*f = (struct frame){.up = w->frames, .from = from};
	f->has_function = (f->up != NULL && f->up->has_function) || from_has_function(from);
	w->frames = f;
}

static void
frame_pop(struct walk *w)
{
	w->frames = w->frames->up;
}

/* A query of WITH sees the ones before it; under RECURSIVE all, itself too. */
static void
walk_with(struct walk *w, struct frame *f, const cJSON *obj)
{
	const cJSON *with = tree_get(obj, "withClause");
	const cJSON *cte;
	int i = 0;

	f->ctes = tree_get(with, "ctes");
	if (tree_true(with, "recursive"))
		f->ctes_visible = cJSON_GetArraySize(f->ctes);
	cJSON_ArrayForEach(cte, f->ctes)
	{
		walk_wrapped(w, cte);
		i++;
		if (f->ctes_visible < i)
			f->ctes_visible = i;
	}
}

void
on_select(struct walk *w, const struct node *node, const cJSON *obj)
{
	struct frame f;

	if (!w->deferred)
		walk_mark_run(w, "select");
	if (tree_get(obj, "intoClause") != NULL)
		walk_mark_run(w, "into");
	frame_push(w, &f, tree_get(obj, "fromClause"));
	walk_with(w, &f, obj);
	walk_children_but(w, node, obj, "withClause", NULL);
	frame_pop(w);
}

/* A command tag tells the rows of the outermost statement alone. */
static void
count_dml(struct walk *w)
{
	if (w->planned)
		return;
	if (w->at_top)
		w->dml++;
	else
		walk_mark(w, "dml:hidden");
}

/* VALUES with one row may hold a function that gives a set: that row is many. */
static bool
rows_listed(const cJSON *insert, const cJSON *values)
{
	return values != NULL ? value_listed(tree_get(values, "valuesLists"))
			      : tree_get(insert, "selectStmt") == NULL;
}

/* Rows given in the text read nothing, so they are walked without the SELECT that holds them. */
static const cJSON *
plain_values(const cJSON *insert)
{
	const cJSON *select = tree_node(tree_get(insert, "selectStmt"), "SelectStmt");

	if (tree_get(select, "valuesLists") == NULL || tree_get(select, "withClause") != NULL)
		return NULL;
	return select;
}

void
on_insert(struct walk *w, const struct node *node, const cJSON *obj)
{
	static const struct node select = {.type = "SelectStmt"};
	const cJSON *values = plain_values(obj);
	const cJSON *conflict = tree_get(obj, "onConflictClause");
	struct frame f;

	count_dml(w);
	walk_mark_run(w, "insert");
	if (conflict != NULL && !tree_is(conflict, "action", "ONCONFLICT_NOTHING") &&
	    !rows_listed(obj, values))
		walk_mark_run(w, "insert:overwrite");
	frame_push(w, &f, NULL);
	walk_with(w, &f, obj);
	walk_children_but(w, node, obj, "withClause", values != NULL ? "selectStmt" : NULL);
	if (values != NULL)
		walk_children(w, &select, values);
	frame_pop(w);
}

static void
walk_change(struct walk *w, const struct node *node, const cJSON *obj, const char *from)
{
	struct frame f;

	count_dml(w);
	frame_push(w, &f, from != NULL ? tree_get(obj, from) : NULL);
	walk_with(w, &f, obj);
	walk_children_but(w, node, obj, "withClause", NULL);
	frame_pop(w);
}

void
on_update(struct walk *w, const struct node *node, const cJSON *obj)
{
	bool bounded =
	    tree_get(obj, "fromClause") == NULL && where_bounded(tree_get(obj, "whereClause"));

	walk_mark_run(w, bounded ? "update:bounded" : "update:bulk");
	walk_change(w, node, obj, "fromClause");
}

void
on_delete(struct walk *w, const struct node *node, const cJSON *obj)
{
	bool bounded =
	    tree_get(obj, "usingClause") == NULL && where_bounded(tree_get(obj, "whereClause"));

	walk_mark_run(w, bounded ? "delete:bounded" : "delete:bulk");
	walk_change(w, node, obj, "usingClause");
}

void
on_merge(struct walk *w, const struct node *node, const cJSON *obj)
{
	static const struct {
		const char *command;
		const char *mark;
	} actions[] = {
	    {"CMD_DELETE", "merge:delete"},
	    {"CMD_INSERT", "merge:insert"},
	    {"CMD_UPDATE", "merge:update"},
	};
	const cJSON *when;

	walk_mark_run(w, "merge");
	cJSON_ArrayForEach(when, tree_get(obj, "mergeWhenClauses"))
	{
		const cJSON *clause = tree_node(when, "MergeWhenClause");
		const char *mark = NULL;

		for (size_t i = 0; i < ARRAY_LEN(actions); i++)
			if (tree_is(clause, "commandType", actions[i].command))
				mark = actions[i].mark;
		if (mark != NULL)
			walk_mark_run(w, mark);
		else if (!tree_is(clause, "commandType", "CMD_NOTHING"))
			walk_mark_unknown(w, "MergeWhenClause", "commandType");
	}
	walk_change(w, node, obj, "sourceRelation");
}

/* --- bounded? -------------------------------------------------------------------------- */

/* Not the system columns, which hold the same value in many rows (ctid does not). */
static bool
is_column(const cJSON *v)
{
	static const char *const shared[] = {"cmax", "cmin", "tableoid", "xmax", "xmin"};
	const cJSON *fields = tree_get(tree_node(v, "ColumnRef"), "fields");
	int n = cJSON_GetArraySize(fields);
	struct str name = n == 0 ? STR_NONE : tree_string_node(cJSON_GetArrayItem(fields, n - 1));

	if (name.n == 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(shared); i++)
		if (str_eqz(name, shared[i]))
			return false;
	return true;
}

/* A value in the text or a parameter, casts passed through. A truth value bounds nothing. */
static bool
is_value(const cJSON *v)
{
	const cJSON *constant;
	const cJSON *cast;

	while ((cast = tree_node(v, "TypeCast")) != NULL) {
		const cJSON *names = tree_get(tree_get(cast, "typeName"), "names");
		int n = cJSON_GetArraySize(names);

		if (str_eqz(tree_string_node(cJSON_GetArrayItem(names, n - 1)), "bool"))
			return false;
		v = tree_get(cast, "arg");
	}
	constant = tree_node(v, "A_Const");
	if (constant != NULL)
		return tree_get(constant, "boolval") == NULL;
	return tree_node(v, "ParamRef") != NULL;
}

static bool
all_values(const cJSON *list)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, list) if (!is_value(v)) return false;
	return cJSON_GetArraySize(list) > 0;
}

/* The server's "=": written alone, or as OPERATOR(pg_catalog.=). */
static bool
is_equals(const cJSON *name)
{
	int n = cJSON_GetArraySize(name);

	if (n == 2 && !str_eqz(tree_string_node(cJSON_GetArrayItem(name, 0)), "pg_catalog"))
		return false;
	return (n == 1 || n == 2) &&
	       str_eqz(tree_string_node(cJSON_GetArrayItem(name, n - 1)), "=");
}

static bool
expr_bounded(const cJSON *e)
{
	const cJSON *left = tree_get(e, "lexpr");
	const cJSON *right = tree_get(e, "rexpr");

	if (!is_equals(tree_get(e, "name")))
		return false;
	if (tree_is(e, "kind", "AEXPR_OP"))
		return (is_column(left) && is_value(right)) || (is_value(left) && is_column(right));
	if (tree_is(e, "kind", "AEXPR_IN"))
		return is_column(left) && all_values(tree_get(tree_node(right, "List"), "items"));
	if (!tree_is(e, "kind", "AEXPR_OP_ANY"))
		return false;
	/* column = ANY ($1) is how a driver says IN */
	return is_column(left) &&
	       (is_value(right) ||
		   all_values(tree_get(tree_node(right, "A_ArrayExpr"), "elements")));
}

/* AND: one conjunct is enough; OR: every arm. The tree is not deeper than the JSON reader allows.
 */
bool
where_bounded(const cJSON *where)
{
	const cJSON *e = tree_node(where, "A_Expr");
	const cJSON *b = tree_node(where, "BoolExpr");
	const cJSON *arm;
	bool all = tree_is(b, "boolop", "OR_EXPR");

	if (e != NULL)
		return expr_bounded(e);
	if (!all && !tree_is(b, "boolop", "AND_EXPR"))
		return false;
	cJSON_ArrayForEach(arm, tree_get(b, "args")) if (where_bounded(arm) != all) return !all;
	return all;
}

/* --- listed? ----------------------------------------------------------------------------- */

/* Of the server, give one value each, and are common where a driver sends a row. Sorted. */
static const char *const single_functions[] = {"clock_timestamp", "concat", "currval", "decode",
    "encode", "extract", "gen_random_uuid", "json_build_object", "jsonb_build_object", "lo_creat",
    "lo_create", "lo_from_bytea", "lo_open", "lower", "md5", "nextval", "now",
    "pg_get_serial_sequence", "statement_timestamp", "timezone", "to_date", "to_json", "to_jsonb",
    "to_timestamp", "transaction_timestamp", "upper"};
static const char *const single_nodes[] = {"A_ArrayExpr", "A_Const", "A_Expr", "BoolExpr",
    "BooleanTest", "CaseExpr", "CaseWhen", "CoalesceExpr", "CollateClause", "FuncCall", "Integer",
    "List", "MinMaxExpr", "NullTest", "ParamRef", "RowExpr", "SQLValueFunction", "SetToDefault",
    "String", "TypeCast"};

static bool
names_hold(const char *const *names, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eqz(name, names[i]))
			return true;
	return false;
}

static bool
single_function(const cJSON *call)
{
	const cJSON *names = tree_get(call, "funcname");
	int n = cJSON_GetArraySize(names);
	struct str name = n == 0 ? STR_NONE : tree_string_node(cJSON_GetArrayItem(names, n - 1));

	if (n == 2 && !str_eqz(tree_string_node(cJSON_GetArrayItem(names, 0)), "pg_catalog"))
		return false;
	return n <= 2 && names_hold(single_functions, ARRAY_LEN(single_functions), name);
}

/* A member that begins with a capital names a node's type: only those of the list. */
bool
value_listed(const cJSON *v)
{
	const cJSON *member;

	cJSON_ArrayForEach(member, v)
	{
		const char *type = member->string;

		if (type != NULL && type[0] >= 'A' && type[0] <= 'Z' &&
		    (!names_hold(single_nodes, ARRAY_LEN(single_nodes), str_z(type)) ||
			(strcmp(type, "FuncCall") == 0 && !single_function(member))))
			return false;
		if (!value_listed(member))
			return false;
	}
	return v != NULL;
}
