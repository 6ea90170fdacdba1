/*
 * `cofferdam sandbox ...` and `cofferdam doctor`: one table of subcommands, one of options. Runs as
 * the person who types it; what it prints of a sandbox's own was written by code that nobody
 * trusts.
 */
#ifndef AGENT_SANDBOX_CLI_H
#define AGENT_SANDBOX_CLI_H

#include "agent/sandbox/sandbox.h"
#include "agent/sandbox/sandbox_streams.h"
#include "agent/sandbox/sandbox_workspace.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_UNAVAILABLE = 126, CLI_NOT_FOUND = 127 };

#define CLI_WORDS_MAX 8
#define CLI_TARGETS_MAX 32

/* What was typed behind the subcommand. Strings are argv's, but those of `own`. */
struct cli {
	struct sandbox_limits limits;
	const char *workspace, *overlay, *image, *backend, *state, *socket; /* of the sandbox */
	const char *labels[SANDBOX_LABELS_MAX + 2];
	struct sandbox_binds binds;
	size_t nlabels;
	unsigned may_lack;
	bool workspace_unsafe;
	const char *env[SANDBOX_ENV_MAX + 2], *cwd, *in, *language; /* of a program */
	size_t nenv;
	uint64_t timeout_s, spare_s;
	bool tty, explain, level, background, input;
	bool json, follow, tree, close; /* of the others */
	uint64_t from, depth, max, mode;
	struct sandbox_target add[CLI_TARGETS_MAX], drop[CLI_TARGETS_MAX];
	size_t nadd, ndrop;
	const char *words[CLI_WORDS_MAX];
	size_t nwords;
	char *const *command; /* behind "--"; NULL: none */
	char **own;
	size_t nown;
};

/* Whose options a row of the table is; a subcommand's set is a sum of these. */
enum cli_group {
	CLI_SPEC = 1, /* how a sandbox is built */
	CLI_RUN = 2,  /* a program and its streams */
	CLI_EXEC = 4, /* exec alone */
	CLI_PROG = 8, /* a program's surroundings */
	CLI_JSON = 16,
	CLI_LOGS = 32,
	CLI_NET = 64,
	CLI_FILES = 128,
	CLI_SPAWN = 256,
	CLI_CODE = 512,
	CLI_INPUT = 1024,
	CLI_CREATE = 2048,
	CLI_WAIT = 4096,
	CLI_MAX = 8192,
};

/* argv[0] is skipped. ERR_INVALID names the option, its value and what is wanted. */
int cli_parse(int argc, char **argv, unsigned groups, struct cli *ret, struct err *err);
void cli_free(struct cli *c);
void cli_options_help(unsigned groups);

/* --- cli_spec.c ---------------------------------------------------------------------------- */
/*
 * Looks at the directories, builds the sandbox; `here`: in this process. *ret_level: what holds, as
 * JSON; the caller frees. Prints what is the matter; 0 or an exit status.
 */
int cli_create(
    const struct cli *c, const char *name, bool here, struct sandbox **ret, char **ret_level);
/* Attaches to words[0]; prints what is the matter, 0 or an exit status. */
int cli_attach(const char *name, struct sandbox **ret);
/* True if any option of CLI_SPEC but --env was given. */
bool cli_has_spec(const struct cli *c);
/* Prints the error; the exit status for it. */
int cli_fail(const struct err *e);

/* --- the subcommands: argv is read already; an exit status --------------------------------------
 */
typedef int cli_fn(const struct cli *c);
cli_fn cli_exec, cli_create_named, cli_list, cli_inspect, cli_shell, cli_spawn, cli_ps, cli_logs,
    cli_signal, cli_wait, cli_input, cli_kill, cli_pause, cli_resume, cli_extend, cli_network,
    cli_files, cli_snapshot, cli_restore, cli_code;
/* argv[0] is "sandbox"; "doctor". */
int cli_sandbox(int argc, char **argv);
int cli_doctor(int argc, char **argv);
/* A number that a word is; false: it is none of 0 to max. */
bool cli_number(const char *word, uint64_t max, uint64_t *ret);

/* --- cli_json.c: reading what the supervisor says ----------------------------------------------
 */
struct cli_doc;
int cli_json_parse(struct str text, struct cli_doc **ret, struct err *err);
void cli_json_free(struct cli_doc *d);
DEFINE_AUTO(cli_doc, struct cli_doc, cli_json_free)
/* Values are numbers; the root is 0, none is CLI_NONE, which all of these take. */
#define CLI_NONE SIZE_MAX
size_t cli_json_get(const struct cli_doc *d, size_t object, const char *key);
size_t cli_json_at(const struct cli_doc *d, size_t array, size_t i);
size_t cli_json_count(const struct cli_doc *d, size_t v);
int64_t cli_json_int(const struct cli_doc *d, size_t v);
/* A string without its escapes; any other value as its JSON; "" for none. The caller frees. */
char *cli_json_text(const struct cli_doc *d, size_t v);

/* --- cli_table.c --------------------------------------------------------------------------- */
/* Columns as wide as their widest cell; cells are made printable. */
struct cli_table;
struct cli_table *cli_table_new(const char *const *heads);
void cli_table_cell(struct cli_table *t, const char *text);
void cli_table_print(struct cli_table *t); /* and frees */
/* The same with the last column cut to the width of the terminal, if there is one. */
void cli_table_print_fit(struct cli_table *t);
/* A JSON value as "name: value" lines, nested ones indented. */
void cli_print_json(const struct cli_doc *d, size_t v);

#endif
