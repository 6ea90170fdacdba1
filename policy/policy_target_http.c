/*
 * What only http targets have: origins, networks, paths. Runs in the command line on source and in
 * core on bundles. Must never let two targets answer for one name, a wildcard carry a credential,
 * or an address be dialled that nobody wrote down.
 */
#include "policy/policy_internal.h"

#include <arpa/inet.h>

#include "policy/effects_http_path.h"

#include "common/banned.h"

#define NETWORK_BITS_MIN 8 /* a wider one would name most of what must not be reached */
#define BODY_MAX ((int64_t)1 << 40)
#define VARIABLE_MAX 64

/* --- origins ------------------------------------------------------------------------- */

static bool
text_holds(struct str s, const char *any)
{
	for (size_t i = 0; i < s.n; i++)
		if (strchr(any, s.p[i]) != NULL)
			return true;
	return false;
}

static size_t
scheme_length(struct str origin)
{
	if (str_has_prefix(origin, "https://"))
		return 8;
	return str_has_prefix(origin, "http://") ? 7 : 0;
}

/* https://host[:port] or http://, nothing behind it. */
int
policy_read_origin(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct str *ret = out, s;
	size_t scheme;
	int rc = read_text(r, v, &s, err);

	if (rc != 0)
		return rc;
	scheme = scheme_length(s);
	if (scheme == 0 || s.n == scheme ||
	    text_holds((struct str){s.p + scheme, s.n - scheme}, "/@?#"))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "origin must be https://HOST[:PORT], is \"%.*s\"", STR_ARG(s));
	*ret = s;
	return 0;
}

/* Takes "host", "host:port" or "[v6]:port" apart; port stays as it is when there is none. */
static bool
authority_split(struct str s, struct str *host, struct str *port)
{
	*port = STR("");
	if (s.n != 0 && s.p[0] == '[') {
		s.p++;
		s.n--;
		if (!str_cut(&s, ']', host) || !policy_host_is_address(*host) ||
		    memchr(host->p, ':', host->n) == NULL || (s.n != 0 && s.p[0] != ':'))
			return false;
		if (s.n != 0)
			*port = (struct str){s.p + 1, s.n - 1};
		return s.n != 1;
	}
	*host = s;
	if (!str_cut(&s, ':', host))
		return true;
	*port = s;
	return s.n != 0;
}

/* One address has one spelling here, or two targets could share it. */
static bool
address_is_canonical(struct str host)
{
	char z[INET6_ADDRSTRLEN + 1], again[INET6_ADDRSTRLEN];
	int family = memchr(host.p, ':', host.n) != NULL ? AF_INET6 : AF_INET;
	uint8_t addr[16];

	if (host.n >= sizeof(z))
		return false;
	(void)memcpy(z, host.p, host.n);
	z[host.n] = '\0';
	return inet_pton(family, z, addr) == 1 &&
	       inet_ntop(family, addr, again, sizeof(again)) != NULL && strcmp(z, again) == 0;
}

/* A name as requests can spell it: labels of up to 63 bytes, the last not of digits alone. */
static bool
name_is_usable(struct str host)
{
	struct str label, rest = host;
	bool more = true, digits = true;

	if (!policy_host_is_name(host))
		return false;
	while (more) {
		more = str_cut(&rest, '.', &label);
		if (!more)
			label = rest;
		if (label.n == 0 || label.n > 63)
			return false;
	}
	for (size_t i = 0; i < label.n; i++)
		digits = digits && label.p[i] >= '0' && label.p[i] <= '9';
	return !digits;
}

/* "*.ok.test": one label in front, and never all of a top-level domain. */
static bool
wildcard_split(struct str *host)
{
	if (!str_has_prefix(*host, "*."))
		return false;
	*host = (struct str){host->p + 2, host->n - 2};
	return true;
}

/* A service of AWS has many names; one of the others has one. */
static bool
may_wildcard(enum target_kind k)
{
	return k == TARGET_HTTP || k == TARGET_AWS;
}

/* The origin says host, port and TLS; saying them beside it would let the two differ. */
int
policy_split_origin(struct reader *r, const struct json *v, struct target *t, struct err *err)
{
	size_t scheme = scheme_length(t->origin);
	struct str rest = {t->origin.p + scheme, t->origin.n - scheme}, host, number;
	bool tls = scheme == 8, good;
	uint64_t port = tls ? 443 : 80;
	const struct json *at = json_get(v, "origin");

	if (t->pub.host.n != 0 || t->pub.port != 0 || json_get(v, "tls") != NULL)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "a target has either an origin or a host and port, and the origin says tls");
	good = authority_split(rest, &host, &number);
	if (good && number.n != 0 && (!str_to_u64(number, 65535, &port) || port == 0))
		return json_err(r->doc, at, err, ERR_INVALID,
		    "the origin's port must be from 1 to 65535, is \"%.*s\"", STR_ARG(number));
	t->pub.wildcard = good && may_wildcard(t->pub.kind) && wildcard_split(&host);
	if (!good || host.n == 0 || !(name_is_usable(host) || address_is_canonical(host)) ||
	    (t->pub.wildcard && memchr(host.p, '.', host.n) == NULL) ||
	    (t->pub.wildcard && !name_is_usable(host)))
		return json_err(r->doc, at, err, ERR_INVALID,
		    "the origin's host must be a lower-case name or an address%s, is \"%.*s\"",
		    may_wildcard(t->pub.kind) ? ", or *. before two labels or more" : "",
		    STR_ARG(rest));
	t->pub.host = read_keep(r, host);
	t->pub.port = (uint16_t)port;
	if (!tls)
		t->pub.tls_verify = false;
	return 0;
}

/* --- the proxy on the way ------------------------------------------------------------ */

/* Its parts; the port is said, since proxies have none of their own. */
static bool
via_split(struct policy_target *p)
{
	size_t scheme = scheme_length(p->via);
	struct str host, number;
	uint64_t port;

	if (!authority_split((struct str){p->via.p + scheme, p->via.n - scheme}, &host, &number) ||
	    host.n == 0 || !(name_is_usable(host) || address_is_canonical(host)) ||
	    !str_to_u64(number, 65535, &port) || port == 0)
		return false;
	p->via_host = host;
	p->via_port = (uint16_t)port;
	p->via_tls = scheme == 8;
	return true;
}

int
policy_read_via(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy_target p = {0};
	int rc = read_text(r, v, &p.via, err);

	if (rc != 0)
		return rc;
	if (scheme_length(p.via) == 0 || !via_split(&p))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "via must be http://HOST:PORT or https://HOST:PORT, HOST a lower-case name or "
		    "an address, is \"%.*s\"",
		    STR_ARG(p.via));
	*(struct str *)out = p.via;
	return 0;
}

/* --- other keys ---------------------------------------------------------------------- */

static const char *const models[] = {[TARGET_MODEL_NONE] = NULL,
    [TARGET_MODEL_ANTHROPIC] = "anthropic",
    [TARGET_MODEL_OPENAI] = "openai",
    [TARGET_MODEL_GOOGLE] = "google"};

const char *
target_model_name(enum target_model m)
{
	return models[m];
}

int
policy_read_model(struct reader *r, const struct json *v, void *out, struct err *err)
{
	enum target_model *ret = out;

	for (size_t i = 1; i < ARRAY_LEN(models); i++) {
		if (!str_eqz(json_str(v), models[i]))
			continue;
		*ret = (enum target_model)i;
		return 0;
	}
	return json_err(r->doc, v, err, ERR_INVALID,
	    "model must be anthropic, openai or google, is \"%.*s\"", STR_ARG(json_str(v)));
}

int
policy_read_wrapped(struct reader *r, const struct json *v, void *out, struct err *err)
{
	int rc = read_type(r, v, JSON_BOOL, "wrapped", err);

	if (rc == 0)
		*(bool *)out = json_bool(v);
	return rc;
}

int
policy_read_cookies(struct reader *r, const struct json *v, void *out, struct err *err)
{
	bool *ret = out;

	if (!str_eqz(json_str(v), "pass") && !str_eqz(json_str(v), "refuse"))
		return json_err(r->doc, v, err, ERR_INVALID,
		    "cookies must be pass or refuse, is \"%.*s\"", STR_ARG(json_str(v)));
	*ret = str_eqz(json_str(v), "pass");
	return 0;
}

int
policy_read_max_body(struct reader *r, const struct json *v, void *out, struct err *err)
{
	uint64_t *ret = out;
	int64_t n;
	int rc = read_int(r, v, "max_body", 1, BODY_MAX, &n, err);

	if (rc == 0)
		*ret = (uint64_t)n;
	return rc;
}

/* Variables that say how programs start or where they connect, which must stay what they are. */
static bool
variable_is_taken(struct str s)
{
	static const char *const taken[] = {"PATH", "HOME", "SHELL", "USER", "LOGNAME", "TMPDIR",
	    "TERM", "PWD", "IFS", "ENV", "BASH_ENV"};
	static const char *const prefixes[] = {"LD_", "COFFERDAM", "SSL_CERT_"};

	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		if (str_eqz(s, taken[i]))
			return true;
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (str_has_prefix(s, prefixes[i]))
			return true;
	return str_has_suffix(s, "_PROXY") || str_has_suffix(s, "_CA_BUNDLE");
}

int
policy_read_placeholder(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct str *ret = out, s;
	int rc = read_text(r, v, &s, err);
	bool good;

	if (rc != 0)
		return rc;
	good = s.n <= VARIABLE_MAX && !(s.p[0] >= '0' && s.p[0] <= '9') && !variable_is_taken(s);
	for (size_t i = 0; i < s.n; i++)
		good = good && ((s.p[i] >= 'A' && s.p[i] <= 'Z') ||
				   (s.p[i] >= '0' && s.p[i] <= '9') || s.p[i] == '_');
	if (!good)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "placeholder must name an environment variable (A-Z 0-9 _, none that programs "
		    "start by), is \"%.*s\"",
		    STR_ARG(s));
	*ret = s;
	return 0;
}

/* As a request can spell it: another path would never be met. */
int
policy_read_paths(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct strs *ret = out;
	int rc = read_texts(r, v, ret, err);

	for (size_t i = 0; rc == 0 && i < ret->n; i++) {
		const char *fault = text_holds(ret->v[i], "?*")
					? "the path holds '?' or '*', and is taken literally"
					: http_path_fault(ret->v[i]);

		if (fault != NULL)
			return json_err(
			    r->doc, v, err, ERR_INVALID, "\"%.*s\": %s", STR_ARG(ret->v[i]), fault);
	}
	return rc;
}

/* "10.0.0.0/8": the one spelling of a network, its host bits 0. */
static bool
network_is_canonical(struct str s)
{
	struct str address;
	uint8_t addr[16];
	char z[INET6_ADDRSTRLEN + 1];
	uint64_t bits;
	int family;

	if (!str_cut(&s, '/', &address) || !address_is_canonical(address))
		return false;
	family = memchr(address.p, ':', address.n) != NULL ? AF_INET6 : AF_INET;
	if (!str_to_u64(s, family == AF_INET ? 32 : 128, &bits) || bits < NETWORK_BITS_MIN)
		return false;
	(void)memcpy(z, address.p, address.n);
	z[address.n] = '\0';
	if (inet_pton(family, z, addr) != 1)
		return false;
	for (unsigned i = (unsigned)bits; i < (family == AF_INET ? 32U : 128U); i++)
		if ((addr[i / 8] & 0x80 >> i % 8) != 0)
			return false;
	return true;
}

int
policy_read_networks(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct strs *ret = out;
	int rc = read_texts(r, v, ret, err);

	for (size_t i = 0; rc == 0 && i < ret->n; i++)
		if (!network_is_canonical(ret->v[i]))
			return json_err(r->doc, v, err, ERR_INVALID,
			    "a network must be ADDRESS/BITS with %d bits or more and all others 0, "
			    "is \"%.*s\"",
			    NETWORK_BITS_MIN, STR_ARG(ret->v[i]));
	return rc;
}

/* --- the whole ----------------------------------------------------------------------- */

/* The proxy resolves the target's name: nothing here could hold its address to anything. */
static const char *
via_fault(const struct policy_target *p)
{
	if (p->via.n == 0)
		return p->via_credential.n != 0 ? "has a via_credential, but no via" : NULL;
	if (p->host.n == 0)
		return "has a via, but no host";
	if (p->address.n != 0 || p->nnetworks != 0)
		return "has a via, so neither address nor networks: the proxy resolves its name";
	if (!p->tls)
		return "is http, which is for loopback hosts: no via leads there";
	if (p->via_credential.n != 0 && !p->via_tls && !policy_host_is_loopback(p->via_host))
		return "would send its via_credential in clear: over http that is for a proxy at a "
		       "loopback host only";
	return NULL;
}

/* Files are read where the broker is: nothing is dialled, and nobody asks for a credential. */
static const char *
files_fault(const struct target *t)
{
	const struct policy_target *p = &t->pub;

	if (p->files.n == 0)
		return NULL;
	if (p->host.n == 0)
		return "has files, but no origin under which they are asked for";
	if (p->wildcard)
		return "has files, so its origin cannot be a wildcard";
	if (p->address.n != 0 || p->nnetworks != 0 || p->via.n != 0 || t->ca_name.n != 0 ||
	    p->ca_pem.n != 0)
		return "has files, so neither address, networks, ca nor via: nothing is dialled";
	if (p->credential.n != 0)
		return "has files, so no credential: nobody asks for one";
	return p->nread_posts != 0 ? "has files, so no read_posts: they take GET and HEAD alone"
				   : NULL;
}

/* Why this target cannot be; NULL: it can. */
static const char *
target_fault(const struct policy_target *p)
{
	const char *fault = via_fault(p);

	if (fault != NULL)
		return fault;
	if (p->nnetworks != 0 && p->address.n != 0)
		return "has either an address or networks: the address says alone where it is";
	if (p->nnetworks != 0 && p->host.n == 0)
		return "has networks, but no host";
	if (p->placeholder.n != 0 && p->credential.n == 0)
		return "has a placeholder, but no credential that it stands for";
	if (p->wrapped && p->model == TARGET_MODEL_NONE)
		return "has wrapped, but is no model: what is none is reached from the sandbox "
		       "anyway";
	if (!p->wildcard)
		return NULL;
	if (p->credential.n != 0)
		return "has a wildcard, so it cannot have a credential: a name must be said in "
		       "full";
	if (p->address.n != 0)
		return "has a wildcard, so it cannot have an address";
	return p->model != TARGET_MODEL_NONE ? "has a wildcard, so it cannot be a model" : NULL;
}

int
policy_check_http(struct reader *r, const struct json *v, struct target *t, struct err *err)
{
	struct policy_target *p = &t->pub;
	const char *fault;

	p->tls = p->tls_verify;
	if (p->via.n != 0)
		(void)via_split(p); /* it was read */
	p->networks = t->networks.v;
	p->nnetworks = t->networks.n;
	p->read_posts = t->read_posts.v;
	p->nread_posts = t->read_posts.n;
	p->unsafe_gets = t->unsafe_gets.v;
	p->nunsafe_gets = t->unsafe_gets.n;
	p->graphql_paths = t->graphql_paths.v;
	p->ngraphql_paths = t->graphql_paths.n;
	p->upgrade_paths = t->upgrade_paths.v;
	p->nupgrade_paths = t->upgrade_paths.n;
	fault = target_fault(p);
	if (fault == NULL)
		fault = files_fault(t);
	if (fault == NULL)
		fault = policy_upgrade_fault(p);
	if (fault != NULL)
		return json_err(
		    r->doc, v, err, ERR_INVALID, "target %.*s %s", STR_ARG(p->id), fault);
	return 0;
}

/* One name and port has one listener in a sandbox, whatever its scheme. */
static bool
same_place(const struct policy_target *a, const struct policy_target *b)
{
	return target_kind_is_http(a->kind) && target_kind_is_http(b->kind) && a->host.n != 0 &&
	       a->port == b->port && a->wildcard == b->wildcard && str_eq(a->host, b->host);
}

int
policy_check_origins(struct reader *r, struct err *err)
{
	const struct policy *p = r->p;

	for (size_t i = 0; i < p->ntargets; i++) {
		const struct policy_target *a = &p->targets[i].pub;

		for (size_t k = 0; k < i; k++) {
			const struct policy_target *b = &p->targets[k].pub;

			const struct json *v = NULL;

			if (same_place(a, b) ||
			    (a->placeholder.n != 0 && str_eq(a->placeholder, b->placeholder)))
				v = read_place(r, SECTION_TARGETS, a->id);
			if (same_place(a, b))
				return json_err(r->doc, v, err, ERR_INVALID,
				    "targets %.*s and %.*s have the same host and port",
				    STR_ARG(b->id), STR_ARG(a->id));
			if (a->placeholder.n != 0 && str_eq(a->placeholder, b->placeholder))
				return json_err(r->doc, v, err, ERR_INVALID,
				    "targets %.*s and %.*s have the same placeholder %.*s",
				    STR_ARG(b->id), STR_ARG(a->id), STR_ARG(a->placeholder));
		}
	}
	return 0;
}

static bool
wildcard_covers(const struct policy_target *t, struct str host)
{
	struct str label;

	return t->wildcard && str_cut(&host, '.', &label) && label.n != 0 && str_eq(host, t->host);
}

const struct policy_target *
policy_target_by_origin(const struct policy *p, bool tls, struct str host, uint16_t port)
{
	const struct policy_target *covers = NULL;

	for (size_t i = 0; i < p->ntargets; i++) {
		const struct policy_target *t = &p->targets[i].pub;

		if (!target_kind_is_http(t->kind) || t->host.n == 0 || t->port != port ||
		    t->tls != tls)
			continue;
		if (!t->wildcard && str_eq(t->host, host))
			return t;
		if (wildcard_covers(t, host))
			covers = t;
	}
	return covers;
}
