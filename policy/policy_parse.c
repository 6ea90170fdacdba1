/*
 * A policy from the text that people wrote. Runs in the command line alone: it compiles
 * calendars and opens CA files, and core must not be able to do either.
 */
#include <stddef.h>

#include "common/tz.h"
#include "common/xalloc.h"
#include "policy/facts.h"
#include "policy/policy_internal.h"

#include "common/banned.h"

static int
read_schema(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	if (str_eqz(json_str(v), "cofferdam-policy/1"))
		return 0;
	return json_err(r->doc, v, err, ERR_INVALID,
	    "schema must be \"cofferdam-policy/1\", is \"%.*s\"", STR_ARG(json_str(v)));
}

static const struct read_field source_fields[] = {
    {"schema", read_schema, 0, true},
    {"policy", read_id, offsetof(struct policy, name), true},
    {"serial", policy_read_serial, 0, true},
    {"clock", policy_read_clock, 0, false},
    {"attempts", policy_read_attempts, 0, false},
    {"author", read_id, offsetof(struct policy, author), false},
    {"owners", policy_read_owners, 0, false},
    {"watch", read_ids, offsetof(struct policy, watch), false},
    {"effect_requires", policy_read_requires, 0, false},
    {"$schema", read_ignore, 0, false}, /* for editors: docs/policy.schema.json */
    {"include", read_ignore, 0, false},
    {"targets", read_ignore, 0, false},
    {"people", read_ignore, 0, false},
    {"emergency", policy_read_emergency, 0, false},
    {"calendars", read_ignore, 0, false},
    {"rules", read_ignore, 0, false},
    {"prove", read_ignore, 0, false},
    {"cases", read_ignore, 0, false},
};

/* What says which policy this is stands in the root alone. */
static const struct read_field included_fields[] = {
    {"$schema", read_ignore, 0, false}, /* for editors: docs/policy.schema.json */
    {"include", read_ignore, 0, false},
    {"targets", read_ignore, 0, false},
    {"people", read_ignore, 0, false},
    {"calendars", read_ignore, 0, false},
    {"rules", read_ignore, 0, false},
    {"prove", read_ignore, 0, false},
    {"cases", read_ignore, 0, false},
};

static const struct section *const sections[] = {
    &policy_targets_section,
    &policy_people_section,
    &policy_calendars_section,
    &policy_rules_section,
    &policy_prove_section,
    &policy_cases_section,
};

static int
read_source(struct reader *r, struct err *err)
{
	int rc = read_object(
	    r, r->parts[0].v, "the policy", source_fields, ARRAY_LEN(source_fields), r->p, err);

	for (size_t i = 1; rc == 0 && i < r->nparts; i++) {
		r->doc = r->parts[i].doc;
		rc = read_object(r, r->parts[i].v, "an included file", included_fields,
		    ARRAY_LEN(included_fields), r->p, err);
	}
	return rc == 0 ? policy_read_sections(r, sections, ARRAY_LEN(sections), err) : rc;
}

static int
parse_parts(const struct place *parts, size_t n, const struct policy_source *src,
    struct policy **ret, struct buf *warnings, struct err *err)
{
	const struct reader_source source = {
	    .src = src, .calendar = policy_compile_calendar, .ca = policy_read_ca};
	AUTO(policy) struct policy *p = policy_new();
	AUTO_BUF struct buf bundle = BUF(POLICY_BUNDLE_MAX);
	struct reader r = {.doc = parts[0].doc,
	    .p = p,
	    .warnings = warnings,
	    .source = &source,
	    .parts = parts,
	    .nparts = n};
	char tzdata[16];
	int rc;

	tz_version(src->zoneroot, tzdata);
	p->tzdata = arena_str(p->mem, str_z(tzdata));
	p->engine = STR(EFFECTS_ENGINE);
	rc = read_source(&r, err);
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
policy_parse_value(const struct json_doc *doc, const struct json *v,
    const struct policy_source *src, struct policy **ret, struct buf *warnings, struct err *err)
{
	const struct place part = {doc, v};

	if (json_get(v, "include") != NULL)
		return json_err(doc, json_get(v, "include"), err, ERR_INVALID,
		    "a policy inside another document cannot include files");
	return parse_parts(&part, 1, src, ret, warnings, err);
}

int
policy_parse_docs(struct str text, const struct policy_source *src, struct policy_docs *docs,
    struct policy **ret, struct buf *warnings, struct err *err)
{
	AUTO_FREE struct place *parts = NULL;
	int rc = policy_include(text, src, docs, err);

	if (rc != 0)
		return rc;
	parts = xcalloc(docs->n, sizeof(*parts));
	for (size_t i = 0; i < docs->n; i++)
		parts[i] = (struct place){docs->v[i], json_root(docs->v[i])};
	return parse_parts(parts, docs->n, src, ret, warnings, err);
}

int
policy_parse(struct str text, const char *name, const char *dir, const char *zoneroot,
    struct policy **ret, struct buf *warnings, struct err *err)
{
	const struct policy_source src = {.name = name, .dir = dir, .zoneroot = zoneroot};
	AUTO_POLICY_DOCS struct policy_docs docs = {0};

	return policy_parse_docs(text, &src, &docs, ret, warnings, err);
}
