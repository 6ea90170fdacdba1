/* What workers and the hub of cofferdam-sandboxd say to each other: one message, one answer, each a
 * packet of a SOCK_SEQPACKET socket. An answer is u32 -code and, of an error, str text. */
#ifndef AGENT_E2B_HUB_H
#define AGENT_E2B_HUB_H

#include <sys/socket.h>
#include <sys/un.h>

#include "agent/e2b.h"

#define HUB_MESSAGE_MAX ((size_t)40 << 10)

enum hub_call {
	HUB_RESERVE = 1, /* str key, entry -> entry */
	HUB_COMMIT,	 /* str id */
	HUB_RELEASE,	 /* str id */
	HUB_FIND,	 /* str key, str id -> entry */
	HUB_NEXT,	 /* str key, u64 serial -> entry */
	HUB_TOKEN,	 /* str id, str token -> entry */
	HUB_SIGNED,	 /* str id, str text, str expires, str signature -> entry */
	HUB_CHANGE,	 /* str key, str id, entry */
	HUB_CALLS,
};

void e2b_entry_put(const struct e2b_entry *e, struct buf *out);
void e2b_entry_take(struct rd *r, struct e2b_entry *ret); /* r->bad: free it all the same */
socklen_t e2b_hub_address(const struct e2b_config *c, struct sockaddr_un *ret);

#endif
