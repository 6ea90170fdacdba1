/*
 * A policy from the text that people wrote. Runs in the command line alone: it compiles
 * calendars and opens CA files, and core must not be able to do either.
 */
#include <stddef.h>

#include "common/tz.h"
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
    {"targets", read_ignore, 0, true},
    {"people", read_ignore, 0, false},
    {"calendars", read_ignore, 0, false},
    {"rules", read_ignore, 0, true},
    {"prove", read_ignore, 0, false},
    {"cases", read_ignore, 0, false},
};

static int
read_source(struct reader *r, const struct json *v, struct err *err)
{
	const struct json *prove, *cases;
	int rc =
	    read_object(r, v, "the policy", source_fields, ARRAY_LEN(source_fields), r->p, err);

	if (rc == 0)
		rc = policy_read_sections(r, v, err);
	if (rc != 0)
		return rc;
	prove = json_get(v, "prove");
	cases = json_get(v, "cases");
	if (prove != NULL)
		rc = policy_read_prove(r, prove, err);
	if (rc == 0 && cases != NULL)
		rc = policy_read_cases(r, cases, err);
	return rc;
}

int
policy_parse_value(const struct json_doc *doc, const struct json *v,
    const struct policy_source *src, struct policy **ret, struct buf *warnings, struct err *err)
{
	const struct reader_source source = {
	    .src = src, .calendar = policy_compile_calendar, .ca = policy_read_ca};
	AUTO(policy) struct policy *p = policy_new();
	AUTO_BUF struct buf bundle = BUF(POLICY_BUNDLE_MAX);
	struct reader r = {
	    .doc = doc, .p = p, .warnings = warnings, .name = src->name, .source = &source};
	char tzdata[16];
	int rc;

	tz_version(src->zoneroot, tzdata);
	p->tzdata = arena_str(p->mem, str_z(tzdata));
	p->engine = STR(EFFECTS_ENGINE);
	rc = read_source(&r, v, err);
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
