/*
 * The clock of a sandbox: stands still while it is paused, a day at most, and goes on while the
 * machine sleeps. Runs in the supervisor. All deadlines are by this clock, and one timer serves the
 * next of them.
 */
#include "agent/sandbox/super_state.h"

#include <time.h>

#include "common/banned.h"

int64_t
super_wall_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* How long it has stood still until now. */
static int64_t
stood(const struct super *s, int64_t now)
{
	int64_t ms = s->paused_ms + (s->state == SUPER_PAUSED ? now - s->paused_since : 0);

	return ms < super_times.pause ? ms : super_times.pause;
}

int64_t
super_clock(const struct super *s)
{
	int64_t now = wire_now_ms();

	return now - stood(s, now);
}

void
super_time_pause(struct super *s, bool on)
{
	int64_t now = wire_now_ms();

	s->paused_wall_ms = super_wall_ms();
	if (on)
		s->paused_since = now;
	else
		s->paused_ms = stood(s, now);
	s->state = on ? SUPER_PAUSED : SUPER_LIVE;
	/* The timer was set for the other state. */
	loop_timer_del(TAKE_PTR(s->timer));
}

static void
sooner(int64_t *at, int64_t t)
{
	if (t != 0 && (*at == 0 || t < *at))
		*at = t;
}

static int64_t
next_deadline(const struct super *s)
{
	int64_t at = 0;

	if (s->state == SUPER_DEAD)
		return 0;
	sooner(&at, s->ready_by);
	sooner(&at, s->deadline);
	sooner(&at, s->linger_by);
	sooner(&at, s->inside_by);
	for (const struct super_exec *x = s->execs; x != NULL; x = x->next) {
		sooner(&at, x->deadline);
		sooner(&at, x->kill_by);
		sooner(&at, x->answer_by);
	}
	return at;
}

static bool
past(int64_t t, int64_t now)
{
	return t != 0 && t <= now;
}

/* The first of a program's deadlines that is over. False: the sandbox has been ended. */
static bool
exec_time(struct super_exec *x, int64_t now)
{
	if (past(x->kill_by, now)) {
		super_end(x->s, SANDBOX_UNAVAILABLE, "sandbox: a program could not be ended");
		return false;
	}
	if (past(x->answer_by, now)) {
		super_end(x->s, SANDBOX_UNAVAILABLE, "sandbox: pid 1 does not answer");
		return false;
	}
	if (past(x->deadline, now))
		super_exec_kill(x, SANDBOX_TIMEOUT);
	return x->s->state != SUPER_DEAD;
}

static void
on_time(void *arg)
{
	struct super *s = arg;
	int64_t now = super_clock(s);

	s->timer = NULL;
	if (s->state == SUPER_DEAD)
		return;
	if (past(s->ready_by, now))
		super_start_failed(s, ERR_UNAVAILABLE, "sandbox: pid 1 was not ready in time");
	else if (past(s->deadline, now)) {
		s->over = s->over || super_spare_waits(s);
		super_end(s, SANDBOX_TIMEOUT, "sandbox: its time is over");
	} else if (past(s->linger_by, now)) {
		s->over = true;
		super_end(s, SANDBOX_KILLED, "sandbox: nobody has asked for it");
	} else if (past(s->inside_by, now))
		super_end(s, SANDBOX_UNAVAILABLE, "sandbox: pid 1 takes no orders");
	else
		for (struct super_exec *x = s->execs; x != NULL && exec_time(x, now); x = x->next)
			continue;
}

void
super_time_arm(struct super *s)
{
	int64_t at = next_deadline(s), now = wire_now_ms(), still = stood(s, now);
	int64_t left;

	/* One that comes too early finds nothing to do, and the next is set then. */
	if (s->timer != NULL && at >= s->timer_at && s->state != SUPER_PAUSED)
		return;
	loop_timer_del(TAKE_PTR(s->timer));
	s->timer_at = at;
	if (at == 0)
		return;
	left = at - (now - still);
	if (s->state == SUPER_PAUSED)
		left += super_times.pause - still;
	s->timer = loop_timer_add(s->loop, left > 0 ? (uint64_t)left : 0, on_time, s);
}
