/*
 * Words of a timeline. Runs in the command line. What is put was partly written by an agent: no
 * byte of it may move the cursor, turn the direction of text or end a line.
 */
#include "audit/replay_put.h"

#include "audit/canon.h"
#include "common/json.h"
#include "common/log.h"

#include "common/banned.h"

void
replay_put_vis(struct buf *b, struct str s)
{
	AUTO_FREE char *vis = NULL;

	if (str_is_ascii_print(s)) {
		buf_put_str(b, s);
		return;
	}
	vis = log_vis(s);
	buf_put_z(b, vis);
}

void
replay_put_value(struct buf *b, struct str v)
{
	AUTO(json) struct json_doc *d = NULL;
	const struct json *j;

	if (canon_plain(v).n != 0) {
		replay_put_vis(b, canon_plain(v));
		return;
	}
	if (v.n == 0 || json_parse(v, "value", &d, NULL) != 0) {
		buf_put_c(b, '-');
		return;
	}
	j = json_root(d);
	if (json_type(j) == JSON_STRING) {
		replay_put_vis(b, json_str(j));
		return;
	}
	if (json_type(j) != JSON_ARRAY) {
		replay_put_vis(b, v);
		return;
	}
	for (size_t i = 0; i < json_count(j); i++) {
		if (i != 0)
			buf_put_c(b, ' ');
		if (json_type(json_at(j, i)) == JSON_STRING)
			replay_put_vis(b, json_str(json_at(j, i)));
		else
			buf_put_z(b, "...");
	}
}

void
replay_put_field(struct buf *b, const char *name, struct str v)
{
	if (v.n == 0 || str_eqz(v, "\"\"") || str_eqz(v, "[]"))
		return;
	buf_printf(b, "  %s ", name);
	replay_put_value(b, v);
}
