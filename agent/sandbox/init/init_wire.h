/* Pid 1's end of the wire to the supervisor (inside.h). Without the wire there is no pid 1. */
#ifndef INIT_WIRE_H
#define INIT_WIRE_H

#include "agent/sandbox/init/init_sys.h"
#include "agent/sandbox/inside.h"

struct wire_frame {
	enum inside_type type;
	uint32_t proc, a;
	const void *body;
	size_t n;
};
#define WIRE_FRAMES_MAX 2

/*
 * Sends n frames (1 to WIRE_FRAMES_MAX) as one, whole, or ends the process when the supervisor is
 * gone or takes nothing for 10 seconds. fds: of the first, at most 4, still the caller's. False:
 * with these the user has too many in flight (unix(7), ETOOMANYREFS), also a moment later, and
 * nothing is sent.
 */
bool wire_send_frames(const struct wire_frame *f, int n, const int *fds, int nfds);
/* One. */
bool wire_send(enum inside_type type, uint32_t proc, uint32_t a, const void *body, size_t n,
    const int *fds, int nfds);
void wire_send_text(enum inside_type type, uint32_t proc, uint32_t a, const char *text);
/* INSIDE_FATAL, and the end. */
_Noreturn void wire_fatal(const char *text);

/*
 * Reads n bytes, or ends the process: the supervisor is gone, or n bytes do not come in 10 seconds.
 * *nfds counts on from what it is; more than max descriptors are closed, and *nfds is then -1.
 */
void wire_read(void *p, size_t n, int *fds, int *nfds, int max);
/* Reads and drops n bytes and what descriptors come with them. */
void wire_drop(size_t n);

#endif
