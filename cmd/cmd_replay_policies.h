/* The policies of a log, and one that somebody hands in. */
#ifndef CMD_CMD_REPLAY_POLICIES_H
#define CMD_CMD_REPLAY_POLICIES_H

#include "audit/record.h"
#include "audit/replay_blobs.h"
#include "policy/policy.h"

struct replay_policies;
/* `blobs` stays the caller's; statedir -1: none. Bundles are opened when they are first asked for.
 */
struct replay_policies *replay_policies_new(struct replay_blobs *blobs, int statedir);
void replay_policies_free(struct replay_policies *p);
/* A record policy.load. */
void replay_policies_take(struct replay_policies *p, const struct record *r);
/* By the digest in hex. NULL: *why says what is missing. */
const struct policy *replay_policies_get(
    struct replay_policies *p, struct str digest, const char **why);

/* Source or bundle; ERR_CONFIG, or what reading the file gave. The caller frees. */
int replay_policy_load(const char *path, struct policy **ret, struct err *err);

#endif
