/*
 * A value that passed canon_check as a tree, for who reads many records: one pass, no memory of its
 * own for each value, used again for the next record. Reads like common/json.h.
 */
#ifndef AUDIT_CANON_TREE_H
#define AUDIT_CANON_TREE_H

#include <stdint.h>

#include "common/cleanup.h"
#include "common/str.h"

enum canon_type { CANON_BOOL, CANON_INT, CANON_STRING, CANON_ARRAY, CANON_OBJECT };

/* Good until the tree is set again. */
struct canon_node {
	struct str key;	 /* of a member, as stored: keys with escapes are never asked for */
	struct str text; /* of a string, what it says; of others, as stored */
	uint32_t count;	 /* elements or members */
	uint32_t size;	 /* nodes: itself and all below */
	enum canon_type type;
};

struct canon_tree;
struct canon_tree *canon_tree_new(void);
void canon_tree_free(struct canon_tree *t);
DEFINE_AUTO(canon_tree, struct canon_tree, canon_tree_free)

/* The root of `text`, which passed canon_check and stays where it is. */
const struct canon_node *canon_tree_set(struct canon_tree *t, struct str text);

/* NULL, or a value of another type, is a missing one: NULL, no text (p == NULL), 0, false, none. */
const struct canon_node *canon_member(const struct canon_node *object, const char *key);
const struct canon_node *canon_first(const struct canon_node *v); /* NULL: empty */
/* The one behind it; only count - 1 times. */
const struct canon_node *canon_behind(const struct canon_node *v);
struct str canon_text(const struct canon_node *v);
int64_t canon_int(const struct canon_node *v);
bool canon_true(const struct canon_node *v);
size_t canon_count(const struct canon_node *v);

#endif
