/* The loop's own listener: a unix socket that the broker accepts on and this process connects to.
 */
#ifndef AGENT_AGENT_SOCKET_H
#define AGENT_AGENT_SOCKET_H

#include "common/err.h"

struct agent_socket {
	int listen; /* to be handed to the broker */
	int at;	    /* the socket's place in the file system, kept though its name is gone */
};

#define AGENT_SOCKET ((struct agent_socket){.listen = -1, .at = -1})
int agent_socket_make(struct agent_socket *ret, struct err *err);
/* A new connection; *ret_fd is close-on-exec. ERR_UNAVAILABLE: nobody accepts there. */
int agent_socket_connect(const struct agent_socket *s, int *ret_fd, struct err *err);
void agent_socket_free(struct agent_socket *s);
#define AUTO_AGENT_SOCKET __attribute__((cleanup(agent_socket_free)))

#endif
