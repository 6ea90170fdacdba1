/*
 * How many rows a change would touch, as a query: from the parse tree of a DELETE or UPDATE of one
 * table, never from its text. Runs in cofferdam-parser alone. The tree comes as protobuf; a
 * SELECT's own tree gets the table and the condition of the change in place of its own, and
 * libpg_query writes it out. What is not exactly of that form has no such query.
 */
#include "policy/facts.h"

#include <pg_query.h>

#include "policy/facts_sql_internal.h"

#include "common/banned.h"

#define TREE_MAX ((size_t)1 << 20)

/* Field numbers of pg_query.proto, version 15. */
enum {
	RESULT_STMTS = 2,
	RAW_STMT = 1,
	NODE_RANGE_VAR = 2,
	NODE_CURRENT_OF = 42,
	NODE_DELETE = 55,
	NODE_UPDATE = 56,
	NODE_SELECT = 58,
	CHANGE_RELATION = 1,
	CHANGE_WHERE = 3,
	DELETE_USING = 2,
	DELETE_WITH = 5,
	UPDATE_FROM = 4,
	UPDATE_WITH = 6,
	SELECT_FROM = 4,
	SELECT_WHERE = 5,
};

/* --- protobuf, as far as it is needed ------------------------------------------------- */

struct field {
	uint64_t number;
	struct str whole, value; /* value: of a length-delimited one */
};

static bool
varint(struct str *s, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t b;

		if (s->n == 0)
			return false;
		b = (uint8_t)s->p[0];
		s->p++;
		s->n--;
		v |= (uint64_t)(b & 0x7f) << shift;
		if ((b & 0x80) == 0) {
			*ret = v;
			return true;
		}
	}
	return false;
}

/* The next field; false at the end, and where *s is not empty then, it is broken. */
static bool
next(struct str *s, struct field *ret)
{
	struct str at = *s, rest = *s;
	uint64_t key, n = 0;

	if (rest.n == 0 || !varint(&rest, &key))
		return false;
	switch (key & 7) {
	case 0:
		if (!varint(&rest, &n))
			return false;
		n = 0;
		break;
	case 1: n = 8; break;
	case 2:
		if (!varint(&rest, &n))
			return false;
		break;
	case 5: n = 4; break;
	default: return false;
	}
	if (n > rest.n)
		return false;
	*ret = (struct field){.number = key >> 3, .value = str_mem(rest.p, (size_t)n)};
	rest.p += n;
	rest.n -= n;
	ret->whole = str_mem(at.p, at.n - rest.n);
	*s = rest;
	return true;
}

/* The one field of that number; false: none, or several. */
static bool
only(struct str s, uint64_t number, struct str *ret)
{
	struct field f;
	size_t n = 0;

	while (next(&s, &f))
		if (f.number == number) {
			*ret = f.value;
			n++;
		}
	return n == 1 && s.n == 0;
}

static bool
has(struct str s, uint64_t number)
{
	struct field f;

	while (next(&s, &f))
		if (f.number == number)
			return true;
	return s.n != 0;
}

static void
put_varint(struct buf *b, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		buf_u8(b, (uint8_t)(v | 0x80));
	buf_u8(b, (uint8_t)v);
}

static void
put_field(struct buf *b, uint64_t number, struct str value)
{
	put_varint(b, number << 3 | 2);
	put_varint(b, value.n);
	buf_put_str(b, value);
}

/* --- trees ------------------------------------------------------------------------------ */

static void
free_protobuf(PgQueryProtobufParseResult *r)
{
	pg_query_free_protobuf_parse_result(*r);
}

static void
free_deparsed(PgQueryDeparseResult *r)
{
	pg_query_free_deparse_result(*r);
}

static bool
tree_of(const char *sql, struct buf *out)
{
	__attribute__((cleanup(free_protobuf))) PgQueryProtobufParseResult r =
	    pg_query_parse_protobuf(sql);

	if (r.error != NULL)
		return false;
	buf_put(out, r.parse_tree.data, r.parse_tree.len);
	return !buf_over(out);
}

/* Statement, node: the bytes of a tree's only statement, if it is of that kind. */
static bool
statement(struct str tree, uint64_t kind, struct str *ret)
{
	struct str raw, node;

	return only(tree, RESULT_STMTS, &raw) && only(raw, RAW_STMT, &node) &&
	       only(node, kind, ret);
}

/* A change of one table that says which rows; no other table beside it but inside the condition. */
static bool
change(struct str tree, struct str *ret_relation, struct str *ret_where)
{
	struct str s;
	bool plain = false;

	if (statement(tree, NODE_DELETE, &s))
		plain = !has(s, DELETE_USING) && !has(s, DELETE_WITH);
	else if (statement(tree, NODE_UPDATE, &s))
		plain = !has(s, UPDATE_FROM) && !has(s, UPDATE_WITH);
	if (!plain || !only(s, CHANGE_RELATION, ret_relation))
		return false;
	*ret_where = STR("");
	if (has(s, CHANGE_WHERE) && !only(s, CHANGE_WHERE, ret_where))
		return false;
	return !has(*ret_where, NODE_CURRENT_OF);
}

/* The SELECT of `tree` with another table and condition. */
static bool
graft(struct str tree, struct str relation, struct str where, struct buf *out)
{
	AUTO_BUF struct buf select = BUF(TREE_MAX);
	AUTO_BUF struct buf node = BUF(TREE_MAX);
	AUTO_BUF struct buf raw = BUF(TREE_MAX);
	AUTO_BUF struct buf from = BUF(TREE_MAX);
	struct str s;
	struct field f;

	if (!statement(tree, NODE_SELECT, &s))
		return false;
	put_field(&from, NODE_RANGE_VAR, relation);
	while (next(&s, &f))
		if (f.number != SELECT_FROM && f.number != SELECT_WHERE)
			buf_put_str(&select, f.whole);
	put_field(&select, SELECT_FROM, buf_str(&from));
	if (where.n != 0)
		put_field(&select, SELECT_WHERE, where);
	put_field(&node, NODE_SELECT, buf_str(&select));
	put_field(&raw, RAW_STMT, buf_str(&node));
	put_field(out, RESULT_STMTS, buf_str(&raw));
	return s.n == 0 && !buf_over(&select) && !buf_over(&node) && !buf_over(&raw) &&
	       !buf_over(out);
}

static int
none(struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED, "no DELETE or UPDATE of one table alone");
}

int
facts_sql_count(struct str sql, struct buf *ret_json, struct err *err)
{
	AUTO_BUF struct buf tree = BUF(TREE_MAX);
	AUTO_BUF struct buf pattern = BUF(TREE_MAX);
	AUTO_BUF struct buf made = BUF(TREE_MAX);
	AUTO_BUF struct buf out = BUF(FACTS_JSON_MAX);
	AUTO_FREE char *text = NULL;
	struct str relation, where;
	struct jcs j;
	int rc = sql_scan(sql, err);

	if (rc != 0)
		return rc;
	text = str_dup(sql);
	if (!tree_of(text, &tree) || !tree_of("SELECT 1 FROM x", &pattern) ||
	    !change(buf_str(&tree), &relation, &where) ||
	    !graft(buf_str(&pattern), relation, where, &made))
		return none(err);
	__attribute__((cleanup(free_deparsed))) PgQueryDeparseResult r = pg_query_deparse_protobuf(
	    (PgQueryProtobuf){.len = (unsigned)made.n, .data = (char *)made.p});

	if (r.error != NULL)
		return none(err);
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "count", str_z(r.query));
	jcs_close(&j);
	if (buf_over(&out))
		return err_set(
		    err, ERR_TOO_COMPLEX, "the counting query is over %zu bytes", FACTS_JSON_MAX);
	buf_put_str(ret_json, buf_str(&out));
	return 0;
}
