/* What the verdict function was given when an action was judged, as its record has it. */
#ifndef CMD_CMD_REPLAY_INPUT_H
#define CMD_CMD_REPLAY_INPUT_H

#include "audit/canon_tree.h"
#include "audit/record.h"
#include "policy/policy.h"

#define REPLAY_GRANTS_MAX 64
#define REPLAY_RELATIONS_MAX 256
#define REPLAY_LIFTS_MAX 64
#define REPLAY_WORDS_MAX 64

/* Strings are borrowed from the record and its tree. What is counted is set, the rest is not. */
struct replay_input {
	struct policy_input in;
	struct str relations[REPLAY_RELATIONS_MAX];
	struct policy_rate_count rates[POLICY_RATES_MAX];
	struct policy_grant grants[REPLAY_GRANTS_MAX];
	struct policy_lift lifts[REPLAY_LIFTS_MAX];
	struct policy_overlay overlays[REPLAY_LIFTS_MAX];
	struct str words[REPLAY_WORDS_MAX];
	size_t ngrants;
	enum verdict verdict; /* as recorded */
};

/* ERR_NOT_FOUND: it is not there, or not of the form. */
int replay_input_read(const struct canon_node *data, const struct record *r,
    struct replay_input *ret, struct err *err);

#endif
