/*
 * Conditions as written: one closed set of keys, arrays mean "or", keys mean "and". Runs in
 * the command line on source and in core on bundles. A name that means nothing (an unknown
 * target, calendar, effect, kind) is an error: a condition that can never hold is a hole.
 */
#include "policy/policy_internal.h"

#include <stddef.h>

#include "common/banned.h"

const char *const policy_attr_names[ATTR_COUNT] = {[ATTR_target] = "target",
    [ATTR_kind] = "kind",
    [ATTR_env] = "env",
    [ATTR_agent] = "agent",
    [ATTR_run] = "run",
    [ATTR_owner] = "owner"};

static bool
is_glob(struct str s)
{
	return memchr(s.p, '*', s.n) != NULL;
}

int
read_effect_list(struct reader *r, const struct json *v, uint32_t *ret, struct err *err)
{
	uint32_t set = 0;
	int rc = read_type(r, v, JSON_ARRAY, "a list of effects", err);

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < json_count(v); i++) {
		const struct json *e = json_at(v, i);
		uint32_t one = json_type(e) == JSON_STRING ? effect_parse(json_str(e)) : 0;

		if (one == 0)
			return json_err(r->doc, e, err, ERR_INVALID,
			    "\"%.*s\" is no effect and no built-in set", STR_ARG(json_str(e)));
		set |= one;
	}
	*ret = set;
	return 0;
}

static int
read_any(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct cond *c = out;
	int rc = read_effect_list(r, v, &c->effects, err);

	if (rc != 0)
		return rc;
	if (c->effects == 0)
		return json_err(r->doc, v, err, ERR_INVALID, "\"any\" of no effects never matches");
	c->mode = EFFECTS_ANY;
	return 0;
}

/* An empty "only" permits nothing at all: empty means none, never any. */
static int
read_only(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct cond *c = out;

	c->mode = EFFECTS_ONLY;
	return read_effect_list(r, v, &c->effects, err);
}

static const struct read_field effects_fields[] = {
    {"any", read_any, 0, false},
    {"only", read_only, 0, false},
};

static int
read_effects(struct reader *r, const struct json *v, void *out, struct err *err)
{
	int rc = read_object(r, v, "effects", effects_fields, ARRAY_LEN(effects_fields), out, err);

	if (rc == 0 && json_count(v) != 1)
		return json_err(
		    r->doc, v, err, ERR_INVALID, "effects must have one of \"any\" and \"only\"");
	return rc;
}

static int
read_bound(struct reader *r, const struct json *v, void *out, struct err *err)
{
	return read_int(r, v, "a number of statements", 0, 1000000, out, err);
}

static const struct read_field statements_fields[] = {
    {"gt", read_bound, offsetof(struct cond, gt), false},
    {"lt", read_bound, offsetof(struct cond, lt), false},
    {"eq", read_bound, offsetof(struct cond, eq), false},
};

static int
read_statements(struct reader *r, const struct json *v, void *out, struct err *err)
{
	int rc = read_object(
	    r, v, "statements", statements_fields, ARRAY_LEN(statements_fields), out, err);

	if (rc == 0 && json_count(v) == 0)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "statements needs one of \"gt\", \"lt\" and \"eq\"");
	return rc;
}

static int
read_calendar_names(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct indices *ret = out, l = {0};
	struct strs names = {0};
	int rc = read_ids(r, v, &names, err);

	if (rc != 0)
		return rc;
	l.v = arena_alloc(r->p->mem, names.n * sizeof(*l.v));
	for (size_t i = 0; i < names.n; i++) {
		size_t k = 0;

		while (k < r->p->ncalendars && !str_eq(r->p->calendars[k].id, names.v[i]))
			k++;
		if (k == r->p->ncalendars)
			return json_err(r->doc, v, err, ERR_INVALID,
			    "no calendar is named \"%.*s\"", STR_ARG(names.v[i]));
		l.v[l.n++] = (uint32_t)k;
	}
	*ret = l;
	return 0;
}

#define AT(member) offsetof(struct cond, member)
static const struct read_field cond_fields[] = {
    {"target", read_texts, AT(attr[ATTR_target]), false},
    {"kind", read_texts, AT(attr[ATTR_kind]), false},
    {"env", read_texts, AT(attr[ATTR_env]), false},
    {"agent", read_texts, AT(attr[ATTR_agent]), false},
    {"run", read_texts, AT(attr[ATTR_run]), false},
    {"owner", read_texts, AT(attr[ATTR_owner]), false},
    {"effects", read_effects, 0, false},
    {"statements", read_statements, 0, false},
    {"relation", read_texts, AT(relation), false},
    {"resource", read_texts, AT(resource), false},
    {"during", read_calendar_names, AT(during), false},
    {"outside", read_calendar_names, AT(outside), false},
    {"rate", policy_read_rate, AT(rate), false},
};
#undef AT

static int
check_targets(struct reader *r, const struct json *v, const struct cond *c, struct err *err)
{
	const struct strs *l = &c->attr[ATTR_target];

	for (size_t i = 0; i < l->n; i++)
		if (!is_glob(l->v[i]) && policy_target(r->p, l->v[i]) == NULL)
			return json_err(r->doc, json_get(v, "target"), err, ERR_INVALID,
			    "no target is named \"%.*s\"", STR_ARG(l->v[i]));
	return 0;
}

static int
check_owners(struct reader *r, const struct json *v, const struct cond *c, struct err *err)
{
	const struct strs *l = &c->attr[ATTR_owner];

	for (size_t i = 0; i < l->n; i++)
		if (!is_glob(l->v[i]) && policy_person(r->p, l->v[i]) == NULL)
			return json_err(r->doc, json_get(v, "owner"), err, ERR_INVALID,
			    "no person is named \"%.*s\"", STR_ARG(l->v[i]));
	return 0;
}

static bool
kind_is_known(struct str s)
{
	for (int k = TARGET_POSTGRES; k <= TARGET_KIND_LAST; k++)
		if (str_eqz(s, target_kind_name((enum target_kind)k)))
			return true;
	return false;
}

static int
check_kinds(struct reader *r, const struct json *v, const struct cond *c, struct err *err)
{
	const struct strs *l = &c->attr[ATTR_kind];

	for (size_t i = 0; i < l->n; i++)
		if (!is_glob(l->v[i]) && !kind_is_known(l->v[i]))
			return json_err(r->doc, json_get(v, "kind"), err, ERR_INVALID,
			    "no kind of target is named \"%.*s\"", STR_ARG(l->v[i]));
	return 0;
}

/* Only a warning: a policy may well name an environment whose targets come later. */
static void
warn_envs(struct reader *r, const struct json *v, const struct cond *c)
{
	const struct strs *l = &c->attr[ATTR_env];

	for (size_t i = 0; i < l->n; i++) {
		size_t k = 0;

		while (k < r->p->ntargets && !str_glob(l->v[i], r->p->targets[k].pub.env))
			k++;
		if (k == r->p->ntargets)
			read_warn(
			    r, json_get(v, "env"), "no target has env \"%.*s\"", STR_ARG(l->v[i]));
	}
}

int
policy_read_cond(struct reader *r, const struct json *v, struct cond *ret, struct err *err)
{
	struct cond c = {.gt = -1, .lt = -1, .eq = -1};
	int rc = read_object(r, v, "a condition", cond_fields, ARRAY_LEN(cond_fields), &c, err);

	if (rc != 0)
		return rc;
	rc = check_targets(r, v, &c, err);
	if (rc == 0)
		rc = check_owners(r, v, &c, err);
	if (rc == 0)
		rc = check_kinds(r, v, &c, err);
	if (rc != 0)
		return rc;
	warn_envs(r, v, &c);
	*ret = c;
	return 0;
}
