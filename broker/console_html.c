/*
 * Text to markup, in one place (process: console). Much of what is shown was written by an agent,
 * or comes from bytes that it sent: no byte of that reaches a tag, an attribute, a script or a
 * field of the answer, and none of it can look like what the console says itself.
 */
#include "broker/console.h"

#include "common/banned.h"

void
html_raw(struct buf *b, const char *markup)
{
	buf_put_z(b, markup);
}

static bool
put_escaped(struct buf *b, unsigned char c)
{
	switch (c) {
	case '&': buf_put_z(b, "&amp;"); return true;
	case '<': buf_put_z(b, "&lt;"); return true;
	case '>': buf_put_z(b, "&gt;"); return true;
	case '"': buf_put_z(b, "&quot;"); return true;
	case '\'': buf_put_z(b, "&#39;"); return true;
	default: break;
	}
	if (c < 0x20 || c > 0x7e)
		return false;
	buf_put_c(b, (char)c);
	return true;
}

/* Names, reasons and such are ASCII nearly always; what is not is shown by its bytes. */
void
html_text(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (!put_escaped(b, c))
			buf_printf(b, "<span class=\"byte\">%%%02X</span>", c);
	}
}

void
html_bytes(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c == '\n' || c == '\t')
			buf_put_c(b, (char)c);
		else if (!put_escaped(b, c))
			buf_printf(b, "<span class=\"byte\">%%%02X</span>", c);
	}
}

void
html_member(struct buf *b, const struct json *o, const char *key)
{
	html_text(b, json_str(json_get(o, key)));
}

/* Only what is a time reaches the attribute: digits and the letters of RFC 3339. */
void
html_time(struct buf *b, struct str iso)
{
	for (size_t i = 0; i < iso.n; i++)
		if (strchr("0123456789-:.TZ", iso.p[i]) == NULL)
			return;
	if (iso.n == 0)
		return;
	buf_printf(b, "<time datetime=\"%.*s\">%.*s</time>", STR_ARG(iso), STR_ARG(iso));
}

void
html_row(struct buf *b, const struct json *o, const char *label, const char *key)
{
	struct str s = json_str(json_get(o, key));

	if (s.n == 0)
		return;
	buf_printf(b, "<dt>%s</dt><dd>", label);
	html_text(b, s);
	html_raw(b, "</dd>");
}

void
html_list(struct buf *b, const struct json *list)
{
	for (size_t i = 0; i < json_count(list); i++) {
		if (i != 0)
			html_raw(b, ", ");
		html_text(b, json_str(json_at(list, i)));
	}
}

/* What people are asked for: "dba:1" is one of them. */
void
html_slots(struct buf *b, const struct json *list)
{
	for (size_t i = 0; i < json_count(list); i++) {
		struct str count = json_str(json_at(list, i)), role;

		if (!str_cut(&count, ':', &role))
			continue;
		html_raw(b, i != 0 ? " and " : "");
		html_text(b, count);
		html_raw(b, " ");
		html_text(b, role);
	}
}

void
html_id(struct buf *b, struct str id)
{
	for (size_t i = 0; i < id.n; i++)
		if ((id.p[i] >= 'a' && id.p[i] <= 'z') || (id.p[i] >= '0' && id.p[i] <= '9'))
			buf_put_c(b, id.p[i]);
}

/* --- around every page ------------------------------------------------------------- */

static const struct {
	const char *path, *label;
} places[] = {{"/", "Pending"}, {"/runs", "Runs"}, {"/freezes", "Freezes"}};

static void
put_places(struct buf *b, const struct console_conn *c)
{
	html_raw(b, "<nav>");
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		buf_printf(b, "<a href=\"%s\"%s>%s</a>", places[i].path,
		    strcmp(places[i].path, c->rq.path) == 0 ? " aria-current=\"page\"" : "",
		    places[i].label);
	html_raw(b, "</nav><div class=\"who\"><span id=\"live\" role=\"status\"></span><span>");
	html_text(b, c->person);
	html_raw(b,
	    "</span><button type=\"button\" id=\"sign-out\" class=\"quiet\">Sign out</button>"
	    "</div>");
}

void
html_begin(struct buf *b, const char *title, const struct console_conn *c)
{
	html_raw(b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
		    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
		    "<meta name=\"color-scheme\" content=\"light dark\"><title>");
	html_raw(b, title);
	html_raw(b, " - Cofferdam</title>"
		    "<link rel=\"icon\" href=\"/assets/icon.svg\">"
		    "<link rel=\"stylesheet\" href=\"/assets/console.css\">"
		    "<script src=\"/assets/console.js\" defer></script></head><body>"
		    "<header><a class=\"brand\" href=\"/\">Cofferdam</a>");
	if (c->person.n != 0)
		put_places(b, c);
	html_raw(b, "</header><main>");
}

void
html_end(struct buf *b)
{
	html_raw(b, "</main></body></html>\n");
}
