/* The form of a snapshot, for those that write and read one. For libsandbox alone. */
#ifndef AGENT_SANDBOX_SANDBOX_SNAPSHOT_H
#define AGENT_SANDBOX_SANDBOX_SNAPSHOT_H

#include "agent/sandbox/sandbox.h"

/*
 * This line, frames of opaque bytes with a count at their end (inside_frame.h), and u64 sum of all
 * that is before it. The sum is FNV-1a, against accidents: a copy that was cut or damaged. Who can
 * change a snapshot can also change its sum; that is why only code inside looks into the bytes.
 */
#define SNAPSHOT_MAGIC "cofferdam-snapshot 1\n"
#define SNAPSHOT_DIRECTORY "/work"
#define SNAPSHOT_SUM_BYTES 8
#define SNAPSHOT_SUM_BEGIN UINT64_C(0xcbf29ce484222325)

uint64_t snapshot_sum(uint64_t sum, struct str bytes);

/* All programs inside but helpers stop (true) or go on. */
int snapshot_hold(struct sandbox *sb, bool on, struct err *err);

#endif
