/*
 * Targets and people of a policy. Runs in the command line on source and in core on bundles.
 * Must never take a key for two people, send a credential to a host that was not named in
 * full, or put anything of a CA file but its certificates into the bundle.
 */
#include "policy/policy_internal.h"

#include <arpa/inet.h>
#include <stddef.h>

#include "common/banned.h"

#define GIT (1u << TARGET_GIT)
#define K8S (1u << TARGET_K8S)
#define AWS (1u << TARGET_AWS)
#define MCP (1u << TARGET_MCP)
#define REFERENCE (1u << TARGET_REFERENCE)
#define HTTP_KINDS (1u << TARGET_HTTP | GIT | K8S | AWS | MCP | REFERENCE)

static const struct {
	const char *name;
	enum target_kind kind;
	int64_t port; /* when not given; 0: must be */
} kinds[] = {
    {"postgres", TARGET_POSTGRES, 5432},
    {"http", TARGET_HTTP, 443},
    {"git", TARGET_GIT, 443},
    {"k8s", TARGET_K8S, 443},
    {"aws", TARGET_AWS, 443},
    {"redis", TARGET_REDIS, 6379},
    {"mcp", TARGET_MCP, 443},
    {"reference", TARGET_REFERENCE, 443},
};

const char *
target_kind_name(enum target_kind k)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (kinds[i].kind == k)
			return kinds[i].name;
	return "unknown";
}

bool
target_kind_is_http(enum target_kind k)
{
	return (HTTP_KINDS & 1u << k) != 0;
}

static int
read_kind(struct reader *r, const struct json *v, void *out, struct err *err)
{
	enum target_kind *ret = out;
	int rc = read_type(r, v, JSON_STRING, "kind", err);

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (str_eqz(json_str(v), kinds[i].name)) {
			*ret = kinds[i].kind;
			return 0;
		}
	}
	return json_err(r->doc, v, err, ERR_INVALID,
	    "kind must be postgres, http, git, k8s, aws, redis, mcp or reference, is \"%.*s\"",
	    STR_ARG(json_str(v)));
}

bool
policy_host_is_address(struct str host)
{
	char z[POLICY_TEXT_MAX + 1];
	uint8_t addr[16];

	(void)memcpy(z, host.p, host.n);
	z[host.n] = '\0';
	return inet_pton(AF_INET, z, addr) == 1 || inet_pton(AF_INET6, z, addr) == 1;
}

/* Lower case, so that one host has one spelling; no wildcard, no port, no user. */
bool
policy_host_is_name(struct str host)
{
	if (host.n > 253 || host.p[0] == '.' || host.p[0] == '-' || host.p[host.n - 1] == '.')
		return false;
	for (size_t i = 0; i < host.n; i++) {
		char c = host.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '.')
			return false;
		if (c == '.' && host.p[i + 1] == '.')
			return false;
	}
	return true;
}

static int
read_host(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct str *ret = out, host;
	int rc = read_text(r, v, &host, err);

	if (rc != 0)
		return rc;
	if (!policy_host_is_address(host) && !policy_host_is_name(host))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "host must be a lower-case name or an address, is \"%.*s\"", STR_ARG(host));
	*ret = host;
	return 0;
}

static int
read_address(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct str *ret = out, address;
	int rc = read_text(r, v, &address, err);

	if (rc != 0)
		return rc;
	if (!policy_host_is_address(address))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "address must be a numeric IPv4 or IPv6 address, is \"%.*s\"",
		    STR_ARG(address));
	*ret = address;
	return 0;
}

bool
policy_host_is_loopback(struct str host)
{
	return str_eqz(host, "localhost") || str_eqz(host, "::1") ||
	       (str_has_prefix(host, "127.") && policy_host_is_address(host));
}

static int
read_port(struct reader *r, const struct json *v, void *out, struct err *err)
{
	uint16_t *ret = out;
	int64_t n;
	int rc = read_int(r, v, "port", 1, 65535, &n, err);

	if (rc == 0)
		*ret = (uint16_t)n;
	return rc;
}

static int
read_connections(struct reader *r, const struct json *v, void *out, struct err *err)
{
	uint16_t *ret = out;
	int64_t n;
	int rc = read_int(r, v, "max_connections", 1, 1000, &n, err);

	if (rc == 0)
		*ret = (uint16_t)n;
	return rc;
}

static const char *const previews[] = {NULL, "plan", "count", "look"};

const char *
target_preview_name(enum target_preview p)
{
	return previews[p];
}

static int
read_preview(struct reader *r, const struct json *v, void *out, struct err *err)
{
	enum target_preview *ret = out;

	for (size_t i = PREVIEW_PLAN; i < ARRAY_LEN(previews); i++) {
		if (!str_eqz(json_str(v), previews[i]))
			continue;
		*ret = (enum target_preview)i;
		return 0;
	}
	return json_err(r->doc, v, err, ERR_INVALID,
	    "preview must be plan or count of postgres, look of http, git or k8s, or not be there: "
	    "then the target is asked nothing before people are");
}

static int
read_seal(struct reader *r, const struct json *v, void *out, struct err *err)
{
	bool *ret = out;

	*ret = str_eqz(json_str(v), "answers");
	return *ret ? 0
		    : json_err(r->doc, v, err, ERR_INVALID,
			  "seal must be answers, or not be there: then the log has their hashes "
			  "alone");
}

static int
read_tls(struct reader *r, const struct json *v, void *out, struct err *err)
{
	bool *ret = out;
	int rc = read_type(r, v, JSON_STRING, "tls", err);

	if (rc != 0)
		return rc;
	if (!str_eqz(json_str(v), "verify-full") && !str_eqz(json_str(v), "off"))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "tls must be verify-full or off, is \"%.*s\"", STR_ARG(json_str(v)));
	*ret = str_eqz(json_str(v), "verify-full");
	return 0;
}

static int
read_pem(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct str *ret = out;
	int rc = read_type(r, v, JSON_STRING, "ca_pem", err);

	if (rc != 0)
		return rc;
	if (r->source != NULL)
		return json_err(r->doc, v, err, ERR_INVALID, "ca_pem stands in bundles alone");
	if (json_str(v).n > POLICY_CA_MAX || !str_is_utf8(json_str(v)))
		return json_err(
		    r->doc, v, err, ERR_INVALID, "ca_pem is over %zu bytes", POLICY_CA_MAX);
	*ret = read_keep(r, json_str(v));
	return 0;
}

#define AT(member) offsetof(struct target, member)
static const struct read_field target_fields[] = {
    {"kind", read_kind, AT(pub.kind), true},
    {"env", read_id, AT(pub.env), true},
    {"host", read_host, AT(pub.host), false},
    {"address", read_address, AT(pub.address), false},
    {"port", read_port, AT(pub.port), false},
    {"max_connections", read_connections, AT(pub.max_connections), false},
    {"preview", read_preview, AT(pub.preview), false},
    {"seal", read_seal, AT(pub.seal), false},
    {"origin", policy_read_origin, AT(origin), false},
    {"database", read_text, AT(pub.database), false},
    {"user", read_text, AT(pub.user), false},
    {"credential", read_id, AT(pub.credential), false},
    {"tls", read_tls, AT(pub.tls_verify), false},
    {"ca", read_text, AT(ca_name), false},
    {"ca_pem", read_pem, AT(pub.ca_pem), false},
    {"accounts", policy_read_accounts, AT(pub.lists[TARGET_LIST_ACCOUNTS]), false},
    {"namespaces", policy_read_namespaces, AT(pub.lists[TARGET_LIST_NAMESPACES]), false},
    {"protected", policy_read_protected, AT(pub.lists[TARGET_LIST_PROTECTED]), false},
    {"push_options", policy_read_push_options, AT(pub.lists[TARGET_LIST_PUSH_OPTIONS]), false},
    {"refs", policy_read_refs, AT(pub.lists[TARGET_LIST_REFS]), false},
    {"regions", policy_read_regions, AT(pub.lists[TARGET_LIST_REGIONS]), false},
    {"repositories", policy_read_repositories, AT(pub.lists[TARGET_LIST_REPOSITORIES]), false},
    {"services", policy_read_services, AT(pub.lists[TARGET_LIST_SERVICES]), false},
    {"quarantine", policy_read_quarantine, AT(pub.quarantine), false},
    {"tools", policy_read_tools, 0, false}, /* the whole target */
    {"read_posts", policy_read_paths, AT(read_posts), false},
    {"unsafe_gets", policy_read_paths, AT(unsafe_gets), false},
    {"model", policy_read_model, AT(pub.model), false},
    {"wrapped", policy_read_wrapped, AT(pub.wrapped), false},
    {"networks", policy_read_networks, AT(networks), false},
    {"graphql", policy_read_graphql, 0, false}, /* the whole target */
    {"cookies", policy_read_cookies, AT(pub.cookies), false},
    {"placeholder", policy_read_placeholder, AT(pub.placeholder), false},
    {"max_body", policy_read_max_body, AT(pub.max_body), false},
    {"via", policy_read_via, AT(pub.via), false},
    {"via_credential", read_id, AT(pub.via_credential), false},
    {"files", read_id, AT(pub.files), false},
    {"upgrade", policy_read_upgrade, 0, false}, /* the whole target */
    {"upgrade_paths", policy_read_paths, AT(upgrade_paths), false},
};
#undef AT

/* Which keys make sense for which kind: a key without effect would be a wrong belief. */
static const struct {
	const char *key;
	unsigned kinds; /* bits of enum target_kind */
} target_only[] = {
    {"database", 1u << TARGET_POSTGRES},
    {"max_connections", 1u << TARGET_POSTGRES},
    {"preview", 1u << TARGET_POSTGRES | 1u << TARGET_HTTP | GIT | K8S},
    {"user", 1u << TARGET_POSTGRES},
    {"origin", HTTP_KINDS},
    {"accounts", AWS},
    {"namespaces", K8S},
    {"protected", GIT},
    {"push_options", GIT},
    {"quarantine", GIT},
    {"refs", GIT},
    {"regions", AWS},
    {"repositories", GIT},
    {"services", AWS},
    {"tools", MCP},
    {"read_posts", 1u << TARGET_HTTP | K8S | REFERENCE},
    {"unsafe_gets", 1u << TARGET_HTTP},
    {"model", 1u << TARGET_HTTP},
    {"wrapped", 1u << TARGET_HTTP},
    {"networks", HTTP_KINDS},
    {"graphql", 1u << TARGET_HTTP},
    {"cookies", 1u << TARGET_HTTP},
    {"placeholder", HTTP_KINDS},
    {"max_body", HTTP_KINDS},
    {"via", HTTP_KINDS},
    {"via_credential", HTTP_KINDS},
    {"files", REFERENCE},
    {"upgrade", 1u << TARGET_HTTP | K8S},
    {"upgrade_paths", 1u << TARGET_HTTP | K8S},
};

static int
check_target_keys(struct reader *r, const struct json *v, const struct target *t, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(target_only); i++) {
		const struct json *m = json_get(v, target_only[i].key);

		if (m != NULL && (target_only[i].kinds & 1u << t->pub.kind) == 0)
			return json_err(r->doc, m, err, ERR_INVALID,
			    "\"%s\" has no meaning for kind %s", target_only[i].key,
			    target_kind_name(t->pub.kind));
	}
	if (t->pub.preview != PREVIEW_NONE &&
	    (t->pub.preview == PREVIEW_LOOK) == (t->pub.kind == TARGET_POSTGRES))
		return json_err(r->doc, json_get(v, "preview"), err, ERR_INVALID,
		    "preview \"%s\" has no meaning for kind %s",
		    target_preview_name(t->pub.preview), target_kind_name(t->pub.kind));
	if (r->source == NULL && t->ca_name.n != 0)
		return json_err(r->doc, json_get(v, "ca"), err, ERR_INVALID,
		    "a bundle has ca_pem, not a file name");
	return 0;
}

static int
check_target_host(struct reader *r, const struct json *v, struct target *t, struct err *err)
{
	struct policy_target *p = &t->pub;

	if (p->host.n == 0) {
		if (p->port != 0)
			return json_err(r->doc, json_get(v, "port"), err, ERR_INVALID,
			    "a target with a port needs a host");
		if (p->address.n != 0)
			return json_err(r->doc, json_get(v, "address"), err, ERR_INVALID,
			    "a target with an address needs a host");
		read_warn(r, v,
		    "target %.*s has no host: it can be tested and explained, not built",
		    STR_ARG(p->id));
		return 0;
	}
	/* The loop asks models from here; all else is asked for inside. */
	if (policy_host_is_loopback(p->host) && (p->model == TARGET_MODEL_NONE || p->wrapped))
		read_warn(r, v,
		    "target %.*s: %.*s is the sandbox itself to code in it, whose clients then ask "
		    "no proxy: give it a name as its host, and this as its address",
		    STR_ARG(p->id), STR_ARG(p->host));
	for (size_t i = 0; p->port == 0 && i < ARRAY_LEN(kinds); i++)
		if (kinds[i].kind == p->kind)
			p->port = (uint16_t)kinds[i].port;
	if (!p->tls_verify && p->files.n == 0 &&
	    !policy_host_is_loopback(p->address.n != 0 ? p->address : p->host))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "target %.*s: without TLS the host must be a loopback address, is %.*s",
		    STR_ARG(p->id), STR_ARG(p->address.n != 0 ? p->address : p->host));
	if (p->kind == TARGET_POSTGRES &&
	    (p->database.n == 0 || p->user.n == 0 || p->credential.n == 0))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "target %.*s: a postgres target with a host needs database, user and "
		    "credential",
		    STR_ARG(p->id));
	return 0;
}

static int
read_target(struct reader *r, const struct json *v, struct target *t, struct err *err)
{
	int rc;

	t->pub.tls_verify = true;
	rc = read_object(r, v, "a target", target_fields, ARRAY_LEN(target_fields), t, err);
	if (rc != 0)
		return rc;
	rc = check_target_keys(r, v, t, err);
	if (rc == 0 && t->origin.n != 0)
		rc = policy_split_origin(r, v, t, err);
	if (rc == 0)
		rc = check_target_host(r, v, t, err);
	if (rc == 0 && target_kind_is_http(t->pub.kind))
		rc = policy_check_http(r, v, t, err);
	if (rc == 0 && t->ca_name.n != 0)
		rc = r->source->ca(r, json_get(v, "ca"), t->ca_name, &t->pub.ca_pem, err);
	return rc;
}

static int
by_target(const void *a, const void *b)
{
	const struct target *x = a, *y = b;

	return str_cmp(x->pub.id, y->pub.id);
}

static void
targets_alloc(struct policy *p, size_t n)
{
	p->targets = arena_alloc(p->mem, (n + 1) * sizeof(*p->targets));
}

static int
targets_one(struct reader *r, struct str name, const struct json *v, struct err *err)
{
	struct target *t = &r->p->targets[r->p->ntargets];
	int rc = read_check_id(r, v, name, "a target's name", err);

	if (rc != 0)
		return rc;
	t->pub.id = read_keep(r, name);
	rc = read_target(r, v, t, err);
	if (rc == 0)
		r->p->ntargets++;
	return rc;
}

static int
targets_done(struct reader *r, struct err *err)
{
	qsort(r->p->targets, r->p->ntargets, sizeof(*r->p->targets), by_target);
	return policy_check_origins(r, err);
}

const struct section policy_targets_section = {.key = "targets",
    .type = JSON_OBJECT,
    .id = SECTION_TARGETS,
    .required = true,
    .min = 1,
    .max = POLICY_TARGETS_MAX,
    .alloc = targets_alloc,
    .one = targets_one,
    .done = targets_done};
