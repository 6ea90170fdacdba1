/*
 * Where a run is run again: a state directory of its own with a broker in it whose upstream answers
 * from the recording. Runs in the command line as the reviewer. The recorded targets keep their
 * names and places; their credentials are made up here, and there is nobody to send them to. A
 * process beside this one removes the directory however this one ends.
 */
#include "cmd/cmd_rerun.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd_file.h"
#include "common/json.h"
#include "common/log.h"
#include "common/proc_paths.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define ARGS_MAX 600
#define READY_MS 30000
#define POLL_MS 50
#define MADE_UP "recorded" /* every secret of the stage */

struct argv {
	const char *v[ARGS_MAX + 1];
	size_t n;
};

static void
arg(struct argv *a, const char *s)
{
	if (a->n == ARGS_MAX)
		fatal("a command of over %d words", ARGS_MAX);
	a->v[a->n++] = s;
}

/* --- processes ------------------------------------------------------------------- */

/* It ends with this process. Its output goes to `log`, its input comes from `input`. */
static pid_t
start(const char *program, const struct argv *a, int log, int input, int death)
{
	AUTO_FREE char *path = proc_program(program);
	pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, death);
	if (getppid() != parent || dup2(input, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
		_exit(127);
	(void)execv(path, (char *const *)(uintptr_t)a->v);
	_exit(127);
}

static int
finish(pid_t pid, int *ret_status, const char *what, struct err *err)
{
	int status = 0;

	if (pid < 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", what);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(err, ERR_SYSTEM, errno, "%s", what);
	*ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return 0;
}

static int
log_open(const struct rerun_stage *s, int *ret, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/log", s->dir);

	*ret = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	return *ret >= 0 ? 0 : err_sys(err, ERR_SYSTEM, errno, "%s", path);
}

static int
input_of(const char *text, int *ret, struct err *err)
{
	int p[2];
	size_t n = strlen(text); /* far below what a pipe holds */

	if (pipe2(p, O_CLOEXEC) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "pipe");
	if (write(p[1], text, n) != (ssize_t)n) {
		(void)close(p[0]);
		(void)close(p[1]);
		return err_sys(err, ERR_SYSTEM, errno, "pipe");
	}
	(void)close(p[1]);
	*ret = p[0];
	return 0;
}

/* The last of what it wrote, for a message. */
static void
last_words(const struct rerun_stage *s, struct buf *out)
{
	AUTO_FREE char *path = xasprintf("%s/log", s->dir);
	AUTO_BUF struct buf all = BUF((size_t)4 << 20);
	AUTO_FREE char *vis = NULL;
	struct str t;

	(void)file_read(AT_FDCWD, path, &all, NULL);
	t = str_trim(buf_str(&all));
	if (t.n > 600) {
		t.p += t.n - 600;
		t.n = 600;
	}
	vis = log_vis(t);
	buf_put_z(out, vis);
}

/* One of our own commands, to its end. */
static int
command(const struct rerun_stage *s, const struct argv *a, const char *text, struct err *err)
{
	AUTO_BUF struct buf said = BUF(8192);
	AUTO_FREE char *z = NULL;
	AUTO_FD int log = -1, input = -1;
	int status = 0, rc;

	if ((rc = log_open(s, &log, err)) != 0 || (rc = input_of(text, &input, err)) != 0 ||
	    (rc = finish(start("cofferdam", a, log, input, SIGKILL), &status, a->v[1], err)) != 0)
		return rc;
	if (status == 0)
		return 0;
	last_words(s, &said);
	z = buf_dup_z(&said);
	return err_set(
	    err, ERR_UNSUPPORTED, "the run cannot be staged: cofferdam %s: %s", a->v[1], z);
}

/* --- the directory --------------------------------------------------------------- */

static int
remove_one(const char *path, const struct stat *st UNUSED, int type UNUSED, struct FTW *f UNUSED)
{
	return remove(path);
}

/* Something may still write there, for as long as it takes to die. */
static void
remove_all(const char *dir)
{
	for (int i = 0; i < 100; i++) {
		(void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
		if (access(dir, F_OK) != 0)
			return;
		(void)poll(NULL, 0, POLL_MS);
	}
}

static void
keep_watch(const struct rerun_stage *s)
{
	char byte;

	(void)setsid();
	(void)close(s->janitor[1]);
	while (read(s->janitor[0], &byte, 1) < 0 && errno == EINTR)
		;
	remove_all(s->dir);
	_exit(0);
}

int
rerun_stage_open(struct rerun_stage *s, struct err *err)
{
	const char *tmp = getenv("TMPDIR");
	int n;

	*s = (struct rerun_stage){.janitor = {-1, -1}};
	n = snprintf(s->dir, sizeof(s->dir), "%s/cofferdam-rerun.XXXXXX",
	    tmp != NULL && strlen(tmp) < 48 ? tmp : "/tmp");
	if (n >= (int)sizeof(s->dir) || mkdtemp(s->dir) == NULL) {
		s->dir[0] = '\0';
		return err_sys(err, ERR_SYSTEM, errno, "a directory for the rerun");
	}
	(void)chmod(s->dir, 0711); /* the broker's children have users of their own */
	s->state = xasprintf("%s/state", s->dir);
	if (pipe2(s->janitor, O_CLOEXEC) != 0 || (s->keeper = fork()) < 0)
		return err_sys(err, ERR_SYSTEM, errno, "a process for the rerun");
	if (s->keeper == 0)
		keep_watch(s);
	cleanup_close_fd(&s->janitor[0]);
	return 0;
}

void
rerun_stage_close(struct rerun_stage *s)
{
	int status;

	if (s->broker != 0) {
		(void)kill(s->broker, SIGTERM);
		(void)waitpid(s->broker, &status, 0);
	}
	cleanup_close_fd(&s->janitor[0]);
	cleanup_close_fd(&s->janitor[1]);
	if (s->keeper > 0)
		(void)waitpid(s->keeper, &status, 0);
	else if (s->dir[0] != '\0')
		remove_all(s->dir);
	free(s->state);
}

/* --- the policy ------------------------------------------------------------------ */

static bool
is_kept(struct str key)
{
	static const char *const gone[] = {
	    "ca", "ca_pem", "credential", "preview", "seal", "via", "via_credential"};

	for (size_t i = 0; i < ARRAY_LEN(gone); i++)
		if (str_eqz(key, gone[i]))
			return false;
	return true;
}

static int
target_put(struct jcs *j, const struct json *t, size_t number, struct err *err)
{
	AUTO_FREE char *name = xasprintf("rerun-%zu", number);
	bool put = json_get(t, "credential") == NULL;
	int rc = 0;

	jcs_open(j, NULL);
	for (size_t i = 0; rc == 0 && i < json_count(t); i++) {
		struct str key = json_key(t, i);

		if (!put && str_eqz(key, "credential")) {
			jcs_z(j, "credential", name);
			put = true;
		}
		if (!is_kept(key))
			continue;
		jcs_key(j, key);
		rc = jcs_value(j, NULL, json_at(t, i), err);
	}
	jcs_close(j);
	return rc;
}

/* No policy can permit these: a rule that forbids them at any time says so with the same words. */
static bool
is_standing(const struct json *rule)
{
	const struct json *f = json_get(rule, "forbid"),
			  *any = json_get(json_get(f, "effects"), "any");

	if (json_get(f, "during") != NULL || json_get(f, "outside") != NULL ||
	    json_get(f, "rate") != NULL)
		return false;
	for (size_t i = 0; i < json_count(any); i++)
		if (rerun_is_escape(json_str(json_at(any, i))))
			return true;
	return false;
}

static int
rules_put(struct jcs *j, const struct json *rules, struct err *err)
{
	int rc = 0;

	jcs_array(j, "rules");
	jcs_raw(j, NULL,
	    STR("{\"id\":\"rerun\",\"permit\":{\"effects\":{\"only\":[\"@change\",\"@data\","
		"\"@destructive\"]}}}"));
	for (size_t i = 0; rc == 0 && i < json_count(rules); i++)
		if (is_standing(json_at(rules, i)))
			rc = jcs_value(j, NULL, json_at(rules, i), err);
	jcs_array_end(j);
	return rc;
}

/* The recorded targets, and leave for all that can have it: what was refused is refused by its
 * record. */
static int
policy_put(
    struct buf *out, const struct rerun_run *first, const struct json *bundle, struct err *err)
{
	const struct json *targets = json_get(bundle, "targets");
	const struct passwd *pw = getpwuid(geteuid());
	AUTO_FREE char *login =
	    pw != NULL ? xasprintf("unix:%s", pw->pw_name) : xasprintf("unix:#%u", geteuid());
	AUTO_FREE char *owner = buf_dup_z(&first->owner);
	struct jcs j;
	int rc = 0;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "clock", "trusted");
	jcs_open(&j, "people");
	jcs_open(&j, owner);
	jcs_z(&j, "login", login);
	jcs_array(&j, "roles");
	jcs_z(&j, NULL, "rerun");
	jcs_array_end(&j);
	jcs_close(&j);
	jcs_close(&j);
	jcs_z(&j, "policy", "rerun");
	rc = rules_put(&j, json_get(bundle, "rules"), err);
	jcs_z(&j, "schema", "cofferdam-policy/1");
	jcs_int(&j, "serial", 1);
	jcs_open(&j, "targets");
	for (size_t i = 0; rc == 0 && i < json_count(targets); i++) {
		jcs_key(&j, json_key(targets, i));
		rc = target_put(&j, json_at(targets, i), i, err);
	}
	jcs_close(&j);
	jcs_close(&j);
	return rc;
}

static int
credential_add(const struct rerun_stage *s, const struct json *t, size_t number, struct err *err)
{
	AUTO_FREE char *name = xasprintf("rerun-%zu", number);
	AUTO_FREE char *host = str_dup(json_str(json_get(t, "host")));
	AUTO_FREE char *user = str_dup(json_str(json_get(t, "user")));
	AUTO_FREE char *origin = str_dup(json_str(json_get(t, "origin")));
	AUTO_FREE char *port = xasprintf("%lld",
	    (long long)(json_get(t, "port") != NULL ? json_int(json_get(t, "port")) : 5432));
	struct argv a = {0};

	if (json_get(t, "credential") == NULL)
		return 0;
	arg(&a, "cofferdam");
	arg(&a, "credential");
	arg(&a, "add");
	arg(&a, name);
	arg(&a, "--state");
	arg(&a, s->state);
	if (str_eqz(json_str(json_get(t, "kind")), "postgres")) {
		arg(&a, "--target-host");
		arg(&a, host);
		arg(&a, "--port");
		arg(&a, port);
		arg(&a, "--user");
		arg(&a, user);
	} else {
		arg(&a, "--kind");
		arg(&a, "bearer");
		arg(&a, "--url");
		arg(&a, origin);
	}
	return command(s, &a, MADE_UP, err);
}

static int
file_put(const struct rerun_stage *s, const char *name, struct str content, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/%s", s->dir, name);
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || file_write_all(fd, content) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s", path);
	return 0;
}

static int
state_make(
    const struct rerun_stage *s, const struct rerun_run *first, struct str bundle, struct err *err)
{
	AUTO_BUF struct buf policy = BUF((size_t)8 << 20);
	AUTO_FREE char *path = xasprintf("%s/policy.json", s->dir);
	AUTO(json) struct json_doc *doc = NULL;
	const struct json *targets;
	struct argv a = {0};
	int rc = json_parse(bundle, "policy", &doc, err);

	if (rc != 0 || (rc = policy_put(&policy, first, json_root(doc), err)) != 0 ||
	    (rc = file_put(s, "policy.json", buf_str(&policy), err)) != 0 ||
	    (rc = file_put(s, "script.md", buf_str(&first->script), err)) != 0)
		return rc;
	arg(&a, "cofferdam");
	arg(&a, "init");
	arg(&a, "--state");
	arg(&a, s->state);
	arg(&a, "--origin");
	arg(&a, "rerun.invalid/log");
	arg(&a, "--policy");
	arg(&a, path);
	if ((rc = command(s, &a, "", err)) != 0)
		return rc;
	targets = json_get(json_root(doc), "targets");
	for (size_t i = 0; rc == 0 && i < json_count(targets); i++)
		rc = credential_add(s, json_at(targets, i), i, err);
	return rc != 0 ? rc : file_put(s, "state/answers", buf_str(&first->answers), err);
}

/* --- the broker and the run ------------------------------------------------------ */

static int
broker_start(struct rerun_stage *s, struct err *err)
{
	struct argv a = {.v = {"cofferdam-broker", "--state", s->state}, .n = 3};
	struct argv ask = {.v = {"cofferdam", "status", "--state", s->state}, .n = 4};
	AUTO_BUF struct buf said = BUF(8192);
	AUTO_FREE char *z = NULL;
	AUTO_FD int log = -1, null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int status = 1, rc = log_open(s, &log, err);

	if (rc != 0)
		return rc;
	s->broker = start("cofferdam-broker", &a, log, null, SIGKILL);
	for (int waited = 0; s->broker > 0 && waited < READY_MS; waited += POLL_MS) {
		rc = finish(start("cofferdam", &ask, null, null, SIGKILL), &status, "status", err);
		if (rc != 0 || status == 0)
			return rc;
		(void)poll(NULL, 0, POLL_MS);
	}
	last_words(s, &said);
	z = buf_dup_z(&said);
	return err_set(err, ERR_UNAVAILABLE, "the rerun's broker does not come up: %s", z);
}

static int
run_start(const struct rerun_stage *s, const struct rerun_run *first, const char *workspace,
    struct err *err)
{
	AUTO_FREE char *agent = buf_dup_z(&first->agent), *task = buf_dup_z(&first->task);
	AUTO_FREE char *script = xasprintf("%s/script.md", s->dir);
	AUTO_FD int log = -1, null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct argv a = {.v = {"cofferdam", "run", "--state", s->state, "--limits-optional",
			     "--agent", agent, "--task", task},
	    .n = 9};
	int status = 0, rc = log_open(s, &log, err);

	for (size_t i = 0; i < first->ntargets; i++) {
		arg(&a, "--target");
		arg(&a, first->targets[i]);
	}
	if (workspace != NULL) {
		arg(&a, "--workspace");
		arg(&a, workspace);
	}
	if (first->argv != NULL) {
		arg(&a, "--");
		for (size_t i = 0; first->argv[i] != NULL; i++)
			arg(&a, first->argv[i]);
	} else {
		arg(&a, "--script");
		arg(&a, script);
		arg(&a, "--quiet");
		arg(&a, "--max-turns");
		arg(&a, "10000");
	}
	/* How it ended is on its record, as the first time. */
	return rc != 0 ? rc
		       : finish(start("cofferdam", &a, log, null, SIGTERM), &status, "run", err);
}

int
rerun_stage_run(struct rerun_stage *s, const struct rerun_run *first, struct str bundle,
    const char *workspace, struct err *err)
{
	int rc, status;

	if ((rc = state_make(s, first, bundle, err)) != 0 || (rc = broker_start(s, err)) != 0 ||
	    (rc = run_start(s, first, workspace, err)) != 0)
		return rc;
	/* What it has to say is on the log when it has ended. */
	(void)kill(s->broker, SIGTERM);
	rc = finish(s->broker, &status, "the rerun's broker", err);
	s->broker = 0;
	return rc;
}
