/*
 * A policy from the bundle that `build` wrote, and what its parts are. Runs in core and the
 * command line. Half a policy is none: the first error ends it, and nothing of it is kept.
 */
#include <stddef.h>

#include "policy/policy_internal.h"

#include "common/banned.h"

#define POLICY_MEMORY_MAX ((size_t)512 << 20) /* far above what the limits on the text allow */

static int
read_schema(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	if (str_eqz(json_str(v), "cofferdam-bundle/1"))
		return 0;
	return json_err(r->doc, v, err, ERR_INVALID,
	    "schema must be \"cofferdam-bundle/1\", is \"%.*s\"", STR_ARG(json_str(v)));
}

int
policy_read_serial(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy *p = out;

	return read_int(r, v, "serial", 1, ((int64_t)1 << 53) - 1, &p->serial, err);
}

int
policy_read_clock(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy *p = out;

	if (!str_eqz(json_str(v), "kernel-sync") && !str_eqz(json_str(v), "trusted"))
		return json_err(
		    r->doc, v, err, ERR_INVALID, "clock must be kernel-sync or trusted");
	p->clock = str_eqz(json_str(v), "trusted") ? CLOCK_MODE_TRUSTED : CLOCK_MODE_KERNEL_SYNC;
	return 0;
}

static const struct section *const sections[] = {
    &policy_targets_section,
    &policy_people_section,
    &policy_calendars_section,
    &policy_rules_section,
};

static const struct read_field bundle_fields[] = {
    {"attempts", policy_read_attempts, 0, false},
    {"author", read_id, offsetof(struct policy, author), false},
    {"calendars", read_ignore, 0, true},
    {"clock", policy_read_clock, 0, true},
    {"effect_requires", policy_read_requires, 0, false},
    {"emergency", policy_read_emergency, 0, false},
    {"engine", read_text, offsetof(struct policy, engine), true},
    {"owners", policy_read_owners, 0, false},
    {"people", read_ignore, 0, true},
    {"policy", read_id, offsetof(struct policy, name), true},
    {"rules", read_ignore, 0, true},
    {"schema", read_schema, 0, true},
    {"watch", read_ids, offsetof(struct policy, watch), false},
    {"serial", policy_read_serial, 0, true},
    {"targets", read_ignore, 0, true},
    {"tzdata", read_text, offsetof(struct policy, tzdata), true},
};

struct policy *
policy_new(void)
{
	struct arena *mem = arena_new(POLICY_MEMORY_MAX);
	struct policy *p = arena_alloc(mem, sizeof(*p));

	p->mem = mem;
	policy_emergency_defaults(p);
	return p;
}

void
policy_free(struct policy *p)
{
	if (p != NULL)
		arena_free(p->mem);
}

int
policy_load(struct str bundle, struct policy **ret, struct err *err)
{
	AUTO(policy) struct policy *p = policy_new();
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf again = BUF(POLICY_BUNDLE_MAX);
	struct reader r = {.p = p, .nparts = 1};
	struct place part;
	int rc;

	rc = json_parse(bundle, "bundle", &doc, err);
	if (rc != 0)
		return rc;
	part = (struct place){doc, json_root(doc)};
	r.parts = &part;
	r.doc = doc;
	rc = read_object(
	    &r, json_root(doc), "the bundle", bundle_fields, ARRAY_LEN(bundle_fields), p, err);
	if (rc == 0)
		rc = policy_read_sections(&r, sections, ARRAY_LEN(sections), err);
	if (rc != 0)
		return rc;
	/* One policy, one spelling, one digest: what we would not write, we do not load. */
	policy_emit(p, &again);
	if (!str_eq(buf_str(&again), bundle))
		return err_set(err, ERR_INVALID,
		    "bundle is not what `cofferdam policy build` writes: it is spelled another "
		    "way");
	p->digest = hash_sha256(bundle);
	*ret = TAKE_PTR(p);
	return 0;
}

/* --- what is in it ------------------------------------------------------------------- */

const struct hash *
policy_digest(const struct policy *p)
{
	return &p->digest;
}

struct str
policy_name(const struct policy *p)
{
	return p->name;
}

int64_t
policy_serial(const struct policy *p)
{
	return p->serial;
}

enum clock_mode
policy_clock(const struct policy *p)
{
	return p->clock;
}

struct str
policy_tzdata(const struct policy *p)
{
	return p->tzdata;
}

size_t
policy_target_count(const struct policy *p)
{
	return p->ntargets;
}

const struct policy_target *
policy_target_at(const struct policy *p, size_t i)
{
	return i < p->ntargets ? &p->targets[i].pub : NULL;
}

const struct policy_target *
policy_target(const struct policy *p, struct str id)
{
	size_t lo = 0, hi = p->ntargets;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int r = str_cmp(p->targets[mid].pub.id, id);

		if (r == 0)
			return &p->targets[mid].pub;
		*(r < 0 ? &lo : &hi) = r < 0 ? mid + 1 : mid;
	}
	return NULL;
}

size_t
policy_person_count(const struct policy *p)
{
	return p->npeople;
}

const struct policy_person *
policy_person_at(const struct policy *p, size_t i)
{
	return i < p->npeople ? &p->people[i] : NULL;
}

const struct policy_person *
policy_person(const struct policy *p, struct str id)
{
	size_t lo = 0, hi = p->npeople;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int r = str_cmp(p->people[mid].id, id);

		if (r == 0)
			return &p->people[mid];
		*(r < 0 ? &lo : &hi) = r < 0 ? mid + 1 : mid;
	}
	return NULL;
}

const struct policy_person *
policy_person_by_login(const struct policy *p, struct str login)
{
	for (size_t i = 0; i < p->npeople; i++)
		for (size_t k = 0; k < p->people[i].nlogins; k++)
			if (str_eq(p->people[i].logins[k], login))
				return &p->people[i];
	return NULL;
}

const struct policy_person *
policy_person_by_key(const struct policy *p, const struct sig_pubkey *key)
{
	for (size_t i = 0; i < p->npeople; i++)
		if (policy_person_has_key(&p->people[i], key))
			return &p->people[i];
	return NULL;
}

bool
policy_person_has_key(const struct policy_person *q, const struct sig_pubkey *key)
{
	for (size_t i = 0; i < q->nkeys; i++)
		if (sig_pubkey_eq(&q->keys[i], key))
			return true;
	return false;
}

bool
policy_person_has_role(const struct policy_person *q, struct str role)
{
	for (size_t i = 0; i < q->nroles; i++)
		if (str_eq(q->roles[i], role))
			return true;
	return false;
}

const char *
verdict_name(enum verdict v)
{
	switch (v) {
	case VERDICT_DENY: return "deny";
	case VERDICT_NEEDS_APPROVAL: return "needs_approval";
	case VERDICT_ALLOW: return "allow";
	}
	return "deny";
}
