/*
 * Which target an HTTP request is for (process: core). Three names come with it, from three layers:
 * CONNECT, SNI and Host; with the listener they must say the same on every request, or it is for
 * nobody. A wildcard and the proxy widen what names may be said, not what a name means.
 */
#include "broker/core_http.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "broker/core_cred.h"
#include "broker/core_plan.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define HTTP_PORT 80
#define HTTPS_PORT 443

static bool
is_address(const char *host)
{
	uint8_t b[16];

	return inet_pton(AF_INET, host, b) == 1 || inet_pton(AF_INET6, host, b) == 1;
}

static bool
is_authority(const char *s, const char *host, uint16_t port)
{
	bool v6 = strchr(host, ':') != NULL;
	AUTO_FREE char *want = xasprintf(v6 ? "[%s]:%u" : "%s:%u", host, (unsigned)port);

	return strcmp(s, want) == 0;
}

/* --- names ----------------------------------------------------------------------- */

static const char *
host_differs(const struct core_http *h)
{
	uint16_t standard = h->tls || h->via == CORE_VIA_LOOP ? HTTPS_PORT : HTTP_PORT;

	if (strcmp(h->req->host, h->host) != 0 ||
	    (h->req->port != 0 ? h->req->port : standard) != h->port)
		return "Host is not the host and port that the connection is for";
	return NULL;
}

static const char *
sni_differs(const struct core_http *h)
{
	if (!h->tls)
		return h->sni[0] != '\0' ? "a server name without TLS" : NULL;
	if (h->sni[0] == '\0' && is_address(h->host))
		return NULL;
	return strcmp(h->sni, h->host) != 0 ? "the server name of the TLS connection (SNI) is not "
					      "the host of the request"
					    : NULL;
}

static const char *
way_differs(const struct core_http *h)
{
	const struct core_target *t = h->from.target;

	if (h->via == CORE_VIA_PROXY && h->tls)
		return is_authority(h->connect, h->host, h->port)
			   ? NULL
			   : "the host of the request is not that of its CONNECT";
	if (h->connect[0] != '\0')
		return "a CONNECT where none can be";
	if (h->via == CORE_VIA_LOOP)
		return h->tls ? "TLS on the loop's listener" : NULL;
	if (h->via == CORE_VIA_PROXY)
		return NULL;
	if (!str_ieqz(str_z(h->host), t->host) || h->port != t->port)
		return "the host of the request is not that of the listener";
	return h->tls != (strcmp(t->scheme, "https") == 0) ? "the scheme is not the listener's"
							   : NULL;
}

static const char *
names_differ(const struct core_http *h)
{
	const char *why = way_differs(h);

	if (why == NULL)
		why = sni_differs(h);
	return why != NULL ? why : host_differs(h);
}

/* --- the policy's targets -------------------------------------------------------- */

static bool
same_place(const struct policy_target *t, const struct core_target *r)
{
	AUTO_FREE char *host = core_plan_host(t);

	return strcmp(r->scheme, core_plan_scheme(t)) == 0 && strcmp(r->host, host) == 0 &&
	       r->port == t->port;
}

/* The run was planned under a policy that may have been replaced since. */
static const struct core_target *
in_run(const struct core_run *run, const struct policy_target *t)
{
	for (size_t i = 0; t != NULL && i < run->ntargets; i++)
		if (str_eqz(t->id, run->targets[i].id) &&
		    run->targets[i].state == CORE_TARGET_SERVES)
			return same_place(t, &run->targets[i]) ? &run->targets[i] : NULL;
	return NULL;
}

/* The loop asks models alone; the sandbox those that have a listener inside, by it or the proxy. */
static bool
may_ask(const struct policy_target *t, const struct core_target *r, bool loop)
{
	if (loop || t->model == TARGET_MODEL_NONE)
		return loop == (t->model != TARGET_MODEL_NONE);
	return t->wrapped && r->listen == CORE_LISTEN_TCP;
}

const struct policy_target *
core_http_policy(const struct core_http *h)
{
	const struct core *c = h->from.run->core;
	const struct policy_target *t;

	if (c->policy == NULL || h->from.target == NULL)
		return NULL;
	t = policy_target(c->policy, str_z(h->from.target->id));
	if (t == NULL || !target_kind_is_http(t->kind) || !same_place(t, h->from.target) ||
	    !may_ask(t, h->from.target, h->via == CORE_VIA_LOOP))
		return NULL;
	return t;
}

static const struct core_target *
by_origin(const struct core_run *run, bool tls, struct str host, uint16_t port, bool loop)
{
	const struct policy *p = run->core->policy;
	const struct policy_target *t =
	    p != NULL ? policy_target_by_origin(p, tls, host, port) : NULL;
	const struct core_target *r = in_run(run, t);

	return r != NULL && may_ask(t, r, loop) ? r : NULL;
}

/* A name under a wildcard has one label in front of it (NET-03 of the field cases). */
static bool
covers(const struct core_target *t, struct str host)
{
	struct str label;

	if (strncmp(t->host, "*.", 2) != 0)
		return str_eqz(host, t->host);
	return str_cut(&host, '.', &label) && label.n != 0 && str_eqz(host, t->host + 2);
}

bool
core_http_reaches(struct core_run *run, struct str host, uint16_t port)
{
	if (port != 0)
		return by_origin(run, true, host, port, false) != NULL;
	for (size_t i = 0; i < run->ntargets; i++) {
		const struct core_target *t = &run->targets[i];

		/* Still the policy's, and no model but one for the sandbox. */
		if (strcmp(t->scheme, "https") == 0 && covers(t, host) &&
		    by_origin(run, true, host, t->port, false) != NULL)
			return true;
	}
	return false;
}

static const struct core_target *
origin_find(const struct core_http *h)
{
	const struct core_run *run = h->from.run;
	struct str host = str_z(h->host);
	const struct core_target *t;

	if (h->via == CORE_VIA_PROXY)
		return by_origin(run, h->tls, host, h->port, false);
	t = by_origin(run, true, host, h->port, true);
	return t != NULL ? t : by_origin(run, false, host, h->port, true);
}

/* --- one request ----------------------------------------------------------------- */

/* Of the proxy on the way. */
static bool
via_is_missing(const struct core *c, const struct policy_target *t)
{
	const struct vault_entry *e;
	struct err err;

	if (t->via_credential.n == 0 || core_cred_via(c, t, &e, &err) == 0)
		return false;
	log_warn("target %.*s: %s", STR_ARG(t->id), err.msg);
	return true;
}

static void
credential_find(struct core_http *h, const struct policy_target *t)
{
	struct core *c = h->from.run->core;
	const struct vault_entry *e;
	struct err err;

	if (via_is_missing(c, t)) {
		core_http_refuse(h, 403, "credential_missing",
		    "the broker has no credential for this target's proxy that is bound to it");
		return;
	}
	if (t->credential.n == 0)
		return;
	free(h->from.credential);
	h->from.credential = str_dup(t->credential);
	if (core_cred_find(c, t, &e, &err) != 0) {
		log_warn("target %s: %s", h->from.target->id, err.msg);
		core_http_refuse(h, 403, "credential_missing",
		    "the broker has no credential for this target that is bound to it");
		return;
	}
	core_cred_fingerprint(c, secret_str(e->secret), h->from.credential_fp);
}

/* With a credential of its own or without: an answer may show another's. */
static void
others_check(struct core_http *h, const struct policy_target *t)
{
	const struct core_run *run = h->from.run;
	const struct vault_entry *own = NULL;
	struct core_others others;
	struct err err;

	if (t->credential.n != 0 && core_cred_find(run->core, t, &own, &err) != 0)
		own = NULL; /* refused already */
	if (core_cred_others(run, own, &others, &err) == 0)
		return;
	log_warn("run %s: %s", run->id, err.msg);
	core_http_refuse(h, 503, "too_many_credentials", err.msg);
}

void
core_http_find(struct core_http *h)
{
	const struct policy_target *t;
	const char *why;

	h->from.credential = xstrdup("");
	if (h->via != CORE_VIA_DIRECT)
		h->from.target = origin_find(h);
	why = h->req != NULL ? names_differ(h) : NULL;
	if (why != NULL)
		core_http_refuse(h, 421, "misdirected_request", why);
	t = core_http_policy(h);
	h->model = h->via == CORE_VIA_LOOP || (t != NULL && t->model != TARGET_MODEL_NONE);
	if (h->from.target == NULL)
		core_http_refuse(h, 403, "denied",
		    h->via == CORE_VIA_LOOP ? "no model of the policy has that host and port"
					    : "no target of this run has that host and port");
	else if (t == NULL && h->from.run->core->policy != NULL)
		core_http_refuse(h, 403, "denied",
		    "the target is not in the policy any more, or is another place");
	if (t != NULL) {
		credential_find(h, t);
		others_check(h, t);
	}
}
