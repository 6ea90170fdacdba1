/*
 * Any bytes as commands of Redis: words come out, or it is refused; two that are taken are taken
 * one behind the other, and then do what both do.
 */
#include "tests/fuzz/kind_pieces.h"

#include "policy/effects_redis.h"

#include "common/banned.h"

static bool
judge(struct str bytes, struct redis_view *ret)
{
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	struct err err = {0};

	doc = pieces_facts(facts_redis(bytes, &facts, &err), &facts, &err);
	if (doc == NULL)
		return false;
	effects_redis(json_root(doc), ret);
	assert(ret->effects != 0 && ret->statements != 0);
	return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char del[] = "*2\r\n$3\r\nDEL\r\n$1\r\na\r\n";
	AUTO_BUF struct buf more = BUF(size + sizeof(del));
	struct redis_view v, both;

	if (!judge(str_mem(data, size), &v))
		return 0;
	buf_put(&more, data, size);
	buf_put_z(&more, del);
	if (judge(buf_str(&more), &both))
		assert(((v.effects | EFFECT_delete) & ~both.effects) == 0);
	return 0;
}
