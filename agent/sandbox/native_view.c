/*
 * What the sandbox sees: the host's program directories and nothing of its data, or the tree of an
 * image; the binds and the workspace. Each becomes a detached, read-only mount, opened by the
 * supervisor when it is root (the child is then an unprivileged host id), else by the child itself.
 */
#include "agent/sandbox/native.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/xalloc.h"

#include "common/banned.h"

/* Files of the host's /etc that programs need and that hold no secret. */
static const struct native_source fixed[] = {
    {.host = "/usr", .inside = "usr", .dir = true, .exec = true},
    {.host = "/etc/alternatives", .inside = "etc/alternatives", .dir = true, .optional = true},
    {.host = "/etc/ld.so.cache", .inside = "etc/ld.so.cache", .optional = true},
    {.host = "/etc/localtime", .inside = "etc/localtime", .optional = true},
    {.host = "/etc/services", .inside = "etc/services", .optional = true},
    {.host = "/etc/protocols", .inside = "etc/protocols", .optional = true},
    {.host = "/etc/mime.types", .inside = "etc/mime.types", .optional = true},
    {.host = "/etc/ssl/openssl.cnf", .inside = "etc/ssl/openssl.cnf", .optional = true},
    {.host = "/etc/java-17-openjdk",
	.inside = "etc/java-17-openjdk",
	.dir = true,
	.optional = true},
    {.host = "/etc/java-21-openjdk",
	.inside = "etc/java-21-openjdk",
	.dir = true,
	.optional = true},
};

static const struct native_source devices[] = {
    {.host = "/dev/null", .inside = "dev/null", .device = true},
    {.host = "/dev/zero", .inside = "dev/zero", .device = true},
    {.host = "/dev/full", .inside = "dev/full", .device = true},
    {.host = "/dev/random", .inside = "dev/random", .device = true},
    {.host = "/dev/urandom", .inside = "dev/urandom", .device = true},
    {.host = "/dev/tty", .inside = "dev/tty", .device = true, .optional = true},
};

static void
source_add(struct native_view *v, struct native_source s)
{
	if (v->n < NATIVE_SOURCES_MAX) {
		s.fd = -1;
		v->s[v->n++] = s;
	}
}

static char *
own(struct native_view *v, char *text)
{
	return v->owned[v->nowned++] = text;
}

/* A link on the host stays a link; a directory (before the /usr merge) is seen as one. */
static void
host_add(struct native_view *v)
{
	static const char *const top[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
	char to[PATH_MAX];
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		source_add(v, fixed[i]);
	for (size_t i = 0; i < ARRAY_LEN(top) && v->nowned < ARRAY_LEN(v->owned); i++) {
		ssize_t k = readlink(top[i], to, sizeof(to) - 1);

		if (k > 0) {
			to[k] = '\0';
			v->links[v->nlinks++] =
			    (struct native_link){.inside = top[i] + 1, .to = own(v, xstrdup(to))};
		} else if (errno == EINVAL && stat(top[i], &st) == 0 && S_ISDIR(st.st_mode)) {
			source_add(v,
			    (struct native_source){
				.host = top[i], .inside = top[i] + 1, .dir = true, .exec = true});
		}
	}
}

static int
linked(const char *path, struct err *err)
{
	return err_set(
	    err, ERR_INVALID, "sandbox: %s has a link in it: give the path that it leads to", path);
}

/* Ours in every sandbox; and a place of an image that has a bind below is the binds' alone. */
static bool
taken(const struct super_spec *spec, const char *name)
{
	static const char *const ours[] = {"dev", "etc", "proc", "run", "sys", "tmp", "work"};
	size_t n = strlen(name);

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (strcmp(ours[i], name) == 0)
			return true;
	for (size_t i = 0; i < spec->nbinds; i++) {
		const char *at = spec->binds[i].inside + 1;

		if (strncmp(at, name, n) == 0 && (at[n] == '/' || at[n] == '\0'))
			return true;
	}
	return name[0] == '.';
}

/* By whoever mounts: only what is of its own mount namespace can be copied. */
static int
image_open(const char *image, struct err *err)
{
	const struct open_how how = {
	    .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, image, &how, sizeof(how));

	if (fd < 0 && errno == ELOOP)
		return linked(image, err);
	return fd >= 0 ? fd : err_sys(err, ERR_INVALID, errno, "sandbox: image %s", image);
}

static void
image_dir_add(struct native_view *v, const char *image, const char *name, bool etc)
{
	source_add(v, (struct native_source){.host = own(v, xasprintf("%s/%s", image, name)),
			  .inside = own(v, xstrdup(name)),
			  .image = true,
			  .dir = true,
			  .optional = etc,
			  .plain = true,
			  .exec = !etc});
}

static int
image_entry(struct native_view *v, int at, const char *image, const char *name, struct err *err)
{
	char to[PATH_MAX];
	struct stat st;
	ssize_t k;

	if (v->nowned + 4 > ARRAY_LEN(v->owned) || v->nlinks == ARRAY_LEN(v->links))
		return err_set(err, ERR_TOO_LARGE,
		    "sandbox: image %s has more than %zu entries at its top", image,
		    ARRAY_LEN(v->owned) / 2 - 1);
	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return err_sys(err, ERR_INVALID, errno, "sandbox: image %s: %s", image, name);
	if (S_ISDIR(st.st_mode))
		image_dir_add(v, image, name, false);
	if (S_ISLNK(st.st_mode) && (k = readlinkat(at, name, to, sizeof(to) - 1)) > 0) {
		to[k] = '\0';
		v->links[v->nlinks++] = (struct native_link){
		    .inside = own(v, xstrdup(name)), .to = own(v, xstrdup(to))};
	}
	return 0;
}

static int
image_add(const struct super_spec *spec, const char *image, struct native_view *v, struct err *err)
{
	int fd = image_open(image, err), rc = 0;
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;

	if (fd < 0)
		return fd;
	if (d == NULL)
		return err_sys(err, ERR_INVALID, errno, "sandbox: image %s", image);
	while (rc == 0 && (e = readdir(d)) != NULL)
		if (!taken(spec, e->d_name))
			rc = image_entry(v, fd, image, e->d_name, err);
	(void)closedir(d);
	v->etc = v->n;
	image_dir_add(v, image, "etc", true);
	return rc;
}

static int
workspace_add(const struct super_spec *spec, struct native_view *v, struct err *err)
{
	struct stat st;

	if (spec->workspace == NULL)
		return 0;
	if (lstat(spec->workspace, &st) != 0)
		return err_sys(err, ERR_INVALID, errno, "sandbox: workspace %s", spec->workspace);
	if (!S_ISDIR(st.st_mode))
		return err_set(
		    err, ERR_INVALID, "sandbox: workspace %s is not a directory", spec->workspace);
	v->workspace = v->n;
	source_add(v, (struct native_source){.host = spec->workspace,
			  .inside = "work",
			  .dir = true,
			  .writable = true,
			  .plain = true,
			  .exec = true});
	return 0;
}

int
native_view_plan(const struct super_spec *spec, struct native_view *v, struct err *err)
{
	struct stat st;

	v->root = v->work = v->tmp = -1;
	v->workspace = v->etc = NATIVE_SOURCES_MAX;
	v->limited = spec->workspace == NULL || spec->overlay;
	if (spec->image != NULL || native_layer_off("mounts")) {
		int rc = image_add(spec, spec->image != NULL ? spec->image : "/", v, err);

		if (rc != 0)
			return rc;
	} else {
		host_add(v);
	}
	for (size_t i = 0; i < spec->nbinds; i++) {
		const struct spec_bind *b = &spec->binds[i];

		if (stat(b->host_path, &st) != 0)
			return err_sys(err, ERR_INVALID, errno, "sandbox: bind %s", b->host_path);
		source_add(v, (struct native_source){.host = b->host_path,
				  .inside = b->inside + 1,
				  .dir = S_ISDIR(st.st_mode),
				  .plain = true,
				  .exec = true});
	}
	return workspace_add(spec, v, err);
}

/* What the caller chose is taken by a path without links: a link is one that was put there since.
 */
static int
tree_open(const struct native_source *s, int image)
{
	const struct open_how how = {.flags = O_PATH | O_CLOEXEC | (s->dir ? O_DIRECTORY : 0),
	    .resolve = (s->plain ? RESOLVE_NO_SYMLINKS : 0) | (s->image ? RESOLVE_BENEATH : 0)};
	AUTO_FD int fd = (int)syscall(SYS_openat2, s->image ? image : AT_FDCWD,
	    s->image ? s->inside : s->host, &how, sizeof(how));

	return fd < 0 ? -1
		      : open_tree(fd, "",
			    AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
				(s->writable ? 0 : AT_RECURSIVE));
}

static int
source_open(
    struct native_source *s, int image, bool overlay, uid_t outside, uid_t maker, struct err *err)
{
	struct mount_attr a = {.attr_set = MOUNT_ATTR_NOSUID, .propagation = MS_PRIVATE};

	s->fd = tree_open(s, image);
	if (s->fd < 0 && s->optional && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (s->fd < 0 && errno == ELOOP)
		return linked(s->host, err);
	if (s->fd < 0)
		return native_missing(err, errno, s->host,
		    "the kernel must be 5.12 or later and let this user make mount namespaces");
	a.attr_set |= s->device ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_NODEV;
	a.attr_set |= (s->writable && !overlay) || s->device ? 0 : MOUNT_ATTR_RDONLY;
	a.attr_set |= s->exec ? 0 : MOUNT_ATTR_NOEXEC;
	if (s->writable && outside != 0) {
		int rc = native_idmap(s->fd, s->host, outside, maker, err);

		if (rc != 0)
			return rc;
	}
	if (native_layer_off("mounts"))
		a.attr_set = 0;
	if (mount_setattr(s->fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) != 0)
		return err_sys(
		    err, ERR_UNAVAILABLE, errno, "sandbox: read-only view of %s", s->host);
	return 0;
}

static int
root_open(int *ret, struct err *err)
{
	static const char *const options[][2] = {
	    {"size", "16m"}, {"nr_inodes", "8192"}, {"mode", "755"}};
	AUTO_FD int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);

	for (size_t i = 0; fs >= 0 && i < ARRAY_LEN(options); i++)
		if (fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0) != 0)
			return err_sys(
			    err, ERR_UNAVAILABLE, errno, "sandbox: tmpfs option %s", options[i][0]);
	if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0 ||
	    (*ret = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID)) < 0)
		return native_missing(err, errno, "a new root file system",
		    "the kernel must be 5.12 or later, with tmpfs");
	return 0;
}

int
native_view_open(
    const struct super_spec *spec, struct native_view *v, uid_t outside, struct err *err)
{
	AUTO_FD int image = -1;
	int rc;

	if ((spec->image != NULL || native_layer_off("mounts")) &&
	    (image = image_open(spec->image != NULL ? spec->image : "/", err)) < 0)
		return image;
	if ((rc = root_open(&v->root, err)) != 0 ||
	    (rc = native_root_fill(spec, v, outside != 0, err)) != 0)
		return rc;
	for (size_t i = 0; !v->nodes && i < ARRAY_LEN(devices); i++)
		source_add(v, devices[i]);
	for (size_t i = 0; i < v->n; i++) {
		struct native_source *s = &v->s[i];

		if ((rc = source_open(s, image, spec->overlay, outside, v->maker, err)) != 0)
			return rc;
		if (s->fd >= 0 && (rc = native_point_make(v->root, s->inside, s->dir, err)) != 0)
			return rc;
	}
	return 0;
}

void
native_view_close(struct native_view *v)
{
	for (size_t i = 0; i < v->n; i++) {
		if (v->s[i].fd >= 0)
			(void)close(v->s[i].fd);
		v->s[i].fd = -1;
	}
}

static void
one_close(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

void
native_view_free(struct native_view *v)
{
	native_view_close(v);
	one_close(&v->root);
	one_close(&v->work);
	one_close(&v->tmp);
	for (size_t i = 0; i < v->nowned; i++)
		free(v->owned[i]);
	v->nowned = 0;
}
