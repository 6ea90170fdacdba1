/*
 * SQL text to facts: bounded by a scan, parsed by PostgreSQL's own parser (libpg_query), then
 * walked with an allow-list of node types. Runs in cofferdam-parser alone, on bytes that the
 * agent chose. It trusts nothing; libpg_query may crash on it, which ends this process only.
 * It must never call what it reads harmless: it leaves marks, and core knows what they mean.
 */
#include "policy/facts.h"

#include <pg_query.h>

#include "policy/facts_sql_internal.h"

#include "common/banned.h"

#define ARENA_MAX ((size_t)16 << 20)

static void
free_tree(cJSON *t)
{
	cJSON_Delete(t);
}

static void
free_parsed(PgQueryParseResult *r)
{
	pg_query_free_parse_result(*r);
}

DEFINE_AUTO(cjson, cJSON, free_tree)
DEFINE_AUTO(arena, struct arena, arena_free)

static void
walk_free(struct walk *w)
{
	names_free(&w->marks);
	names_free(&w->rel);
	names_free(&w->tag);
	names_free(&w->exec);
	names_free(&w->prep);
	names_free(&w->dealloc);
	names_free(&w->txn);
}

static void
put_names(struct jcs *j, const char *key, const struct names *names, bool always)
{
	if (names->n == 0 && !always)
		return;
	jcs_array(j, key);
	for (size_t i = 0; i < names->n; i++)
		jcs_str_lossy(j, NULL, names->v[i]);
	jcs_array_end(j);
}

static int
put_facts(struct walk *w, struct buf *ret_json, struct err *err)
{
	AUTO_BUF struct buf out = BUF(FACTS_JSON_MAX);
	struct jcs j;

	names_sort_unique(&w->marks);
	names_sort_unique(&w->rel);
	if (w->rel.n > FACTS_RELATIONS_MAX)
		return err_set(err, ERR_TOO_COMPLEX,
		    "statement too complex: names %zu relations, limit %d", w->rel.n,
		    FACTS_RELATIONS_MAX);
	jcs_init(&j, &out);
	jcs_open(&j, NULL);
	put_names(&j, "dealloc", &w->dealloc, false);
	jcs_int(&j, "dml", w->dml);
	put_names(&j, "exec", &w->exec, false);
	if (w->fence)
		jcs_bool(&j, "fence", true);
	put_names(&j, "marks", &w->marks, true);
	jcs_int(&j, "n", w->statements);
	put_names(&j, "prep", &w->prep, false);
	put_names(&j, "rel", &w->rel, true);
	put_names(&j, "tag", &w->tag, true);
	put_names(&j, "txn", &w->txn, false);
	jcs_close(&j);
	if (buf_over(&out))
		return err_set(err, ERR_TOO_COMPLEX,
		    "statement too complex: its facts are over %zu bytes", FACTS_JSON_MAX);
	buf_put_str(ret_json, buf_str(&out));
	return 0;
}

static int
parse_error(const PgQueryError *e, struct err *err)
{
	static const char *const exhausted[] = {"memory exhausted", "stack depth", "out of memory"};

	for (size_t i = 0; i < ARRAY_LEN(exhausted); i++)
		if (strstr(e->message, exhausted[i]) != NULL)
			return err_set(
			    err, ERR_TOO_COMPLEX, "statement too complex: %s", e->message);
	return err_set(err, ERR_SYNTAX, "%s, at character %d", e->message, e->cursorpos);
}

/* The tree of a text that the scan let through. */
static int
parse_tree(struct str sql, cJSON **ret, struct err *err)
{
	AUTO_FREE char *text = str_dup(sql);
	__attribute__((cleanup(free_parsed))) PgQueryParseResult parsed = pg_query_parse(text);
	const char *end = NULL;

	if (parsed.error != NULL)
		return parse_error(parsed.error, err);
	*ret = cJSON_ParseWithOpts(parsed.parse_tree, &end, true);
	if (*ret == NULL)
		return err_set(err, ERR_TOO_COMPLEX,
		    "statement too complex: its expressions are nested too deep");
	return 0;
}

int
facts_sql(struct str sql, struct buf *ret_json, struct err *err)
{
	AUTO(cjson) cJSON *tree = NULL;
	AUTO(arena) struct arena *arena = NULL;
	__attribute__((cleanup(walk_free))) struct walk w = {0};
	int rc;

	rc = sql_scan(sql, err);
	if (rc != 0)
		return rc;
	rc = parse_tree(sql, &tree, err);
	if (rc != 0)
		return rc;
	arena = arena_new(ARENA_MAX);
	w.arena = arena;
	walk_statements(&w, tree_get(tree, "stmts"));
	if (w.too_complex)
		return err_set(err, ERR_TOO_COMPLEX,
		    "statement too complex: nested deeper than %d, or more than %u look-ups of "
		    "names",
		    WALK_DEPTH_MAX, WALK_LOOKUPS_MAX);
	return put_facts(&w, ret_json, err);
}
