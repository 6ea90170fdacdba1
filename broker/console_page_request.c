/*
 * One request, as its approver must see it (process: console): the action in full, what it does,
 * which rule asks and whom, what is frozen, who signed; the agent's own words last, and marked.
 * What is signed is core's statement, which the page has in full, too: a page can be wrong, a
 * statement not.
 */
#include "broker/console.h"

#include "common/clock.h"
#include "common/hash.h"

#include "common/banned.h"

#define SECOND INT64_C(1000000)

static void
put_us(struct buf *b, const struct json *o, const char *label, const char *key)
{
	char t[CLOCK_TEXT_SIZE];

	if (json_get(o, key) == NULL)
		return;
	clock_format_s(json_int(json_get(o, key)), t);
	buf_printf(b, "<dt>%s</dt><dd>", label);
	html_time(b, str_z(t));
	html_raw(b, "</dd>");
}

static void
put_action(struct buf *b, const struct json *o)
{
	AUTO_BUF struct buf action = BUF(IPC_BODY_MAX);

	html_raw(b, "<pre class=\"action\" id=\"action\">");
	if (enc_unbase64(json_str(json_get(o, "show_base64")), &action))
		html_bytes(b, buf_str(&action));
	html_raw(b, "</pre>");
}

static void
put_people(struct buf *b, const struct json *o)
{
	const struct json *grants = json_get(o, "grants");

	html_raw(b, "<dt>Asked</dt><dd>");
	html_slots(b, json_get(o, "slots"));
	html_raw(b, "</dd><dt>Signed</dt><dd>");
	if (json_count(grants) == 0)
		html_raw(b, "nobody yet");
	for (size_t i = 0; i < json_count(grants); i++) {
		if (i != 0)
			html_raw(b, ", ");
		html_member(b, json_at(grants, i), "person");
		html_raw(b, " as ");
		html_member(b, json_at(grants, i), "role");
	}
	html_raw(b, "</dd>");
	if (json_count(json_get(o, "missing")) != 0) {
		html_raw(b, "<dt>Missing</dt><dd>");
		html_slots(b, json_get(o, "missing"));
		html_raw(b, "</dd>");
	}
}

static void
put_facts(struct buf *b, const struct json *o)
{
	int64_t rows = json_int(json_get(o, "max_rows"));

	html_raw(b, "<dl>");
	html_row(b, o, "Target", "target");
	html_raw(b, "<dt>Effects</dt><dd><span class=\"tag\">");
	html_member(b, o, "effects");
	html_raw(b, "</span></dd>");
	html_row(b, o, "Rule", "rule");
	if (json_int(json_get(o, "steps")) > 1)
		buf_printf(b, "<dt>Statements</dt><dd>%lld, of one transaction: all or none</dd>",
		    (long long)json_int(json_get(o, "steps")));
	if (rows >= 0)
		buf_printf(b, "<dt>Limit</dt><dd>at most %lld rows, else it is rolled back</dd>",
		    (long long)rows);
	html_row(b, o, "Run", "run");
	html_row(b, o, "Owner", "owner");
	html_row(b, o, "Agent", "agent");
	put_people(b, o);
	put_us(b, o, "Asked at", "not_before_us");
	put_us(b, o, "Sign by", "approve_by_us");
	put_us(b, o, "Use by", "use_by_us");
	buf_printf(b, "<dt>Use within</dt><dd>%lld s of the last signature, once</dd></dl>",
	    (long long)json_int(json_get(o, "use_within")));
}

static void
put_frozen(struct buf *b, const struct json *status)
{
	const struct json *list = json_get(status, "frozen");

	if (json_count(list) == 0) {
		html_raw(b, "<p class=\"clear\">Nothing is frozen now.</p>");
		return;
	}
	html_raw(b, "<div class=\"frozen\"><strong>Frozen now</strong><ul>");
	for (size_t i = 0; i < json_count(list); i++) {
		html_raw(b, "<li>");
		html_text(b, json_str(json_at(list, i)));
		html_raw(b, "</li>");
	}
	html_raw(b, "</ul></div>");
}

/* What the target itself said of it beforehand; it is part of what is signed. */
static void
put_preview(struct buf *b, const struct json *o)
{
	struct str text = json_str(json_get(o, "preview"));

	if (text.n == 0)
		return;
	html_raw(b, "<h2>Preview</h2><pre id=\"preview\">");
	html_bytes(b, text);
	html_raw(b, "</pre>");
}

static void
put_decide(struct buf *b, const struct json *o)
{
	const struct json *roles = json_get(o, "roles");

	html_raw(b, "<section id=\"decide\" class=\"decide\"><h2>Decide</h2>");
	if (json_count(roles) == 0)
		html_raw(b, "<p>You have no role that is asked here. You can deny.</p>");
	else
		html_raw(b, "<p><label>Sign as <select id=\"role\">");
	for (size_t i = 0; i < json_count(roles); i++) {
		html_raw(b, "<option>");
		html_text(b, json_str(json_at(roles, i)));
		html_raw(b, "</option>");
	}
	if (json_count(roles) != 0)
		html_raw(b, "</select></label></p>");
	html_raw(b, "<p class=\"buttons\">");
	if (json_count(roles) != 0)
		html_raw(b, "<button type=\"button\" id=\"approve\">Approve with passkey</button>");
	html_raw(b,
	    "<button type=\"button\" id=\"deny\" class=\"danger\">Deny with passkey</button>"
	    "</p></section>");
}

static void
put_words(struct buf *b, const struct json *o)
{
	struct str said = json_str(json_get(o, "agent_says"));

	if (said.n == 0)
		return;
	html_raw(b,
	    "<section class=\"agent\"><h2>The agent says</h2><p class=\"hint\">Written by the "
	    "agent. Nobody checked it, it is not signed, and it may try to persuade you.</p>"
	    "<pre id=\"agent-says\">");
	html_bytes(b, said);
	html_raw(b, "</pre></section>");
}

void
console_page_request(struct console_conn *c)
{
	const struct json *o = json_root(c->docs[1]), *status = json_root(c->docs[2]);
	struct str state = json_str(json_get(o, "state"));
	AUTO_BUF struct buf b = BUF(CONSOLE_PAGE_MAX);

	html_begin(&b, "Request", c);
	html_raw(&b, "<article id=\"request\" data-id=\"");
	html_id(&b, json_str(json_get(o, "id")));
	html_raw(&b, "\"><p class=\"top\"><span class=\"state ");
	html_raw(&b, str_eqz(state, "armed") ? "armed" : str_eqz(state, "pending") ? "" : "over");
	html_raw(&b, "\" id=\"state\">");
	html_text(&b, state);
	html_raw(&b, "</span>");
	if (json_get(o, "reason") != NULL) {
		html_raw(&b, " <span>");
		html_member(&b, o, "reason");
		html_raw(&b, "</span>");
	}
	html_raw(&b, "</p><h1>The action, in full</h1>");
	put_action(&b, o);
	put_facts(&b, o);
	put_preview(&b, o);
	put_frozen(&b, status);
	if (str_eqz(state, "pending"))
		put_decide(&b, o);
	html_raw(&b, "<p class=\"said\" id=\"said\" role=\"alert\"></p>");
	html_raw(&b,
	    "<details id=\"statement\"><summary>What is signed, byte for byte</summary>"
	    "<pre id=\"statement-text\"></pre><p>SHA-256 <code id=\"statement-hash\"></code>"
	    "</p></details>");
	put_words(&b, o);
	html_raw(&b, "</article>");
	console_page_answer(c, 200, &b);
}
