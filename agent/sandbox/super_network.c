/*
 * The sandbox as a whole while it runs: pause, and targets that come and go. Runs in the
 * supervisor. A change of targets is made whole or not at all, and one that goes is closed for
 * whoever holds its listener.
 */
#include "agent/sandbox/super_state.h"

#include "common/xalloc.h"

#include "common/banned.h"

void
super_box_pause(struct super_conn *c, uint32_t tag, bool on)
{
	struct super *s = c->s;
	struct err e = {0};

	if ((s->box.lacks & SANDBOX_LAYER_FREEZER) != 0 || s->box.backend->freeze == NULL) {
		super_conn_error(c, tag, ERR_UNAVAILABLE,
		    "sandbox: no freezer here: pause needs cgroup version 2, or version 1 with "
		    "the controller freezer");
		return;
	}
	if (on != (s->state == SUPER_PAUSED)) {
		if (s->box.backend->freeze(&s->box, on, &e) != 0) {
			super_conn_error(c, tag, e.code, "%s", e.msg);
			return;
		}
		super_time_pause(s, on);
	}
	super_conn_done(c, tag);
}

/* --- targets -------------------------------------------------------------------------------- */

struct change {
	struct spec_target add[SANDBOX_TARGETS_MAX], all[SANDBOX_TARGETS_MAX];
	size_t nadd, nall;
	bool drop[SANDBOX_TARGETS_MAX]; /* by index of the spec */
	int fds[SANDBOX_TARGETS_MAX];
	size_t nfds; /* of add */
};

static void
change_free(struct change *g)
{
	super_fds_close(g->fds, &g->nfds);
	for (size_t i = 0; i < g->nadd; i++) {
		free(g->add[i].host);
		free(g->add[i].address);
	}
	free(g);
}
DEFINE_AUTO(change, struct change, change_free)

static char *
take_z(struct rd *r)
{
	struct str s = rd_lstr(r);

	if (s.n != 0 && memchr(s.p, '\0', s.n) != NULL)
		r->bad = true;
	return s.n != 0 ? str_dup(s) : NULL;
}

static int
drop_take(const struct super *s, struct rd *r, struct change *g, struct err *err)
{
	AUTO_FREE char *host = take_z(r), *address = take_z(r);
	uint16_t port = rd_u16(r);

	for (size_t i = 0; i < s->spec.ntargets && address != NULL; i++) {
		const struct spec_target *t = &s->spec.targets[i];

		if (t->port == port && strcmp(t->address, address) == 0 &&
		    str_eq(str_z(t->host), str_z(host)) && !g->drop[i]) {
			g->drop[i] = true;
			return 0;
		}
	}
	return err_set(err, ERR_NOT_FOUND, "sandbox: there is no target %s at %s:%u",
	    host != NULL ? host : "", address != NULL ? address : "", (unsigned)port);
}

/* Those that stay and those that come. */
static int
all_make(const struct super *s, struct change *g, struct err *err)
{
	for (size_t i = 0; i < s->spec.ntargets; i++)
		if (!g->drop[i])
			g->all[g->nall++] = s->spec.targets[i];
	for (size_t i = 0; i < g->nadd; i++) {
		for (size_t k = 0; k < g->nall; k++)
			if (g->add[i].address != NULL && g->all[k].port == g->add[i].port &&
			    strcmp(g->all[k].address, g->add[i].address) == 0)
				return err_set(err, ERR_EXISTS,
				    "sandbox: there is a target at %s:%u", g->add[i].address,
				    (unsigned)g->add[i].port);
		if (g->nall == SANDBOX_TARGETS_MAX)
			return err_set(err, ERR_TOO_LARGE, "sandbox: more than %d targets",
			    SANDBOX_TARGETS_MAX);
		g->all[g->nall++] = g->add[i];
	}
	return 0;
}

/* The same rules as for the targets of a spec. */
static int
rules_check(const struct change *g, struct err *err)
{
	AUTO_FREE struct sandbox_target *t = xcalloc(g->nall + 1, sizeof(*t));
	struct sandbox_spec spec = {.targets = t, .ntargets = g->nall};

	for (size_t i = 0; i < g->nall; i++)
		t[i] = (struct sandbox_target){.host = g->all[i].host != NULL ? g->all[i].host : "",
		    .address = g->all[i].address != NULL ? g->all[i].address : "",
		    .port = g->all[i].port};
	return sandbox_spec_check(&spec, err);
}

static int
change_read(const struct super *s, struct rd *r, struct change *g, struct err *err)
{
	uint32_t n = rd_u32(r);
	int rc;

	for (uint32_t i = 0; i < n && !r->bad; i++) {
		if (g->nadd == SANDBOX_TARGETS_MAX)
			return err_set(err, ERR_TOO_LARGE, "sandbox: %u targets, limit %d", n,
			    SANDBOX_TARGETS_MAX);
		g->add[g->nadd].host = take_z(r);
		g->add[g->nadd].address = take_z(r);
		g->add[g->nadd].port = rd_u16(r);
		g->nadd++;
	}
	n = rd_u32(r);
	for (uint32_t i = 0; i < n && !r->bad; i++)
		if ((rc = drop_take(s, r, g, err)) != 0)
			return rc;
	if (!rd_end(r))
		return err_set(err, ERR_PROTOCOL, "sandbox: malformed change of targets");
	if ((rc = all_make(s, g, err)) != 0)
		return rc;
	return rules_check(g, err);
}

static int
change_make(struct super *s, struct change *g, struct err *err)
{
	const struct backend *b = s->box.backend;
	int rc;

	if (b->listen == NULL || b->hosts == NULL)
		return err_set(err, ERR_UNSUPPORTED,
		    "sandbox: back end %s cannot change targets while it runs", b->name);
	for (; g->nfds < g->nadd; g->nfds++)
		if ((rc = b->listen(&s->box, &g->add[g->nfds], &g->fds[g->nfds], err)) != 0)
			return rc;
	return b->hosts(&s->box, g->all, g->nall, err);
}

/* Cannot fail. The listeners that are dropped are closed for everybody who holds them. */
static void
change_keep(struct super *s, struct change *g)
{
	struct super_spec *spec = &s->spec;
	size_t n = 0;

	for (size_t i = 0; i < spec->ntargets; i++) {
		if (g->drop[i]) {
			(void)shutdown(s->box.listeners[i], SHUT_RDWR);
			(void)close(s->box.listeners[i]);
			free(spec->targets[i].host);
			free(spec->targets[i].address);
			continue;
		}
		s->box.listeners[n] = s->box.listeners[i];
		spec->targets[n++] = spec->targets[i];
	}
	for (size_t i = 0; i < g->nadd; i++) {
		s->box.listeners[n] = g->fds[i];
		spec->targets[n++] = g->add[i];
	}
	/* The rest is moved, not copied: nothing of it may be freed twice. */
	for (size_t i = n; i < SANDBOX_TARGETS_MAX; i++)
		spec->targets[i] = (struct spec_target){0};
	spec->ntargets = s->box.nlisteners = n;
	g->nadd = g->nfds = 0;
}

void
super_network(struct super_conn *c, uint32_t tag, struct rd *r)
{
	struct super *s = c->s;
	AUTO(change) struct change *g = xcalloc(1, sizeof(*g));
	struct err e = {0};
	size_t n;

	if (change_read(s, r, g, &e) != 0 || change_make(s, g, &e) != 0) {
		super_conn_error(c, tag, e.code, "%s", e.msg);
		return;
	}
	n = g->nadd;
	change_keep(s, g);
	(void)super_conn_send(c, CALL_DONE, tag, NULL, s->box.listeners + s->box.nlisteners - n, n);
}
