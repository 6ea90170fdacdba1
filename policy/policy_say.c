/*
 * A decision in one sentence, for the record and for people. Runs in core and the command line.
 * Says only what the decision holds; judges nothing.
 */
#include "policy/policy_internal.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/banned.h"

#define NAMED_MAX 4 /* rules that are named before "and N more" */

static void say(struct decision *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void
say(struct decision *d, const char *fmt, ...)
{
	size_t n = strlen(d->text);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(d->text + n, sizeof(d->text) - n, fmt, ap);
	va_end(ap);
}

static void
say_names(struct decision *d, const char *noun, size_t from, size_t to)
{
	size_t n = to - from;

	say(d, "%s%s ", noun, n == 1 ? "" : "s");
	for (size_t i = 0; i < n && i < NAMED_MAX; i++)
		say(d, "%s%.*s", i != 0 ? ", " : "", STR_ARG(d->rules[from + i]));
	if (n > NAMED_MAX)
		say(d, " and %zu more", n - NAMED_MAX);
}

static void
say_rules(struct decision *d, const char *before)
{
	say(d, "%s", before);
	if (d->noverlays != 0)
		say_names(d, "emergency freeze", 0, d->noverlays);
	if (d->noverlays != 0 && d->nrules > d->noverlays)
		say(d, ", ");
	if (d->nrules > d->noverlays)
		say_names(d, "rule", d->noverlays, d->nrules);
}

static void
say_calendar(struct decision *d, const struct policy_input *in)
{
	char until[CLOCK_TEXT_SIZE];

	if (d->calendar.n == 0)
		return;
	say(d, " (calendar %.*s)", STR_ARG(d->calendar));
	if (d->until_us != 0) {
		clock_format_s(d->until_us, until);
		say(d, " until %s", until);
	} else if (d->calendar_unknown) {
		say(d, in->at.known ? " which does not cover this time, and counts against it"
				    : " while the clock is not known, which counts against it");
	}
}

static void
say_effects(struct decision *d)
{
	AUTO_BUF struct buf b = BUF(256);

	effect_put(&b, d->effects);
	say(d, "%.*s", STR_ARG(buf_str(&b)));
}

static void
say_slots(struct decision *d)
{
	for (size_t i = 0; i < d->nslots; i++)
		say(d, "%s%.*s:%u", i != 0 ? ", " : "", STR_ARG(d->slots[i].role),
		    d->slots[i].count);
}

static void
say_why(struct decision *d)
{
	if (d->why.n != 0)
		say(d, ": %.*s", STR_ARG(d->why));
}

/* "; exception x-1 lifts rule nightly", "; break-glass b-1 lifts its rules". */
static void
say_lifted(struct decision *d, const struct policy_input *in)
{
	for (size_t i = 0; i < d->nlifted; i++) {
		const struct policy_lift *l = in->lifts;

		while (l < in->lifts + in->nlifts && !str_eq(l->id, d->lifted[i]))
			l++;
		if (l == in->lifts + in->nlifts)
			continue;
		if (l->kind == LIFT_EXCEPTION)
			say(d, "; exception %.*s lifts rule %.*s", STR_ARG(l->id),
			    STR_ARG(l->rule));
		else
			say(d, "; break-glass %.*s lifts what forbids it", STR_ARG(l->id));
	}
}

static void
say_denied(struct decision *d, const struct policy_input *in)
{
	if (d->nrules == 1 && str_eqz(d->rules[0], "default")) {
		say(d, "denied by policy: nothing permits ");
		say_effects(d);
		if (in->target.p != NULL)
			say(d, " on %.*s", STR_ARG(in->target));
		if (d->shut.n != 0)
			say(d, " now, rule %.*s", STR_ARG(d->shut));
	} else {
		say_rules(d, "denied by policy: ");
	}
	say_calendar(d, in);
	say_why(d);
}

void
policy_say(const struct policy_input *in, struct decision *d)
{
	d->text[0] = '\0';
	switch (d->verdict) {
	case VERDICT_DENY: say_denied(d, in); break;
	case VERDICT_NEEDS_APPROVAL:
		say_rules(d, "needs approval by policy: ");
		say_calendar(d, in);
		say(d, ": ");
		say_slots(d);
		if (d->unsatisfiable)
			say(d, " (nobody can give it: too few people beside the run's owner)");
		say_why(d);
		break;
	case VERDICT_ALLOW:
		say_rules(
		    d, d->nslots != 0 ? "allowed: approved as asked by " : "allowed by policy: ");
		break;
	}
	say_lifted(d, in);
	if (in->deferred && d->verdict != VERDICT_ALLOW)
		say(d, " (it acts later: judged as if done now, and in the next freezes)");
}
