/*
 * The options of all subcommands, as one table (the command line, as the person who types it).
 * Numbers are checked here; paths, names and addresses by the sandbox's own rules.
 */
#include "agent/sandbox/cli.h"

#include <stdio.h>
#include <string.h>

#include "common/option.h"
#include "common/xalloc.h"

#include "common/banned.h"

enum {
	OCTAL = OPTION_OWN,
	LIST,
	BIND,
	LIMIT,
	LACK,
	LACK_LIMITS,
	TARGET,
	WORDS,
};

#define AT(f) offsetof(struct cli, f)
#define SPECS (CLI_SPEC)
#define PROGRAM (CLI_PROG | CLI_EXEC)

static const struct option_row rows[] = {
    {"--in", OPTION_TEXT | OPTION_OF(CLI_EXEC), AT(in), 0, 0, "NAME",
	"in this sandbox, not in a fresh one; then no option of a sandbox"},
    {"--workspace", OPTION_TEXT | OPTION_OF(SPECS), AT(workspace), 0, 0, "DIR",
	"becomes /work (default: an empty tmpfs of --disk, gone at the end)"},
    {"--overlay", OPTION_TEXT | OPTION_OF(SPECS), AT(overlay), 0, 0, "DIR",
	"becomes /work, but only a copy of it is changed, which is gone at the end"},
    {"--workspace-unsafe", OPTION_FLAG | OPTION_OF(SPECS), AT(workspace_unsafe), 0, 0, "",
	"allow a workspace that holds ~/.ssh or the like; the level says so"},
    {"--state", OPTION_TEXT | OPTION_OF(SPECS), AT(state), 0, 0, "DIR",
	"a broker's state directory, to keep out"},
    {"--socket", OPTION_TEXT | OPTION_OF(SPECS), AT(socket), 0, 0, "FILE",
	"the same by its agent socket (default: " SANDBOX_BROKER_SOCKET ")"},
    {"--ro-bind", BIND | OPTION_OF(SPECS), 0, 0, 0, "HOST[:INSIDE]",
	"show a path of the host read-only; may be repeated, up to 32 times"},
    {"--image", OPTION_TEXT | OPTION_OF(SPECS), AT(image), 0, 0, "DIR",
	"a root file system, read-only, in place of the host's programs"},
    {"--backend", OPTION_TEXT | OPTION_OF(SPECS), AT(backend), 0, 0, "NAME",
	"native, crun, runc or runsc (default: native)"},
    {"--label", LIST | OPTION_OF(SPECS), AT(labels), 0, SANDBOX_LABELS_MAX, "KEY=VALUE",
	"shown by list and inspect; may be repeated, up to 32 times"},
    {"--memory", OPTION_NUMBER32 | OPTION_OF(SPECS), AT(limits.memory_mib), 16, 1 << 20, "MIB",
	"memory of all programs, /tmp and a private /work (default: 1024)"},
    {"--cpu", OPTION_NUMBER32 | OPTION_OF(SPECS), AT(limits.cpu_percent), 1, 6400, "PERCENT",
	"100 is one processor (default: 200)"},
    {"--pids", OPTION_NUMBER32 | OPTION_OF(SPECS), AT(limits.pids), 4, 32768, "N",
	"processes and threads (default: 256)"},
    {"--output", OPTION_NUMBER32 | OPTION_OF(SPECS), AT(limits.output_mib), 1, 4096, "MIB",
	"output of one command; more ends it (default: 64)"},
    {"--disk", OPTION_NUMBER32 | OPTION_OF(SPECS), AT(limits.workspace_mib), 1, 1 << 20, "MIB",
	"size of /tmp and of a private or overlaid /work, each (default: 512)"},
    {"--limit", LIMIT | OPTION_OF(SPECS), 0, 0, 0, "WORD=N",
	"wall (s, default: 3600), linger (s without a caller, 600), open-files (8192), cpu, "
	"memory, "
	"pids, output, disk; may be repeated"},
    {"--may-lack", LACK | OPTION_OF(SPECS), 0, 0, 0, "LAYER",
	"go on without it where the kernel does not have it: limits, landlock, freezer or notify; "
	"may be repeated"},
    {"--limits-optional", LACK_LIMITS | OPTION_BARE | OPTION_OF(SPECS), 0, 0, 0, "",
	"--may-lack limits --may-lack freezer"},
    {"--level", OPTION_FLAG | OPTION_OF(SPECS), AT(level), 0, 0, "",
	"print what holds, as JSON, first; exec then needs no command"},
    {"--env", LIST | OPTION_OF(SPECS | PROGRAM), AT(env), 0, SANDBOX_ENV_MAX, "NAME=VALUE",
	"a variable of its environment; may be repeated, up to 512 times"},
    {"--cwd", OPTION_TEXT | OPTION_OF(PROGRAM), AT(cwd), 0, 0, "DIR",
	"where it begins (default: /work)"},
    {"--timeout", OPTION_NUMBER | OPTION_OF(PROGRAM), AT(timeout_s), 1, 86400, "S",
	"it is ended then (default: with the sandbox); not what --background left of it"},
    {"--tty", OPTION_FLAG | OPTION_OF(PROGRAM), AT(tty), 0, 0, "", "a terminal inside; also -t"},
    {"--language", OPTION_TEXT | OPTION_OF(CLI_EXEC), AT(language), 0, 0, "L",
	"run standard input as code of bash, sh, python, javascript or perl; no command"},
    {"--background", OPTION_FLAG | OPTION_OF(CLI_EXEC), AT(background), 0, 0, "",
	"with --in: leave what it started running after it has ended; `ps` shows that, `kill NAME "
	"PROC` ends it"},
    {"--spare", OPTION_NUMBER | OPTION_OF(CLI_EXEC), AT(spare_s), 1, 3600, "S",
	"take a sandbox that was built ahead, and leave one for the next such command, which "
	"waits S seconds at most"},
    {"--explain", OPTION_FLAG | OPTION_OF(CLI_EXEC), AT(explain), 0, 0, "",
	"print which system calls were refused to it, at the end"},
    {"--language", OPTION_TEXT | OPTION_OF(CLI_CODE), AT(language), 0, 0, "L",
	"python (default), bash or javascript"},
    {"--cwd", OPTION_TEXT | OPTION_OF(CLI_CODE), AT(cwd), 0, 0, "DIR",
	"where it begins (default: /work)"},
    {"--timeout", OPTION_NUMBER | OPTION_OF(CLI_CODE), AT(timeout_s), 1, 86400, "S",
	"of each cell, which is interrupted then (default: none)"},
    {"--input", OPTION_FLAG | OPTION_OF(CLI_SPAWN), AT(input), 0, 0, "",
	"give it a pipe as standard input, for `input`"},
    {"--close", OPTION_FLAG | OPTION_OF(CLI_INPUT), AT(close), 0, 0, "", "end of file behind it"},
    {"--follow", OPTION_FLAG | OPTION_OF(CLI_LOGS), AT(follow), 0, 0, "",
	"go on until it ends; also -f"},
    {"--from", OPTION_NUMBER | OPTION_OF(CLI_LOGS), AT(from), 0, INT64_MAX, "N",
	"begin at this byte of its output (default: 0)"},
    {"--timeout", OPTION_NUMBER | OPTION_OF(CLI_WAIT), AT(timeout_s), 1, 86400, "S",
	"give up then (default: none)"},
    {"--add", TARGET | OPTION_OF(CLI_NET), AT(add), 0, CLI_TARGETS_MAX, "HOST=ADDRESS:PORT",
	"a listener inside, at an address of 127.0.0.0/8 above 127.0.0.1; may be repeated"},
    {"--drop", TARGET | OPTION_OF(CLI_NET), AT(drop), 0, CLI_TARGETS_MAX, "HOST=ADDRESS:PORT",
	"one that refuses from now on; may be repeated"},
    {"--tree", OPTION_FLAG | OPTION_OF(CLI_FILES), AT(tree), 0, 0, "",
	"remove: with all that is in it; watch: also below"},
    {"--depth", OPTION_NUMBER | OPTION_OF(CLI_FILES), AT(depth), 1, 64, "N",
	"list: so many levels (default: 1, the directory alone)"},
    {"--mode", OCTAL | OPTION_OF(CLI_FILES), AT(mode), 0, 0777, "OCTAL",
	"write: its rights (default: 644)"},
    {"--max", OPTION_NUMBER | OPTION_OF(CLI_FILES | CLI_MAX), AT(max), 1, UINT64_C(1) << 40,
	"BYTES", "more is refused (default: 1073741824)"},
    {"--json", OPTION_FLAG | OPTION_OF(CLI_JSON), AT(json), 0, 0, "", "as JSON"},
    {"-t", OPTION_FLAG | OPTION_OF(PROGRAM), AT(tty), 0, 0, "", NULL},
    {"-f", OPTION_FLAG | OPTION_OF(CLI_LOGS), AT(follow), 0, 0, "", NULL},
    {"WORD", WORDS | OPTION_WORD | OPTION_MANY, 0, 0, 0, "", NULL},
};

void
cli_options_help(unsigned groups)
{
	option_help(rows, ARRAY_LEN(rows), groups);
}

bool
cli_number(const char *word, uint64_t max, uint64_t *ret)
{
	return str_to_u64(str_z(word), max, ret);
}

/* A copy that lives as long as *c. */
static char *
keep(struct cli *c, const char *value)
{
	c->own = xreallocarray(c->own, c->nown + 1, sizeof(*c->own));
	return c->own[c->nown++] = xstrdup(value);
}

static int
octal_take(const struct option_row *r, const char *value, uint64_t *ret, struct err *err)
{
	size_t n = strlen(value);

	if (n < 1 || n > 4 || strspn(value, "01234567") != n || strtoul(value, NULL, 8) > r->max)
		return err_set(err, ERR_INVALID, "%s must be octal, from 0 to %llo, is \"%s\"",
		    r->name, (unsigned long long)r->max, value);
	*ret = strtoul(value, NULL, 8);
	return 0;
}

static int
limit_take(struct cli *c, const char *value, struct err *err)
{
	static const struct option_row words[] = {
	    {"wall", OPTION_NUMBER32, AT(limits.wall_s), 1, 86400, "", NULL},
	    {"linger", OPTION_NUMBER32, AT(limits.linger_s), 1, 86400, "", NULL},
	    {"open-files", OPTION_NUMBER32, AT(limits.open_files), 16, 1 << 20, "", NULL},
	    {"cpu", OPTION_NUMBER32, AT(limits.cpu_percent), 1, 6400, "", NULL},
	    {"memory", OPTION_NUMBER32, AT(limits.memory_mib), 16, 1 << 20, "", NULL},
	    {"pids", OPTION_NUMBER32, AT(limits.pids), 4, 32768, "", NULL},
	    {"output", OPTION_NUMBER32, AT(limits.output_mib), 1, 4096, "", NULL},
	    {"disk", OPTION_NUMBER32, AT(limits.workspace_mib), 1, 1 << 20, "", NULL},
	};
	struct str rest = str_z(value), word;

	for (size_t i = 0; str_cut(&rest, '=', &word) && i < ARRAY_LEN(words);
	     i++, rest = str_z(value)) {
		uint64_t v = 0;
		int rc;

		if (!str_eqz(word, words[i].name))
			continue;
		if ((rc = option_number(&words[i], strchr(value, '=') + 1, &v, err)) != 0)
			return err_wrap(err, "--limit");
		*(uint32_t *)(void *)((char *)c + words[i].at) = (uint32_t)v;
		return 0;
	}
	return err_set(err, ERR_INVALID,
	    "--limit must be WORD=N with wall, linger, open-files, cpu, memory, pids, output or "
	    "disk, is \"%s\"",
	    value);
}

static int
lack_take(struct cli *c, const char *value, struct err *err)
{
	static const struct {
		const char *name;
		unsigned layer;
	} layers[] = {{"limits", SANDBOX_LAYER_LIMITS}, {"landlock", SANDBOX_LAYER_LANDLOCK},
	    {"freezer", SANDBOX_LAYER_FREEZER}, {"notify", SANDBOX_LAYER_NOTIFY}};

	for (size_t i = 0; i < ARRAY_LEN(layers); i++)
		if (strcmp(layers[i].name, value) == 0) {
			c->may_lack |= layers[i].layer;
			return 0;
		}
	return err_set(err, ERR_INVALID,
	    "--may-lack must be limits, landlock, freezer or notify, is \"%s\"", value);
}

/* HOST=ADDRESS:PORT; without HOST= an address alone. */
static int
target_take(struct cli *c, const struct option_row *r, const char *value, struct err *err)
{
	bool add = r->at == AT(add);
	size_t *n = add ? &c->nadd : &c->ndrop;
	struct sandbox_target *t = add ? c->add : c->drop;
	char *text = keep(c, value), *eq = strchr(text, '='), *colon = strrchr(text, ':');
	uint64_t port;

	if (*n == r->max)
		return err_set(
		    err, ERR_INVALID, "%s: at most %llu", r->name, (unsigned long long)r->max);
	if (colon == NULL || (eq != NULL && colon < eq) || !cli_number(colon + 1, 65535, &port))
		return err_set(
		    err, ERR_INVALID, "%s must be HOST=ADDRESS:PORT, is \"%s\"", r->name, value);
	*colon = '\0';
	if (eq != NULL)
		*eq = '\0';
	t[(*n)++] = (struct sandbox_target){.host = eq != NULL ? text : "",
	    .address = eq != NULL ? eq + 1 : text,
	    .port = (uint16_t)port};
	return 0;
}

static int
list_take(struct cli *c, const struct option_row *r, const char *value, struct err *err)
{
	bool env = r->at == AT(env);
	size_t *n = env ? &c->nenv : &c->nlabels;

	if (*n == r->max)
		return err_set(
		    err, ERR_INVALID, "%s: at most %llu", r->name, (unsigned long long)r->max);
	if (strchr(value, '=') == NULL)
		return err_set(
		    err, ERR_INVALID, "%s must be %s, is \"%s\"", r->name, r->arg, value);
	(env ? c->env : c->labels)[(*n)++] = value;
	return 0;
}

static int
word_take(struct cli *c, const char *value, struct err *err)
{
	if (c->nwords == CLI_WORDS_MAX)
		return err_set(err, ERR_INVALID, "\"%s\" is a word too many", value);
	c->words[c->nwords++] = value;
	return 0;
}

static int
own_take(void *into, const struct option_row *r, const char *value, struct err *err)
{
	struct cli *c = into;

	switch (OPTION_KIND(r)) {
	case OCTAL: return octal_take(r, value, (uint64_t *)(void *)((char *)c + r->at), err);
	case LIST: return list_take(c, r, value, err);
	case BIND: return sandbox_bind_add(&c->binds, value, err);
	case LIMIT: return limit_take(c, value, err);
	case LACK: return lack_take(c, value, err);
	case TARGET: return target_take(c, r, value, err);
	case LACK_LIMITS: c->may_lack |= SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER; return 0;
	}
	return word_take(c, value, err);
}

int
cli_parse(int argc, char **argv, unsigned groups, struct cli *c, struct err *err)
{
	struct option_line l = {.rows = rows,
	    .n = ARRAY_LEN(rows),
	    .groups = groups,
	    .after = &c->command,
	    .own = own_take,
	    .into = c};

	return option_read(&l, argc, argv, err);
}

void
cli_free(struct cli *c)
{
	sandbox_binds_free(&c->binds);
	for (size_t i = 0; i < c->nown; i++)
		free(c->own[i]);
	free(c->own);
}
