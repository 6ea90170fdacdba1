/*
 * Taking a policy and letting it come into force (process: core). A bundle that is no bundle, goes
 * back, or lacks its owners' signatures changes nothing: the one in force stays, the log says why.
 * Nothing is judged by a bundle whose policy.load is not durable.
 */
#include "broker/core_policy.h"

#include <stdlib.h>

#include "broker/core_approve.h"
#include "broker/core_data.h"
#include "broker/core_lift.h"
#include "broker/core_login.h"
#include "broker/core_patch.h"
#include "broker/core_peer.h"
#include "broker/core_record.h"
#include "broker/core_sign.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "policy/succession.h"

#include "common/banned.h"

#define BUNDLE_MAX ((size_t)4 << 20)

void
core_policy_free(struct core *c)
{
	policy_free(c->policy);
	policy_free(c->policy_next);
	policy_free(c->policy_before);
	if (c->signatures != NULL)
		succession_free(c->signatures);
	free(c->signatures);
	free(c->policy_refused);
}

/* --- what the parent hands over -------------------------------------------------- */

int
core_policy_take_before(struct core *c, int fd, struct err *err)
{
	AUTO_BUF struct buf b = BUF(BUNDLE_MAX);
	struct policy *p = NULL;
	int rc = core_boot_read(fd, BUNDLE_MAX, "policy before", &b, err);

	if (rc == 0)
		rc = policy_load(buf_str(&b), &p, err);
	if (rc != 0)
		return rc;
	policy_free(c->policy_before);
	c->policy_before = p;
	return 0;
}

static void
signatures_drop(struct core *c)
{
	if (c->signatures != NULL)
		succession_free(c->signatures);
	free(c->signatures);
	c->signatures = NULL;
}

int
core_policy_take_signatures(struct core *c, int fd, struct err *err)
{
	AUTO_BUF struct buf b = BUF(SUCCESSION_FILE_MAX);
	int rc = core_boot_read(fd, SUCCESSION_FILE_MAX, "policy signatures", &b, err);

	signatures_drop(c);
	if (rc != 0)
		return rc;
	c->signatures = xcalloc(1, sizeof(*c->signatures));
	rc = succession_parse(buf_str(&b), c->signatures, err);
	if (rc != 0)
		signatures_drop(c);
	return rc;
}

static void
logins_again(struct core *c)
{
	struct core_logins *l = NULL;

	if (c->passwd_fd < 0 || core_logins_read(c->passwd_fd, &l, NULL) != 0)
		return;
	core_logins_free(c->logins);
	c->logins = l;
}

/* --- refused --------------------------------------------------------------------- */

static void
refusal_record(struct core *c)
{
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX);

	if (c->policy_refused == NULL || !c->live)
		return;
	buf_put_z(&data, c->policy_refused);
	if (core_record(c, &(struct core_append){.type = "policy.refused", .data = &data}) == NULL)
		return;
	free(c->policy_refused);
	c->policy_refused = NULL;
}

/* p may be NULL: it was no bundle at all. */
static void
refuse(struct core *c, const struct policy *p, const struct err *why)
{
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX);

	log_error("policy %.*s is refused, %s: %s",
	    STR_ARG(p != NULL ? policy_name(p) : STR("bundle")),
	    c->policy != NULL ? "the one in force stays" : "none is in force", why->msg);
	core_data_policy_refused(&data, p, why->msg);
	free(c->policy_refused);
	c->policy_refused = buf_dup_z(&data);
	refusal_record(c);
}

int
core_policy_take(struct core *c, int fd, struct err *err)
{
	AUTO_BUF struct buf b = BUF(BUNDLE_MAX);
	struct policy *p = NULL;
	struct err why = {0};
	int rc = core_boot_read(fd, BUNDLE_MAX, "policy", &b, err);

	if (rc != 0)
		return rc;
	if (b.n == 0) {
		core_boot_policy_drop(c);
		return 0;
	}
	if (policy_load(buf_str(&b), &p, &why) != 0) {
		signatures_drop(c);
		refuse(c, NULL, &why);
		return 0;
	}
	policy_free(c->policy_next);
	c->policy_next = p;
	c->no_policy = false;
	logins_again(c);
	core_boot_policy(c);
	return 0;
}

/* --- may it follow? -------------------------------------------------------------- */

static const struct policy *
the_one_before(const struct core *c)
{
	const struct policy *all[] = {c->policy, c->policy_before};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i] != NULL && hash_eq(policy_digest(all[i]), &c->last_policy))
			return all[i];
	return NULL;
}

static int
may_follow(const struct core *c, const struct policy *next, struct err *err)
{
	const struct policy *before = the_one_before(c);
	const struct succession *s = c->signatures;
	bool ours = s != NULL && hash_eq(&s->bundle, policy_digest(next));
	char hex[HASH_HEX_SIZE];

	/* The first one is trusted: the operator made the log and the policy together. */
	if (!c->last_policy_known || hash_eq(&c->last_policy, policy_digest(next)))
		return 0;
	if (before != NULL)
		return succession_check(before, next, ours ? s->sig : NULL, ours ? s->n : 0, err);
	if (policy_serial(next) <= c->last_policy_serial)
		return err_set(err, ERR_DENIED,
		    "serial must be over %lld, that of the policy before, is %lld",
		    (long long)c->last_policy_serial, (long long)policy_serial(next));
	if (c->last_policy_owners == 0)
		return 0;
	hash_hex(&c->last_policy, hex);
	return err_set(err, ERR_DENIED,
	    "%u owners of the policy before, sha256:%s, must have signed it, and neither is there: "
	    "`cofferdam policy sign` and `activate`",
	    c->last_policy_owners, hex);
}

static void
last_is(struct core *c, const struct policy *p)
{
	const struct policy_owners *o = policy_owners(p);

	c->last_policy_known = true;
	c->last_policy = *policy_digest(p);
	c->last_policy_serial = policy_serial(p);
	c->last_policy_owners = o != NULL ? o->count : 0;
}

/* --- into force ------------------------------------------------------------------ */

/* Only what was asked under this policy, and is signed by its people, stays. */
void
core_boot_requests(struct core *c)
{
	if (c->policy == NULL && !c->no_policy)
		return;
	core_lift_policy_changed(c);
	core_lift_check_log(c);
	core_approve_policy_changed(c);
	core_sign_check_log(c);
	core_approve_settle_all(c);
}

void
core_boot_policy_use(struct core *c, struct policy *p)
{
	if (p == c->policy_next)
		c->policy_next = NULL;
	if (p == c->policy_before)
		c->policy_before = NULL;
	policy_free(c->policy);
	c->policy = p;
	c->live_policy = *policy_digest(p);
	c->live_policy_known = true;
	last_is(c, p);
	signatures_drop(c);
	log_info("policy %.*s, serial %lld, is active", STR_ARG(policy_name(p)),
	    (long long)policy_serial(p));
	core_boot_requests(c);
	core_patch_policy(c);
	core_peer_listen(c);
}

static void
policy_acked(void *arg, const struct core_ack *ack)
{
	struct core *c = arg;

	c->policy_ticket = NULL;
	/* Another may have come meanwhile; it gets a record of its own. */
	if (ack->code == 0 && c->policy_next != NULL &&
	    hash_eq(policy_digest(c->policy_next), &c->policy_recording))
		core_boot_policy_use(c, c->policy_next);
	if (ack->code == 0)
		core_boot_policy(c);
	else
		log_error("policy.load could not be recorded: the policy is not active");
}

static void
policy_record(struct core *c)
{
	AUTO_BUF struct buf bundle = BUF(BUNDLE_MAX);
	AUTO_BUF struct buf data = BUF(CORE_RECORD_DATA_MAX);
	AUTO_BUF struct buf frame = BUF(CORE_RECORD_FRAMES_MAX);
	struct blob_ref ref;
	struct err err;

	if (policy_bundle(c->policy_next, &bundle, &err) != 0 ||
	    blob_seal(c->policy_blob_key, str_z(CORE_POLICY_KID), "application/json",
		buf_str(&bundle), &frame, &ref, &err) != 0) {
		log_error("policy.load: %s", err.msg);
		return;
	}
	core_data_policy_load(&data, c->policy_next, &ref);
	c->policy_recording = *policy_digest(c->policy_next);
	c->policy_ticket = core_record(c, &(struct core_append){.type = "policy.load",
					      .data = &data,
					      .frame = &frame,
					      .fn = policy_acked,
					      .arg = c});
	if (c->policy_ticket == NULL)
		log_error("policy.load cannot be recorded now");
}

static void
unload_record(struct core *c)
{
	AUTO_BUF struct buf data = BUF(16);

	buf_put_z(&data, "{}");
	if (core_record(c, &(struct core_append){.type = "policy.unload", .data = &data}) == NULL)
		log_error("policy.unload cannot be recorded now");
	else
		c->live_policy_known = false;
}

void
core_boot_policy_drop(struct core *c)
{
	c->no_policy = true;
	policy_free(c->policy_next);
	c->policy_next = NULL;
	if (c->policy != NULL) {
		log_warn("policy %.*s, serial %lld, is withdrawn: everything is refused",
		    STR_ARG(policy_name(c->policy)), (long long)policy_serial(c->policy));
		/* Whoever comes next must follow it all the same. */
		policy_free(c->policy_before);
		c->policy_before = c->policy;
	}
	c->policy = NULL;
	core_boot_requests(c);
	core_boot_policy(c);
}

/* False: policy_next was refused; where none is in force, the log's own is, if it is at hand. */
static bool
next_follows(struct core *c)
{
	struct err why = {0};

	if (may_follow(c, c->policy_next, &why) == 0)
		return true;
	refuse(c, c->policy_next, &why);
	policy_free(c->policy_next);
	c->policy_next = NULL;
	signatures_drop(c);
	if (c->policy == NULL && c->policy_before != NULL && c->live_policy_known &&
	    hash_eq(policy_digest(c->policy_before), &c->live_policy))
		core_boot_policy_use(c, c->policy_before);
	return false;
}

void
core_boot_policy(struct core *c)
{
	if (!c->live || !c->serving || c->policy_ticket != NULL)
		return;
	refusal_record(c);
	if (c->policy_next == NULL) {
		if (c->no_policy && c->live_policy_known)
			unload_record(c);
		return;
	}
	if (!next_follows(c))
		return;
	/* The log's last policy.load is this one, and it is not from before another that is active
	 * now. */
	if (c->live_policy_known && hash_eq(&c->live_policy, policy_digest(c->policy_next)) &&
	    c->policy == NULL)
		core_boot_policy_use(c, c->policy_next);
	else
		policy_record(c);
}

/* --- the log's own word ---------------------------------------------------------- */

void
core_policy_live_begin(struct core *c)
{
	c->live_policy_known = c->last_policy_known = false;
}

bool
core_policy_live(struct core *c, const struct json *data, bool unload)
{
	if (unload) {
		c->live_policy_known = false;
		return true;
	}
	if (!hash_from_hex(json_str(json_get(data, "digest")), &c->live_policy))
		return false;
	c->live_policy_known = c->last_policy_known = true;
	c->last_policy = c->live_policy;
	c->last_policy_serial = json_int(json_get(data, "serial"));
	c->last_policy_owners = (unsigned)json_int(json_get(data, "owners"));
	return true;
}
