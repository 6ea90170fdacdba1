/*
 * Exchanges whose answer comes from a directory of reference data (process: upstream). Such a
 * request was judged, recorded and leased as any other; its answer is made here in small parts, so
 * that who reads or searches much holds up nobody, and goes through the same hands.
 */
#include <stdio.h>

#include "broker/upstream_http_int.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define LIST_MAX ((size_t)2 << 20) /* a list, or what was found */

static int
dir_of(const struct upstream_http *h, struct str name)
{
	for (size_t i = 0; h->dirs != NULL && i < h->dirs->n; i++)
		if (str_eqz(name, h->dirs->v[i].name))
			return h->dirs->v[i].fd;
	return -1;
}

static int
head_give(struct exchange *x, struct str head, struct err *err)
{
	struct str rest = head, line;
	unsigned status;
	int rc = 0;

	while (rc == 0 && str_cut(&rest, '\n', &line))
		rc = answer_line(x->answer, str_mem(line.p, line.n + 1), &status, err);
	return rc;
}

static void
step(struct exchange *x)
{
	AUTO_BUF struct buf head = BUF(4096), content = BUF(LIST_MAX);
	struct err err = {0};
	enum files_step s = files_next(x->files, &head, &content, &err);
	int rc = head_give(x, buf_str(&head), &err);

	x->active = loop_now_ms(x->h->hub->loop);
	if (strcmp(x->method, "HEAD") == 0 && head.n != 0)
		s = FILES_END;
	else if (rc == 0 && content.n != 0)
		rc = answer_content(x->answer, buf_str(&content), &err);
	if (rc == 0 && x->look != NULL && look_is_over(x->look, &err))
		s = FILES_BROKEN;
	if (rc != 0 || s == FILES_BROKEN)
		exchange_end(x, END_BROKEN, err.msg);
	else if (s == FILES_END)
		exchange_end(x, END_WHOLE, "");
	else
		exchange_files_resume(x);
}

static void
on_turn(void *arg)
{
	struct exchange *x = arg;
	struct upstream_hub *hub = x->h->hub;

	x->files_turn = NULL;
	if (hub->front != NULL && ipc_queued(hub->front) > UPSTREAM_QUEUE_HIGH)
		hub->throttled = x->throttled = true;
	x->recv_paused = x->hold || x->throttled;
	if (!x->recv_paused)
		step(x);
}

void
exchange_files_resume(struct exchange *x)
{
	if (x->files_turn == NULL)
		x->files_turn = loop_timer_add(x->h->hub->loop, 0, on_turn, x);
}

void
exchange_files_begin(struct exchange *x, const struct upstream_lease *l)
{
	AUTO_FREE char *name = str_dup(l->via_host), *why = NULL;
	int dir = dir_of(x->h, l->via_host);

	if (dir < 0) {
		why = xasprintf("broker.json names no directory \"%s\", or it could not be opened: "
				"see \"references\" there, and the broker's log",
		    name);
		exchange_end(x, END_NOT_SENT, why);
		return;
	}
	x->files = files_new(dir, l->target);
	x->state = X_RUNNING;
	x->sent = true;
	(void)snprintf(x->peer, sizeof(x->peer), "files:%s", name);
	exchange_files_resume(x);
}

void
exchange_files_drop(struct exchange *x)
{
	loop_timer_del(TAKE_PTR(x->files_turn));
	files_free(TAKE_PTR(x->files));
}
