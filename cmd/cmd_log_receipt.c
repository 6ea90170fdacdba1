/*
 * `cofferdam log verify-receipt`: does the log still hold the record that an answer's receipt
 * names, as it was? Runs as whoever may read the log. The log is verified up to that record first;
 * nothing of what is printed can move a terminal.
 */
#include <inttypes.h>
#include <stdio.h>

#include "audit/pruned.h"
#include "audit/reader.h"
#include "audit/receipt.h"
#include "audit/verify.h"
#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_place.h"
#include "common/log.h"

#include "common/banned.h"

struct receipt_args {
	const char *state, *vkey, *receipt, *dir;
};

#define AT(f) offsetof(struct receipt_args, f)

static const struct option_row rows[] = {
    {"RECEIPT", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(receipt), 0, 0, NULL,
	"ORIGIN#SEQ:HASH:SIZE, as field Cofferdam-Receipt has it"},
    {"DIR", OPTION_TEXT | OPTION_WORD, AT(dir), 0, 0, NULL, ARG_LOG_IS},
    {"--keys", OPTION_TEXT, AT(vkey), 0, 0, "FILE", ARG_KEYS_IS},
    {"--vkey", OPTION_TEXT, AT(vkey), 0, 0, "FILE", NULL},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

/* ERR_TAMPER: a finding at the record or before it, or one that may be anywhere. */
static int
whole(int logdir, const struct vkeys *keys, const struct receipt *r, struct verdict *v,
    struct err *err)
{
	int rc = verify_log(logdir, keys, NULL, 0, v, err);

	if (rc != 0)
		return rc;
	if (v->config[0] != '\0')
		return err_set(err, ERR_CONFIG, "%s", v->config);
	if (v->more != 0)
		return err_set(err, ERR_TAMPER, "the log is tampered with in many places");
	for (size_t i = 0; i < v->nfaults; i++)
		if (v->faults[i].seq <= r->seq)
			return err_set(err, ERR_TAMPER,
			    "the log is tampered with at record %" PRIu64, v->faults[i].seq);
	return 0;
}

/* Of a record that was pruned: its leaf hash is there still, and verified with the rest. */
static int
pruned_leaf(int logdir, uint64_t seq, struct hash *ret, struct err *err)
{
	AUTO_LOG_FILES struct log_files files = {0};
	struct pruned *p = NULL;
	struct record rec;
	bool is;
	int rc = log_files_list(logdir, LOG_SEG, LOG_LINES, LOG_LEAVES, &files, err);

	if (rc == 0)
		rc = pruned_open(logdir, &files, &p, err);
	if (rc != 0)
		return rc;
	rc = p != NULL ? 1 : 0;
	for (uint64_t k = 0; rc == 1 && k <= seq; k++)
		rc = pruned_next(p, k, ret, &rec, &is, err);
	pruned_free(p);
	if (rc == 0)
		return err_set(err, ERR_NOT_FOUND, "the log has no record %" PRIu64, seq);
	return rc == 1 ? 0 : rc;
}

static int
present_leaf(struct reader *rd, uint64_t seq, struct hash *ret, struct err *err)
{
	struct reader_place at = {.seq = reader_segment(rd, seq)};
	struct record rec;
	int rc = reader_seek(rd, &at, err);

	if (rc != 0)
		return rc;
	while ((rc = reader_next(rd, &rec, &at, ret, err)) == 1 && at.seq < seq)
		;
	if (rc == 0)
		return err_set(err, ERR_NOT_FOUND, "the log has no record %" PRIu64, seq);
	return rc == 1 ? 0 : rc;
}

/* ERR_TAMPER: it is there, and is another; ERR_NOT_FOUND: the log does not go so far. */
static int
holds(int logdir, const struct receipt *r, const struct verdict *v, struct err *err)
{
	AUTO(reader) struct reader *rd = NULL;
	struct hash leaf;
	int rc;

	if (v->size < r->size)
		return err_set(err, ERR_NOT_FOUND,
		    "the log has %" PRIu64 " records, and had %" PRIu64 " when this was given: it "
		    "was set back",
		    v->size, r->size);
	if ((rc = reader_open(logdir, &rd, err)) != 0)
		return rc;
	rc = reader_holds(rd, r->seq) ? present_leaf(rd, r->seq, &leaf, err)
				      : pruned_leaf(logdir, r->seq, &leaf, err);
	if (rc != 0)
		return rc;
	if (!hash_eq(&leaf, &r->leaf))
		return err_set(
		    err, ERR_TAMPER, "record %" PRIu64 " of the log is another one", r->seq);
	return 0;
}

/* Once more where segments went while they were read: each time there are fewer. */
static int
check(int logdir, const struct vkeys *keys, struct str origin, const char *shown,
    const struct receipt *r, struct verdict *v, struct err *err)
{
	uint64_t first = log_first(logdir);
	int rc;

	do {
		err_clear(err);
		rc = whole(logdir, keys, r, v, err);
		if (rc == 0 && !receipt_is_of(origin, str_z(keys->key[0].name)))
			return err_set(err, ERR_NOT_FOUND,
			    "the receipt is of log %s, this is log %s", shown, keys->key[0].name);
		if (rc == 0)
			rc = holds(logdir, r, v, err);
	} while (log_first_moved(logdir, &first) && rc != 0);
	return rc;
}

int
cmd_log_verify_receipt(int argc, char **argv)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	struct receipt_args a = {0};
	struct err err = {0};
	struct verdict v = {0};
	struct receipt r;
	struct str origin;
	struct vkeys keys;
	AUTO_FREE char *text = NULL;
	int rc;

	if (!ARGS_READ("log verify-receipt", rows, argc, argv, &a))
		return CMD_USAGE;
	if (receipt_parse(str_trim(str_z(a.receipt)), &origin, &r, &err) != 0) {
		(void)log_fail(&err);
		return CMD_USAGE;
	}
	if (cmd_place_open(a.state, a.dir, &place, &err) != 0 ||
	    cmd_place_keys(&place, a.vkey, &keys, &err) != 0)
		return log_fail(&err);
	text = log_vis(origin);
	rc = check(place.logdir, &keys, origin, text, &r, &v, &err);
	if (rc == ERR_TAMPER || rc == ERR_NOT_FOUND) {
		(void)printf("NOT HELD: %s\n", err.msg);
		return CMD_FAILED;
	}
	if (rc != 0)
		return log_fail(&err);
	(void)printf("HELD record %" PRIu64 " of %s, signed%s\n", r.seq, text,
	    v.verified > r.seq ? "" : " not yet");
	return CMD_OK;
}
