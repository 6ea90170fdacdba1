/*
 * How much is too much: rates of rules, and tries after a refusal, as written and as asked. Runs
 * in the command line on source and in core on bundles. Counts nothing itself.
 */
#include "policy/policy_internal.h"

#include <stddef.h>

#include "common/banned.h"

#define OVER_MAX 1000000
#define IN_MAX (7 * 86400)
#define ATTEMPTS_MAX 1000

static const char *const per_names[] = {[RATE_NONE] = "none",
    [RATE_RUN] = "run",
    [RATE_OWNER] = "owner",
    [RATE_AGENT] = "agent",
    [RATE_TARGET] = "target"};

const char *
policy_rate_per_name(enum policy_rate_per per)
{
	return per_names[per];
}

static int
read_over(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy_rate *rate = out;
	int64_t n;
	int rc = read_int(r, v, "over", 1, OVER_MAX, &n, err);

	if (rc == 0)
		rate->over = (unsigned)n;
	return rc;
}

static int
read_in(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy_rate *rate = out;

	return read_duration(r, v, "in", 1, IN_MAX, &rate->in_s, err);
}

static int
read_per(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy_rate *rate = out;

	for (int i = RATE_RUN; i <= RATE_TARGET; i++) {
		if (str_eqz(json_str(v), per_names[i])) {
			rate->per = (enum policy_rate_per)i;
			return 0;
		}
	}
	return json_err(r->doc, v, err, ERR_INVALID,
	    "per must be run, owner, agent or target: what is counted apart");
}

static const struct read_field rate_fields[] = {
    {"over", read_over, 0, true},
    {"in", read_in, 0, true},
    {"per", read_per, 0, true},
};

int
policy_read_rate(struct reader *r, const struct json *v, void *out, struct err *err)
{
	return read_object(r, v, "rate", rate_fields, ARRAY_LEN(rate_fields), out, err);
}

size_t
policy_rate_total(const struct policy *p)
{
	return p->nrates;
}

const struct policy_rate *
policy_rate_at(const struct policy *p, size_t i)
{
	return i < p->nrates ? &p->rules[p->rates[i]].cond.rate : NULL;
}

void
policy_input_uncounted(const struct policy *p, struct policy_input *in)
{
	in->rates = p->uncounted;
	in->nrates = p->nrates;
}

/* --- attempts ------------------------------------------------------------------------ */

static int
read_alarm(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy_attempts *a = out;
	int64_t n;
	int rc = read_int(r, v, "alarm", 1, ATTEMPTS_MAX, &n, err);

	if (rc == 0)
		a->alarm = (unsigned)n;
	return rc;
}

static int
read_end(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy_attempts *a = out;
	int64_t n;
	int rc = read_int(r, v, "end", 1, ATTEMPTS_MAX, &n, err);

	if (rc == 0)
		a->end = (unsigned)n;
	return rc;
}

static const struct read_field attempts_fields[] = {
    {"alarm", read_alarm, 0, true},
    {"end", read_end, 0, false},
};

int
policy_read_attempts(struct reader *r, const struct json *v, void *out, struct err *err)
{
	struct policy *p = out;
	int rc = read_object(
	    r, v, "attempts", attempts_fields, ARRAY_LEN(attempts_fields), &p->attempts, err);

	if (rc == 0 && p->attempts.end != 0 && p->attempts.end < p->attempts.alarm)
		return json_err(r->doc, v, err, ERR_INVALID,
		    "attempts: a run must not end (%u) before its alarm (%u)", p->attempts.end,
		    p->attempts.alarm);
	p->attempts_given = rc == 0;
	return rc;
}

struct policy_list
policy_watch(const struct policy *p)
{
	return (struct policy_list){p->watch.n, p->watch.v};
}

struct policy_attempts
policy_attempts(const struct policy *p)
{
	return p->attempts_given ? p->attempts : (struct policy_attempts){POLICY_ALARM_AFTER, 0};
}
