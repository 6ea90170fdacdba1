/*
 * Reads the command line of cofferdam-mcp. It comes from the person who starts it, or from a file
 * that this person gave an MCP client.
 */
#include "agent/mcp_options.h"

#include <stdio.h>

#include "common/option.h"

#include "common/banned.h"

enum { TARGET = OPTION_OWN, HOST, ORIGIN, BIND };
#define AT(m) offsetof(struct mcp_options, m)

static const struct option_row rows[] = {
    {"--socket", OPTION_TEXT, AT(socket), 0, 0, "FILE",
	"the broker's agent socket (default: " AGENT_SOCKET_DEFAULT ")"},
    {"--state", OPTION_TEXT, AT(state), 0, 0, "DIR",
	"the broker's state directory, instead of --socket"},
    {"--agent", OPTION_TEXT, AT(agent), 0, 0, "NAME",
	"the agent's name for the policy (default: mcp)"},
    {"--task", OPTION_TEXT, AT(task), 0, 0, "TEXT",
	"what the run is for, on the record (default: who the client says it is)"},
    {"--target", TARGET, 0, 0, 0, "T", "ask for this target alone; may be repeated"},
    {"--wait", OPTION_NUMBER, AT(wait_s), 1, 50, "S",
	"a call is answered after so many seconds, done or not (default: 45)"},
    {"--max-time", OPTION_NUMBER, AT(max_time_s), 1, 86400, "S",
	"seconds of a run's life (default: 86400)"},
    {"--workspace", OPTION_TEXT, AT(workspace), 0, 0, "DIR",
	"becomes /work of each run (default: an empty tmpfs of --disk, gone at the end)"},
    {"--workspace-unsafe", OPTION_FLAG, AT(workspace_unsafe), 0, 0, "",
	"allow a workspace that holds ~/.ssh or the like; the level says so"},
    {"--ro-bind", BIND, 0, 0, 0, "HOST[:INSIDE]",
	"show a path of the host read-only; may be repeated"},
    {"--memory", OPTION_NUMBER32, AT(limits.memory_mib), 16, 1 << 20, "MIB",
	"memory of all programs, /tmp and a private /work (default: 1024)"},
    {"--cpu", OPTION_NUMBER32, AT(limits.cpu_percent), 1, 6400, "PERCENT",
	"100 is one processor (default: 200)"},
    {"--pids", OPTION_NUMBER32, AT(limits.pids), 4, 32768, "N",
	"processes and threads (default: 256)"},
    {"--output", OPTION_NUMBER32, AT(limits.output_mib), 1, 4096, "MIB",
	"output of one execution; more ends it (default: 64)"},
    {"--disk", OPTION_NUMBER32, AT(limits.workspace_mib), 1, 1 << 20, "MIB",
	"size of /tmp and of a private /work, each (default: 512)"},
    {"--limits-optional", OPTION_FLAG, AT(limits_optional), 0, 0, "",
	"go on without memory, process and CPU limits where there are no cgroups"},
    {"--listen", OPTION_TEXT, AT(listen), 0, 0, "ADDRESS:PORT",
	"serve Streamable HTTP at /mcp instead of standard input and output"},
    {"--token-file", OPTION_TEXT, AT(token_file), 0, 0, "FILE",
	"lines NAME TOKEN; a client sends Authorization: Bearer TOKEN"},
    {"--tls-cert", OPTION_TEXT, AT(tls_cert), 0, 0, "FILE",
	"certificate chain, PEM; without one only loopback addresses are served"},
    {"--tls-key", OPTION_TEXT, AT(tls_key), 0, 0, "FILE", "its key, PEM"},
    {"--client-ca", OPTION_TEXT, AT(client_ca), 0, 0, "FILE",
	"clients need a certificate of these authorities, PEM"},
    {"--allow-host", HOST, 0, 0, 0, "NAME",
	"a name by which clients reach this server, besides its address; may be repeated"},
    {"--allow-origin", ORIGIN, 0, 0, 0, "ORIGIN",
	"a web origin whose pages may ask, https://app.example; may be repeated"},
    {"--idle", OPTION_NUMBER, AT(idle_s), 10, 86400, "S",
	"an HTTP session ends when nothing was asked for so long (default: 1800)"},
    {"--help", OPTION_FLAG, AT(help), 0, 0, "", NULL},
};

void
mcp_options_help(void)
{
	(void)printf("usage: cofferdam mcp [options]\n"
		     "       cofferdam mcp [options] --listen ADDRESS:PORT (--token-file FILE | "
		     "--client-ca FILE)\n"
		     "A sandbox whose way out is the broker, as tools of the Model Context "
		     "Protocol.\n");
	option_help(rows, ARRAY_LEN(rows), 0);
}

static int
own_take(void *into, const struct option_row *r, const char *value, struct err *err)
{
	struct mcp_options *o = into;

	switch (OPTION_KIND(r)) {
	case TARGET: return option_add(r, o->targets, &o->ntargets, AGENT_TARGETS_MAX, value, err);
	case BIND: return sandbox_bind_add(&o->binds, value, err);
	case HOST: return option_add(r, o->hosts, &o->nhosts, MCP_LIST_OPTIONS_MAX, value, err);
	}
	return option_add(r, o->origins, &o->norigins, MCP_LIST_OPTIONS_MAX, value, err);
}

/* Whoever reaches the port runs code as this user: never without knowing who. */
static int
check(const struct mcp_options *o, struct err *err)
{
	if (o->help)
		return 0;
	if (o->socket != NULL && o->state != NULL)
		return err_set(err, ERR_INVALID, "--state and --socket: give one");
	if (o->listen == NULL &&
	    (o->tls_cert != NULL || o->tls_key != NULL || o->client_ca != NULL ||
		o->token_file != NULL || o->nhosts != 0 || o->norigins != 0))
		return err_set(err, ERR_INVALID,
		    "--token-file, --tls-cert, --tls-key, --client-ca, --allow-host and "
		    "--allow-origin need --listen");
	if (o->listen != NULL && o->token_file == NULL && o->client_ca == NULL)
		return err_set(err, ERR_INVALID,
		    "--listen needs --token-file FILE, or --client-ca FILE: nobody is served "
		    "without saying who it is");
	return 0;
}

int
mcp_options_parse(int argc, char **argv, struct mcp_options *o, struct err *err)
{
	struct option_line l = {.rows = rows, .n = ARRAY_LEN(rows), .own = own_take, .into = o};
	int rc;

	*o = (struct mcp_options){
	    .agent = "mcp", .wait_s = MCP_WAIT_MS / 1000, .idle_s = 1800, .max_time_s = 86400};
	rc = option_read(&l, argc, argv, err);
	return rc == 0 ? check(o, err) : rc;
}

void
mcp_options_free(struct mcp_options *o)
{
	sandbox_binds_free(&o->binds);
}
