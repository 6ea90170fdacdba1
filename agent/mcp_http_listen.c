/*
 * The listener of cofferdam-mcp --listen, and of the fixture: starts the hub, then accepts. If the
 * hub ends, it ends; if it ends, hub and workers do.
 */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "agent/agent_socket.h"
#include "agent/mcp_http.h"
#include "common/log.h"

#include "common/banned.h"

#define END_MS 5000 /* the hub ends its runs */

static void
on_reaped(void *arg, pid_t pid, int status UNUSED)
{
	const pid_t *hub = arg;

	if (pid == *hub)
		fatal("the hub has ended: the server ends with it");
}

static int
hub_begin(const struct mcp_http_config *c, const struct serve *s, struct agent_socket *at,
    pid_t *ret, struct err *err)
{
	pid_t self = getpid();
	int rc = agent_socket_make(at, err);

	if (rc != 0)
		return rc;
	*ret = fork();
	if (*ret < 0)
		return err_sys(err, ERR_SYSTEM, errno, "fork");
	if (*ret == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != self)
			_exit(1);
		serve_forked(s);
		mcp_http_hub(c, at->listen);
	}
	cleanup_close_fd(&at->listen);
	return 0;
}

/* It says on the record how its runs ended, and gets a moment for it. */
static void
hub_end(pid_t hub)
{
	(void)kill(hub, SIGTERM);
	for (int ms = 0; ms < END_MS; ms += 20) {
		if (waitpid(hub, NULL, WNOHANG) != 0)
			return;
		(void)usleep(20000);
	}
	(void)kill(hub, SIGKILL);
	(void)waitpid(hub, NULL, 0);
}

int
mcp_http_serve(const struct mcp_http_config *c, struct err *err)
{
	AUTO_AGENT_SOCKET struct agent_socket at = AGENT_SOCKET;
	AUTO(serve_tokens) struct serve_tokens *tokens = NULL;
	AUTO(serve) struct serve *s = NULL;
	struct mcp_http_worker w = {.c = c, .hub = &at};
	pid_t hub = -1;
	const struct serve_hook hook = {.fd = -1, .reaped = on_reaped, .arg = &hub};
	int rc;

	if (c->token_file != NULL && (rc = serve_tokens_load(c->token_file, &tokens, err)) != 0)
		return rc;
	w.tokens = tokens;
	if ((rc = serve_open(&c->serve, &s, err)) != 0 ||
	    (rc = hub_begin(c, s, &at, &hub, err)) != 0)
		return rc;
	log_info("listening on %s%s", serve_url(s), MCP_HTTP_PATH);
	rc = serve_run(s, mcp_http_request, &w, &hook, err);
	hub_end(hub);
	return rc;
}
