/* What the fuzz targets of bodies share: facts come out whole and canonical, or not at all. */
#ifndef TESTS_FUZZ_KIND_PIECES_H
#define TESTS_FUZZ_KIND_PIECES_H

#include <assert.h>

#include "common/jcs.h"
#include "policy/effects_http.h"
#include "policy/facts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* rc of a facts_*(): NULL when it refused. The caller frees. */
UNUSED static struct json_doc *
pieces_facts(int rc, const struct buf *facts, const struct err *why)
{
	struct json_doc *doc = NULL;
	struct err err = {0};

	if (rc != 0) {
		assert(rc == ERR_SYNTAX || rc == ERR_TOO_COMPLEX || rc == ERR_TOO_LARGE);
		assert(facts->n == 0 && why->msg[0] != '\0');
		return NULL;
	}
	assert(facts->n != 0 && jcs_is_canonical(buf_str(facts), &err));
	rc = json_parse(buf_str(facts), "facts", &doc, &err);
	assert(rc == 0);
	return doc;
}

/* Facts that were not told in the closed form are never better than those that were. */
UNUSED static void
pieces_strange(const struct policy_target *t, enum http_api api, struct http_view v)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct err err = {0};
	int rc = json_parse(STR("{\"x\":1}"), "facts", &doc, &err);

	assert(rc == 0);
	v.api = api;
	effects_http_body(t, api, json_root(doc), &v);
	assert((v.effects & EFFECT_opaque) != 0 && v.fault != NULL);
}

#endif
