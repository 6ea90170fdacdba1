/*
 * `cofferdam credential test`: would this credential be used, for which targets, and (--run) is
 * it accepted there? Runs as the operator. The vault's own secret goes nowhere from here: with
 * --run an ordinary client in a sandbox asks the broker, like any agent, and is on the record.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cmd/cmd.h"
#include "cmd/cmd_credential.h"
#include "cmd/cmd_file.h"
#include "cmd/cmd_policy.h"
#include "common/proc_paths.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define ANSWER_MAX ((size_t)1 << 16)

static const char *
scheme_of(const struct policy_target *t)
{
	return t->kind == TARGET_POSTGRES ? "postgresql" : t->tls ? "https" : "http";
}

/* The target's side, in the words of cred_binding. */
static char *
target_binding(const struct policy_target *t)
{
	bool six = memchr(t->host.n != 0 ? t->host.p : "", ':', t->host.n) != NULL;

	return xasprintf("%s://%.*s%s%s%.*s%s:%u", scheme_of(t), STR_ARG(t->user),
	    t->user.n != 0 ? "@" : "", six ? "[" : "", STR_ARG(t->host), six ? "]" : "",
	    (unsigned)t->port);
}

/* As core compares them (core_cred.c). */
static bool
fits(const struct policy_target *t, const struct vault_entry *e)
{
	if (strcmp(scheme_of(t), e->scheme) != 0 || !vault_host_covers(str_z(e->host), t->host) ||
	    t->port != e->port || (strcmp(e->kind, "aws") == 0) != (t->kind == TARGET_AWS))
		return false;
	return t->kind != TARGET_POSTGRES || str_eqz(t->user, e->user);
}

/* --- through the broker ----------------------------------------------------------- */

static int
agent_start(char *const *argv, int *ret_fd, pid_t *ret_pid, struct err *err)
{
	posix_spawn_file_actions_t fa;
	int out[2] = {-1, -1}, rc;

	if (pipe2(out, O_CLOEXEC) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "pipe");
	(void)posix_spawn_file_actions_init(&fa);
	(void)posix_spawn_file_actions_adddup2(&fa, out[1], STDOUT_FILENO);
	(void)posix_spawn_file_actions_addopen(&fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	rc = posix_spawn(ret_pid, argv[0], &fa, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&fa);
	(void)close(out[1]);
	if (rc != 0) {
		(void)close(out[0]);
		return err_sys(err, ERR_SYSTEM, rc, "%s", argv[0]);
	}
	*ret_fd = out[0];
	return 0;
}

/* Output and exit status of `cofferdam run --target T -- client...`; a client of ours needs no
 * limits where there are no cgroups for them. */
static int
client_run(const char *state, const char *target, char *const *client, struct buf *out,
    int *ret_status, struct err *err)
{
	AUTO_FREE char *program = proc_program("cofferdam-agent"), *s = xstrdup(state),
		       *t = xstrdup(target);
	static char run[] = "run", o_state[] = "--state", o_target[] = "--target",
		    o_time[] = "--timeout", secs[] = "60", o_limits[] = "--limits-optional",
		    dash[] = "--";
	char *argv[24] = {program, run, o_state, s, o_target, t, o_time, secs, o_limits, dash};
	size_t n = 10;
	AUTO_FD int fd = -1;
	pid_t pid = 0;
	int rc, status = 0;

	for (size_t i = 0; client[i] != NULL && n + 1 < ARRAY_LEN(argv); i++)
		argv[n++] = client[i];
	if ((rc = agent_start(argv, &fd, &pid, err)) != 0)
		return rc;
	rc = file_read_fd(fd, "the client's answer", out, err);
	cleanup_close_fd(&fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	*ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return rc;
}

static bool
postgres_ask(const char *state, const char *target)
{
	static char psql[] = "psql", flags[] = "-XAtc", sql[] = "SELECT current_user";
	char *const client[] = {psql, flags, sql, NULL};
	AUTO_BUF struct buf out = BUF(ANSWER_MAX);
	struct err err = {0};
	int status = 1;

	if (client_run(state, target, client, &out, &status, &err) != 0) {
		(void)cmd_fail(&err);
		return false;
	}
	if (status != 0) {
		(void)printf("%s: not accepted: the client ended with %d\n", target, status);
		return false;
	}
	(void)printf("%s: accepted: the server says current_user is ", target);
	policy_print(stdout, str_trim(buf_str(&out)));
	(void)printf("\n");
	return true;
}

/* The last line is "STATUS CONTENT-TYPE"; what is before it is the answer's body. */
static bool
http_judge(const char *target, struct str out)
{
	struct str line = out, body;
	size_t n = out.n;
	uint64_t code = 0;

	while (n != 0 && out.p[n - 1] != '\n')
		n--;
	body = (struct str){out.p, n};
	line.p += n;
	line.n = out.n - n < 3 ? out.n - n : 3;
	if (!str_to_u64(line, 999, &code))
		code = 0;
	(void)printf("%s: HTTP %llu: ", target, (unsigned long long)code);
	if (code >= 200 && code < 400) {
		(void)printf("answered; where the path is public this proves no credential\n");
		return true;
	}
	(void)printf(code == 401 || code == 403 ? "refused" : "no proof either way");
	body.n = body.n > 2000 ? 2000 : body.n;
	if (body.n != 0) {
		(void)printf(":\n");
		policy_print(stdout, str_trim(body));
	}
	(void)printf("\n");
	return false;
}

static bool
http_ask(const char *state, const struct policy_target *t, const char *target, const char *path,
    const char *action)
{
	static char curl[] = "curl", quiet[] = "-sS", o_time[] = "--max-time", secs[] = "50",
		    o_write[] = "-w", format[] = "\n%{http_code} %{content_type}";
	static char o_field[] = "-H", json[] = "Content-Type: application/x-amz-json-1.0",
		    o_data[] = "-d", none[] = "{}";
	bool six = memchr(t->host.p, ':', t->host.n) != NULL;
	AUTO_FREE char *url = xasprintf("%s://%s%.*s%s:%u%s", scheme_of(t), six ? "[" : "",
	    STR_ARG(t->host), six ? "]" : "", (unsigned)t->port, path);
	AUTO_FREE char *field = xasprintf("X-Amz-Target: %s", action != NULL ? action : "");
	char *const client[] = {curl, quiet, o_time, secs, o_write, format, url,
	    action != NULL ? o_field : NULL, field, o_field, json, o_data, none, NULL};
	AUTO_BUF struct buf out = BUF(ANSWER_MAX);
	struct err err = {0};
	int status = 1;

	if (client_run(state, target, client, &out, &status, &err) != 0) {
		(void)cmd_fail(&err);
		return false;
	}
	if (status != 0) {
		(void)printf("%s: no answer: the client ended with %d\n", target, status);
		return false;
	}
	return http_judge(target, buf_str(&out));
}

static bool
target_ask(const struct cred_args *a, const struct policy_target *t)
{
	const char *path = a->path != NULL ? a->path : "/", *action = NULL;
	AUTO_FREE char *id = str_dup(t->id);

	(void)fflush(stdout);
	if (t->kind == TARGET_POSTGRES)
		return postgres_ask(a->state, id);
	if (t->model != TARGET_MODEL_NONE) {
		(void)printf("%s: a model: only the built-in loop reaches it (`cofferdam run "
			     "--model`)\n",
		    id);
		return true;
	}
	if (a->path == NULL && t->kind == TARGET_AWS && !cred_aws_probe(t->host, &path, &action)) {
		(void)printf("%s: say with --path what may be asked of that service\n", id);
		return false;
	}
	return http_ask(a->state, t, id, path, action);
}

/* --- against the policy ----------------------------------------------------------- */

/* Wildcard targets have no credential, other kinds have none of these. */
static bool
target_test(const struct cred_args *a, const struct policy_target *t, const struct vault_entry *e)
{
	AUTO_FREE char *theirs = target_binding(t), *ours = cred_binding(e);

	if (!fits(t, e)) {
		(void)printf("%.*s: not used: the credential is bound to %s, the target is %s\n",
		    STR_ARG(t->id), ours, theirs);
		return false;
	}
	(void)printf("%.*s: used, for %s\n", STR_ARG(t->id), ours);
	return !a->run || target_ask(a, t);
}

int
cred_test(const struct cred_args *a, const struct vault_entry *e)
{
	AUTO_FREE char *dir = xasprintf("%s/policy", a->state);
	AUTO(policy) struct policy *p = NULL;
	struct err err = {0};
	size_t named = 0;
	bool good = true;

	if (policy_active_load(dir, &p, &err) != 0)
		return policy_fail(&err);
	for (size_t i = 0; p != NULL && i < policy_target_count(p); i++) {
		const struct policy_target *t = policy_target_at(p, i);

		if (!str_eqz(t->credential, e->name))
			continue;
		named++;
		good = target_test(a, t, e) && good;
	}
	if (named == 0)
		(void)printf("%s: no target of the active policy names it\n", e->name);
	return named != 0 && good ? CMD_OK : CMD_FAILED;
}
