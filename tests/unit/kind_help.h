/*
 * Requests to targets of kinds k8s, git, aws and mcp, from a head and a body to effects, by the
 * readers that front, parser and core use.
 */
#ifndef TESTS_UNIT_KIND_HELP_H
#define TESTS_UNIT_KIND_HELP_H

#include "tests/unit/policy_help.h"

#include "common/xalloc.h"
#include "policy/effects_http.h"
#include "common/jcs.h"
#include "policy/facts.h"

static struct policy *kind_policy;

struct kind_row {
	const char *line, *fields, *body; /* body NULL: none */
	const char *effects, *names;	  /* names NULL: any; else separated by ' ' */
};

/* What the parser process does with a question of that dialect. */
static int
kind_facts(const struct http_view *v, const struct http_request *r, struct str body,
    struct buf *json, struct err *err)
{
	const struct http_field *f = http_field_find(r->fields, r->nfields, "Content-Type");
	struct str type = f != NULL ? f->value : STR("");

	switch (v->api) {
	case HTTP_API_K8S: return facts_k8s(type, body, json, err);
	case HTTP_API_GIT: return facts_git(body, json, err);
	case HTTP_API_AWS:
		return v->query_wanted ? facts_aws_query(r->query, json, err)
				       : facts_aws_body(type, body, json, err);
	case HTTP_API_MCP: return facts_mcp(body, json, err);
	case HTTP_API_NONE:
	case HTTP_API_GRAPHQL:
	case HTTP_API_FORM:
	case HTTP_API_MODEL: break;
	}
	fail_msg("api %s has no facts here", http_api_name(v->api));
	return -1;
}

static struct http_view
kind_view(const char *target, const char *line, const char *fields, struct str body, bool has_body)
{
	const struct policy_target *t = policy_target(kind_policy, str_z(target));
	AUTO_FREE char *host = str_dup(t->host);
	AUTO_FREE char *length =
	    has_body ? xasprintf("Content-Length: %zu\r\n", body.n) : xstrdup("");
	AUTO_FREE char *head = xasprintf("%s HTTP/1.1\r\nHost: %s%s\r\n%s%s\r\n", line,
	    t->wildcard ? "any." : "", host, fields != NULL ? fields : "", length);
	AUTO_FREE struct http_request *r = xcalloc(1, sizeof(*r));
	AUTO_BUF struct buf json = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	struct http_view v = {0};
	struct err err = {0};

	if (http_request_parse(str_z(head), r, &err) != 0) {
		effects_http_fault(http_method_claim(str_z(head)), &v);
		return v;
	}
	effects_http(t, r, &v);
	if (!v.body_wanted && !v.query_wanted)
		return v;
	if (kind_facts(&v, r, body, &json, &err) != 0) {
		effects_http_body_fault("no facts", &v);
		return v;
	}
	if (json_parse(buf_str(&json), "facts", &doc, &err) != 0)
		fail_msg("%s: %.*s", err.msg, STR_ARG(buf_str(&json)));
	assert_true(jcs_is_canonical(buf_str(&json), &err));
	effects_http_body(t, v.api, json_root(doc), &v);
	return v;
}

UNUSED static void
kind_assert(const char *target, const struct kind_row *w)
{
	struct http_view v = kind_view(target, w->line, w->fields,
	    w->body != NULL ? str_z(w->body) : STR(""), w->body != NULL);
	AUTO_BUF struct buf got = BUF(256), names = BUF(65536);
	struct str list[RESOURCES_MAX];
	size_t n = resources_list(&v.resources, list);

	effect_put(&got, v.effects);
	if (!str_eqz(buf_str(&got), w->effects))
		fail_msg("%s\n%s\n%s: \"%.*s\", wanted \"%s\" (%s)", w->line,
		    w->fields != NULL ? w->fields : "", w->body != NULL ? w->body : "(no body)",
		    STR_ARG(buf_str(&got)), w->effects, v.fault != NULL ? v.fault : "no fault");
	if ((v.effects & (EFFECT_opaque | EFFECT_invalid)) != 0 && v.fault == NULL)
		fail_msg("%s: nothing says why it is %s", w->line, w->effects);
	for (size_t i = 0; i < n; i++) {
		buf_put_z(&names, i != 0 ? " " : "");
		buf_put_str(&names, list[i]);
	}
	if (w->names != NULL && !str_eqz(buf_str(&names), w->names))
		fail_msg("%s: names \"%.*s\", wanted \"%s\"", w->line, STR_ARG(buf_str(&names)),
		    w->names);
}

#define KIND_ROWS(target, rows)                                 \
	do {                                                    \
		for (size_t i_ = 0; i_ < ARRAY_LEN(rows); i_++) \
			kind_assert((target), &(rows)[i_]);     \
	} while (0)

static const char kind_policy_text[] =
    "{\"schema\":\"cofferdam-policy/1\",\"policy\":\"t\",\"serial\":1,\"clock\":\"trusted\","
    "\"targets\":{"
    "\"k\":{\"kind\":\"k8s\",\"env\":\"prod\",\"origin\":\"https://k8s.test\"},"
    "\"some\":{\"kind\":\"k8s\",\"env\":\"prod\",\"origin\":\"https://some.test\","
    "\"namespaces\":[\"payments\",\"web\"],\"upgrade\":{\"SPDY/3.1\":[\"write\"]}},"
    "\"g\":{\"kind\":\"git\",\"env\":\"prod\",\"origin\":\"https://git.test\","
    "\"protected\":[\"refs/heads/main\",\"refs/tags/*\"],\"push_options\":[\"ticket=*\"]},"
    "\"agent\":{\"kind\":\"git\",\"env\":\"prod\",\"origin\":\"https://agent.test\","
    "\"refs\":\"refs/heads/agent/*\",\"repositories\":[\"/acme/*.git\"]},"
    "\"q\":{\"kind\":\"git\",\"env\":\"prod\",\"origin\":\"https://q.test\",\"quarantine\":true},"
    "\"a\":{\"kind\":\"aws\",\"env\":\"prod\",\"origin\":\"https://*.amazonaws.com\"},"
    "\"rds\":{\"kind\":\"aws\",\"env\":\"prod\",\"origin\":\"https://rds.eu-west-1.amazonaws.com\","
    "\"regions\":[\"eu-west-1\"],\"accounts\":[\"123456789012\"]},"
    "\"s3\":{\"kind\":\"aws\",\"env\":\"prod\",\"origin\":\"https://"
    "logs.s3.eu-west-1.amazonaws.com\"},"
    "\"own\":{\"kind\":\"aws\",\"env\":\"prod\",\"origin\":\"https://"
    "own.test\",\"services\":[\"s3\"]},"
    "\"two\":{\"kind\":\"aws\",\"env\":\"prod\",\"origin\":\"https://two.test\","
    "\"services\":[\"dynamodb\",\"kms\"]},"
    "\"m\":{\"kind\":\"mcp\",\"env\":\"prod\",\"origin\":\"https://mcp.test\","
    "\"tools\":{\"list_rows\":[\"read\"],\"drop_table\":[\"drop\",\"schema\"]}}},"
    "\"rules\":[{\"id\":\"r\",\"permit\":{\"effects\":{\"only\":[\"@data\"]}}}]}";

UNUSED static int
kind_setup(void **state UNUSED)
{
	kind_policy = help_policy(kind_policy_text);
	return 0;
}

UNUSED static int
kind_teardown(void **state UNUSED)
{
	policy_free(kind_policy);
	return 0;
}

#endif
