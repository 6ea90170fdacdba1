/*
 * Framed messages with descriptors over a unix stream socket. Frame: u32 body length,
 * u16 type, u16 descriptor count, body; descriptors travel with the frame's first byte.
 * ipc_msg.tbl says who may send what to whom, how large and with how many descriptors;
 * a frame outside it ends the wire (receiving) or the process (sending: our own bug).
 */
#ifndef COMMON_IPC_H
#define COMMON_IPC_H

#include "common/buf.h"
#include "common/err.h"
#include "common/loop.h"

#define IPC_VERSION 15
#define IPC_FDS_MAX 4
#define IPC_BODY_MAX ((size_t)4 << 20)

enum ipc_role {
	IPC_ROLE_NONE = 0,
	IPC_ROLE_PARENT = 1,
	IPC_ROLE_FRONT = 2,
	IPC_ROLE_CORE = 3,
	IPC_ROLE_PARSER = 4,
	IPC_ROLE_UPSTREAM = 5,
	IPC_ROLE_WRITER = 6,
	IPC_ROLE_CONSOLE = 7,
	IPC_ROLE_COURIER = 8,
	IPC_ROLE_AGENT = 9,
	IPC_ROLE_CLI = 10,
	IPC_ROLE_ANY = 255,
};
#define IPC_CHILDREN (IPC_ROLE_COURIER + 1) /* the parent's children are below */
enum {
#define X(name, id, from, to, max, nfds) MSG_##name = (id),
#include "common/ipc_msg.tbl"
#undef X
};

struct ipc;
/*
 * Called once for each frame. `body` and `fds` are good during the call; a handler that keeps
 * fds[i] sets it to -1, the rest are closed. Return 0, or an error: then the wire is reported
 * gone with that text. The handler must check rd_end(). It may ipc_free(w).
 */
typedef int ipc_msg_fn(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds,
    size_t nfds, struct err *err);
/* The peer closed, broke the rules or an I/O error came; called once, from the loop. Must
 * ipc_free(w). */
typedef void ipc_gone_fn(void *arg, struct ipc *w, const char *why);

/* Takes fd (non-blocking is set). `loop` may be any; self/peer select the table's rows. */
struct ipc *ipc_new(struct loop *loop, int fd, enum ipc_role self, enum ipc_role peer,
    ipc_msg_fn *fn, ipc_gone_fn *gone, void *arg);
void ipc_free(struct ipc *w); /* closes; queued frames are dropped; NULL is fine */
/*
 * Queue one frame and write what the socket takes at once. body may be NULL (empty). The
 * descriptors stay the caller's (duplicated while queued). An overflowed buf, a frame outside
 * the table, or a queue over IPC_QUEUE_MAX bytes ends the process resp. the wire.
 */
void ipc_send(struct ipc *w, uint16_t type, const struct buf *body, const int *fds, size_t nfds);
#define IPC_QUEUE_MAX ((size_t)64 << 20)
/*
 * On: what is sent in one turn of the loop goes out together, in the next; for a wire of very many
 * small frames. Off: what waits goes out now, as far as the socket takes it.
 */
void ipc_lazy(struct ipc *w, bool on);
size_t ipc_queued(const struct ipc *w); /* bytes not yet taken by the kernel */
bool ipc_sound(const struct ipc *w);	/* false: what was queued is lost, and gone on its way */
int ipc_fd(const struct ipc *w);
const char *ipc_role_name(enum ipc_role r);
const char *ipc_msg_name(uint16_t type);
/* Stop/start reading (back-pressure). */
void ipc_read_enable(struct ipc *w, bool on);

/* Blocking form for the agent and the command line; same table, same checks. */
int ipc_sync_send(int fd, enum ipc_role self, enum ipc_role peer, uint16_t type,
    const struct buf *body, const int *fds, size_t nfds, struct err *err);
/*
 * timeout_ms < 0: for ever. *body is reset and filled; fds received go to fds[0..*nfds), the
 * caller closes. After any error, also ERR_TIMEOUT, the connection is of no more use.
 */
int ipc_sync_recv(int fd, enum ipc_role self, enum ipc_role peer, int timeout_ms,
    uint16_t *ret_type, struct buf *body, int *fds, size_t *nfds, struct err *err);
/* Connect to a unix stream socket at path (any length: opens the directory and uses /proc/self/fd).
 */
int ipc_connect(const char *path, int *ret_fd, struct err *err);

#endif
