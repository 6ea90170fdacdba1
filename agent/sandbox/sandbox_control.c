/*
 * The sandbox as a whole, and all of this user's (any caller's process): pause, time, targets,
 * what is known of it.
 */
#include "agent/sandbox/sandbox.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/jcs.h"
#include "common/xalloc.h"
#include "agent/sandbox/sandbox_client.h"

#include "common/banned.h"

#define EXTEND_MAX 86400
#define NAMES_MAX 4096
#define YOUNG_S 2

int
sandbox_pause(struct sandbox *sb, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;

	return client_ask(sb, CALL_PAUSE, NULL, &m, err);
}

int
sandbox_resume(struct sandbox *sb, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;

	return client_ask(sb, CALL_RESUME, NULL, &m, err);
}

int
sandbox_extend(struct sandbox *sb, uint32_t seconds, struct err *err)
{
	AUTO_BUF struct buf b = BUF(8);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;

	if (seconds < 1 || seconds > EXTEND_MAX)
		return err_set(err, ERR_INVALID, "sandbox: seconds must be from 1 to %d, is %u",
		    EXTEND_MAX, seconds);
	buf_u32(&b, seconds);
	return client_ask(sb, CALL_EXTEND, &b, &m, err);
}

int
sandbox_inspect(struct sandbox *sb, struct buf *ret, struct err *err)
{
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	struct str json;
	struct rd r;
	int rc = client_ask(sb, CALL_INSPECT, NULL, &m, err);

	if (rc != 0)
		return rc;
	r = rd_init(buf_str(&m.body));
	json = rd_lstr(&r);
	if (!rd_end(&r) || json.n < 2 || json.p[0] != '{')
		return err_set(err, ERR_PROTOCOL, "sandbox: malformed answer to inspect");
	buf_put_str(ret, json);
	return 0;
}

static void
targets_put(const struct sandbox_target *t, size_t n, struct buf *b)
{
	buf_u32(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		buf_lz(b, t[i].host);
		buf_lz(b, t[i].address);
		buf_u16(b, t[i].port);
	}
}

int
sandbox_network(struct sandbox *sb, const struct sandbox_target *add, size_t nadd,
    const struct sandbox_target *drop, size_t ndrop, int *ret_fds, struct err *err)
{
	AUTO_BUF struct buf b = BUF(WIRE_BODY_MAX);
	AUTO_WIRE struct wire_msg m = WIRE_MSG;
	int rc;

	if ((rc = sandbox_spec_check(
		 &(struct sandbox_spec){.targets = add, .ntargets = nadd}, err)) != 0 ||
	    (rc = sandbox_spec_check(
		 &(struct sandbox_spec){.targets = drop, .ntargets = ndrop}, err)) != 0)
		return rc;
	targets_put(add, nadd, &b);
	targets_put(drop, ndrop, &b);
	if ((rc = client_ask(sb, CALL_NETWORK, &b, &m, err)) != 0)
		return rc;
	if (m.nfds != nadd)
		return err_set(err, ERR_PROTOCOL, "sandbox: %zu listeners, not %zu", m.nfds, nadd);
	for (size_t i = 0; i < nadd; i++)
		ret_fds[i] = TAKE_FD(m.fds[i]);
	return 0;
}

/* --- all of them --------------------------------------------------------------------------- */

/* A name whose lock nobody holds; a young one may be about to be taken. */
static void
dead_clear(const char *dir, const char *name)
{
	AUTO_FREE char *path = xasprintf("%s/%s.lock", dir, name);
	AUTO_FD int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	static const char *const ends[] = {"sock", "early", "lock"};
	struct stat of_fd, of_path;

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &of_fd) != 0 ||
	    lstat(path, &of_path) != 0 || of_fd.st_ino != of_path.st_ino ||
	    of_fd.st_dev != of_path.st_dev || of_fd.st_mtime + YOUNG_S > time(NULL))
		return;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		AUTO_FREE char *dead = xasprintf("%s/%s.%s", dir, name, ends[i]);

		(void)unlink(dead);
	}
}

/* One that does not answer is listed as that: it may be ending, or its supervisor stopped. */
static void
one_put(const char *name, struct buf *ret)
{
	AUTO_BUF struct buf one = BUF(ret->max);
	struct sandbox *sb = NULL;
	struct err e = {0};
	struct jcs j;

	if (sandbox_attach(name, &sb, &e) == 0) {
		int rc = sandbox_inspect(sb, &one, &e);

		sandbox_detach(sb);
		if (rc == 0) {
			buf_printf(ret, "%s", ret->p[ret->n - 1] == '[' ? "" : ",");
			buf_put_str(ret, buf_str(&one));
			return;
		}
	}
	if (e.code == ERR_NOT_FOUND)
		return;
	buf_printf(ret, "%s", ret->p[ret->n - 1] == '[' ? "" : ",");
	buf_reset(&one);
	jcs_init(&j, &one);
	jcs_open(&j, NULL);
	jcs_str_lossy(&j, "error", str_z(e.msg));
	jcs_z(&j, "name", name);
	jcs_z(&j, "state", e.code == ERR_STATE ? "busy" : "unreachable");
	jcs_close(&j);
	buf_put_str(ret, buf_str(&one));
}

static int
by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int
is_lock(const struct dirent *d)
{
	return str_has_suffix(str_z(d->d_name), ".lock");
}

int
sandbox_list(struct buf *ret, struct err *err)
{
	struct err e = {0};
	AUTO_FREE char *dir = call_directory(false, &e);
	struct dirent **names = NULL;
	int n;

	buf_put_c(ret, '[');
	if (dir == NULL && e.code != ERR_NOT_FOUND)
		return err_set(err, e.code, "%s", e.msg);
	n = dir != NULL ? scandir(dir, &names, is_lock, by_name) : 0;
	for (int i = 0; i < n; i++) {
		AUTO_FREE char *name =
		    str_dup(str_mem(names[i]->d_name, strlen(names[i]->d_name) - 5));
		AUTO_FREE char *path = xasprintf("%s/%s.sock", dir, name);
		int fd = -1;

		if (client_connect(path, &fd, &e) == 0)
			(void)close(fd);
		else if (e.code == ERR_NOT_FOUND)
			dead_clear(dir, name);
		if (fd >= 0 && i < NAMES_MAX)
			one_put(name, ret);
		free(names[i]);
	}
	free(names);
	call_directory_clear();
	buf_put_c(ret, ']');
	return buf_over(ret) ? err_set(err, ERR_TOO_LARGE, "sandbox: list over %zu bytes", ret->max)
			     : 0;
}
