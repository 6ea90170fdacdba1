/* How long the supervisor waits for what, in a place of its own. Runs in the supervisor. */
#include "agent/sandbox/super_state.h"

#include "common/banned.h"

const struct super_times super_times = {
    .stuck = 10000,
    .ready = 12000,
    .spawn = 30000,
    .grace = 5000, /* 256 busy programs beside it are no reason */
    .pause = INT64_C(86400000),
};
