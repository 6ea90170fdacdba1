/*
 * Opens a log for replay: verifies it, walks it once for what must be known before the first record
 * is told. Runs as the reviewer; opens for reading only.
 */
#include "cmd/cmd_replay_case.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "audit/verify.h"
#include "cmd/cmd.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_replay.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

static int
read_checkpoint(struct replay_case *c, struct err *err)
{
	AUTO_FD int dir = -1;
	char name[LOG_NAME_SIZE];
	int r;

	if (c->verified == 0)
		return 0;
	log_name(name, c->verified, "");
	if ((r = log_open_dir(c->place.logdir, LOG_CP, &dir, err)) != 0)
		return r;
	/* The newest may be a pin or `checkpoint` alone; the proofs lead to its root all the same.
	 */
	(void)log_read_file(dir, name, &c->checkpoint, NULL);
	return 0;
}

static int
first_walk(struct replay_case *c, const char *run, bool proofs, struct err *err)
{
	struct chain *chain = NULL;
	struct record r;
	struct hash leaf;
	int n = chain_open(c->place.logdir, 0, &chain, err);

	if (run != NULL)
		replay_scan_init(&c->scan, run, c->blobs, proofs);
	else
		c->doubts = doubts_new(c->blobs, NULL);
	c->scanned = run != NULL;
	while (n == 0 && (n = chain_next(chain, &r, &leaf, err)) == 1) {
		n = 0;
		if (str_eqz(r.type, "policy.load"))
			replay_case_take(c, &r);
		if (run != NULL)
			replay_scan_record(&c->scan, &r, &leaf);
		else
			doubts_record(c->doubts, &r);
	}
	if (n == 0 && chain_size(chain) < c->verified)
		n = err_set(err, ERR_TAMPER, "the log has become shorter than %" PRIu64 " records",
		    c->verified);
	chain_free(chain);
	if (n != 0)
		return n;
	if (run != NULL)
		replay_scan_end(&c->scan, c->verified, c->torn);
	else
		doubts_end(c->doubts);
	return 0;
}

static int
verify(const char *state, const char *vkey, struct replay_case *ret, struct err *err)
{
	AUTO_FREE struct verdict *v = xcalloc(1, sizeof(*v));
	AUTO_FREE struct vkeys *keys = xcalloc(1, sizeof(*keys));
	int r;

	if ((r = cmd_place_open(NULL, state, &ret->place, err)) != 0 ||
	    (r = cmd_place_keys(&ret->place, vkey, keys, err)) != 0 ||
	    (r = verify_log(ret->place.logdir, keys, NULL, 0, v, err)) != 0)
		return r;
	verdict_put(&ret->verdict, v);
	ret->status = verdict_status(v);
	ret->verified = v->verified;
	ret->torn = v->torn;
	memcpy(ret->origin, v->origin, sizeof(ret->origin));
	return 0;
}

int
replay_case_open(const char *state, const char *vkey, const char *run, bool proofs,
    struct replay_case *ret, struct err *err)
{
	int r;

	if ((r = verify(state, vkey, ret, err)) != 0)
		return r;
	ret->keysdir = replay_keysdir(&ret->place);
	if ((r = replay_blobs_open(ret->place.logdir, ret->keysdir, &ret->blobs, err)) != 0 ||
	    (r = read_checkpoint(ret, err)) != 0)
		return r;
	return first_walk(ret, run, proofs, err);
}

void
replay_case_close(struct replay_case *c)
{
	if (c->scanned)
		replay_scan_free(&c->scan);
	doubts_free(c->doubts);
	replay_case_policies_free(c);
	replay_blobs_free(c->blobs);
	buf_free(&c->verdict);
	buf_free(&c->checkpoint);
	cleanup_close_fd(&c->keysdir);
	cmd_place_close(&c->place);
}

const struct doubts *
replay_case_doubts(const struct replay_case *c)
{
	return c->scanned ? c->scan.doubts : c->doubts;
}

int
replay_case_walk(const struct replay_case *c, replay_each_fn *fn, void *arg, struct err *err)
{
	struct chain *chain = NULL;
	struct record r;
	struct hash leaf;
	int n = chain_open(c->place.logdir, 0, &chain, err);

	while (n == 0 && (n = chain_next(chain, &r, &leaf, err)) == 1) {
		n = 0;
		if (c->scanned && r.seq > c->scan.until)
			break;
		fn(arg, &r);
		if (chain_fault(chain)->kind != LOG_KIND_NONE)
			break;
	}
	chain_free(chain);
	return n;
}

int
replay_case_status(const struct replay_case *c)
{
	return c->status == 1 || c->status == 2 ? CMD_FAILED : CMD_OK;
}

bool
replay_case_found(const struct replay_case *c)
{
	AUTO_FREE char *vis = log_vis(str_z(c->scanned ? c->scan.run : ""));

	if (!c->scanned || c->scan.found)
		return true;
	if (replay_case_status(c) == CMD_OK)
		(void)fprintf(stderr, "cofferdam: the log has no run %s\n", vis);
	else
		(void)fprintf(stderr,
		    "%.*scofferdam: the log does not hold; what can be read of it has no run %s\n",
		    STR_ARG(buf_str(&c->verdict)), vis);
	log_say_pruned(c->place.logdir);
	return false;
}
