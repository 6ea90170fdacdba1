/*
 * Commands that are neither DML nor DDL: transactions, settings, EXPLAIN, prepared
 * statements, COPY, cursors, locks, maintenance. Runs in cofferdam-parser alone. What a
 * command does by an option is decided by the option's value as the server reads it, and by
 * the stronger reading where the server would refuse it.
 */
#include "policy/facts_sql_internal.h"

#include <ctype.h>

#include "common/banned.h"

/* --- transactions ------------------------------------------------------------------------ */

static const struct txn_kind {
	const char *kind;
	const char *word; /* of the facts; NULL: prepared transactions */
} txn_kinds[] = {
    {"TRANS_STMT_BEGIN", "begin"},
    {"TRANS_STMT_START", "begin"},
    {"TRANS_STMT_COMMIT", "commit"},
    {"TRANS_STMT_ROLLBACK", "rollback"},
    {"TRANS_STMT_SAVEPOINT", "savepoint"},
    {"TRANS_STMT_RELEASE", "release"},
    {"TRANS_STMT_ROLLBACK_TO", "rollback_to"},
};

/* READ ONLY, an isolation level and DEFERRABLE only tighten; READ WRITE undoes a guard. */
static bool
modes_tighten(const cJSON *modes)
{
	const cJSON *m;

	cJSON_ArrayForEach(m, modes)
	{
		const cJSON *def = tree_node(m, "DefElem");
		const cJSON *value = tree_node(tree_get(def, "arg"), "A_Const");
		const cJSON *n = tree_get(tree_get(value, "ival"), "ival");

		if (tree_is(def, "defname", "transaction_isolation") ||
		    tree_is(def, "defname", "transaction_deferrable"))
			continue;
		if (!tree_is(def, "defname", "transaction_read_only") || !cJSON_IsNumber(n) ||
		    n->valueint != 1)
			return false;
	}
	return true;
}

void
on_transaction(struct walk *w, const struct node *node, const cJSON *obj)
{
	const char *word = NULL;

	(void)node;
	walk_mark_run(w, "txn");
	for (size_t i = 0; i < ARRAY_LEN(txn_kinds); i++)
		if (tree_is(obj, "kind", txn_kinds[i].kind))
			word = txn_kinds[i].word;
	if (word == NULL) {
		walk_mark_run(w, "txn:two_phase");
		w->fence = !tree_is(obj, "kind", "TRANS_STMT_PREPARE");
		return;
	}
	names_add(&w->txn, str_z(word));
	if (!modes_tighten(tree_get(obj, "options")))
		walk_mark_run(w, "txn:access");
	if (tree_true(obj, "chain")) {
		walk_mark_run(w, "txn:chain");
		names_add(&w->txn, STR("begin"));
	}
}

/* --- settings ---------------------------------------------------------------------------- */

static void
set_multi(struct walk *w, const cJSON *obj)
{
	walk_mark_run(w, "txn");
	if (tree_is(obj, "name", "TRANSACTION SNAPSHOT"))
		walk_mark_run(w, "txn:snapshot");
	else if (!tree_is(obj, "name", "TRANSACTION"))
		walk_mark_run(w, "txn:session");
	else if (!modes_tighten(tree_get(obj, "args")))
		walk_mark_run(w, "txn:access");
}

/* The value is part of the mark where core asks for it: the settings that the broker pins. */
static void
put_pinned_value(struct buf *mark, const cJSON *obj)
{
	const cJSON *args = tree_get(obj, "args");
	struct str name = str_mem(mark->p, mark->n);
	struct str value =
	    tree_str(tree_get(tree_node(cJSON_GetArrayItem(args, 0), "A_Const"), "sval"), "sval");

	if (!str_eqz(name, "set:client_encoding") &&
	    !str_eqz(name, "set:standard_conforming_strings"))
		return;
	if (!tree_is(obj, "kind", "VAR_SET_VALUE") || cJSON_GetArraySize(args) != 1 ||
	    value.n == 0 || value.n > 16)
		return;
	for (size_t i = 0; i < value.n; i++)
		if (!isalnum((unsigned char)value.p[i]) && value.p[i] != '-' && value.p[i] != '_')
			return;
	buf_put_c(mark, '=');
	buf_put_str(mark, value);
}

void
on_variable_set(struct walk *w, const struct node *node, const cJSON *obj)
{
	AUTO_BUF struct buf mark = BUF(256);
	struct str name = tree_str(obj, "name");

	(void)node;
	if (tree_is(obj, "kind", "VAR_SET_MULTI")) {
		set_multi(w, obj);
		return;
	}
	if (tree_is(obj, "kind", "VAR_RESET_ALL"))
		name = STR("all");
	buf_put_z(&mark, "set:");
	/* An '=' in a quoted name would read as a value. */
	for (size_t i = 0; i < name.n; i++) {
		if (name.p[i] == '=')
			buf_put_c(&mark, '?');
		else
			buf_put_c(&mark, (char)tolower((unsigned char)name.p[i]));
	}
	put_pinned_value(&mark, obj);
	if (buf_over(&mark))
		walk_mark_unknown(w, "VariableSetStmt", "name");
	else
		names_add(&w->marks, arena_str(w->arena, buf_str(&mark)));
}

void
on_discard(struct walk *w, const struct node *node, const cJSON *obj)
{
	(void)node;
	walk_mark_run(w, tree_is(obj, "target", "DISCARD_PLANS") ? "discard:plans" : "discard");
	if (tree_is(obj, "target", "DISCARD_ALL"))
		w->fence = true;
}

/* --- statements that hold statements ------------------------------------------------------- */

/* Without ANALYZE the query is planned, not run; the planner may still call immutable functions. */
void
on_explain(struct walk *w, const struct node *node, const cJSON *obj)
{
	bool planned = w->planned;

	if (!tree_option(tree_get(obj, "options"), "analyze")) {
		walk_mark_run(w, "explain");
		w->planned = true;
	}
	walk_children_but(w, node, obj, "options", NULL);
	w->planned = planned;
}

void
on_prepare(struct walk *w, const struct node *node, const cJSON *obj)
{
	walk_mark_run(w, "prepare");
	if (!w->planned)
		names_add(&w->prep, tree_str(obj, "name"));
	w->top = w->at_top;
	walk_wrapped(w, tree_get(obj, "query"));
	walk_children_but(w, node, obj, "query", NULL);
}

void
on_execute(struct walk *w, const struct node *node, const cJSON *obj)
{
	if (!w->planned)
		names_add(&w->exec, tree_str(obj, "name"));
	walk_children(w, node, obj);
}

void
on_deallocate(struct walk *w, const struct node *node, const cJSON *obj)
{
	(void)node;
	names_add(&w->dealloc, tree_str(obj, "name"));
}

/* --- COPY ---------------------------------------------------------------------------------- */

void
on_copy(struct walk *w, const struct node *node, const cJSON *obj)
{
	bool from = tree_true(obj, "is_from");
	bool program = tree_true(obj, "is_program");
	bool file = tree_get(obj, "filename") != NULL;
	const cJSON *relation = tree_get(obj, "relation");

	if (!from)
		walk_mark_run(w, "copy:to");
	else
		walk_mark_run(w, program || file ? "copy:from" : "copy:from_stdin");
	if (program)
		walk_mark_run(w, from ? "copy:from_program" : "copy:to_program");
	else if (file)
		walk_mark_run(w, from ? "copy:from_file" : "copy:to_file");
	if (relation != NULL) {
		w->target = from;
		walk_relation(w, tree_str(relation, "schemaname"), tree_str(relation, "relname"));
		w->target = false;
	}
	walk_children_but(w, node, obj, "relation", NULL);
}

/* --- locks and maintenance ------------------------------------------------------------------- */

void
on_lock(struct walk *w, const struct node *node, const cJSON *obj)
{
	const cJSON *mode = tree_get(obj, "mode");

	walk_mark_run(
	    w, cJSON_IsNumber(mode) && mode->valueint == 1 ? "lock:access_share" : "lock");
	walk_children(w, node, obj);
}

void
on_vacuum(struct walk *w, const struct node *node, const cJSON *obj)
{
	bool vacuum = tree_true(obj, "is_vacuumcmd");

	walk_mark_run(w, vacuum ? "vacuum" : "analyze");
	w->fence = w->fence || vacuum;
	walk_children(w, node, obj);
}

void
on_reindex(struct walk *w, const struct node *node, const cJSON *obj)
{
	if (tree_get(obj, "relation") == NULL ||
	    tree_option(tree_get(obj, "params"), "concurrently"))
		w->fence = true; /* SCHEMA, DATABASE, SYSTEM, or CONCURRENTLY */
	walk_children(w, node, obj);
}

void
on_cluster(struct walk *w, const struct node *node, const cJSON *obj)
{
	if (tree_get(obj, "relation") == NULL)
		w->fence = true;
	walk_children(w, node, obj);
}

void
on_fence(struct walk *w, const struct node *node, const cJSON *obj)
{
	w->fence = true;
	/* Their settings are not this session's: no SET marks. */
	walk_children_but(w, node, obj, "setstmt", NULL);
}
