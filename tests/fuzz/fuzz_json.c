/*
 * Fuzzes the strict JSON reader and the canonical form: what is accepted must have one
 * canonical form, which reads back to itself; cJSON must agree with our scan (asserted in
 * json.c), and every value must have a place in the text.
 */
#include <assert.h>

#include "common/jcs.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
walk(const struct json_doc *d, const struct json *v)
{
	unsigned line, col;

	json_where(d, v, &line, &col);
	assert(line >= 1 && col >= 1);
	assert(str_is_utf8(json_str(v)));
	for (size_t i = 0; i < json_count(v); i++) {
		struct str key = json_key(v, i);
		AUTO_FREE char *z = str_dup(key);

		if (json_type(v) == JSON_OBJECT)
			assert(json_get(v, z) == json_at(v, i));
		walk(d, json_at(v, i));
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(json) struct json_doc *d = NULL, *again = NULL, *numbers = NULL;
	AUTO_BUF struct buf once = BUF(1 << 20);
	AUTO_BUF struct buf twice = BUF(1 << 20);
	struct err e = {0};
	struct jcs j;

	(void)json_parse_numbers(str_mem(data, size), "fuzz", &numbers, NULL);
	if (json_parse(str_mem(data, size), "fuzz", &d, &e) != 0) {
		assert(e.code < 0 && str_has_prefix(str_z(e.msg), "fuzz:"));
		assert(!jcs_is_canonical(str_mem(data, size), NULL));
		return 0;
	}
	assert(numbers != NULL);
	if (size < 2000)
		walk(d, json_root(d));
	jcs_init(&j, &once);
	if (jcs_value(&j, NULL, json_root(d), &e) != 0) {
		assert(once.n == 0);
		return 0;
	}
	assert(!buf_over(&once));
	assert(json_parse(buf_str(&once), "fuzz", &again, NULL) == 0);
	jcs_init(&j, &twice);
	assert(jcs_value(&j, NULL, json_root(again), NULL) == 0);
	assert(str_eq(buf_str(&once), buf_str(&twice)));
	assert(jcs_is_canonical(buf_str(&once), NULL));
	assert(jcs_is_canonical(str_mem(data, size), NULL) ==
	       str_eq(str_mem(data, size), buf_str(&once)));
	return 0;
}
