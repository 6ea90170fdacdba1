/*
 * The wires of cofferdam-rerun, and which message is whose (upstream, started as cofferdam-rerun).
 * Core and front are those of a broker that `replay rerun` started for one run; nothing else is
 * reached.
 */
#include "broker/upstream_rerun.h"

#include <unistd.h>

#include "common/log.h"
#include "common/proc.h"

#include "common/banned.h"

static int
ignore(struct rerun_hub *h UNUSED, struct rd *body UNUSED, int *fds UNUSED, struct err *err UNUSED)
{
	return 0;
}

static const struct {
	uint16_t type;
	rerun_fn *fn;
} messages[] = {
    {MSG_U_OPEN, rerun_pg_open},
    {MSG_U_SEAL, ignore},
    {MSG_U_SEND, rerun_pg_send},
    {MSG_U_CLOSE, rerun_pg_close},
    {MSG_U_CANCEL, rerun_pg_cancel},
    {MSG_FU_PAUSE, ignore},
    {MSG_FU_COPY, ignore},
    {MSG_UH_BODY, rerun_http_body},
    {MSG_UH_SEND, rerun_http_send},
    {MSG_UH_ABORT, rerun_http_abort},
    {MSG_UH_FORGET, ignore},
    {MSG_FU_BODY, rerun_http_front},
    {MSG_FU_HOLD, ignore},
};

static int
on_message(void *arg, struct ipc *w, uint16_t type, struct rd *body, int *fds, size_t nfds,
    struct err *err)
{
	(void)w;
	(void)nfds;
	for (size_t i = 0; i < ARRAY_LEN(messages); i++)
		if (messages[i].type == type)
			return messages[i].fn(arg, body, fds, err);
	return err_set(err, ERR_PROTOCOL, "not expected in a rerun");
}

void
rerun_hub_end(struct rerun_hub *h)
{
	rerun_pg_end(h);
	rerun_http_end(h);
	cleanup_close_fd(&h->body.fd);
}

static void
on_gone(void *arg, struct ipc *w, const char *why)
{
	struct rerun_hub *h = arg;
	bool core = w == h->core;

	log_warn("the wire to %s is gone (%s)", core ? "core" : "front", why);
	*(core ? &h->core : &h->front) = NULL;
	ipc_free(w);
	rerun_hub_end(h);
	proc_wire_lost(core ? IPC_ROLE_CORE : IPC_ROLE_FRONT);
}

int
rerun_hub_wire(struct rerun_hub *h, enum ipc_role peer, int fd, struct err *err)
{
	struct ipc **w = peer == IPC_ROLE_CORE	  ? &h->core
			 : peer == IPC_ROLE_FRONT ? &h->front
						  : NULL;

	if (w == NULL) {
		(void)close(fd); /* the writer's: nothing is sealed here */
		return peer == IPC_ROLE_WRITER
			   ? 0
			   : err_set(err, ERR_PROTOCOL, "no wire to %s", ipc_role_name(peer));
	}
	if (*w != NULL) {
		ipc_free(TAKE_PTR(*w));
		rerun_hub_end(h);
	}
	*w = ipc_new(h->loop, fd, IPC_ROLE_UPSTREAM, peer, on_message, on_gone, h);
	return 0;
}

/* --- the process ----------------------------------------------------------------- */

static int
take_fd(void *arg, struct str name, int fd, struct err *err)
{
	struct rerun_hub *h = arg;

	if (str_eqz(name, "answers"))
		return rerun_answers_read(fd, &h->answers, err);
	cleanup_close_fd(&fd);
	return err_set(err, ERR_PROTOCOL, "a file that is not for this process");
}

static int
wire(void *arg, enum ipc_role peer, struct str run, int fd, struct err *err)
{
	(void)run;
	return rerun_hub_wire(arg, peer, fd, err);
}

int
rerun_main(void)
{
	struct rerun_hub h = {.loop = loop_new(), .body = {.fd = -1}};
	const struct proc_ops ops = {
	    .self = IPC_ROLE_UPSTREAM, .name = "upstream", .fd = take_fd, .wire = wire};
	int rc = proc_main(&ops, h.loop, &h);

	rerun_hub_end(&h);
	ipc_free(h.core);
	ipc_free(h.front);
	rerun_answers_free(h.answers);
	loop_free(h.loop);
	return rc;
}
