/*
 * Orders of the supervisor. It is trusted, but nothing that it sends can do more than end the
 * sandbox: what is no order is refused by INSIDE_FAILED, read to its end and forgotten. Runs in
 * pid 1 only.
 */
#include "agent/sandbox/init/init_take.h"
#include "agent/sandbox/init/init_life.h"
#include "agent/sandbox/init/init_text.h"
#include "agent/sandbox/init/init_wire.h"

#include "common/banned.h"

static void
order_refuse(const struct inside_head *h, int error, const char *why)
{
	char text[400];
	struct text t = TEXT(text);

	text_put(&t, "order refused: ");
	text_put(&t, why);
	wire_send_text(INSIDE_FAILED, h->proc, (uint32_t)error, text);
}

/* Room for it, which owns the descriptors from here on; or NULL, and why. */
static struct proc *
order_room(
    const struct inside_head *h, const int *fds, int nfds, int *ret_error, const char **ret_why)
{
	struct proc *p = NULL;

	*ret_error = EINVAL;
	if (h->proc == 0 || table_find(h->proc) != NULL)
		*ret_why = "its number is 0, or another program's";
	else if (nfds < 0 || nfds != h->nfds)
		*ret_why = "it has not the descriptors that it names, or more than 4";
	else if ((p = table_take(h->proc)) == NULL) {
		*ret_why = "256 programs are there, which is the limit; end one first";
		*ret_error = EAGAIN;
	}
	for (int i = 0; i < nfds; i++)
		if (p == NULL)
			(void)sys_close(fds[i]);
		else
			p->fds[p->nfds++] = fds[i];
	return p;
}

static void
order_spawn(const struct inside_head *h, const int *fds, int nfds, bool have_helper)
{
	const char *why = NULL;
	int error;
	struct proc *p = order_room(h, fds, nfds, &error, &why);

	if (p == NULL) {
		wire_drop(h->size);
		order_refuse(h, error, why);
		return;
	}
	why = order_receive(p, h->size);
	if (why == NULL && !child_given(p))
		why = "it has not the descriptors that it names, or more than 4";
	if (why == NULL && (p->order.flags & INSIDE_HELPER) != 0 && !have_helper) {
		why = "this sandbox has no cofferdam-inside";
		error = ENOENT;
	}
	if (why != NULL) {
		table_release(p);
		order_refuse(h, error, why);
	} else
		life_start(p);
}

static void
order_signal(const struct inside_head *h)
{
	struct proc *p = table_find(h->proc);

	if (p == NULL)
		return; /* crossed with its end */
	if (h->a < 1 || h->a > 64) {
		order_refuse(h, EINVAL, "a signal must be from 1 to 64");
		return;
	}
	(void)__atomic_or_fetch(&p->signals, SIGNAL_BIT(h->a), __ATOMIC_ACQ_REL);
	if (p->minder != 0)
		(void)sys_kill(p->minder, SIGUSR1);
}

void
order_take(bool have_helper)
{
	struct inside_head h;
	struct proc *p;
	int fds[PROC_FDS_MAX + PROC_GIVEN_MAX], nfds = 0;

	wire_read(&h, sizeof(h), fds, &nfds, PROC_FDS_MAX + PROC_GIVEN_MAX);
	if (h.size > INSIDE_ORDER_MAX)
		wire_fatal("an order of more than 4 MiB");
	if (h.type == INSIDE_SPAWN) {
		order_spawn(&h, fds, nfds, have_helper);
		return;
	}
	while (nfds > 0)
		(void)sys_close(fds[--nfds]);
	wire_drop(h.size);
	if (h.size != 0 || h.nfds != 0)
		order_refuse(&h, EINVAL, "it has a body or descriptors, must have none");
	else if (h.type == INSIDE_SIGNAL)
		order_signal(&h);
	else if (h.type == INSIDE_KILL && (p = table_find(h.proc)) != NULL)
		life_kill(p);
	else if (h.type == INSIDE_HOLD)
		life_hold(h.a != 0);
	else if (h.type != INSIDE_KILL)
		order_refuse(&h, EINVAL, "there is no order of this type");
}
