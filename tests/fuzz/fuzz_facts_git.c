/*
 * Any bytes as the start of a push: its commands come out, or it is refused; what stands behind
 * the pack's first bytes changes nothing, and no start that is cut before the end of its commands
 * is taken for a whole one.
 */
#include "tests/fuzz/kind_pieces.h"

#include "policy/effects_git.h"

#include "common/banned.h"

static struct json_doc *
read_facts(struct str bytes, struct buf *facts)
{
	struct err err = {0};

	return pieces_facts(facts_git(bytes, facts, &err), facts, &err);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct policy_target target = {.kind = TARGET_GIT};
	struct str bytes = str_mem(data, size);
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX), again = BUF(FACTS_JSON_MAX);
	AUTO_BUF struct buf more = BUF(size + 64);
	AUTO(json) struct json_doc *doc = read_facts(bytes, &facts), *other = NULL;
	struct http_view v = {.effects = EFFECT_opaque, .api = HTTP_API_GIT, .statements = 1};
	size_t end;

	RESOURCES_ADD(&v.resources, STR("r:*"));
	pieces_strange(&target, HTTP_API_GIT, v);
	if (doc == NULL)
		return 0;
	effects_http_body(&target, HTTP_API_GIT, json_root(doc), &v);
	assert(v.effects != 0);
	end = (size_t)json_int(json_get(json_get(json_root(doc), "git"), "end"));
	assert(end >= 4 && end <= size);
	buf_put(&more, data, end);
	buf_put_z(&more, "PACK and any bytes behind it");
	other = read_facts(buf_str(&more), &again);
	assert(other != NULL);
	/* But for what a pack says that was there, they are the same. */
	if (json_get(json_get(json_root(doc), "git"), "pack") == NULL)
		assert(str_eq(buf_str(&facts), buf_str(&again)));
	buf_reset(&again);
	json_free(other);
	other = read_facts(str_mem(data, end - 1), &again);
	assert(other == NULL);
	return 0;
}
