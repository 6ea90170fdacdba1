/*
 * The lists, and pages without a session (process: console). Each is written from core's JSON; the
 * script only asks for it again.
 */
#include "broker/console.h"

#include "broker/console_assets.h"

#include "common/banned.h"

void
console_page_answer(struct console_conn *c, unsigned status, struct buf *b)
{
	html_end(b);
	if (buf_over(b)) {
		console_conn_answer(c, 500, "text/plain", STR(""),
		    STR("This is too large to be shown here: use cofferdam show.\n"));
		return;
	}
	console_conn_answer(c, status, "text/html; charset=utf-8", STR(""), buf_str(b));
}

static const struct json *
doc(const struct console_conn *c, size_t i)
{
	return json_root(c->docs[i]);
}

/* --- pending ----------------------------------------------------------------------- */

static void
pending_row(struct buf *b, const struct json *o)
{
	struct str state = json_str(json_get(o, "state")), id = json_str(json_get(o, "id"));
	bool armed = str_eqz(state, "armed");

	html_raw(b, "<li><a class=\"card\" href=\"/requests/");
	html_id(b, id);
	html_raw(b, "\"><span class=\"top\"><span class=\"tag\">");
	html_member(b, o, "effects");
	html_raw(b, "</span><strong>");
	html_member(b, o, "target");
	html_raw(b, armed
			? "</strong><span class=\"state armed\">signed, waits for the agent</span>"
			: "</strong><span class=\"state\">waits for ");
	if (!armed) {
		html_slots(b, json_get(o, "missing"));
		html_raw(b, "</span>");
	}
	html_raw(b, "</span><code>");
	if (json_get(o, "does") != NULL) {
		html_member(b, o, "does");
		html_raw(b, " ");
	}
	html_text(b, json_str(json_get(o, "show")));
	html_raw(b, "</code><span class=\"foot\">run of ");
	html_member(b, o, "owner");
	html_raw(b, armed ? ", use by " : ", sign by ");
	html_time(b, json_str(json_get(o, armed ? "use_by" : "approve_by")));
	html_raw(b, "</span></a></li>");
}

void
console_page_pending(struct console_conn *c)
{
	const struct json *list = json_get(doc(c, 1), "pending");
	AUTO_BUF struct buf b = BUF(CONSOLE_PAGE_MAX);

	html_begin(&b, "Pending", c);
	html_raw(&b, "<h1>Waiting for people</h1>");
	if (json_count(list) == 0)
		html_raw(
		    &b, "<p class=\"none\">Nothing is waiting. This page updates by itself.</p>");
	html_raw(&b, "<ul class=\"cards\">");
	for (size_t i = 0; i < json_count(list); i++)
		pending_row(&b, json_at(list, i));
	html_raw(&b, "</ul>");
	console_page_answer(c, 200, &b);
}

/* --- runs -------------------------------------------------------------------------- */

void
console_page_runs(struct console_conn *c)
{
	const struct json *list = json_get(doc(c, 1), "runs");
	AUTO_BUF struct buf b = BUF(CONSOLE_PAGE_MAX);

	html_begin(&b, "Runs", c);
	html_raw(&b, "<h1>Runs</h1>");
	if (json_count(list) == 0)
		html_raw(&b, "<p class=\"none\">No run is alive.</p>");
	html_raw(&b, "<ul class=\"cards\">");
	for (size_t i = 0; i < json_count(list); i++) {
		const struct json *o = json_at(list, i);

		html_raw(&b, "<li class=\"card\"><span class=\"top\"><strong>");
		html_member(&b, o, "agent");
		html_raw(&b, "</strong><span class=\"state\">");
		html_member(&b, o, "state");
		html_raw(&b, "</span></span><code>");
		html_member(&b, o, "id");
		html_raw(&b, "</code><span class=\"foot\">owner ");
		html_member(&b, o, "owner");
		buf_printf(&b, ", %lld connections, %lld waiting for people</span></li>",
		    (long long)json_int(json_get(o, "connections")),
		    (long long)json_int(json_get(o, "pending")));
	}
	html_raw(&b, "</ul>");
	console_page_answer(c, 200, &b);
}

/* --- without a session ------------------------------------------------------------- */

void
console_page_sign_in(struct console_conn *c)
{
	AUTO_BUF struct buf b = BUF(CONSOLE_PAGE_MAX);
	bool asked = strcmp(c->rq.path, "/sign-in") == 0;

	html_begin(&b, "Sign in", c);
	html_raw(&b,
	    "<section class=\"narrow\" id=\"sign-in-page\"><h1>Sign in</h1>"
	    "<p>With the passkey that was enrolled for this console. There is no password.</p>"
	    "<p><button type=\"button\" id=\"sign-in\">Sign in</button></p>"
	    "<p class=\"said\" id=\"said\" role=\"alert\"></p>"
	    "<p class=\"hint\">No passkey here yet? Ask for an invitation: "
	    "<code>cofferdam invite NAME</code></p></section>");
	console_page_answer(c, asked ? 200 : 401, &b);
}

void
console_page_enrol(struct console_conn *c)
{
	AUTO_BUF struct buf b = BUF(CONSOLE_PAGE_MAX);

	html_begin(&b, "Enrol", c);
	html_raw(&b,
	    "<section class=\"narrow\" id=\"enrol-page\"><h1>Enrol a passkey</h1>"
	    "<p>An invitation is used once. The key stays with you; what comes out is a line "
	    "for the policy, and it counts once it stands there.</p>"
	    "<p><button type=\"button\" id=\"enrol\" disabled>Make a passkey</button></p>"
	    "<p class=\"said\" id=\"said\" role=\"alert\"></p>"
	    "<div id=\"enrolled\" hidden><h2>Your line for the policy</h2>"
	    "<p>Give it to whoever keeps the policy, and compare the fingerprint with them "
	    "over another way.</p><pre id=\"key-line\" class=\"action\"></pre>"
	    "<p>Fingerprint <code id=\"key-print\"></code></p></div></section>");
	console_page_answer(c, 200, &b);
}

void
console_page_message(struct console_conn *c, unsigned status, const char *title, struct str text)
{
	AUTO_BUF struct buf b = BUF(CONSOLE_PAGE_MAX);

	html_begin(&b, "Refused", c);
	html_raw(&b, "<h1>");
	html_text(&b, str_z(title));
	html_raw(&b, "</h1><p>");
	html_text(&b, str_mem(text.p, text.n < 2048 ? text.n : 2048));
	html_raw(&b, "</p>");
	console_page_answer(c, status, &b);
}

/* --- what browsers load ------------------------------------------------------------ */

void
console_page_css(struct console_conn *c)
{
	console_conn_answer(
	    c, 200, "text/css; charset=utf-8", STR(""), str_mem(asset_css, asset_css_size));
}

void
console_page_js(struct console_conn *c)
{
	console_conn_answer(
	    c, 200, "text/javascript; charset=utf-8", STR(""), str_mem(asset_js, asset_js_size));
}

void
console_page_icon(struct console_conn *c)
{
	console_conn_answer(c, 200, "image/svg+xml", STR(""), str_mem(asset_svg, asset_svg_size));
}
