/*
 * Effects of recorded facts, by the table of this program. Runs as the reviewer. An agent asks for
 * few kinds of statement many times: what equal facts gave is kept, the whole text being the key.
 */
#include "cmd/cmd_replay_effects.h"

#include <stdio.h>

#include "common/json.h"
#include "common/xalloc.h"
#include "policy/facts.h"

#include "common/banned.h"

#define KEPT 1024 /* a power of two */

struct kept {
	char *text;
	size_t n;
	uint32_t all, resolved;
};

struct replay_effects {
	struct kept kept[KEPT];
};

struct replay_effects *
replay_effects_new(void)
{
	return xcalloc(1, sizeof(struct replay_effects));
}

void
replay_effects_free(struct replay_effects *e)
{
	if (e == NULL)
		return;
	for (size_t i = 0; i < KEPT; i++)
		free(e->kept[i].text);
	free(e);
}

/* FNV-1a; where two texts meet, the later one stays. */
static size_t
slot_of(struct str text)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < text.n; i++)
		h = (h ^ (uint8_t)text.p[i]) * UINT64_C(0x100000001b3);
	return (size_t)(h >> 32) & (KEPT - 1);
}

static int
look_up(struct replay_effects *e, struct str text, const struct kept **ret, struct err *err)
{
	struct kept *k = &e->kept[slot_of(text)];
	AUTO(json) struct json_doc *doc = NULL;
	struct facts_sql_view view;
	int r;

	*ret = k;
	if (k->text != NULL && str_eq(text, str_mem(k->text, k->n)))
		return 0;
	r = json_parse(text, "facts", &doc, err);
	if (r != 0)
		return r;
	effects_sql(json_root(doc), &view);
	free(k->text);
	*k = (struct kept){str_dup(text), text.n, view.effects, view.effects_resolved};
	return 0;
}

/* The transaction's effects; a word that is not known counts as nothing. */
static uint32_t
txn_effects(const struct canon_node *request)
{
	const struct canon_node *list = canon_member(request, "txn_effects"),
				*v = canon_first(list);
	uint32_t set = 0;

	for (size_t i = 0; i < canon_count(list); i++, v = canon_behind(v))
		set |= effect_parse(canon_text(v));
	return set;
}

int
replay_effects_check(
    struct replay_effects *e, const struct canon_node *request, uint32_t said, struct err *err)
{
	const struct canon_node *facts = canon_member(request, "facts");
	AUTO_BUF struct buf now = BUF(512), then = BUF(512);
	const struct kept *k;
	bool inner;
	int r;

	if (canon_count(facts) == 0 || canon_member(facts, "error") != NULL ||
	    canon_member(facts, "http") != NULL)
		return 0;
	r = look_up(e, facts->text, &k, err);
	if (r != 0)
		return r;
	/* An exchange that only prepares runs nothing; but what escapes may not even be prepared.
	 */
	if (str_eqz(canon_text(canon_member(request, "operation")), "prepare") &&
	    said == EFFECT_read && (k->resolved & EFFECT_SET_ESCAPE) == 0)
		return 0;
	inner = canon_member(facts, "exec") != NULL;
	if (((inner ? k->resolved : k->all) & ~said) == 0 &&
	    (inner || (said & ~(k->all | txn_effects(request) | EFFECT_opaque)) == 0))
		return 0;
	effect_put(&now, k->all);
	effect_put(&then, said);
	return err_set(err, ERR_STATE, "effects of the recorded facts are now [%.*s], were [%.*s]",
	    STR_ARG(buf_str(&now)), STR_ARG(buf_str(&then)));
}
