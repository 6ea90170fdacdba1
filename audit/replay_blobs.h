/* Content of records for replay: finds the frame, opens it with the run's key if that can be read.
 */
#ifndef AUDIT_REPLAY_BLOBS_H
#define AUDIT_REPLAY_BLOBS_H

#include "common/buf.h"
#include "common/err.h"

struct replay_blobs;
/* keysdir: `keys/blob` of the state directory, -1: none. Both descriptors stay the caller's. */
int replay_blobs_open(int logdir, int keysdir, struct replay_blobs **ret, struct err *err);
void replay_blobs_free(struct replay_blobs *b);
DEFINE_AUTO(replay_blobs, struct replay_blobs, replay_blobs_free)
/*
 * The content of a reference, as it stands in the record (canonical JSON). ERR_NOT_FOUND: no
 * pack holds it; ERR_UNAVAILABLE: its key is not here (sealed, or erased); ERR_TAMPER, ERR_CRYPTO.
 */
int replay_blobs_read(struct replay_blobs *b, struct str ref, struct buf *out, struct err *err);

#endif
