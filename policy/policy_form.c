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

static int
read_strings(struct reader *r, const struct json *v, void *out UNUSED, struct err *err)
{
	int rc = read_type(r, v, JSON_ARRAY, "a list", err);

	for (size_t i = 0; rc == 0 && i < json_count(v); i++)
		rc = read_type(r, json_at(v, i), JSON_STRING, "an element", err);
	return rc;
}

/* What a case of each kind of target sends. */
static const struct {
	const char *key;
	enum target_kind kind; /* 0: any that comes by HTTP */
} actions[] = {
    {"sql", TARGET_POSTGRES},
    {"method", 0},
    {"updates", TARGET_GIT},
    {"action", TARGET_AWS},
    {"tool", TARGET_MCP},
    {"command", TARGET_REDIS},
    {"commands", TARGET_REDIS},
};
/* Beside one of these alone. */
static const struct {
	const char *key, *beside;
} besides[] = {
    {"path", "method"},
    {"headers", "method"},
    {"body", "method"},
    {"content_type", "method"},
    {"push_options", "updates"},
    {"repository", "updates"},
    {"arguments", "tool"},
};

static bool
may_send(const struct policy_target *t, size_t i)
{
	return actions[i].kind == 0 ? target_kind_is_http(t->kind) : actions[i].kind == t->kind;
}

static int
check_input(struct reader *r, const struct json *v, struct str target, struct err *err)
{
	const struct policy_target *t = policy_target(r->p, target);
	unsigned n = 0;

	if (t == NULL)
		return json_err(r->doc, json_get(v, "target"), err, ERR_INVALID,
		    "no target is named \"%.*s\"", STR_ARG(target));
	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		if (json_get(v, actions[i].key) == NULL)
			continue;
		n += may_send(t, i) ? 1 : 2;
	}
	if (n != 1 || (json_get(v, "method") != NULL) != (json_get(v, "path") != NULL))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "input must say one action of a %s target: sql (postgres), method and path "
		    "(http, git, k8s, aws, mcp), updates (git), action (aws), tool (mcp), command "
		    "or commands (redis)",
		    target_kind_name(t->kind));
	for (size_t i = 0; i < ARRAY_LEN(besides); i++)
		if (json_get(v, besides[i].key) != NULL && json_get(v, besides[i].beside) == NULL)
			return json_err(r->doc, v, err, ERR_INVALID,
			    "\"%s\" has no meaning without \"%s\"", besides[i].key,
			    besides[i].beside);
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
	    {"body", read_ignore, 0, false},	/* text, or an object that stands for its JSON */
	    {"updates", read_ignore, 0, false}, /* checked when it is run */
	    {"push_options", read_strings, 0, false},
	    {"repository", read_text, offsetof(struct named, text), false},
	    {"action", read_text, offsetof(struct named, text), false},
	    {"tool", read_text, offsetof(struct named, text), false},
	    {"arguments", read_ignore, 0, false},
	    {"command", read_strings, 0, false},
	    {"commands", read_ignore, 0, false},
	    {"deferred", read_ignore, 0, false},
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
