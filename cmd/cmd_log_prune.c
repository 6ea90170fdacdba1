/*
 * `cofferdam log prune`: takes the oldest segments out of a log whose proofs stay valid. Runs as
 * the operator, who can read the log's seed: says what would go, and with --yes copies what must
 * stay and lays a signed order into the log's directory. It removes no record itself: the writer
 * does, behind its own record of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/prune_plan.h"
#include "audit/segment.h"
#include "audit/verify.h"
#include "audit/verify_witness.h"
#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_log.h"
#include "cmd/cmd_place.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/secret.h"

#include "common/banned.h"

#define DAYS_MAX 36500
#define DAY_US ((int64_t)86400 * 1000000)
#define TMP_ORDER LOG_TMP "-" LOG_PRUNE

struct prune_args {
	const char *state, *reason;
	int64_t before;	    /* INT64_MIN: not given */
	uint64_t days, seq; /* UINT64_MAX: not given */
	struct prune_limit limit;
	bool yes, cancel;
};

#define AT(f) offsetof(struct prune_args, f)

static const struct option_row rows[] = {
    {"--before", ARG_SINCE, AT(before), 0, 0, "TIME",
	"whose records are all older: 2026-11-29T00:00:00Z, 2026-11-29, 7d ago"},
    {"--keep-days", OPTION_NUMBER, AT(days), 0, DAYS_MAX, "N", "the same: older than so many days"},
    {"--before-seq", OPTION_NUMBER, AT(seq), 0, INT64_MAX, "SEQ",
	"whose records all have lower numbers"},
    {"--reason", OPTION_TEXT, AT(reason), 0, 0, "TEXT", "why, up to 256 bytes; recorded"},
    {"--yes", OPTION_FLAG, AT(yes), 0, 0, NULL, "order it"},
    {"--cancel", OPTION_FLAG, AT(cancel), 0, 0, NULL, "take an order away that is not done"},
    {"--state", ARG_STATE, AT(state), 0, 0, "DIR", ARG_STATE_IS},
};

/* CMD_OK, or what is wrong was said. */
static int
args_judge(struct prune_args *a)
{
	int limits = (a->before != INT64_MIN) + (a->days != UINT64_MAX) + (a->seq != UINT64_MAX);

	if (a->cancel && (limits != 0 || a->yes || a->reason != NULL))
		return args_wrong("log prune", "--cancel takes an order away, and stands alone");
	if (!a->cancel && limits != 1)
		return args_wrong("log prune",
		    "one of --before, --keep-days and --before-seq says what is to go; "
		    "%d are given",
		    limits);
	if (a->yes && a->reason == NULL)
		return args_wrong("log prune", "--yes needs --reason TEXT: why; it is recorded");
	a->limit = (struct prune_limit){
	    .seq = a->seq, .time_us = a->before != INT64_MIN ? a->before : INT64_MAX};
	if (a->days != UINT64_MAX)
		a->limit.time_us = clock_wall_us() - (int64_t)a->days * DAY_US;
	return CMD_OK;
}

/* --- the order ----------------------------------------------------------------------------- */

static int
load_key(int statedir, struct vkey *ret, struct secret **ret_sk, struct err *err)
{
	AUTO(secret) struct secret *seed = NULL, *sk = secret_new(crypto_sign_SECRETKEYBYTES);
	AUTO_BUF struct buf vkey = BUF(1024);
	AUTO_FD int fd = -1;
	uint8_t pub[32];
	int rc = log_open_file(statedir, "keys/log/seed", O_RDONLY, &fd, err);

	if (rc == 0)
		rc = secret_read_fd(fd, crypto_sign_SEEDBYTES, &seed, err);
	if (rc == 0)
		rc = log_read_file(statedir, "keys/log/vkey", &vkey, err);
	if (rc == 0)
		rc = vkey_parse(str_trim(buf_str(&vkey)), ret, err);
	if (rc != 0)
		return err_wrap(err, "keys/log");
	if (secret_str(seed).n != crypto_sign_SEEDBYTES ||
	    crypto_sign_seed_keypair(pub, secret_bytes(sk), (const uint8_t *)secret_str(seed).p) !=
		0 ||
	    memcmp(pub, ret->pub, sizeof(pub)) != 0)
		return err_set(err, ERR_CONFIG, "keys/log/seed is not the key of keys/log/vkey");
	*ret_sk = TAKE_PTR(sk);
	return 0;
}

static int
name_order(struct prune_order *o, const char *reason, struct err *err)
{
	const struct passwd *pw = getpwuid(getuid());

	if (str_text_check("a reason", str_z(reason), 1, PRUNE_REASON_MAX, err) != 0)
		return err->code;
	(void)snprintf(o->reason, sizeof(o->reason), "%s", reason);
	if (pw != NULL && str_is_ascii_print(str_z(pw->pw_name)) && pw->pw_name[0] != '\0')
		(void)snprintf(o->by, sizeof(o->by), "%s", pw->pw_name);
	else
		(void)snprintf(o->by, sizeof(o->by), "uid %u", (unsigned)getuid());
	return 0;
}

/* All of it, or none: the writer reads it by its name. */
static int
lay(int logdir, struct str note, struct err *err)
{
	struct stat st;
	int rc;

	if (unlinkat(logdir, TMP_ORDER, 0) != 0 && errno != ENOENT)
		return err_sys(err, ERR_SYSTEM, errno, TMP_ORDER);
	if ((rc = file_create(logdir, TMP_ORDER, note, 0440, err)) != 0)
		return rc;
	if (fstat(logdir, &st) != 0 ||
	    (geteuid() == 0 &&
		fchownat(logdir, TMP_ORDER, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) != 0) ||
	    renameat(logdir, TMP_ORDER, logdir, LOG_PRUNE) != 0 || fsync(logdir) != 0)
		return err_sys(err, ERR_SYSTEM, errno, LOG_PRUNE);
	return 0;
}

static int
order(const struct cmd_place *place, struct prune_order *o, const char *reason, struct err *err)
{
	AUTO_BUF struct buf text = BUF(PRUNE_ORDER_MAX), note = BUF(PRUNE_ORDER_MAX);
	AUTO(secret) struct secret *sk = NULL;
	uint8_t sig[crypto_sign_BYTES];
	struct vkeys own = {.n = 1};
	struct prune_order again;
	int rc = name_order(o, reason, err);

	if (rc != 0 || (rc = load_key(place->statedir, &own.key[0], &sk, err)) != 0)
		return rc;
	prune_order_text(&text, o);
	buf_put_str(&note, buf_str(&text));
	buf_put_c(&note, '\n');
	(void)crypto_sign_detached(sig, NULL, text.p, text.n, secret_bytes(sk));
	note_put_sig(&note, &own.key[0], sig);
	rc = prune_order_open(buf_str(&note), &own, &again, err);
	return rc != 0 ? rc : lay(place->logdir, buf_str(&note), err);
}

/* --- what is said ---------------------------------------------------------------------------- */

static void
say(const struct prune_plan *p)
{
	const struct prune_order *o = &p->order;
	AUTO_FREE char *why = log_vis(str_z(p->why));

	if (o->from >= o->to.size)
		(void)printf("nothing can go: the log begins at record %" PRIu64, o->from);
	else
		(void)printf("%" PRIu64 " segments, records %" PRIu64 " to %" PRIu64 ", %" PRIu64
			     " bytes would go\n"
			     "what stays of them: the hash of each record, and %" PRIu64
			     " records with their contents, of policies,\n"
			     "freezes, keys and erasures, of runs that go on behind (%" PRIu64
			     " runs have records there), and what\n"
			     "still counts for a rate\n"
			     "all stays from record %" PRIu64 " on",
		    o->segments, o->from, o->to.size - 1, o->bytes, o->kept, p->runs, o->to.size);
	(void)printf("%s%s\n", why[0] != '\0' ? ": " : "", why);
}

static int
is_waiting(int logdir, struct err *err)
{
	if (faccessat(logdir, LOG_PRUNE, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
		return 0;
	return err_set(err, ERR_STATE,
	    "an order to prune is there: the broker is at it, or does it when it starts; if it "
	    "refused it, its log says why (--cancel takes it away)");
}

static int
cancel(int logdir, struct err *err)
{
	if (unlinkat(logdir, LOG_PRUNE, 0) != 0)
		return errno == ENOENT ? err_set(err, ERR_NOT_FOUND, "no order to prune is there")
				       : err_sys(err, ERR_SYSTEM, errno, LOG_PRUNE);
	(void)printf(
	    "the order to prune is taken away; what the broker had begun with is gone, and on "
	    "the record\n");
	return fsync(logdir) != 0 ? err_sys(err, ERR_SYSTEM, errno, LOG_PRUNE) : 0;
}

/* Only a log without a finding is pruned: what is wrong with it would go as well. */
static int
look(const struct cmd_place *place, struct verdict *v, struct err *err)
{
	const struct cosigners none = {0};
	AUTO_BUF struct buf out = BUF(65536);
	struct vkeys keys;
	int rc = cmd_place_keys(place, NULL, &keys, err);

	if (rc == 0)
		rc = verify_log(place->logdir, &keys, NULL, 0, v, err);
	if (rc == 0)
		rc = verify_witnesses(place->logdir, &keys, &none, v, err);
	if (rc != 0 || (verdict_status(v) != 1 && verdict_status(v) != 2))
		return rc;
	verdict_put(&out, v);
	(void)fwrite(out.p, 1, out.n, stdout);
	return err_set(err, ERR_TAMPER, "the log does not verify: nothing of it is pruned");
}

static int
prune(const struct prune_args *a, const struct cmd_place *place, struct err *err)
{
	struct prune_plan plan;
	struct verdict v;
	int rc;

	if ((rc = is_waiting(place->logdir, err)) != 0 || (rc = look(place, &v, err)) != 0 ||
	    (rc = prune_plan(place->logdir, &v, &a->limit, a->yes, &plan, err)) != 0)
		return rc;
	say(&plan);
	if (plan.order.from >= plan.order.to.size || !a->yes) {
		if (!a->yes)
			(void)printf("nothing was changed: --yes --reason TEXT orders it\n");
		return 0;
	}
	if ((rc = order(place, &plan.order, a->reason, err)) != 0)
		return rc;
	(void)printf("ordered: the broker records it and takes them away, now or when it starts\n");
	return 0;
}

int
cmd_log_prune(int argc, char **argv)
{
	AUTO_PLACE struct cmd_place place = {-1, -1};
	struct prune_args a = {.before = INT64_MIN, .days = UINT64_MAX, .seq = UINT64_MAX};
	struct err err = {0};
	int rc;

	if (!ARGS_READ("log prune", rows, argc, argv, &a))
		return CMD_USAGE;
	if ((rc = args_judge(&a)) != CMD_OK)
		return rc;
	if ((rc = cmd_place_open(a.state, NULL, &place, &err)) == 0 && place.statedir < 0)
		rc = err_set(&err, ERR_CONFIG, "prune needs a state directory, with the log's key");
	if (rc == 0)
		rc = a.cancel ? cancel(place.logdir, &err) : prune(&a, &place, &err);
	return rc != 0 ? log_fail(&err) : CMD_OK;
}
