/*
 * The table of tools of cofferdam-mcp. Runs in it and in its jobs. A tool that would sign, approve
 * or change a policy is not there, and no argument does: whoever speaks MCP is an agent.
 */
#include "agent/mcp_tools.h"

#include <stddef.h>

#include "common/xalloc.h"

#include "common/banned.h"

#define ARGS_MAX 6
#define AT(m) offsetof(struct mcp_args, m)

enum kind { TEXT = 1, NUMBER, FLAG };

struct arg {
	const char *name;
	enum kind kind;
	bool required;
	size_t at;
	int64_t min, max; /* of a number; of text the bytes, min 0: it may be empty */
	const char *choices, *usual, *what;
};

#define EXECUTION                                                                                 \
	"{\"type\":\"object\",\"properties\":{"                                                   \
	"\"cause\":{\"type\":\"string\",\"description\":\"how it ended: ok, exited, error, "      \
	"interrupted, lost, signalled, timeout, memory, output, killed, disk, policy\"},"         \
	"\"duration_ms\":{\"type\":\"integer\"},"                                                 \
	"\"error\":{\"type\":\"object\",\"properties\":{\"message\":{\"type\":\"string\"},"       \
	"\"name\":{\"type\":\"string\"},\"trace\":{\"type\":\"string\"}}},"                       \
	"\"execution_id\":{\"type\":\"string\"},"                                                 \
	"\"exit_code\":{\"type\":\"integer\"},"                                                   \
	"\"hint\":{\"type\":\"string\",\"description\":\"what to do now\"},"                      \
	"\"output_bytes\":{\"type\":\"integer\",\"description\":\"of all output, also what is "   \
	"left out here\"},"                                                                       \
	"\"refused\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"what " \
	"the broker refused since the last call: rule, window, until when, and the id of an "     \
	"approval\"},"                                                                            \
	"\"results\":{\"type\":\"array\",\"items\":{\"type\":\"object\"},\"description\":"        \
	"\"values "                                                                               \
	"that were shown, by MIME type\"},"                                                       \
	"\"run\":{\"type\":\"string\"},"                                                          \
	"\"state\":{\"type\":\"string\",\"enum\":[\"ended\",\"running\"]},"                       \
	"\"stderr\":{\"type\":\"string\"},\"stdout\":{\"type\":\"string\"},"                      \
	"\"truncated\":{\"type\":\"boolean\"}},\"required\":[\"execution_id\",\"state\"]}"
#define STRINGS(a, b, c)                                                       \
	"\"" a "\":{\"type\":\"string\"},\"" b "\":{\"type\":\"string\"},\"" c \
	"\":{\"type\":\"string\"},"
#define REQUESTS                                                                                   \
	"{\"type\":\"object\",\"properties\":{\"requests\":{\"type\":\"array\",\"items\":{"        \
	"\"type\":\"object\",\"properties\":{" STRINGS("approve_by", "hint", "needs")              \
	    STRINGS("not_before", "reason", "request") STRINGS("state", "target",                  \
		"use_by") "\"grants\":{\"type\":\"integer\"},"                                     \
			  "\"how\":{\"type\":\"string\",\"description\":\"what a person runs\"}}," \
			  "\"required\":[\"request\",\"state\"]}}},\"required\":[\"requests\"]}"

static const struct row {
	const char *name, *title, *what, *output;
	bool reads, destroys, open;
	struct arg args[ARGS_MAX];
} rows[MCP_TOOLS] = {
    [MCP_APPROVAL_STATUS] = {"approval_status", "Status of approvals",
	"The state of this run's requests for approval: whom they wait for, until when, and what a "
	"person runs to look at one and sign it. Only people sign; nothing that is said here "
	"approves anything.",
	REQUESTS, true, false, false,
	{{"request", TEXT, false, AT(request), 1, 64, NULL, "all of this run",
	    "id of one request"}}},
    [MCP_END] = {"end", "End the run",
	"Ends the run and its sandbox: all that is in it is gone. A later call begins a new one.",
	"{\"type\":\"object\",\"properties\":{\"run\":{\"type\":\"string\"},\"state\":{\"type\":"
	"\"string\"}},\"required\":[\"state\"]}",
	false, true, false,
	{{"reason", TEXT, false, AT(reason), 1, 2000, NULL, "done",
	    "what was done, for the record"}}},
    [MCP_EXECUTION_STATUS] = {"execution_status", "Status of an execution",
	"What became of a run_code or run_command that was answered with state \"running\". Waits "
	"for its end as long as a call may last.",
	EXECUTION, false, false, false,
	{{"execution_id", TEXT, true, AT(execution), 1, 32, NULL, NULL, "as it was answered"},
	    {"stop", FLAG, false, AT(stop), 0, 0, NULL, "false", "end it now"}}},
    [MCP_LIST_FILES] = {"list_files", "List files", "What stands in a directory of the sandbox.",
	"{\"type\":\"object\",\"properties\":{\"entries\":{\"type\":\"array\",\"items\":{\"type\":"
	"\"object\",\"properties\":{\"mode\":{\"type\":\"integer\"},\"mtime_ms\":{\"type\":"
	"\"integer\"},\"name\":{\"type\":\"string\"},\"path\":{\"type\":\"string\"},\"size\":{"
	"\"type\":\"integer\"},\"type\":{\"type\":\"string\"}}}},\"path\":{\"type\":\"string\"}},"
	"\"required\":[\"entries\",\"path\"]}",
	true, false, false,
	{{"path", TEXT, false, AT(path), 1, MCP_PATH_MAX, NULL, "/work",
	     "absolute, or relative to /work"},
	    {"depth", NUMBER, false, AT(depth), 1, 128, NULL, "1", "levels of directories"}}},
    [MCP_LIST_TARGETS] = {"list_targets", "List targets",
	"What this run may reach, by which names, what the policy says of each effect on it now, "
	"and which freezes are in force until when.",
	"{\"type\":\"object\",\"properties\":{\"frozen\":{\"type\":\"array\",\"items\":{\"type\":"
	"\"string\"}},\"owner\":{\"type\":\"string\"},\"policy\":{\"type\":\"string\"},\"run\":{"
	"\"type\":\"string\"},\"targets\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
	"\"properties\":{\"database\":{\"type\":\"string\"},\"host\":{\"type\":\"string\"},"
	"\"kind\":{\"type\":\"string\"},\"port\":{\"type\":\"integer\"},\"target\":{\"type\":"
	"\"string\"},\"user\":{\"type\":\"string\"}}}}},\"required\":[\"run\",\"targets\","
	"\"frozen\"]}",
	true, false, false, {{0}}},
    [MCP_READ_FILE] = {"read_file", "Read a file",
	"Bytes of a file of the sandbox, as text, or in base64 where they are no UTF-8.",
	"{\"type\":\"object\",\"properties\":{\"content\":{\"type\":\"string\"},\"encoding\":{"
	"\"type\":\"string\",\"enum\":[\"utf-8\",\"base64\"]},\"offset\":{\"type\":\"integer\"},"
	"\"path\":{\"type\":\"string\"},\"size\":{\"type\":\"integer\"},\"truncated\":{\"type\":"
	"\"boolean\"}},\"required\":[\"content\",\"encoding\",\"path\",\"size\",\"truncated\"]}",
	true, false, false,
	{{"path", TEXT, true, AT(path), 1, MCP_PATH_MAX, NULL, NULL,
	     "absolute, or relative to /work"},
	    {"offset", NUMBER, false, AT(offset), 0, INT64_C(1) << 40, NULL, "0", "first byte"},
	    {"limit", NUMBER, false, AT(limit), 1, MCP_FILE_MAX, NULL, "65536", "bytes"}}},
    [MCP_REQUEST_APPROVAL] = {"request_approval", "Ask for an approval",
	"For an action that was refused because it needs approval: the refusal names a request id. "
	"Puts your reason on the record, where those who may sign read it, and tells what a person "
	"runs to look at the request and sign it. It signs nothing and cannot. When it is "
	"approved, "
	"do the same action again.",
	REQUESTS, false, false, false,
	{{"request", TEXT, true, AT(request), 1, 64, NULL, NULL, "the id in the refusal"},
	    {"reason", TEXT, false, AT(reason), 1, 2000, NULL, "none", "why it should be done"}}},
    [MCP_RUN_CODE] = {"run_code", "Run code",
	"Runs code in the sandbox, in an interpreter whose variables stay until the run ends. From "
	"there the targets of list_targets can be reached by their names, with the clients that "
	"are "
	"there (psql, curl, git, ...) and without any credential: the broker has them, judges each "
	"action and may refuse it or want a person's approval. Chain many steps in one script.",
	EXECUTION, false, true, true,
	{{"code", TEXT, true, AT(code), 1, MCP_CODE_MAX, NULL, NULL, "the source text"},
	    {"language", TEXT, false, AT(language), 1, 16, "python|javascript|bash", "python",
		"python, javascript (Node) or bash"},
	    {"context", TEXT, false, AT(context), 1, MCP_NAME_MAX, NULL, "one for each language",
		"name of an interpreter, to have several"},
	    {"restart", FLAG, false, AT(restart), 0, 0, NULL, "false",
		"begin with a fresh interpreter: its variables are gone"},
	    {"timeout_s", NUMBER, false, AT(timeout_s), 1, 86400, NULL, "600",
		"seconds; then it is interrupted"}}},
    [MCP_RUN_COMMAND] = {"run_command", "Run a command",
	"Runs one shell command (bash) in the sandbox, by itself. It reaches the same targets as "
	"run_code, in the same way.",
	EXECUTION, false, true, true,
	{{"command", TEXT, true, AT(command), 1, MCP_CODE_MAX, NULL, NULL, "for bash -c"},
	    {"cwd", TEXT, false, AT(cwd), 1, MCP_PATH_MAX, NULL, "/work", "absolute directory"},
	    {"stdin", TEXT, false, AT(stdin_text), 0, MCP_FILE_MAX, NULL, "empty",
		"standard input"},
	    {"timeout_s", NUMBER, false, AT(timeout_s), 1, 86400, NULL, "600",
		"seconds; then it is ended"}}},
    [MCP_WRITE_FILE] = {"write_file", "Write a file",
	"Makes or replaces a file of the sandbox, whole or not at all; directories are made.",
	"{\"type\":\"object\",\"properties\":{\"bytes\":{\"type\":\"integer\"},\"path\":{\"type\":"
	"\"string\"}},\"required\":[\"bytes\",\"path\"]}",
	false, true, false,
	{{"path", TEXT, true, AT(path), 1, MCP_PATH_MAX, NULL, NULL,
	     "absolute, or relative to /work"},
	    {"content", TEXT, true, AT(content), 0, MCP_FILE_MAX, NULL, NULL, "all of it"},
	    {"encoding", TEXT, false, AT(encoding), 1, 8, "utf-8|base64", "utf-8", "of content"},
	    {"mode", NUMBER, false, AT(mode), 0, 0777, NULL, "420", "permissions, 420 is 0644"}}},
};

const char mcp_tools_instructions[] =
    "Code runs in a sandbox that holds no credential. What it sends to a target goes through a "
    "broker that judges each action by a policy and puts it on the record. A refusal is final "
    "until "
    "what it names has changed: do not try the same by other ways. Where an action needs approval, "
    "tell the user what request_approval answers, go on with other work, ask approval_status, and "
    "repeat the action when it is approved. An execution that takes long is answered with state "
    "running and an execution_id: ask execution_status.";

/* --- tools/list ------------------------------------------------------------------------ */

static void
choices_put(struct buf *b, const char *choices)
{
	struct str rest = str_z(choices), one;
	bool first = true;

	buf_put_z(b, ",\"enum\":[");
	while (rest.n != 0) {
		if (!str_cut(&rest, '|', &one)) {
			one = rest;
			rest = STR("");
		}
		buf_printf(b, "%s\"%.*s\"", first ? "" : ",", STR_ARG(one));
		first = false;
	}
	buf_put_c(b, ']');
}

static void
arg_put(struct buf *b, const struct arg *a)
{
	static const char *const types[] = {
	    [TEXT] = "string", [NUMBER] = "integer", [FLAG] = "boolean"};

	buf_printf(b, "\"%s\":{\"type\":\"%s\",\"description\":\"%s%s%s%s\"", a->name,
	    types[a->kind], a->what, a->usual != NULL ? " (default: " : "",
	    a->usual != NULL ? a->usual : "", a->usual != NULL ? ")" : "");
	if (a->kind == NUMBER)
		buf_printf(
		    b, ",\"minimum\":%lld,\"maximum\":%lld", (long long)a->min, (long long)a->max);
	if (a->choices != NULL)
		choices_put(b, a->choices);
	buf_put_c(b, '}');
}

static char *
members(const struct row *r)
{
	AUTO_BUF struct buf b = BUF(32768), need = BUF(1024);

	buf_printf(&b, "\"title\":\"%s\",\"description\":", r->title);
	mcp_text_put(&b, str_z(r->what));
	buf_put_z(&b, ",\"inputSchema\":{\"type\":\"object\",\"properties\":{");
	for (size_t i = 0; i < ARGS_MAX && r->args[i].name != NULL; i++) {
		if (i != 0)
			buf_put_c(&b, ',');
		arg_put(&b, &r->args[i]);
		if (r->args[i].required)
			buf_printf(&need, "%s\"%s\"", need.n != 0 ? "," : "", r->args[i].name);
	}
	buf_printf(&b, "},\"required\":[%.*s],\"additionalProperties\":false},\"outputSchema\":%s",
	    STR_ARG(buf_str(&need)), r->output);
	buf_printf(&b,
	    ",\"annotations\":{\"destructiveHint\":%s,\"openWorldHint\":%s,\"readOnlyHint\":%s}",
	    r->destroys ? "true" : "false", r->open ? "true" : "false",
	    r->reads ? "true" : "false");
	return buf_dup_z(&b);
}

const struct mcp_tool *
mcp_tools(void)
{
	static struct mcp_tool tools[MCP_TOOLS];

	for (size_t i = 0; tools[i].json == NULL; i++) {
		tools[i] = (struct mcp_tool){.name = rows[i].name, .json = members(&rows[i])};
		if (i + 1 == MCP_TOOLS)
			break;
	}
	return tools;
}

enum mcp_tool_id
mcp_tools_id(const struct mcp_tool *t)
{
	return (enum mcp_tool_id)(t - mcp_tools());
}

/* --- arguments ------------------------------------------------------------------------- */

static const struct arg *
arg_find(const struct row *r, struct str name)
{
	for (size_t i = 0; i < ARGS_MAX && r->args[i].name != NULL; i++)
		if (str_eqz(name, r->args[i].name))
			return &r->args[i];
	return NULL;
}

static bool
is_choice(const char *choices, struct str s)
{
	struct str rest = str_z(choices), one;

	while (str_cut(&rest, '|', &one))
		if (str_eq(one, s))
			return true;
	return str_eq(rest, s);
}

static int
text_take(const struct row *r, const struct arg *a, const struct json *v, void *at, struct err *err)
{
	struct str s = json_str(v);

	if (json_type(v) != JSON_STRING)
		return err_set(
		    err, ERR_INVALID, "%s: %s must be a string: %s", r->name, a->name, a->what);
	if (s.n < (size_t)a->min || s.n > (size_t)a->max)
		return err_set(err, ERR_INVALID, "%s: %s has %zu bytes; %lld to %lld are wanted",
		    r->name, a->name, s.n, (long long)a->min, (long long)a->max);
	if (a->choices != NULL && !is_choice(a->choices, s))
		return err_set(err, ERR_INVALID, "%s: %s must be one of %s, is \"%.*s\"", r->name,
		    a->name, a->choices, STR_ARG(s));
	*(struct str *)at = s;
	return 0;
}

static int
value_take(const struct row *r, const struct arg *a, const struct json *v, struct mcp_args *ret,
    struct err *err)
{
	void *at = (char *)ret + a->at;
	int64_t n = json_int(v);

	switch (a->kind) {
	case TEXT: return text_take(r, a, v, at, err);
	case NUMBER:
		if (json_type(v) != JSON_INT || n < a->min || n > a->max)
			return err_set(err, ERR_INVALID,
			    "%s: %s must be an integer from %lld to %lld: %s", r->name, a->name,
			    (long long)a->min, (long long)a->max, a->what);
		*(int64_t *)at = n;
		return 0;
	case FLAG:
		if (json_type(v) != JSON_BOOL)
			return err_set(err, ERR_INVALID, "%s: %s must be true or false: %s",
			    r->name, a->name, a->what);
		*(bool *)at = json_bool(v);
		return 0;
	}
	return err_set(err, ERR_INTERNAL, "%s: %s", r->name, a->name);
}

static int
lacking(const struct row *r, const struct json *arguments, struct err *err)
{
	for (size_t i = 0; i < ARGS_MAX && r->args[i].name != NULL; i++)
		if (r->args[i].required && json_get(arguments, r->args[i].name) == NULL)
			return err_set(err, ERR_INVALID, "%s: %s is missing: %s", r->name,
			    r->args[i].name, r->args[i].what);
	return 0;
}

int
mcp_tools_args(
    enum mcp_tool_id id, const struct json *arguments, struct mcp_args *ret, struct err *err)
{
	const struct row *r = &rows[id];

	*ret = (struct mcp_args){.language = STR("python"),
	    .cwd = STR("/work"),
	    .path = STR("/work"),
	    .encoding = STR("utf-8"),
	    .timeout_s = 600,
	    .limit = MCP_FILE_READ,
	    .depth = 1,
	    .mode = 0644};
	for (size_t i = 0; i < json_count(arguments); i++) {
		struct str key = json_key(arguments, i);
		const struct arg *a = arg_find(r, key);
		int rc;

		if (a == NULL)
			return err_set(err, ERR_INVALID, "%s has no argument \"%.*s\"", r->name,
			    (int)(key.n < 100 ? key.n : 100), key.p);
		if ((rc = value_take(r, a, json_at(arguments, i), ret, err)) != 0)
			return rc;
	}
	return lacking(r, arguments, err);
}
