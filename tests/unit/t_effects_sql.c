/*
 * Facts to effects, and start-up parameters: the tables are in order, what is not in them is
 * opaque, and facts that are not of the closed form (a parser taken over may send any) are too.
 */
#include "policy/facts.h"

#include <stdio.h>

#include "tests/unit/policy_help.h"

#include "common/banned.h"

static void
view_of_json(const char *text, struct facts_sql_view *view)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct err err = {0};

	if (json_parse(str_z(text), "facts", &doc, &err) != 0)
		fail_msg("%s", err.msg);
	effects_sql(json_root(doc), view);
}

static uint32_t
effects_of_mark(const char *mark)
{
	char text[512];
	struct facts_sql_view view = {0};

	(void)snprintf(text, sizeof(text),
	    "{\"dml\":0,\"marks\":[\"%s\"],\"n\":1,\"rel\":[],\"tag\":[\"X\"]}", mark);
	view_of_json(text, &view);
	return view.effects;
}

#define X(name, ...) name,
#define FN(name, effects) name,
#define EXT(name, effects)
#define NODE(type, tag, mark, fn) #type,
#define TYPED(parent, member, type, target)
static const char *const marks[] = {
#include "policy/sql_marks.tbl"
};
static const char *const functions[] = {
#include "policy/pg_func_effects.tbl"
};
static const char *const pure[] = {
#include "policy/pg_functions.tbl"
};
static const char *const operators[] = {
#include "policy/pg_operators.tbl"
};
static const char *const outnames[] = {
#include "policy/pg_outnames.tbl"
};
static const char *const secrets[] = {
#include "policy/pg_secret.tbl"
};
static const char *const settings[] = {
#include "policy/pg_settings.tbl"
};
static const char *const nodes[] = {
#include "policy/facts_sql_nodes.tbl"
};
#undef NODE
#undef TYPED
#define NODE(type, tag, mark, fn)
#define TYPED(parent, member, type, target) #parent " " #member,
static const char *const typed[] = {
#include "policy/facts_sql_nodes.tbl"
};
#undef NODE
#undef TYPED
#undef X
#undef FN
#undef EXT

static void
is_sorted(const char *what, const char *const *v, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (strcmp(v[i - 1], v[i]) >= 0)
			fail_msg("%s: %s must not stand before %s", what, v[i - 1], v[i]);
}

/* They are searched by halves. */
static void
every_table_is_sorted_and_without_twins(void **state)
{
	(void)state;
	is_sorted("sql_marks", marks, ARRAY_LEN(marks));
	is_sorted("pg_func_effects", functions, ARRAY_LEN(functions));
	is_sorted("pg_functions", pure, ARRAY_LEN(pure));
	is_sorted("pg_operators", operators, ARRAY_LEN(operators));
	is_sorted("pg_outnames", outnames, ARRAY_LEN(outnames));
	is_sorted("pg_secret", secrets, ARRAY_LEN(secrets));
	is_sorted("pg_settings", settings, ARRAY_LEN(settings));
	is_sorted("nodes", nodes, ARRAY_LEN(nodes));
	is_sorted("typed", typed, ARRAY_LEN(typed));
	assert_true(ARRAY_LEN(pure) > 2000);
}

/* A mark that the walk leaves and no table knows would only over-block, but it would be a bug. */
static void
every_mark_of_the_node_table_is_known(void **state)
{
	static const char *const left[] = {
#define NODE(type, tag, mark, fn) mark,
#define TYPED(parent, member, type, target)
#include "policy/facts_sql_nodes.tbl"
#undef NODE
#undef TYPED
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(left); i++) {
		bool known = left[i] == NULL;

		for (size_t k = 0; !known && k < ARRAY_LEN(marks); k++)
			known = strcmp(left[i], marks[k]) == 0;
		if (!known)
			fail_msg("%s: %s is in no table", nodes[i], left[i]);
	}
}

static void
what_no_table_knows_is_opaque(void **state)
{
	static const char *const unknown[] = {"", "x", "node:NewStmt",
	    "node:", "func:", "func:nope", "func:app.lower", "func:pg_catalog.nope",
	    "func:db.pg_catalog.lower", "func:\\\"pg_catalog.lower\\\"", "func:Lower",
	    "planfunc:nope", "planfunc:app.nope", "op:<=>", "op:app.=", "op:", "type:app.x",
	    "alter:nope", "SELECT", "select ", "selec", "delete",
	    "delete:", "delete:bounded:", "unknown:select"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(unknown); i++)
		if ((effects_of_mark(unknown[i]) & EFFECT_opaque) == 0)
			fail_msg("\"%s\" is not opaque", unknown[i]);
	/* The nearest known ones. */
	assert_int_equal(effects_of_mark("select"), EFFECT_read);
	assert_int_equal(effects_of_mark("delete:bounded"), EFFECT_delete);
}

/* Beside a SELECT, since a function alone is no statement. */
static uint32_t
beside_select(const char *mark)
{
	char two[256];

	(void)snprintf(two, sizeof(two), "%s\",\"select", mark);
	return effects_of_mark(two);
}

static void
known_functions_operators_and_types_add_what_the_tables_say(void **state)
{
	(void)state;
	assert_int_equal(beside_select("func:lower"), EFFECT_read);
	assert_int_equal(beside_select("func:pg_catalog.lower"), EFFECT_read);
	assert_int_equal(beside_select("func:information_schema._pg_expandarray"), EFFECT_read);
	assert_int_equal(beside_select("func:_pg_expandarray"), EFFECT_read | EFFECT_opaque);
	assert_int_equal(beside_select("func:pg_sleep"), EFFECT_read | EFFECT_disrupt);
	assert_int_equal(beside_select("planfunc:pg_sleep"), EFFECT_read);
	assert_int_equal(beside_select("planfunc:app.pg_sleep"), EFFECT_read | EFFECT_opaque);
	assert_int_equal(beside_select("func:app.pg_sleep"), EFFECT_read | EFFECT_opaque);
	assert_int_equal(beside_select("func:dblink_exec"), EFFECT_read | EFFECT_net);
	assert_int_equal(beside_select("func:ext.dblink"), EFFECT_read | EFFECT_net);
	assert_int_equal(beside_select("op:="), EFFECT_read);
	assert_int_equal(beside_select("op:pg_catalog.="), EFFECT_read);
	assert_int_equal(beside_select("type:public.mood"), EFFECT_read);
	assert_int_equal(beside_select("type:app.mood"), EFFECT_read | EFFECT_opaque);
}

static void
facts_out_of_form_are_opaque_and_never_an_error(void **state)
{
	static const char *const bad[] = {"[]", "1", "\"x\"", "{}",
	    "{\"marks\":[\"select\"],\"n\":1,\"rel\":[]}", "{\"dml\":0,\"n\":1,\"rel\":[]}",
	    "{\"dml\":0,\"marks\":[\"select\"],\"rel\":[]}",
	    "{\"dml\":0,\"marks\":[\"select\"],\"n\":1}",
	    "{\"dml\":0,\"marks\":\"select\",\"n\":1,\"rel\":[]}",
	    "{\"dml\":0,\"marks\":[1],\"n\":1,\"rel\":[]}",
	    "{\"dml\":0,\"marks\":[\"select\"],\"n\":-1,\"rel\":[]}",
	    "{\"dml\":0,\"marks\":[\"select\"],\"n\":65537,\"rel\":[]}",
	    "{\"dml\":0,\"marks\":[\"select\"],\"n\":\"1\",\"rel\":[]}",
	    "{\"dml\":0,\"marks\":[\"select\"],\"n\":1,\"rel\":{}}",
	    "{\"dml\":0,\"marks\":[\"select\"],\"n\":1,\"rel\":[true]}",
	    "{\"dml\":0,\"effects\":[\"read\"],\"marks\":[\"select\"],\"n\":1,\"rel\":[]}",
	    "{\"dml\":0,\"fence\":1,\"marks\":[\"select\"],\"n\":1,\"rel\":[]}",
	    "{\"dml\":0,\"marks\":[],\"n\":1,\"rel\":[]}",
	    "{\"dml\":0,\"marks\":[\"func:lower\"],\"n\":1,\"rel\":[]}"};
	struct facts_sql_view view = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		view = (struct facts_sql_view){.effects = EFFECT_read, .txn_only = true};
		view_of_json(bad[i], &view);
		if (view.effects != EFFECT_opaque || view.txn_only || view.statements == 0)
			fail_msg("%s: effects %x", bad[i], view.effects);
	}
	effects_sql(NULL, &view);
	assert_int_equal(view.effects, EFFECT_opaque);
	view_of_json("{\"dml\":0,\"marks\":[\"select\"],\"n\":1,\"rel\":[]}", &view);
	assert_int_equal(view.effects, EFFECT_read);
	view_of_json("{\"dml\":0,\"marks\":[],\"n\":0,\"rel\":[]}", &view);
	assert_int_equal(view.effects, EFFECT_read);
	assert_int_equal(view.statements, 1);
}

static void
relations_that_hold_credentials_are_secret_under_their_own_schema_only(void **state)
{
	static const struct {
		const char *rel;
		uint32_t effects;
	} t[] = {
	    {"pg_authid", EFFECT_read | EFFECT_secret},
	    {"pg_catalog.pg_shadow", EFFECT_read | EFFECT_secret},
	    {"public.pg_shadow", EFFECT_read},
	    {"pg_roles", EFFECT_read},
	    {"\\\"pg_catalog.pg_shadow\\\"", EFFECT_read},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		char text[256];
		struct facts_sql_view view = {0};

		(void)snprintf(text, sizeof(text),
		    "{\"dml\":0,\"marks\":[\"select\"],\"n\":1,\"rel\":[\"%s\"]}", t[i].rel);
		view_of_json(text, &view);
		if (view.effects != t[i].effects)
			fail_msg("%s: %x", t[i].rel, view.effects);
	}
}

static void
start_up_parameters_are_harmless_by_a_closed_list_only(void **state)
{
	static const struct {
		const char *key, *value;
		uint32_t effects;
	} t[] = {
	    {"application_name", "psql", EFFECT_read},
	    {"APPLICATION_NAME", "psql", EFFECT_read},
	    {"extra_float_digits", "2", EFFECT_read},
	    {"DateStyle", "ISO", EFFECT_read},
	    {"TimeZone", "Europe/London", EFFECT_read},
	    {"statement_timeout", "0", EFFECT_read},
	    {"client_encoding", "UTF8", EFFECT_read},
	    {"client_encoding", "utf-8", EFFECT_read},
	    {"client_encoding", "'utf-8'", EFFECT_read},
	    {"client_encoding", "UNICODE", EFFECT_read},
	    {"client_encoding", "SJIS", EFFECT_session},
	    {"client_encoding", "auto", EFFECT_session},
	    {"client_encoding", "", EFFECT_session},
	    {"client_encoding", "UTF8UTF8UTF8UTF8UTF8", EFFECT_session},
	    {"standard_conforming_strings", "on", EFFECT_read},
	    {"standard_conforming_strings", "off", EFFECT_session},
	    {"search_path", "evil,public", EFFECT_session},
	    {"default_transaction_read_only", "off", EFFECT_session},
	    {"role", "admin", EFFECT_session},
	    {"session_replication_role", "replica", EFFECT_session},
	    {"no_such_setting", "1", EFFECT_session},
	    {"_pq_.x", "1", EFFECT_session},
	    {"", "", EFFECT_session},
	    {"replication", "database", EFFECT_opaque},
	    {"replication", "false", EFFECT_opaque},
	    {"Replication", "true", EFFECT_opaque},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		if (effects_pg_startup(str_z(t[i].key), str_z(t[i].value)) != t[i].effects)
			fail_msg("%s=%s", t[i].key, t[i].value);
}

static void
start_up_options_are_read_word_by_word_as_the_server_does(void **state)
{
	static const struct {
		const char *value;
		uint32_t effects;
	} t[] = {
	    {"", EFFECT_read},
	    {"   ", EFFECT_read},
	    {"-c statement_timeout=0", EFFECT_read},
	    {"-cstatement_timeout=0", EFFECT_read},
	    {"--statement_timeout=0", EFFECT_read},
	    {"--statement-timeout=0", EFFECT_read},
	    {" -c  statement_timeout=0\t--lock-timeout=1 ", EFFECT_read},
	    {"-c application_name=a\\ b", EFFECT_read},
	    {"-c application_name=a\\\\", EFFECT_read},
	    {"-c client_encoding=utf8", EFFECT_read},
	    {"-c standard_conforming_strings=off", EFFECT_session},
	    {"-c search_path=evil,public", EFFECT_session},
	    {"-c statement_timeout=0 -c role=admin", EFFECT_session},
	    {"-c application_name=a b", EFFECT_session},
	    {"-c application_name=a\\ -c role=admin", EFFECT_session},
	    {"-c s\\tatement_timeout=0", EFFECT_read},
	    {"-c r\\ole=admin", EFFECT_session},
	    {"-\\c role=admin", EFFECT_session},
	    {"-c", EFFECT_session},
	    {"-c ", EFFECT_session},
	    {"-c statement_timeout", EFFECT_session},
	    {"--statement_timeout", EFFECT_session},
	    {"--", EFFECT_session},
	    {"-f s", EFFECT_session},
	    {"-e", EFFECT_session},
	    {"-ec statement_timeout=0", EFFECT_session},
	    {"x", EFFECT_session},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		if (effects_pg_startup(STR("options"), str_z(t[i].value)) != t[i].effects)
			fail_msg("options=%s", t[i].value);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_table_is_sorted_and_without_twins),
	    cmocka_unit_test(every_mark_of_the_node_table_is_known),
	    cmocka_unit_test(what_no_table_knows_is_opaque),
	    cmocka_unit_test(known_functions_operators_and_types_add_what_the_tables_say),
	    cmocka_unit_test(facts_out_of_form_are_opaque_and_never_an_error),
	    cmocka_unit_test(
		relations_that_hold_credentials_are_secret_under_their_own_schema_only),
	    cmocka_unit_test(start_up_parameters_are_harmless_by_a_closed_list_only),
	    cmocka_unit_test(start_up_options_are_read_word_by_word_as_the_server_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
