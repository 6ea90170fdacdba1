/*
 * A job of cofferdam-mcp from fork to end: a process that does one tool call's work and ends with
 * the hub. Holds no credential; what it asks for goes to the run's keeper, which has it on the
 * record before code runs.
 */
#include "agent/mcp_job.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "common/banned.h"

static mcp_job_fn *const jobs[MCP_TOOLS] = {
    [MCP_APPROVAL_STATUS] = mcp_job_approvals,
    [MCP_END] = mcp_job_end,
    [MCP_LIST_FILES] = mcp_job_list,
    [MCP_LIST_TARGETS] = mcp_job_targets,
    [MCP_READ_FILE] = mcp_job_read,
    [MCP_REQUEST_APPROVAL] = mcp_job_request,
    [MCP_RUN_CODE] = mcp_job_code,
    [MCP_RUN_COMMAND] = mcp_job_command,
    [MCP_WRITE_FILE] = mcp_job_write,
};

bool
mcp_job_stopped(struct mcp_job *j)
{
	struct pollfd p = {.fd = j->fd, .events = POLLIN};

	/* Whatever comes from the hub, or its end, means this. */
	if (!j->stop && poll(&p, 1, 0) > 0)
		j->stop = true;
	return j->stop;
}

static void
failure_send(struct mcp_job *j, const struct err *e)
{
	AUTO_BUF struct buf b = BUF(8192);

	buf_u32(&b, (uint32_t)-e->code);
	buf_lz(&b, e->msg);
	(void)mcp_frame_send(j->fd, MCP_F_FAILURE, buf_str(&b), NULL);
}

/* Until the run is gone, or the hub. */
static void
run_hold(struct mcp_job *j)
{
	struct pollfd p[2] = {
	    {.fd = keeper_fd(j->k), .events = POLLIN}, {.fd = j->fd, .events = POLLIN}};
	AUTO_BUF struct buf b = BUF(512);

	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	buf_u32(&b, (uint32_t)-ERR_STATE);
	buf_lz(&b, "it was ended from outside, or its time was over");
	(void)mcp_frame_send(j->fd, MCP_F_FAILURE, buf_str(&b), NULL);
}

static void
run_begin(struct mcp_job *j)
{
	AUTO_BUF struct buf b = BUF(4096);
	struct err e = {0};

	if (keeper_start(j->o->ask, j->o->life_fd, &j->k, &e) != 0) {
		failure_send(j, &e);
		return;
	}
	buf_lz(&b, keeper_run(j->k));
	buf_lz(&b, keeper_owner(j->k));
	if (mcp_frame_send(j->fd, MCP_F_RUN, buf_str(&b), NULL) == 0)
		run_hold(j);
}

static void
work(struct mcp_job *j)
{
	AUTO_BUF struct buf members = BUF((size_t)8 << 20), b = BUF(MCP_WIRE_MAX);
	struct err e = {0};
	bool failed = false;

	if (j->o->begin) {
		run_begin(j);
		return;
	}
	if (keeper_open(j->o->keeper, &j->k, &e) != 0) {
		failure_send(j, &e);
		return;
	}
	keeper_caller_set(j->k, &j->o->caller);
	if (jobs[j->o->tool](j, &members, &failed, &e) != 0) {
		failure_send(j, &e);
		return;
	}
	if (buf_over(&members)) {
		(void)err_set(&e, ERR_TOO_LARGE, "the result is over %zu bytes", members.max);
		failure_send(j, &e);
		return;
	}
	buf_u8(&b, failed ? 1 : 0);
	buf_lstr(&b, buf_str(&members));
	(void)mcp_frame_send(j->fd, MCP_F_RESULT, buf_str(&b), NULL);
}

/* Nothing of the hub's but its memory: no socket of a client, no other job's, no run's life. */
static void
enter(struct mcp_job *j, pid_t hub, int life_fd)
{
	sigset_t none;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != hub)
		_exit(1);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGTERM, SIG_DFL);
	(void)signal(SIGINT, SIG_DFL);
	(void)signal(SIGCHLD, SIG_DFL);
	if (dup2(j->fd, 0) != 0 || (life_fd >= 0 && dup2(life_fd, 1) != 1))
		_exit(1);
	if (life_fd < 0)
		(void)close(1);
	(void)close_range(3, ~0u, 0);
	j->fd = 0;
}

int
mcp_job_begin(const struct mcp_order *o, pid_t *ret_pid, int *ret_fd, struct err *err)
{
	struct mcp_order mine = *o;
	struct mcp_job j = {.o = &mine};
	pid_t self = getpid(), pid;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "socketpair");
	pid = fork();
	if (pid == 0) {
		j.fd = pair[1];
		enter(&j, self, o->begin ? o->life_fd : -1);
		mine.life_fd = 1;
		work(&j);
		keeper_close(j.k);
		_exit(0);
	}
	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		return err_sys(err, ERR_SYSTEM, errno, "fork");
	}
	*ret_pid = pid;
	*ret_fd = pair[0];
	return 0;
}
