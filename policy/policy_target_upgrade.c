/*
 * Keys of targets that say which protocols a connection may be switched to, and what passes then is
 * taken to do (docs/format-policy.md 4.7). Pure. Nobody judges that piece by piece, so who writes
 * the policy says it once, for each protocol.
 */
#include <stdlib.h>

#include "common/http.h"
#include "policy/policy_internal.h"

#include "common/banned.h"

#define PROTOCOLS_MAX 8

static int
by_name(const void *a, const void *b)
{
	const struct policy_upgrade *x = a, *y = b;

	return str_cmp(x->protocol, y->protocol);
}

static int
read_one(
    struct reader *r, const struct json *v, size_t i, struct policy_upgrade *u, struct err *err)
{
	struct str name = json_key(v, i);
	int rc;

	if (!http_is_protocol(name))
		return json_err(r->doc, json_at(v, i), err, ERR_INVALID,
		    "upgrade: a protocol is NAME or NAME/VERSION, at most 32 bytes, and neither "
		    "HTTP "
		    "nor TLS, is \"%.*s\"",
		    STR_ARG(name));
	u[i].protocol = read_keep(r, name);
	for (size_t k = 0; k < i; k++)
		if (http_protocol_is(u[k].protocol, name))
			return json_err(r->doc, json_at(v, i), err, ERR_INVALID,
			    "upgrade: protocol %.*s stands twice: its case does not count",
			    STR_ARG(name));
	rc = read_effect_list(r, json_at(v, i), &u[i].effects, err);
	if (rc == 0 && u[i].effects == 0)
		return json_err(r->doc, json_at(v, i), err, ERR_INVALID,
		    "upgrade: what passes over %.*s has no effects: say [\"read\"] if it only "
		    "reads",
		    STR_ARG(name));
	return rc;
}

int
policy_read_upgrade(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct target *t = out;
	size_t n = json_count(v);
	struct policy_upgrade *u;
	int rc = read_type(r, v, JSON_OBJECT, "upgrade", err);

	if (rc != 0)
		return rc;
	if (n == 0 || n > PROTOCOLS_MAX)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "upgrade must name from 1 to %d protocols, names %zu", PROTOCOLS_MAX, n);
	u = arena_alloc(r->p->mem, n * sizeof(*u));
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = read_one(r, v, i, u, err);
	if (rc != 0)
		return rc;
	qsort(u, n, sizeof(*u), by_name);
	t->pub.upgrades = u;
	t->pub.nupgrades = n;
	return 0;
}

const char *
policy_upgrade_fault(const struct policy_target *p)
{
	if (p->nupgrade_paths != 0 && p->nupgrades == 0)
		return "has upgrade_paths without an upgrade";
	if (p->nupgrades != 0 && p->model != TARGET_MODEL_NONE)
		return "is a model, so it cannot have an upgrade: its words would not be kept";
	return NULL;
}
