/*
 * What a server shows (policy/look.h): as an ETag, an object, a list of refs, a DeleteOptions.
 * Whatever is made of it is of the plain form that statements and requests need.
 */
#include <assert.h>

#include "common/json.h"
#include "policy/look.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
object(struct str bytes)
{
	AUTO_BUF struct buf uid = BUF(LOOK_WORD_MAX), version = BUF(LOOK_WORD_MAX);
	AUTO_BUF struct buf out = BUF(4096);
	AUTO(json) struct json_doc *doc = NULL;
	struct err err;

	if (look_k8s(bytes, &uid, &version, &err) != 0)
		return;
	assert(str_is_ascii_print(buf_str(&uid)) && str_is_ascii_print(buf_str(&version)));
	assert(look_k8s_bind(STR("{}"), buf_str(&uid), buf_str(&version), &out, &err) == 0);
	assert(json_parse(buf_str(&out), "out", &doc, &err) == 0);
}

/* What is added is one member more: the rest is there still. */
static void
options(struct str bytes)
{
	AUTO_BUF struct buf out = BUF(bytes.n + 256);
	AUTO(json) struct json_doc *was = NULL, *is = NULL;
	struct err err;

	if (look_k8s_bind(bytes, STR("u"), STR("1"), &out, &err) != 0 || bytes.n == 0)
		return;
	assert(json_parse_numbers(bytes, "was", &was, &err) == 0);
	assert(json_parse_numbers(buf_str(&out), "is", &is, &err) == 0);
	assert(json_count(json_root(is)) == json_count(json_root(was)) + 1);
	assert(json_get(json_root(is), "preconditions") != NULL);
}

static void
refs(struct str bytes)
{
	static const char text[] = "[{\"new\":\"1\",\"old\":\"2\",\"ref\":\"refs/heads/main\"}]";
	AUTO(json) struct json_doc *doc = NULL;
	struct str ref;
	struct err err;

	assert(json_parse(str_z(text), "commands", &doc, &err) == 0);
	if (look_git(bytes, json_root(doc), &ref, &err) == 0)
		assert(str_eqz(ref, "refs/heads/main")); /* "2" is no id that a list may have */
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str bytes = str_mem(data, size);

	if (look_etag_is_strong(bytes))
		assert(str_is_ascii_print(bytes) && memchr(bytes.p, ' ', bytes.n) == NULL);
	(void)look_bound(bytes);
	object(bytes);
	options(bytes);
	refs(bytes);
	return 0;
}
