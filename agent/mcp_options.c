/*
 * Reads the command line of cofferdam-mcp. It comes from the person who starts it, or from a file
 * that this person gave an MCP client.
 */
#include "agent/mcp_options.h"

#include <stdio.h>
#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

enum kind { TEXT, NUMBER, NUMBER32, FLAG, TARGET, HOST, ORIGIN };
#define AT(m) offsetof(struct mcp_options, m)

static const struct row {
	const char *name;
	enum kind kind;
	size_t at;
	uint64_t min, max;
	const char *arg, *what;
} rows[] = {
    {"--socket", TEXT, AT(socket), 0, 0, "FILE",
	"the broker's agent socket (default: " AGENT_SOCKET_DEFAULT ")"},
    {"--state", TEXT, AT(state), 0, 0, "DIR", "the broker's state directory, instead of --socket"},
    {"--agent", TEXT, AT(agent), 0, 0, "NAME", "the agent's name for the policy (default: mcp)"},
    {"--task", TEXT, AT(task), 0, 0, "TEXT",
	"what the run is for, on the record (default: who the client says it is)"},
    {"--target", TARGET, 0, 0, 0, "T", "ask for this target alone; may be repeated"},
    {"--wait", NUMBER, AT(wait_s), 1, 50, "S",
	"a call is answered after so many seconds, done or not (default: 45)"},
    {"--max-time", NUMBER, AT(max_time_s), 1, 86400, "S",
	"seconds of a run's life (default: 86400)"},
    {"--memory", NUMBER32, AT(limits.memory_mib), 16, 1 << 20, "MIB",
	"memory of all programs, /tmp and /work (default: 1024)"},
    {"--cpu", NUMBER32, AT(limits.cpu_percent), 1, 6400, "PERCENT",
	"100 is one processor (default: 200)"},
    {"--pids", NUMBER32, AT(limits.pids), 4, 32768, "N", "processes and threads (default: 256)"},
    {"--output", NUMBER32, AT(limits.output_mib), 1, 4096, "MIB",
	"output of one execution; more ends it (default: 64)"},
    {"--disk", NUMBER32, AT(limits.workspace_mib), 1, 1 << 20, "MIB",
	"size of /tmp and of /work, each (default: 512)"},
    {"--limits-optional", FLAG, AT(limits_optional), 0, 0, "",
	"go on without memory, process and CPU limits where there are no cgroups"},
    {"--listen", TEXT, AT(listen), 0, 0, "ADDRESS:PORT",
	"serve Streamable HTTP at /mcp instead of standard input and output"},
    {"--token-file", TEXT, AT(token_file), 0, 0, "FILE",
	"lines NAME TOKEN; a client sends Authorization: Bearer TOKEN"},
    {"--tls-cert", TEXT, AT(tls_cert), 0, 0, "FILE",
	"certificate chain, PEM; without one only loopback addresses are served"},
    {"--tls-key", TEXT, AT(tls_key), 0, 0, "FILE", "its key, PEM"},
    {"--client-ca", TEXT, AT(client_ca), 0, 0, "FILE",
	"clients need a certificate of these authorities, PEM"},
    {"--allow-host", HOST, 0, 0, 0, "NAME",
	"a name by which clients reach this server, besides its address; may be repeated"},
    {"--allow-origin", ORIGIN, 0, 0, 0, "ORIGIN",
	"a web origin whose pages may ask, https://app.example; may be repeated"},
    {"--idle", NUMBER, AT(idle_s), 10, 86400, "S",
	"an HTTP session ends when nothing was asked for so long (default: 1800)"},
    {"--help", FLAG, AT(help), 0, 0, "", "print this"},
};

void
mcp_options_help(void)
{
	(void)printf("usage: cofferdam mcp [options]\n"
		     "       cofferdam mcp [options] --listen ADDRESS:PORT (--token-file FILE | "
		     "--client-ca FILE)\n"
		     "A sandbox whose way out is the broker, as tools of the Model Context "
		     "Protocol.\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO_FREE char *left = xasprintf("%s %s", rows[i].name, rows[i].arg);

		(void)printf("  %-24s %s\n", left, rows[i].what);
	}
}

static int
number_take(const struct row *r, const char *value, uint64_t *ret, struct err *err)
{
	uint64_t v;

	if (!str_to_u64(str_z(value), UINT64_MAX, &v) || v < r->min || v > r->max)
		return err_set(err, ERR_INVALID, "%s must be a number from %llu to %llu, is \"%s\"",
		    r->name, (unsigned long long)r->min, (unsigned long long)r->max, value);
	*ret = v;
	return 0;
}

static int
list_take(const struct row *r, const char **list, size_t *n, size_t max, const char *value,
    struct err *err)
{
	if (*n == max)
		return err_set(err, ERR_INVALID, "%s: at most %zu", r->name, max);
	list[(*n)++] = value;
	return 0;
}

static int
value_take(struct mcp_options *o, const struct row *r, const char *value, struct err *err)
{
	void *field = (char *)o + r->at;
	uint64_t v = 0;
	int rc;

	switch (r->kind) {
	case TEXT: *(const char **)field = value; return 0;
	case NUMBER: return number_take(r, value, field, err);
	case NUMBER32:
		if ((rc = number_take(r, value, &v, err)) == 0)
			*(uint32_t *)field = (uint32_t)v;
		return rc;
	case FLAG: *(bool *)field = true; return 0;
	case TARGET: return list_take(r, o->targets, &o->ntargets, AGENT_TARGETS_MAX, value, err);
	case HOST: return list_take(r, o->hosts, &o->nhosts, MCP_LIST_OPTIONS_MAX, value, err);
	case ORIGIN:
		return list_take(r, o->origins, &o->norigins, MCP_LIST_OPTIONS_MAX, value, err);
	}
	return err_set(err, ERR_INTERNAL, "%s", r->name);
}

static const struct row *
row_find(const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0)
			return &rows[i];
	return NULL;
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
	*o = (struct mcp_options){
	    .agent = "mcp", .wait_s = MCP_WAIT_MS / 1000, .idle_s = 1800, .max_time_s = 86400};
	for (int i = 1; i < argc; i++) {
		const char *eq = strchr(argv[i], '=');
		size_t n = eq != NULL ? (size_t)(eq - argv[i]) : strlen(argv[i]);
		const struct row *r = row_find(argv[i], n);
		const char *value = eq != NULL ? eq + 1 : NULL;
		int rc;

		if (r == NULL)
			return err_set(err, ERR_INVALID, "\"%s\" is not an option of mcp", argv[i]);
		if (r->kind == FLAG && value != NULL)
			return err_set(err, ERR_INVALID, "%s takes no value", r->name);
		if (r->kind != FLAG && value == NULL && (value = argv[++i]) == NULL)
			return err_set(err, ERR_INVALID, "%s needs a value", r->name);
		if ((rc = value_take(o, r, value, err)) != 0)
			return rc;
	}
	return check(o, err);
}
