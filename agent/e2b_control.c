/*
 * Sandboxes made, changed, ended (process: a worker of cofferdam-sandboxd): the control plane. The
 * hub says whose sandbox it is and whether there is room; the keeper does what is asked.
 */
#include "agent/e2b.h"

#include "common/log.h"
#include "common/xalloc.h"
#include "agent/keeper_wire.h"

#include "common/banned.h"

/* --- create ------------------------------------------------------------------------------- */

struct create {
	struct e2b_entry want;
	char **env, **allow;
	bool narrow;
};

static void
create_free(struct create *c)
{
	e2b_entry_free(&c->want);
	keeper_list_free(c->env);
	keeper_list_free(c->allow);
}
#define AUTO_CREATE __attribute__((cleanup(create_free)))

/* An object of texts, as it is told again. */
static int
texts_check(const struct json *o, const char *what, struct err *err)
{
	if (o != NULL && json_type(o) != JSON_NULL && json_type(o) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, "%s must be an object of texts", what);
	for (size_t i = 0; i < json_count(o); i++)
		if (json_type(json_at(o, i)) != JSON_STRING)
			return err_set(err, ERR_INVALID, "%s: \"%.*s\" must be a text", what,
			    (int)(json_key(o, i).n < 64 ? json_key(o, i).n : 64), json_key(o, i).p);
	return 0;
}

static int
object_text(const struct json *o, const char *what, char **ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(E2B_METADATA_MAX);
	struct jcs j;
	int rc = 0;

	jcs_init(&j, &b);
	if (o == NULL || json_type(o) != JSON_OBJECT)
		buf_put_z(&b, "{}");
	else
		rc = jcs_value(&j, NULL, o, err);
	if (rc == 0 && buf_over(&b))
		rc = err_set(err, ERR_TOO_LARGE, "%s: over %zu bytes", what, E2B_METADATA_MAX);
	if (rc == 0)
		*ret = buf_dup_z(&b);
	return rc;
}

static int
env_take(const struct json *o, char ***ret, struct err *err)
{
	size_t n = json_count(o);
	char **env;
	int rc = texts_check(o, "envVars", err);

	if (rc != 0)
		return rc;
	if (n > SANDBOX_ENV_MAX / 2)
		return err_set(
		    err, ERR_TOO_LARGE, "envVars: %zu variables, limit %d", n, SANDBOX_ENV_MAX / 2);
	env = xcalloc(n + 1, sizeof(*env));
	for (size_t i = 0; i < n; i++)
		env[i] = xasprintf("%.*s=%.*s", STR_ARG(json_key(o, i)),
		    (int)json_str(json_at(o, i)).n, json_str(json_at(o, i)).p);
	*ret = env;
	return 0;
}

static int
timeout_take(const struct json *v, uint32_t *ret, struct err *err)
{
	int64_t s = json_int(v);

	if (v == NULL || json_type(v) == JSON_NULL) {
		*ret = E2B_TIMEOUT_DEFAULT;
		return 0;
	}
	if (json_type(v) != JSON_INT || s < 1 || s > KEEPER_TIME_MAX)
		return err_set(
		    err, ERR_INVALID, "timeout must be from 1 to %d seconds", KEEPER_TIME_MAX);
	*ret = (uint32_t)s;
	return 0;
}

static int
unsupported_check(const struct json *o, struct err *err)
{
	static const char *const no[] = {"mcp", "volumeMounts", "iam"};

	for (size_t i = 0; i < ARRAY_LEN(no); i++)
		if (json_count(json_get(o, no[i])) != 0)
			return err_set(err, ERR_UNSUPPORTED,
			    "%s is not served here: docs/e2b.md lists what is", no[i]);
	return 0;
}

static int
create_take(const struct json *o, struct create *c, struct err *err)
{
	const struct json *network = json_get(o, "network"), *resume = json_get(o, "autoResume");
	struct str template = json_str(json_get(o, "templateID"));
	int rc = unsupported_check(o, err);

	if (rc != 0 || (rc = texts_check(json_get(o, "metadata"), "metadata", err)) != 0 ||
	    (rc = object_text(json_get(o, "metadata"), "metadata", &c->want.metadata, err)) != 0 ||
	    (rc = object_text(network, "network", &c->want.network, err)) != 0 ||
	    (rc = env_take(json_get(o, "envVars"), &c->env, err)) != 0 ||
	    (rc = timeout_take(json_get(o, "timeout"), &c->want.timeout_s, err)) != 0 ||
	    (rc = e2b_network_rules(o, network, &c->allow, &c->narrow, err)) != 0)
		return rc;
	if (template.n > 128)
		return err_set(err, ERR_TOO_LARGE, "templateID: over 128 bytes");
	c->want.template = template.n != 0 ? str_dup(template) : xstrdup("base");
	c->want.pauses = json_bool(json_get(o, "autoPause"));
	c->want.resumes = json_bool(json_get(resume, "enabled"));
	return 0;
}

static size_t
list_count(char **list)
{
	size_t n = 0;

	while (list[n] != NULL)
		n++;
	return n;
}

static int
keeper_make(
    struct e2b_request *q, const struct create *c, const struct e2b_entry *e, struct err *err)
{
	AUTO(keeper) struct keeper *k = NULL;
	AUTO_FREE char *task = xasprintf("sandbox %s of %s", e->id, e->principal);
	struct keeper_ask ask = {.id = e->id,
	    .socket = q->config->agent_socket,
	    .agent = "e2b",
	    .task = task,
	    .allow = (const char *const *)c->allow,
	    .nallow = list_count(c->allow),
	    .narrow = c->narrow,
	    .as = e->as,
	    .limits = q->config->limits,
	    .may_lack =
		q->config->limits_optional ? SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER : 0,
	    .env = (const char *const *)c->env,
	    .home = true,
	    .time_s = c->want.timeout_s,
	    .time_pauses = c->want.pauses};
	int rc = keeper_start(&ask, q->config->life, &k, err);

	/* The broker's own limit of runs is a limit like the hub's. */
	if (rc == ERR_TOO_LARGE)
		err->code = ERR_BUSY;
	return rc == 0 ? e2b_hub_commit(q->config, e->id, err) : err->code;
}

static void
entry_put(struct jcs *j, const struct e2b_entry *e)
{
	jcs_open(j, NULL);
	jcs_z(j, "clientID", "cofferdam");
	jcs_z(j, "envdAccessToken", e->token);
	jcs_z(j, "envdVersion", E2B_ENVD_VERSION);
	jcs_z(j, "sandboxID", e->id);
	jcs_str_lossy(j, "templateID", str_z(e->template));
	jcs_z(j, "trafficAccessToken", e->traffic);
	jcs_close(j);
}

static void
answer_entry(struct e2b_request *q, unsigned status, const struct e2b_entry *e)
{
	AUTO_BUF struct buf b = BUF(E2B_JSON_MAX);
	struct jcs j;

	jcs_init(&j, &b);
	entry_put(&j, e);
	e2b_answer_json(q, status, &b);
}

void
e2b_on_create(struct e2b_request *q)
{
	AUTO_CREATE struct create c = {0};
	AUTO_ENTRY struct e2b_entry e = {0};
	AUTO(json) struct json_doc *d = NULL;
	struct err why = {0}, ignored = {0};

	if (!e2b_body_json(q, E2B_JSON_MAX, &d))
		return;
	if (create_take(json_root(d), &c, &why) != 0 ||
	    e2b_hub_reserve(q->config, q->key, &c.want, &e, &why) != 0) {
		e2b_answer_error(q, &why);
		return;
	}
	if (keeper_make(q, &c, &e, &why) != 0) {
		(void)e2b_hub_release(q->config, e.id, &ignored);
		log_warn("sandbox %s of %s: %s", e.id, e.principal, why.msg);
		e2b_answer_error(q, &why);
		return;
	}
	answer_entry(q, 201, &e);
}

/* --- one that is there ---------------------------------------------------------------------- */

/* Its entry and its keeper; false: answered. */
static bool
own(struct e2b_request *q)
{
	struct err e = {0};

	if (e2b_hub_find(q->config, q->key, q->id, &q->entry, &e) == 0 &&
	    keeper_open(q->entry.id, &q->keeper, &e) == 0)
		return true;
	if (e.code == ERR_NOT_FOUND) {
		AUTO_FREE char *words = xasprintf(
		    "sandbox \"%.*s\" was not found", (int)(q->id.n < 64 ? q->id.n : 64), q->id.p);

		e2b_answer_fail(q, 404, words);
	} else {
		e2b_answer_error(q, &e);
	}
	return false;
}

static void
done(struct e2b_request *q, int rc, const struct err *e)
{
	if (rc == 0)
		e2b_answer_none(q);
	else
		e2b_answer_error(q, e);
}

void
e2b_on_delete(struct e2b_request *q)
{
	struct err e = {0};

	if (!own(q))
		return;
	/* One that has ended meanwhile is ended. */
	(void)keeper_end(q->keeper, "done", "ended by its client", &e);
	e2b_answer_none(q);
}

static bool
body_timeout(struct e2b_request *q, uint32_t *ret)
{
	AUTO(json) struct json_doc *d = NULL;
	struct err e = {0};

	if (!e2b_body_json(q, 65536, &d))
		return false;
	if (timeout_take(json_get(json_root(d), "timeout"), ret, &e) == 0)
		return true;
	e2b_answer_error(q, &e);
	return false;
}

static void
timeout_keep(struct e2b_request *q, uint32_t seconds)
{
	struct err e = {0};

	q->entry.timeout_s = seconds;
	(void)e2b_hub_change(q->config, q->key, &q->entry, &e);
}

void
e2b_on_timeout(struct e2b_request *q)
{
	struct err e = {0};
	uint32_t s = 0;
	int rc;

	if (!own(q) || !body_timeout(q, &s))
		return;
	if ((rc = keeper_time(q->keeper, s, q->entry.pauses, &e)) == 0)
		timeout_keep(q, s);
	done(q, rc, &e);
}

/* Prolongs, and never shortens. */
void
e2b_on_refreshes(struct e2b_request *q)
{
	AUTO(json) struct json_doc *d = NULL, *state = NULL;
	AUTO_BUF struct buf b = BUF(E2B_JSON_MAX);
	struct err e = {0};
	int64_t s, left;
	struct timespec now;
	int rc;

	if (!own(q) || !e2b_body_json(q, 65536, &d))
		return;
	s = json_int(json_get(json_root(d), "duration"));
	s = s < 1 ? E2B_TIMEOUT_DEFAULT : s > KEEPER_TIME_MAX ? KEEPER_TIME_MAX : s;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	if ((rc = keeper_state(q->keeper, &b, &e)) == 0 &&
	    (rc = json_parse(buf_str(&b), "state", &state, &e)) == 0) {
		left = json_int(json_get(json_root(state), "ends_at_ms")) / 1000 - now.tv_sec;
		if (left < s)
			rc = keeper_time(q->keeper, (uint32_t)s, q->entry.pauses, &e);
	}
	done(q, rc, &e);
}

void
e2b_on_pause(struct e2b_request *q)
{
	AUTO(json) struct json_doc *d = NULL;
	const struct json *memory;
	struct err e = {0};

	if (!own(q) || !e2b_body_json(q, 65536, &d))
		return;
	memory = json_get(json_root(d), "memory");
	if (memory != NULL && json_type(memory) == JSON_BOOL && !json_bool(memory)) {
		e2b_answer_fail(q, 400, "a pause without its memory is not served here");
		return;
	}
	done(q, keeper_pause(q->keeper, &e), &e);
}

/* Resumes one that is paused; of one that runs the time is prolonged, never cut. */
void
e2b_on_connect(struct e2b_request *q)
{
	AUTO_BUF struct buf b = BUF(E2B_JSON_MAX);
	AUTO(json) struct json_doc *d = NULL;
	struct timespec now;
	struct err e = {0};
	uint32_t s = 0;
	bool woken = false;
	int rc;

	if (!own(q) || !body_timeout(q, &s))
		return;
	rc = keeper_resume(q->keeper, s, &e);
	woken = rc == 0;
	if (rc == ERR_STATE && (rc = keeper_state(q->keeper, &b, &e)) == 0 &&
	    (rc = json_parse(buf_str(&b), "state", &d, &e)) == 0) {
		(void)clock_gettime(CLOCK_REALTIME, &now);
		if (json_int(json_get(json_root(d), "ends_at_ms")) / 1000 < now.tv_sec + s)
			rc = keeper_time(q->keeper, s, q->entry.pauses, &e);
	}
	if (rc != 0) {
		e2b_answer_error(q, &e);
		return;
	}
	timeout_keep(q, s);
	answer_entry(q, woken ? 201 : 200, &q->entry);
}

void
e2b_on_network(struct e2b_request *q)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO(keeper_list) char **allow = NULL;
	char *text = NULL;
	const char *const all[] = {"*"};
	struct err e = {0};
	bool narrow = false;
	int rc;

	if (!own(q) || !e2b_body_json(q, 65536, &d))
		return;
	rc = e2b_network_rules(json_root(d), json_root(d), &allow, &narrow, &e);
	if (rc == 0)
		rc = object_text(json_root(d), "network", &text, &e);
	if (rc == 0)
		rc = narrow ? keeper_narrow(
				  q->keeper, (const char *const *)allow, list_count(allow), &e)
			    : keeper_narrow(q->keeper, all, 1, &e);
	if (rc == 0) {
		free(q->entry.network);
		q->entry.network = TAKE_PTR(text);
		timeout_keep(q, q->entry.timeout_s);
	}
	free(text);
	done(q, rc, &e);
}
