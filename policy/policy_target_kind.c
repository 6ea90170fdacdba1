/*
 * What only targets of kinds git, k8s, aws and mcp have: lists of what may be touched, what a tool
 * does. Runs in the command line on source and in core on bundles. Must never take a pattern that
 * no request can meet, or one that a reviewer would read as narrower than it is.
 */
#include "policy/policy_internal.h"

#include <stddef.h>

#include "common/banned.h"

#define TOOLS_MAX 1024

/* --- lists ------------------------------------------------------------------------------- */

static bool
made_of(struct str s, const char *besides)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
		    strchr(besides, c) == NULL)
			return false;
	}
	return s.n != 0;
}

static bool
is_label(struct str s)
{
	return made_of(s, "-") && s.n <= 63;
}

static bool
is_account(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return s.n == 12;
}

static bool
is_ref(struct str s)
{
	struct str repository, rest = s;

	if (str_cut(&rest, ':', &repository))
		return repository.n != 0 && str_has_prefix(rest, "refs/");
	return str_has_prefix(s, "refs/");
}

static bool
is_path(struct str s)
{
	return s.p[0] == '/' && s.n > 1 && s.p[s.n - 1] != '/' && memchr(s.p, '?', s.n) == NULL;
}

static bool
is_any(struct str s)
{
	return s.n != 0;
}

static const struct {
	const char *key;
	bool (*good)(struct str s);
	const char *form;
} lists[TARGET_LIST_COUNT] = {
    [TARGET_LIST_ACCOUNTS] = {"accounts", is_account, "12 digits"},
    [TARGET_LIST_NAMESPACES] = {"namespaces", is_label, "the name of a namespace, in full"},
    [TARGET_LIST_PROTECTED] = {"protected", is_ref, "refs/... or REPOSITORY:refs/..."},
    [TARGET_LIST_PUSH_OPTIONS] = {"push_options", is_any, "an option as git push -o has it"},
    [TARGET_LIST_REFS] = {"refs", is_ref, "refs/... or REPOSITORY:refs/..."},
    [TARGET_LIST_REGIONS] = {"regions", is_label, "the name of a region, as in signatures"},
    [TARGET_LIST_REPOSITORIES] = {"repositories", is_path, "a path such as /org/name.git"},
    [TARGET_LIST_SERVICES] = {"services", is_label, "the name of a service, as in signatures"},
};

static int
read_list(
    struct reader *r, const struct json *v, enum target_list which, void *out, struct err *err)
{
	struct policy_list *ret = out;
	struct strs l = {0};
	int rc = read_texts(r, v, &l, err);

	for (size_t i = 0; rc == 0 && i < l.n; i++)
		if (!lists[which].good(l.v[i]))
			return json_err(r->doc, v, err, ERR_INVALID,
			    "%s: each must be %s, one is \"%.*s\"", lists[which].key,
			    lists[which].form, STR_ARG(l.v[i]));
	*ret = (struct policy_list){l.n, l.v};
	return rc;
}

#define LIST_READER(name, which)                                                                   \
	int policy_read_##name(struct reader *r, const struct json *v, void *out, struct err *err) \
	{                                                                                          \
		return read_list(r, v, which, out, err);                                           \
	}
LIST_READER(accounts, TARGET_LIST_ACCOUNTS)
LIST_READER(namespaces, TARGET_LIST_NAMESPACES)
LIST_READER(protected, TARGET_LIST_PROTECTED)
LIST_READER(push_options, TARGET_LIST_PUSH_OPTIONS)
LIST_READER(refs, TARGET_LIST_REFS)
LIST_READER(regions, TARGET_LIST_REGIONS)
LIST_READER(repositories, TARGET_LIST_REPOSITORIES)
LIST_READER(services, TARGET_LIST_SERVICES)

/* --- other keys -------------------------------------------------------------------------- */

int
policy_read_quarantine(struct reader *r, const struct json *v, void *out, struct err *err)
{
	bool *ret = out;
	int rc = read_type(r, v, JSON_BOOL, "quarantine", err);

	if (rc == 0)
		*ret = json_bool(v);
	return rc;
}

static int
by_name(const void *a, const void *b)
{
	const struct policy_tool *x = a, *y = b;

	return str_cmp(x->name, y->name);
}

/* As names of tools are made (MCP 2026-07-28). */
static bool
is_tool(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    strchr("_-./", c) == NULL)
			return false;
	}
	return s.n != 0 && s.n <= 128;
}

/* `out` is the whole target: {"NAME": ["effect", ...]}. */
int
policy_read_tools(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct target *t = out;
	size_t n = json_count(v);
	struct policy_tool *tools;
	int rc = read_type(r, v, JSON_OBJECT, "tools", err);

	if (rc != 0)
		return rc;
	if (n == 0 || n > TOOLS_MAX)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "tools must name from 1 to %d tools, name %zu", TOOLS_MAX, n);
	tools = arena_alloc(r->p->mem, n * sizeof(*tools));
	for (size_t i = 0; i < n; i++) {
		if (!is_tool(json_key(v, i)))
			return json_err(r->doc, json_at(v, i), err, ERR_INVALID,
			    "a tool's name must be 1 to 128 of A-Z a-z 0-9 _ - . /, is \"%.*s\"",
			    STR_ARG(json_key(v, i)));
		tools[i].name = read_keep(r, json_key(v, i));
		rc = read_effect_list(r, json_at(v, i), &tools[i].effects, err);
		if (rc != 0)
			return rc;
		if (tools[i].effects == 0)
			return json_err(r->doc, json_at(v, i), err, ERR_INVALID,
			    "tool %.*s has no effects: say [\"read\"] if it only reads",
			    STR_ARG(tools[i].name));
	}
	qsort(tools, n, sizeof(*tools), by_name);
	t->pub.tools = tools;
	t->pub.ntools = n;
	return 0;
}
