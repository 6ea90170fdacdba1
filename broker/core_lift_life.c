/*
 * The life of a freeze, an exception, a break-glass (process: core): asked for, in force by its
 * people's signatures, over. What loosens ends by itself, with the policy it was signed under, or
 * by anybody's signature; a freeze ends by two people alone.
 */
#include "broker/core_lift.h"

#include <stdlib.h>

#include "broker/core_data.h"
#include "broker/core_run.h"
#include "broker/core_sign.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

const char *
core_lift_state_name(const struct core_lift *l)
{
	switch (l->state) {
	case CORE_LIFT_RECORDING: return "recording";
	case CORE_LIFT_ASKED: return "asked";
	case CORE_LIFT_FORCE:
		return l->kind == LIFT_KIND_EXCEPTION && clock_wall_us() < l->from_us
			   ? "granted, not begun"
			   : "in force";
	case CORE_LIFT_REVIEW: return "to be reviewed";
	}
	return "invalid";
}

/* --- memory ------------------------------------------------------------------------ */

struct core_lift *
core_lift_alloc(struct core *c, enum lift_kind k)
{
	struct core_lift *l = xcalloc(1, sizeof(*l));

	l->core = c;
	l->kind = k;
	TAILQ_INSERT_TAIL(&c->lifts, l, link);
	return l;
}

static void
signed_free(struct core_lift_signed *s)
{
	free(s->person);
	free(s->role);
	free(s->note);
	free(s->signature);
}

void
core_lift_free(struct core_lift *l)
{
	TAILQ_REMOVE(&l->core->lifts, l, link);
	loop_timer_del(l->timer);
	core_record_forget(l->ticket_request);
	for (size_t i = 0; i < l->nsigned; i++)
		signed_free(&l->sigs[i]);
	free(l->rule);
	free(l->target);
	free(l->env);
	free(l->run);
	free(l->ticket);
	free(l->reason);
	free(l->log_head);
	free(l->by);
	free(l->why);
	free(l);
}

void
core_lift_free_all(struct core *c)
{
	struct core_lift *l;

	while ((l = TAILQ_FIRST(&c->lifts)) != NULL)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not follow TAILQ_REMOVE */
		core_lift_free(l);
}

/* --- looking ----------------------------------------------------------------------- */

struct core_lift *
core_lift_find(const struct core *c, struct str id)
{
	struct core_lift *l;

	TAILQ_FOREACH (l, &c->lifts, link)
		if (str_eqz(id, l->id))
			return l;
	return NULL;
}

size_t
core_lift_count(const struct core *c, enum lift_kind k, enum core_lift_state s)
{
	const struct core_lift *l;
	size_t n = 0;

	TAILQ_FOREACH (l, &c->lifts, link)
		n += l->kind == k && l->state == s;
	return n;
}

struct lift
core_lift_of(const struct core_lift *l, struct core_lift_words *w)
{
	core_sign_sha256(w->policy, &l->policy);
	core_sign_broker(w->broker, l->core);
	return (struct lift){.kind = l->kind,
	    .id = str_z(l->id),
	    .broker = str_z(w->broker),
	    .policy = str_z(w->policy),
	    .log_head = str_z(l->log_head),
	    .rule = str_z(l->rule),
	    .target = str_z(l->target),
	    .env = str_z(l->env),
	    .run = str_z(l->run),
	    .effects = l->effects,
	    .from_us = l->kind == LIFT_KIND_EXCEPTION ? l->from_us : 0,
	    .to_us = l->kind == LIFT_KIND_EXCEPTION ? l->to_us : 0,
	    .seconds = l->seconds,
	    .uses = l->uses,
	    .ticket = str_z(l->ticket),
	    .reason = str_z(l->reason),
	    .sign_by_us = l->sign_by_us};
}

static bool
counts(const struct core_lift *l, size_t i, enum lift_decision d)
{
	return l->sigs[i].decision == d && l->sigs[i].signature == NULL;
}

unsigned
core_lift_people(const struct core_lift *l, enum lift_decision d, const char *but)
{
	unsigned n = 0;

	for (size_t i = 0; i < l->nsigned; i++) {
		bool again = but != NULL && strcmp(but, l->sigs[i].person) == 0;

		for (size_t k = 0; k < i && !again; k++)
			again =
			    counts(l, k, d) && strcmp(l->sigs[k].person, l->sigs[i].person) == 0;
		n += counts(l, i, d) && !again;
	}
	return n;
}

static const struct core_lift_signed *
first_signed(const struct core_lift *l, enum lift_decision d)
{
	for (size_t i = 0; i < l->nsigned; i++)
		if (counts(l, i, d))
			return &l->sigs[i];
	return NULL;
}

const char *
core_lift_starter(const struct core_lift *l)
{
	const struct core_lift_signed *s = first_signed(l, LIFT_START);

	return s != NULL ? s->person : "";
}

/* Over all rules, so once for each object and policy. */
static bool
slots_find(struct core_lift *l)
{
	struct core_lift_words w;
	struct lift x = core_lift_of(l, &w);

	if (!l->slots_known)
		l->slots_known = l->core->policy != NULL &&
				 lift_slots(l->core->policy, &x, l->slots, &l->nslots);
	return l->slots_known;
}

bool
core_lift_missing(
    struct core_lift *l, struct str owner, struct policy_slot out[POLICY_SLOTS_MAX], size_t *ret_n)
{
	AUTO_FREE struct decision *d = NULL;
	struct policy_grant g[CORE_LIFT_SIGNED_MAX];
	size_t n = 0;

	if (!slots_find(l))
		return false;
	d = xcalloc(1, sizeof(*d));
	d->nslots = l->nslots;
	memcpy(d->slots, l->slots, sizeof(d->slots));
	for (size_t i = 0; i < l->nsigned; i++)
		if (counts(l, i, LIFT_START))
			g[n++] = (struct policy_grant){
			    .person = str_z(l->sigs[i].person), .role = str_z(l->sigs[i].role)};
	*ret_n = policy_slots_open(d, g, n, owner, out);
	return true;
}

bool
core_lift_quorum(struct core_lift *l, struct str owner)
{
	struct policy_slot open[POLICY_SLOTS_MAX];
	size_t n;

	return core_lift_missing(l, owner, open, &n) && n == 0;
}

/* --- ends -------------------------------------------------------------------------- */

static void
record(const struct core_lift *l, const char *what, const struct buf *data)
{
	char type[32];

	if (core_record(l->core, &(struct core_append){.type = core_lift_type(l, what, type),
				     .flags = CORE_REC_CHECKPOINT,
				     .data = data}) == NULL)
		log_error(
		    "%s %s: its %s cannot be recorded now", lift_kind_name(l->kind), l->id, what);
}

static void
review(struct core_lift *l, const char *why)
{
	AUTO_BUF struct buf b = BUF(1024);

	l->state = CORE_LIFT_REVIEW;
	free(l->why);
	l->why = xstrdup(why);
	loop_timer_del(l->timer);
	l->timer = NULL;
	core_data_id(&b, l->id, "why", why);
	record(l, "review", &b);
	log_warn("break-glass %s of %s is over (%s): it must be reviewed", l->id,
	    core_lift_starter(l), why);
}

static void
gone(struct core_lift *l, const char *why)
{
	AUTO_BUF struct buf b = BUF(1024);

	log_info("%s %s ends: %s", lift_kind_name(l->kind), l->id, why);
	core_data_id(&b, l->id, "why", why);
	if (l->state != CORE_LIFT_RECORDING)
		record(l, "end", &b);
	core_lift_free(l);
}

void
core_lift_end(struct core_lift *l, const char *why)
{
	bool acted = l->kind == LIFT_KIND_BREAKGLASS && (l->state == CORE_LIFT_FORCE || l->begun);

	if (!acted)
		gone(l, why);
	else if (l->state != CORE_LIFT_REVIEW)
		review(l, why);
}

static void
timer_fired(void *arg)
{
	struct core_lift *l = arg;
	bool asked = l->state == CORE_LIFT_ASKED;

	l->timer = NULL;
	if (clock_wall_us() < (asked ? l->sign_by_us : l->to_us))
		core_lift_timer(l); /* the clock was set back */
	else
		core_lift_end(l, asked ? "not signed in time" : "its time is over");
}

void
core_lift_timer(struct core_lift *l)
{
	int64_t by = l->state == CORE_LIFT_ASKED ? l->sign_by_us : l->to_us;
	int64_t left = by - clock_wall_us();

	loop_timer_del(l->timer);
	l->timer = NULL;
	if (l->state == CORE_LIFT_ASKED ||
	    (l->state == CORE_LIFT_FORCE && l->kind != LIFT_KIND_FREEZE))
		l->timer = loop_timer_add(
		    l->core->loop, left > 0 ? (uint64_t)left / 1000 + 1 : 1, timer_fired, l);
}

static struct core_lift *
stale(const struct core *c)
{
	struct core_lift *l;

	TAILQ_FOREACH (l, &c->lifts, link) {
		bool loose = l->kind != LIFT_KIND_FREEZE || l->state == CORE_LIFT_ASKED;

		if (loose && l->state != CORE_LIFT_REVIEW && l->state != CORE_LIFT_RECORDING &&
		    (c->policy == NULL || !hash_eq(&l->policy, policy_digest(c->policy))))
			return l;
	}
	return NULL;
}

void
core_lift_policy_changed(struct core *c)
{
	struct core_lift *l;

	TAILQ_FOREACH (l, &c->lifts, link)
		l->slots_known = false;
	while ((l = stale(c)) != NULL)
		core_lift_end(l, "policy_changed");
}

/* --- signatures -------------------------------------------------------------------- */

void
core_lift_signed_add(struct core_lift *l, const struct core_lift_signed *s)
{
	struct core_lift_signed *to;

	if (l->nsigned >= CORE_LIFT_SIGNED_MAX)
		return;
	to = &l->sigs[l->nsigned++];
	*to = (struct core_lift_signed){.decision = s->decision, .at_us = s->at_us, .seq = s->seq};
	to->person = xstrdup(s->person);
	to->role = xstrdup(s->role);
	to->note = xstrdup(s->note);
	to->signature = s->signature != NULL ? xstrdup(s->signature) : NULL;
}

static void
begin(struct core_lift *l)
{
	AUTO_BUF struct buf b = BUF(1024);
	const struct core_lift_signed *s = first_signed(l, LIFT_START);

	l->state = CORE_LIFT_FORCE;
	if (l->kind != LIFT_KIND_EXCEPTION && s != NULL)
		l->from_us = s->at_us;
	if (l->kind == LIFT_KIND_BREAKGLASS)
		l->to_us = l->from_us + l->seconds * 1000000;
	if (!l->begun) {
		core_lift_data_begin(&b, l);
		record(l, "begin", &b);
		log_warn("%s %s is in force: target %s, by %s: %s", lift_kind_name(l->kind), l->id,
		    l->target[0] != '\0' ? l->target : "*", core_lift_starter(l), l->reason);
	}
	l->begun = true;
	core_lift_timer(l);
}

static bool
may_begin(struct core_lift *l)
{
	return l->kind == LIFT_KIND_EXCEPTION ? core_lift_quorum(l, STR(""))
					      : core_lift_people(l, LIFT_START, NULL) != 0;
}

/* "lift by alice by bob", for the record. */
static char *
ended_by(const struct core_lift *l, enum lift_decision d)
{
	AUTO_BUF struct buf b = BUF(4096);

	buf_put_z(&b, lift_decision_name(l->kind, d));
	for (size_t i = 0; i < l->nsigned; i++)
		if (counts(l, i, d))
			buf_printf(&b, " by %s", l->sigs[i].person);
	return buf_dup_z(&b);
}

void
core_lift_settle(struct core_lift *l)
{
	unsigned stops = core_lift_people(l, LIFT_STOP, NULL);
	unsigned enough = l->kind == LIFT_KIND_FREEZE ? LIFT_FREEZE_SIGNERS : 1;

	if ((l->state == CORE_LIFT_ASKED || !l->begun) && l->state != CORE_LIFT_REVIEW &&
	    may_begin(l))
		begin(l);
	if (l->state == CORE_LIFT_REVIEW &&
	    core_lift_people(l, LIFT_CLOSE, core_lift_starter(l)) != 0) {
		AUTO_FREE char *why = ended_by(l, LIFT_CLOSE);

		gone(l, why);
	} else if (l->state != CORE_LIFT_REVIEW && stops >= enough) {
		AUTO_FREE char *why = ended_by(l, LIFT_STOP);

		core_lift_end(l, why);
	}
}
