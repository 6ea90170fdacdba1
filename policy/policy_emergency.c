/*
 * The section "emergency": who may freeze, and how break-glass may be used. Runs in the command
 * line on source and in core on bundles. What is left out is the default, which people are told of
 * in docs/format-lift.md; a freeze that nobody could lift again is an error.
 */
#include <stddef.h>

#include "policy/lift.h"
#include "policy/policy_internal.h"

#include "common/banned.h"

#define ANSWER_DEFAULT_S 300
#define OFFHOST_DEFAULT_S 30
#define OFFHOST_MAX_S 50 /* the person's command waits for it */
#define OFFHOST_NAME_MAX 32

static int
read_verified(struct reader *r, const struct json *v, void *out, struct err *err)
{
	bool *ret = out;

	if (!str_eqz(json_str(v), "any") && !str_eqz(json_str(v), "verified"))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "key must be \"any\" or \"verified\" (a hardware key with user verification)");
	*ret = str_eqz(json_str(v), "verified");
	return 0;
}

static int
read_max(struct reader *r, const struct json *v, void *out, struct err *err)
{
	return read_duration(r, v, "max", 1, LIFT_GLASS_MAX_S, out, err);
}

static int
read_answer(struct reader *r, const struct json *v, void *out, struct err *err)
{
	return read_duration(r, v, "answer_within", 0, LIFT_GLASS_MAX_S, out, err);
}

/* The name of a webhook in broker.json, which this cannot see. */
static int
read_offhost(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct str s = json_str(v), *ret = out;
	bool ok = s.n != 0 && s.n <= OFFHOST_NAME_MAX;

	for (size_t i = 0; i < s.n; i++)
		ok = ok && ((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9') ||
			       s.p[i] == '-');
	if (!ok)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "offhost is the name of a webhook in broker.json: 1 to %d of a-z, 0-9 and '-'",
		    OFFHOST_NAME_MAX);
	*ret = arena_str(r->p->mem, s);
	return 0;
}

static int
read_offhost_within(struct reader *r, const struct json *v, void *out, struct err *err)
{
	return read_duration(r, v, "offhost_within", 1, OFFHOST_MAX_S, out, err);
}

static int
read_glass(struct reader *r, const struct json *v, void *out, struct err *err)
{
	static const struct read_field fields[] = {
	    {"answer_within", read_answer, offsetof(struct emergency, glass_answer_s), false},
	    {"key", read_verified, offsetof(struct emergency, glass_verified), false},
	    {"max", read_max, offsetof(struct emergency, glass_max_s), false},
	    {"offhost", read_offhost, offsetof(struct emergency, glass_offhost), false},
	    {"offhost_within", read_offhost_within, offsetof(struct emergency, glass_offhost_s),
		false},
	};

	return read_object(r, v, "breakglass", fields, ARRAY_LEN(fields), out, err);
}

/* People who hold one of the roles. */
static unsigned
holders(const struct policy *p, const struct strs *roles)
{
	unsigned n = 0;

	for (size_t i = 0; i < p->npeople; i++) {
		bool holds = false;

		for (size_t k = 0; k < roles->n; k++)
			holds = holds || policy_person_has_role(&p->people[i], roles->v[k]);
		n += holds && p->people[i].nkeys != 0;
	}
	return n;
}

/* Somebody with a key (a hardware key, if `hardware`) has this role. */
static bool
somebody(const struct policy *p, const char *role, bool hardware)
{
	for (size_t i = 0; i < p->npeople; i++) {
		const struct policy_person *q = &p->people[i];

		if (!policy_person_has_role(q, str_z(role)))
			continue;
		for (size_t k = 0; k < q->nkeys; k++)
			if (!hardware || p->opaque_keys || q->keys[k].hardware)
				return true;
	}
	return false;
}

/* Found out here, and not in the night in which the glass is to be broken. */
void
policy_warn_override(struct reader *r, const struct json *v, const struct rule *rule)
{
	const struct policy *p = r->p;
	bool verified = p->emergency.glass_verified;

	if (p->npeople == 0 || rule->kind != RULE_FORBID)
		return;
	if (rule->override == OVERRIDE_BREAKGLASS && !somebody(p, "breakglass", verified))
		read_warn(r, v,
		    "rule %.*s says that break-glass lifts it, and nobody with a %skey has role "
		    "breakglass: nobody could",
		    STR_ARG(rule->id), verified ? "hardware " : "");
	if (rule->override == OVERRIDE_EXCEPTION && !somebody(p, "change-manager", false))
		read_warn(r, v,
		    "rule %.*s says that an exception lifts it, and nobody with a key has role "
		    "change-manager, who must sign each: nobody could",
		    STR_ARG(rule->id));
}

int
policy_check_emergency(struct reader *r, struct err *err)
{
	const struct strs *roles = &r->p->emergency.freeze_roles;
	const struct json *v = json_get(r->parts[0].v, "emergency");

	if (roles->n == 0 || holders(r->p, roles) >= LIFT_FREEZE_SIGNERS)
		return 0;
	r->doc = r->parts[0].doc;
	return json_err(r->doc, v, err, ERR_INVALID,
	    "an emergency freeze is lifted by %d people: fewer have a key and one of the roles in "
	    "\"freeze\"",
	    LIFT_FREEZE_SIGNERS);
}

int
policy_read_emergency(struct reader *r, const struct json *v, void *out, struct err *err)
{
	static const struct read_field fields[] = {
	    {"breakglass", read_glass, 0, false},
	    {"freeze", read_ids, offsetof(struct emergency, freeze_roles), false},
	};
	struct policy *p = out;
	struct emergency *e = &p->emergency;
	int rc = read_object(r, v, "emergency", fields, ARRAY_LEN(fields), e, err);

	e->said = rc == 0;
	return rc;
}

void
policy_emergency_defaults(struct policy *p)
{
	p->emergency.glass_max_s = LIFT_GLASS_MAX_S;
	p->emergency.glass_answer_s = ANSWER_DEFAULT_S;
	p->emergency.glass_offhost_s = OFFHOST_DEFAULT_S;
}

static void
put_duration(struct jcs *j, const char *key, int64_t s)
{
	AUTO_BUF struct buf b = BUF(32);

	buf_printf(&b, "%llds", (long long)s);
	jcs_str(j, key, buf_str(&b));
}

/* A policy that says nothing of it has the bundle, and the digest, that it had before. */
void
policy_emit_emergency(const struct policy *p, struct jcs *j)
{
	const struct emergency *e = &p->emergency;

	if (!e->said)
		return;
	jcs_open(j, "emergency");
	jcs_open(j, "breakglass");
	put_duration(j, "answer_within", e->glass_answer_s);
	jcs_z(j, "key", e->glass_verified ? "verified" : "any");
	put_duration(j, "max", e->glass_max_s);
	if (e->glass_offhost.n != 0) {
		jcs_str(j, "offhost", e->glass_offhost);
		put_duration(j, "offhost_within", e->glass_offhost_s);
	}
	jcs_close(j);
	if (e->freeze_roles.n != 0) {
		jcs_array(j, "freeze");
		for (size_t i = 0; i < e->freeze_roles.n; i++)
			jcs_str(j, NULL, e->freeze_roles.v[i]);
		jcs_array_end(j);
	}
	jcs_close(j);
}

struct policy_emergency
policy_emergency(const struct policy *p)
{
	const struct emergency *e = &p->emergency;

	return (struct policy_emergency){.nfreeze_roles = e->freeze_roles.n,
	    .freeze_roles = e->freeze_roles.v,
	    .glass_verified = e->glass_verified,
	    .glass_max_s = e->glass_max_s,
	    .glass_answer_s = e->glass_answer_s,
	    .glass_offhost = e->glass_offhost,
	    .glass_offhost_s = e->glass_offhost_s};
}
