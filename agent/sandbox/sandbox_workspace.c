/*
 * Looks at the directories that a sandbox is to be given (cofferdam-agent and the command line, as
 * the person who calls). Code inside reads and, in the workspace, writes all of them: a state
 * directory would hand it the vault's key and the log's seed, a home the caller's own keys. A guard
 * against mistakes of the caller, who may copy their keys anywhere; not a boundary.
 */
#include "agent/sandbox/sandbox_workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/jcs.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define INSTALLED_STATE "/var/lib/cofferdam"

/* True if path, which is real, is `dir` or lies in it: by identity, so that a bind mount counts. */
static bool
is_in(const char *path, const char *dir)
{
	AUTO_FREE char *up = xstrdup(path);
	struct stat want, st;

	if (stat(dir, &want) != 0)
		return false;
	for (;;) {
		char *slash = strrchr(up, '/');

		if (stat(up, &st) == 0 && st.st_dev == want.st_dev && st.st_ino == want.st_ino)
			return true;
		if (slash == NULL || strcmp(up, "/") == 0)
			return false;
		slash[slash == up ? 1 : 0] = '\0';
	}
}

static bool
overlap(const char *a, const char *b)
{
	return is_in(a, b) || is_in(b, a);
}

/* One up; NULL at the root. */
static char *
parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash == NULL || strcmp(path, "/") == 0)
		return NULL;
	return str_dup(str_mem(path, slash == path ? 1 : (size_t)(slash - path)));
}

/* --- state directories ----------------------------------------------------------- */

static int
state_refuse(
    const char *option, const char *given, const char *real, const char *state, struct err *err)
{
	AUTO_FREE char *dir = state != NULL ? realpath(state, NULL) : NULL;

	if (dir == NULL || !overlap(real, dir))
		return 0;
	return err_set(err, ERR_INVALID,
	    "%s %s is, holds or lies in the state directory %s, where the keys are: give a "
	    "directory of its own",
	    option, given, dir);
}

/* STATE of STATE/run/agent.sock; NULL for a socket that stands somewhere else. */
static char *
socket_state(const char *socket)
{
	AUTO_FREE char *real = realpath(socket, NULL);
	AUTO_FREE char *dir = real != NULL ? parent_of(real) : NULL;
	AUTO_FREE char *up = dir != NULL ? parent_of(dir) : NULL;
	AUTO_FREE char *keys = up != NULL ? xasprintf("%s/keys", up) : NULL;

	/* One that may not be looked into may be one. */
	if (keys != NULL && (access(keys, F_OK) == 0 || errno == EACCES))
		return TAKE_PTR(up);
	return NULL;
}

/* What a path names now. Whoever opens the answer and follows no link opens that, or nothing. */
static int
real_take(const char *option, const char *given, int flags, char **ret, struct err *err)
{
	char at[32], real[PATH_MAX];
	AUTO_FD int fd = open(given, O_PATH | O_CLOEXEC | flags);
	ssize_t n = -1;

	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
	if (fd < 0 || (n = readlink(at, real, sizeof(real) - 1)) < 0)
		return err_sys(err, ERR_INVALID, errno, "%s %s", option, given);
	real[n] = '\0';
	*ret = xstrdup(real);
	return 0;
}

static int
states_check(const struct sandbox_guard *g, const char *option, const char *given, const char *path,
    struct err *err)
{
	AUTO_FREE char *real = realpath(path, NULL);
	AUTO_FREE char *of_socket =
	    socket_state(g->socket != NULL ? g->socket : SANDBOX_BROKER_SOCKET);
	int rc;

	if (real == NULL)
		return err_sys(err, ERR_INVALID, errno, "%s %s", option, given);
	if ((rc = state_refuse(option, given, real, g->state, err)) != 0 ||
	    (rc = state_refuse(option, given, real, of_socket, err)) != 0)
		return rc;
	return state_refuse(option, given, real, INSTALLED_STATE, err);
}

/* --- the caller's own ------------------------------------------------------------ */

static void
home_look(const char *home, const char *real, struct sandbox_workspace *w)
{
	static const char *const secrets[] = {
	    ".ssh", ".aws", ".kube", ".gnupg", ".pgpass", ".netrc"};

	for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
		AUTO_FREE char *path = xasprintf("%s/%s", home, secrets[i]);
		AUTO_FREE char *there = realpath(path, NULL);
		bool known = there == NULL || !overlap(real, there);

		for (size_t k = 0; !known && k < w->nholds; k++)
			known = strcmp(w->holds[k], path) == 0;
		if (!known && w->nholds < WORKSPACE_HOLDS_MAX)
			w->holds[w->nholds++] = TAKE_PTR(path);
	}
}

static char *
holds_joined(const struct sandbox_workspace *w)
{
	AUTO_BUF struct buf b = BUF(65536);

	for (size_t i = 0; i < w->nholds; i++)
		buf_printf(&b, "%s%s", i != 0 ? ", " : "", w->holds[i]);
	return buf_dup_z(&b);
}

/* The home of /etc/passwd: not by getpwuid, which would load what the static programs lack. */
static char *
home_of_user(void)
{
	FILE *f = fopen("/etc/passwd", "re");
	struct passwd *pw;
	char *home = NULL;

	while (f != NULL && home == NULL && (pw = fgetpwent(f)) != NULL)
		if (pw->pw_uid == getuid() && pw->pw_dir != NULL && pw->pw_dir[0] == '/')
			home = xstrdup(pw->pw_dir);
	if (f != NULL)
		(void)fclose(f);
	return home;
}

static int
homes_check(const struct sandbox_guard *g, struct sandbox_workspace *w, struct err *err)
{
	AUTO_FREE char *real = realpath(w->workspace, NULL);
	AUTO_FREE char *names = NULL, *own = home_of_user();
	const char *home = getenv("HOME");

	if (real == NULL)
		return err_sys(err, ERR_INVALID, errno, "%s %s", g->workspace_option, g->workspace);
	if (home != NULL && home[0] == '/')
		home_look(home, real, w);
	if (own != NULL)
		home_look(own, real, w);
	if (w->nholds == 0 || g->unsafe)
		return 0;
	names = holds_joined(w);
	return err_set(err, ERR_INVALID,
	    "%s %s would show %s to the code inside: give a directory of its own, or "
	    "--workspace-unsafe",
	    g->workspace_option, g->workspace, names);
}

int
sandbox_workspace_check(
    const struct sandbox_guard *g, struct sandbox_workspace *ret, struct err *err)
{
	int rc = 0;

	*ret = (struct sandbox_workspace){0};
	for (size_t i = 0; rc == 0 && i < g->nbinds && i < SANDBOX_BINDS_MAX; i++) {
		const char *path = g->binds[i].host_path;

		rc = real_take("--ro-bind", path, 0, &ret->binds[i], err);
		if (rc == 0)
			rc = states_check(g, "--ro-bind", path, ret->binds[i], err);
	}
	if (rc == 0 && g->image != NULL)
		rc = real_take("--image", g->image, O_DIRECTORY, &ret->image, err);
	if (rc == 0 && g->image != NULL)
		rc = states_check(g, "--image", g->image, ret->image, err);
	if (rc == 0 && g->workspace != NULL)
		rc = real_take(g->workspace_option, g->workspace, O_NOFOLLOW | O_DIRECTORY,
		    &ret->workspace, err);
	if (rc == 0 && g->workspace != NULL)
		rc = states_check(g, g->workspace_option, g->workspace, ret->workspace, err);
	if (rc == 0 && g->workspace != NULL)
		rc = homes_check(g, ret, err);
	return rc;
}

char *
sandbox_workspace_warning(const struct sandbox_workspace *w)
{
	AUTO_FREE char *names = holds_joined(w);

	return w->nholds == 0 ? NULL
			      : xasprintf("--workspace-unsafe: code in the sandbox can read and "
					  "change %s",
				    names);
}

void
sandbox_workspace_apply(const struct sandbox_workspace *w,
    struct sandbox_bind room[SANDBOX_BINDS_MAX], struct sandbox_spec *spec)
{
	if (w->workspace != NULL)
		spec->workspace = w->workspace;
	if (w->image != NULL)
		spec->image = w->image;
	for (size_t i = 0; i < spec->nbinds && i < SANDBOX_BINDS_MAX; i++) {
		room[i] = spec->binds[i];
		if (w->binds[i] != NULL)
			room[i].host_path = w->binds[i];
	}
	spec->binds = room;
}

void
sandbox_workspace_free(struct sandbox_workspace *w)
{
	free(w->workspace);
	free(w->image);
	for (size_t i = 0; i < SANDBOX_BINDS_MAX; i++)
		free(w->binds[i]);
	for (size_t i = 0; i < w->nholds; i++)
		free(w->holds[i]);
}

int
sandbox_bind_add(struct sandbox_binds *b, const char *value, struct err *err)
{
	char *text, *colon;

	if (b->n == SANDBOX_BINDS_MAX)
		return err_set(err, ERR_INVALID, "--ro-bind: at most %d", SANDBOX_BINDS_MAX);
	text = xstrdup(value);
	colon = strrchr(text, ':');
	if (colon != NULL)
		*colon = '\0';
	b->at[b->n++] =
	    (struct sandbox_bind){.host_path = text, .inside = colon != NULL ? colon + 1 : text};
	return 0;
}

void
sandbox_binds_free(struct sandbox_binds *b)
{
	for (size_t i = 0; i < b->n; i++)
		free((void *)(uintptr_t)b->at[i].host_path);
	b->n = 0;
}

char *
sandbox_workspace_level(const struct sandbox_workspace *w, const char *level)
{
	AUTO_BUF struct buf b = BUF(65536);
	size_t n = strlen(level);
	struct jcs j;

	if (w->nholds == 0 || n < 2 || level[n - 1] != '}')
		return xstrdup(level);
	jcs_init(&j, &b);
	jcs_array(&j, NULL);
	for (size_t i = 0; i < w->nholds; i++)
		jcs_str_lossy(&j, NULL, str_z(w->holds[i]));
	jcs_array_end(&j);
	return xasprintf(
	    "%.*s,\"workspace_unsafe\":%.*s}", (int)(n - 1), level, STR_ARG(buf_str(&b)));
}
