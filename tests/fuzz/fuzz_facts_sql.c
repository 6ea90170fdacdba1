/*
 * Any bytes as a SQL text: facts come out canonical and within bounds, effects are never empty,
 * or the text is refused. Crashes of libpg_query itself end only the parser process, but they
 * are found here all the same.
 */
#include <assert.h>

#include "common/jcs.h"
#include "policy/facts.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What counts the rows of a change is itself one statement that reads, whatever the change was. */
static void
counts(struct str sql)
{
	AUTO_BUF struct buf made = BUF(FACTS_JSON_MAX);
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	struct str query;

	if (facts_sql_count(sql, &made, NULL) != 0)
		return;
	if (json_parse(buf_str(&made), "count", &doc, NULL) != 0)
		abort();
	query = json_str(json_get(json_root(doc), "count"));
	assert(str_has_prefix(query, "SELECT 1 FROM "));
	assert(facts_sql(query, &facts, NULL) != ERR_SYNTAX);
	assert(facts.n == 0 || memmem(facts.p, facts.n, "\"dml\":0", 7) != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	struct facts_sql_view view = {0};
	struct err err = {0};
	int rc = facts_sql(str_mem(data, size), &facts, &err);

	counts(str_mem(data, size));
	if (rc != 0) {
		assert(rc == ERR_SYNTAX || rc == ERR_TOO_COMPLEX);
		assert(facts.n == 0 && err.msg[0] != '\0');
		return 0;
	}
	assert(jcs_is_canonical(buf_str(&facts), &err));
	rc = json_parse(buf_str(&facts), "facts", &doc, &err);
	assert(rc == 0);
	effects_sql(json_root(doc), &view);
	assert(view.effects != 0 && view.statements > 0);
	assert((view.effects & EFFECT_invalid) == 0);
	assert(!view.txn_only || (view.effects & ~(uint32_t)EFFECT_txn) == 0);
	return 0;
}
