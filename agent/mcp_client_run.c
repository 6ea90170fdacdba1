/*
 * The run of a client of cofferdam-mcp: begun with the first call that needs one, ended with the
 * client. Runs in the hub. A run that a person or the broker ended is not begun again by the same
 * client: who stopped it meant it.
 */
#include "agent/mcp_client.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define END_S 20 /* for the broker to take the end of a run */

static void
contexts_forget(struct mcp_client *c)
{
	for (size_t i = 0; i < c->ncontexts; i++)
		c->contexts[i].id[0] = '\0';
}

static struct mcp_work *
first_live(struct mcp_client *c)
{
	struct mcp_work *w;

	TAILQ_FOREACH (w, &c->works, link)
		if (w->state != MCP_ENDED)
			return w;
	return NULL;
}

void
mcp_client_run_over(struct mcp_client *c, const char *why)
{
	struct mcp_work *w;

	cleanup_close_fd(&c->life);
	contexts_forget(c);
	if (c->holder != NULL)
		mcp_work_free(TAKE_PTR(c->holder));
	if (c->ends) {
		c->state = MCP_RUN_NONE;
		c->ends = false;
		why = "the run was ended by `end`";
	} else {
		c->state = MCP_RUN_OVER;
		free(c->why);
		c->why = xasprintf(
		    "the run is over: %s. This session begins no other: tell the user", why);
		why = c->why;
	}
	/* What runs hears it from its job, which says more; who waits would wait for ever. */
	while ((w = first_live(c)) != NULL && w->state == MCP_WAITS)
		mcp_work_fail(w, why);
}

/* --- its beginning ---------------------------------------------------------------------- */

static void
begun(struct mcp_client *c, struct str body)
{
	struct rd r = rd_init(body);
	AUTO_FREE char *run = str_dup(rd_lstr(&r));
	AUTO_FREE char *owner = str_dup(rd_lstr(&r));

	c->state = MCP_RUN_LIVE;
	log_info("run %s of %s begun for %s", run, owner,
	    c->who[0] != '\0' ? c->who : mcp_session_client(c->session));
}

/* It could not be begun: who waits is told, and the next call tries again. */
static void
not_begun(struct mcp_client *c, const char *why)
{
	struct mcp_work *w;

	c->state = MCP_RUN_NONE;
	cleanup_close_fd(&c->life);
	while ((w = first_live(c)) != NULL)
		mcp_work_fail(w, why);
}

static void
on_frame(void *arg, enum mcp_frame type, struct str body)
{
	struct mcp_work *w = arg;
	struct mcp_client *c = w->c;
	struct rd r = rd_init(body);
	AUTO_FREE char *words = NULL;

	if (type == MCP_F_RUN) {
		begun(c, body);
		mcp_client_turn(c);
		return;
	}
	(void)rd_u32(&r);
	words = type == MCP_F_FAILURE ? str_dup(rd_lstr(&r)) : xstrdup("its keeper has ended");
	c->holder = NULL;
	mcp_work_free(w);
	if (c->state == MCP_RUN_BEGINS)
		not_begun(c, words);
	else
		mcp_client_run_over(c, words);
	mcp_client_turn(c);
}

static void
on_child(void *arg UNUSED, pid_t pid UNUSED, int status UNUSED)
{
}

static void
keeper_name(char id[KEEPER_ID_MAX + 1])
{
	AUTO_BUF struct buf b = BUF(64);
	uint8_t room[16];

	rand_bytes(room, sizeof(room));
	enc_base32(&b, str_mem(room, sizeof(room)));
	(void)snprintf(id, KEEPER_ID_MAX + 1, "%.*s", STR_ARG(buf_str(&b)));
}

static int
holder_begin(struct mcp_client *c, struct mcp_work *w, struct err *err)
{
	AUTO_FREE char *task = xasprintf("MCP%s%s%s%s", c->who[0] != '\0' ? " for " : "", c->who,
	    mcp_session_client(c->session)[0] != '\0' ? ", client " : "",
	    mcp_session_client(c->session));
	struct keeper_ask ask = c->config->ask;
	AUTO_FD int theirs = -1;
	int pair[2], fd, rc;

	if (pipe2(pair, O_CLOEXEC) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "pipe");
	theirs = pair[0];
	c->life = pair[1];
	keeper_name(c->keeper);
	ask.id = c->keeper;
	ask.task = c->config->task != NULL ? c->config->task : task;
	w->order.ask = &ask;
	w->order.life_fd = theirs;
	if ((rc = mcp_job_begin(&w->order, &w->pid, &fd, err)) != 0)
		return rc;
	loop_child_add(c->loop, w->pid, on_child, NULL);
	w->wire = mcp_wire_new(c->loop, fd, on_frame, w);
	return 0;
}

static void
begin(struct mcp_client *c)
{
	struct mcp_work *w = xcalloc(1, sizeof(*w));
	struct err e = {0};

	*w = (struct mcp_work){.c = c, .state = MCP_RUNS, .order = {.begin = true}};
	c->ends = false;
	c->state = MCP_RUN_BEGINS;
	if (holder_begin(c, w, &e) != 0) {
		mcp_work_free(w);
		not_begun(c, e.msg);
		return;
	}
	c->holder = w;
}

/* The first that waits and has nothing to wait for but the run. */
static struct mcp_work *
ready(struct mcp_client *c)
{
	struct mcp_work *w;

	TAILQ_FOREACH (w, &c->works, link)
		if (w->state == MCP_WAITS && (w->context == NULL || !w->context->busy))
			return w;
	return NULL;
}

void
mcp_client_turn(struct mcp_client *c)
{
	struct mcp_work *w;

	while ((w = ready(c)) != NULL) {
		if (c->state == MCP_RUN_BEGINS)
			return;
		if (c->state == MCP_RUN_OVER)
			mcp_work_fail(w, c->why);
		else if (c->state == MCP_RUN_NONE)
			begin(c);
		else
			mcp_work_begin(w);
	}
}

/*
 * Said on the record by a process of its own, so that the hub waits for nobody; it holds the run's
 * life until then. If it cannot be said, the end of `life` ends the run all the same.
 */
static _Noreturn void
end_say(struct mcp_client *c, const char *said)
{
	struct keeper *k = NULL;

	if (dup2(c->life, 3) != 3)
		_exit(1);
	(void)close_range(4, ~0u, 0);
	(void)close(0);
	(void)close(1);
	(void)signal(SIGALRM, SIG_DFL);
	(void)alarm(END_S);
	if (keeper_open(c->keeper, &k, NULL) == 0)
		(void)keeper_end(k, "done", said, NULL);
	keeper_close(k);
	_exit(0);
}

void
mcp_client_run_end(struct mcp_client *c, const char *said)
{
	pid_t pid = c->state == MCP_RUN_LIVE ? fork() : -1;

	if (pid == 0)
		end_say(c, said);
	if (pid > 0)
		loop_child_add(c->loop, pid, on_child, NULL);
	cleanup_close_fd(&c->life);
	if (c->holder != NULL)
		mcp_work_free(TAKE_PTR(c->holder));
	c->state = MCP_RUN_OVER;
}
