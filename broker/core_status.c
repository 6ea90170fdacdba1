/*
 * `cofferdam status` (process: core): what holds at this instant, and why. Whoever is refused must
 * be able to see here which clock, calendar or freeze it was. Tells; decides nothing.
 */
#include "broker/core_status.h"

#include "broker/core_doubt.h"
#include "broker/core_lift.h"
#include "broker/core_witness.h"
#include "policy/calendar.h"

#include "common/banned.h"

#define SECOND INT64_C(1000000)

/* --- the clock --------------------------------------------------------------------- */

static void
put_clock(struct jcs *j, const struct core *c, struct instant now)
{
	enum clock_mode mode = c->policy != NULL ? policy_clock(c->policy) : CLOCK_MODE_KERNEL_SYNC;
	int64_t behind = c->last_us - now.us;

	jcs_open(j, "clock");
	if (!now.known && behind > 0)
		jcs_int(j, "behind_us", behind);
	jcs_bool(j, "known", now.known);
	jcs_z(j, "mode", mode == CLOCK_MODE_TRUSTED ? "trusted" : "kernel-sync");
	jcs_close(j);
}

struct why {
	core_status_line_fn *fn;
	void *arg;
};

static void
why_clock(const struct why *w, const struct core *c, struct instant now)
{
	AUTO_BUF struct buf b = BUF(512);
	char last[CLOCK_TEXT_SIZE];
	int64_t behind = c->last_us - now.us, behind_s = behind / SECOND + 1;

	if (now.known)
		return;
	clock_format_s(c->last_us, last);
	if (behind > 0)
		buf_printf(&b,
		    "the clock is %lld s behind %s, the time of the last record: every calendar "
		    "counts as frozen until it has passed that",
		    (long long)behind_s, last);
	else
		buf_put_z(&b, "the kernel does not say that its clock is synchronised: every "
			      "calendar counts as frozen until it does");
	w->fn(w->arg, buf_str(&b));
}

/* --- calendars --------------------------------------------------------------------- */

struct now_in {
	const char *state;	  /* frozen, open, closed, clear, unknown */
	int64_t since_s, until_s; /* 0: none */
	bool frozen;
};

/* Of a freeze the time inside a window is frozen, of an open calendar the time outside. */
static struct now_in
calendar_now(const struct policy *p, size_t i, struct instant now)
{
	struct policy_calendar c = policy_calendar_at(p, i);
	int64_t s = now.us / SECOND, from, to;
	struct now_in r = {.state = c.open ? "closed" : "clear", .frozen = c.open};

	if (!now.known || s < c.valid_from || s >= c.valid_to)
		return (struct now_in){.state = "unknown",
		    .frozen = true,
		    .since_s = now.known && s >= c.valid_to ? c.valid_to : 0,
		    .until_s = now.known && s < c.valid_from ? c.valid_from : 0};
	for (size_t k = 0; k < c.nintervals; k++) {
		policy_calendar_interval(p, i, k, &from, &to);
		if (from > s) {
			r.until_s = from;
			break;
		}
		r.since_s = to;
		if (to <= s)
			continue;
		r = (struct now_in){.state = c.open ? "open" : "frozen",
		    .frozen = !c.open,
		    .since_s = from,
		    .until_s = to < c.valid_to ? to : 0};
		break;
	}
	return r;
}

static void
put_calendars(struct jcs *j, const struct policy *p, struct instant now)
{
	jcs_array(j, "calendars");
	for (size_t i = 0; p != NULL && i < policy_calendar_count(p); i++) {
		struct policy_calendar c = policy_calendar_at(p, i);
		struct now_in n = calendar_now(p, i, now);

		jcs_open(j, NULL);
		jcs_str(j, "id", c.id);
		jcs_z(j, "kind", c.open ? "open" : "freeze");
		if (n.since_s != 0)
			jcs_time(j, "since", n.since_s * SECOND);
		jcs_z(j, "state", n.state);
		if (n.until_s != 0)
			jcs_time(j, "until", n.until_s * SECOND);
		jcs_time(j, "valid_to", c.valid_to * SECOND);
		jcs_close(j);
	}
	jcs_array_end(j);
}

static void
why_calendar(const struct why *w, const struct policy *p, size_t i, struct instant now)
{
	struct policy_calendar c = policy_calendar_at(p, i);
	struct now_in n = calendar_now(p, i, now);
	AUTO_BUF struct buf b = BUF(512);
	char since[CLOCK_TEXT_SIZE], until[CLOCK_TEXT_SIZE];

	if (!n.frozen || !now.known) /* the clock is said once, for all of them */
		return;
	clock_format_s(n.since_s * SECOND, since);
	clock_format_s(n.until_s * SECOND, until);
	buf_printf(&b, "calendar %.*s ", STR_ARG(c.id));
	if (now.us / SECOND >= c.valid_to)
		buf_printf(&b,
		    "is valid until %s only, which has passed: it counts as frozen until "
		    "a policy with a later horizon is loaded",
		    since);
	else
		buf_printf(&b, "is %s", n.state);
	if (n.since_s != 0 && now.us / SECOND < c.valid_to)
		buf_printf(&b, " since %s", since);
	if (n.until_s != 0)
		buf_printf(&b, " until %s", until);
	w->fn(w->arg, buf_str(&b));
}

/* --- freezes ----------------------------------------------------------------------- */

static void
why_freeze(const struct why *w, const struct core_lift *l)
{
	AUTO_BUF struct buf b = BUF(1024);
	char since[CLOCK_TEXT_SIZE];

	if (l->kind != LIFT_KIND_FREEZE || l->state != CORE_LIFT_FORCE)
		return;
	clock_format_s(l->from_us, since);
	buf_printf(&b, "emergency freeze %s by %s since %s: ", l->id, core_lift_starter(l), since);
	effect_put(&b, l->effects);
	buf_printf(&b, " on target %s, env %s: %s", l->target[0] != '\0' ? l->target : "*",
	    l->env[0] != '\0' ? l->env : "*", l->reason);
	w->fn(w->arg, buf_str(&b));
}

void
core_status_frozen(const struct core *c, struct instant now, core_status_line_fn *fn, void *arg)
{
	const struct why w = {fn, arg};
	const struct core_lift *l;

	why_clock(&w, c, now);
	for (size_t i = 0; c->policy != NULL && i < policy_calendar_count(c->policy); i++)
		why_calendar(&w, c->policy, i, now);
	TAILQ_FOREACH (l, &c->lifts, link)
		why_freeze(&w, l);
}

static void
line_put(void *arg, struct str line)
{
	jcs_str_lossy(arg, NULL, line);
}

static void
put_frozen(struct jcs *j, const struct core *c, struct instant now)
{
	jcs_array(j, "frozen");
	core_status_frozen(c, now, line_put, j);
	jcs_array_end(j);
}

/* --- all --------------------------------------------------------------------------- */

static void
put_policy(struct jcs *j, const struct policy *p)
{
	if (p == NULL)
		return;
	jcs_open(j, "policy");
	jcs_hex(j, "digest", policy_digest(p)->b, HASH_LEN);
	jcs_str(j, "name", policy_name(p));
	jcs_int(j, "serial", policy_serial(p));
	jcs_close(j);
}

int
core_status_verb(struct core_call *call, struct err *err)
{
	struct core *c = call->core;
	struct jcs *j = &call->j;
	struct instant now = core_now(c);
	struct core_run *run;
	size_t pending = 0;

	(void)err;
	TAILQ_FOREACH (run, &c->runs, link)
		pending += run->npending;
	core_lift_data_lists(j, c, "breakglass", LIFT_KIND_BREAKGLASS);
	put_calendars(j, c->policy, now);
	put_clock(j, c, now);
	core_doubt_status(j, c);
	core_lift_data_lists(j, c, "exceptions", LIFT_KIND_EXCEPTION);
	core_lift_data_lists(j, c, "freezes", LIFT_KIND_FREEZE);
	put_frozen(j, c, now);
	if (c->log_damage != NULL)
		jcs_z(j, "log_damage", c->log_damage);
	jcs_int(j, "log_size", (int64_t)c->log_size);
	jcs_z(j, "origin", c->origin);
	jcs_int(j, "pending", (int64_t)pending);
	put_policy(j, c->policy);
	jcs_int(j, "reviews", (int64_t)core_lift_count(c, LIFT_KIND_BREAKGLASS, CORE_LIFT_REVIEW));
	jcs_array(j, "run_ids");
	TAILQ_FOREACH (run, &c->runs, link)
		jcs_z(j, NULL, run->id);
	jcs_array_end(j);
	jcs_int(j, "runs", (int64_t)c->nruns);
	jcs_z(j, "state",
	    !c->live				      ? "no log"
	    : c->upstream == NULL || c->front == NULL ? "starting"
	    : c->policy == NULL			      ? "no policy"
						      : "serving");
	core_witness_status(j, c);
	return 0;
}
