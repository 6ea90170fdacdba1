/*
 * The blocks that no engine reads: `prove` and `cases` are checked for form, so that a typing
 * error is found where it was made. Runs in the command line alone; bundles do not have them.
 */
#include "policy/policy_internal.h"

#include <stddef.h>

#include "common/banned.h"

#define PROVE_MAX 256
#define CASES_MAX 4096

static int
read_never(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	struct cond c;
	int rc = policy_read_cond(r, v, &c, err);

	if (rc == 0 && c.rate.per != RATE_NONE)
		return json_err(r->doc, json_get(v, "rate"), err, ERR_INVALID,
		    "\"never\" has no \"rate\": it holds for each action alone");
	return rc;
}

static int
read_people_count(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	int64_t n;

	return read_int(r, v, "people", 1, POLICY_QUORUM_MAX, &n, err);
}

static int
read_flag(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	return read_type(r, v, JSON_BOOL, "breakglass", err);
}

static int
read_unless(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	static const struct read_field fields[] = {
	    {"people", read_people_count, 0, false},
	    {"breakglass", read_flag, 0, false},
	};
	char none;

	return read_object(r, v, "unless", fields, ARRAY_LEN(fields), &none, err);
}

struct named {
	struct str id, text;
};

static int
prove_one(struct reader *r, struct str name UNUSED, const struct json *v, struct err *err)
{
	static const struct read_field fields[] = {
	    {"id", read_id, offsetof(struct named, id), true},
	    {"never", read_never, 0, true},
	    {"unless", read_unless, 0, false},
	    {"why", read_text, offsetof(struct named, text), false},
	};
	struct named b = {0};

	return read_object(r, v, "prove", fields, ARRAY_LEN(fields), &b, err);
}

const struct section policy_prove_section = {
    .key = "prove", .type = JSON_ARRAY, .id = SECTION_PROVE, .max = PROVE_MAX, .one = prove_one};

static int
read_time(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	struct err why = {0};
	int64_t us;
	int rc = read_type(r, v, JSON_STRING, "at", err);

	if (rc != 0)
		return rc;
	if (clock_parse(json_str(v), &us, &why) != 0)
		return json_err(r->doc, v, err, ERR_INVALID, "%s", why.msg);
	return 0;
}

static int
read_string(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	return read_type(r, v, JSON_STRING, "sql, path or body", err);
}

/* [["Name", "value"], ...] */
static int
read_headers(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	int rc = read_type(r, v, JSON_ARRAY, "headers", err);

	for (size_t i = 0; rc == 0 && i < json_count(v); i++) {
		const struct json *h = json_at(v, i);

		if (json_type(h) != JSON_ARRAY || json_count(h) != 2 ||
		    json_type(json_at(h, 0)) != JSON_STRING ||
		    json_type(json_at(h, 1)) != JSON_STRING)
			return json_err(
			    r->doc, h, err, ERR_INVALID, "a header must be [\"Name\", \"value\"]");
	}
	return rc;
}

/* A statement, or for an http target a request. */
static int
check_input(struct reader *r, const struct json *v, struct str target, struct err *err)
{
	static const char *const only_http[] = {"path", "headers", "body", "content_type"};
	const struct policy_target *t = policy_target(r->p, target);
	bool http = json_get(v, "method") != NULL;

	if (t == NULL)
		return json_err(r->doc, json_get(v, "target"), err, ERR_INVALID,
		    "no target is named \"%.*s\"", STR_ARG(target));
	if (http != (t->kind == TARGET_HTTP) || http == (json_get(v, "sql") != NULL) ||
	    (http && json_get(v, "path") == NULL))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "input must have \"method\" and \"path\" for an http target, \"sql\" for any "
		    "other");
	for (size_t i = 0; !http && i < ARRAY_LEN(only_http); i++)
		if (json_get(v, only_http[i]) != NULL)
			return json_err(r->doc, v, err, ERR_INVALID,
			    "\"%s\" has no meaning beside \"sql\"", only_http[i]);
	return 0;
}

static int
read_input(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	static const struct read_field fields[] = {
	    {"target", read_id, offsetof(struct named, id), true},
	    {"sql", read_string, 0, false},
	    {"method", read_text, offsetof(struct named, text), false},
	    {"path", read_string, 0, false},
	    {"headers", read_headers, 0, false},
	    {"body", read_string, 0, false},
	    {"content_type", read_text, offsetof(struct named, text), false},
	    {"agent", read_text, offsetof(struct named, text), false},
	    {"owner", read_text, offsetof(struct named, text), false},
	};
	struct named in = {0};
	int rc = read_object(r, v, "input", fields, ARRAY_LEN(fields), &in, err);

	return rc == 0 ? check_input(r, v, in.id, err) : rc;
}

static int
read_verdict(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	for (int i = VERDICT_DENY; i <= VERDICT_ALLOW; i++)
		if (str_eqz(json_str(v), verdict_name((enum verdict)i)))
			return 0;
	return json_err(
	    r->doc, v, err, ERR_INVALID, "verdict must be deny, needs_approval or allow");
}

static int
read_effects(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	uint32_t set;

	if (effect_from_json(v, &set))
		return 0;
	return json_err(
	    r->doc, v, err, ERR_INVALID, "effects must be a list of plain effect names");
}

static int
read_strings(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	int rc = read_type(r, v, JSON_ARRAY, "a list", err);

	for (size_t i = 0; rc == 0 && i < json_count(v); i++)
		rc = read_type(r, json_at(v, i), JSON_STRING, "an element", err);
	return rc;
}

static int
read_expect(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	static const struct read_field fields[] = {
	    {"verdict", read_verdict, 0, true},
	    {"effects", read_effects, 0, false},
	    {"rules", read_strings, 0, false},
	    {"slots", read_strings, 0, false},
	};
	char none;

	return read_object(r, v, "expect", fields, ARRAY_LEN(fields), &none, err);
}

static int
cases_one(struct reader *r, struct str name UNUSED, const struct json *v, struct err *err)
{
	static const struct read_field fields[] = {
	    {"id", read_id, offsetof(struct named, id), true},
	    {"at", read_time, 0, true},
	    {"input", read_input, 0, true},
	    {"expect", read_expect, 0, true},
	    {"note", read_ignore, 0, false},
	};
	struct named b = {0};

	return read_object(r, v, "cases", fields, ARRAY_LEN(fields), &b, err);
}

const struct section policy_cases_section = {
    .key = "cases", .type = JSON_ARRAY, .id = SECTION_CASES, .max = CASES_MAX, .one = cases_one};
