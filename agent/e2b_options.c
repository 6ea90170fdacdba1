/*
 * The command line of cofferdam-sandboxd, and the files that it names. They come from the person
 * who starts it; numbers are range-checked here.
 */
#include "agent/e2b.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/option.h"
#include "common/xalloc.h"
#include "agent/agent_hold.h"

#include "common/banned.h"

#define LOGINS_MAX 256
#define FILE_MAX ((size_t)64 << 10)

#define AT(member) offsetof(struct e2b_config, member)
static const struct option_row rows[] = {
    {"--keys", OPTION_TEXT, AT(keys), 0, 0, "FILE",
	"API keys, lines \"NAME KEY\" (mode 0600); needed"},
    {"--listen", OPTION_TEXT, AT(serve.listen), 0, 0, "ADDRESS:PORT",
	"where SDKs connect (default: 127.0.0.1:3000)"},
    {"--cert", OPTION_TEXT, AT(serve.cert), 0, 0, "FILE", "TLS: the certificate chain, PEM"},
    {"--key", OPTION_TEXT, AT(serve.key), 0, 0, "FILE", "TLS: its key, PEM"},
    {"--socket", OPTION_TEXT, AT(socket), 0, 0, "FILE",
	"the broker's agent socket (default: " AGENT_SOCKET_DEFAULT ")"},
    {"--state", OPTION_TEXT, AT(state), 0, 0, "DIR",
	"the broker's state directory, instead of --socket"},
    {"--logins", OPTION_TEXT, AT(logins), 0, 0, "FILE",
	"lines \"NAME USER\": whose runs those of a key are (default: of who runs this); needs "
	"root"},
    {"--max", OPTION_NUMBER, AT(max), 1, E2B_SANDBOXES_MAX, "N", "sandboxes at once (default: 48)"},
    {"--max-per-key", OPTION_NUMBER, AT(max_per_key), 1, E2B_SANDBOXES_MAX, "N",
	"of one key (default: as --max)"},
    {"--connections", OPTION_NUMBER, AT(serve.workers), 1, SERVE_WORKERS_MAX, "N",
	"at once (default: 512)"},
    {"--upload", OPTION_NUMBER, AT(upload_mib), 1, 1 << 20, "MIB",
	"size of one upload (default: 512)"},
    {"--memory", OPTION_NUMBER32, AT(limits.memory_mib), 16, 1 << 20, "MIB",
	"of a sandbox: all programs, /tmp and /work (default: 1024)"},
    {"--cpu", OPTION_NUMBER32, AT(limits.cpu_percent), 1, 6400, "PERCENT",
	"of a sandbox; 100 is one processor (default: 200)"},
    {"--pids", OPTION_NUMBER32, AT(limits.pids), 4, 32768, "N",
	"of a sandbox: processes and threads (default: 256)"},
    {"--output", OPTION_NUMBER32, AT(limits.output_mib), 1, 4096, "MIB",
	"of one program; more ends it (default: 64)"},
    {"--disk", OPTION_NUMBER32, AT(limits.workspace_mib), 1, 1 << 20, "MIB",
	"of a sandbox: size of /tmp and of /work, each (default: 512)"},
    {"--limits-optional", OPTION_FLAG, AT(limits_optional), 0, 0, "",
	"go on without memory, process and CPU limits and pause where there are no cgroups"},
};

void
e2b_options_help(void)
{
	(void)printf("usage: cofferdam sandboxd --keys FILE [options]\n"
		     "Sandboxes for programs that are written for E2B's SDKs: E2B_API_URL and "
		     "E2B_SANDBOX_URL name\nthis server, E2B_API_KEY a key of it. What a sandbox "
		     "reaches is the broker's targets.\n");
	option_help(rows, ARRAY_LEN(rows), 0);
}

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "serve.workers is read as a number");

static int
config_check(struct e2b_config *c, struct err *err)
{
	if (c->keys == NULL)
		return err_set(err, ERR_INVALID, "--keys FILE is needed: who may use this server");
	if (c->socket != NULL && c->state != NULL)
		return err_set(err, ERR_INVALID, "--state and --socket: give one");
	if ((c->serve.cert == NULL) != (c->serve.key == NULL))
		return err_set(err, ERR_INVALID, "--cert and --key: give both");
	if (c->logins != NULL && geteuid() != 0)
		return err_set(
		    err, ERR_INVALID, "--logins needs root: only root begins runs of other users");
	if (c->max_per_key == 0 || c->max_per_key > c->max)
		c->max_per_key = c->max;
	c->agent_socket = agent_hold_socket(c->socket, c->state);
	return 0;
}

int
e2b_options_parse(int argc, char **argv, struct e2b_config *ret, struct err *err)
{
	struct option_line l = {.rows = rows, .n = ARRAY_LEN(rows), .into = ret};
	int rc;

	*ret = (struct e2b_config){
	    .serve = {.listen = "127.0.0.1:3000", .option = "--listen", .workers = 512},
	    .max = 48,
	    .upload_mib = 512,
	    .life = -1};
	rc = option_read(&l, argc, argv, err);
	return rc == 0 ? config_check(ret, err) : rc;
}

/* --- the files ---------------------------------------------------------------------------- */

static int
file_read(const char *path, struct buf *out, struct err *err)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", path);
	/* Who writes it decides whose runs they are. */
	if (!S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) ||
	    (st.st_mode & 022) != 0)
		return err_set(err, ERR_CONFIG,
		    "%s: must be a file of this user's or root's that nobody else may write", path);
	for (;;) {
		char room[4096];
		ssize_t n = read(fd, room, sizeof(room));

		if (n < 0)
			return err_sys(err, ERR_CONFIG, errno, "%s", path);
		buf_put(out, room, (size_t)n);
		if (n == 0)
			break;
	}
	return buf_over(out) ? err_set(err, ERR_CONFIG, "%s: over %zu bytes", path, out->max) : 0;
}

static int
login_add(struct e2b_config *c, struct str line, unsigned at, struct err *err)
{
	struct str name, rest = line;
	AUTO_FREE char *user = NULL;
	const struct passwd *pw;

	if (!str_cut(&rest, ' ', &name) || str_trim(rest).n == 0)
		return err_set(err, ERR_CONFIG, "%s:%u: a line is \"NAME USER\"", c->logins, at);
	user = str_dup(str_trim(rest));
	if ((pw = getpwnam(user)) == NULL)
		return err_set(
		    err, ERR_CONFIG, "%s:%u: there is no user \"%s\" here", c->logins, at, user);
	for (size_t i = 0; i < c->nlogins; i++)
		if (str_eqz(name, c->login[i].name))
			return err_set(err, ERR_CONFIG, "%s:%u: \"%s\" stands there twice",
			    c->logins, at, c->login[i].name);
	if (c->nlogins == LOGINS_MAX)
		return err_set(err, ERR_CONFIG, "%s: over %d lines", c->logins, LOGINS_MAX);
	c->login = xreallocarray(c->login, c->nlogins + 1, sizeof(*c->login));
	c->login[c->nlogins++] = (struct e2b_login){.name = str_dup(name), .uid = pw->pw_uid};
	return 0;
}

static int
logins_load(struct e2b_config *c, struct err *err)
{
	AUTO_BUF struct buf b = BUF(FILE_MAX);
	struct str rest, line;
	int rc = file_read(c->logins, &b, err);

	rest = buf_str(&b);
	for (unsigned at = 1; rc == 0 && rest.n != 0; at++) {
		if (!str_cut(&rest, '\n', &line)) {
			line = rest;
			rest = STR_NONE;
		}
		line = str_trim(line);
		if (line.n != 0 && line.p[0] != '#')
			rc = login_add(c, line, at, err);
	}
	return rc;
}

int
e2b_config_load(struct e2b_config *c, struct err *err)
{
	int rc = serve_tokens_load(c->keys, &c->tokens, err);

	return rc == 0 && c->logins != NULL ? logins_load(c, err) : rc;
}

void
e2b_config_free(struct e2b_config *c)
{
	serve_tokens_free(c->tokens);
	for (size_t i = 0; i < c->nlogins; i++)
		free(c->login[i].name);
	free(c->login);
	free(c->agent_socket);
}
