/*
 * config.json of a bundle: the wall as the native back end builds it, in the words of the OCI run
 * time specification 1.0. Written by the supervisor; no word in it comes from a caller but numbers,
 * since the view is mounted before and the run time finds it as its root.
 */
#include "agent/sandbox/oci.h"

#include <stdio.h>
#include <sys/resource.h>

#include "common/jcs.h"
#include "agent/sandbox/filter.h"

#include "common/banned.h"

static void
list_put(struct jcs *j, const char *key, const char *const *rows)
{
	jcs_array(j, key);
	for (; *rows != NULL; rows++)
		jcs_z(j, NULL, *rows);
	jcs_array_end(j);
}

static void
mount_put(
    struct jcs *j, const char *at, const char *type, const char *source, const char *const *options)
{
	jcs_open(j, NULL);
	jcs_z(j, "destination", at);
	list_put(j, "options", options);
	jcs_z(j, "source", source);
	jcs_z(j, "type", type);
	jcs_close(j);
}

/*
 * gVisor makes a /dev and a /proc of its own, and a /tmp without a limit where it is not told
 * otherwise; the rest of the root it takes as read-only, whatever is mounted there.
 */
static void
mounts_put(struct jcs *j, const struct oci *o)
{
	static const char *const dev[] = {"bind", "rprivate", "nosuid", "noexec", "ro", NULL};
	static const char *const proc[] = {"nosuid", "nodev", "noexec", "hidepid=2", NULL};
	static const char *const pts[] = {
	    "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", NULL};
	static const char *const own[] = {"nosuid", "nodev", "noexec", NULL};
	static const char *const data[] = {"rbind", "rprivate", "nosuid", "nodev", NULL};
	static const char *const shm[] = {"bind", "rprivate", "nosuid", "nodev", "noexec", NULL};

	jcs_array(j, "mounts");
	if (o->rt->kernel) {
		mount_put(j, "/proc", "proc", "proc", own);
		mount_put(j, "/tmp", "bind", OCI_ROOT "/tmp", data);
		mount_put(j, "/work", "bind", OCI_ROOT "/work", data);
	} else {
		mount_put(j, "/dev", "bind", OCI_ROOT "/dev", dev);
		mount_put(j, "/proc", "proc", "proc", proc);
		mount_put(j, "/dev/pts", "devpts", "devpts", pts);
	}
	mount_put(j, "/dev/shm", "bind", OCI_SHM, shm);
	jcs_array_end(j);
}

static void
capabilities_put(struct jcs *j)
{
	static const char *const sets[] = {
	    "ambient", "bounding", "effective", "inheritable", "permitted"};
	static const char *const none[] = {NULL};

	jcs_open(j, "capabilities");
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		list_put(j, sets[i], none);
	jcs_close(j);
}

/* Of open files as many as we may have: pid 1 gives each program less. */
static int64_t
files_most(void)
{
	struct rlimit r = {.rlim_max = 4096};

	(void)getrlimit(RLIMIT_NOFILE, &r);
	return (int64_t)r.rlim_max;
}

static void
rlimits_put(struct jcs *j)
{
	const struct {
		const char *name;
		int64_t v;
	} rows[] = {{"RLIMIT_CORE", 0}, {"RLIMIT_NOFILE", files_most()}, {"RLIMIT_MSGQUEUE", 0},
	    {"RLIMIT_MEMLOCK", 64 << 10}, {"RLIMIT_NICE", 0}, {"RLIMIT_RTPRIO", 0},
	    {"RLIMIT_SIGPENDING", 1024}};

	jcs_array(j, "rlimits");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		jcs_open(j, NULL);
		jcs_int(j, "hard", rows[i].v);
		jcs_int(j, "soft", rows[i].v);
		jcs_z(j, "type", rows[i].name);
		jcs_close(j);
	}
	jcs_array_end(j);
}

static void
process_put(struct jcs *j, const struct super_spec *s, const struct oci *o)
{
	static const char *const none[] = {NULL};
	char words[64];

	(void)snprintf(words, sizeof(words), "%s,files=%u", o->rt->kernel ? "gvisor" : "oci",
	    s->limits.open_files);
	jcs_open(j, "process");
	jcs_array(j, "args");
	jcs_z(j, NULL, OCI_INIT);
	jcs_z(j, NULL, words);
	jcs_array_end(j);
	capabilities_put(j);
	jcs_z(j, "cwd", "/work");
	list_put(j, "env", none);
	jcs_bool(j, "noNewPrivileges", true);
	jcs_int(j, "oomScoreAdj", 300);
	rlimits_put(j);
	jcs_bool(j, "terminal", false);
	jcs_open(j, "user");
	jcs_int(j, "gid", NATIVE_UID_INSIDE);
	jcs_int(j, "uid", NATIVE_UID_INSIDE);
	jcs_close(j);
	jcs_close(j);
}

static void
map_put(struct jcs *j, const char *key, const struct native_uid *u)
{
	jcs_array(j, key);
	for (int i = 0; i < 2; i++) {
		jcs_open(j, NULL);
		jcs_int(j, "containerID", i == 0 ? 0 : NATIVE_UID_INSIDE);
		jcs_int(j, "hostID", i == 0 ? u->root : u->uid);
		jcs_int(j, "size", 1);
		jcs_close(j);
	}
	jcs_array_end(j);
}

/* gVisor's filters answer what they refuse with EPERM alone, or, as long as nobody traces, with the
 * ENOSYS that programs go on from. */
static void
seccomp_put(struct jcs *j, const struct oci *o)
{
	static const char was[] = "\"defaultAction\":\"SCMP_ACT_ERRNO\"";
	const char *all = filter_oci(), *at = strstr(all, was);
	AUTO_BUF struct buf b = BUF(1 << 20);

	if (!o->rt->kernel || at == NULL) {
		jcs_raw(j, "seccomp", str_z(all));
		return;
	}
	buf_put(&b, all, (size_t)(at - all));
	buf_put_z(&b, "\"defaultAction\":\"SCMP_ACT_TRACE\"");
	buf_put_z(&b, at + strlen(was));
	jcs_raw(j, "seccomp", buf_str(&b));
}

/* gVisor has a /proc of its own. */
static void
paths_put(struct jcs *j, const char *key, const char *(*path)(size_t))
{
	jcs_array(j, key);
	for (size_t i = 0; path != NULL && path(i) != NULL; i++) {
		AUTO_BUF struct buf b = BUF(256);

		buf_printf(&b, "/%s", path(i));
		jcs_str(j, NULL, buf_str(&b));
	}
	jcs_array_end(j);
}

/* The network namespace is the one that the run time is started in. */
static void
linux_put(struct jcs *j, const struct oci *o)
{
	static const char *const spaces[] = {"mount", "pid", "ipc", "uts", "user", "cgroup"};
	size_t n = ARRAY_LEN(spaces) - (o->rt->kernel ? 2 : 0);

	jcs_open(j, "linux");
	if (o->devices != NULL)
		jcs_z(j, "cgroupsPath", o->devices);
	if (!o->rt->kernel)
		map_put(j, "gidMappings", &o->spare);
	paths_put(j, "maskedPaths", o->rt->kernel ? NULL : native_proc_mask);
	jcs_array(j, "namespaces");
	for (size_t i = 0; i < n; i++) {
		jcs_open(j, NULL);
		jcs_z(j, "type", spaces[i]);
		jcs_close(j);
	}
	jcs_array_end(j);
	paths_put(j, "readonlyPaths", o->rt->kernel ? NULL : native_proc_fixed);
	seccomp_put(j, o);
	if (!o->rt->kernel)
		map_put(j, "uidMappings", &o->spare);
	jcs_close(j);
}

void
oci_config(const struct super_spec *s, const struct oci *o, struct buf *out)
{
	struct jcs j;

	jcs_init(&j, out);
	jcs_open(&j, NULL);
	jcs_z(&j, "hostname", "sandbox");
	linux_put(&j, o);
	mounts_put(&j, o);
	jcs_z(&j, "ociVersion", "1.0.2");
	process_put(&j, s, o);
	jcs_open(&j, "root");
	jcs_z(&j, "path", "rootfs");
	jcs_bool(&j, "readonly", true);
	jcs_close(&j);
	jcs_close(&j);
}
