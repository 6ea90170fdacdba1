/*
 * The caller's side of spares (`cofferdam sandbox exec --spare`): takes one that was built ahead if
 * one is there, says what it is built from and answers at once; else builds as without them, and
 * then has one begun for the next. Whoever listens there is only believed if it is this user.
 */
#include "agent/sandbox/sandbox.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/un.h>

#include "common/xalloc.h"
#include "agent/sandbox/sandbox_client.h"
#include "agent/sandbox/sandbox_self.h"

#include "common/banned.h"

#define TAKE_MS 20 /* about what building one takes */
#define ORDER_MAX ((size_t)16384)

void
call_hint(struct str built_from, char ret[CALL_HINT + 1])
{
	uint64_t h = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < built_from.n; i++)
		h = (h ^ (unsigned char)built_from.p[i]) * UINT64_C(1099511628211);
	(void)snprintf(ret, CALL_HINT + 1, "%016llx", (unsigned long long)h);
}

int
client_spare_begin(uint32_t seconds, struct str built_from, struct str spec, struct err *err)
{
	AUTO_BUF struct buf b = BUF(2 * ORDER_MAX);
	struct sandbox *sb = client_new();
	uint32_t tag = 0;
	int rc = client_supervise(sb, CLIENT_LOOSE, err);

	buf_u32(&b, seconds);
	buf_lstr(&b, built_from);
	buf_lstr(&b, spec);
	if (rc == 0)
		rc = client_send(sb, CALL_SPARE, &b, NULL, 0, &tag, err);
	cleanup_close_fd(&sb->wire);
	client_free(sb);
	return rc;
}

/* --- what there is ---------------------------------------------------------------------------- */

enum place { FREE, OURS, OTHER };

/* By the lock file alone: whether it is worth a question. */
static enum place
place_look(const char *dir, unsigned i, const char *hint)
{
	AUTO_FREE char *path = xasprintf("%s/" CALL_SPARE_NAME ".lock", dir, i);
	AUTO_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	char is[CALL_HINT];

	if (fd < 0)
		return FREE;
	if (read(fd, is, sizeof(is)) == (ssize_t)sizeof(is) && memcmp(is, hint, sizeof(is)) == 0)
		return OURS;
	return flock(fd, LOCK_SH | LOCK_NB) == 0 ? FREE : OTHER;
}

/* A supervisor that is stopped, or has too many at its door, must not hold us. */
static int
socket_open(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred u;
	socklen_t n = sizeof(u);

	if (fd < 0 || strlen(path) >= sizeof(a.sun_path))
		return -1;
	memcpy(a.sun_path, path, strlen(path) + 1);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &n) != 0 || u.uid != geteuid())
		return -1;
	return TAKE_FD(fd);
}

struct want {
	const struct sandbox_spec *spec;
	uint32_t seconds;
	struct buf built_from, body; /* body: the spec for the wire */
};

static struct sandbox *
place_take(const char *dir, unsigned i, const struct want *w)
{
	AUTO_FREE char *path = xasprintf("%s/" CALL_SPARE_NAME ".sock", dir, i);
	AUTO_BUF struct buf b = BUF(2 * ORDER_MAX);
	AUTO(sandbox) struct sandbox *sb = client_for(w->spec);
	struct err ignored;
	uint32_t tag = 0;

	sb->taken = true;
	sb->wire = socket_open(path);
	buf_u8(&b, CALL_VERSION);
	buf_u32(&b, w->seconds);
	buf_lstr(&b, buf_str(&w->built_from));
	if (sb->wire < 0 || client_send(sb, CALL_TAKE, &b, NULL, 0, &tag, &ignored) != 0 ||
	    client_created(sb, tag, w->spec->ntargets, TAKE_MS, &ignored) != 0)
		return NULL;
	return TAKE_PTR(sb);
}

/* *ret_room: one more may be begun. */
static struct sandbox *
places_try(const struct want *w, bool *ret_room)
{
	struct err ignored;
	AUTO_FREE char *dir = call_directory(false, &ignored);
	char hint[CALL_HINT + 1];

	*ret_room = dir == NULL;
	if (dir == NULL)
		return NULL;
	call_hint(buf_str(&w->built_from), hint);
	for (unsigned i = 1; i <= CALL_SPARES_MAX; i++) {
		enum place p = place_look(dir, i, hint);
		struct sandbox *sb = p == OURS ? place_take(dir, i, w) : NULL;

		if (sb != NULL)
			return sb;
		*ret_room = *ret_room || p != OTHER;
	}
	return NULL;
}

/* --- create ----------------------------------------------------------------------------------- */

/* As the supervisor gets it: u32 seconds, str, str. */
static void
on_spare(struct sandbox *sb)
{
	struct rd r = rd_init(buf_str(&sb->order));
	uint32_t seconds = rd_u32(&r);
	struct str built_from = rd_lstr(&r), spec = rd_lstr(&r);
	struct err ignored;

	sb->spare = NULL;
	(void)client_spare_begin(seconds, built_from, spec, &ignored);
}

static void
want_free(struct want *w)
{
	buf_free(&w->built_from);
	buf_free(&w->body);
}

/* False: what a sandbox would take from this process cannot be told, or is too much. */
static bool
want_make(const struct sandbox_spec *s, uint32_t seconds, struct want *w)
{
	*w = (struct want){
	    .spec = s, .seconds = seconds, .built_from = BUF(ORDER_MAX), .body = BUF(ORDER_MAX)};
	sandbox_spec_encode(s, &w->body);
	buf_lstr(&w->built_from, buf_str(&w->body));
	return sandbox_self_put(&w->built_from) && !buf_over(&w->body) && !buf_over(&w->built_from);
}

int
sandbox_create_spare(
    const struct sandbox_spec *s, uint32_t seconds, struct sandbox **ret, struct err *err)
{
	__attribute__((cleanup(want_free))) struct want w = {.built_from = BUF(1), .body = BUF(1)};
	struct err e = {0};
	bool room = false;
	int rc;

	if (sandbox_spec_check(s, &e) != 0)
		return err_set(err, e.code, "%s", e.msg);
	if (seconds < 1 || seconds > CALL_SPARE_S_MAX)
		return err_set(err, ERR_INVALID, "sandbox: a spare waits 1 to %d s, not %u",
		    CALL_SPARE_S_MAX, seconds);
	if (s->name != NULL || s->ntargets != 0 ||
	    (s->backend != NULL && strcmp(s->backend, "native") != 0))
		return err_set(err, ERR_INVALID,
		    "sandbox: spares have no name and no targets, and are of the back end native");
	if (want_make(s, seconds, &w) && (*ret = places_try(&w, &room)) != NULL)
		return 0;
	if ((rc = sandbox_create_once(s, ret, err)) != 0 || !room)
		return rc;
	buf_init(&(*ret)->order, 2 * ORDER_MAX);
	buf_u32(&(*ret)->order, seconds);
	buf_lstr(&(*ret)->order, buf_str(&w.built_from));
	buf_lstr(&(*ret)->order, buf_str(&w.body));
	(*ret)->spare = on_spare;
	return 0;
}
