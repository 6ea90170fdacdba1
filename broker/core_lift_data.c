/*
 * Records of freezes, exceptions and break-glass, and what people are shown of them (process:
 * core). Texts were checked to be printable ASCII when they were asked for.
 */
#include <stdio.h>

#include "broker/core_data.h"
#include "broker/core_lift.h"

#include "common/banned.h"

const char *
core_lift_type(const struct core_lift *l, const char *what, char out[32])
{
	(void)snprintf(out, 32, "%s.%s", lift_kind_name(l->kind), what);
	return out;
}

static void
put_time(struct jcs *j, const char *key, int64_t us)
{
	char t[CLOCK_TEXT_SIZE];

	if (us == 0)
		return;
	clock_format(us, t);
	jcs_z(j, key, t);
}

static void
put_text(struct jcs *j, const char *key, const char *z)
{
	if (z != NULL && z[0] != '\0')
		jcs_str_lossy(j, key, str_z(z));
}

static void
put_count(struct jcs *j, const char *key, int64_t n)
{
	if (n != 0)
		jcs_int(j, key, n);
}

void
core_lift_data_request(struct buf *out, const struct core_lift *l)
{
	bool window = l->kind == LIFT_KIND_EXCEPTION;
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	put_text(&j, "by", l->by);
	effect_jcs(&j, "effects", l->effects);
	put_text(&j, "env", l->env);
	if (window)
		put_time(&j, "from", l->from_us);
	jcs_z(&j, "id", l->id);
	jcs_hex(&j, "policy", l->policy.b, HASH_LEN);
	put_text(&j, "reason", l->reason);
	put_text(&j, "rule", l->rule);
	put_text(&j, "run", l->run);
	put_count(&j, "seconds", l->seconds);
	put_time(&j, "sign_by", l->sign_by_us);
	put_text(&j, "target", l->target);
	put_text(&j, "ticket", l->ticket);
	if (window)
		put_time(&j, "to", l->to_us);
	put_count(&j, "uses", l->uses);
	jcs_close(&j);
}

void
core_lift_data_begin(struct buf *out, const struct core_lift *l)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	put_time(&j, "from", l->from_us);
	jcs_z(&j, "id", l->id);
	put_time(&j, "to", l->to_us);
	jcs_close(&j);
}

static void
put_signed(struct jcs *j, const struct core_lift *l)
{
	jcs_array(j, "signed");
	for (size_t i = 0; i < l->nsigned; i++) {
		const struct core_lift_signed *s = &l->sigs[i];

		jcs_open(j, NULL);
		put_time(j, "at", s->at_us);
		jcs_z(j, "decision", lift_decision_name(l->kind, s->decision));
		put_text(j, "note", s->note);
		jcs_z(j, "person", s->person);
		jcs_z(j, "role", s->role);
		jcs_close(j);
	}
	jcs_array_end(j);
}

static void
put_missing(struct jcs *j, struct core_lift *l)
{
	struct policy_slot open[POLICY_SLOTS_MAX];
	size_t n;

	if (l->kind == LIFT_KIND_EXCEPTION && l->state == CORE_LIFT_ASKED &&
	    core_lift_missing(l, STR(""), open, &n))
		policy_slots_jcs(j, "missing", open, n);
}

void
core_lift_data_show(struct jcs *j, const char *key, struct core_lift *l)
{
	jcs_open(j, key);
	put_text(j, "by", l->by);
	effect_jcs(j, "effects", l->effects);
	put_text(j, "env", l->env);
	put_time(j, "from", l->from_us);
	jcs_z(j, "id", l->id);
	jcs_z(j, "kind", lift_kind_name(l->kind));
	put_missing(j, l);
	put_text(j, "reason", l->reason);
	put_text(j, "rule", l->rule);
	put_text(j, "run", l->run);
	put_count(j, "seconds", l->seconds);
	put_time(j, "sign_by", l->state == CORE_LIFT_ASKED ? l->sign_by_us : 0);
	put_signed(j, l);
	jcs_z(j, "state", core_lift_state_name(l));
	put_text(j, "target", l->target);
	put_text(j, "ticket", l->ticket);
	put_time(j, "to", l->to_us);
	if (l->kind == LIFT_KIND_EXCEPTION)
		jcs_int(j, "used", l->used);
	put_count(j, "uses", l->uses);
	put_text(j, "why", l->why);
	jcs_close(j);
}

void
core_lift_data_lists(struct jcs *j, const struct core *c, const char *key, enum lift_kind k)
{
	struct core_lift *l;

	jcs_array(j, key);
	TAILQ_FOREACH (l, &c->lifts, link)
		if (l->kind == k && l->state != CORE_LIFT_RECORDING)
			core_lift_data_show(j, NULL, l);
	jcs_array_end(j);
}

/* --- beside the facts of an action --------------------------------------------------- */

static void
put_str(struct jcs *j, const char *key, struct str s)
{
	if (s.n != 0)
		jcs_str_lossy(j, key, s);
}

static void
put_lift(struct jcs *j, const struct policy_lift *l)
{
	jcs_open(j, NULL);
	effect_jcs(j, "effects", l->effects);
	put_time(j, "from", l->from_us);
	jcs_str(j, "id", l->id);
	jcs_z(j, "kind", lift_kind_name((enum lift_kind)l->kind));
	put_str(j, "rule", l->rule);
	put_str(j, "run", l->run);
	put_str(j, "target", l->target);
	put_time(j, "to", l->to_us);
	jcs_close(j);
}

static void
put_overlay(struct jcs *j, const struct policy_overlay *o)
{
	jcs_open(j, NULL);
	effect_jcs(j, "effects", o->effects);
	put_str(j, "env", o->env);
	put_time(j, "from", o->from_us);
	jcs_str(j, "id", o->id);
	put_str(j, "target", o->target);
	put_str(j, "why", o->why);
	jcs_close(j);
}

void
core_lift_data_input(struct jcs *j, const struct policy_input *in)
{
	if (in->nlifts != 0) {
		jcs_array(j, "lifts");
		for (size_t i = 0; i < in->nlifts; i++)
			put_lift(j, &in->lifts[i]);
		jcs_array_end(j);
	}
	if (in->noverlays != 0) {
		jcs_array(j, "overlays");
		for (size_t i = 0; i < in->noverlays; i++)
			put_overlay(j, &in->overlays[i]);
		jcs_array_end(j);
	}
}
