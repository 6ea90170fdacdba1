/*
 * Runs after core was restarted (process: core): the listeners that the parent kept are matched
 * with the runs of the log, and a run waits a while for its agent. What the log does not have is
 * closed; what it has and nothing listens for any more is made anew or, with the parent gone, lost.
 */
#include "broker/core_kept.h"

#include <stdlib.h>
#include <unistd.h>

#include "broker/core_child.h"
#include "broker/core_patch.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

/* --- from the log ---------------------------------------------------------------- */

static void
run_target(struct core_run *run, const struct json *v, size_t index)
{
	const struct policy *p =
	    run->core->policy_next != NULL ? run->core->policy_next : run->core->policy;
	struct str id = json_str(json_get(v, "target")), place = json_str(json_get(v, "place"));
	const struct policy_target *t = p != NULL ? policy_target(p, id) : NULL;
	AUTO_FREE char *z = str_dup(id), *kind = str_dup(json_str(json_get(v, "kind"))),
		       *scheme = str_dup(json_str(json_get(v, "scheme"))),
		       *host = str_dup(json_str(json_get(v, "host"))),
		       *address = str_dup(json_str(json_get(v, "address"))),
		       *db = str_dup(t != NULL ? t->database : STR("")),
		       *user = str_dup(t != NULL ? t->user : STR(""));
	struct core_target to = {.id = z,
	    .kind = kind,
	    .scheme = scheme,
	    .host = host,
	    .address = address,
	    .database = db,
	    .user = user,
	    .port = (uint16_t)json_int(json_get(v, "port")),
	    .listen = (enum core_listen)json_int(json_get(v, "listen"))};

	if (place.n == CORE_PLACE_SIZE - 1)
		memcpy(to.place, place.p, place.n);
	core_run_target_put(run, index, &to);
}

static char *
field(const struct json *data, const char *key)
{
	return str_dup(json_str(json_get(data, key)));
}

const char *
core_kept_start(struct core *c, struct str id, struct str time, const struct json *data)
{
	AUTO_FREE char *z = str_dup(id);
	struct core_run *run = core_run_find(c, id);
	const struct json *targets = json_get(data, "targets");
	int64_t began;
	struct err why;

	if (id.n == 0 || id.n >= CORE_ID_SIZE || json_count(targets) > CORE_SLOTS_MAX)
		return "run";
	if (run != NULL) {
		run->seen = true;
		return NULL;
	}
	if (core_run_new(c, z, &run, &why) != 0) {
		log_error("run %s cannot be taken up again: %s", z, why.msg);
		return NULL;
	}
	run->state = CORE_RUN_LIVE;
	run->seen = run->recorded = run->rebuilt = true;
	run->agent = field(data, "agent");
	run->owner = field(data, "owner");
	run->login = field(data, "login");
	run->all = json_bool(json_get(data, "all"));
	for (size_t i = 0; i < json_count(targets); i++) {
		run_target(run, json_at(targets, i), i);
		if (run->targets[i].id[0] != '\0')
			core_run_name_add(run, str_z(run->targets[i].id));
		run->loop = run->loop || run->targets[i].listen == CORE_LISTEN_UNIX;
	}
	run->naddresses = (uint32_t)run->ntargets;
	if (clock_parse(time, &began, &why) == 0)
		run->began_us = began;
	return core_child_kept(run, data);
}

const char *
core_kept_targets(struct core *c, struct str id, const struct json *data)
{
	static const struct core_target none = {.state = CORE_TARGET_GONE};
	struct core_run *run = core_run_find(c, id);
	const struct json *targets = json_get(data, "targets");

	/* Of one that is here, memory knows better than the log what it has now. */
	if (run == NULL || !run->rebuilt)
		return NULL;
	for (size_t i = 0; i < run->ntargets; i++)
		core_run_target_put(run, i, &none);
	for (size_t i = 0; i < json_count(targets); i++) {
		int64_t at = json_int(json_get(json_at(targets, i), "index"));

		if (at < 0 || at >= CORE_SLOTS_MAX)
			return "index";
		while (run->ntargets < (size_t)at)
			core_run_target_put(run, run->ntargets, &none);
		run_target(run, json_at(targets, i), (size_t)at);
	}
	run->naddresses = (uint32_t)json_int(json_get(data, "addresses"));
	return NULL;
}

/* --- with what the parent kept --------------------------------------------------- */

static void
not_resumed(void *arg)
{
	struct core_run *run = arg;

	run->timer = NULL;
	core_run_end(run, "lost", STR("the agent did not come back"), false);
}

static void
kept_take(struct core *c, struct core_kept *k)
{
	struct core_run *run = core_run_find(c, str_z(k->run));
	struct err err;

	TAILQ_REMOVE(&c->kept, k, link);
	if (run == NULL) {
		AUTO_BUF struct buf b = BUF(256);

		(void)close(k->fd);
		buf_lz(&b, k->run);
		core_send(&c->parent, MSG_K_DROP, &b);
	} else if (k->index >= run->ntargets || run->targets[k->index].listen == CORE_LISTEN_NONE) {
		/* Of a target that came or went when core died: never recorded as served. */
		core_run_listen_shut(&k->fd);
		core_run_listen_forget(c, k->run, k->index);
	} else if (core_run_listen(run, k->index, k->fd, &err) != 0) {
		log_warn("kept listener of run %s: %s", run->id, err.msg);
	}
	free(k);
}

static bool
is_deaf(const struct core_target *t)
{
	return t->state == CORE_TARGET_SERVES && t->listen != CORE_LISTEN_NONE && t->fd < 0;
}

/* Which run of the log has no listener any more, or not the one that its loop needs? */
static struct core_run *
deaf(const struct core *c)
{
	struct core_run *run;

	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not follow TAILQ_REMOVE */
	TAILQ_FOREACH (run, &c->runs, link) {
		size_t hears = 0, lost = 0;

		for (size_t i = 0; run->state == CORE_RUN_LIVE && i < run->ntargets; i++) {
			const struct core_target *t = &run->targets[i];

			hears += t->fd >= 0;
			lost += is_deaf(t);
			if (is_deaf(t) && t->listen == CORE_LISTEN_UNIX)
				return run;
		}
		if (hears == 0 && lost != 0)
			return run;
	}
	return NULL;
}

/* Closed, and core died before that was recorded: made anew, if the policy still has it. */
static void
deaf_targets(struct core_run *run)
{
	for (size_t i = 0; run->state == CORE_RUN_LIVE && i < run->ntargets; i++)
		if (is_deaf(&run->targets[i]))
			core_patch_revoke(run, i);
}

void
core_kept_settle(struct core *c)
{
	struct core_run *run;
	struct core_kept *k;

	while ((k = TAILQ_FIRST(&c->kept)) != NULL)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not follow TAILQ_REMOVE */
		kept_take(c, k);
	/* The parent has handed over all it keeps: it died too, and the sandbox is cut off. */
	while (c->kept_end && (run = deaf(c)) != NULL)
		core_run_end(run, "lost", STR("its listeners went with the broker"), false);
	TAILQ_FOREACH (run, &c->runs, link) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not follow TAILQ_REMOVE */
		core_run_serve(run);
		if (c->kept_end)
			deaf_targets(run);
		core_patch_run(run);
		if (run->state == CORE_RUN_LIVE && run->until == NULL)
			core_child_clock(run, run->began_us);
		if (run->state == CORE_RUN_LIVE && run->peer == NULL && run->timer == NULL)
			run->timer = loop_timer_add(c->loop, CORE_RESUME_MS, not_resumed, run);
	}
}

int
core_kept_on_kept(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	struct core *c = p->core;
	struct str run = rd_lstr(body);
	uint32_t index = rd_u32(body);
	struct core_kept *k;

	if (!rd_end(body) || nfds != 1 || run.n >= CORE_ID_SIZE)
		return err_set(err, ERR_PROTOCOL, "K_KEPT is malformed");
	k = xcalloc(1, sizeof(*k));
	memcpy(k->run, run.p, run.n);
	k->index = index;
	k->fd = TAKE_FD(fds[0]);
	TAILQ_INSERT_TAIL(&c->kept, k, link);
	if (c->live)
		core_kept_settle(c);
	return 0;
}

int
core_kept_on_kept_end(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err)
{
	(void)fds;
	(void)nfds;
	if (!rd_end(body))
		return err_set(err, ERR_PROTOCOL, "K_KEPT_END is malformed");
	p->core->kept_end = true;
	if (p->core->live)
		core_kept_settle(p->core);
	return 0;
}
