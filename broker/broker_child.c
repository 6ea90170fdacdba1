/*
 * The parent's children: start, death, restart with back-off. A child may have been taken
 * over; what the parent does for it at a restart is the same as at the first start, and
 * nothing a child does makes the parent itself end.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "broker/broker_parent.h"

#include "common/log.h"
#include "common/proc.h"
#include "common/proc_paths.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define DELAY_MIN 10
#define DELAY_MAX 1000

static const struct {
	enum ipc_role role;
	const char *name, *program;
} programs[] = {
    {IPC_ROLE_WRITER, "writer", "cofferdam-writer"},
    {IPC_ROLE_UPSTREAM, "upstream", "cofferdam-upstream"},
    {IPC_ROLE_CORE, "core", "cofferdam-core"},
    {IPC_ROLE_FRONT, "front", "cofferdam-front"},
    {IPC_ROLE_PARSER, "parser", "cofferdam-parser"},
    {IPC_ROLE_CONSOLE, "console", "cofferdam-console"},
    {IPC_ROLE_COURIER, "courier", "cofferdam-courier"},
};

struct child *
broker_child_new(struct broker *b, enum ipc_role role, const char *run, struct err *err)
{
	struct child *c;
	size_t i = 0;

	while (i < ARRAY_LEN(programs) && programs[i].role != role)
		i++;
	if (i == ARRAY_LEN(programs)) {
		(void)err_set(err, ERR_INTERNAL, "no program has role %d", (int)role);
		return NULL;
	}
	c = xcalloc(1, sizeof(*c));
	c->path = proc_program(programs[i].program);
	if (access(c->path, X_OK) != 0) {
		(void)err_sys(err, ERR_CONFIG, errno, "%s", c->path);
		free(c->path);
		free(c);
		return NULL;
	}
	c->b = b;
	c->role = role;
	c->name = programs[i].name;
	c->program = programs[i].program;
	/* Recorded answers in the state: upstream serves them, and connects to nothing. */
	if (role == IPC_ROLE_UPSTREAM && broker_state_has(&b->state, "answers")) {
		c->program = "cofferdam-rerun";
		log_warn("this broker answers from a recording: nothing is sent to any target");
	}
	memcpy(c->run, run, strlen(run));
	c->next = b->children;
	b->children = c;
	return c;
}

struct child *
broker_child_find(const struct broker *b, enum ipc_role role, struct str run)
{
	for (struct child *c = b->children; c != NULL; c = c->next)
		if (c->role == role && !c->doomed && str_eqz(run, c->run))
			return c;
	return NULL;
}

bool
broker_child_running(const struct child *c)
{
	return c->pid != 0;
}

static void
forget(struct child *c)
{
	struct child **at = &c->b->children;

	for (; *at != c; at = &(*at)->next)
		assert(*at != NULL);
	*at = c->next;
	loop_timer_del(c->restart);
	loop_timer_del(c->linger);
	ipc_free(c->wire);
	free(c->path);
	free(c);
}

void
broker_children_free(struct broker *b)
{
	while (b->children != NULL)
		forget(b->children);
}

/* --- death and restart -------------------------------------------------------------------- */

static void
death_log(const struct child *c, int status)
{
	const char *what = c->run[0] != '\0' ? " of run " : "";

	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		log_error("%s%s%s was killed by SIGSYS: it made a system call that its filter does "
			  "not have",
		    c->name, what, c->run);
	else if (WIFSIGNALED(status))
		log_error("%s%s%s was killed by SIG%s", c->name, what, c->run,
		    sigabbrev_np(WTERMSIG(status)) != NULL ? sigabbrev_np(WTERMSIG(status)) : "?");
	else
		log_error(
		    "%s%s%s exited with status %d", c->name, what, c->run, WEXITSTATUS(status));
}

/* How long to wait: 10 ms, doubling to 1 s; 5 s for one that does not stay alive. */
static unsigned
back_off(struct child *c)
{
	uint64_t now = loop_now_ms(c->b->loop), oldest;

	if (now - c->born >= BROKER_DEATHS_MS) {
		c->delay = 0;
		memset(c->deaths, 0, sizeof(c->deaths));
	}
	c->deaths[c->death_at] = now;
	c->death_at = (c->death_at + 1) % BROKER_DEATHS;
	oldest = c->deaths[c->death_at]; /* 0: there were fewer */
	if (c->delay == BROKER_SLOW_MS)
		return c->delay;
	c->delay = c->delay == 0 ? DELAY_MIN : c->delay * 2 < DELAY_MAX ? c->delay * 2 : DELAY_MAX;
	if (oldest != 0 && now - oldest <= BROKER_DEATHS_MS) {
		log_error("%s died %d times in %d s; it is started again every %d s only, and "
			  "%s meanwhile",
		    c->name, BROKER_DEATHS, BROKER_DEATHS_MS / 1000, BROKER_SLOW_MS / 1000,
		    c->role == IPC_ROLE_COURIER ? "nobody is told" : "nothing passes");
		c->delay = BROKER_SLOW_MS;
	}
	return c->delay;
}

static void
on_restart(void *arg)
{
	struct child *c = arg;

	c->restart = NULL;
	broker_child_start(c);
}

/* Core knows its runs; a new core asks for their parsers again. */
static void
parsers_doom(struct broker *b)
{
	struct child *c = b->children;

	while (c != NULL) {
		struct child *next = c->next;

		if (c->role == IPC_ROLE_PARSER && !c->doomed)
			broker_child_doom(c);
		c = next;
	}
}

static void
parser_tell(struct child *c)
{
	const struct child *core = broker_child_find(c->b, IPC_ROLE_CORE, STR(""));
	AUTO_BUF struct buf body = BUF(256);

	if (core == NULL || core->wire == NULL)
		return;
	buf_lz(&body, c->run);
	ipc_send(core->wire, MSG_K_PARSER_DIED, &body, NULL, 0);
}

/* Both halves have come: reaped, and its last words read. */
static void
ended(struct child *c)
{
	struct broker *b = c->b;

	c->ready = false;
	if (c->role == IPC_ROLE_CORE)
		parsers_doom(b);
	if (c->doomed) {
		forget(c);
		return;
	}
	if (b->stopping) {
		broker_stop_step(b);
		return;
	}
	if (c->role == IPC_ROLE_PARSER)
		parser_tell(c);
	c->restart = loop_timer_add(b->loop, back_off(c), on_restart, c);
}

static void
on_reaped(void *arg, pid_t pid UNUSED, int status)
{
	struct child *c = arg;

	c->pid = 0;
	loop_timer_del(TAKE_PTR(c->linger));
	if (!c->doomed && !(c->b->stopping && WIFEXITED(status) && WEXITSTATUS(status) == 0))
		death_log(c, status);
	if (c->wire == NULL)
		ended(c);
}

static void
on_linger(void *arg)
{
	struct child *c = arg;

	c->linger = NULL;
	log_error("%s closed its wire and did not end: it is killed", c->name);
	(void)kill(c->pid, SIGKILL);
}

static void
on_gone(void *arg, struct ipc *w, const char *why)
{
	struct child *c = arg;
	/* "closed the wire": it is ending, and may have something to finish. */
	bool ending = str_has_suffix(str_z(why), "closed the wire");

	ipc_free(w);
	c->wire = NULL;
	if (c->pid == 0) {
		ended(c);
	} else if (ending) {
		c->linger = loop_timer_add(c->b->loop, BROKER_STOP_MS, on_linger, c);
	} else {
		log_error("%s is ended: %s", c->name, why);
		(void)kill(c->pid, SIGKILL);
	}
}

void
broker_child_doom(struct child *c)
{
	c->doomed = true;
	if (c->role == IPC_ROLE_PARSER)
		c->b->parsers_n--;
	loop_timer_del(TAKE_PTR(c->restart));
	if (c->pid != 0)
		(void)kill(c->pid, SIGKILL);
	else if (c->wire == NULL)
		forget(c);
}

/* --- start ------------------------------------------------------------------------------------ */

static int
on_msg(void *arg, struct ipc *w UNUSED, uint16_t type, struct rd *body, int *fds,
    size_t nfds UNUSED, struct err *err)
{
	return broker_msg(arg, type, body, fds, err);
}

static int
start(struct child *c, struct err *err)
{
	AUTO_FD int ours = -1;
	AUTO_FD int theirs = -1;
	int sv[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "socketpair");
	ours = sv[0];
	theirs = sv[1];
	rc = proc_spawn(c->path, c->program, theirs, &c->pid, err);
	if (rc != 0)
		return rc;
	loop_child_add(c->b->loop, c->pid, on_reaped, c);
	c->wire = ipc_new(c->b->loop, TAKE_FD(ours), IPC_ROLE_PARENT, c->role, on_msg, on_gone, c);
	return 0;
}

void
broker_child_start(struct child *c)
{
	struct err err = {0};

	c->born = loop_now_ms(c->b->loop);
	if (start(c, &err) != 0) {
		log_error("%s: %s", c->name, err.msg);
		c->restart = loop_timer_add(c->b->loop, back_off(c), on_restart, c);
		return;
	}
	log_debug("%s%s%s started, pid %d", c->name, c->run[0] != '\0' ? " of run " : "", c->run,
	    (int)c->pid);
	broker_wires_configure(c);
}
