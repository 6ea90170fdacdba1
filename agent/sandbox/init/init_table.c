/*
 * The table of execs in pid 1: fixed room, taken last in first out, so that a sandbox that runs one
 * program after the other touches the same few pages. Runs in pid 1 only.
 */
#include "agent/sandbox/init/init_table.h"
#include "agent/sandbox/init/init_text.h"
#include "agent/sandbox/init/init_wire.h"

#include "common/banned.h"

static struct proc procs[PROC_SLOTS];
static struct proc *used, *waiting, *spare;
static unsigned fresh; /* of procs[]: those from here on were never used */

struct proc *
table_first(void)
{
	return used;
}

struct proc *
table_find(uint32_t id)
{
	for (struct proc *p = used; p != NULL; p = p->next)
		if (p->id == id)
			return p;
	return NULL;
}

bool
table_is_minder(int pid)
{
	return table_of_minder(pid) != NULL;
}

struct proc *
table_waiting(void)
{
	return waiting;
}

struct proc *
table_of_minder(int pid)
{
	struct proc *const lists[] = {used, waiting};

	for (int i = 0; i < 2; i++)
		for (struct proc *p = lists[i]; p != NULL; p = p->next)
			if (p->minder == pid)
				return p;
	return NULL;
}

static void
list_remove(struct proc **list, const struct proc *p)
{
	while (*list != p)
		list = &(*list)->next;
	*list = p->next;
}

static void
list_add(struct proc **list, struct proc *p)
{
	p->next = *list;
	*list = p;
}

bool
table_waiter_gone(struct proc *p)
{
	if (p->id != 0)
		return false;
	list_remove(&waiting, p);
	p->minder = 0;
	list_add(&spare, p);
	return true;
}

static unsigned
alive_count(void)
{
	unsigned n = 0;

	for (struct proc *p = used; p != NULL; p = p->next)
		n += p->told ? 0 : 1;
	return n;
}

/* With a minder that waits, if there is one; that, behind the others, is not touched. */
static struct proc *
slot_take(void)
{
	struct proc *p = waiting;

	while (p != NULL && p->over != OVER_WAITS)
		p = p->next;
	if (p != NULL)
		list_remove(&waiting, p);
	else if ((p = spare) != NULL)
		spare = p->next;
	else if (fresh < PROC_SLOTS)
		p = &procs[fresh++];
	if (p != NULL)
		memset(p, 0, offsetof(struct proc, minder));
	return p;
}

struct proc *
table_take(uint32_t id)
{
	struct proc *p = alive_count() < PROC_ALIVE_MAX ? slot_take() : NULL;

	if (p == NULL)
		return NULL;
	p->id = id;
	p->out[0] = p->out[1] = p->err[0] = p->err[1] = -1;
	p->in[0] = p->in[1] = p->tty[0] = p->tty[1] = -1;
	list_add(&used, p);
	return p;
}

static void
order_free(struct proc *p)
{
	if (p->big != NULL)
		sys_unmap(p->big, p->big_size);
	p->big = NULL;
}

static void
fd_close(int fd)
{
	if (fd >= 0)
		(void)sys_close(fd);
}

void
table_close_inner(struct proc *p)
{
	if (p->inner_closed)
		return;
	p->inner_closed = true;
	fd_close(p->out[1]);
	fd_close(p->err[1]);
	fd_close(p->in[0]);
	fd_close(p->tty[1]);
	for (int i = 0; i < p->nfds; i++)
		fd_close(p->fds[i]);
}

static void
table_close_outer(struct proc *p)
{
	fd_close(p->out[0]);
	fd_close(p->err[0]);
	fd_close(p->in[1]);
	fd_close(p->tty[0]);
	p->out[0] = p->err[0] = p->in[1] = p->tty[0] = -1;
}

/* One that waits is enough; the others' room is free when they are gone. */
static void
waiter_add(struct proc *p)
{
	bool another = false;

	for (struct proc *w = waiting; w != NULL; w = w->next)
		another = another || w->over == OVER_WAITS;
	list_add(&waiting, p);
	if (!another)
		return;
	TELL(p->over, OVER_LEAVE);
	(void)sys_kill(p->minder, SIGUSR1);
}

void
table_release(struct proc *p)
{
	list_remove(&used, p);
	table_close_inner(p);
	table_close_outer(p);
	order_free(p);
	p->id = 0;
	if (p->minder != 0)
		waiter_add(p);
	else
		list_add(&spare, p);
}

/* --- the order ---------------------------------------------------------------------------- */

static void
body_read(char *to, size_t n)
{
	int none = 0;

	wire_read(to, n, NULL, &none, 0);
}

const char *
order_receive(struct proc *p, size_t n)
{
	size_t first = n < sizeof(p->small) ? n : sizeof(p->small), table, all;
	struct inside_spawn s = {0};
	const char *wrong;
	char *body = p->small;

	body_read(body, first);
	memcpy(&s, body, first < sizeof(s) ? first : sizeof(s));
	table = order_pointers(&s, n, &wrong);
	all = ((n + 15) & ~(size_t)15) + table * sizeof(char *);
	if (wrong == NULL && all > sizeof(p->small)) {
		p->big_size = all;
		p->big = body = sys_map(all);
		if (body == NULL)
			wrong = "there is no memory for it";
		else
			memcpy(body, p->small, first);
	}
	if (wrong != NULL) {
		wire_drop(n - first);
		return wrong;
	}
	body_read(body + first, n - first);
	return order_read(
	    &s, body, n, (char **)(void *)(body + ((n + 15) & ~(size_t)15)), &p->order);
}

/* --- what is told of them ----------------------------------------------------------------- */

static uint64_t
micros(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

static struct inside_exited
end_of(const struct proc *p)
{
	return (struct inside_exited){.status = (uint32_t)p->status,
	    .user_us = micros(p->usage.ru_utime),
	    .system_us = micros(p->usage.ru_stime),
	    .peak_kib = (uint64_t)p->usage.ru_maxrss};
}

void
tell_spawned(struct proc *p, bool ended)
{
	struct inside_exited e = {0};
	struct wire_frame f[2] = {{INSIDE_SPAWNED, p->id, (uint32_t)p->main, NULL, 0},
	    {INSIDE_EXITED, p->id, 0, &e, sizeof(e)}};
	int fds[3], n = 0;

	if (ended)
		e = end_of(p);
	if (p->tty[0] >= 0)
		fds[n++] = p->tty[0];
	if (p->out[0] >= 0)
		fds[n++] = p->out[0];
	if (p->err[0] >= 0)
		fds[n++] = p->err[0];
	if (p->in[1] >= 0)
		fds[n++] = p->in[1];
	p->announced = true;
	if (wire_send_frames(f, ended ? 2 : 1, fds, n)) {
		order_free(p);
		p->told = ended;
	} else {
		p->step = STEP_TELL;
		p->error = ETOOMANYREFS;
	}
	table_close_outer(p);
}

void
tell_failed(const struct proc *p)
{
	char text[3500];
	struct text t = TEXT(text);

	switch (p->step) {
	case STEP_PROCESS: text_put(&t, "a new process for "); break;
	case STEP_CODE:
		text_put(&t, "the file ");
		text_put(&t, p->code_path);
		text_put(&t, " of the code for ");
		break;
	case STEP_PIPE: text_put(&t, "pipes for "); break;
	case STEP_TTY: text_put(&t, "a terminal (/dev/ptmx) for "); break;
	case STEP_STDIO: text_put(&t, "the descriptors of "); break;
	case STEP_CHDIR: text_put(&t, "the directory of "); break;
	case STEP_EXEC: text_put(&t, "execution of "); break;
	case STEP_KILLED: text_put(&t, "ended before it began: "); break;
	case STEP_TELL:
		text_put(&t, "more descriptors are in flight in unix sockets than pid 1 may have "
			     "open (ulimit -n, hard, of who started the sandbox): the streams of ");
		break;
	}
	text_name(&t, p->order.argv[0]);
	text_put(&t, " (in ");
	text_name(&t, p->order.cwd);
	text_put(&t, ")");
	wire_send_text(INSIDE_FAILED, p->id, (uint32_t)p->error, text);
}

void
tell_exited(struct proc *p)
{
	struct inside_exited e = end_of(p);

	(void)wire_send(INSIDE_EXITED, p->id, 0, &e, sizeof(e), NULL, 0);
	p->told = true;
}

void
tell_emptied(const struct proc *p)
{
	wire_send(INSIDE_EMPTIED, p->id, 0, NULL, 0, NULL, 0);
}
