/*
 * Data definition. Runs in cofferdam-parser alone. What a DROP or ALTER touches is told by
 * the object's kind; kinds and sub-commands that are not in the tables here are opaque.
 */
#include "policy/facts_sql_internal.h"

#include "common/banned.h"

struct kind {
	const char *name;
	const char *mark;
};

/* NULL when not found. */
static const char *
kind_mark(const struct kind *kinds, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eqz(name, kinds[i].name))
			return kinds[i].mark;
	return NULL;
}

static void
mark_kind(struct walk *w, const struct kind *kinds, size_t n, const cJSON *obj, const char *member,
    const struct node *node)
{
	const char *mark = kind_mark(kinds, n, tree_str(obj, member));

	if (mark == NULL)
		walk_mark_unknown(w, node->type, member);
	else
		walk_mark_run(w, mark);
}

/* --- ALTER TABLE --------------------------------------------------------------------------- */

static const struct kind alter_kinds[] = {
    {"AT_AddColumn", "alter:add_column"},
    {"AT_AddConstraint", "alter:constraint"},
    {"AT_AddIdentity", "alter:identity"},
    {"AT_AddIndex", "alter:constraint"},
    {"AT_AddIndexConstraint", "alter:constraint"},
    {"AT_AddInherit", "alter:inherit"},
    {"AT_AddOf", "alter:of"},
    {"AT_AlterColumnGenericOptions", "alter:foreign"},
    {"AT_AlterColumnType", "alter:column_type"},
    {"AT_AlterConstraint", "alter:constraint"},
    {"AT_AttachPartition", "alter:partition"},
    {"AT_ChangeOwner", "alter:owner"},
    {"AT_ClusterOn", "alter:options"},
    {"AT_ColumnDefault", "alter:attribute"},
    {"AT_DetachPartition", "alter:partition"},
    {"AT_DetachPartitionFinalize", "alter:partition"},
    {"AT_DisableRowSecurity", "alter:disable_rls"},
    {"AT_DisableRule", "alter:disable_guard"},
    {"AT_DisableTrig", "alter:disable_guard"},
    {"AT_DisableTrigAll", "alter:disable_guard"},
    {"AT_DisableTrigUser", "alter:disable_guard"},
    {"AT_DropCluster", "alter:options"},
    {"AT_DropColumn", "alter:drop_column"},
    {"AT_DropConstraint", "alter:drop_constraint"},
    {"AT_DropExpression", "alter:attribute"},
    {"AT_DropIdentity", "alter:identity"},
    {"AT_DropInherit", "alter:inherit"},
    {"AT_DropNotNull", "alter:attribute"},
    {"AT_DropOf", "alter:of"},
    {"AT_EnableAlwaysRule", "alter:enable_rule"},
    {"AT_EnableAlwaysTrig", "alter:enable_guard"},
    {"AT_EnableReplicaRule", "alter:disable_guard"},
    {"AT_EnableReplicaTrig", "alter:disable_guard"},
    {"AT_EnableRowSecurity", "alter:enable_rls"},
    {"AT_EnableRule", "alter:enable_rule"},
    {"AT_EnableTrig", "alter:enable_guard"},
    {"AT_EnableTrigAll", "alter:enable_guard"},
    {"AT_EnableTrigUser", "alter:enable_guard"},
    {"AT_ForceRowSecurity", "alter:enable_rls"},
    {"AT_GenericOptions", "alter:foreign"},
    {"AT_NoForceRowSecurity", "alter:disable_rls"},
    {"AT_ReplicaIdentity", "alter:replica_identity"},
    {"AT_ResetOptions", "alter:options"},
    {"AT_ResetRelOptions", "alter:options"},
    {"AT_SetAccessMethod", "alter:access_method"},
    {"AT_SetCompression", "alter:options"},
    {"AT_SetIdentity", "alter:identity"},
    {"AT_SetLogged", "alter:options"},
    {"AT_SetNotNull", "alter:attribute"},
    {"AT_SetOptions", "alter:options"},
    {"AT_SetRelOptions", "alter:options"},
    {"AT_SetStatistics", "alter:statistics"},
    {"AT_SetStorage", "alter:options"},
    {"AT_SetTableSpace", "alter:options"},
    {"AT_SetUnLogged", "alter:unlogged"},
    {"AT_ValidateConstraint", "alter:constraint"},
};

void
on_alter_cmd(struct walk *w, const struct node *node, const cJSON *obj)
{
	const cJSON *partition = tree_node(tree_get(obj, "def"), "PartitionCmd");

	mark_kind(w, alter_kinds, ARRAY_LEN(alter_kinds), obj, "subtype", node);
	if (tree_true(partition, "concurrent"))
		w->fence = true;
	walk_children(w, node, obj);
}

void
on_alter_table(struct walk *w, const struct node *node, const cJSON *obj)
{
	if (tree_is(obj, "objtype", "OBJECT_FOREIGN_TABLE"))
		walk_mark_run(w, "alter:foreign");
	walk_children(w, node, obj);
}

void
on_alter_seq(struct walk *w, const struct node *node, const cJSON *obj)
{
	if (tree_option(tree_get(obj, "options"), "restart"))
		walk_mark_run(w, "sequence:restart");
	walk_children(w, node, obj);
}

/*
 * A text that waits for its signature names what it will touch: DROP TABLE scratch, renamed in
 * between, is another table's end. A schema takes all it holds along: later texts name it
 * differently, and its functions may come into a search path. A function may take a name that is
 * the server's own, with other arguments.
 */
void
on_rename(struct walk *w, const struct node *node, const cJSON *obj)
{
	static const struct kind kinds[] = {
	    {"OBJECT_AGGREGATE", "alter:rename_code"},
	    {"OBJECT_FUNCTION", "alter:rename_code"},
	    {"OBJECT_PROCEDURE", "alter:rename_code"},
	    {"OBJECT_ROLE", "alter:rename_role"},
	    {"OBJECT_ROUTINE", "alter:rename_code"},
	    {"OBJECT_SCHEMA", "alter:rename_schema"},
	};
	const char *mark = kind_mark(kinds, ARRAY_LEN(kinds), tree_str(obj, "renameType"));

	walk_mark_run(w, mark != NULL ? mark : "alter:rename");
	walk_children(w, node, obj);
}

/* RENAME VALUE: each row that holds the old one says something else. */
void
on_alter_enum(struct walk *w, const struct node *node, const cJSON *obj)
{
	if (tree_get(obj, "oldVal") != NULL)
		walk_mark_run(w, "alter:rename");
	walk_children(w, node, obj);
}

/* A function or operator that moves may come to stand before another in a search path. */
void
on_set_schema(struct walk *w, const struct node *node, const cJSON *obj)
{
	static const struct kind data[] = {
	    {"OBJECT_FOREIGN_TABLE", ""},
	    {"OBJECT_MATVIEW", ""},
	    {"OBJECT_SEQUENCE", ""},
	    {"OBJECT_STATISTIC_EXT", ""},
	    {"OBJECT_TABLE", ""},
	    {"OBJECT_VIEW", ""},
	};
	bool is_data = kind_mark(data, ARRAY_LEN(data), tree_str(obj, "objectType")) != NULL;

	walk_mark_run(w, is_data ? "alter:set_schema" : "alter:set_schema_code");
	walk_children(w, node, obj);
}

/* --- DROP ---------------------------------------------------------------------------------- */

static const struct kind drop_kinds[] = {
    {"OBJECT_ACCESS_METHOD", "drop:code"},
    {"OBJECT_AGGREGATE", "drop:aggregate"},
    {"OBJECT_CAST", "drop:code"},
    {"OBJECT_COLLATION", "drop:other"},
    {"OBJECT_CONVERSION", "drop:code"},
    {"OBJECT_DOMAIN", "drop:type"},
    {"OBJECT_EVENT_TRIGGER", "drop:event_trigger"},
    {"OBJECT_EXTENSION", "drop:extension"},
    {"OBJECT_FDW", "drop:foreign"},
    {"OBJECT_FOREIGN_SERVER", "drop:foreign"},
    {"OBJECT_FOREIGN_TABLE", "drop:foreign"},
    {"OBJECT_FUNCTION", "drop:code"},
    {"OBJECT_INDEX", "drop:index"},
    {"OBJECT_LANGUAGE", "drop:code"},
    {"OBJECT_MATVIEW", "drop:view"},
    {"OBJECT_OPCLASS", "drop:code"},
    {"OBJECT_OPERATOR", "drop:code"},
    {"OBJECT_OPFAMILY", "drop:code"},
    {"OBJECT_POLICY", "drop:policy"},
    {"OBJECT_PROCEDURE", "drop:code"},
    {"OBJECT_PUBLICATION", "drop:foreign"},
    {"OBJECT_ROUTINE", "drop:code"},
    {"OBJECT_RULE", "drop:trigger"},
    {"OBJECT_SCHEMA", "drop:schema"},
    {"OBJECT_SEQUENCE", "drop:sequence"},
    {"OBJECT_STATISTIC_EXT", "drop:other"},
    {"OBJECT_TABLE", "drop:table"},
    {"OBJECT_TRANSFORM", "drop:code"},
    {"OBJECT_TRIGGER", "drop:trigger"},
    {"OBJECT_TSCONFIGURATION", "drop:other"},
    {"OBJECT_TSDICTIONARY", "drop:other"},
    {"OBJECT_TSPARSER", "drop:code"},
    {"OBJECT_TSTEMPLATE", "drop:code"},
    {"OBJECT_TYPE", "drop:type"},
    {"OBJECT_VIEW", "drop:view"},
};

/* How many names at the end of an object's list are not the relation's; -1: there is none. */
static int
names_behind_relation(struct str kind)
{
	static const char *const relations[] = {"OBJECT_FOREIGN_TABLE", "OBJECT_INDEX",
	    "OBJECT_MATVIEW", "OBJECT_SEQUENCE", "OBJECT_TABLE", "OBJECT_VIEW"};
	static const char *const parts[] = {"OBJECT_COLUMN", "OBJECT_POLICY", "OBJECT_RULE",
	    "OBJECT_TABCONSTRAINT", "OBJECT_TRIGGER"};

	for (size_t i = 0; i < ARRAY_LEN(relations); i++)
		if (str_eqz(kind, relations[i]))
			return 0;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (str_eqz(kind, parts[i]))
			return 1;
	return -1;
}

static void
object_relation(struct walk *w, struct str kind, const cJSON *object)
{
	int behind = names_behind_relation(kind);

	if (behind < 0)
		return;
	w->target = true;
	walk_relation_list(w, tree_get(tree_node(object, "List"), "items"), behind);
	w->target = false;
}

void
on_drop(struct walk *w, const struct node *node, const cJSON *obj)
{
	const cJSON *object;

	mark_kind(w, drop_kinds, ARRAY_LEN(drop_kinds), obj, "removeType", node);
	if (tree_true(obj, "concurrent"))
		w->fence = true;
	cJSON_ArrayForEach(object, tree_get(obj, "objects"))
	    object_relation(w, tree_str(obj, "removeType"), object);
}

void
on_comment(struct walk *w, const struct node *node, const cJSON *obj)
{
	(void)node;
	object_relation(w, tree_str(obj, "objtype"), tree_get(obj, "object"));
}

void
on_truncate(struct walk *w, const struct node *node, const cJSON *obj)
{
	w->target = true;
	walk_children(w, node, obj);
	w->target = false;
}

/* --- CREATE -------------------------------------------------------------------------------- */

static const struct kind define_kinds[] = {
    {"OBJECT_AGGREGATE", "create:aggregate"},
    {"OBJECT_COLLATION", "create:collation"},
    {"OBJECT_OPERATOR", "create:operator"},
    {"OBJECT_TSCONFIGURATION", "create:text_search"},
    {"OBJECT_TSDICTIONARY", "create:text_search"},
    {"OBJECT_TSPARSER", "create:text_search_code"},
    {"OBJECT_TSTEMPLATE", "create:text_search_code"},
    {"OBJECT_TYPE", "create:type_code"},
};

void
on_replace(struct walk *w, const struct node *node, const cJSON *obj)
{
	if (tree_true(obj, "replace"))
		walk_mark_run(w, "replace");
	walk_children(w, node, obj);
}

void
on_define(struct walk *w, const struct node *node, const cJSON *obj)
{
	mark_kind(w, define_kinds, ARRAY_LEN(define_kinds), obj, "kind", node);
	on_replace(w, node, obj);
}

/* The query is stored. What it calls counts now: nobody sees it when the view is read. */
void
on_view(struct walk *w, const struct node *node, const cJSON *obj)
{
	bool deferred = w->deferred;

	w->deferred = true;
	on_replace(w, node, obj);
	w->deferred = deferred;
}

void
on_index(struct walk *w, const struct node *node, const cJSON *obj)
{
	if (tree_true(obj, "concurrent"))
		w->fence = true;
	walk_children(w, node, obj);
}

void
on_table_as(struct walk *w, const struct node *node, const cJSON *obj)
{
	walk_mark_run(
	    w, tree_is(obj, "objtype", "OBJECT_MATVIEW") ? "create:matview" : "create:table_as");
	walk_children(w, node, obj);
}
