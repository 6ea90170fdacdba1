/*
 * Messages of the Model Context Protocol, read and written. Linked by cofferdam-mcp and by the
 * fixture of the conformance tests. Believes nothing: a message is of the form, or it is answered
 * with an error; nothing here knows what a method does.
 */
#include "agent/mcp_message.h"

#include <string.h>

#include "common/hash.h"
#include "common/jcs.h"

#include "common/banned.h"

unsigned
mcp_code_http(enum mcp_code code)
{
	return code == MCP_METHOD_NOT_FOUND ? 404 : code == MCP_INTERNAL ? 500 : 400;
}

void
mcp_message_free(struct mcp_message *m)
{
	json_free(m->doc);
	*m = (struct mcp_message){0};
}

/* --- values --------------------------------------------------------------------------- */

void
mcp_text_put(struct buf *out, struct str s)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_str_lossy(&j, NULL, s);
}

bool
mcp_value_put(struct buf *out, const struct json *v)
{
	bool ok = true;

	switch (json_type(v)) {
	case JSON_NULL: buf_put_z(out, "null"); break;
	case JSON_BOOL: buf_put_z(out, json_bool(v) ? "true" : "false"); break;
	case JSON_INT: buf_printf(out, "%lld", (long long)json_int(v)); break;
	case JSON_STRING: mcp_text_put(out, json_str(v)); break;
	case JSON_NUMBER: ok = false; break;
	case JSON_ARRAY:
	case JSON_OBJECT: /* the reader bounds the depth */
		buf_put_c(out, json_type(v) == JSON_ARRAY ? '[' : '{');
		for (size_t i = 0; i < json_count(v); i++) {
			if (i != 0)
				buf_put_c(out, ',');
			if (json_type(v) == JSON_OBJECT) {
				mcp_text_put(out, json_key(v, i));
				buf_put_c(out, ':');
			}
			ok = mcp_value_put(out, json_at(v, i)) && ok;
		}
		buf_put_c(out, json_type(v) == JSON_ARRAY ? ']' : '}');
		break;
	}
	return ok;
}

/* A string or an integer to its JSON text; false: it is neither, or too long. */
static bool
id_take(const struct json *v, char out[MCP_ID_MAX + 1])
{
	AUTO_BUF struct buf b = BUF(MCP_ID_MAX);

	if (json_type(v) != JSON_STRING && json_type(v) != JSON_INT)
		return false;
	(void)mcp_value_put(&b, v);
	if (buf_over(&b))
		return false;
	(void)memcpy(out, b.p, b.n);
	out[b.n] = '\0';
	return true;
}

/* --- reading -------------------------------------------------------------------------- */

static int
refuse(int code, struct err *err, const char *why)
{
	(void)err_set(err, ERR_INVALID, "%s", why);
	return code;
}

static void
meta_read(struct mcp_message *m)
{
	const struct json *v;

	m->meta = json_get(m->params, "_meta");
	(void)id_take(json_get(m->meta, "progressToken"), m->token);
	v = json_get(m->meta, MCP_META "protocolVersion");
	m->versioned = json_type(v) == JSON_STRING;
	m->version = json_str(v);
	v = json_get(m->meta, MCP_META "clientCapabilities");
	m->capabilities = json_type(v) == JSON_OBJECT ? v : NULL;
}

static int
response_read(struct mcp_message *m, const struct json *o, struct err *err)
{
	const struct json *error = json_get(o, "error");

	m->kind = MCP_RESPONSE;
	m->result = json_get(o, "result");
	if (m->id[0] == '\0' || (m->result == NULL) == (error == NULL))
		return refuse(
		    MCP_INVALID_REQUEST, err, "a response has an id, and a result or an error");
	return 0;
}

int
mcp_message_read(struct str text, struct mcp_message *ret, struct err *err)
{
	const struct json *o, *id;

	*ret = (struct mcp_message){.id = "null"};
	if (text.n > MCP_MESSAGE_MAX)
		return refuse(MCP_INVALID_REQUEST, err, "a message has at most 4 MiB");
	if (json_parse_numbers(text, "message", &ret->doc, err) != 0)
		return MCP_PARSE_ERROR;
	o = json_root(ret->doc);
	if (json_type(o) != JSON_OBJECT)
		return refuse(MCP_INVALID_REQUEST, err,
		    "a message is one JSON object; batches are not served");
	id = ret->id_value = json_get(o, "id");
	if (id == NULL)
		ret->id[0] = '\0';
	else if (!id_take(id, ret->id))
		return refuse(MCP_INVALID_REQUEST, err,
		    "id must be a string or an integer of up to 128 bytes");
	if (!str_eqz(json_str(json_get(o, "jsonrpc")), "2.0"))
		return refuse(MCP_INVALID_REQUEST, err, "jsonrpc must be \"2.0\"");
	if (json_get(o, "method") == NULL)
		return response_read(ret, o, err);
	ret->kind = id != NULL ? MCP_REQUEST : MCP_NOTIFICATION;
	ret->method = json_str(json_get(o, "method"));
	ret->params = json_get(o, "params");
	if (ret->method.n == 0)
		return refuse(MCP_INVALID_REQUEST, err, "method must be a string");
	if (ret->params != NULL && json_type(ret->params) != JSON_OBJECT)
		return refuse(MCP_INVALID_PARAMS, err, "params must be an object");
	meta_read(ret);
	return 0;
}

/* --- writing -------------------------------------------------------------------------- */

void
mcp_put_result(struct buf *out, const char *id, struct str result)
{
	buf_printf(out, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":", id);
	buf_put_str(out, result);
	buf_put_c(out, '}');
}

void
mcp_put_error(struct buf *out, const char *id, int code, const char *text, struct str data)
{
	buf_printf(
	    out, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%d,\"message\":", id, code);
	mcp_text_put(out, str_z(text));
	if (data.n != 0) {
		buf_put_z(out, ",\"data\":");
		buf_put_str(out, data);
	}
	buf_put_z(out, "}}");
}

void
mcp_put_notification(struct buf *out, const char *method, struct str params)
{
	buf_printf(out, "{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":", method);
	buf_put_str(out, params);
	buf_put_c(out, '}');
}

void
mcp_put_request(struct buf *out, const char *id, const char *method, struct str params)
{
	buf_printf(out, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"%s\",\"params\":", id, method);
	buf_put_str(out, params);
	buf_put_c(out, '}');
}

bool
mcp_header_value(struct str field, struct buf *ret)
{
	static const char begin[] = "=?base64?";
	size_t n = sizeof(begin) - 1;

	if (!str_has_prefix(field, begin) || !str_has_suffix(field, "?=") || field.n < n + 2) {
		buf_put_str(ret, field);
		return true;
	}
	return enc_unbase64(str_mem(field.p + n, field.n - n - 2), ret);
}
