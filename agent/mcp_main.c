/*
 * cofferdam-mcp: the sandbox and what it reaches, as tools of the Model Context Protocol, for any
 * agent that speaks it. Runs as the person who started the client, holds no credential, judges
 * nothing and can sign nothing: it registers a run at the broker as the built-in loop does, and
 * what a client says is said by an agent. Started by the `cofferdam` command.
 */
#include "common/log.h"
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

int
main(int argc, char **argv)
{
	AUTO_FREE char *socket = NULL;
	struct mcp_config config;
	struct mcp_options o;
	struct err e = {0};

	log_init("cofferdam mcp", LOG_INFO_);
	if (mcp_options_parse(argc, argv, &o, &e) != 0) {
		log_error("%s", e.msg);
		return 2;
	}
	if (o.help) {
		mcp_options_help();
		return 0;
	}
	socket = agent_hold_socket(o.socket, o.state);
	config = (struct mcp_config){
	    .ask = {.socket = socket,
		.agent = o.agent,
		.targets = o.targets,
		.ntargets = o.ntargets,
		.as = KEEPER_SELF,
		.limits = o.limits,
		.may_lack = o.limits_optional ? SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER : 0,
		.time_s = (uint32_t)o.max_time_s},
	    .task = o.task,
	    .wait_ms = (uint32_t)o.wait_s * 1000};
	if ((o.listen != NULL ? http(&o, &config, &e) : stdio(&config, &e)) != 0) {
		log_error("%s", e.msg);
		return 1;
	}
	return 0;
}
