/*
 * cofferdam-agent keep: holds one run for servers that are many short processes. It has one thread
 * and waits for nothing but the broker: programs and contexts have a process each
 * (keeper_program.c, keeper_context.c), which die with it. It believes its callers, who are of the
 * same user, and nothing that comes from inside. When it ends, by itself or by force, the sandbox
 * does: it is tied to this process's connection, and the run is over for the broker, too.
 */
#include "agent/keeper_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/log.h"
#include "common/xalloc.h"
#include "agent/keeper_client.h"
#include "agent/sandbox/sandbox_client.h"

#include "common/banned.h"

void
keeper_over(struct keeper_run *k, const char *status, const char *why)
{
	if (k->status != NULL)
		return;
	k->status = status;
	k->why = xstrdup(why);
}

/* --- beginning ---------------------------------------------------------------------------- */

static int
listener_open(struct keeper_run *k, struct err *err)
{
	struct sockaddr_un a;
	socklen_t n;
	int rc = keeper_address(k->ask.id, &a, &n, err);

	if (rc != 0)
		return rc;
	k->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (k->listener < 0 || bind(k->listener, (const struct sockaddr *)&a, n) != 0 ||
	    listen(k->listener, 64) != 0)
		return err_sys(err, ERR_EXISTS, errno, "keeper %s", k->ask.id);
	return 0;
}

/* As it is now: who asked looked, too, and it may be something else since. */
static int
workspace_take(const struct keeper_asked *a, struct sandbox_workspace *ws,
    struct sandbox_bind room[SANDBOX_BINDS_MAX], struct sandbox_spec *spec, struct err *err)
{
	const struct sandbox_guard g = {.workspace = a->workspace,
	    .workspace_option = "--workspace",
	    .binds = a->binds,
	    .nbinds = a->a.nbinds,
	    .state = a->state,
	    .socket = a->socket,
	    .unsafe = a->a.workspace_unsafe};
	int rc;

	spec->workspace = a->workspace;
	spec->binds = a->binds;
	spec->nbinds = a->a.nbinds;
	if ((rc = sandbox_spec_check(spec, err)) != 0 ||
	    (rc = sandbox_workspace_check(&g, ws, err)) != 0)
		return rc;
	sandbox_workspace_apply(ws, room, spec);
	return 0;
}

static int
begin(struct keeper_run *k, struct err *err)
{
	const struct keeper_ask *a = &k->ask.a;
	AUTO_WORKSPACE struct sandbox_workspace ws = {0};
	struct sandbox_bind binds[SANDBOX_BINDS_MAX];
	char **names = NULL;
	struct agent_hold_ask ask = {.broker = {.socket = a->socket,
					 .agent = a->agent,
					 .task = a->task,
					 .targets = a->targets,
					 .ntargets = a->ntargets,
					 .steer = &k->steer,
					 .as = a->as != KEEPER_SELF ? &a->as : NULL},
	    .spec = {.limits = a->limits,
		.name = a->id,
		.tied = true,
		.home = a->home,
		.may_lack = a->may_lack,
		.env = a->env},
	    .ws = &ws};
	bool none = false;
	int rc;

	ask.spec.limits.wall_s = KEEPER_TIME_MAX;
	if ((rc = workspace_take(&k->ask, &ws, binds, &ask.spec, err)) != 0 ||
	    (rc = listener_open(k, err)) != 0)
		return rc;
	if (a->narrow) {
		k->allow = a->allow;
		k->nallow = a->nallow;
		if ((rc = keeper_allow_ask(&k->ask, &ask.broker, &names, &none, err)) != 0)
			return rc;
	}
	rc = agent_hold_begin(&ask, &k->hold, err);
	k->steer.sandbox = k->hold.sandbox;
	keeper_list_free(names);
	if (rc == 0 && a->narrow)
		rc = keeper_allow_apply(k, err);
	return rc;
}

/* --- while it lives ------------------------------------------------------------------------- */

static void
accept_one(struct keeper_run *k)
{
	int fd = accept4(k->listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (!keeper_peer_is_ours(fd) || k->nconns == ARRAY_LEN(k->conns)) {
		(void)close(fd);
		return;
	}
	k->conns[k->nconns++] = fd;
	k->idle_by = 0;
}

static void
conn_serve(struct keeper_run *k, int fd)
{
	size_t i = 0;

	if (keeper_serve(k, fd))
		return;
	while (k->conns[i] != fd)
		i++;
	(void)close(fd);
	k->conns[i] = k->conns[--k->nconns];
	if (k->nconns == 0 && k->ask.a.idle_s != 0)
		k->idle_by = wire_now_ms() + k->ask.a.idle_s * INT64_C(1000);
}

static void
on_time(struct keeper_run *k)
{
	int64_t now = wire_now_ms();
	struct err e = {0};

	if (k->idle_by != 0 && now >= k->idle_by)
		keeper_over(k, "done", "nobody has asked for it for its idle time");
	if (k->paused || k->ends_at == 0 || now < k->ends_at)
		return;
	if (!k->pauses)
		keeper_over(k, "budget:time", "its time is over");
	else if (keeper_serve_pause(k, &e) != 0)
		keeper_over(k, "error", e.msg);
}

static int
wait_ms(const struct keeper_run *k)
{
	int64_t at = k->paused ? 0 : k->ends_at, left;

	if (k->idle_by != 0 && (at == 0 || k->idle_by < at))
		at = k->idle_by;
	if (at == 0)
		return 60000;
	left = at - wire_now_ms();
	return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

static void
broker_turn(struct keeper_run *k)
{
	struct err e = {0};

	bool over = broker_watch(k->hold.broker);

	if (broker_killed(k->hold.broker) != NULL)
		keeper_over(k, "error", broker_killed(k->hold.broker));
	else if (k->steer.stop != NULL)
		keeper_over(k, "stopped", k->steer.stop);
	else if (over)
		keeper_over(k, "error", "the broker says that it is over");
	/* A person lets it go on: what its caller paused stands still all the same. */
	if (k->paused && !k->steer.paused && sandbox_pause(k->hold.sandbox, &e) != 0)
		keeper_over(k, "error", e.msg);
}

/* The supervisor speaks unasked only to say that it is over. */
static void
sandbox_turn(struct keeper_run *k)
{
	char drop[64];
	ssize_t n = recv(k->hold.sandbox->wire, drop, sizeof(drop), MSG_DONTWAIT | MSG_PEEK);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		keeper_over(k, "error", "the sandbox went away");
	else if (n > 0)
		keeper_over(k, "error", "the sandbox has ended");
}

enum { P_LISTENER, P_LIFE, P_BROKER, P_SANDBOX, P_FIRST };

static size_t
polls(const struct keeper_run *k, struct pollfd *p)
{
	size_t n = P_FIRST;

	p[P_LISTENER] = (struct pollfd){.fd = k->listener, .events = POLLIN};
	p[P_LIFE] = (struct pollfd){.fd = k->life, .events = POLLIN};
	p[P_BROKER] = (struct pollfd){.fd = *broker_fd(k->hold.broker), .events = POLLIN};
	p[P_SANDBOX] = (struct pollfd){.fd = k->hold.sandbox->wire, .events = POLLIN};
	for (const struct keeper_item *i = k->items; i != NULL; i = i->next)
		p[n++] = (struct pollfd){.fd = i->wire, .events = POLLIN};
	for (size_t i = 0; i < k->nconns; i++)
		p[n++] = (struct pollfd){.fd = k->conns[i], .events = POLLIN};
	return n;
}

static struct keeper_item *
item_of(struct keeper_run *k, int wire)
{
	for (struct keeper_item *i = k->items; i != NULL; i = i->next)
		if (i->wire == wire)
			return i;
	return NULL;
}

/* Items and connections that a turn ends make descriptors that are none any more: so one of each at
 * a time, then anew. */
static void
turn(struct keeper_run *k)
{
	struct pollfd p[P_FIRST + KEEPER_ITEMS_MAX + KEEPER_CONNS_MAX];
	size_t n = polls(k, p), nconns = k->nconns;
	pid_t pid;

	if (poll(p, n, wait_ms(k)) < 0)
		return;
	on_time(k);
	if (p[P_LIFE].revents != 0)
		keeper_over(k, "error", "the server that held it is gone");
	if (p[P_BROKER].revents != 0)
		broker_turn(k);
	if (p[P_SANDBOX].revents != 0)
		sandbox_turn(k);
	for (size_t i = P_FIRST; i < n - nconns && k->status == NULL; i++) {
		struct keeper_item *it = p[i].revents != 0 ? item_of(k, p[i].fd) : NULL;

		if (it != NULL && !keeper_item_hear(k, it))
			keeper_item_drop(k, it);
	}
	for (size_t i = n - nconns; i < n && k->status == NULL; i++)
		if (p[i].revents != 0)
			conn_serve(k, p[i].fd);
	if (p[P_LISTENER].revents != 0)
		accept_one(k);
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		keeper_item_reaped(k, pid);
}

/* --- the end --------------------------------------------------------------------------------- */

static void
finish(struct keeper_run *k)
{
	struct err e = {0};

	cleanup_close_fd(&k->listener);
	k->steer.sandbox = NULL;
	while (k->items != NULL)
		keeper_item_drop(k, k->items);
	if (k->hold.sandbox != NULL) {
		agent_plan_unfollow(&k->hold.change);
		k->hold.change = (struct agent_change){0};
		sandbox_destroy(TAKE_PTR(k->hold.sandbox));
	}
	if (k->hold.broker != NULL && k->status != NULL &&
	    broker_end(k->hold.broker, k->status, k->why, &e) != 0)
		log_warn(
		    "run %s: its end is not recorded: %s", broker_plan(k->hold.broker)->run, e.msg);
}

static void
answer_hello(struct keeper_run *k, int conn)
{
	AUTO_BUF struct buf b = BUF(4096);
	const struct broker_plan *p = broker_plan(k->hold.broker);
	struct err e = {0};

	buf_lz(&b, k->ask.id);
	buf_lz(&b, p->run);
	buf_lz(&b, p->owner);
	buf_u32(&b, (uint32_t)getpid());
	(void)wire_send(conn, KEEPER_DONE, &b, NULL, 0, &e);
}

static int
fail(int conn, const struct err *why)
{
	AUTO_BUF struct buf b = BUF(8192);
	struct err e = {0};

	keeper_error_put(&b, why);
	(void)wire_send(conn, KEEPER_ERROR, &b, NULL, 0, &e);
	return 1;
}

static int
order_take(struct keeper_run *k, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	int rc = wire_recv(KEEPER_WIRE_FD, KEEPER_ASK_MS, WIRE_BODY_MAX, &m, err);

	if (rc == 0 && m.type != KEEPER_ASK)
		return err_set(err, ERR_PROTOCOL, "keeper: no order came");
	return rc == 0 ? keeper_ask_decode(buf_str(&m.body), &k->ask, err) : rc;
}

static void
run_free(struct keeper_run *k)
{
	agent_hold_free(&k->hold);
	steer_free(&k->steer);
	keeper_asked_free(&k->ask);
	keeper_list_free(k->narrowed);
	free(k->why);
	free(k);
}
DEFINE_AUTO(run, struct keeper_run, run_free)

static void
serve(struct keeper_run *k)
{
	uint32_t s = k->ask.a.time_s != 0 ? k->ask.a.time_s : KEEPER_TIME_MAX;
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	k->started_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	k->ends_at = wire_now_ms() + s * INT64_C(1000);
	k->pauses = k->ask.a.time_pauses;
	k->conns[k->nconns++] = KEEPER_WIRE_FD;
	answer_hello(k, KEEPER_WIRE_FD);
	while (k->status == NULL)
		turn(k);
}

int
keeper_main(void)
{
	AUTO(run) struct keeper_run *k = xcalloc(1, sizeof(*k));
	struct err e = {0};

	(void)fcntl(KEEPER_WIRE_FD, F_SETFD, FD_CLOEXEC);
	(void)fcntl(KEEPER_LIFE_FD, F_SETFD, FD_CLOEXEC);
	k->life = KEEPER_LIFE_FD;
	k->listener = -1;
	k->self = getpid();
	k->hold = AGENT_HOLD;
	if (order_take(k, &e) != 0 || begin(k, &e) != 0) {
		keeper_over(k, "error", e.msg);
		finish(k);
		return fail(KEEPER_WIRE_FD, &e);
	}
	serve(k);
	finish(k);
	/* Who asked for the end learns of it when nothing is left. */
	for (size_t i = 0; k->asked && i < k->nconns; i++)
		(void)wire_send(k->conns[i], KEEPER_DONE, NULL, NULL, 0, &e);
	return 0;
}
