/*
 * Classifies texts in this process: NUL-separated on standard input, one line for each on
 * standard output, "ok EFFECTS FACTS", "invalid REASON" or "complex REASON". Test code.
 */
#include <stdio.h>

#include "policy/facts.h"

#include "common/banned.h"

static void
put_effects(const struct buf *facts)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_BUF struct buf names = BUF(1024);
	struct facts_sql_view view = {0};
	struct err err = {0};

	if (json_parse(buf_str(facts), "facts", &doc, &err) != 0) {
		(void)printf("broken %s\n", err.msg);
		return;
	}
	effects_sql(json_root(doc), &view);
	effect_put(&names, view.effects);
	(void)printf("ok\t%.*s\t%.*s\n", STR_ARG(buf_str(&names)), STR_ARG(buf_str(facts)));
}

static void
one(struct str text)
{
	AUTO_BUF struct buf facts = BUF(FACTS_JSON_MAX);
	struct err err = {0};
	int rc = facts_sql(text, &facts, &err);

	if (rc == 0)
		put_effects(&facts);
	else
		(void)printf("%s\t%s\n", rc == ERR_TOO_COMPLEX ? "complex" : "invalid", err.msg);
}

int
main(void)
{
	AUTO_BUF struct buf in = BUF((size_t)64 << 20);
	struct str rest;
	struct str text;
	uint8_t chunk[16384];
	size_t n;

	while ((n = fread(chunk, 1, sizeof(chunk), stdin)) > 0)
		buf_put(&in, chunk, n);
	rest = buf_str(&in);
	while (str_cut(&rest, '\0', &text))
		one(text);
	return buf_over(&in) ? 1 : 0;
}
