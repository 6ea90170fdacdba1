/*
 * One command in a sandbox with the caller's standard streams. Runs in cofferdam-agent.
 * What comes out is passed on byte for byte when it goes to a file or a pipe; a terminal
 * gets it the same way, since this is the person's own command and not a record.
 */
#include "agent/agent_exec.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "common/log.h"
#include "agent/agent_workspace.h"

#include "common/banned.h"

static void
pass_on(void *arg UNUSED, int stream, struct str bytes)
{
	while (bytes.n != 0) {
		ssize_t k = write(stream, bytes.p, bytes.n);

		if (k < 0 && errno != EINTR)
			return; /* nobody reads: the program may go on, it is not ours to judge */
		if (k > 0) {
			bytes.p += k;
			bytes.n -= (size_t)k;
		}
	}
}

static int
status_of(const struct sandbox_result *r)
{
	switch (r->cause) {
	case SANDBOX_EXITED: return r->value;
	case SANDBOX_SIGNALLED: return 128 + r->value;
	case SANDBOX_TIMEOUT: return 124;
	case SANDBOX_MEMORY:
	case SANDBOX_OUTPUT:
	case SANDBOX_DISK: return 125;
	case SANDBOX_POLICY: return 128 + r->value;
	case SANDBOX_NONE:
	case SANDBOX_KILLED:
	case SANDBOX_UNAVAILABLE: break;
	}
	return 126;
}

int
agent_exec_stream(struct sandbox *sb, char *const *argv, const struct agent_options *o,
    sandbox_watch_fn *watch, void *watch_arg, const int *watch_fd, struct sandbox_result *ret,
    int *ret_status, struct err *err)
{
	struct sandbox_exec x = {.argv = argv,
	    .output = pass_on,
	    .pipe_stdin = true,
	    .stdin_fd = STDIN_FILENO,
	    .timeout_s = (uint32_t)o->timeout_s,
	    .head = 65536,
	    .tail = 65536,
	    .watch = watch,
	    .watch_arg = watch_arg,
	    .watch_fd = watch_fd};
	int rc = sandbox_exec(sb, &x, ret, err);

	if (rc != 0)
		return rc;
	*ret_status = status_of(ret);
	if (ret->cause != SANDBOX_EXITED) {
		AUTO_FREE char *words = sandbox_result_words(ret);

		log_warn("%s", words);
	}
	return 0;
}

int
agent_exec_run(const struct agent_options *o)
{
	struct sandbox_spec spec = {.limits = o->limits,
	    .workspace = o->workspace,
	    .binds = o->binds,
	    .nbinds = o->nbinds,
	    .may_lack = o->limits_optional ? SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER : 0};
	__attribute__((cleanup(agent_workspace_free))) struct agent_workspace ws = {0};
	AUTO(sandbox) struct sandbox *sb = NULL;
	AUTO_FREE char *level = NULL;
	struct sandbox_result r;
	struct err e = {0};
	int status = 1;

	if (o->command == NULL && !o->level) {
		log_error("no command: cofferdam sandbox exec [options] -- COMMAND...");
		return 2;
	}
	if (agent_workspace_check(o, &ws, &e) != 0) {
		log_error("%s", e.msg);
		return 2;
	}
	if (sandbox_create(&spec, &sb, &e) != 0) {
		log_error("%s", e.msg);
		return e.code == ERR_INVALID ? 2 : 126;
	}
	level = agent_workspace_level(&ws, sandbox_level(sb));
	if (o->level)
		(void)printf("%s\n", level);
	(void)fflush(stdout);
	if (o->command == NULL)
		return 0;
	if (agent_exec_stream(sb, o->command, o, NULL, NULL, NULL, &r, &status, &e) != 0) {
		log_error("%s", e.msg);
		return e.code == ERR_NOT_FOUND ? 127 : 126;
	}
	sandbox_result_free(&r);
	return status;
}
