/*
 * `cofferdam log verify --deep`: opens each sealed content against what its record committed to,
 * and builds anew each statement that people signed, from the records alone, to hold their
 * signatures against it. Runs as whoever wants to know; without the keys of the content it looks
 * into less, and says so. Trusts no record: what does not fit is a finding, never an error.
 */
#include "cmd/cmd_log_deep.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "audit/canon.h"
#include "audit/erasure.h"
#include "audit/pack.h"
#include "cmd/cmd_replay_policies.h"
#include "common/clock.h"
#include "common/sig.h"
#include "common/xalloc.h"
#include "policy/effect.h"
#include "policy/lift.h"
#include "policy/statement.h"

#include "common/banned.h"

/* A request that people may sign: approval.request, or KIND.request of a lift. */
struct asked {
	struct asked *next;
	struct json_doc *doc; /* its data */
	bool lift, shown;
	enum lift_kind kind;
	char *run, *log_head;
	struct buf show;
};

struct deep {
	struct replay_blobs *blobs;
	struct replay_policies *policies;
	struct erasures *erasures;
	log_deep_fn *fn;
	void *arg;
	struct asked *asked;
	char *origin;
	char broker[80], policy[HASH_HEX_SIZE]; /* in force where reading is */
	uint64_t opened, erased, kept, sealed, signatures, unproved;
	char sealed_why[ERR_MSG_MAX], unproved_why[ERR_MSG_MAX];
};

static void PRINTF_LIKE(4, 5)
    found(struct deep *d, enum log_kind kind, uint64_t seq, const char *fmt, ...)
{
	struct log_fault f = {.kind = kind, .seq = seq, .last = seq};
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f.text, sizeof(f.text), fmt, ap);
	va_end(ap);
	d->fn(d->arg, &f);
}

/* The first reason is told. */
static void
left(uint64_t *n, char why[ERR_MSG_MAX], const char *msg)
{
	if ((*n)++ == 0)
		(void)snprintf(why, ERR_MSG_MAX, "%s", msg);
}

/* --- content ------------------------------------------------------------------------------- */

static bool
check_content(struct deep *d, const struct record *r, struct buf *out)
{
	struct err why = {0};
	struct str ref;
	const struct erasure *gone;
	int rc;

	if (!pack_ref(r, &ref))
		return false;
	gone = erasures_find(d->erasures, canon_plain(canon_get(ref, "kid")));
	rc = replay_blobs_read(d->blobs, ref, out, &why);
	if (rc == 0) {
		d->opened++;
		d->kept += gone != NULL;
	} else if (rc == ERR_UNAVAILABLE && gone != NULL) {
		d->erased++;
	} else if (rc == ERR_UNAVAILABLE) {
		left(&d->sealed, d->sealed_why, why.msg);
	} else if (rc != ERR_NOT_FOUND) { /* in no pack: that is a finding already */
		found(d, LOG_KIND_CONTENT, r->seq, "%s", why.msg);
	}
	return rc == 0;
}

/* --- requests ------------------------------------------------------------------------------ */

static void
asked_free(struct asked *a)
{
	json_free(a->doc);
	free(a->run);
	free(a->log_head);
	buf_free(&a->show);
	free(a);
}

static struct asked *
asked_find(const struct deep *d, struct str id)
{
	for (struct asked *a = d->asked; a != NULL; a = a->next)
		if (str_eq(json_str(json_get(json_root(a->doc), "id")), id))
			return a;
	return NULL;
}

/* KIND of "KIND.what"; false: not one of the three. */
static bool
lift_type(struct str type, const char *what, enum lift_kind *ret)
{
	struct str kind;

	return str_cut(&type, '.', &kind) && str_eqz(type, what) && lift_kind_parse(kind, ret);
}

/* Its statement names the log right behind its own record. */
static void
take_request(struct deep *d, const struct record *r, const struct tree_range *tree, bool lift,
    enum lift_kind kind)
{
	struct asked *a = xcalloc(1, sizeof(*a));
	struct hash root = tree_root(tree);
	AUTO_BUF struct buf b64 = BUF(64);
	struct err why = {0};

	buf_init(&a->show, BLOB_PLAIN_MAX);
	if (json_parse(r->data, "request", &a->doc, &why) != 0) {
		found(d, LOG_KIND_SIGNATURE, r->seq, "%.120s", why.msg);
		free(a);
		return;
	}
	enc_base64(&b64, str_mem(root.b, HASH_LEN));
	a->log_head = xasprintf("%s %" PRIu64 " %.*s", d->origin != NULL ? d->origin : "",
	    r->seq + 1, STR_ARG(buf_str(&b64)));
	a->run = str_dup(r->run);
	a->lift = lift;
	a->kind = kind;
	a->shown = !lift && check_content(d, r, &a->show);
	a->next = d->asked;
	d->asked = a;
}

static int64_t
time_of(const struct json *o, const char *key)
{
	int64_t us = 0;

	return clock_parse(json_str(json_get(o, key)), &us, NULL) == 0 ? us : 0;
}

static uint32_t
effects_of(const struct json *o)
{
	const struct json *names = json_get(o, "effects");
	uint32_t set = 0;

	for (size_t i = 0; i < json_count(names); i++)
		set |= effect_parse(json_str(json_at(names, i)));
	return set;
}

/* --- statements ------------------------------------------------------------------------------ */

static void
put_digest(char out[80], struct str hex)
{
	(void)snprintf(out, 80, "sha256:%.*s", hex.n < 70 ? (int)hex.n : 70, hex.p);
}

static int
approval_bytes(const struct deep *d, const struct asked *a, const char *decision,
    const struct json *sign, struct buf *out, struct err *err)
{
	const struct json *o = json_root(a->doc), *max_rows = json_get(o, "max_rows");
	AUTO_BUF struct buf effects = BUF(4096);
	char action[80], policy[80];

	put_digest(action, json_str(json_get(o, "action")));
	put_digest(policy, json_str(json_get(o, "policy")));
	effect_put(&effects, effects_of(o));
	return statement_bytes(&(struct statement){.decision = str_z(decision),
				   .broker = str_z(d->broker),
				   .request = json_str(json_get(o, "id")),
				   .action = str_z(action),
				   .policy = str_z(policy),
				   .log_head = str_z(a->log_head),
				   .agent = json_str(json_get(o, "agent")),
				   .run = str_z(a->run),
				   .owner = json_str(json_get(o, "owner")),
				   .target = json_str(json_get(o, "target")),
				   .effects = buf_str(&effects),
				   .rule = json_str(json_get(o, "rule")),
				   .role = json_str(json_get(sign, "role")),
				   .approver = json_str(json_get(sign, "person")),
				   .note = json_str(json_get(sign, "note")),
				   .max_rows = max_rows != NULL ? json_int(max_rows) : -1,
				   .preview = json_str(json_get(o, "preview")),
				   .not_before_us = time_of(o, "not_before"),
				   .approve_by_us = time_of(o, "approve_by"),
				   .use_within_s = json_int(json_get(o, "use_within")),
				   .show = buf_str(&a->show)},
	    out, err);
}

static int
lift_statement(const struct deep *d, const struct asked *a, const struct json *sign,
    struct buf *out, struct err *err)
{
	const struct json *o = json_root(a->doc);
	char policy[80];
	struct lift_signer s = {
	    .decision = lift_decision_parse(a->kind, json_str(json_get(sign, "decision"))),
	    .role = json_str(json_get(sign, "role")),
	    .person = json_str(json_get(sign, "person")),
	    .note = json_str(json_get(sign, "note"))};

	put_digest(policy, json_str(json_get(o, "policy")));
	if (s.decision == LIFT_NOTHING)
		return err_set(
		    err, ERR_TAMPER, "its decision is none of a %s", lift_kind_name(a->kind));
	return lift_bytes(&(struct lift){.kind = a->kind,
			      .id = json_str(json_get(o, "id")),
			      .broker = str_z(d->broker),
			      .policy = str_z(policy),
			      .log_head = str_z(a->log_head),
			      .rule = json_str(json_get(o, "rule")),
			      .target = json_str(json_get(o, "target")),
			      .env = json_str(json_get(o, "env")),
			      .run = json_str(json_get(o, "run")),
			      .effects = effects_of(o),
			      .from_us = time_of(o, "from"),
			      .to_us = time_of(o, "to"),
			      .seconds = json_int(json_get(o, "seconds")),
			      .uses = json_int(json_get(o, "uses")),
			      .ticket = json_str(json_get(o, "ticket")),
			      .reason = json_str(json_get(o, "reason")),
			      .sign_by_us = time_of(o, "sign_by")},
	    &s, out, err);
}

/* --- signatures --------------------------------------------------------------------------------
 */

/* NULL: it holds; else what is wrong with it. q NULL: the policy could not be opened. */
static const char *
wrong(const struct json *sign, struct str bytes, const struct policy_person *q, struct err *why)
{
	struct hash is = hash_sha256(bytes);
	struct sig_sshsig by;
	char hex[HASH_HEX_SIZE], fp[64];

	hash_hex(&is, hex);
	if (!str_eqz(json_str(json_get(sign, "statement")), hex))
		return "the statement built from the records is another than the one signed";
	if (sig_verify(json_str(json_get(sign, "signature")), STATEMENT_NAMESPACE, bytes,
		q != NULL ? q->keys : NULL, q != NULL ? q->nkeys : 0, &by, why) != 0)
		return why->msg;
	sig_pubkey_fingerprint(&by.key, fp);
	if (!str_eqz(json_str(json_get(sign, "key")), fp))
		return "signed by another key than the record says";
	if (q != NULL && !policy_person_has_key(q, &by.key))
		return "the key is not one of the person's in the policy";
	return NULL;
}

static void
check_signature(struct deep *d, const struct record *r, const struct asked *a, const char *decision,
    const struct json *sign)
{
	AUTO_BUF struct buf bytes = BUF(STATEMENT_MAX);
	struct err why = {0};
	struct str digest =
	    a->lift ? str_z(d->policy) : json_str(json_get(json_root(a->doc), "policy"));
	const char *unknown = NULL, *bad;
	const struct policy *p = replay_policies_get(d->policies, digest, &unknown);
	const struct policy_person *q =
	    p != NULL ? policy_person(p, json_str(json_get(sign, "person"))) : NULL;

	if (!a->lift && !a->shown) {
		left(&d->unproved, d->unproved_why, "what was shown cannot be opened");
		return;
	}
	if ((a->lift ? lift_statement(d, a, sign, &bytes, &why)
		     : approval_bytes(d, a, decision, sign, &bytes, &why)) != 0)
		bad = why.msg;
	else if (p != NULL && q == NULL)
		bad = "the person is none of the policy";
	else
		bad = wrong(sign, buf_str(&bytes), q, &why);
	if (p == NULL && (bad == NULL || bad == why.msg)) /* a browser's names no key */
		left(&d->unproved, d->unproved_why, unknown);
	else if (bad != NULL)
		found(d, LOG_KIND_SIGNATURE, r->seq, "%.150s", bad);
	else
		d->signatures++;
}

static void
take_signature(struct deep *d, const struct record *r)
{
	static const struct {
		const char *type, *decision;
	} types[] = {
	    {"approval.grant", "approve"}, {"approval.deny", "deny"}, {"approval.void", "revoke"}};
	AUTO(json) struct json_doc *doc = NULL;
	const char *decision = NULL;
	const struct asked *a;
	enum lift_kind kind;
	bool lift = lift_type(r->type, "sign", &kind);

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_eqz(r->type, types[i].type))
			decision = types[i].decision;
	if (decision == NULL && !lift)
		return;
	if (json_parse(r->data, "signature", &doc, NULL) != 0 ||
	    (!lift && json_get(json_root(doc), "signature") == NULL &&
		str_eqz(r->type, "approval.void")))
		return; /* voided by the broker itself */
	a = asked_find(d, json_str(json_get(json_root(doc), "id")));
	if (a == NULL || a->lift != lift || (lift && a->kind != kind))
		found(d, LOG_KIND_SIGNATURE, r->seq, "what it signs was never asked for");
	else
		check_signature(d, r, a, decision, json_root(doc));
}

/* --- all -----------------------------------------------------------------------------------------
 */

static void
take_broker(struct deep *d, const struct record *r)
{
	struct str vkey = canon_plain(canon_get(r->data, "vkey"));
	struct hash h = hash_sha256(vkey);
	char hex[HASH_HEX_SIZE];

	hash_hex(&h, hex);
	put_digest(d->broker, str_z(hex));
	if (str_eqz(r->type, "log.open")) {
		free(d->origin);
		d->origin = str_dup(canon_plain(canon_get(r->data, "origin")));
	}
}

static void
take(struct deep *d, const struct record *r, const struct tree_range *tree)
{
	AUTO_BUF struct buf plain = BUF(BLOB_PLAIN_MAX);
	struct str digest = canon_plain(canon_get(r->data, "digest"));
	enum lift_kind kind = LIFT_KIND_FREEZE;

	if (str_eqz(r->type, "log.open") || str_eqz(r->type, "log.key"))
		take_broker(d, r);
	if (str_eqz(r->type, "policy.load")) {
		replay_policies_take(d->policies, r);
		(void)snprintf(d->policy, sizeof(d->policy), "%.*s",
		    digest.n < sizeof(d->policy) ? (int)digest.n : 0, digest.p);
	}
	if (str_eqz(r->type, "approval.request"))
		take_request(d, r, tree, false, kind);
	else if (lift_type(r->type, "request", &kind))
		take_request(d, r, tree, true, kind);
	else
		(void)check_content(d, r, &plain);
	take_signature(d, r);
}

static int
read_all(struct deep *d, int logdir, uint64_t size, struct err *err)
{
	struct chain *c = NULL;
	struct record rec;
	struct hash leaf;
	int r = chain_open(logdir, size, &c, err);

	while (r == 0 && chain_size(c) < size && (r = chain_next(c, &rec, &leaf, err)) == 1) {
		take(d, &rec, chain_tree(c));
		r = 0;
	}
	chain_free(c);
	return r;
}

static void
deep_put(const struct deep *d, struct buf *out)
{
	buf_printf(out, "%" PRIu64 " sealed contents opened and hold, %" PRIu64 " are erased\n",
	    d->opened, d->erased);
	buf_printf(out, "%" PRIu64 " signatures of people hold over statements built anew\n",
	    d->signatures);
	if (d->sealed != 0)
		buf_printf(out, "%" PRIu64 " sealed contents were not opened: %s\n", d->sealed,
		    d->sealed_why);
	if (d->kept != 0)
		buf_printf(out,
		    "%" PRIu64 " of the contents opened are erased by a record, and their keys "
		    "are still there\n",
		    d->kept);
	if (d->unproved != 0)
		buf_printf(out, "%" PRIu64 " signatures could not be held against anything: %s\n",
		    d->unproved, d->unproved_why);
}

int
log_deep(const struct cmd_place *place, uint64_t size, log_deep_fn *fn, void *arg, struct buf *out,
    uint64_t *ret, struct err *err)
{
	AUTO_FD int keysdir = place->statedir < 0 ? -1
						  : openat(place->statedir, "keys/blob",
							O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct deep d = {.fn = fn, .arg = arg};
	int r = replay_blobs_open(place->logdir, keysdir, &d.blobs, err);

	if (r == 0 && size != 0)
		r = erasures_read(place->logdir, &d.erasures, err);
	if (r == 0) {
		d.policies = replay_policies_new(d.blobs, place->statedir);
		r = size != 0 ? read_all(&d, place->logdir, size, err) : 0;
		*ret = d.sealed + d.kept + d.unproved;
		deep_put(&d, out);
	}
	while (d.asked != NULL) {
		struct asked *a = d.asked;

		d.asked = a->next;
		asked_free(a);
	}
	replay_policies_free(d.policies);
	replay_blobs_free(d.blobs);
	erasures_free(d.erasures);
	free(d.origin);
	return r;
}
