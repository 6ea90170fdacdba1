/*
 * Plans (process: core). Which targets of the policy a run gets, and the loopback address of
 * each listener. The agent is the owner's process: it may ask for fewer targets, not for others.
 */
#include "broker/core_plan.h"

#include <stdlib.h>

#include "broker/core_ca.h"
#include "broker/core_child.h"
#include "broker/core_cred.h"
#include "broker/core_words.h"
#include "common/xalloc.h"
#include "policy/effects_aws.h"

#include "common/banned.h"

char *
core_plan_host(const struct policy_target *t)
{
	return xasprintf("%s%.*s", t->wildcard ? "*." : "", STR_ARG(t->host));
}

const char *
core_plan_scheme(const struct policy_target *t)
{
	if (!target_kind_is_http(t->kind))
		return "";
	return t->tls ? "https" : "http";
}

void
core_plan_place(const struct policy_target *t, char out[CORE_PLACE_SIZE])
{
	AUTO_BUF struct buf b = BUF((size_t)4 << 20), hex = BUF(CORE_PLACE_SIZE);
	const struct str words[] = {t->host, t->address, t->ca_pem, t->database, t->user,
	    t->credential, t->via, t->via_credential, t->files};
	struct hash h;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		buf_lstr(&b, words[i]);
	buf_u32(&b, t->port);
	buf_u8(&b, (uint8_t)t->kind);
	buf_u8(&b, (uint8_t)t->model);
	buf_u8(&b, (uint8_t)(t->tls | t->tls_verify << 1 | t->wildcard << 2 | t->wrapped << 3));
	for (size_t i = 0; i < t->nnetworks; i++)
		buf_lstr(&b, t->networks[i]);
	h = hash_sha256(buf_str(&b));
	enc_hex(&hex, str_mem(h.b, (CORE_PLACE_SIZE - 1) / 2));
	memcpy(out, hex.p, CORE_PLACE_SIZE - 1);
	out[CORE_PLACE_SIZE - 1] = '\0';
}

/* --- places and addresses -------------------------------------------------------- */

static bool
taken(const struct core_run *run, const char *address, uint16_t port)
{
	for (size_t i = 0; i < run->ntargets; i++)
		if (run->targets[i].listen == CORE_LISTEN_TCP &&
		    (port == 0 || run->targets[i].port == port) &&
		    strcmp(run->targets[i].address, address) == 0)
			return true;
	return false;
}

/* Its own of before, then one of the end, then any that is free; CORE_SLOTS_MAX: there is none. */
static size_t
slot_for(const struct core_run *run, const char *host)
{
	size_t at = run->ntargets;

	for (size_t i = 0; i < run->ntargets; i++)
		if (run->targets[i].state == CORE_TARGET_GONE &&
		    strcmp(run->targets[i].host, host) == 0)
			return i;
	for (size_t i = 0; at == CORE_SLOTS_MAX && i < run->ntargets; i++)
		if (run->targets[i].state == CORE_TARGET_GONE)
			at = i;
	return at;
}

/*
 * A name resolves to one address: targets of one host share it, as long as their ports differ, and
 * it is no other host's as long as the run lives, since clients remember.
 */
static void
address_for(struct core_run *run, const char *host, uint16_t port, char out[16])
{
	for (size_t i = 0; i < run->ntargets; i++) {
		const struct core_target *t = &run->targets[i];

		if ((t->listen != CORE_LISTEN_TCP && t->state != CORE_TARGET_GONE) ||
		    t->address[0] == '\0' || !str_ieqz(str_z(host), t->host) ||
		    taken(run, t->address, port))
			continue;
		memcpy(out, t->address, strnlen(t->address, 15) + 1);
		return;
	}
	core_run_address(run->naddresses, out);
	while (taken(run, out, 0))
		core_run_address(++run->naddresses, out);
}

static int
put(struct core_run *run, struct core_target *t, struct err *err)
{
	size_t at = slot_for(run, t->host);
	char address[16] = "";

	if (at == CORE_SLOTS_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "a run has at most %d targets", CORE_TARGETS_MAX);
	if (t->listen == CORE_LISTEN_TCP)
		address_for(run, t->host, t->port, address);
	t->address = address;
	core_run_target_put(run, at, t);
	run->naddresses++;
	return 0;
}

/* --- targets --------------------------------------------------------------------- */

static bool
is_named(const struct core_run *run, struct str id)
{
	for (size_t i = 0; i < run->nnames; i++)
		if (str_eqz(id, run->names[i]))
			return true;
	return false;
}

/* t, a model, is asked from the sandbox: the policy lets it, the run asked for it and has no loop
 * that has the models for itself. */
static bool
inside(const struct core_run *run, const struct policy_target *t)
{
	return t->wrapped && !run->loop && is_named(run, t->id);
}

static int
target_put(struct core_run *run, const struct policy_target *t, enum core_target_state state,
    struct err *err)
{
	AUTO_FREE char *id = str_dup(t->id), *host = core_plan_host(t), *db = str_dup(t->database),
		       *user = str_dup(t->user);
	bool own = !t->wildcard && (t->model == TARGET_MODEL_NONE || inside(run, t));
	struct core_target to = {.id = id,
	    .kind = (char *)(uintptr_t)target_kind_name(t->kind),
	    .scheme = (char *)(uintptr_t)core_plan_scheme(t),
	    .host = host,
	    .database = db,
	    .user = user,
	    .port = t->port,
	    .listen = own ? CORE_LISTEN_TCP : CORE_LISTEN_NONE,
	    .state = state == CORE_TARGET_WAITS && !own ? CORE_TARGET_HELD : state};

	core_plan_place(t, to.place);
	return put(run, &to, err);
}

static int
proxy_put(struct core_run *run, enum core_target_state state, struct err *err)
{
	return put(run,
	    &(struct core_target){.kind = (char *)(uintptr_t)CORE_KIND_PROXY,
		.host = (char *)(uintptr_t)CORE_PROXY_HOST,
		.port = CORE_PROXY_PORT,
		.listen = CORE_LISTEN_TCP,
		.state = state},
	    err);
}

static size_t
targets_of(const struct core_run *run)
{
	size_t n = 0;

	for (size_t i = 0; i < run->ntargets; i++)
		n += run->targets[i].id[0] != '\0';
	return n;
}

int
core_plan_add(struct core_run *run, const struct policy_target *t, enum core_target_state state,
    struct err *err)
{
	if (t == NULL)
		return core_plan_has_http(run) ? proxy_put(run, state, err) : 0;
	if (targets_of(run) >= CORE_TARGETS_MAX)
		return err_set(
		    err, ERR_TOO_LARGE, "a run has at most %d targets", CORE_TARGETS_MAX);
	return target_put(run, t, state, err);
}

/* Why no run gets such a target; NULL: it does. */
static const char *
unserved(const struct policy_target *t)
{
	if (t->port == 0 || t->host.n == 0)
		return "it has no host";
	if (t->kind == TARGET_REDIS)
		return "the broker does not speak the protocol of kind redis yet; its rules can be "
		       "tested with cofferdam policy test";
	if (t->kind == TARGET_GIT && t->quarantine)
		return "the broker does not look into what is pushed yet, as \"quarantine\" asks";
	return NULL;
}

static bool
served(const struct policy_target *t)
{
	return unserved(t) == NULL;
}

static bool
owned(const struct core_run *run)
{
	const struct policy_person *q =
	    policy_person_by_login(run->core->policy, str_z(run->login));

	return q != NULL && str_eqz(q->id, run->owner);
}

bool
core_plan_wants(const struct core_run *run, const struct policy_target *t)
{
	if (!served(t) || !owned(run) || !core_child_has(run, t->id))
		return false;
	if (t->model != TARGET_MODEL_NONE)
		return run->loop || inside(run, t);
	return run->all || is_named(run, t->id);
}

bool
core_plan_has_http(const struct core_run *run)
{
	const struct policy *pol = run->core->policy;

	for (size_t i = 0; i < policy_target_count(pol); i++) {
		const struct policy_target *t = policy_target_at(pol, i);

		if (target_kind_is_http(t->kind) && core_plan_wants(run, t) &&
		    (t->model == TARGET_MODEL_NONE || inside(run, t)))
			return true;
	}
	return false;
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
		return err_set(err, ERR_UNSUPPORTED, "target %.*s is not served: %s", STR_ARG(id),
		    unserved(t));
	if (t->model != TARGET_MODEL_NONE && !t->wrapped)
		return err_set(err, ERR_UNSUPPORTED,
		    "target %.*s is a model: the loop alone reaches it, unless the policy has "
		    "\"wrapped\": true for it",
		    STR_ARG(id));
	if (!core_child_has(run, id))
		return err_set(err, ERR_DENIED, "run %s, its parent, has no target %.*s itself",
		    run->parent, STR_ARG(id));
	if (has(run, id))
		return err_set(err, ERR_EXISTS, "target %.*s is named twice", STR_ARG(id));
	core_run_name_add(run, id);
	return core_plan_add(run, t, CORE_TARGET_SERVES, err);
}

int
core_plan_targets(struct core_run *run, struct rd *body, struct err *err)
{
	const struct policy *pol = run->core->policy;
	uint32_t n = rd_u32(body);
	int rc = 0;

	run->all = n == 0;
	for (uint32_t i = 0; rc == 0 && i < n && !body->bad; i++)
		rc = target_named(run, rd_lstr(body), err);
	for (size_t i = 0; rc == 0 && n == 0 && i < policy_target_count(pol); i++) {
		const struct policy_target *t = policy_target_at(pol, i);

		if (served(t) && t->model == TARGET_MODEL_NONE && core_child_has(run, t->id))
			rc = core_plan_add(run, t, CORE_TARGET_SERVES, err);
	}
	return rc;
}

/* Models that a wrapped agent may ask join; whether it needs one, its profile says. */
static int
wrapped_join(struct core_run *run, struct err *err)
{
	const struct policy *pol = run->core->policy;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < policy_target_count(pol); i++) {
		const struct policy_target *t = policy_target_at(pol, i);

		if (!served(t) || t->model == TARGET_MODEL_NONE || !t->wrapped ||
		    !core_child_has(run, t->id) || has(run, t->id))
			continue;
		core_run_name_add(run, t->id);
		rc = core_plan_add(run, t, CORE_TARGET_SERVES, err);
	}
	return rc;
}

/* By the loop's listener, so that the sandbox has none of them. */
static int
loop_join(struct core_run *run, struct err *err)
{
	const struct policy *pol = run->core->policy;
	bool any = false;
	int rc = 0;

	run->loop = true;
	for (size_t i = 0; rc == 0 && i < policy_target_count(pol); i++) {
		const struct policy_target *t = policy_target_at(pol, i);

		if (!served(t) || t->model == TARGET_MODEL_NONE || !core_child_has(run, t->id))
			continue;
		if (has(run, t->id))
			return err_set(err, ERR_UNSUPPORTED,
			    "target %.*s is a model: the loop reaches it without being asked, and "
			    "the sandbox beside a loop never",
			    STR_ARG(t->id));
		rc = core_plan_add(run, t, CORE_TARGET_SERVES, err);
		any = true;
	}
	if (rc == 0 && !any)
		rc = err_set(err, ERR_NOT_FOUND, "%s",
		    run->parent[0] != '\0'
			? "its parent has no model target"
			: "the policy has no model target (kind http with \"model\")");
	return rc;
}

int
core_plan_finish(struct core_run *run, bool loop, bool wrapped, struct err *err)
{
	int rc = wrapped ? wrapped_join(run, err) : 0;

	if (rc == 0)
		rc = core_plan_add(run, NULL, CORE_TARGET_SERVES, err);
	if (rc == 0 && loop)
		rc = loop_join(run, err);
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

	return t != NULL && t->placeholder.n != 0 &&
		       (t->model == TARGET_MODEL_NONE || inside(run, t))
		   ? t
		   : NULL;
}

/* The policy puts another placeholder there. */
static bool
is_placeholder(const struct core_run *run, const char *name)
{
	for (size_t i = 0; i < run->ntargets; i++) {
		const struct policy_target *t = with_variable(run, i);

		if (t != NULL && str_eqz(t->placeholder, name))
			return true;
	}
	return false;
}

/* Of those that are signed for, the one whose placeholder is the policy's AWS_ACCESS_KEY_ID, or the
 * first; NULL: none. */
static const struct policy_target *
aws_main(const struct core_run *run)
{
	const struct policy_target *first = NULL;

	for (size_t i = 0; i < run->ntargets; i++) {
		const struct policy_target *t =
		    policy_target(run->core->policy, str_z(run->targets[i].id));

		if (t == NULL || t->kind != TARGET_AWS || t->credential.n == 0)
			continue;
		if (str_eqz(t->placeholder, "AWS_ACCESS_KEY_ID"))
			return t;
		if (first == NULL)
			first = t;
	}
	return first;
}

/*
 * The variables that clients of AWS read, of one target that is signed for: the broker knows
 * them by the id, and signs with a key of its own whatever they sign with.
 */
static uint32_t
aws_put(const struct core_run *run, struct buf *list)
{
	struct {
		const char *name;
		struct str value;
	} vars[] = {{"AWS_ACCESS_KEY_ID", STR("")},
	    {"AWS_SECRET_ACCESS_KEY", STR("the-broker-signs")}, {"AWS_REGION", STR("")},
	    {"AWS_DEFAULT_REGION", STR("")}};
	const struct policy_target *t = aws_main(run);
	char value[CORE_PLACEHOLDER_SIZE];
	uint32_t n = 0;

	if (t == NULL)
		return 0;
	core_cred_placeholder(run, t->credential, value);
	vars[0].value = str_z(value);
	vars[2].value = vars[3].value = effects_aws_region(t);
	for (size_t i = 0; i < ARRAY_LEN(vars); i++) {
		if (vars[i].value.n == 0 || is_placeholder(run, vars[i].name))
			continue;
		buf_lz(list, vars[i].name);
		buf_lstr(list, vars[i].value);
		n++;
	}
	return n;
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
	n += aws_put(run, &list);
	buf_u32(b, n);
	buf_put_str(b, buf_str(&list));
}

/* Models that the sandbox may ask: what they speak, where, and what stands for the key. */
static void
models_put(const struct core_run *run, struct buf *b)
{
	AUTO_BUF struct buf list = BUF(65536);
	uint32_t n = 0;

	for (size_t i = 0; i < run->ntargets; i++) {
		const struct core_target *r = &run->targets[i];
		const struct policy_target *t = policy_target(run->core->policy, str_z(r->id));
		AUTO_FREE char *url = NULL;
		char value[CORE_PLACEHOLDER_SIZE] = "";

		if (t == NULL || !inside(run, t))
			continue;
		if (t->credential.n != 0)
			core_cred_placeholder(run, t->credential, value);
		url = r->port == (t->tls ? 443 : 80)
			  ? xasprintf("%s://%s", r->scheme, r->host)
			  : xasprintf("%s://%s:%u", r->scheme, r->host, (unsigned)r->port);
		buf_lz(&list, r->id);
		buf_lz(&list, target_model_name(t->model));
		buf_lz(&list, url);
		buf_lz(&list, value);
		n++;
	}
	buf_u32(b, n);
	buf_put_str(b, buf_str(&list));
}

static void
entry_put(const struct core_target *t, struct buf *b)
{
	buf_lz(b, t->id);
	buf_lz(b, t->kind);
	buf_lz(b, t->host);
	buf_u32(b, t->port);
	buf_lz(b, t->address);
	buf_lz(b, t->database);
	buf_lz(b, t->user);
	buf_u8(b, (uint8_t)t->listen);
}

void
core_plan_send(struct core_run *run)
{
	AUTO_BUF struct buf b = BUF(131072), words = BUF(CORE_WORDS_MAX);

	buf_lz(&b, run->id);
	buf_lz(&b, run->owner);
	buf_lstr(&b, core_ca_pem(run->core->ca));
	buf_u32(&b, (uint32_t)run->ntargets);
	for (size_t i = 0; i < run->ntargets; i++)
		entry_put(&run->targets[i], &b);
	env_put(run, &b);
	core_words_changed(run, &words);
	buf_lstr(&b, buf_str(&words));
	models_put(run, &b);
	core_send(run->peer, MSG_A_PLAN, &b);
}

void
core_plan_send_change(const struct core_run *run)
{
	AUTO_BUF struct buf b = BUF(262144), list = BUF(131072);
	uint32_t n = 0;

	for (size_t i = 0; i < run->ntargets; i++) {
		if (run->targets[i].state == CORE_TARGET_GONE)
			continue;
		buf_u32(&list, (uint32_t)i);
		buf_u8(&list, run->targets[i].state == CORE_TARGET_WAITS);
		entry_put(&run->targets[i], &list);
		n++;
	}
	buf_u64(&b, run->patch.serial);
	buf_u32(&b, n);
	buf_put_str(&b, buf_str(&list));
	env_put(run, &b);
	core_send(run->peer, MSG_A_TARGETS, &b);
}
