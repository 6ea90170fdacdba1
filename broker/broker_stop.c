/*
 * The orderly end: who takes work in stops first, the writer last, so that what was begun
 * is on the record. One that does not stop in time is killed; the log's recovery rule covers
 * that. Runs in the parent.
 */
#include <signal.h>

#include "broker/broker_parent.h"

#include "common/log.h"

#include "common/banned.h"

static const enum ipc_role stages[] = {IPC_ROLE_CONSOLE, IPC_ROLE_FRONT, IPC_ROLE_UPSTREAM,
    IPC_ROLE_CORE, IPC_ROLE_COURIER, IPC_ROLE_WRITER};

static struct child *
stage_child(const struct broker *b)
{
	return broker_child_find(b, stages[b->stage], STR(""));
}

static void
on_late(void *arg)
{
	struct broker *b = arg;
	struct child *c = stage_child(b);

	b->stop_timer = NULL;
	if (c == NULL || !broker_child_running(c))
		return;
	log_error("%s did not stop within %d s and is killed", c->name, BROKER_STOP_MS / 1000);
	b->killed = true;
	(void)kill(c->pid, SIGKILL);
}

/* Ask the first stage from here on that has somebody running; the end when there is none. */
static void
stage_begin(struct broker *b)
{
	for (; b->stage < ARRAY_LEN(stages); b->stage++) {
		const struct child *c = stage_child(b);

		if (c == NULL || !broker_child_running(c))
			continue;
		if (c->wire != NULL)
			ipc_send(c->wire, MSG_P_STOP, NULL, NULL, 0);
		b->stop_timer = loop_timer_add(b->loop, BROKER_STOP_MS, on_late, b);
		return;
	}
	loop_stop(b->loop, b->killed ? 1 : 0);
}

void
broker_stop_step(struct broker *b)
{
	const struct child *c = b->stage < ARRAY_LEN(stages) ? stage_child(b) : NULL;

	/* Another stage's child ended by itself: its turn comes, and finds it gone. */
	if (c != NULL && (broker_child_running(c) || c->wire != NULL))
		return;
	loop_timer_del(TAKE_PTR(b->stop_timer));
	stage_begin(b);
}

void
broker_stop(struct broker *b)
{
	if (b->stopping) {
		/* Asked twice: at once. */
		log_warn("asked to stop again: the children are killed");
		b->killed = true;
		for (struct child *c = b->children; c != NULL; c = c->next)
			if (broker_child_running(c))
				(void)kill(c->pid, SIGKILL);
		return;
	}
	log_info("stopping");
	broker_notify("STOPPING=1");
	b->stopping = true;
	for (struct child *c = b->children; c != NULL; c = c->next)
		loop_timer_del(TAKE_PTR(c->restart));
	b->stage = 0;
	stage_begin(b);
}
