/*
 * `cofferdam policy explain`: what a policy says of one action, and why. Reads source or a bundle,
 * changes nothing. The action is a statement or an HTTP request, which the confined parser reads,
 * or what `policy prove` and `policy diff` show: effects, as JSON.
 */
#include "cmd/cmd_policy_explain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/cmd_args.h"
#include "common/arena.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct explain_args {
	const char *file, *target, *sql, *method, *path, *owner, *agent, *run, *body, *request;
	int64_t at_us; /* INT64_MIN: now */
	struct arg_many headers;
	bool json, cases;
	struct policy_http_request http;
};

#define BODY_MAX (FACTS_FORM_MAX + 1) /* more is not judged, and said to be so */

#define AT(f) offsetof(struct explain_args, f)

static const struct option_row rows[] = {
    {"FILE", OPTION_TEXT | OPTION_WORD | OPTION_NEEDED, AT(file), 0, 0, NULL,
	ARG_POLICY_OR_BUNDLE_IS},
    {"--target", OPTION_TEXT, AT(target), 0, 0, "T", "a target of the policy"},
    {"--sql", OPTION_TEXT, AT(sql), 0, 0, "TEXT", "the statement, of a postgres target"},
    {"--method", OPTION_TEXT, AT(method), 0, 0, "M", "the request's method, of an http target"},
    {"--path", OPTION_TEXT, AT(path), 0, 0, "P", "its path, with the query if it has one"},
    {"--header", ARG_MANY, AT(headers), 0, 0, "'N: V'", "one of its fields; may be repeated"},
    {"--body", OPTION_TEXT, AT(body), 0, 0, "FILE", "its body; - is standard input"},
    {"--at", ARG_TIME, AT(at_us), 0, 0, "TIME", ARG_AT_IS},
    {"--owner", OPTION_TEXT, AT(owner), 0, 0, "PERSON", "whose run it is"},
    {"--agent", OPTION_TEXT, AT(agent), 0, 0, "NAME", "which agent's"},
    {"--run", OPTION_TEXT, AT(run), 0, 0, "RUN", "which run"},
    {"--request", OPTION_TEXT, AT(request), 0, 0, "JSON",
	"the action as effects, as prove and diff print it; @FILE, or - for standard input"},
    {"--json", OPTION_FLAG, AT(json), 0, 0, NULL, ARG_PROGRAMS_IS},
    {"--cases-policy", OPTION_FLAG, AT(cases), 0, 0, NULL, ARG_CASES_IS},
};

/* "Name: value" */
static bool
header_read(struct policy_http_request *q, const char *text)
{
	struct http_field *f = &q->headers[q->nheaders++];

	f->value = str_z(text);
	if (!str_cut(&f->value, ':', &f->name))
		return false;
	f->value = str_trim(f->value);
	return true;
}

/* A statement, an HTTP request, or all of it as JSON: CMD_OK, or what is wrong was said. */
static int
action_judge(struct explain_args *a)
{
	static const char words[] = "policy explain";
	bool http = a->method != NULL || a->path != NULL || a->headers.n != 0 || a->body != NULL;

	_Static_assert(ARG_MANY_MAX <= HTTP_FIELDS_MAX, "each has its place");
	if (a->request != NULL)
		return a->sql == NULL && !http && a->target == NULL && a->at_us == INT64_MIN &&
			       a->owner == NULL && a->agent == NULL && a->run == NULL
			   ? CMD_OK
			   : args_wrong(words, "--request says all of the action: no other "
					       "option of it beside it");
	if (a->target == NULL)
		return args_wrong(words, "needs --target T: of which target the action is");
	a->http.target = str_z(a->target);
	a->http.method = str_z(a->method);
	a->http.path = str_z(a->path);
	if (a->sql != NULL ? http : a->http.method.n == 0 || a->http.path.n == 0)
		return args_wrong(
		    words, "needs the action: --sql TEXT, or --method M and --path P");
	for (size_t i = 0; i < a->headers.n; i++)
		if (!header_read(&a->http, a->headers.v[i]))
			return args_wrong(
			    words, "--header must be NAME: VALUE, is \"%s\"", a->headers.v[i]);
	return CMD_OK;
}

static void
input_finish(const struct explain_args *a, const struct policy *p, struct policy_input *in)
{
	in->at = clock_now(policy_clock(p), 0);
	in->owner = a->owner != NULL ? str_z(a->owner) : STR_NONE;
	in->agent = a->agent != NULL ? str_z(a->agent) : STR_NONE;
	in->run = a->run != NULL ? str_z(a->run) : STR_NONE;
	if (a->at_us == INT64_MIN)
		return;
	in->at.known = true;
	in->at.us = a->at_us;
}

static void
show(const struct explain_args *a, const struct explanation *e)
{
	if (a->json)
		explanation_print_json(e);
	else
		explanation_print(e);
}

static int
explain_sql(const struct explain_args *a, const struct policy *p, struct cmd_parser *parser,
    struct err *err)
{
	AUTO_POLICY_SQL struct policy_sql s = {0};
	struct explanation e = {.p = p, .action = "sql", .text = str_z(a->sql)};
	const struct policy_target *t = policy_target(p, str_z(a->target));
	int rc = 0;

	if (t->kind != TARGET_POSTGRES)
		return err_set(err, ERR_INVALID, "target %.*s is of kind %s and takes no SQL",
		    STR_ARG(t->id), target_kind_name(t->kind));
	rc = policy_sql_input(p, parser, str_z(a->target), str_z(a->sql), &s, err);
	if (rc != 0)
		return rc;
	input_finish(a, p, &s.input);
	e.request.in = s.input;
	policy_request_rates(p, &e.request, 0);
	if (policy_sql_judge(p, s.unapprovable, &e.request.in, &e.decision))
		e.broker = s.unapprovable;
	e.facts = buf_str(&s.facts.json);
	show(a, &e);
	return 0;
}

/* "-": standard input. */
static int
body_read(const char *name, struct buf *out, struct err *err)
{
	AUTO_FD int fd =
	    strcmp(name, "-") == 0 ? dup(STDIN_FILENO) : open(name, O_RDONLY | O_CLOEXEC);
	uint8_t chunk[4096];
	ssize_t n;

	if (fd < 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", name);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0 && !buf_over(out))
		buf_put(out, chunk, (size_t)n);
	if (n < 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", name);
	return buf_over(out) ? err_set(err, ERR_TOO_LARGE, "%s is over %zu bytes", name, BODY_MAX)
			     : 0;
}

static int
explain_http(
    struct explain_args *a, const struct policy *p, struct cmd_parser *parser, struct err *err)
{
	AUTO_POLICY_HTTP struct policy_http h = {.facts.parsed = false};
	AUTO_BUF struct buf body = BUF(BODY_MAX);
	AUTO_BUF struct buf line = BUF(HTTP_HEAD_MAX);
	struct explanation e = {.p = p, .action = "request"};
	int rc = a->body != NULL ? body_read(a->body, &body, err) : 0;

	a->http.body = buf_str(&body);
	a->http.has_body = a->body != NULL;
	if (rc == 0)
		rc = policy_http_input(p, parser, &a->http, &h, err);
	if (rc != 0)
		return rc;
	input_finish(a, p, &h.input);
	buf_printf(&line, "%.*s %.*s", STR_ARG(a->http.method), STR_ARG(a->http.path));
	e.text = buf_str(&line);
	e.api = http_api_name(h.view.api);
	e.facts = buf_str(&h.facts.text);
	e.fault = h.view.fault;
	e.request.in = h.input;
	policy_request_rates(p, &e.request, 0);
	policy_eval(p, &e.request.in, NULL, 0, &e.decision);
	show(a, &e);
	return 0;
}

static void
print_doubts(const struct policy *p, const struct policy_request *r)
{
	AUTO_BUF struct buf doubts = BUF(65536);
	struct str rest, line;

	policy_request_doubts(p, r, &doubts);
	rest = buf_str(&doubts);
	while (str_cut(&rest, '\n', &line)) {
		(void)fprintf(stderr, "cofferdam: request: ");
		policy_print(stderr, line);
		(void)fprintf(stderr, "\n");
	}
}

/* As JSON; "@FILE" or "-" for more than a command line holds. */
static int
explain_request(const struct explain_args *a, const struct policy *p, struct err *err)
{
	AUTO_BUF struct buf text = BUF(BODY_MAX);
	AUTO(json) struct json_doc *doc = NULL;
	struct arena *mem = arena_new((size_t)64 << 20);
	struct explanation e = {.p = p};
	int rc = 0;

	if (a->request[0] == '@' || strcmp(a->request, "-") == 0)
		rc = body_read(a->request + (a->request[0] == '@'), &text, err);
	else
		buf_put_z(&text, a->request);
	if (rc == 0)
		rc = json_parse(buf_str(&text), "request", &doc, err);
	if (rc == 0)
		rc = policy_request_read(p, doc, json_root(doc), mem, &e.request, err);
	if (rc == 0) {
		if (!a->json)
			print_doubts(p, &e.request);
		policy_request_rates(p, &e.request, 0);
		policy_eval(p, &e.request.in, e.request.grants, e.request.ngrants, &e.decision);
		show(a, &e);
	}
	arena_free(mem);
	return rc;
}

static int
explain(struct explain_args *a, const struct policy *p, struct err *err)
{
	AUTO(cmd_parser) struct cmd_parser *parser = NULL;
	int rc;

	if (a->request != NULL)
		return explain_request(a, p, err);
	if (policy_target(p, str_z(a->target)) == NULL)
		return err_set(
		    err, ERR_NOT_FOUND, "%s: no target is named \"%s\"", a->file, a->target);
	if (a->owner != NULL && policy_person(p, str_z(a->owner)) == NULL)
		return err_set(
		    err, ERR_NOT_FOUND, "%s: no person is named \"%s\"", a->file, a->owner);
	rc = cmd_parser_start(&parser, err);
	if (rc != 0)
		return rc;
	return a->sql != NULL ? explain_sql(a, p, parser, err) : explain_http(a, p, parser, err);
}

int
policy_explain_main(int argc, char **argv)
{
	AUTO_POLICY_FILE struct policy_file f = {0};
	AUTO_FREE struct explain_args *a = xcalloc(1, sizeof(*a));
	struct err err = {0};

	a->at_us = INT64_MIN;
	if (!ARGS_READ("policy explain", rows, argc, argv, a) || action_judge(a) != CMD_OK)
		return CMD_USAGE;
	if (policy_file_open(
		a->file, a->cases ? POLICY_FILE_CASES : POLICY_FILE_BUNDLE, &f, &err) != 0 ||
	    explain(a, f.policy, &err) != 0)
		return policy_fail(&err);
	return CMD_OK;
}
