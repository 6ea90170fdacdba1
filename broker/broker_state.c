/*
 * The state directory as the parent sees it, before anything is started. Trusts nobody
 * who could have written to it: a file that others may read or write, that is a link, or
 * that belongs to somebody else stops the start and is named.
 */
#include "broker/broker_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/json.h"
#include "common/log.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define SECRET 0600
#define PUBLIC 0644
#define SIGNATURES_MAX ((size_t)512 << 10)
#define BUNDLE_MAX ((size_t)4 << 20) /* as core reads */

struct entry {
	const char *path;
	bool dir;
	mode_t max;	     /* no bit beyond these */
	enum ipc_role owner; /* as root it may (once handed over) belong to this child */
};

/* docs/state.md has the same table with the meaning of each. */
static const struct entry entries[] = {
    {"VERSION", false, PUBLIC, IPC_ROLE_NONE},
    {"broker.json", false, PUBLIC, IPC_ROLE_NONE},
    {"vault", false, SECRET, IPC_ROLE_NONE},
    {"keys", true, 0700, IPC_ROLE_NONE},
    {"keys/vault.key", false, SECRET, IPC_ROLE_NONE},
    {"keys/log", true, 0700, IPC_ROLE_NONE},
    {"keys/log/seed", false, SECRET, IPC_ROLE_NONE},
    {"keys/log/vkey", false, PUBLIC, IPC_ROLE_NONE},
    {"keys/ca", true, 0700, IPC_ROLE_NONE},
    {"keys/ca/key.pem", false, SECRET, IPC_ROLE_NONE},
    {"keys/ca/cert.pem", false, PUBLIC, IPC_ROLE_NONE},
    {"keys/blob", true, 0700, IPC_ROLE_CORE},
    {"log", true, 0700, IPC_ROLE_WRITER},
    {"policy", true, 0700, IPC_ROLE_NONE},
    {"courier", true, 0700, IPC_ROLE_COURIER},
    {"run", true, 0700, IPC_ROLE_NONE},
};

/* There once the log's key has changed. */
static const struct entry later[] = {
    {"keys/log/first", false, PUBLIC, IPC_ROLE_NONE},
    {"keys/log/handover", false, PUBLIC, IPC_ROLE_NONE},
};

/* --- opening -------------------------------------------------------------------------- */

static int
open_beneath(int dir, const char *path, int flags)
{
	/* A FIFO in the place of a file must not hold up the start; O_PATH opens nothing. */
	unsigned extra = (flags & O_PATH) != 0 ? 0 : O_NOCTTY | O_NONBLOCK;
	struct open_how how = {
	    .flags = (unsigned)flags | extra | O_CLOEXEC | O_NOFOLLOW,
	    .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	if ((flags & O_CREAT) != 0)
		how.mode = 0600;
	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

int
broker_state_file(
    const struct broker_state *s, const char *path, int flags, int *ret_fd, struct err *err)
{
	int fd = open_beneath(s->dir, path, flags);

	if (fd < 0)
		return err_sys(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, errno, "%s/%s",
		    s->path, path);
	*ret_fd = fd;
	return 0;
}

bool
broker_state_has(const struct broker_state *s, const char *path)
{
	AUTO_FD int fd = open_beneath(s->dir, path, O_PATH);

	return fd >= 0 || errno != ENOENT;
}

int
broker_state_text(const struct broker_state *s, const char *path, size_t max, char **ret,
    size_t *ret_n, struct err *err)
{
	AUTO_FD int fd = -1;
	AUTO_FREE char *text = xmalloc(max + 2);
	size_t n = 0;
	int rc = broker_state_file(s, path, O_RDONLY, &fd, err);

	if (rc != 0)
		return rc;
	for (;;) {
		ssize_t k = read(fd, text + n, max + 1 - n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "%s/%s", s->path, path);
		if (k == 0)
			break;
		n += (size_t)k;
		if (n > max)
			return err_set(err, ERR_TOO_LARGE,
			    "%s/%s: must be at most %zu bytes, is longer", s->path, path, max);
	}
	text[n] = '\0';
	*ret = TAKE_PTR(text);
	*ret_n = n;
	return 0;
}

static int
version_check(const struct broker_state *s, struct err *err)
{
	AUTO_FREE char *text = NULL;
	uint64_t v = 0;
	size_t n = 0;
	struct str line;
	int rc = broker_state_text(s, "VERSION", 32, &text, &n, err);

	if (rc == ERR_NOT_FOUND)
		return err_set(err, ERR_CONFIG,
		    "%s: no VERSION, so not a state directory (cofferdam init makes one)", s->path);
	if (rc != 0)
		return rc;
	line = str_mem(text, n);
	if (!str_has_suffix(line, "\n"))
		return err_set(err, ERR_CONFIG, "%s/VERSION: must be a number and LF", s->path);
	line.n--;
	if (!str_to_u64(line, UINT32_MAX, &v) || v == 0)
		return err_set(err, ERR_CONFIG, "%s/VERSION: must be a number and LF", s->path);
	if (v > BROKER_STATE_VERSION)
		return err_set(err, ERR_CONFIG,
		    "%s/VERSION is %u, this program knows %d: written by a newer release", s->path,
		    (unsigned)v, BROKER_STATE_VERSION);
	return 0;
}

/* --- owner and mode --------------------------------------------------------------------- */

static int
stat_check(const struct broker_state *s, const struct entry *e, const struct stat *st,
    const struct broker_ids *ids, struct err *err)
{
	bool child = e->owner != IPC_ROLE_NONE && ids->root && st->st_uid == ids->uid[e->owner];
	const char *slash = e->path[0] != '\0' ? "/" : "";

	if (e->dir ? !S_ISDIR(st->st_mode) : !S_ISREG(st->st_mode))
		return err_set(err, ERR_CONFIG, "%s%s%s: must be a %s", s->path, slash, e->path,
		    e->dir ? "directory" : "plain file");
	if (st->st_uid != geteuid() && !child)
		return err_set(err, ERR_CONFIG, "%s%s%s: owner is uid %u, must be %u", s->path,
		    slash, e->path, st->st_uid, geteuid());
	if ((st->st_mode & 07777u & ~e->max) != 0)
		return err_set(err, ERR_CONFIG, "%s%s%s: mode is %04o, must be %04o", s->path,
		    slash, e->path, st->st_mode & 07777u, e->max);
	return 0;
}

static int
entry_check(const struct broker_state *s, const struct entry *e, const struct broker_ids *ids,
    struct err *err)
{
	AUTO_FD int fd = open_beneath(s->dir, e->path, O_PATH);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(err, ERR_CONFIG, errno, "%s/%s", s->path, e->path);
	return stat_check(s, e, &st, ids, err);
}

static DIR *
dir_open(const struct broker_state *s, const char *path)
{
	int fd = open_beneath(s->dir, path, O_RDONLY | O_DIRECTORY);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (d == NULL && fd >= 0)
		(void)close(fd);
	return d;
}

static void
dir_close(DIR *d)
{
	if (d != NULL)
		(void)closedir(d);
}
DEFINE_AUTO(dir, DIR, dir_close)

/* Each run's blob key is a secret of its own. */
static int
blob_keys_check(const struct broker_state *s, const struct broker_ids *ids, struct err *err)
{
	AUTO(dir) DIR *d = dir_open(s, "keys/blob");
	struct dirent *de;

	if (d == NULL)
		return err_sys(err, ERR_CONFIG, errno, "%s/keys/blob", s->path);
	while ((de = readdir(d)) != NULL) {
		AUTO_FREE char *path = xasprintf("keys/blob/%s", de->d_name);
		struct entry e = {path, false, SECRET, IPC_ROLE_CORE};
		int rc;

		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		rc = entry_check(s, &e, ids, err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

int
broker_state_check(const struct broker_state *s, const struct broker_ids *ids, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
		int rc = entry_check(s, &entries[i], ids, err);

		if (rc != 0)
			return rc;
	}
	for (size_t i = 0; i < ARRAY_LEN(later); i++) {
		int rc =
		    broker_state_has(s, later[i].path) ? entry_check(s, &later[i], ids, err) : 0;

		if (rc != 0)
			return rc;
	}
	return blob_keys_check(s, ids, err);
}

int
broker_state_open(const char *path, struct broker_state *ret, struct err *err)
{
	static const struct entry top = {"", true, 0700, IPC_ROLE_NONE};
	static const char *const made[] = {"run", "courier"};
	static const struct broker_ids nobody;
	struct broker_state s = {.path = xstrdup(path), .dir = -1, .run = -1, .lock = -1};
	struct stat st;
	int rc;

	s.dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s.dir < 0 || fstat(s.dir, &st) != 0) {
		rc = err_sys(err, ERR_CONFIG, errno, "state directory %s", path);
	} else {
		rc = stat_check(&s, &top, &st, &nobody, err);
		if (rc == 0)
			rc = version_check(&s, err);
		for (size_t i = 0; rc == 0 && i < ARRAY_LEN(made); i++)
			if (mkdirat(s.dir, made[i], 0700) != 0 && errno != EEXIST)
				rc = err_sys(err, ERR_SYSTEM, errno, "%s/%s", path, made[i]);
		if (rc == 0)
			rc = broker_state_file(&s, "run", O_RDONLY | O_DIRECTORY, &s.run, err);
	}
	if (rc != 0) {
		broker_state_close(&s);
		return rc;
	}
	*ret = s;
	return 0;
}

void
broker_state_close(struct broker_state *s)
{
	if (s->lock >= 0) {
		(void)unlinkat(s->run, "broker.pid", 0);
		(void)close(s->lock);
	}
	if (s->run >= 0)
		(void)close(s->run);
	if (s->dir >= 0)
		(void)close(s->dir);
	free(s->path);
	*s = (struct broker_state){.dir = -1, .run = -1, .lock = -1};
}

/* --- one broker ---------------------------------------------------------------------------- */

static int
lock_refused(const struct broker_state *s, struct err *err)
{
	AUTO_FREE char *pid = NULL;
	size_t n = 0;

	if (broker_state_text(s, "run/broker.pid", 32, &pid, &n, NULL) != 0)
		pid = xstrdup("unknown");
	pid[strcspn(pid, "\n")] = '\0';
	return err_set(err, ERR_EXISTS, "%s is in use by another broker (pid %s)", s->path, pid);
}

int
broker_state_lock(struct broker_state *s, struct err *err)
{
	AUTO_FD int lock = open_beneath(s->run, "LOCK", O_RDWR | O_CREAT);
	AUTO_FD int fd = -1;

	if (lock < 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s/run/LOCK", s->path);
	if (flock(lock, LOCK_EX | LOCK_NB) != 0)
		return errno == EWOULDBLOCK
			   ? lock_refused(s, err)
			   : err_sys(err, ERR_SYSTEM, errno, "%s/run/LOCK", s->path);
	fd = open_beneath(s->run, "broker.pid", O_WRONLY | O_CREAT | O_TRUNC);
	if (fd < 0 || dprintf(fd, "%d\n", (int)getpid()) < 0)
		return err_sys(err, ERR_SYSTEM, errno, "%s/run/broker.pid", s->path);
	s->lock = TAKE_FD(lock);
	return 0;
}

/* --- owners, when started as root ------------------------------------------------------------ */

#define HAND_OVER_DEPTH 3

struct hand_over {
	const struct broker_state *s;
	uid_t uid;
	gid_t gid;
};

static int hand_over_dir(const struct hand_over *h, const char *path, int depth, struct err *err);

static int
hand_over_one(const struct hand_over *h, const char *path, int depth, struct err *err)
{
	AUTO_FD int fd = open_beneath(h->s->dir, path, O_PATH);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(err, ERR_CONFIG, errno, "%s/%s", h->s->path, path);
	if (st.st_uid != h->uid) {
		/*
		 * The child could have put a hard link to a file of root's here: only what has no
		 * other name is given away, and only what is ours.
		 */
		if (st.st_uid != geteuid() || (!S_ISDIR(st.st_mode) && st.st_nlink != 1) ||
		    (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
			return err_set(err, ERR_CONFIG,
			    "%s/%s: owner is uid %u, links %u; must be a plain file of uid %u with "
			    "one",
			    h->s->path, path, st.st_uid, (unsigned)st.st_nlink, geteuid());
		if (fchownat(fd, "", h->uid, h->gid, AT_EMPTY_PATH) != 0)
			return err_sys(err, ERR_SYSTEM, errno, "%s/%s: giving it to uid %u",
			    h->s->path, path, h->uid);
	}
	return S_ISDIR(st.st_mode) ? hand_over_dir(h, path, depth, err) : 0;
}

static int
hand_over_dir(const struct hand_over *h, const char *path, int depth, struct err *err)
{
	AUTO(dir) DIR *d = dir_open(h->s, path);
	struct dirent *de;

	if (d == NULL)
		return err_sys(err, ERR_CONFIG, errno, "%s/%s", h->s->path, path);
	if (depth == HAND_OVER_DEPTH)
		return err_set(err, ERR_CONFIG, "%s/%s: directories nest deeper than %d",
		    h->s->path, path, HAND_OVER_DEPTH);
	while ((de = readdir(d)) != NULL) {
		AUTO_FREE char *sub = xasprintf("%s/%s", path, de->d_name);
		int rc;

		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		rc = hand_over_one(h, sub, depth + 1, err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

int
broker_state_hand_over(const struct broker_state *s, const struct broker_ids *ids, struct err *err)
{
	static const struct {
		const char *path;
		enum ipc_role to;
	} owned[] = {
	    {"log", IPC_ROLE_WRITER}, {"keys/blob", IPC_ROLE_CORE}, {"courier", IPC_ROLE_COURIER}};

	for (size_t i = 0; ids->root && i < ARRAY_LEN(owned); i++) {
		struct hand_over h = {s, ids->uid[owned[i].to], ids->gid[owned[i].to]};
		int rc = hand_over_one(&h, owned[i].path, 0, err);

		if (rc != 0)
			return rc;
	}
	return 0;
}

/* --- policy ------------------------------------------------------------------------------------
 */

/* A copy that nobody can change: the bytes that were compared are those that core reads. */
static int
sealed(struct str text, const char *path, int *ret_fd, struct err *err)
{
	AUTO_FD int fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, text.p, text.n) != (ssize_t)text.n ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0 ||
	    lseek(fd, 0, SEEK_SET) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "copy of %s", path);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int
active_digest(const struct broker_state *s, char **ret, struct err *err)
{
	AUTO_FREE char *text = NULL;
	size_t n = 0;
	int rc = broker_state_text(s, "policy/active", 128, &text, &n, err);

	if (rc != 0)
		return rc;
	if (n != 65 || strspn(text, "0123456789abcdef") != 64 || text[64] != '\n')
		return err_set(err, ERR_CONFIG,
		    "%s/policy/active: must be 64 lower-case hex digits and LF", s->path);
	text[64] = '\0';
	*ret = TAKE_PTR(text);
	return 0;
}

static int
bundle_fd(const struct broker_state *s, const char *digest, int *ret_fd, struct err *err)
{
	AUTO_FREE char *path = xasprintf("policy/%s.json", digest);
	AUTO_FREE char *bundle = NULL;
	size_t n = 0;
	char hex[HASH_HEX_SIZE];
	struct hash h;
	int rc = broker_state_text(s, path, BUNDLE_MAX, &bundle, &n, err);

	if (rc != 0)
		return rc;
	h = hash_sha256(str_mem(bundle, n));
	hash_hex(&h, hex);
	if (strcmp(hex, digest) != 0)
		return err_set(
		    err, ERR_TAMPER, "%s/%s: its SHA-256 is %s, not its name", s->path, path, hex);
	return sealed(str_mem(bundle, n), path, ret_fd, err);
}

int
broker_state_policy(const struct broker_state *s, int *ret_fd, struct err *err)
{
	AUTO_FREE char *digest = NULL;
	int rc = active_digest(s, &digest, err);

	if (rc == 0 && (rc = bundle_fd(s, digest, ret_fd, err)) == ERR_NOT_FOUND)
		/* Named by policy/active and not there: not the same as no policy at all. */
		return err_set(err, ERR_CONFIG,
		    "%s/policy/%s.json: named by policy/active, missing", s->path, digest);
	return rc;
}

int
broker_state_policy_signed(
    const struct broker_state *s, int *ret_signatures, int *ret_before, struct err *err)
{
	AUTO(json) struct json_doc *doc = NULL;
	AUTO_FREE char *digest = NULL, *path = NULL, *text = NULL, *before = NULL;
	struct hash h;
	size_t n = 0;
	int rc = active_digest(s, &digest, err);

	*ret_signatures = *ret_before = -1;
	if (rc != 0)
		return rc;
	path = xasprintf("policy/%s.sig", digest);
	rc = broker_state_text(s, path, SIGNATURES_MAX, &text, &n, err);
	if (rc != 0)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	rc = json_parse(str_mem(text, n), path, &doc, err);
	if (rc == 0)
		rc = sealed(str_mem(text, n), path, ret_signatures, err);
	if (rc != 0)
		return rc;
	/* Only a name of a file here: core compares it with what the log says. */
	before = str_dup(json_str(json_get(json_root(doc), "before")));
	if (!hash_from_hex(str_z(before), &h))
		return 0;
	rc = bundle_fd(s, before, ret_before, err);
	return rc == ERR_NOT_FOUND ? 0 : rc;
}
