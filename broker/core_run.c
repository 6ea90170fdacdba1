/*
 * Runs (process: core). A run is what the log says it is: it begins when run.start is durable
 * and ends when run.end is. Listeners come from the agent, which is the owner's process, and
 * go to front; the parent keeps a spare of each, so that a restart of core or front does not
 * take the sandbox's database away.
 */
#include "broker/core_run.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "broker/core_approve.h"
#include "broker/core_attempt.h"
#include "broker/core_child.h"
#include "broker/core_data.h"
#include "broker/core_facts.h"
#include "broker/core_http.h"
#include "broker/core_patch.h"
#include "broker/core_peer.h"
#include "broker/core_pg.h"
#include "broker/core_question.h"
#include "broker/core_steer.h"
#include "broker/core_watch.h"
#include "broker/core_words.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define STREAMS_MS 300

struct core_run *
core_run_find(const struct core *c, struct str id)
{
	struct core_run *run;

	TAILQ_FOREACH (run, &c->runs, link)
		if (str_eqz(id, run->id))
			return run;
	return NULL;
}

/* --- blob keys ------------------------------------------------------------------- */

static int
key_make(int dir, const char *name, struct secret **ret, struct err *err)
{
	AUTO(secret) struct secret *key = secret_new(BLOB_KEY_LEN);
	AUTO_FD int fd =
	    openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_sys(err, ERR_SYSTEM, errno, "blob key %s", name);
	rand_bytes(secret_bytes(key), BLOB_KEY_LEN);
	if (write(fd, secret_bytes(key), BLOB_KEY_LEN) != BLOB_KEY_LEN || fsync(fd) != 0 ||
	    fsync(dir) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "blob key %s", name);
	*ret = TAKE_PTR(key);
	return 0;
}

static int
key_read(int dir, const char *name, struct secret **ret, struct err *err)
{
	AUTO(secret) struct secret *key = NULL;
	AUTO_FD int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	int rc;

	if (fd < 0)
		return err_sys(
		    err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, errno, "blob key %s", name);
	rc = secret_read_fd(fd, BLOB_KEY_LEN, &key, err);
	if (rc != 0)
		return err_wrap(err, "blob key %s", name);
	if (secret_str(key).n != BLOB_KEY_LEN)
		return err_set(err, ERR_CONFIG, "blob key %s must have %d bytes, has %zu", name,
		    BLOB_KEY_LEN, secret_str(key).n);
	*ret = TAKE_PTR(key);
	return 0;
}

int
core_run_key(struct core *c, const char *kid, bool make, struct secret **ret, struct err *err)
{
	AUTO_FREE char *name = xasprintf("%s.key", kid);

	return make ? key_make(c->blobkeys_fd, name, ret, err)
		    : key_read(c->blobkeys_fd, name, ret, err);
}

/* --- memory ---------------------------------------------------------------------- */

int
core_run_new(struct core *c, const char *id, struct core_run **ret, struct err *err)
{
	struct core_run *run;
	struct secret *key = NULL;
	char fresh[CORE_ID_SIZE];
	int rc;

	if (c->nruns >= CORE_RUNS_MAX)
		return err_set(err, ERR_TOO_LARGE, "%d runs are open, the limit", CORE_RUNS_MAX);
	if (id == NULL)
		core_id(fresh, "r-");
	rc = core_run_key(c, id != NULL ? id : fresh, id == NULL, &key, err);
	if (rc != 0)
		return rc;
	run = xcalloc(1, sizeof(*run));
	run->core = c;
	run->key = key;
	run->targets = xcalloc(CORE_SLOTS_MAX, sizeof(*run->targets));
	(void)snprintf(run->id, sizeof(run->id), "%s", id != NULL ? id : fresh);
	run->most = CORE_EFFECTS_ANY;
	TAILQ_INIT(&run->requests);
	TAILQ_INIT(&run->says);
	TAILQ_INIT(&run->asks);
	TAILQ_INSERT_TAIL(&c->runs, run, link);
	c->nruns++;
	*ret = run;
	return 0;
}

static void
target_free(struct core_target *t)
{
	if (t->fd >= 0)
		(void)close(t->fd);
	free(t->id);
	free(t->kind);
	free(t->scheme);
	free(t->host);
	free(t->address);
	free(t->database);
	free(t->user);
}

void
core_run_target_put(struct core_run *run, size_t index, const struct core_target *t)
{
	struct core_target *to = &run->targets[index], was = *to;

	assert(index < CORE_SLOTS_MAX && index <= run->ntargets);
	*to = *t;
	to->fd = -1;
	to->listener = 0;
	to->id = str_dup(str_z(t->id));
	to->kind = str_dup(str_z(t->kind));
	to->scheme = str_dup(str_z(t->scheme));
	to->host = str_dup(str_z(t->host));
	to->address = str_dup(str_z(t->address));
	to->database = str_dup(str_z(t->database));
	to->user = str_dup(str_z(t->user));
	if (index == run->ntargets)
		run->ntargets++;
	else
		target_free(&was);
}

void
core_run_target_add(struct core_run *run, const struct core_target *t)
{
	core_run_target_put(run, run->ntargets, t);
	run->naddresses++;
}

void
core_run_target_gone(struct core_target *t)
{
	char **words[] = {&t->id, &t->kind, &t->scheme, &t->database, &t->user};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		free(*words[i]);
		*words[i] = xstrdup("");
	}
	t->port = 0;
	t->listen = CORE_LISTEN_NONE;
	t->listener = 0;
	t->place[0] = '\0';
	t->state = CORE_TARGET_GONE;
}

void
core_run_name_add(struct core_run *run, struct str id)
{
	run->names = xreallocarray(run->names, run->nnames + 1, sizeof(*run->names));
	run->names[run->nnames++] = str_dup(id);
}

void
core_run_free(struct core_run *run)
{
	TAILQ_REMOVE(&run->core->runs, run, link);
	run->core->nruns--;
	core_pg_end(run, NULL, "the run has ended");
	core_http_end_now(run);
	core_facts_drop(run);
	core_approve_free_all(run);
	core_run_parser_gone(run);
	if (run->peer != NULL)
		run->peer->run = NULL;
	core_record_forget(run->ticket);
	loop_timer_del(run->timer);
	loop_timer_del(run->until);
	core_watch_free(run);
	core_steer_free(run);
	for (size_t i = 0; i < run->ntargets; i++)
		target_free(&run->targets[i]);
	free(run->targets);
	core_patch_free(run);
	core_attempt_free(run);
	secret_free(run->key);
	free(run->agent);
	free(run->owner);
	free(run->login);
	free(run->said);
	free(run->task);
	free(run->end_status);
	free(run->end_text);
	free(run->spent);
	core_told_free(run);
	core_question_free(run);
	free(run);
}

/* --- serving --------------------------------------------------------------------- */

static void
tell_parent(struct core_run *run, uint16_t type)
{
	AUTO_BUF struct buf b = BUF(256);

	buf_lz(&b, run->id);
	core_send(&run->core->parent, type, &b);
}

void
core_run_serve(struct core_run *run)
{
	struct core *c = run->core;

	if (run->state != CORE_RUN_LIVE)
		return;
	if (!run->parser_asked) {
		run->parser_asked = true;
		tell_parent(run, MSG_K_PARSER);
	}
	for (size_t i = 0; c->front != NULL && i < run->ntargets; i++)
		if (run->targets[i].fd >= 0 && run->targets[i].listener == 0 &&
		    run->targets[i].state == CORE_TARGET_SERVES)
			core_run_listen_send(run, &run->targets[i]);
}

void
core_run_front_up(struct core *c)
{
	struct core_run *run;

	TAILQ_FOREACH (run, &c->runs, link)
		core_run_serve(run);
}

void
core_run_front_gone(struct core *c)
{
	struct core_run *run;

	TAILQ_FOREACH (run, &c->runs, link)
		for (size_t i = 0; i < run->ntargets; i++)
			run->targets[i].listener = 0;
}

void
core_run_parser_gone(struct core_run *run)
{
	struct core_peer *p = run->parser;

	run->parser = NULL;
	if (p == NULL)
		return;
	ipc_free(p->wire);
	free(p);
	core_facts_parser_down(run);
}

/* --- end ------------------------------------------------------------------------- */

static void
tell_agent(struct core_run *run, int code)
{
	struct core_peer *p = run->peer;
	AUTO_BUF struct buf b = BUF(4096);

	if (p == NULL)
		return;
	if (code == 0) {
		core_send(p, MSG_A_ENDED, NULL);
	} else {
		buf_u32(&b, (uint32_t)-code);
		buf_lz(&b, "the end of the run could not be recorded");
		core_send(p, MSG_A_ERROR, &b);
	}
	p->state = CORE_S_ENDED;
	p->run = NULL;
	run->peer = NULL;
}

static void
end_acked(void *arg, const struct core_ack *ack)
{
	struct core_run *run = arg;

	run->ticket = NULL;
	/* Not durable: the log still has the run, and its end is recorded when the log is back. */
	if (ack->code == 0)
		log_info("run %s ended: %s", run->id, run->end_status);
	tell_agent(run, ack->code);
	core_run_free(run);
}

static void
kill_agent(struct core_run *run, struct str text)
{
	AUTO_BUF struct buf b = BUF(4096);

	if (run->peer == NULL)
		return;
	buf_lstr(&b, str_mem(text.p, text.n < 2048 ? text.n : 2048));
	core_send(run->peer, MSG_A_KILL, &b);
	run->peer->state = CORE_S_ENDED;
	run->peer->run = NULL;
	run->peer = NULL;
}

static void
end_record(struct core_run *run)
{
	AUTO_BUF struct buf b = BUF(16384);

	core_data_run_end(&b, run->end_status, str_z(run->end_text), run->spent);
	run->ticket = core_record(run->core, &(struct core_append){.type = "run.end",
						 .run = run->id,
						 .flags = CORE_REC_CHECKPOINT,
						 .data = &b,
						 .fn = end_acked,
						 .arg = run});
	if (run->ticket == NULL) {
		tell_agent(run, ERR_UNAVAILABLE);
		core_run_free(run);
	}
}

/* The accounts of its streams should stand before its end; they are not waited for for long. */
static void
streams_late(void *arg)
{
	struct core_run *run = arg;

	run->until = NULL;
	core_http_end_now(run);
	end_record(run);
}

void
core_run_end(struct core_run *run, const char *status, struct str text, bool by_agent)
{
	struct core *c = run->core;

	if (run->state == CORE_RUN_ENDING)
		return;
	if (run->state ==
	    CORE_RUN_STARTING) { /* ends when its start is known to be durable or not */
		free(run->end_status);
		run->end_status = xstrdup(status);
		if (!by_agent)
			kill_agent(run, text);
		return;
	}
	tell_parent(run, MSG_K_DROP);
	if (run->state == CORE_RUN_PLANNED) {
		AUTO_FREE char *key = xasprintf("%s.key", run->id);

		if (!run->recorded)
			(void)unlinkat(c->blobkeys_fd, key, 0);
		if (by_agent)
			tell_agent(run, 0);
		core_run_free(run);
		return;
	}
	run->state = CORE_RUN_ENDING;
	core_child_end_all(run);
	if (!by_agent)
		kill_agent(run, text);
	loop_timer_del(run->timer);
	loop_timer_del(run->until);
	run->timer = run->until = NULL;
	core_pg_end(run, NULL, "the run has ended");
	core_http_end(run, NULL);
	core_approve_run_ended(run);
	if (c->front != NULL) {
		AUTO_BUF struct buf b = BUF(256);

		buf_lz(&b, run->id);
		core_send(c->front, MSG_F_UNLISTEN, &b);
	}
	if (run->parser_asked)
		tell_parent(run, MSG_K_PARSER_END);
	core_run_parser_gone(run);
	free(run->end_status);
	run->end_status = xstrdup(status);
	run->end_text = str_dup(text);
	if (run->nstreams != 0)
		run->until = loop_timer_add(c->loop, STREAMS_MS, streams_late, run);
	else
		end_record(run);
}

void
core_run_stream_ended(struct core_run *run)
{
	if (run->state != CORE_RUN_ENDING || run->nstreams != 0 || run->until == NULL)
		return;
	loop_timer_del(TAKE_PTR(run->until));
	end_record(run);
}

void
core_run_revoke(struct core_run *run, const char *by, struct str reason)
{
	AUTO_BUF struct buf b = BUF(2048), text = BUF(2048);

	if (run->state == CORE_RUN_ENDING)
		return;
	core_data_run_revoke(&b, by, reason);
	if (core_record(run->core,
		&(struct core_append){
		    .type = "run.revoke", .src = "operator", .run = run->id, .data = &b}) == NULL)
		log_error("run %s: who revoked it cannot be recorded now: %s", run->id, by);
	buf_printf(&text, "revoked by %s%s", by, reason.n != 0 ? ": " : "");
	buf_put_str(&text, reason);
	core_run_end(run, "revoked", buf_str(&text), false);
}
