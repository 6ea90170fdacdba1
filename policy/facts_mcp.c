/*
 * Messages to MCP servers to facts: JSON-RPC, one at a time. Runs in cofferdam-parser alone, on
 * bytes that the agent chose.
 */
#include "policy/facts.h"

#include "common/jcs.h"

#include "common/banned.h"

#define NAME_MAX_ ((size_t)1024)

static int
bad(struct err *err, const char *what)
{
	return err_set(err, ERR_SYNTAX, "mcp: %s", what);
}

/* What a method's name is of: a tool, a prompt, a resource. */
static struct str
name_of(struct str method, const struct json *params)
{
	const char *key = str_has_prefix(method, "resources/") ? "uri" : "name";

	return json_str(json_get(params, key));
}

int
facts_mcp(struct str body, struct buf *ret_json, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	const struct json *root, *method, *params;
	struct str name, said;
	struct jcs j;
	int rc;

	if (body.n > FACTS_MCP_MAX)
		return err_set(err, ERR_TOO_COMPLEX, "mcp: over %zu bytes", FACTS_MCP_MAX);
	rc = json_parse_numbers(body, "message", &doc, err);
	if (rc != 0)
		return rc;
	root = json_root(doc);
	method = json_get(root, "method");
	params = json_get(root, "params");
	if (json_type(root) != JSON_OBJECT || !str_eqz(json_str(json_get(root, "jsonrpc")), "2.0"))
		return bad(err, "no message of JSON-RPC 2.0, or more than one");
	if ((method != NULL && json_type(method) != JSON_STRING) ||
	    (params != NULL && json_type(params) != JSON_OBJECT))
		return bad(err, "a method that is no text, or parameters that are no object");
	if (method != NULL && (json_get(root, "result") != NULL || json_get(root, "error") != NULL))
		return bad(err, "a message that asks and answers");
	said = json_str(method);
	name = name_of(said, params);
	if (said.n > NAME_MAX_ || name.n > NAME_MAX_)
		return err_set(err, ERR_TOO_COMPLEX, "mcp: a name over %zu bytes", NAME_MAX_);
	jcs_init(&j, ret_json);
	jcs_open(&j, NULL);
	jcs_open(&j, "mcp");
	jcs_str(&j, "method", said);
	jcs_str(&j, "name", name);
	jcs_close(&j);
	jcs_close(&j);
	return 0;
}
