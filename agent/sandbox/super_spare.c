/*
 * A spare: a sandbox that was built before anybody asked, for the next `sandbox exec --spare` of
 * the same user that would build the very same. Runs in the supervisor. It waits under one of a few
 * names, takes no program and no file, is given away once, to the first who asks for exactly what
 * it is, and is that caller's own from then on; what was used is never given again. Nobody waits
 * for it. It ends by itself.
 */
#include "agent/sandbox/super_state.h"

#include <fcntl.h>
#include <stdio.h>

#include "common/xalloc.h"
#include "agent/sandbox/sandbox_client.h"

#include "common/banned.h"

#define LONG_MS 50	 /* a taker's program that runs for so long leaves time for the next one */
#define LOOK_MS 10000	 /* so often one that waits looks whether the machine has room */
#define STALL_PERCENT 10 /* of the last ten seconds somebody waited for memory */
#define FREE_PART 16	 /* this part of the memory must be available */

struct super_spare {
	struct str built_from, spec; /* owned */
	char name[sizeof(CALL_SPARE_NAME) + 10];
	uint32_t seconds; /* of the next one once it is taken */
	bool waits, last;
	struct loop_timer *later;
};

/* --- room ------------------------------------------------------------------------------------ */

/* Of the line that begins so the number behind it; `none` if it cannot be had. */
static double
number_of(const char *path, const char *begin, double none)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[8192], *at;
	ssize_t k = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (k <= 0)
		return none;
	text[k] = '\0';
	at = strstr(text, begin);
	return at != NULL ? strtod(at + strlen(begin), NULL) : none;
}

bool
super_room_is_short(const char *meminfo, const char *pressure)
{
	return number_of(meminfo, "MemAvailable:", 1) <
		   number_of(meminfo, "MemTotal:", 0) / FREE_PART ||
	       number_of(pressure, "some avg10=", 0) >= STALL_PERCENT;
}

static bool
room_is_short(void)
{
	return super_room_is_short("/proc/meminfo", "/proc/pressure/memory");
}

static void
spare_end(struct super *s, const char *why)
{
	s->over = true;
	super_end(s, SANDBOX_KILLED, why);
}

static void
on_look(void *arg)
{
	struct super *s = arg;

	s->spare->later = NULL;
	if (room_is_short())
		spare_end(s, "sandbox: the machine is short of memory");
	else
		s->spare->later = loop_timer_add(s->loop, LOOK_MS, on_look, s);
}

/* --- it is built ------------------------------------------------------------------------------ */

/* The first name that is free, and in its lock what this is built from, in short. */
static bool
name_take(struct super *s)
{
	char hint[CALL_HINT + 1];
	struct err ignored;

	call_hint(s->spare->built_from, hint);
	for (unsigned i = 1; i <= CALL_SPARES_MAX; i++) {
		(void)snprintf(s->spare->name, sizeof(s->spare->name), CALL_SPARE_NAME, i);
		if (super_name_take(s->spare->name, &s->name, &ignored) == 0)
			return ftruncate(s->name.lock, 0) == 0 &&
			       pwrite(s->name.lock, hint, CALL_HINT, 0) == CALL_HINT;
	}
	return false;
}

static struct str
copy(struct str s)
{
	return str_mem(str_dup(s), s.n);
}

/* Nobody hears of what goes wrong: then there is no spare. */
void
super_spare_create(struct super_conn *c, uint32_t tag UNUSED, struct rd *r)
{
	struct super *s = c->s;
	struct super_spare *p = s->spare = xcalloc(1, sizeof(*p));

	p->seconds = rd_u32(r);
	p->built_from = copy(rd_lstr(r));
	p->spec = copy(rd_lstr(r));
	p->waits = true;
	super_conn_drop(c);
	if (!rd_end(r) || p->seconds < 1 || p->seconds > CALL_SPARE_S_MAX || room_is_short() ||
	    !name_take(s)) {
		spare_end(s, "sandbox: no spare");
		return;
	}
	super_begin(s, p->spec);
	if (s->state == SUPER_DEAD)
		return;
	s->deadline = super_clock(s) + p->seconds * INT64_C(1000);
	p->later = loop_timer_add(s->loop, LOOK_MS, on_look, s);
}

bool
super_spare_waits(const struct super *s)
{
	return s->spare != NULL && s->spare->waits;
}

const char *
super_spare_name(const struct super *s)
{
	return super_spare_waits(s) ? s->spare->name : "";
}

/* --- it is taken ------------------------------------------------------------------------------ */

static void
on_later(void *arg)
{
	struct super *s = arg;

	s->spare->later = NULL;
	super_spare_next(s);
}

/* The taker alone is there from here on, and its time begins. */
static void
give(struct super_conn *c, uint32_t tag, uint32_t seconds)
{
	struct super *s = c->s;
	AUTO_BUF struct buf b = BUF(65536 + 4);

	s->spare->waits = false;
	s->spare->seconds = seconds;
	for (struct super_conn *o = s->conns; o != NULL; o = o->next)
		if (o != c)
			super_conn_drop(o);
	c->known = c->maker = true;
	c->kind = SUPER_WHOLE;
	s->created_ms = super_wall_ms();
	s->deadline = super_clock(s) + s->spec.limits.wall_s * INT64_C(1000);
	super_listener_close(s); /* before anybody knows */
	buf_lz(&b, s->level);
	if (!super_conn_send(c, CALL_CREATED, tag, &b, s->box.listeners, s->box.nlisteners))
		super_conn_drop(c);
	loop_timer_del(s->spare->later);
	s->spare->later = loop_timer_add(s->loop, LONG_MS, on_later, s);
}

void
super_spare_take(struct super_conn *c, uint32_t tag, struct rd *r)
{
	struct super *s = c->s;
	unsigned version = rd_u8(r);
	uint32_t seconds = rd_u32(r);
	struct str built_from = rd_lstr(r);
	bool is_it = rd_end(r) && version == CALL_VERSION && seconds >= 1 &&
		     seconds <= CALL_SPARE_S_MAX && s->state == SUPER_LIVE &&
		     super_peer_is_own(c->fd) && str_eq(built_from, s->spare->built_from);

	if (is_it && s->box.backend->still(&s->box)) {
		give(c, tag, seconds);
		return;
	}
	c->leaving = true;
	super_conn_error(
	    c, tag, ERR_NOT_FOUND, "sandbox: %s is not what is asked for", s->spare->name);
	/* What it shows is not there any more: nobody will ask for it. */
	if (is_it)
		spare_end(s, "sandbox: what it shows has changed");
}

void
super_spare_next(struct super *s)
{
	struct super_spare *p = s->spare;
	struct err ignored;

	if (p == NULL || p->waits || p->last)
		return;
	p->last = true;
	super_name_free(&s->name);
	s->box.name = NULL;
	(void)client_spare_begin(p->seconds, p->built_from, p->spec, &ignored);
}

void
super_spare_last(struct super *s)
{
	if (s->spare != NULL)
		s->spare->last = true;
}

void
super_spare_free(struct super *s)
{
	if (s->spare == NULL)
		return;
	loop_timer_del(s->spare->later);
	free((void *)(uintptr_t)s->spare->built_from.p);
	free((void *)(uintptr_t)s->spare->spec.p);
	free(s->spare);
	s->spare = NULL;
}
