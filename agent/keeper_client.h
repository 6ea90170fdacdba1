/* For the files of the keeper's callers, and the keeper's own address. */
#ifndef AGENT_KEEPER_CLIENT_H
#define AGENT_KEEPER_CLIENT_H

#include <sys/un.h>

#include "agent/keeper_wire.h"

struct keeper {
	int fd; /* -1: the answer to something was missed */
	int pid;
	char *id, *run, *owner;
	const struct keeper_caller *caller; /* NULL: nobody said */
};

/* The answer in *ret, its descriptors the caller's. */
int keeper_ask(
    struct keeper *k, uint8_t type, const struct buf *body, struct wire_msg *ret, struct err *err);
int keeper_tell(struct keeper *k, uint8_t type, const struct buf *body, struct err *err);
/* ERR_NOT_FOUND: not an id. */
int keeper_address(const char *id, struct sockaddr_un *ret, socklen_t *ret_n, struct err *err);

#endif
