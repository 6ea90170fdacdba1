/*
 * One message of the Model Context Protocol: JSON-RPC 2.0 read strictly, and written. Pure: bytes
 * in, facts or bytes out. Two eras share it: requests that carry their protocol version in `_meta`
 * (2026-07-28, no session), and those behind an `initialize` (2025-11-25, 2025-06-18).
 */
#ifndef AGENT_MCP_MESSAGE_H
#define AGENT_MCP_MESSAGE_H

#include "common/buf.h"
#include "common/err.h"
#include "common/json.h"

#define MCP_MESSAGE_MAX ((size_t)4 << 20) /* bytes of one that comes in */
#define MCP_ID_MAX 128			  /* of an id or a progress token, as JSON */
#define MCP_MODERN_VERSION "2026-07-28"
#define MCP_META "io.modelcontextprotocol/"

/* JSON-RPC's codes and the protocol's own. */
enum mcp_code {
	MCP_PARSE_ERROR = -32700,
	MCP_INVALID_REQUEST = -32600,
	MCP_METHOD_NOT_FOUND = -32601,
	MCP_INVALID_PARAMS = -32602,
	MCP_INTERNAL = -32603,
	MCP_HEADER_MISMATCH = -32020,
	MCP_MISSING_CAPABILITY = -32021,
	MCP_UNSUPPORTED_VERSION = -32022,
};
/* What HTTP says beside it in the modern era. */
unsigned mcp_code_http(enum mcp_code code);

enum mcp_kind { MCP_REQUEST = 1, MCP_NOTIFICATION, MCP_RESPONSE };

/* All but id and token point into doc. */
struct mcp_message {
	enum mcp_kind kind;
	struct json_doc *doc;
	char id[MCP_ID_MAX + 1];    /* JSON text of a string or number; "": none */
	char token[MCP_ID_MAX + 1]; /* of _meta.progressToken; "": none */
	struct str method;
	const struct json *params, *meta, *id_value; /* NULL: none */
	const struct json *result;		     /* of a response; NULL: it is an error */
	bool versioned; /* _meta says a protocol version: the modern era */
	struct str version;
	const struct json *capabilities; /* of the client, of a modern request; NULL: none said */
};

/*
 * 0, or the code to answer with, and why in *err; ret->id is set whenever it could be told (else
 * it is "null"). Refused: what is no JSON object of the 2.0 form, batches, ids that are null, have
 * a fraction or are longer than MCP_ID_MAX, params that are no object, \u0000, nesting over
 * JSON_DEPTH_MAX. mcp_message_free in any case.
 */
int mcp_message_read(struct str text, struct mcp_message *ret, struct err *err);
void mcp_message_free(struct mcp_message *m);
#define AUTO_MESSAGE __attribute__((cleanup(mcp_message_free)))

/* Any JSON value as it was read, keys in their order; false: there is a number that nobody here can
 * say again. */
bool mcp_value_put(struct buf *out, const struct json *v);
/* "text" with escapes, bytes that are no UTF-8 replaced. */
void mcp_text_put(struct buf *out, struct str s);

/* `id`, `result`, `data`, `params` are JSON texts; data may be empty. */
void mcp_put_result(struct buf *out, const char *id, struct str result);
void mcp_put_error(struct buf *out, const char *id, int code, const char *text, struct str data);
void mcp_put_notification(struct buf *out, const char *method, struct str params);
void mcp_put_request(struct buf *out, const char *id, const char *method, struct str params);

/*
 * The value of Mcp-Name or Mcp-Param-*: itself, or what stands in base64 between "=?base64?" and
 * "?=". false: that is not base64.
 */
bool mcp_header_value(struct str field, struct buf *ret);

#endif
