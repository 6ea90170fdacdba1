/*
 * `cofferdam policy explain`: what a policy says of one action, and why. Reads source or a bundle,
 * changes nothing. The action is a statement or an HTTP request, which the confined parser reads,
 * or what `policy prove` and `policy diff` show: effects, as JSON.
 */
#include "cmd/cmd_policy_explain.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "common/arena.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct explain_args {
	const char *file, *target, *sql, *at, *owner, *agent, *run, *body, *request;
	bool json, cases;
	struct policy_http_request http;
};

#define BODY_MAX (FACTS_FORM_MAX + 1) /* more is not judged, and said to be so */

/* "Name: value" */
static bool
header_read(struct policy_http_request *q, const char *text)
{
	struct http_field *f = &q->headers[q->nheaders];

	f->value = str_z(text);
	if (q->nheaders == HTTP_FIELDS_MAX || !str_cut(&f->value, ':', &f->name))
		return false;
	f->value = str_trim(f->value);
	q->nheaders++;
	return true;
}

static bool
option_read(struct explain_args *a, int c)
{
	switch (c) {
	case 't': a->target = optarg; return true;
	case 's': a->sql = optarg; return true;
	case 'm': a->http.method = str_z(optarg); return true;
	case 'p': a->http.path = str_z(optarg); return true;
	case 'h': return header_read(&a->http, optarg);
	case 'b': a->body = optarg; return true;
	case 'a': a->at = optarg; return true;
	case 'o': a->owner = optarg; return true;
	case 'g': a->agent = optarg; return true;
	case 'r': a->run = optarg; return true;
	case 'q': a->request = optarg; return true;
	case 'j': return a->json = true;
	case 'c': return a->cases = true;
	default: return false;
	}
}

/* A statement, an HTTP request, or all of it as JSON. */
static bool
is_one_action(const struct explain_args *a)
{
	if (a->request != NULL)
		return a->sql == NULL && a->http.method.n == 0 && a->http.path.n == 0 &&
		       a->http.nheaders == 0 && a->body == NULL && a->target == NULL &&
		       a->at == NULL && a->owner == NULL && a->agent == NULL && a->run == NULL;
	if (a->target == NULL)
		return false;
	if (a->sql != NULL)
		return a->http.method.n == 0 && a->http.path.n == 0 && a->http.nheaders == 0 &&
		       a->body == NULL;
	return a->http.method.n != 0 && a->http.path.n != 0;
}

static bool
explain_args_read(int argc, char **argv, struct explain_args *a)
{
	static const struct option options[] = {
	    {"target", required_argument, NULL, 't'},
	    {"sql", required_argument, NULL, 's'},
	    {"method", required_argument, NULL, 'm'},
	    {"path", required_argument, NULL, 'p'},
	    {"header", required_argument, NULL, 'h'},
	    {"body", required_argument, NULL, 'b'},
	    {"at", required_argument, NULL, 'a'},
	    {"owner", required_argument, NULL, 'o'},
	    {"agent", required_argument, NULL, 'g'},
	    {"run", required_argument, NULL, 'r'},
	    {"request", required_argument, NULL, 'q'},
	    {"json", no_argument, NULL, 'j'},
	    {"cases-policy", no_argument, NULL, 'c'},
	    {0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (!option_read(a, c))
			return false;
	if (optind + 1 != argc) {
		(void)cmd_missing("policy explain", argc == optind, "FILE, a policy or a bundle");
		return false;
	}
	if (!cmd_missing("policy explain", a->request == NULL && a->target == NULL,
		"--target T: of which target the action is") ||
	    !cmd_missing("policy explain",
		a->request == NULL && a->sql == NULL &&
		    (a->http.method.n == 0 || a->http.path.n == 0),
		"the action: --sql TEXT, or --method M and --path P") ||
	    !is_one_action(a))
		return false;
	a->http.target = str_z(a->target);
	a->file = argv[optind];
	return true;
}

static int
input_finish(
    const struct explain_args *a, const struct policy *p, struct policy_input *in, struct err *err)
{
	int rc;

	in->at = clock_now(policy_clock(p), 0);
	in->owner = a->owner != NULL ? str_z(a->owner) : STR_NONE;
	in->agent = a->agent != NULL ? str_z(a->agent) : STR_NONE;
	in->run = a->run != NULL ? str_z(a->run) : STR_NONE;
	if (a->at == NULL)
		return 0;
	in->at.known = true;
	rc = policy_time_parse(a->at, &in->at.us, err);
	return rc != 0 ? err_wrap(err, "--at") : 0;
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
	if (rc == 0)
		rc = input_finish(a, p, &s.input, err);
	if (rc != 0)
		return rc;
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
	if (rc == 0)
		rc = input_finish(a, p, &h.input, err);
	if (rc != 0)
		return rc;
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

	if (!explain_args_read(argc, argv, a)) {
		(void)fprintf(stderr,
		    "usage: cofferdam policy explain FILE --target T --sql TEXT\n"
		    "       cofferdam policy explain FILE --target T --method M --path P "
		    "[--header 'NAME: VALUE']... [--body FILE|-]\n"
		    "       [--at TIME] [--owner PERSON] [--agent NAME] [--run RUN] [--json]\n"
		    "       cofferdam policy explain FILE --request JSON|@FILE|- [--json]\n");
		return CMD_USAGE;
	}
	if (policy_file_open(
		a->file, a->cases ? POLICY_FILE_CASES : POLICY_FILE_BUNDLE, &f, &err) != 0 ||
	    explain(a, f.policy, &err) != 0)
		return policy_fail(&err);
	return CMD_OK;
}
