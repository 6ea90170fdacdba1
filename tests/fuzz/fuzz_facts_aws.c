/*
 * A Content-Type, a line feed, a body: as the body of a request to AWS. An action that is named
 * once more, anywhere, is never judged as the first.
 */
#include "tests/fuzz/kind_pieces.h"

#include "common/banned.h"

static const struct policy_target target = {.kind = TARGET_AWS};

static bool
view_of(struct str type, struct str body, struct http_view *ret)
{
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	struct err err = {0};

	*ret = (struct http_view){.effects = EFFECT_opaque,
	    .api = HTTP_API_AWS,
	    .body_wanted = true,
	    .anew = true,
	    .statements = 1};
	RESOURCES_ADD(&ret->resources, STR("rds:*/*"));
	pieces_strange(&target, HTTP_API_AWS, *ret);
	doc = pieces_facts(facts_aws_body(type, body, &facts, &err), &facts, &err);
	if (doc == NULL)
		return false;
	effects_http_body(&target, HTTP_API_AWS, json_root(doc), ret);
	assert(ret->effects != 0);
	return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str body = str_mem(data, size), type;
	AUTO_BUF struct buf more = BUF(size + 64), query = BUF(FACTS_JSON_MAX);
	static struct http_view v, other;
	struct err err = {0};

	json_free(pieces_facts(facts_aws_query(body, &query, &err), &query, &err));
	if (!str_cut(&body, '\n', &type) || !view_of(type, body, &v))
		return 0;
	if (v.effects == EFFECT_opaque || memmem(type.p, type.n, "json", 4) != NULL)
		return 0;
	buf_put_str(&more, body);
	buf_put_z(&more, "&Action=DescribeDBInstances");
	if (view_of(type, buf_str(&more), &other))
		assert((other.effects & EFFECT_opaque) != 0);
	return 0;
}
