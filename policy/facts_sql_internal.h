/*
 * Between the files of the SQL classifier: a scan that bounds the text before the foreign
 * parser sees it, and a walk over the parse tree (JSON of libpg_query) that leaves marks.
 * The walk knows each node type by a table; one that it does not know leaves "node:Type".
 */
#ifndef POLICY_FACTS_SQL_INTERNAL_H
#define POLICY_FACTS_SQL_INTERNAL_H

#include <cjson/cJSON.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/err.h"

#define WALK_DEPTH_MAX 1000
#define WALK_LOOKUPS_MAX \
	1000000u /* of names in WITH and FROM lists: a hostile text makes them quadratic */

/* facts_sql_scan.c: refuses what could stall or overflow the parser. ERR_TOO_COMPLEX, ERR_SYNTAX.
 */
int sql_scan(struct str sql, struct err *err);

/* Names in order of arrival; borrowed from the tree or the arena. */
struct names {
	struct str *v;
	size_t n;
	size_t cap;
};

/* What the names of a FROM list or a WITH list mean, innermost first. */
struct frame {
	struct frame *up;
	const cJSON *from; /* list of FROM items, or NULL */
	bool has_function; /* this frame, or one further up, has a function in FROM */
	const cJSON *ctes; /* list of CommonTableExpr, or NULL */
	int ctes_visible;  /* the first so many of them */
};

struct walk {
	struct arena *arena;
	struct names marks;
	struct names rel;
	struct names tag;
	struct names exec;
	struct names prep;
	struct names dealloc;
	struct names txn;
	unsigned statements;
	unsigned dml;
	unsigned depth;
	unsigned lookups;
	bool too_complex;
	bool fence;
	bool planned;  /* under EXPLAIN without ANALYZE: nothing runs */
	bool deferred; /* a body that is stored and runs later: reading is not now */
	bool target;   /* relations met now are written to */
	bool top;      /* the next statement is the whole statement, or what PREPARE holds */
	bool at_top;   /* the statement whose handler runs is such a one */
	struct frame *frames;
};

struct node;
typedef void node_fn(struct walk *w, const struct node *node, const cJSON *obj);
struct node {
	const char *type;
	const char *tag;  /* a statement that may stand at the top: its word */
	const char *mark; /* left first, unless nothing runs; NULL: none */
	node_fn *fn;	  /* NULL: all children are walked */
};

/* facts_sql_walk.c */
void walk_statements(struct walk *w, const cJSON *stmts);
/* A wrapped node: {"Type": {...}}; NULL and {} are nothing. */
void walk_wrapped(struct walk *w, const cJSON *wrapped);
void walk_children(struct walk *w, const struct node *node, const cJSON *obj);
/* All members but `a` and `b` (which may be NULL). */
void walk_children_but(
    struct walk *w, const struct node *node, const cJSON *obj, const char *a, const char *b);

/* facts_sql_names.c */
void names_add(struct names *names, struct str s);
void names_sort_unique(struct names *names);
void names_free(struct names *names);
/* A mark that holds whatever the context; walk_mark_run: only where the statement runs. */
void walk_mark(struct walk *w, const char *mark);
void walk_mark_run(struct walk *w, const char *mark);
/* prefix, then the dotted name of a list of String nodes; parts with '.' or '"' are quoted. */
void walk_mark_names(struct walk *w, const char *prefix, const cJSON *list);
void walk_mark_name(struct walk *w, const char *prefix, struct str name);
void walk_mark_unknown(struct walk *w, const char *type, const char *member);
/* A relation by its parts (schema may be empty). Catalog names are marked when it is a target. */
void walk_relation(struct walk *w, struct str schema, struct str name);
/* The last parts of a list of String nodes, but for `drop` at the end, as a relation. */
void walk_relation_list(struct walk *w, const cJSON *list, int drop);

/* Members: "" / false / NULL when absent or of another type. */
struct str tree_str(const cJSON *obj, const char *key);
bool tree_true(const cJSON *obj, const char *key);
const cJSON *tree_get(const cJSON *obj, const char *key);
bool tree_is(const cJSON *obj, const char *key, const char *value);
/* The inner object when `wrapped` is {"type": {...}}, else NULL. */
const cJSON *tree_node(const cJSON *wrapped, const char *type);
/* Of a wrapped String node: its text; else "". */
struct str tree_string_node(const cJSON *wrapped);
/* The option `name` among DefElem nodes is there and not plainly false. */
bool tree_option(const cJSON *options, const char *name);

/* Handlers, named in facts_sql_nodes.tbl. facts_sql_walk_dml.c: */
node_fn on_select, on_insert, on_update, on_delete, on_merge;
bool where_bounded(const cJSON *where);
/* Made of what stands in the text and of parameters: reads no row, and is one value, not a set. */
bool value_listed(const cJSON *v);
/* facts_sql_walk_expr.c */
node_fn on_leaf, on_a_expr, on_column_ref, on_indirection, on_func_call, on_type_name, on_sublink,
    on_sort_by, on_range_var, on_table_sample, on_constraint;
/* Is there a function among these FROM items? */
bool from_has_function(const cJSON *from);
/* facts_sql_walk_cmd.c: everything that is neither DML nor DDL */
node_fn on_transaction, on_variable_set, on_explain, on_prepare, on_execute, on_deallocate, on_copy,
    on_discard, on_lock, on_vacuum, on_reindex, on_cluster, on_fence;
/* facts_sql_walk_ddl.c */
node_fn on_alter_table, on_alter_cmd, on_drop, on_define, on_replace, on_view, on_index, on_comment,
    on_rename, on_set_schema, on_alter_enum, on_alter_seq, on_truncate, on_table_as;

#endif
