/*
 * cofferdam-mcp: the sandbox and what it reaches, as tools of the Model Context Protocol, for any
 * agent that speaks it. Runs as the person who started the client, holds no credential, judges
 * nothing and can sign nothing: it registers a run at the broker as the built-in loop does, and
 * what a client says is said by an agent. Started by the `cofferdam` command.
 */
#include "common/log.h"
#include "common/streams.h"
#include "common/xalloc.h"
#include "agent/agent_hold.h"
#include "agent/mcp_http.h"
#include "agent/mcp_options.h"
#include "agent/mcp_stdio.h"

#include "common/banned.h"

static int
stdio(const struct mcp_config *config, struct err *err)
{
	struct loop *loop = loop_new();
	struct mcp_client *c = mcp_client_new(loop, config, &mcp_stdio_out, "");
	int rc = mcp_stdio_run(loop, c->session, err);

	mcp_client_free(c, "the client has gone");
	loop_free(loop);
	return rc;
}

/* --- HTTP ------------------------------------------------------------------------------- */

static struct mcp_session *
app_open(void *arg, struct loop *loop, const struct mcp_out *out, const char *who)
{
	return mcp_client_new(loop, arg, out, who)->session;
}

static void
app_close(void *arg UNUSED, struct mcp_session *s, const char *said)
{
	mcp_client_free(mcp_session_owner(s), said);
}

static bool
app_idle(void *arg UNUSED, const struct mcp_session *s)
{
	return mcp_client_idle(mcp_session_owner(s));
}

static int
http(const struct mcp_options *o, struct mcp_config *config, struct err *err)
{
	const struct mcp_http_config c = {.serve = {.listen = o->listen,
					      .option = "--listen",
					      .cert = o->tls_cert,
					      .key = o->tls_key,
					      .client_ca = o->client_ca},
	    .token_file = o->token_file,
	    .guard = {.hosts = o->hosts, .origins = o->origins},
	    .idle_ms = o->idle_s * 1000,
	    .app = {app_open, app_close, app_idle, config}};

	return mcp_http_serve(&c, err);
}

/* Before the first client comes; each run's keeper looks again. */
static int
workspace_check(const struct mcp_options *o, struct err *err)
{
	AUTO_WORKSPACE struct sandbox_workspace ws = {0};
	AUTO_FREE char *warning = NULL;
	const struct sandbox_guard guard = {.workspace = o->workspace,
	    .workspace_option = "--workspace",
	    .binds = o->binds.at,
	    .nbinds = o->binds.n,
	    .state = o->state,
	    .socket = o->socket,
	    .unsafe = o->workspace_unsafe};
	const struct sandbox_spec given = {
	    .workspace = o->workspace, .binds = o->binds.at, .nbinds = o->binds.n};
	int rc;

	/* As it was given: the real paths behind it have no dots and are never relative. */
	if ((rc = sandbox_spec_check(&given, err)) != 0 ||
	    (rc = sandbox_workspace_check(&guard, &ws, err)) != 0)
		return rc;
	if ((warning = sandbox_workspace_warning(&ws)) != NULL)
		log_warn("%s", warning);
	return 0;
}

static int
serve(const struct mcp_options *o)
{
	AUTO_FREE char *socket = agent_hold_socket(o->socket, o->state);
	struct mcp_config config;
	struct err e = {0};

	config = (struct mcp_config){
	    .ask = {.socket = socket,
		.agent = o->agent,
		.targets = o->targets,
		.ntargets = o->ntargets,
		.as = KEEPER_SELF,
		.limits = o->limits,
		.workspace = o->workspace,
		.binds = o->binds.at,
		.nbinds = o->binds.n,
		.state = o->state,
		.workspace_unsafe = o->workspace_unsafe,
		.may_lack = o->limits_optional ? SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER : 0,
		.time_s = (uint32_t)o->max_time_s},
	    .task = o->task,
	    .wait_ms = (uint32_t)o->wait_s * 1000};
	if ((o->listen != NULL ? http(o, &config, &e) : stdio(&config, &e)) != 0) {
		log_error("%s", e.msg);
		return 1;
	}
	return 0;
}

int
main(int argc, char **argv)
{
	struct mcp_options o;
	struct err e = {0};
	int rc = 2;

	streams_open();
	log_init("cofferdam mcp", LOG_INFO_);
	if (mcp_options_parse(argc, argv, &o, &e) != 0 ||
	    (!o.help && workspace_check(&o, &e) != 0)) {
		log_error("%s", e.msg);
	} else if (o.help) {
		mcp_options_help();
		rc = 0;
	} else {
		rc = serve(&o);
	}
	mcp_options_free(&o);
	return rc;
}
