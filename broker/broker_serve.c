/*
 * The parent's life: checks the state directory, binds the sockets, starts the children,
 * then only waits. It reads nothing that an agent sent, and holds of secrets only the
 * vault key's descriptor.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "broker/broker_parent.h"
#include "broker/broker_webhook.h"

#include "common/log.h"
#include "common/proc.h"

#include "common/xalloc.h"

#include "common/banned.h"

#define FILES_WANTED 65536

static void
on_signal(void *arg, int signo)
{
	struct broker *b = arg;

	if (signo == SIGHUP) {
		log_info("reload: vault and policy");
		broker_wires_reload(b);
	} else {
		broker_stop(b);
	}
}

/* Each client of each listener is a descriptor in front. */
static void
files_raise(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) != 0)
		return;
	r.rlim_cur = r.rlim_max < FILES_WANTED ? r.rlim_max : FILES_WANTED;
	(void)setrlimit(RLIMIT_NOFILE, &r);
}

static int
prepare(struct broker *b, const char *path, struct err *err)
{
	int rc = broker_state_open(path, &b->state, err);

	if (rc == 0)
		rc = broker_config_load(&b->state, &b->config, err);
	if (rc == 0)
		log_init("broker", broker_config_level(&b->config));
	if (rc == 0)
		rc = broker_config_ids(&b->config, &b->ids, err);
	if (rc == 0)
		rc = broker_state_check(&b->state, &b->ids, err);
	if (rc == 0)
		rc = broker_webhooks_check(&b->state, &b->config.webhooks, err);
	if (rc == 0)
		rc = broker_webhooks_check(&b->state, &b->config.witnesses, err);
	if (rc == 0)
		rc = broker_references_check(&b->config.references, b->state.path, err);
	if (rc == 0)
		rc = broker_state_lock(&b->state, err);
	if (rc == 0)
		rc = broker_state_hand_over(&b->state, &b->ids, err);
	if (rc == 0)
		rc = broker_state_file(&b->state, "keys/vault.key", O_RDONLY, &b->vault_key, err);
	if (rc == 0)
		rc = broker_sock_listen(
		    &b->state, "control.sock", b->ids.uid[IPC_ROLE_CORE], &b->control, err);
	if (rc == 0)
		rc = broker_sock_listen(
		    &b->state, "agent.sock", b->ids.uid[IPC_ROLE_CORE], &b->agent, err);
	if (rc == 0 && b->config.console.origin != NULL)
		rc = broker_console_listen(&b->config.console, &b->console, err);
	return rc != 0 ? rc : proc_harden(err);
}

/* Who is asked by others comes first; the order matters for the first second only. */
static bool
is_wanted(const struct broker *b, enum ipc_role role)
{
	return role == IPC_ROLE_CONSOLE	  ? b->console >= 0
	       : role == IPC_ROLE_COURIER ? b->config.webhooks.n + b->config.witnesses.n != 0
					  : true;
}

static int
children_new(struct broker *b, struct err *err)
{
	static const enum ipc_role order[] = {IPC_ROLE_WRITER, IPC_ROLE_UPSTREAM, IPC_ROLE_CORE,
	    IPC_ROLE_FRONT, IPC_ROLE_CONSOLE, IPC_ROLE_COURIER};
	struct child *c[ARRAY_LEN(order)];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		if (!is_wanted(b, order[i]))
			continue;
		c[n] = broker_child_new(b, order[i], "", err);
		if (c[n++] == NULL)
			return err->code;
	}
	for (size_t i = 0; i < n; i++)
		broker_child_start(c[i]);
	return 0;
}

static void
finish(struct broker *b)
{
	broker_children_free(b);
	while (b->kept != NULL) {
		AUTO_FREE char *run = xstrdup(b->kept->run);

		broker_keep_drop(b, str_z(run), NULL);
	}
	if (b->control >= 0)
		(void)unlinkat(b->state.run, "control.sock", 0);
	if (b->agent >= 0)
		(void)unlinkat(b->state.run, "agent.sock", 0);
	cleanup_close_fd(&b->control);
	cleanup_close_fd(&b->agent);
	cleanup_close_fd(&b->console);
	cleanup_close_fd(&b->vault_key);
	broker_config_free(&b->config);
	broker_state_close(&b->state);
	loop_free(b->loop);
}

int
broker_serve(const char *path)
{
	struct broker b = {.control = -1, .agent = -1, .console = -1, .vault_key = -1};
	static const int signals[] = {SIGHUP, SIGTERM, SIGINT};
	struct err err = {0};
	int rc;

	(void)signal(SIGPIPE, SIG_IGN);
	files_raise();
	b.state = (struct broker_state){.dir = -1, .run = -1, .lock = -1};
	b.loop = loop_new();
	rc = prepare(&b, path, &err);
	if (rc == 0) {
		for (size_t i = 0; i < ARRAY_LEN(signals); i++)
			loop_signal_add(b.loop, signals[i], on_signal, &b);
		rc = children_new(&b, &err);
	}
	if (rc != 0)
		log_error("%s", err.msg);
	else
		rc = loop_run(b.loop);
	finish(&b);
	return rc == 0 ? 0 : 1;
}
