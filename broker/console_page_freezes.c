/*
 * What is frozen and what is lifted (process: console): emergency freezes, exceptions and
 * break-glass in force, and the calendars' windows from a month ago to a year from now.
 */
#include "broker/console.h"

#include "common/banned.h"

static void
put_when(struct buf *b, const struct json *o, const char *label, const char *key)
{
	if (json_get(o, key) == NULL)
		return;
	buf_printf(b, "<dt>%s</dt><dd>", label);
	html_time(b, json_str(json_get(o, key)));
	html_raw(b, "</dd>");
}

static void
put_lift(struct buf *b, const struct json *o, bool freeze)
{
	html_raw(b, "<li class=\"card\"><span class=\"top\"><strong>");
	html_member(b, o, "target");
	if (json_str(json_get(o, "target")).n == 0)
		html_raw(b, "every target");
	html_raw(b, "</strong><span class=\"tag\">");
	html_list(b, json_get(o, "effects"));
	html_raw(
	    b, freeze ? "</span><span class=\"state over\">" : "</span><span class=\"state\">");
	html_member(b, o, "state");
	html_raw(b, "</span></span><span>");
	html_member(b, o, "reason");
	html_raw(b, "</span><dl>");
	html_row(b, o, "Rule", "rule");
	html_row(b, o, "Environment", "env");
	html_row(b, o, "Run", "run");
	html_row(b, o, "Ticket", "ticket");
	put_when(b, o, "From", "from");
	put_when(b, o, "To", "to");
	html_row(b, o, "Asked by", "by");
	if (json_get(o, "uses") != NULL)
		buf_printf(b, "<dt>Used</dt><dd>%lld of %lld</dd>",
		    (long long)json_int(json_get(o, "used")),
		    (long long)json_int(json_get(o, "uses")));
	html_row(b, o, "Id", "id");
	html_raw(b, "</dl></li>");
}

static void
put_lifts(
    struct buf *b, const struct json *status, const char *key, const char *title, const char *none)
{
	const struct json *list = json_get(status, key);

	buf_printf(b, "<h2>%s</h2>", title);
	if (json_count(list) == 0)
		buf_printf(b, "<p class=\"none\">%s</p>", none);
	html_raw(b, "<ul class=\"cards\">");
	for (size_t i = 0; i < json_count(list); i++)
		put_lift(b, json_at(list, i), strcmp(key, "freezes") == 0);
	html_raw(b, "</ul>");
}

/* The state of one calendar now, out of `status`. */
static struct str
state_of(const struct json *status, struct str id)
{
	const struct json *list = json_get(status, "calendars");

	for (size_t i = 0; i < json_count(list); i++)
		if (str_eq(json_str(json_get(json_at(list, i), "id")), id))
			return json_str(json_get(json_at(list, i), "state"));
	return STR("unknown");
}

static void
put_calendar(struct buf *b, const struct json *status, const struct json *o)
{
	const struct json *windows = json_get(o, "windows");
	struct str id = json_str(json_get(o, "id")), state = state_of(status, id);
	bool bad = !str_eqz(state, "clear") && !str_eqz(state, "open");

	html_raw(b, "<section class=\"card\"><span class=\"top\"><strong>");
	html_text(b, id);
	html_raw(b, "</strong><span class=\"tag\">");
	html_member(b, o, "kind");
	html_raw(b, bad ? "</span><span class=\"state over\">" : "</span><span class=\"state\">");
	html_text(b, state);
	html_raw(
	    b, " now</span></span><table><thead><tr><th>From</th><th>To</th></tr></thead><tbody>");
	for (size_t i = 0; i < json_count(windows); i++) {
		html_raw(b, "<tr><td>");
		html_time(b, json_str(json_get(json_at(windows, i), "from")));
		html_raw(b, "</td><td>");
		html_time(b, json_str(json_get(json_at(windows, i), "to")));
		html_raw(b, "</td></tr>");
	}
	html_raw(b, "</tbody></table><span class=\"foot\">known until ");
	html_time(b, json_str(json_get(o, "valid_to")));
	html_raw(b, "; from then on it counts as frozen</span></section>");
}

void
console_page_freezes(struct console_conn *c)
{
	const struct json *status = json_root(c->docs[1]);
	const struct json *list = json_get(json_root(c->docs[2]), "calendars");
	AUTO_BUF struct buf b = BUF(CONSOLE_PAGE_MAX);

	html_begin(&b, "Freezes", c);
	html_raw(&b, "<h1>Freezes</h1>");
	put_lifts(&b, status, "freezes", "Emergency freezes", "None is in force.");
	put_lifts(&b, status, "exceptions", "Exceptions", "None.");
	put_lifts(&b, status, "breakglass", "Break-glass", "None.");
	html_raw(&b, "<h2>Calendars</h2>");
	if (json_count(list) == 0)
		html_raw(&b, "<p class=\"none\">The policy has no calendar.</p>");
	for (size_t i = 0; i < json_count(list); i++)
		put_calendar(&b, status, json_at(list, i));
	console_page_answer(c, 200, &b);
}
