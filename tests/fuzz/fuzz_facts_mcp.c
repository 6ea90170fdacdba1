/* Any bytes as a message to an MCP server: a method and a name come out, or it is refused. */
#include "tests/fuzz/kind_pieces.h"

#include "common/banned.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct policy_target target = {.kind = TARGET_MCP};
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	struct http_view v = {.effects = EFFECT_opaque, .api = HTTP_API_MCP, .statements = 1};
	struct err err = {0};

	pieces_strange(&target, HTTP_API_MCP, v);
	doc = pieces_facts(facts_mcp(str_mem(data, size), &facts, &err), &facts, &err);
	if (doc == NULL)
		return 0;
	effects_http_body(&target, HTTP_API_MCP, json_root(doc), &v);
	assert(v.effects == EFFECT_read || (v.effects & EFFECT_opaque) != 0);
	return 0;
}
