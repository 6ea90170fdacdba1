/*
 * Any bytes as a GraphQL request: a query string, a JSON body, a document. Facts come out canonical
 * and within bounds and are in the form that core reads, or the request is refused. The first byte
 * says which way it came.
 */
#include <assert.h>

#include "common/jcs.h"
#include "policy/effects_http.h"
#include "policy/facts.h"
#include "policy/graphql.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

DEFINE_AUTO(arena, struct arena, arena_free)

/* What was accepted as a whole is accepted with a comment behind it, and means the same. */
static void
check_document(struct str text)
{
	AUTO(arena) struct arena *a = arena_new(2 * GRAPHQL_ARENA_MAX);
	AUTO_BUF struct buf more = BUF(text.n + 64);
	struct graphql_doc *d, *e;
	struct graphql_op op, again;
	int rc;

	buf_put_str(&more, text);
	buf_put_z(&more, "\r#}{mutation{x}");
	if (graphql_parse(a, text, &d, NULL) != 0)
		return;
	rc = graphql_parse(a, buf_str(&more), &e, NULL);
	assert(rc == 0);
	if (graphql_select(a, d, STR(""), &op, NULL) != 0)
		return;
	rc = graphql_select(a, e, STR(""), &again, NULL);
	assert(rc == 0 && op.type == again.type && op.nfields == again.nfields);
	assert(op.type != GRAPHQL_NONE && op.nfields + op.nnested != 0 && op.operations == 1);
	for (size_t i = 0; i < op.nfields; i++) {
		assert(str_eq(op.fields[i], again.fields[i]) && op.fields[i].n != 0);
		assert(i == 0 || str_cmp(op.fields[i - 1], op.fields[i]) < 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct str types[] = {{"application/json", 16}, {"application/graphql", 19},
	    {"application/x-www-form-urlencoded", 33}};
	static const struct policy_target target = {.kind = TARGET_HTTP};
	struct http_view v = {.effects = EFFECT_opaque, .api = HTTP_API_GRAPHQL};
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	struct err err = {0};
	struct str text;
	int rc;

	if (size == 0)
		return 0;
	text = str_mem(data + 1, size - 1);
	v.query_wanted = data[0] % 4 == 3;
	rc = v.query_wanted ? facts_graphql_query(text, &facts, &err)
			    : facts_graphql_body(types[data[0] % 4], text, &facts, &err);
	if (data[0] % 4 == 1)
		check_document(text);
	if (rc != 0) {
		assert(rc == ERR_SYNTAX || rc == ERR_TOO_COMPLEX);
		assert(facts.n == 0 && err.msg[0] != '\0');
		return 0;
	}
	assert(jcs_is_canonical(buf_str(&facts), &err));
	rc = json_parse(buf_str(&facts), "facts", &doc, &err);
	assert(rc == 0);
	effects_http_body(&target, HTTP_API_GRAPHQL, json_root(doc), &v);
	assert(v.effects != 0 && v.statements != 0 && (v.effects & EFFECT_invalid) == 0);
	assert(((v.effects & EFFECT_opaque) != 0) == (v.fault != NULL));
	assert(v.fault == NULL || strcmp(v.fault, "facts that are not in the form") != 0);
	return 0;
}
