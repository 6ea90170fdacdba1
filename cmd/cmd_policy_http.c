/*
 * One HTTP request for `policy test` and `policy explain`: written as a head, read by the reader
 * that front and core use, judged by the code that core links. A request from a case file is
 * hostile text like one from a sandbox.
 */
#include <string.h>

#include "cmd/cmd_policy.h"

#include "common/banned.h"

void
policy_http_free(struct policy_http *h)
{
	cmd_answer_free(&h->facts);
}

static bool
has_header(const struct policy_http_request *q, const char *name)
{
	return http_field_find(q->headers, q->nheaders, name) != NULL;
}

/* Under the target's own name, as a client that was let in would. */
static void
put_host(const struct policy_target *t, struct buf *out)
{
	bool v6 = t->host.n != 0 && memchr(t->host.p, ':', t->host.n) != NULL;

	if (t->host.n == 0) {
		buf_put_z(out, "target.invalid");
		return;
	}
	buf_printf(out, v6 ? "%s[%.*s]" : "%s%.*s", t->wildcard ? "any." : "", STR_ARG(t->host));
	buf_printf(out, ":%u", (unsigned)t->port);
}

static void
put_field(struct buf *out, struct str name, struct str value)
{
	buf_put_str(out, name);
	buf_put_z(out, ": ");
	buf_put_str(out, value);
	buf_put_z(out, "\r\n");
}

static void
put_head(const struct policy_target *t, const struct policy_http_request *q, struct buf *out)
{
	AUTO_BUF struct buf host = BUF(512);

	put_host(t, &host);
	buf_put_str(out, q->method);
	buf_put_c(out, ' ');
	buf_put_str(out, q->path);
	buf_put_z(out, " HTTP/1.1\r\n");
	if (!has_header(q, "Host"))
		put_field(out, STR("Host"), buf_str(&host));
	for (size_t i = 0; i < q->nheaders; i++)
		put_field(out, q->headers[i].name, q->headers[i].value);
	if (q->content_type.n != 0)
		put_field(out, STR("Content-Type"), q->content_type);
	if (q->has_body && !has_header(q, "Content-Length") && !has_header(q, "Transfer-Encoding"))
		buf_printf(out, "Content-Length: %zu\r\n", q->body.n);
	buf_put_z(out, "\r\n");
}

static bool
holds_line_end(struct str s)
{
	return s.n != 0 && (memchr(s.p, '\r', s.n) != NULL || memchr(s.p, '\n', s.n) != NULL);
}

/* What would make of one field or line two is not put into a head at all. */
static bool
is_one_head(const struct policy_http_request *q)
{
	bool good = !holds_line_end(q->method) && !holds_line_end(q->path) &&
		    !holds_line_end(q->content_type);

	for (size_t i = 0; i < q->nheaders; i++)
		good = good && !holds_line_end(q->headers[i].name) &&
		       !holds_line_end(q->headers[i].value);
	return good;
}

/* What core does with the parser's answer. */
static int
judge_answer(const struct policy_target *t, const struct policy_http_request *q,
    struct policy_http *h, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	int rc;

	if (!h->facts.parsed) {
		effects_http_body_fault("the parser refused what it was to judge", &h->view);
		return 0;
	}
	rc = json_parse(buf_str(&h->facts.text), "facts", &doc, err);
	if (rc == 0 && h->view.api == HTTP_API_GIT)
		effects_git_push(t, json_root(doc), q->seen, q->nseen, &h->view);
	else if (rc == 0)
		effects_http_body(t, h->view.api, json_root(doc), &h->view);
	return rc;
}

static int
judge_wanted(const struct policy_target *t, struct cmd_parser *parser,
    const struct policy_http_request *q, const struct http_request *r, struct policy_http *h,
    struct err *err)
{
	const struct http_field *type = http_field_find(r->fields, r->nfields, "Content-Type");
	size_t max = http_api_body_max(h->view.api);
	struct str body = q->body;
	int rc;

	if (!h->view.body_wanted && !h->view.query_wanted)
		return 0;
	if (h->view.start_wanted && body.n > max)
		body.n = max;
	if (h->view.body_wanted && (!q->has_body || body.n > max)) {
		effects_http_body_fault("its body is not here, or too large to judge", &h->view);
		return 0;
	}
	rc = h->view.query_wanted
		 ? cmd_parser_text(parser, http_api_dialect(h->view.api), r->query, &h->facts, err)
		 : cmd_parser_body(parser, http_api_dialect(h->view.api),
		       type != NULL ? type->value : STR(""), body, &h->facts, err);
	return rc == 0 ? judge_answer(t, q, h, err) : rc;
}

int
policy_http_input(const struct policy *p, struct cmd_parser *parser,
    const struct policy_http_request *q, struct policy_http *ret, struct err *err)
{
	const struct policy_target *t = policy_target(p, q->target);
	AUTO_BUF struct buf head = BUF(HTTP_HEAD_MAX);
	struct http_request r;
	int rc = 0;

	*ret = (struct policy_http){.input = policy_input_for(p, q->target)};
	policy_input_uncounted(p, &ret->input);
	if (t == NULL || !target_kind_is_http(t->kind))
		return err_set(
		    err, ERR_INVALID, "target %.*s takes no HTTP requests", STR_ARG(q->target));
	put_head(t, q, &head);
	if (!is_one_head(q) || buf_over(&head) ||
	    http_request_parse(buf_str(&head), &r, NULL) != 0) {
		effects_http_fault(q->method, &ret->view);
	} else {
		effects_http(t, &r, &ret->view);
		rc = judge_wanted(t, parser, q, &r, ret, err);
	}
	ret->input.effects = ret->view.effects;
	ret->input.statements = ret->view.statements;
	ret->input.deferred = ret->view.deferred;
	ret->input.relations = ret->names;
	ret->input.nrelations = resources_list(&ret->view.resources, ret->names);
	return rc;
}
