/*
 * Refusals in the words of a protocol that has its own (process: core): a Status of Kubernetes, a
 * report of a push, an error of AWS. Clients show these to people; the same as problem+json they do
 * not. What is said comes from the problem, which stays what it is in the record.
 */
#include "broker/core_http.h"

#include "policy/aws_action.h"

#include "common/banned.h"

#define LINE_MAX_ ((size_t)900) /* of a band, and of one reason */

/* "detail" and what to do, in one text. */
static void
words(const struct core_http *h, struct buf *out)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct str detail, how;
	struct err err;

	if (json_parse(buf_str(&h->answer), "answer", &doc, &err) != 0)
		return;
	detail = json_str(json_get(json_root(doc), "detail"));
	how = json_str(json_get(json_root(doc), "how"));
	buf_put_str(out, detail);
	if (how.n == 0)
		return;
	buf_put_z(out, "; ");
	buf_put_str(out, how);
}

/* --- Kubernetes (meta/v1 Status) --------------------------------------------------- */

static const char *
reason(unsigned status)
{
	static const struct {
		unsigned status;
		const char *reason;
	} reasons[] = {{400, "BadRequest"}, {403, "Forbidden"}, {413, "RequestEntityTooLarge"},
	    {503, "ServiceUnavailable"}, {504, "Timeout"}};

	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "";
}

static void
put_status(const struct core_http *h, struct buf *out)
{
	AUTO_BUF struct buf text = BUF(65536);
	struct jcs j;

	words(h, &text);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "apiVersion", "v1");
	jcs_int(&j, "code", h->status);
	jcs_z(&j, "kind", "Status");
	jcs_str_lossy(&j, "message", buf_str(&text));
	jcs_open(&j, "metadata");
	jcs_close(&j);
	jcs_raw(&j, "problem", buf_str(&h->answer));
	jcs_z(&j, "reason", reason(h->status));
	jcs_z(&j, "status", "Failure");
	jcs_close(&j);
}

/* --- git (gitprotocol-pack: report status) ----------------------------------------- */

static void
put_line(struct buf *out, char band, struct str content)
{
	buf_printf(out, "%04zx", content.n + (band != '\0' ? 5 : 4));
	if (band != '\0')
		buf_put_c(out, band);
	buf_put_str(out, content);
}

/* Of one line: git prints each as "remote: ...". */
static void
put_words(struct buf *out, struct str text)
{
	while (text.n != 0) {
		AUTO_BUF struct buf line = BUF(LINE_MAX_ + 2);
		size_t n = text.n < LINE_MAX_ ? text.n : LINE_MAX_;

		for (size_t i = 0; i < n; i++)
			buf_put_c(&line, (uint8_t)text.p[i] < 0x20 ? ' ' : text.p[i]);
		buf_put_c(&line, '\n');
		put_line(out, 2, buf_str(&line));
		text = str_mem(text.p + n, text.n - n);
	}
}

static void
put_report(const struct core_http *h, const struct json *g, struct buf *out)
{
	const struct json *commands = json_get(g, "commands");
	AUTO_BUF struct buf text = BUF(65536), report = BUF(65536);

	words(h, &text);
	put_line(&report, '\0', STR("unpack ok\n"));
	for (size_t i = 0; i < json_count(commands); i++) {
		AUTO_BUF struct buf line = BUF(4096);

		buf_printf(&line, "ng %.*s %s\n",
		    STR_ARG(json_str(json_get(json_at(commands, i), "ref"))), h->title);
		put_line(&report, '\0', buf_str(&line));
	}
	buf_put_z(&report, "0000");
	if (json_bool(json_get(g, "sideband"))) {
		put_words(out, buf_str(&text));
		put_line(out, 1, buf_str(&report));
		buf_put_z(out, "0000");
	} else {
		buf_put_str(out, buf_str(&report));
	}
}

static bool
reports(const struct core_http *h, const struct json **ret)
{
	if (!core_http_by_facts(h) || h->title == NULL)
		return false;
	*ret = json_get(json_root(h->facts->doc), "git");
	return json_bool(json_get(*ret, "report")) && json_count(json_get(*ret, "commands")) != 0;
}

/* --- AWS (errors of the query, REST and JSON protocols) ------------------------------ */

static const char *
aws_code(unsigned status)
{
	static const struct {
		unsigned status;
		const char *code;
	} codes[] = {{403, "AccessDenied"}, {400, "InvalidRequest"}, {413, "EntityTooLarge"},
	    {501, "NotImplemented"}, {503, "ServiceUnavailable"}, {504, "RequestTimeout"}};

	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (codes[i].status == status)
			return codes[i].code;
	return "InternalError";
}

static void
put_xml(struct buf *out, struct str s)
{
	static const char from[] = "<>&\"'";
	static const char *const to[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&apos;"};

	for (size_t i = 0; i < s.n; i++) {
		const char *at = s.p[i] != '\0' ? strchr(from, s.p[i]) : NULL;

		if (at != NULL)
			buf_put_z(out, to[at - from]);
		else
			buf_put_c(out, (uint8_t)s.p[i] < 0x20 ? ' ' : s.p[i]);
	}
}

/* The service that it was judged as: "rds:DeleteDBInstance/prod". */
static struct str
aws_service(const struct core_http *h)
{
	const struct resources *r = &h->view.resources;
	struct str s = str_mem(r->text + r->at[0], r->n != 0 ? r->len[0] : 0), service;

	return str_cut(&s, ':', &service) ? service : STR("");
}

static bool
aws_speaks_json(const struct core_http *h, struct str service)
{
	if (http_field_find(h->req->fields, h->req->nfields, "X-Amz-Target") != NULL)
		return true;
	return aws_service_is_rest(service) && !str_eqz(service, "s3") &&
	       !str_eqz(service, "route53") && !str_eqz(service, "cloudfront");
}

static const char *
put_aws(const struct core_http *h, struct buf *out)
{
	struct str service = aws_service(h);
	AUTO_BUF struct buf text = BUF(65536);
	const char *code = aws_code(h->status), *id = h->a != NULL ? h->a->id : "";
	bool s3 = str_eqz(service, "s3"), ec2 = str_eqz(service, "ec2");
	struct jcs j;

	words(h, &text);
	if (aws_speaks_json(h, service)) {
		jcs_init(&j, out);
		jcs_open(&j, NULL);
		jcs_z(&j, "__type", code);
		jcs_str_lossy(&j, "message", buf_str(&text));
		jcs_raw(&j, "problem", buf_str(&h->answer));
		jcs_close(&j);
		return "application/x-amz-json-1.1";
	}
	buf_printf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n%s",
	    s3	  ? "<Error>"
	    : ec2 ? "<Response><Errors><Error>"
		  : "<ErrorResponse><Error><Type>Sender</Type>");
	buf_printf(out, "<Code>%s</Code><Message>", code);
	put_xml(out, buf_str(&text));
	buf_put_z(out, "</Message>");
	if (ec2)
		buf_printf(out, "</Error></Errors><RequestID>%s</RequestID></Response>\n", id);
	else if (s3)
		buf_printf(out, "<RequestId>%s</RequestId></Error>\n", id);
	else
		buf_printf(out, "</Error><RequestId>%s</RequestId></ErrorResponse>\n", id);
	return "application/xml";
}

const char *
core_http_answer_native(const struct core_http *h, unsigned *status, struct buf *out)
{
	const struct policy_target *t = core_http_policy(h);
	const struct json *g = NULL;

	if (t != NULL && t->kind == TARGET_K8S) {
		put_status(h, out);
		return buf_over(out) ? NULL : "application/json";
	}
	if (t != NULL && t->kind == TARGET_AWS && h->req != NULL) {
		const char *type = put_aws(h, out);

		return buf_over(out) ? NULL : type;
	}
	if (t == NULL || t->kind != TARGET_GIT || !reports(h, &g))
		return NULL;
	put_report(h, g, out);
	*status = 200; /* else git shows nothing of it */
	return buf_over(out) ? NULL : "application/x-git-receive-pack-result";
}
