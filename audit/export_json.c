/*
 * Records in a JSON of our own: what may leave, and nothing made of it. Runs in the command line.
 */
#include "audit/export.h"

#include <string.h>

#include "common/banned.h"

struct walk {
	struct jcs *j;
	bool claims, any;
};

static void
put_member(void *arg, const char *name, enum export_class c, const struct canon_node *v)
{
	struct walk *w = arg;

	if ((c == EXPORT_CLAIM) != w->claims)
		return;
	if (w->claims && !w->any)
		jcs_open(w->j, "claimed");
	w->any = true;
	export_value(w->j, name, v);
}

void
export_json(const struct export *e, struct buf *out)
{
	AUTO_BUF struct buf id = BUF(EXPORT_ID_MAX);
	struct jcs j;
	struct walk claims = {&j, true, false}, rest = {&j, false, false};

	export_id(e, &id);
	jcs_init(&j, out);
	jcs_open(&j, NULL);
	export_each(e, put_member, &claims);
	if (claims.any)
		jcs_close(&j);
	jcs_open(&j, "data");
	export_each(e, put_member, &rest);
	jcs_close(&j);
	jcs_hex(&j, "hash", e->leaf->b, HASH_LEN);
	jcs_str(&j, "id", buf_str(&id));
	jcs_str(&j, "origin", e->o->origin);
	if (e->r->run.n != 0)
		jcs_str(&j, "run", e->r->run);
	jcs_z(&j, "schema", "cofferdam-export/1");
	jcs_int(&j, "seq", (int64_t)e->r->seq);
	jcs_str(&j, "src", e->r->src);
	jcs_str(&j, "time", e->r->time);
	jcs_str(&j, "type", e->r->type);
	jcs_close(&j);
}
