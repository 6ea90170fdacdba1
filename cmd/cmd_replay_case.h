/* A run as it is read for a timeline, a page or a report: the log, its verdict, the first walk. */
#ifndef CMD_CMD_REPLAY_CASE_H
#define CMD_CMD_REPLAY_CASE_H

#include "audit/replay_page.h"
#include "audit/replay_scan.h"
#include "audit/checkpoint.h"
#include "cmd/cmd_place.h"

struct policy;
struct replay_policies;
struct replay_case {
	struct cmd_place place;
	int keysdir;
	struct replay_blobs *blobs;
	struct replay_policies *policies;
	struct buf verdict; /* on the log, in words */
	int status;	    /* verdict_status */
	uint64_t verified,
	    torn; /* records that a checkpoint covers; bytes of an unfinished write */
	char origin[ORIGIN_MAX + 1];
	struct buf checkpoint;
	struct replay_scan scan; /* of the run, where there is one */
	bool scanned;
	struct doubts *doubts; /* of all runs, where there is none */
};
/* run NULL: all, and no proofs. Frees nothing on failure: replay_case_close does. */
int replay_case_open(const char *state, const char *vkey, const char *run, bool proofs,
    struct replay_case *ret, struct err *err);
void replay_case_close(struct replay_case *c);
#define AUTO_CASE __attribute__((cleanup(replay_case_close)))
#define CASE_EMPTY                                                                                \
	{                                                                                         \
		.place = {-1, -1}, .keysdir = -1, .verdict = BUF(65536), .checkpoint = BUF(65536) \
	}
const struct doubts *replay_case_doubts(const struct replay_case *c);
/* Every record once more. */
typedef void replay_each_fn(void *arg, const struct record *r);
int replay_case_walk(const struct replay_case *c, replay_each_fn *fn, void *arg, struct err *err);
/* How the command ends: the log does not hold, or is not to be judged. */
int replay_case_status(const struct replay_case *c);
/* "the log has no run X" to standard error, behind the verdict where the log does not hold; false.
 */
bool replay_case_found(const struct replay_case *c);

/* cmd_replay_bands.c. A policy.load of the log; and a policy by its digest, as replay_policies_get.
 */
void replay_case_take(struct replay_case *c, const struct record *r);
const struct policy *replay_case_policy(
    const struct replay_case *c, struct str digest, const char **why);
/* Freezes that overlap the run: calendars of the policies in force and emergency freezes. *why is
 * set (allocated) where a policy could not be read. */
struct replay_band *replay_case_bands(const struct replay_case *c, size_t *ret_n, char **ret_why);
void replay_case_bands_free(struct replay_band *b, size_t n);
void replay_case_policies_free(struct replay_case *c);

#endif
