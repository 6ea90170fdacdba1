/*
 * Messages to MCP servers to effects. Linked into core and the command line; pure. What a tool does
 * is what the policy says of its name: a server's own annotations are its own claim, and a tool
 * that the policy does not name may do anything.
 */
#include "policy/effects_mcp.h"

#include "common/buf.h"
#include "common/hash.h"
#include "policy/webform.h"

#include "common/banned.h"

#define READ EFFECT_read

static void
doubt(struct http_view *v, const char *why)
{
	effects_http_doubt(v, EFFECT_opaque, why);
}

/* --- the head ---------------------------------------------------------------------------- */

/* "=?base64?...?=" is how a name that no field can hold is sent (MCP 2026-07-28, transports). */
static bool
claim_read(struct str value, char out[HTTP_CLAIM_MAX + 1])
{
	static const char *const open = "=?base64?";
	AUTO_BUF struct buf b = BUF(HTTP_CLAIM_MAX);
	struct str s = value;

	if (str_has_prefix(value, open) && str_has_suffix(value, "?=")) {
		s = str_mem(value.p + strlen(open), value.n - strlen(open) - 2);
		if (!enc_unbase64(s, &b))
			return false;
		s = buf_str(&b);
	}
	if (s.n == 0 || s.n > HTTP_CLAIM_MAX || memchr(s.p, '\0', s.n) != NULL)
		return false;
	memcpy(out, s.p, s.n);
	out[s.n] = '\0';
	return true;
}

static void
claims(const struct http_request *r, struct http_view *v)
{
	static const char *const names[2] = {"Mcp-Method", "Mcp-Name"};

	for (size_t k = 0; k < ARRAY_LEN(names); k++) {
		unsigned n = 0;

		for (size_t i = 0; i < r->nfields; i++) {
			if (!http_name_is(r->fields[i].name, names[k]))
				continue;
			n++;
			if (n > 1 || !claim_read(r->fields[i].value, v->claims[k]))
				doubt(v, "Mcp-Method or Mcp-Name twice, or of no known form");
		}
	}
}

void
effects_mcp(const struct http_request *r, struct http_view *v)
{
	const struct http_field *f = http_field_find(r->fields, r->nfields, "Content-Type");
	const struct http_field *code = http_field_find(r->fields, r->nfields, "Content-Encoding");
	struct media_type m = media_type_parse(f != NULL ? f->value : STR(""));
	bool body = r->body != HTTP_BODY_NONE && !(r->body == HTTP_BODY_LENGTH && r->length == 0);

	v->effects = EFFECT_opaque;
	if (str_eqz(r->method, "GET") && !body) {
		v->effects = READ; /* what the server has to say */
	} else if (str_eqz(r->method, "DELETE") && !body) {
		v->effects = EFFECT_txn; /* the end of the client's own session */
	} else if (!str_eqz(r->method, "POST") || !body) {
		doubt(v, "it is no message of MCP");
	} else if (m.odd || m.media != MEDIA_JSON ||
		   (code != NULL && !str_ieqz(code->value, "identity"))) {
		doubt(v, "a message that is no plain JSON");
	} else {
		claims(r, v);
		if (v->fault != NULL)
			return;
		v->api = HTTP_API_MCP;
		v->body_wanted = v->anew = true;
	}
}

/* --- the message ------------------------------------------------------------------------- */

static const struct {
	const char *method, *kind; /* kind: of what its name names; NULL: nothing */
} reads[] = {
    {"completion/complete", NULL},
    {"initialize", NULL},
    {"logging/setLevel", NULL},
    {"notifications/cancelled", NULL},
    {"notifications/initialized", NULL},
    {"notifications/progress", NULL},
    {"notifications/roots/list_changed", NULL},
    {"ping", NULL},
    {"prompts/get", "prompt/"},
    {"prompts/list", NULL},
    {"resources/list", NULL},
    {"resources/read", "resource/"},
    {"resources/subscribe", "resource/"},
    {"resources/templates/list", NULL},
    {"resources/unsubscribe", "resource/"},
    {"server/discover", NULL},
    {"tasks/get", NULL},
    {"tasks/list", NULL},
    {"tasks/result", NULL},
    {"tools/list", NULL},
};

static bool
facts_valid(const struct json *facts, const struct json *m)
{
	return json_type(facts) == JSON_OBJECT && json_count(facts) == 1 && json_count(m) == 2 &&
	       json_type(json_get(m, "method")) == JSON_STRING &&
	       json_type(json_get(m, "name")) == JSON_STRING;
}

static void
judge_tool(const struct policy_target *t, struct str name, struct http_view *v)
{
	RESOURCES_ADD(&v->resources, STR("tool/"), name);
	for (size_t i = 0; i < t->ntools; i++) {
		if (!str_eq(t->tools[i].name, name))
			continue;
		v->effects |= t->tools[i].effects;
		return;
	}
	doubt(v, "a tool of which the policy does not say what it does");
}

static bool
agrees(const char *claim, struct str said)
{
	return claim[0] == '\0' || str_eqz(said, claim);
}

void
effects_mcp_message(const struct policy_target *t, const struct json *facts, struct http_view *v)
{
	const struct json *m = json_get(facts, "mcp");
	struct str method = json_str(json_get(m, "method")), name = json_str(json_get(m, "name"));

	v->effects &= ~(uint32_t)EFFECT_opaque;
	if (!facts_valid(facts, m)) {
		doubt(v, "what it asks for was not told in a form that is known");
		return;
	}
	if (!agrees(v->claims[0], method) || !agrees(v->claims[1], name))
		doubt(v, "Mcp-Method or Mcp-Name say something else than the message");
	if (str_eqz(method, "tools/call")) {
		judge_tool(t, name, v);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(reads); i++) {
		if (!str_eqz(method, reads[i].method))
			continue;
		v->effects |= READ;
		if (reads[i].kind != NULL)
			RESOURCES_ADD(&v->resources, str_z(reads[i].kind), name);
		return;
	}
	doubt(v, method.n == 0 ? "an answer to the server, which may have asked for anything"
			       : "a method that is not known");
}
