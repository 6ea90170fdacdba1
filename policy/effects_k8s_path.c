/*
 * Paths of the Kubernetes API. Linked into core and the command line; pure. The path alone says
 * which object and which verb; what it does not know is no path, never a harmless one.
 */
#include "policy/effects_k8s_path.h"

#include "common/banned.h"

/* The next segment; false: there is none. A '/' at the end counts for nothing, as in the server. */
static bool
next(struct str *rest, struct str *ret)
{
	if (rest->n == 0)
		return false;
	if (!str_cut(rest, '/', ret)) {
		*ret = *rest;
		rest->n = 0;
	}
	return ret->n != 0;
}

/* Names of groups, versions, resources and namespaces: nothing that could be spelled otherwise. */
static bool
is_plain(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '.')
			return false;
	}
	return s.n != 0;
}

/* Objects may have ':' and capitals too (RBAC). Escapes have no need. */
static bool
is_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    strchr("-._:@~+=", c) == NULL)
			return false;
	}
	return s.n != 0;
}

static bool
first_is(struct str path, const char *z)
{
	size_t n = strlen(z);

	return str_has_prefix(path, z) && (path.n == n || path.p[n] == '/');
}

static enum k8s_place
other_place(struct str path)
{
	static const char *const open[] = {"/version", "/healthz", "/livez", "/readyz", "/openapi",
	    "/swagger.json", "/openid/v1/jwks", "/.well-known/openid-configuration"};
	static const char *const insides[] = {
	    "/logs", "/debug", "/metrics", "/configz", "/flagz", "/statusz"};

	if (str_eqz(path, "/"))
		return K8S_DISCOVERY;
	for (size_t i = 0; i < ARRAY_LEN(open); i++)
		if (first_is(path, open[i]))
			return K8S_DISCOVERY;
	for (size_t i = 0; i < ARRAY_LEN(insides); i++)
		if (first_is(path, insides[i]))
			return K8S_INSIDES;
	return K8S_BAD;
}

/* What follows the name of a resource. */
static enum k8s_place
object(struct k8s_path *p, struct str rest)
{
	struct str more;

	if (!is_plain(p->resource))
		return K8S_BAD;
	if (!next(&rest, &p->name))
		return rest.n == 0 ? K8S_RESOURCE : K8S_BAD;
	if (!is_name(p->name))
		return K8S_BAD;
	if (!next(&rest, &p->sub))
		return rest.n == 0 ? K8S_RESOURCE : K8S_BAD;
	if (!is_plain(p->sub))
		return K8S_BAD;
	/* Only a proxy has a path of its own behind it. */
	return !next(&rest, &more) || str_eqz(p->sub, "proxy") ? K8S_RESOURCE : K8S_BAD;
}

static enum k8s_place in_group(struct k8s_path *p, struct str rest);

/* Behind the version. */
static enum k8s_place
resource(struct k8s_path *p, struct str rest)
{
	struct str word;

	if (!next(&rest, &word))
		return K8S_DISCOVERY;
	if (str_eqz(word, "proxy"))
		return K8S_PROXY;
	if (str_eqz(word, "watch") && !p->watch) {
		p->watch = true;
		if (p->group.n != 0)
			return in_group(p, rest);
		if (!next(&rest, &word))
			return K8S_BAD;
	}
	p->resource = word;
	if (!str_eqz(word, "namespaces") || p->group.n != 0)
		return object(p, rest);
	if (!next(&rest, &word))
		return K8S_RESOURCE;
	if (!is_plain(word))
		return K8S_BAD;
	p->name = word;
	if (!next(&rest, &word))
		return K8S_RESOURCE;
	if (str_eqz(word, "finalize") || str_eqz(word, "status")) {
		p->sub = word;
		return next(&rest, &word) ? K8S_BAD : K8S_RESOURCE;
	}
	p->ns = p->name;
	p->name = STR("");
	p->resource = word;
	return object(p, rest);
}

/* /apis/GROUP/VERSION/namespaces/NS/...: namespaces themselves are in the core group alone. */
static enum k8s_place
in_group(struct k8s_path *p, struct str rest)
{
	struct str word, after = rest;

	if (!next(&after, &word) || !str_eqz(word, "namespaces"))
		return resource(p, rest);
	if (!next(&after, &p->ns) || !is_plain(p->ns) || !next(&after, &p->resource))
		return K8S_BAD;
	return object(p, after);
}

struct k8s_path
k8s_path_parse(struct str path)
{
	struct k8s_path p = {.group = STR(""), .ns = STR(""), .name = STR(""), .sub = STR("")};
	struct str rest = str_mem(path.p + 1, path.n - 1), word;
	bool core;

	p.place = other_place(path);
	if (p.place != K8S_BAD || !next(&rest, &word))
		return p;
	core = str_eqz(word, "api");
	if (!core && !str_eqz(word, "apis"))
		return p;
	p.place = K8S_DISCOVERY;
	if (!core && !next(&rest, &p.group))
		return p;
	if (!core && !is_plain(p.group)) {
		p.place = K8S_BAD;
		return p;
	}
	if (!next(&rest, &word))
		return p;
	p.place = !is_plain(word) ? K8S_BAD : core ? resource(&p, rest) : in_group(&p, rest);
	return p;
}

bool
k8s_group_is_built_in(struct str group)
{
	static const char *const groups[] = {"", "admissionregistration.k8s.io",
	    "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "authentication.k8s.io",
	    "authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io",
	    "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "extensions",
	    "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io",
	    "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io",
	    "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io"};

	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		if (str_eqz(group, groups[i]))
			return true;
	return false;
}
