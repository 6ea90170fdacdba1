/*
 * Frames between the processes of one cofferdam-mcp: its hub, its jobs, its HTTP workers. u32
 * length of what follows, u8 type, body. All of one program and one user; bounded all the same.
 */
#ifndef AGENT_MCP_WIRE_H
#define AGENT_MCP_WIRE_H

#include "common/buf.h"
#include "common/err.h"
#include "common/loop.h"

#define MCP_WIRE_MAX ((size_t)20 << 20) /* bytes of one frame */

enum mcp_frame {
	/* From a job. */
	MCP_F_PROGRESS = 1, /* u64 bytes of output so far, str its last line */
	MCP_F_CONTEXT,	    /* str id of the context that it opened */
	MCP_F_RUN,	    /* str run, str owner: it has begun */
	MCP_F_RESULT,	    /* u8 failed, str members of the structured result */
	MCP_F_FAILURE,	    /* u32 -code, str words */
	MCP_F_STOP,	    /* to a job: end it */
	/* Between a worker and the hub. */
	MCP_F_REQUEST = 32, /* mcp_http.h */
	MCP_F_SEND,	    /* str message, before the answer */
	MCP_F_ANSWER,	    /* u16 status, str session, str message; status 0: end without one */
};

void mcp_frame_put(struct buf *out, enum mcp_frame type, struct str body);

/* Blocking; the caller ignores SIGPIPE. ERR_UNAVAILABLE: the other side has gone. */
int mcp_frame_send(int fd, enum mcp_frame type, struct str body, struct err *err);
/* ERR_TIMEOUT after ms (-1: never). *ret is appended to. */
int mcp_frame_recv(int fd, int ms, enum mcp_frame *ret_type, struct buf *ret, struct err *err);

/* --- in the hub, which waits for nobody */
struct mcp_wire;
typedef void mcp_wire_fn(void *arg, enum mcp_frame type, struct str body);
/* Takes fd. fn may free the wire; it is called with type 0 when the other side has gone, or sends
 * what is no frame. */
struct mcp_wire *mcp_wire_new(struct loop *loop, int fd, mcp_wire_fn *fn, void *arg);
/* More than MCP_WIRE_MAX that is not taken ends it, with type 0, later. */
void mcp_wire_send(struct mcp_wire *w, enum mcp_frame type, struct str body);
/* What was sent still goes out, as far as the other side takes it at once. NULL is fine. */
void mcp_wire_free(struct mcp_wire *w);

#endif
