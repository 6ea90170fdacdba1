/* Today's table of effects beside the recorded one. */
#ifndef CMD_CMD_REPLAY_EFFECTS_H
#define CMD_CMD_REPLAY_EFFECTS_H

#include "audit/canon_tree.h"
#include "common/err.h"

struct replay_effects;
struct replay_effects *replay_effects_new(void);
void replay_effects_free(struct replay_effects *e);

/*
 * Does the recorded request (canonical, with facts) still have the effects that were judged? The
 * facts' effects must be among them; what was recorded beyond must come from the transaction
 * (COMMIT), from statements that EXECUTE ran, or be the opaque of a refusal by core. ERR_STATE says
 * what differs. Facts of HTTP hold no effects of their own: they come from the sealed head.
 */
int replay_effects_check(
    struct replay_effects *e, const struct canon_node *request, uint32_t said, struct err *err);

#endif
