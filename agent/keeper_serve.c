/*
 * Requests of a keeper's callers, one at a time (process: cofferdam-agent keep). Each is read
 * whole, done, answered; what would take long is begun and told by a stream.
 */
#include "agent/keeper_run.h"

#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct request {
	struct keeper_run *k;
	struct str body;
	struct buf out;
	int fd; /* goes with the answer; -1: none */
};

static int
malformed(struct err *err)
{
	return err_set(err, ERR_PROTOCOL, "keeper: malformed request");
}

static int
on_hello(struct request *q, struct err *err UNUSED)
{
	const struct broker_plan *p = broker_plan(q->k->hold.broker);

	buf_lz(&q->out, q->k->ask.id);
	buf_lz(&q->out, p->run);
	buf_lz(&q->out, p->owner);
	buf_u32(&q->out, (uint32_t)getpid());
	return 0;
}

/* --- its state and its time ------------------------------------------------------------------- */

static void
targets_put(const struct keeper_run *k, struct jcs *j)
{
	const struct broker_plan *p = broker_plan(k->hold.broker);

	jcs_array(j, "targets");
	for (size_t i = 0; i < p->ntargets; i++) {
		const struct broker_target *t = &p->targets[i];

		if (t->target[0] == '\0' ||
		    (k->allow != NULL && !keeper_allowed(k->allow, k->nallow, t)))
			continue;
		jcs_open(j, NULL);
		jcs_str_lossy(j, "host", str_z(t->host));
		jcs_str_lossy(j, "kind", str_z(t->kind));
		jcs_int(j, "port", t->port);
		jcs_str_lossy(j, "target", str_z(t->target));
		jcs_close(j);
	}
	jcs_array_end(j);
}

static int
on_state(struct request *q, struct err *err UNUSED)
{
	const struct keeper_run *k = q->k;
	const struct broker_plan *p = broker_plan(k->hold.broker);
	struct sandbox_limits l = k->ask.a.limits, def = sandbox_limits_default();
	int64_t left = k->paused ? k->left : k->ends_at - wire_now_ms();
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	struct timespec now;
	struct jcs j;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	jcs_init(&j, &b);
	jcs_open(&j, NULL);
	jcs_int(&j, "ends_at_ms", (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + left);
	jcs_z(&j, "id", k->ask.id);
	jcs_open(&j, "limits");
	jcs_int(&j, "cpu_percent", l.cpu_percent != 0 ? l.cpu_percent : def.cpu_percent);
	jcs_int(&j, "memory_mib", l.memory_mib != 0 ? l.memory_mib : def.memory_mib);
	jcs_int(&j, "workspace_mib", l.workspace_mib != 0 ? l.workspace_mib : def.workspace_mib);
	jcs_close(&j);
	jcs_str_lossy(&j, "owner", str_z(p->owner));
	jcs_bool(&j, "paused", k->paused || k->steer.paused);
	jcs_bool(&j, "pauses", k->pauses);
	jcs_str_lossy(&j, "run", str_z(p->run));
	jcs_int(&j, "started_ms", k->started_ms);
	targets_put(k, &j);
	jcs_close(&j);
	buf_lstr(&q->out, buf_str(&b));
	return 0;
}

static int
time_set(struct keeper_run *k, uint32_t seconds, struct err *err)
{
	int rc;

	if (seconds == 0 || seconds > KEEPER_TIME_MAX)
		return err_set(err, ERR_INVALID, "a run's time is 1 to %d seconds, not %u",
		    KEEPER_TIME_MAX, seconds);
	/* The keeper keeps the time; the sandbox's own is the last resort behind it. */
	if ((rc = sandbox_extend(k->hold.sandbox, KEEPER_TIME_MAX, err)) != 0)
		return rc;
	if (k->paused)
		k->left = seconds * INT64_C(1000);
	else
		k->ends_at = wire_now_ms() + seconds * INT64_C(1000);
	return 0;
}

static int
on_time(struct request *q, struct err *err)
{
	struct rd r = rd_init(q->body);
	uint32_t seconds = rd_u32(&r);
	bool pauses = rd_u8(&r) == 1;
	int rc;

	if (!rd_end(&r))
		return malformed(err);
	if ((rc = time_set(q->k, seconds, err)) == 0)
		q->k->pauses = pauses;
	return rc;
}

int
keeper_serve_pause(struct keeper_run *k, struct err *err)
{
	int64_t left = k->ends_at - wire_now_ms();
	int rc;

	if (k->paused)
		return err_set(err, ERR_STATE, "run %s is paused already", k->ask.id);
	if ((rc = sandbox_pause(k->hold.sandbox, err)) != 0)
		return rc;
	k->paused = true;
	k->left = left > 0 ? left : 0;
	return 0;
}

static int
on_pause(struct request *q, struct err *err)
{
	return keeper_serve_pause(q->k, err);
}

static int
on_resume(struct request *q, struct err *err)
{
	struct rd r = rd_init(q->body);
	uint32_t seconds = rd_u32(&r);
	int rc;

	if (!rd_end(&r))
		return malformed(err);
	if (!q->k->paused)
		return err_set(err, ERR_STATE, "run %s is not paused", q->k->ask.id);
	if (q->k->steer.paused)
		return err_set(err, ERR_DENIED, "run %s is paused by a person, who lets it go on",
		    q->k->ask.id);
	if ((rc = sandbox_resume(q->k->hold.sandbox, err)) != 0)
		return rc;
	q->k->paused = false;
	return time_set(q->k, seconds, err);
}

static int
on_narrow(struct request *q, struct err *err)
{
	struct keeper_run *k = q->k;
	struct rd r = rd_init(q->body);
	const char *const *before = k->allow;
	size_t nbefore = k->nallow, n = 0;
	AUTO(keeper_list) char **list = keeper_list_take(&r, &n);
	int rc;

	if (!rd_end(&r))
		return malformed(err);
	if ((rc = keeper_allow_again(k, (const char *const *)list, n, err)) != 0)
		return rc;
	k->allow = (const char *const *)list;
	k->nallow = n;
	if ((rc = keeper_allow_apply(k, err)) != 0) {
		k->allow = before;
		k->nallow = nbefore;
		return rc;
	}
	keeper_list_free(k->narrowed);
	k->narrowed = TAKE_PTR(list);
	return 0;
}

/* --- record and end ------------------------------------------------------------------------------
 */

static int
on_event(struct request *q, struct err *err)
{
	struct rd r = rd_init(q->body);
	struct str type = rd_lstr(&r), fields = rd_lstr(&r), content = rd_lstr(&r);

	if (!rd_end(&r) || (!str_eqz(type, "note") && !str_eqz(type, "model")))
		return malformed(err);
	return broker_event(
	    q->k->hold.broker, str_eqz(type, "note") ? "note" : "model", fields, content, err);
}

static int
on_end(struct request *q, struct err *err)
{
	struct rd r = rd_init(q->body);
	struct str status = rd_lstr(&r), text = rd_lstr(&r);
	AUTO_FREE char *why = str_dup(text);

	if (!rd_end(&r))
		return malformed(err);
	q->k->asked = true;
	keeper_over(q->k,
	    str_eqz(status, "done")	? "done"
	    : str_eqz(status, "budget") ? "budget:time"
					: "error",
	    why);
	return 0;
}

/* --- programs and contexts
 * ------------------------------------------------------------------------ */

static int
on_program(struct request *q, struct err *err)
{
	uint32_t number = 0;
	int rc = keeper_item_program(q->k, q->body, &number, &q->fd, err);

	buf_u32(&q->out, number);
	return rc;
}

static struct keeper_item *
program_of(struct request *q, struct rd *r, struct err *err)
{
	uint32_t number = rd_u32(r);
	struct keeper_item *i = keeper_item_program_find(q->k, number);

	if (i == NULL)
		(void)err_set(err, ERR_NOT_FOUND, "there is no program %u (any more)", number);
	return i;
}

static int
on_attach(struct request *q, struct err *err)
{
	struct rd r = rd_init(q->body);
	struct keeper_item *i = program_of(q, &r, err);
	AUTO_FD int ours = -1, theirs = -1;
	int rc;

	if (!rd_end(&r) || i == NULL)
		return i == NULL ? err->code : malformed(err);
	if ((rc = keeper_item_stream(&theirs, &ours, err)) != 0 ||
	    (rc = keeper_item_tell(i, HOLD_STREAM, NULL, ours, err)) != 0)
		return rc;
	q->fd = TAKE_FD(theirs);
	return 0;
}

/* The rest of the request is the holder's message. */
static int
pass(struct request *q, uint8_t type, struct err *err)
{
	struct rd r = rd_init(q->body);
	struct keeper_item *i = program_of(q, &r, err);
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);

	if (i == NULL)
		return err->code;
	buf_put(&b, r.p, r.n);
	return keeper_item_tell(i, type, &b, -1, err);
}

static int
on_input(struct request *q, struct err *err)
{
	return pass(q, HOLD_INPUT, err);
}

static int
on_signal(struct request *q, struct err *err)
{
	return pass(q, HOLD_SIGNAL, err);
}

static int
on_resize(struct request *q, struct err *err)
{
	return pass(q, HOLD_RESIZE, err);
}

static int
on_context(struct request *q, struct err *err)
{
	char id[KEEPER_ID_MAX + 1] = "";
	int rc = keeper_item_context(q->k, q->body, id, &q->fd, err);

	buf_lz(&q->out, id);
	return rc;
}

static struct keeper_item *
context_of(struct request *q, struct err *err)
{
	struct rd r = rd_init(q->body);
	struct str id = rd_lstr(&r);
	struct keeper_item *i = rd_end(&r) ? keeper_item_context_find(q->k, id) : NULL;

	if (i == NULL)
		(void)err_set(
		    err, ERR_NOT_FOUND, "there is no context \"%.*s\" (any more)", STR_ARG(id));
	return i;
}

static int
on_close(struct request *q, struct err *err)
{
	struct keeper_item *i = context_of(q, err);

	if (i == NULL)
		return err->code;
	keeper_item_drop(q->k, i);
	return 0;
}

static int
on_restart(struct request *q, struct err *err)
{
	struct keeper_item *i = context_of(q, err);

	return i != NULL ? keeper_item_tell(i, HOLD_RESTART, NULL, -1, err) : err->code;
}

static int
on_cell(struct request *q, struct err *err)
{
	return keeper_item_cell(q->k, q->body, &q->fd, err);
}

static void
list_put(struct request *q, bool contexts)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);

	keeper_item_list(q->k, contexts, &b);
	buf_lstr(&q->out, buf_str(&b));
}

static int
on_programs(struct request *q, struct err *err UNUSED)
{
	list_put(q, false);
	return 0;
}

static int
on_contexts(struct request *q, struct err *err UNUSED)
{
	list_put(q, true);
	return 0;
}

/* What the broker refused since that was last asked, a line each. */
static void
refused_put(struct keeper_run *k, struct buf *out)
{
	AUTO_FREE char *text = broker_take_refused(k->hold.broker);
	struct str rest = str_z(text), line;
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_array(&j, "refused");
	while (str_cut(&rest, '\n', &line))
		jcs_str_lossy(&j, NULL, line);
	jcs_array_end(&j);
	jcs_close(&j);
}

static int
on_query(struct request *q, struct err *err)
{
	struct rd r = rd_init(q->body);
	AUTO_FREE char *verb = keeper_text_take(&r);
	struct str args = rd_lstr(&r);
	AUTO_BUF struct buf b = BUF((size_t)1 << 18);
	int rc = 0;

	if (!rd_end(&r) || verb == NULL)
		return malformed(err);
	if (strcmp(verb, "refused") == 0)
		refused_put(q->k, &b);
	else
		rc = broker_query(q->k->hold.broker, verb, args, &b, err);
	buf_lstr(&q->out, buf_str(&b));
	return rc;
}

static const struct {
	enum keeper_call type;
	int (*fn)(struct request *q, struct err *err);
} calls[] = {{KEEPER_HELLO, on_hello}, {KEEPER_STATE, on_state}, {KEEPER_TIME, on_time},
    {KEEPER_PAUSE, on_pause}, {KEEPER_RESUME, on_resume}, {KEEPER_NARROW, on_narrow},
    {KEEPER_EVENT, on_event}, {KEEPER_END, on_end}, {KEEPER_PROGRAM, on_program},
    {KEEPER_ATTACH, on_attach}, {KEEPER_PROGRAMS, on_programs}, {KEEPER_INPUT, on_input},
    {KEEPER_SIGNAL, on_signal}, {KEEPER_RESIZE, on_resize}, {KEEPER_CONTEXT, on_context},
    {KEEPER_CONTEXTS, on_contexts}, {KEEPER_CLOSE, on_close}, {KEEPER_RESTART, on_restart},
    {KEEPER_CELL, on_cell}, {KEEPER_QUERY, on_query}};

static int
call(struct request *q, uint8_t type, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		if (calls[i].type == type)
			return calls[i].fn(q, err);
	return err_set(err, ERR_PROTOCOL, "keeper: no such request (%u)", type);
}

bool
keeper_serve(struct keeper_run *k, int conn)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct request q = {.k = k, .out = BUF(WIRE_BODY_MAX), .fd = -1};
	struct err e = {0}, ignored;
	int rc;

	if (wire_recv(conn, WIRE_SEND_MS, WIRE_BODY_MAX, &m, &e) != 0)
		return false;
	q.body = buf_str(&m.body);
	rc = call(&q, m.type, &e);
	if (broker_killed(k->hold.broker) != NULL)
		keeper_over(k, "error", broker_killed(k->hold.broker));
	if (rc != 0) {
		buf_reset(&q.out);
		keeper_error_put(&q.out, &e);
	}
	/* The answer to an order to end is the keeper's last word. */
	if (m.type != KEEPER_END || rc != 0)
		rc = wire_send(conn, rc == 0 ? KEEPER_DONE : KEEPER_ERROR, &q.out, &q.fd,
		    rc == 0 && q.fd >= 0 ? 1 : 0, &ignored);
	buf_free(&q.out);
	cleanup_close_fd(&q.fd);
	return rc != ERR_UNAVAILABLE && rc != ERR_TIMEOUT;
}
