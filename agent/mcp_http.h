/*
 * MCP over Streamable HTTP, at /mcp: a listener with a worker for each connection (common/serve.h),
 * and the hub, one process that has all sessions. A worker reads HTTP and knows who asks; the hub
 * knows the protocol. Sessions of the initialize-based era are the client's own, under an id that
 * only its principal can use; requests of the stateless one share a session for each principal.
 */
#ifndef AGENT_MCP_HTTP_H
#define AGENT_MCP_HTTP_H

#include "common/loop.h"
#include "common/serve_guard.h"
#include "agent/mcp_session.h"

#define MCP_HTTP_PATH "/mcp"
#define MCP_HTTP_SESSIONS_MAX 32 /* the broker holds 64 runs */
#define MCP_HTTP_OWN_MAX 16	 /* of them one principal's, so that another finds room */
#define MCP_HTTP_SESSION_ID 26	 /* characters: 128 bits in base32 */
#define MCP_HTTP_WHO_MAX 128
#define MCP_HTTP_PARAMS_MAX 8 /* Mcp-Param-* fields of a request */

/* Whose sessions these are: cofferdam-mcp's, or the fixture's. */
struct mcp_http_app {
	struct mcp_session *(*open)(
	    void *arg, struct loop *loop, const struct mcp_out *out, const char *who);
	void (*close)(void *arg, struct mcp_session *s, const char *said);
	bool (*idle)(void *arg, const struct mcp_session *s);
	void *arg;
};

struct mcp_http_config {
	struct serve_config serve;
	const char *token_file; /* NULL: none */
	struct serve_guard guard;
	uint64_t idle_ms;
	bool anybody; /* the fixture alone: who asks is not asked */
	struct mcp_http_app app;
};

/* Until SIGTERM or SIGINT: 0. Prints its URL to standard error. */
int mcp_http_serve(const struct mcp_http_config *c, struct err *err);

/* --- the frames between worker and hub, MCP_F_REQUEST: */
enum mcp_http_verb { MCP_HTTP_POST = 1, MCP_HTTP_GET, MCP_HTTP_DELETE };
struct mcp_http_asked { /* borrowed from the frame */
	enum mcp_http_verb verb;
	struct str who, session, version, method, name, body;
	size_t nparams;
	struct str param_names[MCP_HTTP_PARAMS_MAX], params[MCP_HTTP_PARAMS_MAX];
};
void mcp_http_asked_put(const struct mcp_http_asked *a, struct buf *out);
bool mcp_http_asked_take(struct str frame, struct mcp_http_asked *ret);

/* mcp_http_hub.c: the hub's whole life; listen_fd: where workers connect. */
_Noreturn void mcp_http_hub(const struct mcp_http_config *c, int listen_fd);
/* mcp_http.c: one request of a worker. hub: a socket to connect to. */
struct mcp_http_worker {
	const struct mcp_http_config *c;
	const struct agent_socket *hub;
	struct serve_tokens *tokens;
};
void mcp_http_request(void *worker, struct serve_conn *c);

#endif
