/*
 * Is a log that is read once, from its first record to its last, the one that was signed? Its tree
 * is held against the newest head on the way; only where that does not fit all is verified.
 */
#ifndef CMD_CMD_REPLAY_SIGNED_H
#define CMD_CMD_REPLAY_SIGNED_H

#include "audit/chain.h"
#include "cmd/cmd_place.h"

struct replay_signed;
/* Before the chain is opened. `vkey` is a file of keys; NULL: those of the state directory. The
 * place is borrowed. */
int replay_signed_new(
    const struct cmd_place *place, const char *vkey, struct replay_signed **ret, struct err *err);
void replay_signed_free(struct replay_signed *s);
int replay_signed_chain(struct replay_signed *s, struct chain **ret, struct err *err);
/* With each record that the chain gives. */
void replay_signed_record(struct replay_signed *s, const struct chain *c, const struct record *r);
/*
 * When the chain has given all. *ret_said is what is to be said of the log, empty if there is
 * nothing, and *ret_holds whether it may be relied on. ERR_TAMPER: and not all of it was read.
 */
int replay_signed_end(struct replay_signed *s, const struct chain *c, struct buf *ret_said,
    bool *ret_holds, struct err *err);

#endif
