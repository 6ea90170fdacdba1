/*
 * A record's BODY to what is sent of it: whatever stands in one, what leaves is canonical, bounded,
 * has no member but those of the list, and Slack's form has no mention and no link but ours. And
 * the courier's own files, and addresses.
 */
#include <assert.h>
#include <stdlib.h>

#include "audit/canon.h"
#include "audit/record.h"
#include "audit/export.h"
#include "broker/courier.h"
#include "common/jcs.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINK "https://c.example"

static void
check_json(struct str out)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct err err = {0};

	assert(jcs_is_canonical(out, &err));
	assert(json_parse(out, "out", &doc, &err) == 0);
	assert(json_get(json_get(json_root(doc), "data"), "signature") == NULL);
	assert(json_get(json_get(json_root(doc), "data"), "show") == NULL);
	assert(json_get(json_get(json_root(doc), "data"), "input") == NULL);
	assert(json_get(json_get(json_root(doc), "data"), "agent") == NULL);
}

static void
check_slack(struct str out)
{
	AUTO(json) struct json_doc *doc = NULL;
	struct err err = {0};
	struct str text;

	assert(json_parse(out, "out", &doc, &err) == 0);
	assert(json_count(json_root(doc)) == 1);
	text = json_str(json_get(json_root(doc), "text"));
	assert(text.n <= 3000 + 3);
	for (size_t i = 0; i < text.n; i++)
		assert(text.p[i] != '<' ||
		       str_has_prefix(str_mem(text.p + i + 1, text.n - i - 1), LINK) ||
		       text.n - i < sizeof(LINK) + 1);
}

static void
record_of(struct str body)
{
	for (unsigned i = 0; i < 4; i++) {
		AUTO_BUF struct buf out = BUF(COURIER_BODY_MAX);
		struct courier_event e = {.origin = STR("o/x"),
		    .link = STR(LINK),
		    .text = (i & 1) != 0,
		    .slack = (i & 2) != 0};

		if (courier_event_put(&e, body, &out, NULL) != 0) {
			assert(out.n == 0);
			continue;
		}
		assert(!buf_over(&out));
		if (e.slack)
			check_slack(buf_str(&out));
		else
			check_json(buf_str(&out));
	}
}

/* A fuzzer finds no canonical envelope by itself: what it gives is also taken as the data of one.
 */
static void
data_of(struct str data)
{
	AUTO_BUF struct buf body = BUF(RECORD_BODY_MAX);
	struct record r = {.seq = 1,
	    .data = data,
	    .src = STR("broker"),
	    .time = STR("2026-03-11T12:00:05.000000Z"),
	    .type = STR("approval.request")};

	if (data.n == 0 || data.n > 60000 || *data.p != '{' || canon_check(data, NULL) != 0)
		return;
	record_body(&body, &r);
	record_of(buf_str(&body));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct courier c;
	static char origin[] = "o", name[] = "a";
	static struct webhook conf = {.name = name};
	struct str text = str_mem(data, size);
	struct webhook_url u;
	AUTO_BUF struct buf words = BUF(4096);

	c.origin = origin;
	c.nhooks = 1;
	c.hooks[0].conf = &conf;
	c.hooks[0].next = COURIER_START;
	(void)courier_cursors_read(&c, text, NULL);
	assert(c.hooks[0].next == COURIER_START || c.hooks[0].whole_from <= c.hooks[0].next);
	if (webhook_url_parse(text, &u, NULL) == 0)
		assert(u.host[0] != '\0' && u.port != 0 && u.target[0] == '/');
	export_words(&words, text, 256);
	assert(words.n <= 259 && str_is_utf8(buf_str(&words)));
	record_of(text);
	data_of(text);
	return 0;
}
