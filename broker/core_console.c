/*
 * The console's wire (process: core). The console is trusted with what its people may see and with
 * nothing else: it cannot sign, so it decides nothing, and without a session that core itself
 * opened it is told nothing. What it says in a person's name must be that of the session.
 */
#include "broker/core_console.h"

#include "broker/core_enrol.h"

#include <stdlib.h>

#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* --- the desk ---------------------------------------------------------------------- */

struct core_desk *
core_desk_new(void)
{
	struct core_desk *d = xcalloc(1, sizeof(*d));

	d->origin = xstrdup("");
	rand_bytes(d->key, sizeof(d->key));
	return d;
}

void
core_desk_free(struct core_desk *d)
{
	if (d == NULL)
		return;
	core_session_end_all(d);
	core_enrol_free_all(d);
	free(d->origin);
	free(d);
}

int
core_desk_origin(struct core_desk *d, struct str text, struct err *err)
{
	int rc = text.n != 0 ? weborigin_parse(text, &d->at, err) : 0;

	if (rc != 0)
		return rc;
	free(d->origin);
	d->origin = str_dup(text);
	return 0;
}

struct str
core_desk_origin_text(const struct core_desk *d)
{
	return str_z(d->origin);
}

/* --- answers ----------------------------------------------------------------------- */

static void
answer(struct core *c, uint64_t id, int code, struct str result)
{
	AUTO_BUF struct buf b = BUF(IPC_BODY_MAX);

	buf_u64(&b, id);
	buf_u32(&b, (uint32_t)-code);
	buf_lstr(&b, result);
	core_send(c->console, MSG_V_REPLY, &b);
}

static struct core_call_slot *
call_slot(struct core_desk *d, uint64_t serial)
{
	for (size_t i = 0; i < CORE_CALLS_MAX; i++)
		if (d->calls[i].serial == serial)
			return &d->calls[i];
	return NULL;
}

bool
core_console_reply(struct core *c, uint64_t peer, int code, struct str result)
{
	struct core_call_slot *s = call_slot(c->desk, peer);

	if (s == NULL || peer == 0)
		return false;
	s->serial = 0;
	answer(c, s->call, code, result);
	return true;
}

void
core_console_changed(struct core *c)
{
	if (c->console == NULL || c->desk->told)
		return;
	c->desk->told = true;
	core_send(c->console, MSG_V_CHANGED, NULL);
}

void
core_console_gone(struct core *c)
{
	memset(c->desk->calls, 0, sizeof(c->desk->calls));
	core_session_end_all(c->desk);
	c->desk->told = false;
}

/* --- calls ------------------------------------------------------------------------- */

/* Who that is, and for how long. */
static int
session_tell(struct core_call *call, struct str token, struct err *err)
{
	const struct policy_person *q = core_session_person(call->core, token);
	struct jcs *j = &call->j;

	if (q == NULL)
		return err_set(err, ERR_UNAUTHORISED, "you are not signed in");
	jcs_str(j, "person", q->id);
	jcs_array(j, "roles");
	for (size_t i = 0; i < q->nroles; i++)
		jcs_str(j, NULL, q->roles[i]);
	jcs_array_end(j);
	jcs_int(j, "seconds", core_session_left(call->core, token));
	return 0;
}

/* Beside those of the control socket that people may ask in a browser (core_control.c). */
static const struct {
	const char *verb;
	bool session;
	int (*fn)(struct core_call *call, struct err *err);
} verbs[] = {
    {"sign-in-begin", false, core_session_begin},
    {"sign-in", false, core_session_open},
    {"enrol-begin", false, core_enrol_begin},
    {"enrol", false, core_enrol_make},
    {"statement", true, core_look_statement},
    {"calendars", true, core_look_calendars},
};

/* What is said in a person's name must be said by that person's browser. */
static int
own_name(struct core_call *call, struct str session, struct err *err)
{
	const struct policy_person *q = core_session_person(call->core, session);
	struct str person = json_str(json_get(call->args, "person"));

	if (q == NULL)
		return err_set(err, ERR_UNAUTHORISED, "you are not signed in");
	if (!str_eq(person, q->id))
		return err_set(err, ERR_UNAUTHORISED, "this session is %.*s's", STR_ARG(q->id));
	return 0;
}

struct wanted {
	struct str session, verb;
};

static int
call_verb(struct core_call *call, const void *arg, struct err *err)
{
	const struct wanted *w = arg;
	struct str session = w->session, verb = w->verb;
	int rc;

	if (str_eqz(verb, "sign-out")) {
		core_session_close(call->core, session);
		return 0;
	}
	if (str_eqz(verb, "session"))
		return session_tell(call, session, err);
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (!str_eqz(verb, verbs[i].verb))
			continue;
		rc = verbs[i].session ? own_name(call, session, err) : 0;
		if (rc == 0 && call->core->policy == NULL)
			rc = err_set(err, ERR_UNAVAILABLE, "no policy is active: nobody has a key");
		return rc != 0 ? rc : verbs[i].fn(call, err);
	}
	rc = own_name(call, session, err);
	return rc != 0 ? rc : core_control_verb(call, verb, true, err);
}

int
core_console_on_call(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	struct core *c = p->core;
	struct core_call_slot *slot = call_slot(c->desk, 0);
	uint64_t id = rd_u64(body);
	struct str session = rd_lstr(body), verb = rd_lstr(body), args = rd_lstr(body);
	const struct wanted w = {session, verb};
	struct core_call call = {.core = c};

	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "V_CALL is malformed");
	c->desk->told = false;
	if (slot == NULL) {
		answer(c, id, ERR_UNAVAILABLE, STR("too many questions at once, try again"));
		return 0;
	}
	*slot = (struct core_call_slot){.serial = ++c->last_serial, .call = id};
	call.peer = slot->serial;
	core_control_run(&call, args, call_verb, &w);
	return 0;
}
