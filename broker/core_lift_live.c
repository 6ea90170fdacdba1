/*
 * Freezes, exceptions and break-glass as the log has them (process: core). A freeze is in force as
 * soon as its record is read; what loosens waits until its signatures have been verified again.
 */
#include <stdlib.h>

#include "broker/core_lift.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct rec {
	struct core *core;
	const struct json *data;
	const struct hash *root;
	uint64_t seq;
};

static struct str
field(const struct rec *r, const char *key)
{
	return json_str(json_get(r->data, key));
}

static char *
text(const struct rec *r, const char *key)
{
	return str_dup(field(r, key));
}

static bool
time_field(const struct rec *r, const char *key, int64_t *ret)
{
	struct str s = field(r, key);

	return s.n == 0 || clock_parse(s, ret, NULL) == 0;
}

static int
bad(const struct rec *r, const char *what, struct err *err)
{
	return err_set(err, ERR_TAMPER, "live record %llu: %s is missing or malformed",
	    (unsigned long long)r->seq, what);
}

static int
on_request(const struct rec *r, enum lift_kind kind, struct err *err)
{
	AUTO_BUF struct buf root = BUF(64);
	struct str id = field(r, "id");
	unsigned long long size = r->seq + 1;
	struct core_lift *l;

	if (id.n == 0 || id.n >= CORE_ID_SIZE || core_lift_find(r->core, id) != NULL)
		return bad(r, "id", err);
	l = core_lift_alloc(r->core, kind);
	memcpy(l->id, id.p, id.n);
	enc_base64(&root, str_mem(r->root->b, HASH_LEN));
	l->log_head = xasprintf("%s %llu %.*s", r->core->origin, size, STR_ARG(buf_str(&root)));
	l->state = CORE_LIFT_ASKED;
	l->rule = text(r, "rule");
	l->target = text(r, "target");
	l->env = text(r, "env");
	l->run = text(r, "run");
	l->ticket = text(r, "ticket");
	l->reason = text(r, "reason");
	l->by = text(r, "by");
	l->seconds = json_int(json_get(r->data, "seconds"));
	l->uses = json_int(json_get(r->data, "uses"));
	if (!hash_from_hex(field(r, "policy"), &l->policy) ||
	    !effect_from_json(json_get(r->data, "effects"), &l->effects) ||
	    !time_field(r, "from", &l->from_us) || !time_field(r, "to", &l->to_us) ||
	    !time_field(r, "sign_by", &l->sign_by_us))
		return bad(r, "request", err);
	return 0;
}

static int
on_sign(const struct rec *r, struct core_lift *l, struct err *err)
{
	AUTO_FREE char *person = text(r, "person"), *role = text(r, "role"),
		       *note = text(r, "note"), *signature = text(r, "signature");
	struct core_lift_signed s = {.decision = lift_decision_parse(l->kind, field(r, "decision")),
	    .person = person,
	    .role = role,
	    .note = note,
	    .signature = signature,
	    .seq = r->seq};

	if (s.decision == LIFT_NOTHING || !time_field(r, "at", &s.at_us))
		return bad(r, "signature", err);
	core_lift_signed_add(l, &s);
	l->checked = false;
	if (l->kind != LIFT_KIND_FREEZE || s.decision != LIFT_START)
		return 0;
	l->state = CORE_LIFT_FORCE;
	l->from_us = s.at_us;
	return 0;
}

static void
on_use(const struct rec *r, struct core_lift *l)
{
	int64_t used = json_int(json_get(r->data, "used"));

	/* Counted, whatever the number says: a record can only make it more. */
	l->used = used > l->used + 1 ? used : l->used + 1;
}

static int
on_later(const struct rec *r, struct core_lift *l, struct str what, struct err *err)
{
	if (str_eqz(what, "sign"))
		return on_sign(r, l, err);
	if (str_eqz(what, "begin"))
		l->begun = true;
	if (str_eqz(what, "use"))
		on_use(r, l);
	if (str_eqz(what, "review")) {
		l->begun = true;
		l->state = CORE_LIFT_REVIEW;
		free(l->why);
		l->why = text(r, "why");
	}
	return 0;
}

int
core_lift_live(struct core *c, struct str type, const struct json *data, uint64_t seq,
    const struct hash *root, bool *ret_mine, struct err *err)
{
	struct rec r = {.core = c, .data = data, .root = root, .seq = seq};
	struct str what = type, head;
	struct core_lift *l;
	enum lift_kind kind;

	*ret_mine = str_cut(&what, '.', &head) && lift_kind_parse(head, &kind);
	if (!*ret_mine)
		return 0;
	if (str_eqz(what, "request"))
		return on_request(&r, kind, err);
	l = core_lift_find(c, field(&r, "id"));
	if (l == NULL || l->kind != kind) {
		log_error("live record %llu: %.*s of an id that was not asked for",
		    (unsigned long long)seq, STR_ARG(type));
		return 0;
	}
	return on_later(&r, l, what, err);
}
