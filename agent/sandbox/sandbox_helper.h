/* Runs one part of cofferdam-inside for files and snapshots. For libsandbox alone. */
#ifndef AGENT_SANDBOX_SANDBOX_HELPER_H
#define AGENT_SANDBOX_SANDBOX_HELPER_H

#include "agent/sandbox/sandbox.h"
#include "agent/sandbox/sandbox_frame.h"

#define HELPER_IDLE_MS 60000 /* without any progress: it is ended */

struct helper {
	const char *const *argv; /* NULL-terminated; argv[0] names the part */
	const char *about;	 /* for messages: the path or what is done */
	const struct frame_ops *ops;
	void *arg; /* of ops and feed */
	/*
	 * What goes to its input: called when feed_fd is readable and the last is sent. Appends
	 * frames to *out; 1: that was all, 0: more, negative: the error that helper_run returns;
	 * the part then undoes what it did.
	 */
	int (*feed)(void *arg, struct buf *out, struct err *err);
	int feed_fd;
	int stop_fd; /* readable: end it, which is a success; -1: none */
	bool stays;  /* it goes on until told: its input stays open, and silence is no fault */
};

int helper_run(struct sandbox *sb, const struct helper *h, struct err *err);

#endif
