/*
 * The form that Slack and others of its kind take: {"text": ...}. Runs in the courier. What it says
 * is taken from the JSON form, which has only what may leave; all of it is escaped, so that nothing
 * in it becomes a link, a mention or a layout. It has a link to look and no button that does.
 */
#include "broker/courier.h"

#include "common/jcs.h"

#include "common/banned.h"

#define MESSAGE_MAX 3000
#define LIST_MAX 300

/* &, < and > by Slack's own rule; in place of what would format stands an apostrophe. */
static void
put_escaped(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		switch (s.p[i]) {
		case '&': buf_put_z(out, "&amp;"); break;
		case '<': buf_put_z(out, "&lt;"); break;
		case '>': buf_put_z(out, "&gt;"); break;
		case '*':
		case '~':
		case '`': buf_put_c(out, '\''); break;
		default: buf_put_c(out, s.p[i]);
		}
}

static void
put_list(struct buf *out, const struct json *v)
{
	size_t had = out->n;

	for (size_t i = 0; i < json_count(v); i++) {
		if (i != 0)
			buf_put_z(out, ", ");
		if (out->n - had > LIST_MAX) {
			buf_put_z(out, "...");
			break;
		}
		put_escaped(out, json_str(json_at(v, i)));
	}
}

static void
put_line(struct buf *out, const char *name, const struct json *v)
{
	if (v == NULL)
		return;
	buf_printf(out, "\n%s: ", name);
	if (json_type(v) == JSON_ARRAY)
		put_list(out, v);
	else if (json_type(v) == JSON_INT)
		buf_printf(out, "%lld", (long long)json_int(v));
	else
		put_escaped(out, json_str(v));
}

static void
put_message(const struct json *o, struct buf *out)
{
	static const char *const lines[] = {"target", "env", "effects", "relations", "rule",
	    "person", "role", "decision", "by", "owner", "reason", "why", "note", "ticket",
	    "status", "max_rows", "approve_by", "sign_by", "use_by", "from", "to", "witness",
	    "kind", "size", "theirs"};
	const struct json *data = json_get(o, "data"), *claimed = json_get(o, "claimed");
	struct str digest = json_str(json_get(data, "statement")), link;

	buf_put_z(out, "*");
	put_escaped(out, json_str(json_get(o, "type")));
	buf_put_z(out, "*");
	put_line(out, "id", json_get(data, "id"));
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		put_line(out, lines[i], json_get(data, lines[i]));
	put_line(out, "needs", json_get(data, "slots"));
	put_line(out, "run", json_get(o, "run"));
	put_line(out, "agent (its own word)", json_get(claimed, "agent"));
	if (digest.n == 0)
		digest = json_str(json_get(data, "action"));
	if (digest.n != 0) {
		buf_put_z(out, "\nsha256:");
		put_escaped(out, digest);
	}
	link = json_str(json_get(o, "link"));
	if (link.n != 0) {
		buf_put_z(out, "\n<");
		put_escaped(out, link);
		buf_put_z(out, "|look at it>");
	}
	buf_put_z(out, "\n_");
	put_escaped(out, json_str(json_get(o, "id")));
	buf_put_z(out, "_");
}

int
courier_slack_put(
    const struct courier_event *e UNUSED, struct str json, struct buf *out, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf text = BUF(COURIER_BODY_MAX);
	struct str s;
	struct jcs j;
	int rc = json_parse(json, "event", &doc, err);

	if (rc != 0)
		return rc;
	put_message(json_root(doc), &text);
	s = buf_str(&text);
	if (s.n > MESSAGE_MAX)
		s.n = MESSAGE_MAX;
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "text", s);
	jcs_close(&j);
	return 0;
}
