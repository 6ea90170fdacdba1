/*
 * "METHOD PATH?QUERY", a line feed, a body: as a request to the Kubernetes API. Whatever it is, it
 * has an effect; what is added to a query besides dryRun, or stands behind a refused body, never
 * makes it less.
 */
#include "tests/fuzz/kind_pieces.h"

#include "policy/effects_http_path.h"
#include "policy/effects_k8s_path.h"

#include "common/banned.h"

static bool
view_of(struct str line, struct str body, struct http_view *ret)
{
	static const struct policy_target target = {.kind = TARGET_K8S};
	static struct http_request r;
	AUTO_BUF struct buf head = BUF(HTTP_HEAD_MAX), facts = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	struct err err = {0};

	buf_put_str(&head, line);
	buf_printf(&head, " HTTP/1.1\r\nHost: k8s.test\r\nContent-Type: application/json\r\n");
	if (body.n != 0)
		buf_printf(&head, "Content-Length: %zu\r\n", body.n);
	buf_put_z(&head, "\r\n");
	if (buf_over(&head) || http_request_parse(buf_str(&head), &r, NULL) != 0)
		return false;
	effects_http(&target, &r, ret);
	assert(ret->effects != 0);
	if ((ret->effects & (EFFECT_opaque | EFFECT_invalid)) != 0)
		assert(ret->fault != NULL);
	if (!ret->body_wanted)
		return true;
	pieces_strange(&target, HTTP_API_K8S, *ret);
	doc = pieces_facts(facts_k8s(STR("application/json"), body, &facts, &err), &facts, &err);
	if (doc != NULL)
		effects_http_body(&target, HTTP_API_K8S, json_root(doc), ret);
	else
		effects_http_body_fault("refused", ret);
	assert(ret->effects != 0);
	return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str body = str_mem(data, size), line;
	AUTO_BUF struct buf more = BUF(size + 64);
	static struct http_view v, other;

	if (!str_cut(&body, '\n', &line) || !view_of(line, body, &v))
		return 0;
	buf_put_str(&more, line);
	buf_put_z(&more, memchr(line.p, '?', line.n) != NULL ? "&dryRun=" : "?dryRun=");
	if (view_of(buf_str(&more), body, &other))
		assert((other.effects & EFFECT_invalid) != 0 || (v.effects & ~other.effects) == 0 ||
		       v.effects == EFFECT_read);
	return 0;
}
