/*
 * The protocol of one client: which era it speaks, what each method is answered, which calls go on.
 * Pure: messages come in as text, answers leave through struct mcp_out, tools are the owner's.
 * Used by cofferdam-mcp over stdio and over HTTP, and by the fixture of the conformance tests.
 */
#ifndef AGENT_MCP_SESSION_H
#define AGENT_MCP_SESSION_H

#include <sys/queue.h>

#include "agent/mcp_message.h"

#define MCP_CALLS_MAX 64 /* requests of one client that are not answered yet */

enum mcp_era { MCP_ERA_NONE = 0, MCP_ERA_LEGACY, MCP_ERA_MODERN };

struct mcp_session;

/* What HTTP's fields said beside a message; empty: the field is not there. */
struct mcp_http {
	struct str version, method, name; /* MCP-Protocol-Version, Mcp-Method, Mcp-Name */
	/* Mcp-Param-NAME, value; for a tool's x-mcp-header. */
	struct str (*param)(const void *arg, const char *name);
	const void *arg;
};

/* Where one message's answer goes: standard output, or one HTTP exchange. */
struct mcp_out {
	/* A notification or request that belongs to the exchange, before its answer. */
	void (*send)(void *exchange, struct str message);
	/* The answer, once; of a notification or response 202 and no text. Then it is gone. */
	void (*answer)(void *exchange, unsigned status, struct str message);
};

/* A request that waits for its answer. */
struct mcp_call {
	TAILQ_ENTRY(mcp_call) link;
	struct mcp_session *s;
	void *exchange; /* NULL: its client has gone, the answer is dropped */
	struct mcp_message m;
	enum mcp_era era;
	void *work; /* the owner's */
	struct mcp_ask *ask;
};

/* A tool as tools/list has it. */
struct mcp_tool {
	const char *name;
	const char *json;   /* its other members: "title":...,"inputSchema":{...} */
	const char *header; /* argument that Mcp-Param-HEADER repeats; NULL: none */
	const char *header_argument;
};

struct mcp_server {
	const char *name, *version, *title, *instructions; /* instructions may be NULL */
	const char *legacy, *modern;			   /* capabilities, JSON */
	const struct mcp_tool *tools;			   /* in the order that is told */
	size_t ntools;
	/* Answers now, or later. arguments: an object, or NULL. */
	void (*call)(struct mcp_call *c, const struct mcp_tool *t, const struct json *arguments);
	/* Methods besides; false: there is none of that name. NULL: none. */
	bool (*other)(struct mcp_call *c);
	/* Cancelled: the owner lets go of c->work; no answer follows. */
	void (*cancel)(struct mcp_call *c);
};

struct mcp_session *mcp_session_new(
    const struct mcp_server *server, const struct mcp_out *out, void *owner);
/* Calls that go on are cancelled. */
void mcp_session_free(struct mcp_session *s);
void *mcp_session_owner(const struct mcp_session *s);
enum mcp_era mcp_session_era(const struct mcp_session *s);
/* What the client said of itself in `initialize`, or in the last request: name and version as one
 * text; "": nothing yet. */
const char *mcp_session_client(const struct mcp_session *s);
bool mcp_session_declares(const struct mcp_call *c, const char *capability);

/* http NULL: stdio. */
void mcp_session_take(
    struct mcp_session *s, struct str text, const struct mcp_http *http, void *exchange);
/* The exchange's client has gone. A modern call is cancelled; a legacy one goes on. */
void mcp_session_gone(struct mcp_session *s, void *exchange);

/* --- the owner's answers. Each frees the call. */
/* result: a JSON object; era's own members are put in front of it. */
void mcp_call_result(struct mcp_call *c, struct str result);
/* Of tools/list and the like, which may be kept. */
void mcp_call_list(struct mcp_call *c, struct str result);
/* A modern result of another type than "complete". */
void mcp_call_result_as(struct mcp_call *c, const char *type, struct str result);
void mcp_call_error(struct mcp_call *c, enum mcp_code code, const char *text, struct str data);
/* -32021: what the client would have to declare, JSON object. */
void mcp_call_lacks(struct mcp_call *c, const char *capabilities);
/* A tool's result: structured (JSON object), and the same as text. */
void mcp_call_structured(struct mcp_call *c, struct str structured, bool failed);
/* A tool's failure in words. */
void mcp_call_failed(struct mcp_call *c, const char *text);

/* --- while it goes on */
/* Only if it gave a token; progress must grow. total 0: unknown. message NULL: none. */
void mcp_call_progress(struct mcp_call *c, uint64_t progress, uint64_t total, const char *message);
void mcp_call_notify(struct mcp_call *c, const char *method, struct str params);
/* A request to a legacy client, on this call's exchange. fn gets its result, or NULL. */
typedef void mcp_asked_fn(struct mcp_call *c, const struct json *result);
void mcp_call_ask(struct mcp_call *c, const char *method, struct str params, mcp_asked_fn *fn);

#endif
