/*
 * SQL texts to facts and effects: the table of statements, whole facts of a few, and the texts
 * that must be refused before or instead of being understood.
 */
#include "policy/facts.h"

#include "common/jcs.h"
#include "policy/facts_sql_internal.h"
#include "tests/unit/policy_help.h"

#include "common/banned.h"

#define STATEMENTS "tests/unit/sql_statements.txt"

static int
view_of(struct str sql, struct facts_sql_view *view, struct err *err)
{
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	int rc = facts_sql(sql, &facts, err);

	if (rc != 0)
		return rc;
	if (!jcs_is_canonical(buf_str(&facts), err) ||
	    json_parse(buf_str(&facts), "facts", &doc, err) != 0)
		fail_msg("%.*s: %s", STR_ARG(buf_str(&facts)), err->msg);
	effects_sql(json_root(doc), view);
	return 0;
}

static uint32_t
effects_of(struct str sql)
{
	struct facts_sql_view view = {0};
	struct err err = {0};

	return view_of(sql, &view, &err) == 0 ? view.effects : EFFECT_invalid;
}

static uint32_t
effects_named(struct str names)
{
	uint32_t set = 0;
	struct str word;

	while (names.n != 0) {
		uint32_t effect;

		if (!str_cut(&names, ' ', &word)) {
			word = names;
			names = STR("");
		}
		effect = effect_parse(word);
		if (effect == 0)
			fail_msg("no effect is named %.*s", STR_ARG(word));
		set |= effect;
	}
	return set;
}

static bool
class_holds(struct str class, uint32_t e)
{
	const uint32_t quiet = EFFECT_SET_DATA | EFFECT_SET_CHANGE;

	if (str_eqz(class, "data"))
		return e != 0 && (e & ~EFFECT_SET_DATA) == 0;
	if (str_eqz(class, "change"))
		return (e & EFFECT_SET_CHANGE) != 0 && (e & ~quiet) == 0;
	if (str_eqz(class, "destructive"))
		return (e & EFFECT_SET_DESTRUCTIVE) != 0 && (e & EFFECT_SET_ESCAPE) == 0;
	if (str_eqz(class, "escape"))
		return (e & EFFECT_SET_ESCAPE) != 0 && (e & EFFECT_invalid) == 0;
	return str_eqz(class, "invalid") && e == EFFECT_invalid;
}

/* "effects :: text" or "= class"; false for a comment or an empty line. */
static bool
check_line(struct str line, struct str *class)
{
	AUTO_BUF struct buf got_names = BUF(512);
	const char *sep = memmem(line.p, line.n, " :: ", 4);
	struct str want;
	struct str sql;
	uint32_t got;

	if (line.n == 0 || line.p[0] == '#')
		return false;
	if (str_has_prefix(line, "= ")) {
		*class = str_mem(line.p + 2, line.n - 2);
		return false;
	}
	if (sep == NULL)
		fail_msg("%s: no \" :: \" in: %.*s", STATEMENTS, STR_ARG(line));
	want = str_mem(line.p, (size_t)(sep - line.p));
	sql = str_mem(sep + 4, line.n - want.n - 4);
	got = effects_of(sql);
	effect_put(&got_names, got);
	if (got != effects_named(want))
		fail_msg("%.*s: is %.*s, must be %.*s", STR_ARG(sql), STR_ARG(buf_str(&got_names)),
		    STR_ARG(want));
	if (!class_holds(*class, got))
		fail_msg("%.*s: %.*s is not of class %.*s", STR_ARG(sql),
		    STR_ARG(buf_str(&got_names)), STR_ARG(*class));
	return true;
}

static void
every_statement_of_the_table_has_its_effects_and_class(void **state)
{
	AUTO_BUF struct buf text = BUF(1 << 20);
	struct str rest;
	struct str line;
	struct str class = STR("");
	size_t n = 0;

	(void)state;
	help_read_file(STATEMENTS, &text);
	rest = buf_str(&text);
	while (str_cut(&rest, '\n', &line))
		n += check_line(line, &class) ? 1 : 0;
	assert_true(n >= 500);
}

static void
facts_are(const char *sql, const char *want)
{
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	struct err err = {0};

	if (facts_sql(str_z(sql), &facts, &err) != 0)
		fail_msg("%s: %s", sql, err.msg);
	if (!str_eqz(buf_str(&facts), want))
		fail_msg("%s\n got %.*s\nwant %s", sql, STR_ARG(buf_str(&facts)), want);
}

static void
facts_name_marks_relations_and_tags(void **state)
{
	(void)state;
	facts_are("", "{\"dml\":0,\"marks\":[],\"n\":0,\"rel\":[],\"tag\":[]}");
	facts_are("DELETE FROM public.contacts WHERE id = $1",
	    "{\"dml\":1,\"marks\":[\"delete:bounded\",\"op:=\"],\"n\":1,"
	    "\"rel\":[\"public.contacts\"],\"tag\":[\"DELETE\"]}");
	facts_are("BEGIN; SAVEPOINT a; ROLLBACK TO a; RELEASE a; COMMIT AND CHAIN; END",
	    "{\"dml\":0,\"marks\":[\"txn\",\"txn:chain\"],\"n\":6,\"rel\":[],\"tag\":["
	    "\"TRANSACTION\",\"TRANSACTION\",\"TRANSACTION\",\"TRANSACTION\",\"TRANSACTION\","
	    "\"TRANSACTION\"],\"txn\":[\"begin\",\"savepoint\",\"rollback_to\",\"release\","
	    "\"commit\",\"begin\",\"commit\"]}");
	facts_are("PREPARE a AS DELETE FROM t WHERE id = $1; EXECUTE \"B\"(1); DEALLOCATE c; "
		  "DEALLOCATE ALL",
	    "{\"dealloc\":[\"c\",\"\"],\"dml\":1,\"exec\":[\"B\"],\"marks\":[\"deallocate\","
	    "\"delete:bounded\",\"execute\",\"op:=\",\"prepare\"],\"n\":4,\"prep\":[\"a\"],"
	    "\"rel\":[\"t\"],\"tag\":[\"PREPARE\",\"EXECUTE\",\"DEALLOCATE\",\"DEALLOCATE\"]}");
	facts_are("DROP INDEX CONCURRENTLY s.i",
	    "{\"dml\":0,\"fence\":true,\"marks\":[\"drop:index\"],\"n\":1,\"rel\":[\"s.i\"],"
	    "\"tag\":[\"DROP\"]}");
}

static void
relations_are(const char *sql, const char *want)
{
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	AUTO_BUF struct buf got = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	const struct json *rel;
	struct err err = {0};

	if (facts_sql(str_z(sql), &facts, &err) != 0 ||
	    json_parse(buf_str(&facts), "facts", &doc, &err) != 0)
		fail_msg("%s: %s", sql, err.msg);
	rel = json_get(json_root(doc), "rel");
	for (size_t i = 0; i < json_count(rel); i++) {
		if (i != 0)
			buf_put_c(&got, ' ');
		buf_put_str(&got, json_str(json_at(rel, i)));
	}
	if (!str_eqz(buf_str(&got), want))
		fail_msg("%s\n got %.*s\nwant %s", sql, STR_ARG(buf_str(&got)), want);
}

/* INC-06: a rule by relation must see every way to name it. */
static void
a_relation_is_seen_wherever_and_however_it_is_named(void **state)
{
	(void)state;
	relations_are("SELECT row_to_json(t) FROM integration_tokens t", "integration_tokens");
	relations_are("INSERT INTO support_messages SELECT token FROM integration_tokens",
	    "integration_tokens support_messages");
	relations_are("INSERT INTO support_messages VALUES ('x')", "support_messages");
	relations_are("TABLE INTEGRATION_TOKENS", "integration_tokens");
	relations_are("SELECT * FROM \"integration_tokens\"", "integration_tokens");
	relations_are("SELECT * FROM \"Integration_Tokens\"", "Integration_Tokens");
	relations_are("SELECT * FROM Public.Integration_tokens", "public.integration_tokens");
	relations_are(
	    "SELECT * FROM U&\"integration!005ftokens\" UESCAPE '!'", "integration_tokens");
	relations_are(
	    "SELECT (SELECT max(id) FROM integration_tokens) FROM t", "integration_tokens t");
	relations_are("SELECT * FROM a WHERE x IN (SELECT y FROM b) AND EXISTS (TABLE c)", "a b c");
	relations_are(
	    "SELECT * FROM a JOIN (SELECT * FROM b, LATERAL (TABLE c) x) y ON true", "a b c");
	relations_are("SELECT * FROM a TABLESAMPLE system (1)", "a");
	relations_are("COPY integration_tokens TO STDOUT", "integration_tokens");
	relations_are("COPY (TABLE integration_tokens) TO STDOUT", "integration_tokens");
	relations_are("CREATE VIEW v AS TABLE integration_tokens", "integration_tokens v");
	relations_are("PREPARE p AS TABLE integration_tokens", "integration_tokens");
	relations_are("EXPLAIN ANALYZE TABLE integration_tokens", "integration_tokens");
	relations_are("DECLARE c CURSOR FOR TABLE integration_tokens", "integration_tokens");
	relations_are("LOCK a, s.b", "a s.b");
	relations_are("DROP TABLE a, s.b", "a s.b");
	relations_are("TRUNCATE a, s.b", "a s.b");
	relations_are("DROP TRIGGER x ON s.t", "s.t");
	relations_are("DROP COLLATION s.c", "");
	relations_are("VACUUM FULL a, s.b", "a s.b");
	relations_are("REINDEX TABLE s.a", "s.a");
	relations_are("CLUSTER s.a USING i", "s.a");
	relations_are("COMMENT ON COLUMN s.t.c IS 'x'", "s.t");
	relations_are("MERGE INTO t USING s ON true WHEN MATCHED THEN DO NOTHING", "s t");
	relations_are("ALTER TABLE a ADD FOREIGN KEY (x) REFERENCES b", "a b");
	/* One name with a dot is not two names. */
	relations_are(
	    "SELECT * FROM \"public.users\", public.users", "\"public.users\" public.users");
}

static void
a_with_name_hides_a_relation_only_where_the_server_says_so(void **state)
{
	(void)state;
	relations_are("WITH x AS (SELECT 1) SELECT * FROM x", "");
	relations_are("WITH x AS (SELECT 1) SELECT * FROM x, public.x", "public.x");
	/* Inside itself, not recursive: the table. */
	relations_are("WITH users AS (SELECT * FROM users) SELECT * FROM users", "users");
	relations_are("WITH RECURSIVE users AS (SELECT * FROM users) SELECT * FROM users", "");
	relations_are("WITH a AS (TABLE b), b AS (TABLE a) SELECT * FROM b", "b");
	relations_are(
	    "WITH a AS (SELECT 1) SELECT * FROM (WITH b AS (TABLE a) SELECT * FROM b, c) s", "c");
	relations_are("SELECT * FROM (WITH a AS (SELECT 1) TABLE a) s, a", "a");
	/* What is written to is never a WITH name. */
	relations_are("WITH t AS (SELECT 1) DELETE FROM t WHERE id = 1", "t");
	relations_are("WITH t AS (SELECT 1) INSERT INTO t SELECT * FROM t", "t");
	relations_are("WITH t AS (SELECT 1) SELECT * INTO t FROM t", "t");
}

static void
views_tell_what_core_must_know_beside_effects(void **state)
{
	struct facts_sql_view v = {0};
	struct err err = {0};

	(void)state;
	assert_int_equal(view_of(STR("COPY t FROM STDIN"), &v, &err), 0);
	assert_true(v.copy_in);
	assert_non_null(
	    strstr(effects_sql_unapprovable(&v), "COPY FROM STDIN that needs approval"));
	assert_int_equal(view_of(STR("COPY t TO STDOUT"), &v, &err), 0);
	assert_false(v.copy_in);
	assert_null(effects_sql_unapprovable(&v));
	assert_int_equal(view_of(STR("VACUUM"), &v, &err), 0);
	assert_true(v.fence);
	assert_int_equal(view_of(STR("ANALYZE"), &v, &err), 0);
	assert_false(v.fence);
	assert_int_equal(view_of(STR("BEGIN; COMMIT"), &v, &err), 0);
	assert_true(v.txn_only);
	assert_int_equal(v.statements, 2);
	assert_int_equal(view_of(STR("BEGIN; SELECT 1"), &v, &err), 0);
	assert_false(v.txn_only);
	assert_int_equal(view_of(STR("BEGIN READ WRITE"), &v, &err), 0);
	assert_false(v.txn_only);
	assert_int_equal(view_of(STR("-- ping"), &v, &err), 0);
	assert_int_equal(v.statements, 1);
	assert_false(v.txn_only);
	assert_int_equal(view_of(STR("EXECUTE p"), &v, &err), 0);
	assert_int_equal(v.effects, EFFECT_opaque);
	assert_int_equal(v.effects_resolved, 0);
	assert_int_equal(view_of(STR("EXECUTE p(my_function())"), &v, &err), 0);
	assert_int_equal(v.effects_resolved, EFFECT_opaque);
}

static void
what_cannot_run_inside_a_transaction_block_is_told(void **state)
{
	static const struct {
		const char *sql;
		bool fence;
	} t[] = {
	    {"VACUUM t", true},
	    {"ANALYZE t", false},
	    {"CREATE INDEX CONCURRENTLY i ON t (a)", true},
	    {"CREATE INDEX i ON t (a)", false},
	    {"DROP INDEX CONCURRENTLY i", true},
	    {"DROP INDEX i", false},
	    {"REINDEX TABLE CONCURRENTLY t", true},
	    {"REINDEX TABLE t", false},
	    {"REINDEX SCHEMA s", true},
	    {"REINDEX DATABASE d", true},
	    {"ALTER TABLE t DETACH PARTITION p CONCURRENTLY", true},
	    {"ALTER TABLE t DETACH PARTITION p", false},
	    {"CREATE DATABASE d", true},
	    {"DROP DATABASE d", true},
	    {"CREATE TABLESPACE t LOCATION '/x'", true},
	    {"DROP TABLESPACE t", true},
	    {"ALTER SYSTEM SET a = 1", true},
	    {"CLUSTER", true},
	    {"CLUSTER t", false},
	    {"DISCARD ALL", true},
	    {"DISCARD PLANS", false},
	    {"COMMIT PREPARED 'x'", true},
	    {"PREPARE TRANSACTION 'x'", false},
	    {"CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p", true},
	    {"VACUUM; SELECT 1", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct facts_sql_view v = {0};
		struct err err = {0};

		assert_int_equal(view_of(str_z(t[i].sql), &v, &err), 0);
		if (v.fence != t[i].fence)
			fail_msg("%s: fence %d", t[i].sql, v.fence);
	}
}

/* No text makes libpg_query 15 give these; a newer one would. */
static void
a_tree_that_the_walk_does_not_know_is_opaque(void **state)
{
	static const struct {
		const char *stmts, *mark;
	} t[] = {
	    {"[{\"stmt\":{\"NewStmt\":{}}}]", "node:NewStmt"},
	    {"[{\"stmt\":{\"A_Const\":{}}}]", "node:A_Const"},
	    {"[{\"stmt\":{}}]", "node:statement"},
	    {"[{}]", "node:statement"},
	    {"[{\"stmt\":{\"SelectStmt\":{\"newClause\":{\"x\":1}}}}]",
		"node:SelectStmt.newClause"},
	    {"[{\"stmt\":{\"SelectStmt\":{\"newList\":[{\"x\":1}]}}}]", "node:SelectStmt.newList"},
	    {"[{\"stmt\":{\"SelectStmt\":{\"newList\":[1]}}}]", "node:SelectStmt.newList"},
	    {"[{\"stmt\":{\"SelectStmt\":{\"whereClause\":{\"NewExpr\":{}}}}}]", "node:NewExpr"},
	    {"[{\"stmt\":{\"SelectStmt\":{\"whereClause\":{\"NewExpr\":{\"arg\":"
	     "{\"FuncCall\":{\"funcname\":[{\"String\":{\"sval\":\"f\"}}]}}}}}}}]",
		"func:f"},
	    {"[{\"stmt\":{\"DropStmt\":{\"removeType\":\"OBJECT_NEW\"}}}]",
		"node:DropStmt.removeType"},
	    {"[{\"stmt\":{\"MergeStmt\":{\"mergeWhenClauses\":[{\"MergeWhenClause\":{}}]}}}]",
		"node:MergeWhenClause.commandType"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		cJSON *tree = cJSON_Parse(t[i].stmts);
		struct arena *arena = arena_new(1 << 20);
		struct walk w = {.arena = arena};
		bool found = false;

		assert_non_null(tree);
		walk_statements(&w, tree);
		for (size_t k = 0; k < w.marks.n; k++)
			found = found || str_eqz(w.marks.v[k], t[i].mark);
		if (!found || w.statements != 1 || w.tag.n != 1)
			fail_msg("%s: no %s", t[i].stmts, t[i].mark);
		names_free(&w.marks);
		names_free(&w.tag);
		arena_free(arena);
		cJSON_Delete(tree);
	}
}

static void
rows_that_no_command_tag_counts_are_told(void **state)
{
	static const struct {
		const char *sql;
		unsigned dml;
		bool hidden;
	} t[] = {
	    {"DELETE FROM t WHERE id = 1", 1, false},
	    {"WITH x AS (SELECT 1) UPDATE t SET a = 1 WHERE id = 1", 1, false},
	    {"PREPARE p AS DELETE FROM t WHERE id = 1", 1, false},
	    {"DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1)", 2, false},
	    {"MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE", 1, false},
	    {"WITH d AS (DELETE FROM t WHERE id = 1 RETURNING *) SELECT * FROM d", 0, true},
	    {"WITH d AS (DELETE FROM t WHERE id = 1 RETURNING *) INSERT INTO u SELECT * FROM d", 1,
		true},
	    {"EXPLAIN ANALYZE DELETE FROM t WHERE id = 1", 0, true},
	    {"COPY (DELETE FROM t WHERE id = 1 RETURNING *) TO STDOUT", 0, true},
	    {"EXPLAIN DELETE FROM t WHERE id = 1", 0, false},
	    {"SELECT 1", 0, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct facts_sql_view v = {0};
		struct err err = {0};

		assert_int_equal(view_of(str_z(t[i].sql), &v, &err), 0);
		if (v.dml != t[i].dml || v.hidden_dml != t[i].hidden)
			fail_msg("%s: dml %u hidden %d", t[i].sql, v.dml, v.hidden_dml);
	}
}

/* prefix, then piece as often as told, then the same for the tail. */
static int
repeated(const char *prefix, const char *piece, size_t count, const char *then, size_t thens,
    struct facts_sql_view *view, struct err *err)
{
	AUTO_BUF struct buf sql = BUF(1 << 20);

	buf_put_z(&sql, prefix);
	for (size_t i = 0; i < count; i++)
		buf_put_z(&sql, piece);
	for (size_t i = 0; i < thens; i++)
		buf_put_z(&sql, then);
	return view_of(buf_str(&sql), view, err);
}

static void
texts_that_would_stall_or_crash_the_parser_are_too_complex(void **state)
{
	static const struct {
		const char *prefix, *piece;
		size_t count;
		const char *then;
		size_t thens;
		int rc;
	} t[] = {
	    {"SELECT 1", "+1", 100000, "", 0, ERR_TOO_COMPLEX},
	    {"SELECT 1", "+1", 40000, "", 0, ERR_TOO_COMPLEX},
	    {"SELECT 1", "+1", 32000, "", 0, ERR_TOO_COMPLEX},
	    {"SELECT 1", "+1", 400, "", 0, 0},
	    {"SELECT 1 ", "/*", 10000, "*/", 10000, ERR_TOO_COMPLEX},
	    {"SELECT 1 ", "/*", 17, "*/", 17, ERR_TOO_COMPLEX},
	    {"SELECT 1 ", "/*", 16, "*/", 16, 0},
	    {"SELECT 'a''b', \"c\", E'\\'', $x$ ' $x$, $1 --'\n", "/*", 17, "*/", 17,
		ERR_TOO_COMPLEX},
	    {"SELECT 'a''b', \"c\", E'\\'', $x$ ' $x$, $1 --'\n", "/*", 16, "*/", 16, 0},
	    {"SELECT a-", "/*", 17, "*/", 17, ERR_TOO_COMPLEX},
	    {"SELECT ", "(", 100000, "", 0, ERR_TOO_COMPLEX},
	    {"SELECT ", "(", 30000, "", 0, ERR_TOO_COMPLEX},
	    {"SELECT (1", ")", 1, "", 0, 0},
	    {"SELECT 1", ",(1)", 2000, "", 0, 0},
	    {"SELECT 1", ",a[1]", 2000, "", 0, 0},
	    {"SELECT ", "(", 500, "1", 1, ERR_SYNTAX},
	    {"SELECT ", "[", 501, "1", 1, ERR_TOO_COMPLEX},
	    {"SELECT ", "NOT ", 100000, "true", 1, ERR_TOO_COMPLEX},
	    {"SELECT ", "NOT ", 16000, "true", 1, ERR_TOO_COMPLEX},
	    {"SELECT ", "NOT ", 100, "true", 1, 0},
	    {"", "WITH a AS (", 3000, "SELECT 1", 1, ERR_TOO_COMPLEX},
	    {"SELECT ", "+", 60000, "1", 1, ERR_TOO_COMPLEX},
	    {"SELECT ", "- ", 30000, "a", 1, ERR_TOO_COMPLEX},
	    {"SELECT x", " IS NULL", 8000, "", 0, ERR_TOO_COMPLEX},
	    {"SELECT 1", "::int", 12000, "", 0, ERR_TOO_COMPLEX},
	    {"SELECT 1", " UNION SELECT 1", 4300, "", 0, ERR_TOO_COMPLEX},
	    {"SELECT * FROM a", " JOIN a ON 1", 5000, "", 0, ERR_TOO_COMPLEX},
	    {"SELECT a.b", ",a.b", 8000, " FROM abs(1) z, x, y, v, u, t, s", 1, 0},
	    {"SELECT 1", ";SELECT 1", 7000, "", 0, ERR_TOO_COMPLEX},
	    {"SELECT * FROM t WHERE id IN (1", ",1", 30000, ")", 1, 0},
	    {"INSERT INTO t VALUES (1)", ",(1)", 15000, "", 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct facts_sql_view view = {0};
		struct err err = {0};
		int rc = repeated(
		    t[i].prefix, t[i].piece, t[i].count, t[i].then, t[i].thens, &view, &err);

		if (rc != t[i].rc)
			fail_msg("%s%s * %zu: %s %s", t[i].prefix, t[i].piece, t[i].count,
			    err_name(rc), err.msg);
	}
}

static void
thirty_levels_of_with_are_read(void **state)
{
	struct facts_sql_view view = {0};
	struct err err = {0};

	(void)state;
	assert_int_equal(
	    repeated("", "WITH a AS (", 30, "SELECT 1) SELECT 1", 1, &view, &err), ERR_SYNTAX);
	assert_int_equal(repeated("", "WITH a AS (", 30,
			     "SELECT 1) SELECT 1) SELECT 1) SELECT 1) SELECT 1) SELECT 1) SELECT "
			     "1) SELECT 1) SELECT 1)"
			     " SELECT 1) SELECT 1) SELECT 1) SELECT 1) SELECT 1) SELECT 1) SELECT "
			     "1) SELECT 1) SELECT 1)"
			     " SELECT 1) SELECT 1) SELECT 1) SELECT 1) SELECT 1) SELECT 1) SELECT "
			     "1) SELECT 1) SELECT 1)"
			     " SELECT 1) SELECT 1) SELECT 1) SELECT 1",
			     1, &view, &err),
	    0);
	assert_int_equal(view.effects, EFFECT_read);
}

static void
facts_over_their_bounds_are_too_complex(void **state)
{
	AUTO_BUF struct buf sql = BUF(1 << 16);
	struct facts_sql_view view = {0};
	struct err err = {0};

	(void)state;
	buf_put_z(&sql, "SELECT * FROM t0");
	for (int i = 1; i < FACTS_RELATIONS_MAX; i++)
		buf_printf(&sql, ", t%d", i);
	assert_int_equal(view_of(buf_str(&sql), &view, &err), 0);
	buf_put_z(&sql, ", one_more");
	assert_int_equal(view_of(buf_str(&sql), &view, &err), ERR_TOO_COMPLEX);
	assert_non_null(strstr(err.msg, "65 relations, limit 64"));
	buf_reset(&sql);
	buf_put_z(&sql, "SELECT 1");
	for (int i = 0; i < 2000; i++)
		buf_printf(&sql, ", function_%d()", i);
	assert_int_equal(view_of(buf_str(&sql), &view, &err), ERR_TOO_COMPLEX);
}

static void
a_setting_with_an_endless_name_is_not_understood(void **state)
{
	struct facts_sql_view view = {0};
	struct err err = {0};

	(void)state;
	assert_int_equal(repeated("SET a", ".a2345678", 60, " = 1", 1, &view, &err), 0);
	assert_int_equal(view.effects, EFFECT_opaque);
	assert_int_equal(repeated("SET a", ".a2345678", 6, " = 1", 1, &view, &err), 0);
	assert_int_equal(view.effects, EFFECT_session);
}

static void
the_largest_text_passes_and_one_byte_more_does_not(void **state)
{
	AUTO_BUF struct buf sql = BUF(FACTS_SQL_MAX + 1);
	struct facts_sql_view view = {0};
	struct err err = {0};

	(void)state;
	buf_put_z(&sql, "SELECT 1");
	while (sql.n < FACTS_SQL_MAX)
		buf_put_c(&sql, ' ');
	assert_int_equal(view_of(buf_str(&sql), &view, &err), 0);
	buf_put_c(&sql, ' ');
	assert_int_equal(view_of(buf_str(&sql), &view, &err), ERR_TOO_COMPLEX);
	assert_non_null(strstr(err.msg, "65537 bytes, limit 65536"));
}

static void
bytes_that_server_and_parser_could_read_differently_are_refused(void **state)
{
	struct facts_sql_view view = {0};
	struct err err = {0};

	(void)state;
	/* client_encoding SJIS: 0x83 0x5c is one character there, so the string would end later */
	assert_int_equal(
	    view_of(STR("SELECT E'\x83\\'; DELETE FROM users WHERE id = 1; --'"), &view, &err),
	    ERR_SYNTAX);
	assert_int_equal(view_of(STR("SELECT 1\0; DROP TABLE t"), &view, &err), ERR_SYNTAX);
	assert_int_equal(view_of(STR("SELECT '\xed\xa0\x80'"), &view, &err), ERR_SYNTAX);
	assert_int_equal(
	    view_of(STR("SELECT '\xc3\xa4', \"\xc3\xa4\" FROM \xc3\xa4"), &view, &err), 0);
	/* The scan for comments must not be led astray by quotes. */
	assert_int_equal(
	    view_of(STR("SELECT '/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*'"), &view, &err), 0);
	assert_int_equal(
	    view_of(STR("SELECT E'\\'/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*'"), &view, &err), 0);
	assert_int_equal(
	    view_of(STR("SELECT $x$/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*$x$"), &view, &err), 0);
	assert_int_equal(
	    view_of(STR("SELECT \"/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*\""), &view, &err), 0);
	assert_int_equal(
	    view_of(STR("SELECT 1 --/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*"), &view, &err), 0);
}

static void
a_syntax_error_says_what_and_where(void **state)
{
	struct facts_sql_view view = {0};
	struct err err = {0};

	(void)state;
	assert_int_equal(view_of(STR("DELETE FROM users WHERE"), &view, &err), ERR_SYNTAX);
	assert_string_equal(err.msg, "syntax error at end of input, at character 24");
}

static void
a_change_of_one_table_has_a_query_that_counts_its_rows(void **state UNUSED)
{
	static const struct {
		const char *sql, *count; /* NULL: there is none */
	} t[] = {
	    {"DELETE FROM users WHERE id = 42", "SELECT 1 FROM users WHERE id = 42"},
	    {"delete from ONLY public.users u where u.id = $2 -- x",
		"SELECT 1 FROM ONLY public.users u WHERE u.id = $2"},
	    {"UPDATE users SET name = 'x' WHERE a < 3 OR b IN (SELECT id FROM c)",
		"SELECT 1 FROM users WHERE a < 3 OR b IN (SELECT id FROM c)"},
	    {"DELETE FROM users", "SELECT 1 FROM users"},
	    {"DELETE FROM users WHERE name = ';DROP TABLE users--' RETURNING *",
		"SELECT 1 FROM users WHERE name = ';DROP TABLE users--'"},
	    {"DELETE FROM users USING other WHERE users.id = other.id", NULL},
	    {"UPDATE users SET a = o.a FROM o WHERE users.id = o.id", NULL},
	    {"WITH x AS (SELECT 1) DELETE FROM users WHERE id IN (SELECT * FROM x)", NULL},
	    {"DELETE FROM users WHERE CURRENT OF c", NULL},
	    {"DELETE FROM users; DELETE FROM users", NULL},
	    {"EXPLAIN DELETE FROM users", NULL},
	    {"SELECT 1 FROM users", NULL},
	    {"INSERT INTO users VALUES (1)", NULL},
	    {"TRUNCATE users", NULL},
	    {"", NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		AUTO_BUF struct buf made = BUF(FACTS_JSON_MAX);
		AUTO(json) struct json_doc *doc = NULL;
		int rc = facts_sql_count(str_z(t[i].sql), &made, NULL);

		if ((rc == 0) != (t[i].count != NULL))
			fail_msg("%s: %.*s", t[i].sql, STR_ARG(buf_str(&made)));
		if (rc != 0)
			continue;
		assert_int_equal(json_parse(buf_str(&made), "count", &doc, NULL), 0);
		if (!str_eqz(json_str(json_get(json_root(doc), "count")), t[i].count))
			fail_msg("%s: %.*s", t[i].sql, STR_ARG(buf_str(&made)));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_change_of_one_table_has_a_query_that_counts_its_rows),
	    cmocka_unit_test(every_statement_of_the_table_has_its_effects_and_class),
	    cmocka_unit_test(facts_name_marks_relations_and_tags),
	    cmocka_unit_test(a_relation_is_seen_wherever_and_however_it_is_named),
	    cmocka_unit_test(a_with_name_hides_a_relation_only_where_the_server_says_so),
	    cmocka_unit_test(views_tell_what_core_must_know_beside_effects),
	    cmocka_unit_test(what_cannot_run_inside_a_transaction_block_is_told),
	    cmocka_unit_test(a_tree_that_the_walk_does_not_know_is_opaque),
	    cmocka_unit_test(rows_that_no_command_tag_counts_are_told),
	    cmocka_unit_test(texts_that_would_stall_or_crash_the_parser_are_too_complex),
	    cmocka_unit_test(thirty_levels_of_with_are_read),
	    cmocka_unit_test(facts_over_their_bounds_are_too_complex),
	    cmocka_unit_test(a_setting_with_an_endless_name_is_not_understood),
	    cmocka_unit_test(the_largest_text_passes_and_one_byte_more_does_not),
	    cmocka_unit_test(bytes_that_server_and_parser_could_read_differently_are_refused),
	    cmocka_unit_test(a_syntax_error_says_what_and_where),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
