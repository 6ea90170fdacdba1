/*
 * Any bytes as a form, with the Content-Type in front of a line feed: facts come out in the form
 * that core reads, or it is refused. A name is found whatever is put before and behind its pair.
 */
#include <assert.h>

#include "common/jcs.h"
#include "policy/effects_http.h"
#include "policy/effects_http_path.h"
#include "policy/facts.h"
#include "policy/webform.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
overrides(struct str type, struct str body, bool *ret)
{
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	struct http_view v = {.effects = EFFECT_write, .api = HTTP_API_FORM, .body_wanted = true};
	struct err err = {0};
	int rc = facts_form(type, body, &facts, &err);

	if (rc != 0) {
		assert(rc == ERR_SYNTAX || rc == ERR_TOO_COMPLEX);
		assert(facts.n == 0 && err.msg[0] != '\0');
		return false;
	}
	assert(jcs_is_canonical(buf_str(&facts), &err));
	rc = json_parse(buf_str(&facts), "facts", &doc, &err);
	assert(rc == 0);
	effects_http_body(NULL, HTTP_API_FORM, json_root(doc), &v);
	assert(v.effects == EFFECT_write || v.effects == (EFFECT_write | EFFECT_opaque));
	*ret = json_bool(json_get(json_root(doc), "override"));
	assert(*ret == (v.effects != EFFECT_write));
	return true;
}

/* What decodes strictly to a name that overrides is one. */
static void
check_name(struct str raw)
{
	AUTO_BUF struct buf plain = BUF(raw.n + 1);

	if (webform_decode(raw, &plain) && str_ieqz(buf_str(&plain), "_method"))
		assert(webform_overrides(raw));
}

static void
check_paths(struct str path)
{
	if (http_path_fault(path) == NULL) {
		assert(http_path_alike(path, path));
		(void)http_path_names_one(path);
		(void)http_path_is_graphql(path);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str body = str_mem(data, size), type = STR("");
	AUTO_BUF struct buf more = BUF(size + 64);
	bool found, again;

	(void)str_cut(&body, '\n', &type);
	check_name(body);
	check_paths(body);
	if (!overrides(type, body, &found))
		return 0;
	if (media_type_parse(type).media == MEDIA_MULTIPART)
		return 0;
	buf_put_z(&more, "a=1&");
	buf_put_str(&more, body);
	buf_put_z(&more, "&b");
	if (overrides(type, buf_str(&more), &again))
		assert(found == again);
	return 0;
}
