/*
 * The request table of core: who may say what, when, how often and how large. What is not
 * in it ends that peer's wire.
 */
#ifndef BROKER_CORE_TABLE_H
#define BROKER_CORE_TABLE_H

#include "broker/core.h"

typedef int core_msg_fn(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);

enum { CORE_MANY = 0, CORE_ONCE = 1 };
struct core_row {
	uint16_t type;
	enum ipc_role from;
	unsigned states; /* of enum core_state, or-ed */
	int often;	 /* CORE_ONCE: a second one on the same wire ends it */
	size_t limit;	 /* bytes of body; never above common/ipc_msg.tbl */
	core_msg_fn *fn;
};
extern const struct core_row core_table[];
extern const size_t core_table_rows;

/* ipc_msg_fn: arg is the struct core_peer. */
int core_table_dispatch(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds,
    size_t nfds, struct err *err);

#endif
