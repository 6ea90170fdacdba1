/*
 * The end of a sandbox of an OCI back end. Runs in the supervisor, which trusts nothing of what it
 * ends: everything in the sandbox's control groups is killed, and waited for.
 */
#include "agent/sandbox/oci.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/xalloc.h"

#include "common/banned.h"

static void
one_close(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

/* All that is in a group of version 1; they are thawed, as a frozen one does not die. */
static void
group_kill(const struct native_group *g)
{
	AUTO_BUF struct buf b = BUF(1 << 20);
	AUTO_FREE char *path = xasprintf("%s/cgroup.procs", g->path);
	struct err ignored;
	struct str text, line;
	uint64_t pid;

	if (native_slurp(path, &b, &ignored) != 0)
		return;
	text = buf_str(&b);
	while (str_cut(&text, '\n', &line))
		if (str_to_u64(line, INT32_MAX, &pid) && pid > 1)
			(void)kill((pid_t)pid, SIGKILL);
}

/*
 * The run time dies, and pid 1 with it; but it is not the only one between us and them (gVisor has
 * several), so everything in the groups is killed, where it must be also one by one.
 */
static void
tree_end(struct backend_box *b, struct oci *o)
{
	const struct native_group *g = native_cgroup_role(&o->cgroup, NATIVE_FREEZE);

	if (b->child <= 0)
		return;
	(void)syscall(SYS_pidfd_send_signal, b->pidfd, SIGKILL, NULL, 0);
	for (size_t i = 0; i < o->cgroup.n; i++)
		if (o->cgroup.g[i].version != 2 ||
		    native_group_put(&o->cgroup.g[i], "cgroup.kill", "1") != 0)
			group_kill(&o->cgroup.g[i]);
	if (g != NULL && g->version == 1)
		(void)native_group_put(g, "freezer.state", "THAWED");
	while (waitpid(b->child, NULL, 0) < 0 && errno == EINTR)
		continue;
	b->child = 0;
}

/* Without groups it is the wire that shows the end of the last who holds it. */
static void
wire_end_wait(const struct backend_box *b)
{
	struct pollfd p = {.fd = b->inside, .events = 0};

	if (b->inside >= 0)
		(void)poll(&p, 1, 10000);
}

void
oci_end(struct backend_box *b)
{
	struct oci *o = b->own;
	struct native_region region;

	if (o == NULL)
		return;
	if (b->child > 0) {
		tree_end(b, o);
		wire_end_wait(b);
	}
	one_close(&b->pidfd);
	one_close(&b->inside);
	for (size_t i = 0; i < b->nlisteners; i++)
		one_close(&b->listeners[i]);
	b->nlisteners = 0;
	native_view_free(&o->view);
	native_cgroup_remove(&o->cgroup);
	native_janitor_end(&o->janitor);
	native_uid_free(&o->spare);
	one_close(&o->log);
	free(o->devices);
	buf_free(&b->level);
	memset(b->cgroups, 0, sizeof(b->cgroups));
	region = o->region;
	native_region_free(&region);
	b->own = NULL;
}
