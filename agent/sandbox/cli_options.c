/*
 * The options of all subcommands, as one table (the command line, as the person who types it).
 * Numbers are checked here; paths, names and addresses by the sandbox's own rules.
 */
#include "agent/sandbox/cli.h"

#include <stdio.h>
#include <string.h>

#include "common/xalloc.h"

#include "common/banned.h"

enum kind { TEXT, NUMBER, OCTAL, NUMBER32, FLAG, LIST, BIND, LIMIT, LACK, LACK_LIMITS, TARGET };

#define AT(f) offsetof(struct cli, f)
#define SPECS (CLI_SPEC)
#define PROGRAM (CLI_PROG | CLI_EXEC)

static const struct row {
	const char *name;
	enum kind kind;
	unsigned groups;
	size_t at;
	uint64_t min, max;
	const char *arg, *what;
} rows[] = {
    {"--in", TEXT, CLI_EXEC, AT(in), 0, 0, "NAME",
	"in this sandbox, not in a fresh one; then no option of a sandbox"},
    {"--workspace", TEXT, SPECS, AT(workspace), 0, 0, "DIR",
	"becomes /work (default: an empty tmpfs of --disk, gone at the end)"},
    {"--overlay", TEXT, SPECS, AT(overlay), 0, 0, "DIR",
	"becomes /work, but only a copy of it is changed, which is gone at the end"},
    {"--workspace-unsafe", FLAG, SPECS, AT(workspace_unsafe), 0, 0, "",
	"allow a workspace that holds ~/.ssh or the like; the level says so"},
    {"--state", TEXT, SPECS, AT(state), 0, 0, "DIR", "a broker's state directory, to keep out"},
    {"--socket", TEXT, SPECS, AT(socket), 0, 0, "FILE",
	"the same by its agent socket (default: " SANDBOX_BROKER_SOCKET ")"},
    {"--ro-bind", BIND, SPECS, 0, 0, 0, "HOST[:INSIDE]",
	"show a path of the host read-only; may be repeated, up to 32 times"},
    {"--image", TEXT, SPECS, AT(image), 0, 0, "DIR",
	"a root file system, read-only, in place of the host's programs"},
    {"--backend", TEXT, SPECS, AT(backend), 0, 0, "NAME",
	"native, crun, runc or runsc (default: native)"},
    {"--label", LIST, SPECS, AT(labels), 0, SANDBOX_LABELS_MAX, "KEY=VALUE",
	"shown by list and inspect; may be repeated, up to 32 times"},
    {"--memory", NUMBER32, SPECS, AT(limits.memory_mib), 16, 1 << 20, "MIB",
	"memory of all programs, /tmp and a private /work (default: 1024)"},
    {"--cpu", NUMBER32, SPECS, AT(limits.cpu_percent), 1, 6400, "PERCENT",
	"100 is one processor (default: 200)"},
    {"--pids", NUMBER32, SPECS, AT(limits.pids), 4, 32768, "N",
	"processes and threads (default: 256)"},
    {"--output", NUMBER32, SPECS, AT(limits.output_mib), 1, 4096, "MIB",
	"output of one command; more ends it (default: 64)"},
    {"--disk", NUMBER32, SPECS, AT(limits.workspace_mib), 1, 1 << 20, "MIB",
	"size of /tmp and of a private or overlaid /work, each (default: 512)"},
    {"--limit", LIMIT, SPECS, 0, 0, 0, "WORD=N",
	"wall (s, default: 3600), linger (s without a caller, 600), open-files (8192), cpu, "
	"memory, "
	"pids, output, disk; may be repeated"},
    {"--may-lack", LACK, SPECS, 0, 0, 0, "LAYER",
	"go on without it where the kernel does not have it: limits, landlock, freezer or notify; "
	"may be repeated"},
    {"--limits-optional", LACK_LIMITS, SPECS, 0, 0, 0, "", "--may-lack limits --may-lack freezer"},
    {"--level", FLAG, SPECS, AT(level), 0, 0, "",
	"print what holds, as JSON, first; exec then needs no command"},
    {"--env", LIST, SPECS | PROGRAM, AT(env), 0, SANDBOX_ENV_MAX, "NAME=VALUE",
	"a variable of its environment; may be repeated, up to 512 times"},
    {"--cwd", TEXT, PROGRAM, AT(cwd), 0, 0, "DIR", "where it begins (default: /work)"},
    {"--timeout", NUMBER, PROGRAM, AT(timeout_s), 1, 86400, "S",
	"it is ended then (default: with the sandbox); not what --background left of it"},
    {"--tty", FLAG, PROGRAM, AT(tty), 0, 0, "", "a terminal inside; also -t"},
    {"--language", TEXT, CLI_EXEC, AT(language), 0, 0, "L",
	"run standard input as code of bash, sh, python, javascript or perl; no command"},
    {"--background", FLAG, CLI_EXEC, AT(background), 0, 0, "",
	"with --in: leave what it started running after it has ended; `ps` shows that, `kill NAME "
	"PROC` ends it"},
    {"--explain", FLAG, CLI_EXEC, AT(explain), 0, 0, "",
	"print which system calls were refused to it, at the end"},
    {"--language", TEXT, CLI_CODE, AT(language), 0, 0, "L", "python (default), bash or javascript"},
    {"--cwd", TEXT, CLI_CODE, AT(cwd), 0, 0, "DIR", "where it begins (default: /work)"},
    {"--timeout", NUMBER, CLI_CODE, AT(timeout_s), 1, 86400, "S",
	"of each cell, which is interrupted then (default: none)"},
    {"--input", FLAG, CLI_SPAWN, AT(input), 0, 0, "",
	"give it a pipe as standard input, for `input`"},
    {"--close", FLAG, CLI_INPUT, AT(close), 0, 0, "", "end of file behind it"},
    {"--follow", FLAG, CLI_LOGS, AT(follow), 0, 0, "", "go on until it ends; also -f"},
    {"--from", NUMBER, CLI_LOGS, AT(from), 0, INT64_MAX, "N",
	"begin at this byte of its output (default: 0)"},
    {"--timeout", NUMBER, CLI_WAIT, AT(timeout_s), 1, 86400, "S", "give up then (default: none)"},
    {"--add", TARGET, CLI_NET, AT(add), 0, CLI_TARGETS_MAX, "HOST=ADDRESS:PORT",
	"a listener inside, at an address of 127.0.0.0/8 above 127.0.0.1; may be repeated"},
    {"--drop", TARGET, CLI_NET, AT(drop), 0, CLI_TARGETS_MAX, "HOST=ADDRESS:PORT",
	"one that refuses from now on; may be repeated"},
    {"--tree", FLAG, CLI_FILES, AT(tree), 0, 0, "",
	"remove: with all that is in it; watch: also below"},
    {"--depth", NUMBER, CLI_FILES, AT(depth), 1, 64, "N",
	"list: so many levels (default: 1, the directory alone)"},
    {"--mode", OCTAL, CLI_FILES, AT(mode), 0, 0777, "OCTAL", "write: its rights (default: 644)"},
    {"--max", NUMBER, CLI_FILES | CLI_MAX, AT(max), 1, UINT64_C(1) << 40, "BYTES",
	"more is refused (default: 1073741824)"},
    {"--json", FLAG, CLI_JSON, AT(json), 0, 0, "", "as JSON"},
};

void
cli_options_help(unsigned groups)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *r = &rows[i];
		AUTO_FREE char *left = xasprintf("%s %s", r->name, r->arg);

		if ((r->groups & groups) != 0)
			(void)printf("  %-26s %s\n", left, r->what);
	}
	(void)printf("  %-26s print this\n", "--help");
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
bind_take(struct cli *c, const char *value, struct err *err)
{
	char *text, *colon;

	if (c->nbinds == SANDBOX_BINDS_MAX)
		return err_set(err, ERR_INVALID, "--ro-bind: at most %d", SANDBOX_BINDS_MAX);
	text = keep(c, value);
	colon = strrchr(text, ':');
	if (colon != NULL)
		*colon = '\0';
	c->binds[c->nbinds++] =
	    (struct sandbox_bind){.host_path = text, .inside = colon != NULL ? colon + 1 : text};
	return 0;
}

static int
number_take(const struct row *r, const char *value, uint64_t *ret, struct err *err)
{
	uint64_t v;

	if (!cli_number(value, UINT64_MAX, &v) || v < r->min || v > r->max)
		return err_set(err, ERR_INVALID, "%s must be a number from %llu to %llu, is \"%s\"",
		    r->name, (unsigned long long)r->min, (unsigned long long)r->max, value);
	*ret = v;
	return 0;
}

static int
octal_take(const struct row *r, const char *value, uint64_t *ret, struct err *err)
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
	static const struct row words[] = {
	    {"wall", NUMBER32, 0, AT(limits.wall_s), 1, 86400, "", ""},
	    {"linger", NUMBER32, 0, AT(limits.linger_s), 1, 86400, "", ""},
	    {"open-files", NUMBER32, 0, AT(limits.open_files), 16, 1 << 20, "", ""},
	    {"cpu", NUMBER32, 0, AT(limits.cpu_percent), 1, 6400, "", ""},
	    {"memory", NUMBER32, 0, AT(limits.memory_mib), 16, 1 << 20, "", ""},
	    {"pids", NUMBER32, 0, AT(limits.pids), 4, 32768, "", ""},
	    {"output", NUMBER32, 0, AT(limits.output_mib), 1, 4096, "", ""},
	    {"disk", NUMBER32, 0, AT(limits.workspace_mib), 1, 1 << 20, "", ""},
	};
	struct str rest = str_z(value), word;

	for (size_t i = 0; str_cut(&rest, '=', &word) && i < ARRAY_LEN(words);
	     i++, rest = str_z(value)) {
		uint64_t v = 0;
		int rc;

		if (!str_eqz(word, words[i].name))
			continue;
		if ((rc = number_take(&words[i], strchr(value, '=') + 1, &v, err)) != 0)
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
target_take(struct cli *c, const struct row *r, const char *value, struct err *err)
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
list_take(struct cli *c, const struct row *r, const char *value, struct err *err)
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
value_take(struct cli *c, const struct row *r, const char *value, struct err *err)
{
	char *field = (char *)c + r->at;
	uint64_t v = 0;
	int rc;

	switch (r->kind) {
	case TEXT: memcpy(field, &value, sizeof(value)); return 0;
	case NUMBER: return number_take(r, value, (uint64_t *)(void *)field, err);
	case OCTAL: return octal_take(r, value, (uint64_t *)(void *)field, err);
	case NUMBER32:
		if ((rc = number_take(r, value, &v, err)) == 0)
			*(uint32_t *)(void *)field = (uint32_t)v;
		return rc;
	case FLAG: *(bool *)field = true; return 0;
	case LIST: return list_take(c, r, value, err);
	case BIND: return bind_take(c, value, err);
	case LIMIT: return limit_take(c, value, err);
	case LACK: return lack_take(c, value, err);
	case LACK_LIMITS: c->may_lack |= SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER; return 0;
	case TARGET: return target_take(c, r, value, err);
	}
	return err_set(err, ERR_INTERNAL, "%s", r->name);
}

static const struct row *
row_find(const char *name, size_t n, unsigned groups)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if ((rows[i].groups & groups) != 0 && strlen(rows[i].name) == n &&
		    memcmp(rows[i].name, name, n) == 0)
			return &rows[i];
	return NULL;
}

static int
option_take(struct cli *c, int argc, char **argv, int *i, unsigned groups, struct err *err)
{
	const char *arg = argv[*i], *eq;
	const struct row *r;
	bool flag;

	if (strcmp(arg, "-t") == 0)
		arg = "--tty";
	else if (strcmp(arg, "-f") == 0)
		arg = "--follow";
	eq = strchr(arg, '=');
	r = row_find(arg, eq != NULL ? (size_t)(eq - arg) : strlen(arg), groups);
	if (r == NULL)
		return err_set(
		    err, ERR_INVALID, "\"%s\" is not an option here; see --help", argv[*i]);
	flag = r->kind == FLAG || r->kind == LACK_LIMITS;
	if (flag && eq != NULL)
		return err_set(err, ERR_INVALID, "%s takes no value", r->name);
	if (!flag && eq == NULL && *i + 1 >= argc)
		return err_set(err, ERR_INVALID, "%s needs a value", r->name);
	return value_take(c, r, flag ? "" : eq != NULL ? eq + 1 : argv[++*i], err);
}

int
cli_parse(int argc, char **argv, unsigned groups, struct cli *c, struct err *err)
{
	for (int i = 1; i < argc; i++) {
		int rc = 0;

		if (strcmp(argv[i], "--") == 0) {
			c->command = i + 1 < argc ? &argv[i + 1] : NULL;
			return c->command != NULL
				   ? 0
				   : err_set(err, ERR_INVALID, "no command after --");
		}
		/* "-5" is a number that somebody gave, not an option. */
		if (argv[i][0] == '-' && argv[i][1] != '\0' &&
		    !(argv[i][1] >= '0' && argv[i][1] <= '9'))
			rc = option_take(c, argc, argv, &i, groups, err);
		else if (c->nwords == CLI_WORDS_MAX)
			rc = err_set(err, ERR_INVALID, "\"%s\" is a word too many", argv[i]);
		else
			c->words[c->nwords++] = argv[i];
		if (rc != 0)
			return rc;
	}
	return 0;
}

void
cli_free(struct cli *c)
{
	for (size_t i = 0; i < c->nown; i++)
		free(c->own[i]);
	free(c->own);
}
