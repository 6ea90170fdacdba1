/*
 * Destroys keys of sealed content (process: core). Order is the promise: what is to go is written
 * down beside the keys, then recorded, then destroyed, and only then forgotten; whoever is killed
 * in between finds it at the next start of core or of the writer and goes on. Takes which runs
 * these are from the operator, who could delete the files alike; never touches the key of a run
 * that is not over, nor that of the policies.
 */
#include "broker/core_erase.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "audit/blob.h"
#include "audit/erasure.h"
#include "audit/record.h"
#include "broker/core_data.h"
#include "broker/core_peer.h"
#include "broker/core_policy.h"
#include "broker/core_record.h"
#include "broker/core_run.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "policy/lift.h"

#include "common/banned.h"

#define JOURNAL "erasing" /* the record's data and LF; no key's name ends so */
#define SUBJECT_MAX 200

struct core_erase {
	struct core *core;
	uint64_t peer; /* 0: nobody waits for the answer */
	struct core_ticket *ticket;
	struct json_doc *data;
};

void
core_erase_free(struct core *c)
{
	struct core_erase *e = TAKE_PTR(c->erase);

	if (e == NULL)
		return;
	core_record_forget(e->ticket);
	json_free(e->data);
	free(e);
}

/* --- the journal --------------------------------------------------------------------- */

static int
journal_write(const struct core *c, struct str data, struct err *err)
{
	AUTO_BUF struct buf b = BUF(CORE_RECORD_DATA_MAX + 1);
	AUTO_FD int fd = openat(
	    c->blobkeys_fd, JOURNAL, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "keys/blob/" JOURNAL);
	buf_put_str(&b, data);
	buf_put_c(&b, '\n');
	if (write(fd, b.p, b.n) != (ssize_t)b.n || fsync(fd) != 0 || fsync(c->blobkeys_fd) != 0) {
		int e = errno;

		(void)unlinkat(c->blobkeys_fd, JOURNAL, 0);
		return err_sys(err, ERR_SYSTEM, e, "keys/blob/" JOURNAL);
	}
	return 0;
}

static int
journal_end(const struct core *c, struct err *err)
{
	if (unlinkat(c->blobkeys_fd, JOURNAL, 0) != 0 || fsync(c->blobkeys_fd) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "keys/blob/" JOURNAL);
	return 0;
}

/* NULL: there is none. One that was cut off in the writing was never answered for: it goes. */
static struct json_doc *
journal_read(const struct core *c)
{
	AUTO_BUF struct buf b = BUF(CORE_RECORD_DATA_MAX + 1);
	AUTO_FD int fd = openat(c->blobkeys_fd, JOURNAL, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct json_doc *doc = NULL;
	struct err err = {0};
	ssize_t n;

	if (fd < 0)
		return NULL;
	while ((n = read(fd, buf_grow(&b, 4096), 4096)) > 0)
		b.n -= 4096 - (size_t)n;
	if (n == 0)
		b.n -= 4096;
	if (n == 0 && b.n != 0 && b.p[b.n - 1] == '\n' &&
	    json_parse(str_mem(b.p, b.n - 1), JOURNAL, &doc, &err) == 0)
		return doc;
	log_warn("an erasure that had not begun is dropped: %s", err.msg);
	if (journal_end(c, &err) != 0)
		log_error("%s", err.msg);
	return NULL;
}

/* --- destroying ---------------------------------------------------------------------- */

/* Overwritten in place first: a file system that keeps old blocks may keep it all the same. */
static int
key_destroy(const struct core *c, struct str run, bool *ret_was, struct err *err)
{
	static const uint8_t nothing[BLOB_KEY_LEN];
	AUTO_FREE char *name = xasprintf("%.*s.key", STR_ARG(run));
	AUTO_FD int fd = openat(c->blobkeys_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

	*ret_was = fd >= 0;
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(err, ERR_SYSTEM, errno, "%s", name);
	if (pwrite(fd, nothing, sizeof(nothing), 0) != sizeof(nothing) || fsync(fd) != 0 ||
	    unlinkat(c->blobkeys_fd, name, 0) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", name);
	return 0;
}

static int
destroy(const struct core_erase *e, int64_t *ret_destroyed, struct err *err)
{
	const struct json *runs = json_get(json_root(e->data), "runs");
	int64_t n = 0;

	for (size_t i = 0; i < json_count(runs); i++) {
		bool was;
		int rc = key_destroy(e->core, json_str(json_at(runs, i)), &was, err);

		if (rc != 0)
			return rc;
		n += was;
	}
	if (fsync(e->core->blobkeys_fd) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "keys/blob");
	*ret_destroyed = n;
	return journal_end(e->core, err);
}

static void
answer(struct core_erase *e, const struct core_ack *ack, int64_t destroyed)
{
	const struct json *root = json_root(e->data);
	AUTO_BUF struct buf b = BUF(1024);
	struct jcs j;

	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_int(&j, "destroyed", destroyed);
	jcs_int(&j, "gone", (int64_t)json_count(json_get(root, "runs")) - destroyed);
	jcs_str(&j, "id", json_str(json_get(root, "id")));
	jcs_int(&j, "seq", (int64_t)ack->seq);
	jcs_close(&j);
	core_control_reply(e->core, e->peer, 0, buf_str(&b));
}

static void
on_recorded(void *arg, const struct core_ack *ack)
{
	struct core_erase *e = arg;
	struct core *c = e->core;
	struct err err = {0};
	int64_t destroyed = 0;
	int rc = ack->code;

	e->ticket = NULL;
	if (rc != 0)
		(void)err_set(&err, rc,
		    "the erasure is not on the record yet; it is done when the log is there again");
	else
		rc = destroy(e, &destroyed, &err);
	if (rc == 0) {
		log_info("record %llu: %lld keys of sealed content destroyed",
		    (unsigned long long)ack->seq, (long long)destroyed);
		answer(e, ack, destroyed);
	} else {
		log_error("erasure: %s", err.msg);
		core_control_reply(c, e->peer, rc, str_z(err.msg));
	}
	core_erase_free(c);
}

/* Takes doc. */
static int
begin(struct core *c, struct json_doc *doc, uint64_t peer, struct err *err)
{
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX);
	struct core_erase *e = xcalloc(1, sizeof(*e));
	struct jcs j;

	jcs_init(&j, &data);
	(void)jcs_value(&j, NULL, json_root(doc), NULL);
	*e = (struct core_erase){.core = c, .peer = peer, .data = doc};
	c->erase = e;
	e->ticket = core_record(c, &(struct core_append){.type = "erasure",
				       .src = "operator",
				       .flags = CORE_REC_CHECKPOINT,
				       .data = &data,
				       .fn = on_recorded,
				       .arg = e});
	if (e->ticket != NULL)
		return 0;
	core_erase_free(c);
	return err_set(err, ERR_UNAVAILABLE,
	    "the decision log takes no records now; the erasure is done when it is there again");
}

void
core_erase_settle(struct core *c)
{
	struct json_doc *doc = c->erase == NULL ? journal_read(c) : NULL;
	struct err err = {0};

	if (doc != NULL && begin(c, doc, 0, &err) != 0)
		log_error("%s", err.msg);
}

/* --- asking -------------------------------------------------------------------------- */

static int
check_run(const struct core *c, struct str run, struct err *err)
{
	if (!record_run_ok(run) || run.n > CORE_ID_SIZE || !str_has_prefix(run, "r-"))
		return err_set(err, ERR_INVALID, "\"%.*s\" is no run", STR_ARG(run));
	if (core_run_find(c, run) != NULL)
		return err_set(err, ERR_STATE,
		    "run %.*s is not over: revoke it first (cofferdam revoke %.*s)", STR_ARG(run),
		    STR_ARG(run));
	return 0;
}

static int
check(const struct core_call *call, const struct core_peer *p, struct err *err)
{
	const struct core *c = call->core;
	const struct json *runs = json_get(call->args, "runs");
	struct str reason = json_str(json_get(call->args, "reason"));
	struct str subject = json_str(json_get(call->args, "subject"));
	size_t n = json_count(runs);
	int rc = 0;

	if (p == NULL || (p->uid != 0 && p->uid != c->uid))
		return err_set(err, ERR_UNAUTHORISED,
		    "only root and the broker's own user may erase, not uid %u",
		    p != NULL ? (unsigned)p->uid : 0);
	if (c->erase != NULL)
		return err_set(err, ERR_STATE, "another erasure is under way, try again");
	if (str_text_check("a reason", reason, 1, LIFT_REASON_MAX, err) != 0 ||
	    str_text_check("a subject", subject, 1, SUBJECT_MAX, err) != 0)
		return err->code;
	if (n == 0 || n > ERASURE_RUNS_MAX)
		return err_set(
		    err, ERR_INVALID, "an erasure has 1 to %d runs, not %zu", ERASURE_RUNS_MAX, n);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = check_run(c, json_str(json_at(runs, i)), err);
	return rc;
}

static void
put_data(struct buf *out, const struct core_call *call, const struct core_peer *p)
{
	const struct json *runs = json_get(call->args, "runs");
	struct str id = json_str(json_get(call->args, "id"));
	const char *login = core_peer_login(p);
	AUTO_FREE char *by = login != NULL ? xstrdup(login) : xasprintf("uid %u", p->uid);
	char fresh[CORE_ID_SIZE];
	struct jcs j;

	core_id(fresh, "e-");
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "by", by);
	jcs_str(&j, "id", record_run_ok(id) ? id : str_z(fresh));
	jcs_str(&j, "reason", json_str(json_get(call->args, "reason")));
	jcs_array(&j, "runs");
	for (size_t i = 0; i < json_count(runs); i++)
		jcs_str(&j, NULL, json_str(json_at(runs, i)));
	jcs_array_end(&j);
	jcs_str(&j, "subject", json_str(json_get(call->args, "subject")));
	jcs_close(&j);
}

int
core_erase_verb(struct core_call *call, struct err *err)
{
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX);
	const struct core_peer *p = core_peer_by_serial(call->core, call->peer);
	struct json_doc *doc = NULL;
	int rc = check(call, p, err);

	if (rc != 0)
		return rc;
	core_erase_settle(call->core);
	if (call->core->erase != NULL)
		return err_set(
		    err, ERR_STATE, "an earlier erasure is being finished first, try again");
	put_data(&data, call, p);
	if (buf_over(&data))
		return err_set(err, ERR_TOO_LARGE, "an erasure's record is over %zu bytes",
		    CORE_RECORD_DATA_MAX);
	if ((rc = json_parse(buf_str(&data), JOURNAL, &doc, err)) != 0)
		return rc;
	if ((rc = journal_write(call->core, buf_str(&data), err)) != 0) {
		json_free(doc);
		return rc;
	}
	rc = begin(call->core, doc, call->peer, err);
	return rc != 0 ? rc : CORE_CALL_LATER;
}
