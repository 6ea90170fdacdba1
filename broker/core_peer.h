/* Peers that come by the listening sockets: agents and people. */
#ifndef BROKER_CORE_PEER_H
#define BROKER_CORE_PEER_H

#include "broker/core.h"

/* Start accepting; agents only once core can serve them (policy active, log live). */
void core_peer_listen(struct core *c);
/* Takes fd, a connected socket; uid as the kernel tells it. */
struct core_peer *core_peer_new(struct core *c, enum ipc_role role, int fd, uid_t uid);
void core_peer_free(struct core_peer *p); /* closes; its run is not touched */
/* From now on it is ended if it stays for long (CORE_CONTROL_MS). */
void core_peer_rest(struct core_peer *p);
struct core_peer *core_peer_by_serial(const struct core *c, uint64_t serial); /* NULL: gone */
/* "unix:NAME", or NULL: no such login. */
const char *core_peer_login(const struct core_peer *p);

#endif
