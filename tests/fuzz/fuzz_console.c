/*
 * Fuzzes what the console reads of a request by itself: path, cookie, and whether another site
 * could have made it; and text that becomes markup, which must stay text.
 */
#include <assert.h>

#include "broker/console.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ORIGIN "https://console.test"

static void
check_request(struct str head)
{
	struct weborigin at;
	struct console_request r = {.method = CONSOLE_GET};
	struct http_request h;
	struct err err = {0};
	unsigned status;

	assert(weborigin_parse(STR(ORIGIN), &at, &err) == 0);
	status = console_request_read(&at, STR(ORIGIN), head, &r, &err);
	assert(status == 0 || (status >= 400 && status < 600 && err.msg[0] != '\0'));
	assert(strlen(r.id) <= CONSOLE_ID_MAX && strlen(r.token) <= CONSOLE_TOKEN_MAX);
	if (status != 0)
		return;
	assert(http_request_parse(head, &h, &err) == 0 && !h.has_query);
	assert(strcmp(h.host, at.host) == 0 && r.path[0] == '/');
	assert(strchr(r.path, '%') == NULL && strchr(r.id, '/') == NULL);
	if (r.method == CONSOLE_POST) {
		assert(str_eqz(http_field_find(h.fields, h.nfields, "origin")->value, ORIGIN));
		assert(http_field_find(h.fields, h.nfields, "x-cofferdam") != NULL);
	}
}

/* No tag but our own, no quote, nothing beyond ASCII. */
static void
check_markup(struct str text)
{
	static const char ours[] = "<span class=\"byte\">%", end[] = "</span>";
	AUTO_BUF struct buf b = BUF((size_t)1 << 20);
	bool tag = false;

	html_text(&b, text);
	html_bytes(&b, text);
	html_id(&b, text);
	html_time(&b, text);
	for (size_t i = 0; i < b.n; i++) {
		struct str rest = str_mem(b.p + i, b.n - i);

		assert(b.p[i] < 0x7f && (b.p[i] >= 0x20 || b.p[i] == '\n' || b.p[i] == '\t'));
		if (b.p[i] == '<') {
			assert(str_has_prefix(rest, ours) || str_has_prefix(rest, end) ||
			       str_has_prefix(rest, "<time datetime=\"") ||
			       str_has_prefix(rest, "</time>"));
			tag = true;
		}
		assert(tag || (b.p[i] != '"' && b.p[i] != '\''));
		if (b.p[i] == '>')
			tag = false;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_request(str_mem(data, size));
	check_markup(str_mem(data, size < 4096 ? size : 4096));
	return 0;
}
