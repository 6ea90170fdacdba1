/*
 * Speaks the A_* messages of common/ipc_msg.tbl. Runs in cofferdam-agent; the broker proves
 * itself by owning the socket's directory, we prove our user by the socket. If the wire is
 * lost for good the run is over: what cannot be recorded must not go on.
 */
#include "agent/agent_broker_int.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "common/ipc.h"
#include "common/jcs.h"
#include "common/json.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "agent/agent_as.h"
#include "agent/agent_broker_int.h"
#include "agent/agent_steer.h"

#include "common/banned.h"

#define ANSWER_MS 60000
#define RESUME_TRIES 150 /* of 100 ms each */

int
broker_send_msg(struct broker *b, uint16_t type, const struct buf *body, const int *fds, size_t n,
    struct err *err)
{
	if (b->fd < 0)
		return err_set(err, ERR_UNAVAILABLE, "broker: no connection");
	return ipc_sync_send(b->fd, IPC_ROLE_AGENT, IPC_ROLE_CORE, type, body, fds, n, err);
}

static int change_take(struct broker *b, const struct buf *body, struct err *err);

/* A_KILL and A_ERROR may come in place of any answer; both are errors to whoever waits. */
static int
recv_msg(struct broker *b, int ms, uint16_t *ret_type, struct buf *body, struct err *err)
{
	int fds[IPC_FDS_MAX], rc;
	size_t nfds = IPC_FDS_MAX;
	struct rd r;
	uint32_t code;
	struct str text;

	if (b->fd < 0)
		return err_set(err, ERR_UNAVAILABLE, "broker: no connection");
	rc = ipc_sync_recv(
	    b->fd, IPC_ROLE_AGENT, IPC_ROLE_CORE, ms, ret_type, body, fds, &nfds, err);
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < nfds; i++)
		(void)close(fds[i]);
	r = rd_init(buf_str(body));
	if (*ret_type == MSG_A_KILL) {
		buf_free(&b->later.frame);
		free(b->killed);
		b->killed = str_dup(rd_lstr(&r));
		return err_set(err, ERR_STATE, "the run was ended: %s", b->killed);
	}
	if (*ret_type == MSG_A_ERROR) {
		code = rd_u32(&r);
		text = rd_lstr(&r);
		if (!rd_end(&r) || code == 0 || code > 100)
			return err_set(err, ERR_PROTOCOL, "broker: malformed error");
		return err_set(err, -(int)code, "broker: %.*s", STR_ARG(text));
	}
	if (*ret_type == MSG_A_STEER && b->steer != NULL)
		return steer_take(b->steer, buf_str(body), err);
	if (*ret_type == MSG_A_SEEN && b->steer != NULL)
		return steer_seen(b->steer, buf_str(body), err);
	if (*ret_type == MSG_A_EVENT_ACK && broker_later_take(b, buf_str(body))) {
		*ret_type = 0; /* nobody waits for it by itself */
		return 0;
	}
	return *ret_type == MSG_A_TARGETS ? change_take(b, body, err) : 0;
}

/* Targets may come and go, and people speak, while anything is waited for. */
static bool
unasked(uint16_t type)
{
	return type == 0 || type == MSG_A_TARGETS || type == MSG_A_STEER || type == MSG_A_SEEN;
}

int
broker_expect(struct broker *b, uint16_t type, struct buf *body, struct err *err)
{
	uint16_t got = MSG_A_TARGETS;
	int rc = 0;

	while (rc == 0 && unasked(got))
		rc = recv_msg(b, ANSWER_MS, &got, body, err);
	if (rc == 0 && got != type)
		return err_set(err, ERR_PROTOCOL, "broker: %s came, %s was expected",
		    ipc_msg_name(got), ipc_msg_name(type));
	return rc;
}

/* --- while the run lives --------------------------------------------------------- */

static int
change_take(struct broker *b, const struct buf *body, struct err *err)
{
	AUTO_FREE struct broker_plan *next = xcalloc(1, sizeof(*next));
	AUTO_BUF struct buf out = BUF(4096), why = BUF(2048);
	struct rd r = rd_init(buf_str(body));
	uint64_t serial = rd_u64(&r);
	int rc = broker_targets_take(&r, true, next, err);

	if (rc == 0 && !rd_end(&r))
		rc = err_set(err, ERR_PROTOCOL, "broker: malformed change");
	if (rc == 0 && b->change != NULL)
		b->change(b->change_arg, next, &why);
	if (rc == 0)
		broker_plan_swap(&b->plan, next);
	broker_plan_drop(next);
	if (rc != 0)
		return rc;
	buf_u64(&out, serial);
	buf_lstr(&out, buf_over(&why) ? STR("too much to tell") : buf_str(&why));
	return broker_send_msg(b, MSG_A_CHANGED, &out, NULL, 0, err);
}

void
broker_on_change(struct broker *b, broker_change_fn *fn, void *arg)
{
	b->change = fn;
	b->change_arg = arg;
}

/* --- from the beginning to the end ----------------------------------------------- */

bool
broker_shows(const struct agent_steer *s)
{
	return s != NULL && ((s->out != NULL && s->out->fd >= 0) || s->nlimits != 0);
}

static void
open_put(const struct broker_ask *a, struct buf *out)
{
	buf_u32(out, IPC_VERSION);
	buf_lz(out, a->agent);
	buf_lz(out, a->task);
	buf_lz(out, a->parent);
	buf_u32(out, (uint32_t)a->ntargets);
	for (size_t i = 0; i < a->ntargets; i++)
		buf_lz(out, a->targets[i]);
	buf_u32(out, (uint32_t)a->neffects);
	for (size_t i = 0; i < a->neffects; i++)
		buf_lz(out, a->effects[i]);
	buf_lz(out, a->budget);
	buf_lz(out, "{\"back_end\":\"native\"}");
	buf_u8(out,
	    (uint8_t)((a->loop ? 1 : 0) | (broker_shows(a->steer) ? 2 : 0) | (a->wrapped ? 4 : 0)));
}

int
broker_open(const struct broker_ask *a, struct broker **ret, struct err *err)
{
	AUTO(broker) struct broker *b = xcalloc(1, sizeof(*b));
	AUTO_BUF struct buf out = BUF(IPC_BODY_MAX), in = BUF(IPC_BODY_MAX);
	int rc;

	b->fd = -1;
	b->path = xstrdup(a->socket);
	b->steer = a->steer;
	b->as_user = a->as != NULL ? *a->as : 0;
	b->as = a->as != NULL ? &b->as_user : NULL;
	if (agent_as_connect(a->socket, b->as, &b->fd, err) != 0)
		return err_wrap(err, "the broker's agent socket (is the broker running?)");
	open_put(a, &out);
	if (out.n > 65536)
		return err_set(
		    err, ERR_TOO_LARGE, "task and targets: %zu bytes, limit 65536", out.n);
	if ((rc = broker_send_msg(b, MSG_A_OPEN, &out, NULL, 0, err)) != 0 ||
	    (rc = broker_expect(b, MSG_A_PLAN, &in, err)) != 0 ||
	    (rc = broker_plan_take(&b->plan, buf_str(&in), err)) != 0)
		return rc;
	*ret = TAKE_PTR(b);
	return 0;
}

void
broker_free(struct broker *b)
{
	if (b == NULL)
		return;
	broker_plan_free(&b->plan);
	free(b->refused);
	free(b->killed);
	free(b->path);
	buf_free(&b->later.frame);
	if (b->fd >= 0)
		(void)close(b->fd);
	free(b);
}

const struct broker_plan *
broker_plan(const struct broker *b)
{
	return &b->plan;
}

int
broker_listen(struct broker *b, uint32_t index, int fd, struct err *err)
{
	AUTO_BUF struct buf out = BUF(64);

	buf_u32(&out, index);
	return broker_send_msg(b, MSG_A_LISTEN, &out, &fd, 1, err);
}

/* The record wants canonical JSON; the sandbox's own text is only JSON. */
static int
canonical(const char *text, struct buf *out, struct err *err)
{
	AUTO(json) struct json_doc *d = NULL;
	struct jcs j;
	int rc = json_parse(str_z(text), "sandbox level", &d, err);

	if (rc != 0)
		return rc;
	jcs_init(&j, out);
	return jcs_value(&j, NULL, json_root(d), err);
}

int
broker_start(struct broker *b, const char *level, struct err *err)
{
	AUTO_BUF struct buf out = BUF(4096), in = BUF(IPC_BODY_MAX), text = BUF(4000);
	int rc;

	if ((rc = canonical(level, &text, err)) != 0)
		return rc;
	buf_lstr(&out, buf_str(&text));
	if (buf_over(&text) || buf_over(&out))
		return err_set(err, ERR_TOO_LARGE, "sandbox level: more than 4000 bytes");
	if ((rc = broker_send_msg(b, MSG_A_START, &out, NULL, 0, err)) != 0 ||
	    (rc = broker_expect(b, MSG_A_STARTED, &in, err)) != 0)
		return rc;
	b->started = true;
	return 0;
}

static int
resume_once(struct broker *b, struct err *err)
{
	AUTO_BUF struct buf out = BUF(256), in = BUF(IPC_BODY_MAX);
	int rc;

	if (b->fd >= 0)
		(void)close(b->fd);
	b->fd = -1;
	if ((rc = agent_as_connect(b->path, b->as, &b->fd, err)) != 0)
		return rc;
	buf_u32(&out, IPC_VERSION);
	buf_lz(&out, b->plan.run);
	buf_u64(&out, b->steer != NULL ? b->steer->heard : 0);
	buf_u8(&out, broker_shows(b->steer) ? 1 : 0);
	if ((rc = broker_send_msg(b, MSG_A_RESUME, &out, NULL, 0, err)) != 0)
		return rc;
	return broker_expect(b, MSG_A_STARTED, &in, err);
}

/* Core is restarted by its parent within moments; an answer of refusal is final. */
int
broker_resume(struct broker *b, struct err *err)
{
	const struct timespec nap = {.tv_nsec = 100000000};
	int rc = err_set(err, ERR_UNAVAILABLE, "broker: no connection");

	if (!b->started)
		return rc;
	log_warn("the broker's wire is gone: looking for it");
	for (int i = 0; i < RESUME_TRIES; i++) {
		rc = resume_once(b, err);
		if (rc == 0 && b->later.id != 0)
			rc = broker_send_msg(b, MSG_A_EVENT, &b->later.frame, NULL, 0, err);
		if (rc == 0 || b->killed != NULL)
			return rc;
		if (rc != ERR_UNAVAILABLE && rc != ERR_SYSTEM && rc != ERR_TIMEOUT &&
		    rc != ERR_PROTOCOL)
			return rc; /* it answered, with a refusal */
		(void)nanosleep(&nap, NULL);
	}
	return rc;
}

const int *
broker_fd(const struct broker *b)
{
	return &b->fd;
}

const char *
broker_killed(const struct broker *b)
{
	return b->killed;
}

/* Nothing but a kill and other targets may come unasked. A lost wire is looked for; if it stays
 * lost, the program ends. */
bool
broker_watch(void *arg)
{
	struct broker *b = arg;
	AUTO_BUF struct buf in = BUF(IPC_BODY_MAX);
	struct err e = {0};
	uint16_t type;
	int rc = recv_msg(b, 1000, &type, &in, &e);

	if (rc == 0 && unasked(type))
		return b->steer != NULL && b->steer->stop != NULL;
	if (rc == 0) {
		b->killed = xstrdup("unexpected message of the broker");
		return true;
	}
	if (b->killed != NULL)
		return true;
	if (broker_resume(b, &e) == 0)
		return false;
	if (b->killed == NULL)
		b->killed = xasprintf("the broker is gone: %s", e.msg);
	return true;
}

int
broker_hold(struct broker *b, struct err *err)
{
	while (b->killed == NULL && (b->steer == NULL || b->steer->stop == NULL)) {
		bool paused = b->steer != NULL && b->steer->paused;
		struct pollfd p = {.fd = b->fd, .events = POLLIN};
		int n = poll(&p, 1, paused ? -1 : 0);

		if (n == 0)
			return 0;
		if (n > 0)
			(void)broker_watch(b);
		else if (errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "broker: poll");
	}
	return err_set(err, ERR_STATE, "the run was ended: %s",
	    b->killed != NULL ? b->killed : b->steer->stop);
}
