/* Today's classifiers on the bytes of a recorded request. */
#ifndef CMD_CMD_REPLAY_RECLASSIFY_H
#define CMD_CMD_REPLAY_RECLASSIFY_H

#include "audit/replay_blobs.h"
#include "cmd/cmd_replay_input.h"

struct reclassify;
/* Starts the confined parser. `blobs` stays the caller's and must outlive it. */
int reclassify_new(struct replay_blobs *blobs, struct reclassify **ret, struct err *err);
void reclassify_free(struct reclassify *x);

enum reclassified {
	RECLASSIFIED_SAME = 0,
	RECLASSIFIED_OTHER,
	RECLASSIFIED_NONE /* the bytes are not here, or were never recorded */
};
/*
 * Reads the sealed bytes of the action and classifies them with the target as `p` has it. OTHER:
 * `in` (read from the record) now holds what they are today, good until the next call, and `why`
 * (emptied before) says what differs; NONE: why it cannot be told. What core itself added (opaque,
 * where it refused for reasons of its own) stays.
 */
enum reclassified reclassify(struct reclassify *x, const struct policy *p,
    const struct canon_node *data, struct replay_input *in, struct buf *why);

#endif
