/*
 * Plans (process: core). Which targets of the policy a run gets, and the loopback address of
 * each listener. The agent is the owner's process: it may ask for fewer targets, not for others.
 */
#include "broker/core_plan.h"

#include <stdlib.h>

#include "broker/core_ca.h"
#include "broker/core_cred.h"
#include "common/xalloc.h"

#include "common/banned.h"

char *
core_plan_host(const struct policy_target *t)
{
	return xasprintf("%s%.*s", t->wildcard ? "*." : "", STR_ARG(t->host));
}

const char *
core_plan_scheme(const struct policy_target *t)
{
	if (t->kind != TARGET_HTTP)
		return "";
	return t->tls ? "https" : "http";
}

/* --- addresses ------------------------------------------------------------------- */

static bool
taken(const struct core_run *run, const char *address, uint16_t port)
{
	for (size_t i = 0; i < run->ntargets; i++)
		if (run->targets[i].port == port && strcmp(run->targets[i].address, address) == 0)
			return true;
	return false;
}

/* A name resolves to one address: targets of one host share it, as long as their ports differ. */
static void
address_for(const struct core_run *run, const char *host, uint16_t port, char out[16])
{
	for (size_t i = 0; i < run->ntargets; i++) {
		const struct core_target *t = &run->targets[i];

		if (t->listen != CORE_LISTEN_TCP || !str_ieqz(str_z(host), t->host) ||
		    taken(run, t->address, port))
			continue;
		memcpy(out, t->address, strnlen(t->address, 15) + 1);
		return;
	}
	core_run_address(run->ntargets, out);
}

/* --- targets --------------------------------------------------------------------- */

static int
target_add(struct core_run *run, const struct policy_target *t, struct err *err)
{
	AUTO_FREE char *id = str_dup(t->id), *host = core_plan_host(t), *db = str_dup(t->database),
		       *user = str_dup(t->user);
	bool own = !t->wildcard && t->model == TARGET_MODEL_NONE;
	char address[16] = "";

	if (run->ntargets >= CORE_TARGETS_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "a run has at most %d targets", CORE_TARGETS_MAX);
	if (own)
		address_for(run, host, t->port, address);
	core_run_target_add(run, &(struct core_target){.id = id,
				     .kind = (char *)(uintptr_t)target_kind_name(t->kind),
				     .scheme = (char *)(uintptr_t)core_plan_scheme(t),
				     .host = host,
				     .address = address,
				     .database = db,
				     .user = user,
				     .port = t->port,
				     .listen = own ? CORE_LISTEN_TCP : CORE_LISTEN_NONE});
	return 0;
}

static bool
served(const struct policy_target *t)
{
	return (t->kind == TARGET_POSTGRES || t->kind == TARGET_HTTP) && t->port != 0 &&
	       t->host.n != 0;
}

static bool
has(const struct core_run *run, struct str id)
{
	for (size_t i = 0; i < run->ntargets; i++)
		if (str_eqz(id, run->targets[i].id))
			return true;
	return false;
}

static int
target_named(struct core_run *run, struct str id, struct err *err)
{
	const struct policy_target *t = policy_target(run->core->policy, id);

	if (t == NULL)
		return err_set(
		    err, ERR_NOT_FOUND, "the policy has no target \"%.*s\"", STR_ARG(id));
	if (!served(t))
		return err_set(err, ERR_UNSUPPORTED,
		    "target %.*s: only postgres and http targets with a host are served",
		    STR_ARG(id));
	if (t->model != TARGET_MODEL_NONE)
		return err_set(err, ERR_UNSUPPORTED,
		    "target %.*s is a model: the loop alone reaches it", STR_ARG(id));
	if (has(run, id))
		return err_set(err, ERR_EXISTS, "target %.*s is named twice", STR_ARG(id));
	return target_add(run, t, err);
}

int
core_plan_targets(struct core_run *run, struct rd *body, struct err *err)
{
	const struct policy *pol = run->core->policy;
	uint32_t n = rd_u32(body);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < n && !body->bad; i++)
		rc = target_named(run, rd_lstr(body), err);
	for (size_t i = 0; rc == 0 && n == 0 && i < policy_target_count(pol); i++) {
		const struct policy_target *t = policy_target_at(pol, i);

		if (served(t) && t->model == TARGET_MODEL_NONE)
			rc = target_add(run, t, err);
	}
	return rc;
}

static void
proxy_add(struct core_run *run)
{
	char address[16];
	bool http = false;

	for (size_t i = 0; i < run->ntargets; i++)
		http = http || run->targets[i].scheme[0] != '\0';
	if (!http)
		return;
	core_run_address(run->ntargets, address);
	core_run_target_add(run, &(struct core_target){.kind = (char *)(uintptr_t)CORE_KIND_PROXY,
				     .host = (char *)(uintptr_t)CORE_PROXY_HOST,
				     .address = address,
				     .port = CORE_PROXY_PORT,
				     .listen = CORE_LISTEN_TCP});
}

int
core_plan_finish(struct core_run *run, bool loop, struct err *err)
{
	const struct policy *pol = run->core->policy;
	bool any = false;
	int rc = 0;

	proxy_add(run);
	for (size_t i = 0; loop && rc == 0 && i < policy_target_count(pol); i++) {
		const struct policy_target *t = policy_target_at(pol, i);

		if (!served(t) || t->model == TARGET_MODEL_NONE)
			continue;
		rc = target_add(run, t, err);
		any = true;
	}
	if (rc == 0 && loop && !any)
		rc = err_set(err, ERR_NOT_FOUND,
		    "the policy has no model target (kind http with \"model\")");
	if (rc == 0 && loop)
		core_run_target_add(
		    run, &(struct core_target){.kind = (char *)(uintptr_t)CORE_KIND_LOOP,
			     .listen = CORE_LISTEN_UNIX});
	return rc;
}

/* --- A_PLAN ---------------------------------------------------------------------- */

static const struct policy_target *
with_variable(const struct core_run *run, size_t i)
{
	const struct policy_target *t = policy_target(run->core->policy, str_z(run->targets[i].id));

	return t != NULL && t->placeholder.n != 0 && t->model == TARGET_MODEL_NONE ? t : NULL;
}

/* What a client in the sandbox may send in place of the credential. */
static void
env_put(const struct core_run *run, struct buf *b)
{
	AUTO_BUF struct buf list = BUF(65536);
	uint32_t n = 0;

	for (size_t i = 0; i < run->ntargets; i++) {
		const struct policy_target *t = with_variable(run, i);
		char value[CORE_PLACEHOLDER_SIZE];

		if (t == NULL)
			continue;
		core_cred_placeholder(run, t->credential, value);
		buf_lstr(&list, t->placeholder);
		buf_lz(&list, value);
		n++;
	}
	buf_u32(b, n);
	buf_put_str(b, buf_str(&list));
}

void
core_plan_send(const struct core_run *run)
{
	AUTO_BUF struct buf b = BUF(131072);

	buf_lz(&b, run->id);
	buf_lz(&b, run->owner);
	buf_lstr(&b, core_ca_pem(run->core->ca));
	buf_u32(&b, (uint32_t)run->ntargets);
	for (size_t i = 0; i < run->ntargets; i++) {
		const struct core_target *t = &run->targets[i];

		buf_lz(&b, t->id);
		buf_lz(&b, t->kind);
		buf_lz(&b, t->host);
		buf_u32(&b, t->port);
		buf_lz(&b, t->address);
		buf_lz(&b, t->database);
		buf_lz(&b, t->user);
		buf_u8(&b, (uint8_t)t->listen);
	}
	env_put(run, &b);
	core_send(run->peer, MSG_A_PLAN, &b);
}
