/*
 * The table of tools, and what is read by it (process: cofferdam-agent). The words are for a
 * model; the arguments come from one, and are believed to be nothing but what the table says.
 */
#include "agent/agent_tool.h"

#include "common/jcs.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

static const char *const languages[] = {"python", "bash", "javascript", NULL};
static const char *const programs[] = {"bash", "sh", "python", "javascript", "perl", NULL};
static const char *const outcomes[] = {"done", "not_done", NULL};

/* Names that models use for the same. */
static const struct {
	const char *said, *meant;
} aliases[] = {{"py", "python"}, {"python3", "python"}, {"shell", "bash"}, {"sh", "bash"},
    {"node", "javascript"}, {"js", "javascript"}};

#define TEXT(n, w)                                                          \
	{                                                                   \
		.name = n, .type = TOOL_STRING, .required = true, .what = w \
	}
#define OPTIONAL(n, w)                                    \
	{                                                 \
		.name = n, .type = TOOL_STRING, .what = w \
	}
#define ONE_OF(n, list, must, w)                                                            \
	{                                                                                   \
		.name = n, .type = TOOL_STRING, .values = list, .required = must, .what = w \
	}
#define NUMBER(n, least, most, w)                                                     \
	{                                                                             \
		.name = n, .type = TOOL_INTEGER, .min = least, .max = most, .what = w \
	}
#define TIMEOUT NUMBER("timeout_s", 1, 86400, "Seconds that it may take.")

static const struct tool tools[] = {
    {TOOL_RUN_CODE, "run_code",
	"Run code in the sandbox, in an interpreter of that language that stays: variables, "
	"imports "
	"and the working directory are still there in the next call. Its output, the value of a "
	"last expression, or the error come back. An error does not end anything.",
	{TEXT("code", "The code."), ONE_OF("language", languages, true, "The interpreter."),
	    TIMEOUT}},
    {TOOL_RUN_COMMAND, "run_command",
	"Run a program of its own in the sandbox, without a terminal or standard input. Its output "
	"comes back, with how it ended. What it started is ended with it; files stay.",
	{TEXT("command", "The program's text: a shell command, or code of that language."),
	    ONE_OF("language", programs, false, "What it is written in; bash unless given."),
	    TIMEOUT}},
    {TOOL_READ_FILE, "read_file",
	"Read a text file of the sandbox, also the whole of an output that was cut.",
	{TEXT("path", "Absolute, or beneath /work."),
	    NUMBER("offset", 0, INT64_C(1) << 40, "The first byte; 0 unless given."),
	    NUMBER("limit", 1, 65536, "Bytes at most; 16384 unless given.")}},
    {TOOL_WRITE_FILE, "write_file",
	"Write a file of the sandbox, whole. Directories above it are made; what was there is "
	"replaced.",
	{{.name = "content",
	     .type = TOOL_STRING,
	     .required = true,
	     .may_be_empty = true,
	     .what = "All of it."},
	    TEXT("path", "Absolute, or beneath /work.")}},
    {TOOL_ASK, "ask",
	"Ask a person who looks after this run, and wait for the answer. For what only a person "
	"can "
	"know or choose. An answer is never an approval: those are signed, outside of this "
	"conversation.",
	{TEXT("question", "In plain words, with what a person needs to know."),
	    NUMBER("timeout_s", 1, 86400, "Seconds to wait; 600 unless given.")}},
    {TOOL_WAIT_APPROVAL, "wait_approval",
	"Wait until a request for approval is decided, or the time is over: then it is still open, "
	"and you can do other work meanwhile. When it is approved, repeat exactly the refused "
	"action, once.",
	{TEXT("id", "The id of the request, as the refusal names it."),
	    NUMBER("timeout_s", 0, 86400, "Seconds to wait; 60 unless given.")}},
    {TOOL_SUBAGENT, "subagent",
	"Have a part of the task done by a run of its own: a model like you, in a fresh sandbox "
	"without your files, which knows only the task you give it. It ends before this call "
	"does, and its closing words come back. It can do nothing that you cannot, what it spends "
	"is yours, and what it is refused counts as tried by you.",
	{TEXT("task", "All that it must know."),
	    OPTIONAL("targets", "Names of targets, commas between; all of yours unless given."),
	    OPTIONAL("effects", "What it may do at most, as \"read\" or \"@data\", commas between; "
				"all that you may unless given."),
	    NUMBER("turns", 1, 10000, "At most; what you have left unless given."),
	    NUMBER("seconds", 1, 86400, "At most; what you have left unless given."),
	    NUMBER("tokens", 1, INT64_C(1) << 40, "At most; what you have left unless given.")}},
    {TOOL_FINISH, "finish", "End the run: the task is done, or cannot be done.",
	{TEXT("answer", "The outcome in a few plain words."),
	    ONE_OF("outcome", outcomes, false, "done unless given.")}},
};

size_t
tool_count(void)
{
	return ARRAY_LEN(tools);
}

const struct tool *
tool_at(size_t i)
{
	return &tools[i];
}

const struct tool *
tool_find(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		if (str_eqz(name, tools[i].name))
			return &tools[i];
	return NULL;
}

const struct tool *
tool_of(enum tool_id id)
{
	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		if (tools[i].id == id)
			return &tools[i];
	return NULL;
}

size_t
tool_params(const struct tool *t)
{
	size_t n = 0;

	while (n < TOOL_PARAMS_MAX && t->params[n].name != NULL)
		n++;
	return n;
}

char *
tool_names(void)
{
	AUTO_BUF struct buf b = BUF(1024);

	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		buf_printf(&b, "%s%s", i != 0 ? ", " : "", tools[i].name);
	return buf_dup_z(&b);
}

/* --- schema ---------------------------------------------------------------------- */

static void
param_put(struct jcs *j, const struct tool_param *p)
{
	jcs_open(j, p->name);
	jcs_z(j, "description", p->what);
	if (p->values != NULL) {
		jcs_array(j, "enum");
		for (size_t i = 0; p->values[i] != NULL; i++)
			jcs_z(j, NULL, p->values[i]);
		jcs_array_end(j);
	}
	if (p->type == TOOL_INTEGER) {
		jcs_int(j, "maximum", p->max);
		jcs_int(j, "minimum", p->min);
	}
	jcs_z(j, "type", p->type == TOOL_INTEGER ? "integer" : "string");
	jcs_close(j);
}

/* The next name in order behind `last`; NULL: none. The emitter wants keys sorted. */
static const struct tool_param *
param_after(const struct tool *t, const char *last)
{
	const struct tool_param *best = NULL;

	for (size_t i = 0; i < tool_params(t); i++) {
		const struct tool_param *p = &t->params[i];

		if ((last == NULL || strcmp(p->name, last) > 0) &&
		    (best == NULL || strcmp(p->name, best->name) < 0))
			best = p;
	}
	return best;
}

void
tool_schema(const struct tool *t, struct buf *out)
{
	const struct tool_param *p = NULL;
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_bool(&j, "additionalProperties", false);
	jcs_open(&j, "properties");
	while ((p = param_after(t, p != NULL ? p->name : NULL)) != NULL)
		param_put(&j, p);
	jcs_close(&j);
	jcs_array(&j, "required");
	for (size_t i = 0; i < tool_params(t); i++)
		if (t->params[i].required)
			jcs_z(&j, NULL, t->params[i].name);
	jcs_array_end(&j);
	jcs_z(&j, "type", "object");
	jcs_close(&j);
}

/* --- arguments ------------------------------------------------------------------- */

static char *
listed(const struct tool_param *p)
{
	AUTO_BUF struct buf b = BUF(512);

	for (size_t i = 0; p->values[i] != NULL; i++)
		buf_printf(&b, "%s%s", i != 0 ? ", " : "", p->values[i]);
	return buf_dup_z(&b);
}

static bool
value_find(const struct tool_param *p, struct str said, struct str *ret)
{
	for (size_t i = 0; p->values[i] != NULL; i++)
		if (str_eqz(said, p->values[i])) {
			*ret = said;
			return true;
		}
	for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
		for (size_t k = 0; str_eqz(said, aliases[i].said) && p->values[k] != NULL; k++)
			if (strcmp(aliases[i].meant, p->values[k]) == 0) {
				*ret = str_z(p->values[k]);
				return true;
			}
	return false;
}

static char *
string_read(const struct tool *t, const struct tool_param *p, const struct json *v, struct str *ret)
{
	AUTO_FREE char *list = NULL, *said = NULL;

	*ret = json_str(v);
	if (json_type(v) != JSON_STRING)
		return xasprintf("%s: \"%s\" must be a string", t->name, p->name);
	if (ret->n == 0 && p->values == NULL && !p->may_be_empty)
		return xasprintf("%s: \"%s\" must not be empty", t->name, p->name);
	if (p->values == NULL || value_find(p, *ret, ret))
		return NULL;
	list = listed(p);
	said = log_vis(str_mem(ret->p, ret->n < 80 ? ret->n : 80));
	return xasprintf("%s: \"%s\" must be one of %s, is \"%s\"", t->name, p->name, list, said);
}

/* Some models write a number as a string of its digits. */
static char *
integer_read(const struct tool *t, const struct tool_param *p, const struct json *v, int64_t *ret)
{
	uint64_t n = 0;

	*ret = json_int(v);
	if (json_type(v) == JSON_STRING && str_to_u64(json_str(v), INT64_MAX, &n))
		*ret = (int64_t)n;
	else if (json_type(v) != JSON_INT)
		return xasprintf("%s: \"%s\" must be a whole number", t->name, p->name);
	if (*ret < p->min || *ret > p->max)
		return xasprintf("%s: \"%s\" must be from %lld to %lld, is %lld", t->name, p->name,
		    (long long)p->min, (long long)p->max, (long long)*ret);
	return NULL;
}

static char *
unknown_find(const struct tool *t, const struct json *args)
{
	for (size_t i = 0; i < json_count(args); i++) {
		AUTO_FREE char *said = NULL;
		bool known = false;
		struct str key = json_key(args, i);

		for (size_t k = 0; k < tool_params(t); k++)
			known = known || str_eqz(key, t->params[k].name);
		if (known)
			continue;
		said = log_vis(str_mem(key.p, key.n < 80 ? key.n : 80));
		return xasprintf("%s has no argument \"%s\"", t->name, said);
	}
	return NULL;
}

char *
tool_args_read(const struct tool *t, const struct json *args, struct tool_args *ret)
{
	char *fault = NULL;

	*ret = (struct tool_args){0};
	if (json_type(args) != JSON_OBJECT)
		return xasprintf("%s: the arguments must be an object", t->name);
	if ((fault = unknown_find(t, args)) != NULL)
		return fault;
	for (size_t i = 0; fault == NULL && i < tool_params(t); i++) {
		const struct tool_param *p = &t->params[i];
		const struct json *v = json_get(args, p->name);

		ret->given[i] = json_type(v) != JSON_NULL;
		if (!ret->given[i] && p->required)
			return xasprintf("%s: \"%s\" is missing", t->name, p->name);
		if (!ret->given[i])
			continue;
		fault = p->type == TOOL_INTEGER ? integer_read(t, p, v, &ret->number[i])
						: string_read(t, p, v, &ret->text[i]);
	}
	return fault;
}
