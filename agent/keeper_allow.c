/*
 * A run narrowed to some of the targets that the policy gives it (process: cofferdam-agent keep).
 * Nothing here widens: whatever a caller lists, what the run reaches is the broker's targets, and
 * the broker judges each request. An entry that fits none of them is refused, so that nobody takes
 * a wish for a permission.
 */
#include "agent/keeper_run.h"

#include "common/xalloc.h"

#include "common/banned.h"

static bool
same(struct str a, const char *z)
{
	return z[0] != '\0' && str_ieqz(a, z);
}

/* "*.example.com" fits a host below it, and the target that is written so. */
static bool
below(struct str entry, struct str host)
{
	size_t n = entry.n - 1;

	if (entry.n < 3 || entry.p[0] != '*' || entry.p[1] != '.' || host.n <= n)
		return false;
	for (size_t i = 0; i < n; i++) {
		char a = entry.p[1 + i], b = host.p[host.n - n + i];

		if (a != b && ((a | 32) != (b | 32) || (a | 32) < 'a' || (a | 32) > 'z'))
			return false;
	}
	return true;
}

bool
keeper_allowed(const char *const *allow, size_t n, const struct broker_target *t)
{
	for (size_t i = 0; i < n; i++) {
		struct str e = str_z(allow[i]);

		if (str_eqz(e, "*") || same(e, t->target) || same(e, t->host) ||
		    below(e, str_z(t->host)))
			return true;
	}
	return false;
}

/* A target that only "*" fits. */
static char nobody[] = "";
static const struct broker_target any = {.target = nobody, .host = nobody};

/* The proxy and the loop's socket have no name: they serve the others. */
static bool
named(const struct broker_target *t)
{
	return t->target[0] != '\0';
}

static void
there_is(const struct broker_plan *p, struct buf *out)
{
	for (size_t i = 0, n = 0; i < p->ntargets; i++) {
		const struct broker_target *t = &p->targets[i];

		if (!named(t))
			continue;
		if (n++ == 8) {
			buf_put_z(out, ", ...");
			return;
		}
		buf_printf(out, "%s%s (%s)", n > 1 ? ", " : "", t->target, t->host);
	}
	if (out->n == 0)
		buf_put_z(out, "none");
}

int
keeper_allow_check(const struct broker_plan *p, const char *const *allow, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		AUTO_BUF struct buf all = BUF(2048);
		bool fits = strcmp(allow[i], "*") == 0;

		for (size_t j = 0; j < p->ntargets && !fits; j++)
			fits =
			    named(&p->targets[j]) && keeper_allowed(&allow[i], 1, &p->targets[j]);
		if (fits)
			continue;
		there_is(p, &all);
		return err_set(err, ERR_DENIED,
		    "\"%.100s\" is no target of this run, and what it may reach is the broker's "
		    "targets alone: %.*s; a new one is for the policy to add",
		    allow[i], (int)all.n, (const char *)all.p);
	}
	return 0;
}

int
keeper_allow_ask(const struct keeper_asked *a, struct broker_ask *ask, char ***ret, bool *ret_none,
    struct err *err)
{
	AUTO(broker) struct broker *probe = NULL;
	const struct broker_plan *p;
	struct err e = {0};
	size_t n = 0;
	char **names;
	int rc = broker_open(ask, &probe, err);

	if (rc != 0)
		return rc;
	p = broker_plan(probe);
	rc = keeper_allow_check(p, a->a.allow, a->a.nallow, err);
	names = xcalloc(p->ntargets + 2, sizeof(*names));
	for (size_t i = 0; rc == 0 && i < p->ntargets; i++)
		if (named(&p->targets[i]) &&
		    keeper_allowed(a->a.allow, a->a.nallow, &p->targets[i]))
			names[n++] = xstrdup(p->targets[i].target);
	/* A run that names none has all: so it names one, and its listener is closed. */
	*ret_none = n == 0;
	for (size_t i = 0; n == 0 && i < p->ntargets; i++)
		if (named(&p->targets[i]))
			names[n++] = xstrdup(p->targets[i].target);
	(void)broker_end(probe, "done", "which targets there are", &e);
	if (rc != 0) {
		keeper_list_free(names);
		return rc;
	}
	ask->targets = (const char *const *)names;
	ask->ntargets = n;
	*ret = names;
	return 0;
}

/* --- while it lives ------------------------------------------------------------------------ */

static bool
is_http(const struct broker_target *t)
{
	return strcmp(t->kind, "postgres") != 0;
}

static bool
keeps(void *arg, const struct broker_target *t)
{
	const struct keeper_run *k = arg;
	const struct broker_plan *p = broker_plan(k->hold.broker);

	if (k->allow == NULL)
		return true;
	if (named(t))
		return keeper_allowed(k->allow, k->nallow, t);
	if (strcmp(t->kind, "proxy") != 0)
		return true;
	for (size_t i = 0; i < p->ntargets; i++)
		if (named(&p->targets[i]) && is_http(&p->targets[i]) &&
		    keeper_allowed(k->allow, k->nallow, &p->targets[i]))
			return true;
	return false;
}

int
keeper_allow_again(const struct keeper_run *k, const char *const *allow, size_t n, struct err *err)
{
	const struct broker_plan *p = broker_plan(k->hold.broker);

	if (k->allow == NULL)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (strcmp(allow[i], "*") == 0 && !keeper_allowed(k->allow, k->nallow, &any))
			return err_set(err, ERR_DENIED,
			    "this run was narrowed, and what was taken away does not come back: "
			    "begin "
			    "a new one");
	for (size_t i = 0; i < p->ntargets; i++)
		if (named(&p->targets[i]) && keeper_allowed(allow, n, &p->targets[i]) &&
		    !keeper_allowed(k->allow, k->nallow, &p->targets[i]))
			return err_set(err, ERR_DENIED,
			    "%s was taken away from this run, and does not come back: begin a new "
			    "one",
			    p->targets[i].target);
	return 0;
}

/* The proxy serves every http target of the run. */
static int
proxy_check(const struct keeper_run *k, struct err *err)
{
	const struct broker_plan *p = broker_plan(k->hold.broker);
	const struct broker_target *in = NULL, *out = NULL;

	for (size_t i = 0; i < p->ntargets; i++) {
		const struct broker_target *t = &p->targets[i];

		if (!named(t) || !is_http(t))
			continue;
		if (keeper_allowed(k->allow, k->nallow, t))
			in = t;
		else
			out = t;
	}
	if (in == NULL || out == NULL)
		return 0;
	return err_set(err, ERR_DENIED,
	    "%s would stay and %s would go: the proxy of a run serves all of its http targets, so "
	    "they go together; begin a new run that is narrowed from the start",
	    in->target, out->target);
}

int
keeper_allow_apply(struct keeper_run *k, struct err *err)
{
	int rc = keeper_allow_check(broker_plan(k->hold.broker), k->allow, k->nallow, err);

	if (rc == 0)
		rc = proxy_check(k, err);
	if (rc != 0)
		return rc;
	return agent_plan_narrow(&k->hold.change, keeps, k, err);
}
