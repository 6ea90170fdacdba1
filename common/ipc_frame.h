/* What the two readers of frames (ipc.c, ipc_sync.c) share: the table and the header. */
#ifndef COMMON_IPC_FRAME_H
#define COMMON_IPC_FRAME_H

#include <sys/socket.h>

#include "common/ipc.h"

#define IPC_HEADER 8

struct ipc_frame {
	uint32_t body;
	uint16_t type, nfds;
};

void ipc_frame_encode(struct buf *to, uint16_t type, size_t body, size_t nfds);
/* p holds IPC_HEADER bytes. ERR_PROTOCOL for a frame that `from` may not send to `to`. */
int ipc_frame_decode(
    const uint8_t *p, enum ipc_role from, enum ipc_role to, struct ipc_frame *ret, struct err *err);
/* The same check before sending: ends the process, since it is our own bug. */
void ipc_frame_must_fit(
    enum ipc_role from, enum ipc_role to, uint16_t type, const struct buf *body, size_t nfds);

/* A control buffer for exactly IPC_FDS_MAX descriptors: with more the kernel says MSG_CTRUNC. */
union ipc_control {
	char b[CMSG_SPACE(IPC_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};
/* Take all descriptors out of a received message. Returns how many, at most IPC_FDS_MAX. */
size_t ipc_control_take(struct msghdr *m, int fds[IPC_FDS_MAX]);
/* Point m at control with the descriptors in it. nfds may be 0. */
void ipc_control_put(struct msghdr *m, union ipc_control *c, const int *fds, size_t nfds);
void ipc_close_fds(int *fds, size_t n);

#endif
