/*
 * A policy from JSON: the top level and its order. Source runs in the command line, bundles
 * in core. Half a policy is none: the first error ends it, and nothing of it is kept.
 */
#include "policy/policy_internal.h"

#include <stddef.h>

#include "common/tz.h"
#include "policy/facts.h"

#include "common/banned.h"

#define POLICY_MEMORY_MAX ((size_t)512 << 20) /* far above what the limits on the text allow */

static int
read_schema(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	const char *want = r->bundle ? "cofferdam-bundle/1" : "cofferdam-policy/1";

	if (str_eqz(json_str(v), want))
		return 0;
	return json_err(r->doc, v, err, ERR_INVALID, "schema must be \"%s\", is \"%.*s\"", want,
	    STR_ARG(json_str(v)));
}

static int
read_serial(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy *p = out;

	return read_int(r, v, "serial", 1, ((int64_t)1 << 53) - 1, &p->serial, err);
}

static int
read_clock(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy *p = out;

	if (!str_eqz(json_str(v), "kernel-sync") && !str_eqz(json_str(v), "trusted"))
		return json_err(
		    r->doc, v, err, ERR_INVALID, "clock must be kernel-sync or trusted");
	p->clock = str_eqz(json_str(v), "trusted") ? CLOCK_MODE_TRUSTED : CLOCK_MODE_KERNEL_SYNC;
	return 0;
}

/* A section that refers to others is read after them, whatever the order in the file. */
typedef int section_fn(struct reader *r, const struct json *v, struct err *err);
static const struct {
	const char *key;
	section_fn *fn;
} sections[] = {
    {"targets", policy_read_targets},
    {"people", policy_read_people},
    {"calendars", policy_read_calendars},
    {"rules", policy_read_rules},
    {"prove", policy_read_prove},
    {"cases", policy_read_cases},
};

static const struct read_field source_fields[] = {
    {"schema", read_schema, 0, true},
    {"policy", read_id, offsetof(struct policy, name), true},
    {"serial", read_serial, 0, true},
    {"clock", read_clock, 0, false},
    {"targets", read_ignore, 0, true},
    {"people", read_ignore, 0, false},
    {"calendars", read_ignore, 0, false},
    {"rules", read_ignore, 0, true},
    {"prove", read_ignore, 0, false},
    {"cases", read_ignore, 0, false},
};
static const struct read_field bundle_fields[] = {
    {"calendars", read_ignore, 0, true},
    {"clock", read_clock, 0, true},
    {"engine", read_text, offsetof(struct policy, engine), true},
    {"people", read_ignore, 0, true},
    {"policy", read_id, offsetof(struct policy, name), true},
    {"rules", read_ignore, 0, true},
    {"schema", read_schema, 0, true},
    {"serial", read_serial, 0, true},
    {"targets", read_ignore, 0, true},
    {"tzdata", read_text, offsetof(struct policy, tzdata), true},
};

int
policy_read(struct reader *r, const struct json *root, struct err *err)
{
	int rc = r->bundle ? read_object(r, root, "the bundle", bundle_fields,
				 ARRAY_LEN(bundle_fields), r->p, err)
			   : read_object(r, root, "the policy", source_fields,
				 ARRAY_LEN(source_fields), r->p, err);

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(sections); i++) {
		const struct json *v = json_get(root, sections[i].key);

		if (v != NULL)
			rc = sections[i].fn(r, v, err);
	}
	return rc != 0 ? rc : policy_check_whole(r, root, err);
}

static struct policy *
policy_new(void)
{
	struct arena *mem = arena_new(POLICY_MEMORY_MAX);
	struct policy *p = arena_alloc(mem, sizeof(*p));

	p->mem = mem;
	return p;
}

void
policy_free(struct policy *p)
{
	if (p != NULL)
		arena_free(p->mem);
}

int
policy_parse_value(const struct json_doc *doc, const struct json *v,
    const struct policy_source *src, struct policy **ret, struct buf *warnings, struct err *err)
{
	AUTO(policy) struct policy *p = policy_new();
	AUTO_BUF struct buf bundle = BUF(POLICY_BUNDLE_MAX);
	struct reader r = {.doc = doc, .p = p, .warnings = warnings, .name = src->name, .src = src};
	char tzdata[16];
	int rc;

	tz_version(src->zoneroot, tzdata);
	p->tzdata = arena_str(p->mem, str_z(tzdata));
	p->engine = STR(EFFECTS_ENGINE);
	rc = policy_read(&r, v, err);
	if (rc != 0)
		return rc;
	policy_emit(p, &bundle);
	if (buf_over(&bundle))
		return err_set(err, ERR_TOO_LARGE, "%s: the compiled policy is over %zu bytes",
		    src->name, POLICY_BUNDLE_MAX);
	p->digest = hash_sha256(buf_str(&bundle));
	*ret = TAKE_PTR(p);
	return 0;
}

int
policy_parse(struct str text, const char *name, const char *dir, const char *zoneroot,
    struct policy **ret, struct buf *warnings, struct err *err)
{
	const struct policy_source src = {.name = name, .dir = dir, .zoneroot = zoneroot};
	AUTO(json) struct json_doc *doc = NULL;
	int rc = json_parse(text, name, &doc, err);

	if (rc != 0)
		return rc;
	return policy_parse_value(doc, json_root(doc), &src, ret, warnings, err);
}

int
policy_load(struct str bundle, struct policy **ret, struct err *err)
{
	static const struct policy_source src = {.name = "bundle"};
	AUTO(policy) struct policy *p = policy_new();
	AUTO(json) struct json_doc *doc = NULL;
	struct reader r = {.p = p, .name = "bundle", .src = &src, .bundle = true};
	int rc;

	if (!jcs_is_canonical(bundle, err))
		return err_wrap(err, "bundle is not what `cofferdam policy build` writes");
	rc = json_parse(bundle, "bundle", &doc, err);
	if (rc != 0)
		return rc;
	r.doc = doc;
	rc = policy_read(&r, json_root(doc), err);
	if (rc != 0)
		return rc;
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
	for (size_t i = 0; i < p->ntargets; i++)
		if (str_eq(p->targets[i].pub.id, id))
			return &p->targets[i].pub;
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
	for (size_t i = 0; i < p->npeople; i++)
		if (str_eq(p->people[i].id, id))
			return &p->people[i];
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
		for (size_t k = 0; k < p->people[i].nkeys; k++)
			if (sig_pubkey_eq(&p->people[i].keys[k], key))
				return &p->people[i];
	return NULL;
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
