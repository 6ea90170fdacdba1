/*
 * Variables for ordinary clients in the sandbox (process: cofferdam-agent), from the broker's
 * plan. They spare configuration and are no boundary: there is no other way out than the
 * listeners, whatever a client reads.
 */
#include "agent/agent_env.h"

#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

/* What stays inside is not asked of the proxy; no brackets: some clients take them for a name. */
#define NO_PROXY "localhost,127.0.0.1,::1"

struct list {
	char **p;
	size_t n;
};

static void
add(struct list *l, char *pair)
{
	l->p = xreallocarray(l->p, l->n + 2, sizeof(*l->p));
	l->p[l->n++] = pair;
	l->p[l->n] = NULL;
}

static const struct broker_target *
first_of(const struct broker_plan *p, const char *kind)
{
	for (size_t i = 0; i < p->ntargets; i++)
		if (strcmp(p->targets[i].kind, kind) == 0)
			return &p->targets[i];
	return NULL;
}

/* psql and libpq find the first database without being told; passwords are not asked for. */
static void
database_add(struct list *l, const struct broker_plan *p)
{
	const struct broker_target *t = first_of(p, "postgres");

	if (t == NULL)
		return;
	add(l, xasprintf("PGHOST=%s", t->host));
	add(l, xasprintf("PGPORT=%u", (unsigned)t->port));
	add(l, xasprintf("PGDATABASE=%s", t->database));
	add(l, xasprintf("PGUSER=%s", t->user));
	add(l, xstrdup("PGSSLMODE=verify-full"));
}

/* By address, so that a client needs no name service for it. */
static void
proxy_add(struct list *l, const struct broker_plan *p)
{
	static const char *const url[] = {
	    "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"};
	const struct broker_target *t = first_of(p, "proxy");

	if (t == NULL)
		return;
	for (size_t i = 0; i < ARRAY_LEN(url); i++)
		add(l, xasprintf("%s=http://%s:%u", url[i], t->address, (unsigned)t->port));
	add(l, xstrdup("NO_PROXY=" NO_PROXY));
	add(l, xstrdup("no_proxy=" NO_PROXY));
	add(l, xstrdup("NODE_USE_ENV_PROXY=1")); /* from node 24 on */
	add(l, xasprintf("JAVA_TOOL_OPTIONS=-Dhttp.proxyHost=%s -Dhttp.proxyPort=%u "
			 "-Dhttps.proxyHost=%s -Dhttps.proxyPort=%u "
			 "-Dhttp.nonProxyHosts=localhost|127.0.0.1|[::1]",
		   t->address, (unsigned)t->port, t->address, (unsigned)t->port));
}

char **
agent_env_make(const struct broker_plan *p)
{
	struct list l = {.p = xcalloc(1, sizeof(char *))};

	database_add(&l, p);
	proxy_add(&l, p);
	for (size_t i = 0; i < p->nenv; i++)
		add(&l, xasprintf("%s=%s", p->env[i].name, p->env[i].value));
	return l.p;
}

void
agent_env_free(char **env)
{
	for (size_t i = 0; env != NULL && env[i] != NULL; i++)
		free(env[i]);
	free(env);
}
