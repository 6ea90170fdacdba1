/*
 * The walk over a parse tree, driven by facts_sql_nodes.tbl. Runs in cofferdam-parser alone.
 * It trusts the shape of the tree as little as the text it came from: a node type or a typed
 * member that the table does not name leaves a mark that is opaque, and depth is bounded.
 */
#include "policy/facts_sql_internal.h"

#include <stdlib.h>

#include "common/banned.h"

static const struct node nodes[] = {
#define NODE(type, tag, mark, fn) {#type, tag, mark, fn},
#define TYPED(parent, member, type, target)
#include "policy/facts_sql_nodes.tbl"
#undef NODE
#undef TYPED
};

struct typed {
	const char *parent;
	const char *member;
	const char *type;
	bool target;
};
static const struct typed typed[] = {
#define NODE(type, tag, mark, fn)
#define TYPED(parent, member, type, target) {#parent, #member, #type, target},
#include "policy/facts_sql_nodes.tbl"
#undef NODE
#undef TYPED
};

static int
compare_node(const void *key, const void *elem)
{
	return strcmp(key, ((const struct node *)elem)->type);
}

static const struct node *
node_find(const char *type)
{
	return bsearch(type, nodes, ARRAY_LEN(nodes), sizeof(nodes[0]), compare_node);
}

static int
compare_typed(const void *key, const void *elem)
{
	const struct typed *k = key;
	const struct typed *e = elem;
	int order = strcmp(k->parent, e->parent);

	return order != 0 ? order : strcmp(k->member, e->member);
}

static const struct typed *
typed_find(const char *parent, const char *member)
{
	struct typed key = {.parent = parent, .member = member};

	return bsearch(&key, typed, ARRAY_LEN(typed), sizeof(typed[0]), compare_typed);
}

static void
walk_node(struct walk *w, const char *type, const cJSON *obj)
{
	static const struct node unknown = {.type = ""};
	const struct node *node = node_find(type);

	w->at_top = w->top;
	w->top = false;
	if (w->depth >= WALK_DEPTH_MAX) {
		w->too_complex = true;
		return;
	}
	w->depth++;
	if (node == NULL) {
		walk_mark_unknown(w, type, NULL);
		walk_children(w, &unknown, obj);
	} else {
		if (node->mark != NULL)
			walk_mark_run(w, node->mark);
		if (node->fn != NULL)
			node->fn(w, node, obj);
		else
			walk_children(w, node, obj);
	}
	w->depth--;
}

/* {"Type": {...}}: node types begin with a capital, members of a node with a small letter. */
static const cJSON *
wrapped_inner(const cJSON *v)
{
	const cJSON *inner = v->child;

	if (inner == NULL || inner->next != NULL || !cJSON_IsObject(inner) ||
	    inner->string == NULL || inner->string[0] < 'A' || inner->string[0] > 'Z')
		return NULL;
	return inner;
}

void
walk_wrapped(struct walk *w, const cJSON *wrapped)
{
	const cJSON *inner;

	if (wrapped == NULL || !cJSON_IsObject(wrapped) || wrapped->child == NULL)
		return;
	inner = wrapped_inner(wrapped);
	if (inner == NULL)
		walk_mark_unknown(w, "unwrapped", NULL);
	else
		walk_node(w, inner->string, inner);
}

static void
walk_object(struct walk *w, const struct node *parent, const char *member, const cJSON *v)
{
	const struct typed *t;
	bool target = w->target;

	if (wrapped_inner(v) != NULL) {
		walk_wrapped(w, v);
		return;
	}
	t = typed_find(parent->type, member);
	if (t != NULL) {
		w->target = t->target;
		walk_node(w, t->type, v);
		w->target = target;
	} else if (v->child != NULL) {
		walk_mark_unknown(w, parent->type, member);
	}
}

static void
walk_member(struct walk *w, const struct node *parent, const char *member, const cJSON *v)
{
	const cJSON *item;

	if (cJSON_IsObject(v)) {
		walk_object(w, parent, member, v);
		return;
	}
	if (!cJSON_IsArray(v))
		return;
	cJSON_ArrayForEach(item, v)
	{
		if (cJSON_IsObject(item))
			walk_object(w, parent, member, item);
		else
			walk_mark_unknown(w, parent->type, member);
	}
}

void
walk_children_but(
    struct walk *w, const struct node *node, const cJSON *obj, const char *a, const char *b)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, obj)
	{
		if ((a != NULL && strcmp(v->string, a) == 0) ||
		    (b != NULL && strcmp(v->string, b) == 0))
			continue;
		walk_member(w, node, v->string, v);
	}
}

void
walk_children(struct walk *w, const struct node *node, const cJSON *obj)
{
	walk_children_but(w, node, obj, NULL, NULL);
}

void
walk_mark_unknown(struct walk *w, const char *type, const char *member)
{
	AUTO_BUF struct buf b = BUF(256);

	buf_put_z(&b, "node:");
	buf_put_z(&b, type);
	if (member != NULL) {
		buf_put_c(&b, '.');
		buf_put_z(&b, member);
	}
	names_add(&w->marks, buf_over(&b) ? STR("node:") : arena_str(w->arena, buf_str(&b)));
}

void
walk_statements(struct walk *w, const cJSON *stmts)
{
	const cJSON *raw;

	cJSON_ArrayForEach(raw, stmts)
	{
		const cJSON *stmt = tree_get(raw, "stmt");
		const cJSON *inner = stmt == NULL ? NULL : wrapped_inner(stmt);
		const struct node *node = inner == NULL ? NULL : node_find(inner->string);

		w->statements++;
		if (node == NULL || node->tag == NULL) {
			walk_mark_unknown(w, inner == NULL ? "statement" : inner->string, NULL);
			names_add(&w->tag, STR("OTHER"));
		} else {
			names_add(&w->tag, str_z(node->tag));
		}
		w->top = true;
		walk_wrapped(w, stmt);
	}
}
