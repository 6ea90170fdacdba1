/* Shared by the tests of GraphQL: from a body or a query string to effects, as core goes. */
#ifndef TESTS_UNIT_GRAPHQL_HELP_H
#define TESTS_UNIT_GRAPHQL_HELP_H

#include "tests/unit/policy_help.h"

#include "common/jcs.h"
#include "common/xalloc.h"
#include "policy/effects_http.h"
#include "policy/facts.h"

#define REGISTERED "query A{viewer{login}} mutation B{volumeDelete(id:1){ok}}"
#define OTHER_HASH "0000000000000000000000000000000000000000000000000000000000000000"

static struct policy *policy;
static const struct policy_target *target;
static char registered_hash[HASH_HEX_SIZE];

UNUSED static int
graphql_policy_read(void **state UNUSED)
{
	struct hash h = hash_sha256(STR(REGISTERED));
	AUTO_FREE char *text = NULL;

	hash_hex(&h, registered_hash);
	text =
	    xasprintf("{\"schema\":\"cofferdam-policy/"
		      "1\",\"policy\":\"t\",\"serial\":1,\"clock\":\"trusted\","
		      "\"targets\":{\"api\":{\"kind\":\"http\",\"env\":\"prod\",\"origin\":\"https:"
		      "//a.test\","
		      "\"graphql\":{\"effects\":{\"mutation.purgeCache\":[\"write\"],"
		      "\"mutation.tokenList\":[\"read\"],\"query.variables\":[\"secret\"]},"
		      "\"persisted\":{\"%s\":\"" REGISTERED "\"}}}},"
		      "\"rules\":[{\"id\":\"r\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}}]}",
		registered_hash);
	policy = help_policy(text);
	target = policy_target(policy, STR("api"));
	return 0;
}

UNUSED static int
graphql_policy_free(void **state UNUSED)
{
	policy_free(policy);
	return 0;
}

/* As core does with what the parser answers. */
UNUSED static struct http_view
view_of_facts(int rc, const struct buf *facts, bool by_query, const struct err *err)
{
	struct http_view v = {.effects = EFFECT_write | EFFECT_opaque,
	    .api = HTTP_API_GRAPHQL,
	    .body_wanted = !by_query,
	    .query_wanted = by_query,
	    .statements = 1};
	AUTO(json) struct json_doc *doc = NULL;

	if (rc != 0) {
		assert_true(rc == ERR_SYNTAX || rc == ERR_TOO_COMPLEX);
		assert_int_equal(rc, err->code);
		assert_true(err->msg[0] != '\0' && facts->n == 0);
		effects_http_body_fault("malformed", &v);
		return v;
	}
	assert_true(jcs_is_canonical(buf_str(facts), NULL));
	assert_int_equal(json_parse(buf_str(facts), "facts", &doc, NULL), 0);
	effects_http_body(target, HTTP_API_GRAPHQL, json_root(doc), &v);
	return v;
}

UNUSED static struct http_view
by_body(const char *type, struct str body)
{
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	struct err err = {0};
	int rc = facts_graphql_body(str_z(type), body, &facts, &err);

	return view_of_facts(rc, &facts, false, &err);
}

UNUSED static struct http_view
by_query(const char *query)
{
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	struct err err = {0};
	int rc = facts_graphql_query(str_z(query), &facts, &err);

	return view_of_facts(rc, &facts, true, &err);
}

UNUSED static void
assert_view(struct http_view v, const char *what, const char *want)
{
	AUTO_BUF struct buf got = BUF(256);

	effect_put(&got, v.effects);
	if (!str_eqz(buf_str(&got), want))
		fail_msg("%s: \"%.*s\", wanted \"%s\" (%s)", what, STR_ARG(buf_str(&got)), want,
		    v.fault != NULL ? v.fault : "no fault");
}

#define JSON "application/json"

UNUSED static void
assert_json(const char *body, const char *want)
{
	assert_view(by_body(JSON, str_z(body)), body, want);
}

UNUSED static void
assert_text(const char *document, const char *want)
{
	assert_view(by_body("application/graphql", str_z(document)), document, want);
}

UNUSED static void
assert_query(const char *query, const char *want)
{
	assert_view(by_query(query), query, want);
}

struct row {
	const char *text, *effects;
};

UNUSED static void
assert_texts(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_text(rows[i].text, rows[i].effects);
}

#endif
