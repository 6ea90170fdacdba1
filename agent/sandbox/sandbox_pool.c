/*
 * Ready-made sandboxes, each used once (any caller's process). They are asked for ahead and built
 * by their supervisors while the caller does other things; who takes one looks which is there.
 * None goes back: what ran in it may have changed it. What is taken is replaced when its taker
 * waits for a program in it that takes long, or is done with it: not while an answer is waited for.
 */
#include "agent/sandbox/sandbox.h"

#include "common/xalloc.h"
#include "agent/sandbox/sandbox_client.h"
#include "agent/sandbox/sandbox_env.h"

#include "common/banned.h"

#define READY_MAX 64

struct sandbox_pool {
	struct buf create; /* the body of CREATE */
	char **env;
	uint32_t wall_s;
	uint64_t output_max;
	size_t ntargets, ready;
	struct pool_box {
		struct sandbox *sb;
		uint32_t tag;
	} boxes[READY_MAX]; /* oldest first */
	size_t nboxes;
	struct sandbox *taken; /* those that are not replaced yet, by ->pool_next */
};

static char **
env_dup(char *const *env)
{
	size_t n = 0;
	char **copy;

	while (env[n] != NULL)
		n++;
	copy = xcalloc(n + 1, sizeof(*copy));
	for (size_t i = 0; i < n; i++)
		copy[i] = xstrdup(env[i]);
	return copy;
}

/* Begins one more. */
static int
box_begin(struct sandbox_pool *p, struct err *err)
{
	AUTO(sandbox) struct sandbox *sb = client_new();
	uint32_t tag = 0;
	int rc;

	sb->env = env_dup(p->env);
	sb->output_max = p->output_max;
	if ((rc = client_supervise(sb, CLIENT_HOLDS, err)) != 0 ||
	    (rc = client_send(sb, CALL_CREATE, &p->create, NULL, 0, &tag, err)) != 0)
		return rc;
	p->boxes[p->nboxes++] = (struct pool_box){TAKE_PTR(sb), tag};
	return 0;
}

static struct pool_box
box_remove(struct sandbox_pool *p, size_t i)
{
	struct pool_box b = p->boxes[i];

	memmove(&p->boxes[i], &p->boxes[i + 1], (p->nboxes - i - 1) * sizeof(b));
	p->nboxes--;
	return b;
}

/* The first that has answered, good or bad; else the oldest. */
static size_t
box_pick(struct sandbox_pool *p)
{
	struct pollfd w[READY_MAX];

	for (size_t i = 0; i < p->nboxes; i++)
		w[i] = (struct pollfd){.fd = p->boxes[i].sb->wire, .events = POLLIN};
	if (poll(w, p->nboxes, 0) > 0)
		for (size_t i = 0; i < p->nboxes; i++)
			if (w[i].revents != 0)
				return i;
	return 0;
}

int
sandbox_pool_open(
    const struct sandbox_spec *spec, size_t ready, struct sandbox_pool **ret, struct err *err)
{
	AUTO(sandbox_pool) struct sandbox_pool *p = NULL;
	struct sandbox_limits def = sandbox_limits_default();
	const struct sandbox_limits *l = &spec->limits;
	int rc = sandbox_spec_check(spec, err);

	if (rc != 0)
		return rc;
	if (ready < 1 || ready > READY_MAX)
		return err_set(
		    err, ERR_INVALID, "sandbox: a pool of 1 to %d, not %zu", READY_MAX, ready);
	if (spec->name != NULL)
		return err_set(err, ERR_INVALID,
		    "sandbox: a pool's sandboxes have no name, not \"%s\"", spec->name);
	p = xcalloc(1, sizeof(*p));
	buf_init(&p->create, WIRE_BODY_MAX);
	p->env = sandbox_env_make(spec);
	p->wall_s = l->wall_s != 0 ? l->wall_s : def.wall_s;
	p->output_max = (uint64_t)(l->output_mib != 0 ? l->output_mib : def.output_mib) << 20;
	p->ntargets = spec->ntargets;
	p->ready = ready;
	if ((rc = client_create_body(spec, p->env, &p->create, err)) != 0)
		return rc;
	while (p->nboxes < ready)
		if ((rc = box_begin(p, err)) != 0)
			return rc;
	*ret = TAKE_PTR(p);
	return 0;
}

/* A supervisor says by itself that its sandbox has ended before anything was run in it. */
static int
box_lives(struct sandbox *sb, struct err *err)
{
	struct pollfd w = {.fd = sb->wire, .events = POLLIN};
	int rc;

	while (poll(&w, 1, 0) > 0)
		if ((rc = client_turn(sb, err)) != 0)
			return rc;
	return client_has(sb, 0) ? err_set(err, ERR_UNAVAILABLE, "sandbox: it has ended") : 0;
}

/* Its time begins now, not when it was built. One that ended meanwhile is not taken. */
static int
box_take(struct sandbox_pool *p, struct sandbox **ret, struct err *err)
{
	struct pool_box b = box_remove(p, box_pick(p));
	AUTO(sandbox) struct sandbox *sb = b.sb;
	AUTO_BUF struct buf time = BUF(8);
	int rc;

	buf_u32(&time, p->wall_s);
	if ((rc = client_created(sb, b.tag, p->ntargets, CLIENT_CREATE_MS, err)) != 0 ||
	    (rc = box_lives(sb, err)) != 0 || (rc = client_tell(sb, CALL_EXTEND, &time, err)) != 0)
		return rc;
	*ret = TAKE_PTR(sb);
	return 0;
}

/* No more than there should be; if none can be begun the next taker is told, if it is so then. */
static void
box_replace(struct sandbox_pool *p)
{
	struct err ignored;

	if (p->nboxes < p->ready)
		(void)box_begin(p, &ignored);
}

static void
taken_forget(struct sandbox *sb)
{
	struct sandbox **at = &sb->pool->taken;

	while (*at != sb)
		at = &(*at)->pool_next;
	*at = sb->pool_next;
	sb->pool = NULL;
	sb->spare = NULL;
}

/* The taker has time. */
static void
on_spare(struct sandbox *sb)
{
	struct sandbox_pool *p = sb->pool;

	taken_forget(sb);
	box_replace(p);
}

static void
taken_add(struct sandbox_pool *p, struct sandbox *sb)
{
	sb->pool = p;
	sb->spare = on_spare;
	sb->pool_next = p->taken;
	p->taken = sb;
	/* The next one may be wanted before there was time. */
	if (p->nboxes == 0)
		on_spare(sb);
}

int
sandbox_pool_take(struct sandbox_pool *p, struct sandbox **ret, struct err *err)
{
	struct sandbox *sb = NULL;
	struct err e = {0};

	while (sb == NULL && p->nboxes != 0)
		if (box_take(p, &sb, &e) != 0 && e.code != ERR_UNAVAILABLE)
			return err_set(err, e.code, "%s", e.msg);
	if (sb == NULL && (box_begin(p, &e) != 0 || box_take(p, &sb, &e) != 0))
		return err_set(err, e.code, "%s", e.msg);
	taken_add(p, sb);
	*ret = sb;
	return 0;
}

void
sandbox_pool_close(struct sandbox_pool *p)
{
	if (p == NULL)
		return;
	while (p->taken != NULL)
		taken_forget(p->taken);
	/* All are told before any is waited for. */
	for (size_t i = 0; i < p->nboxes; i++)
		(void)shutdown(p->boxes[i].sb->wire, SHUT_WR);
	for (size_t i = 0; i < p->nboxes; i++)
		sandbox_destroy(p->boxes[i].sb);
	for (size_t i = 0; p->env != NULL && p->env[i] != NULL; i++)
		free(p->env[i]);
	free(p->env);
	buf_free(&p->create);
	free(p);
}
