/*
 * The native back end: each wall as seen from inside, what it leaves outside, and its ends. As root
 * it also runs as an ordinary user: the program executes itself once more for that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/vfs.h>

#include "tests/unit/native_help.h"

#include "common/banned.h"

#define ORDINARY 61234u /* nobody's id */

static char out[1 << 16], dir[64];

static void
says(struct native_box *n, const char *line, const char *want)
{
	(void)native_sh(n, line, out, sizeof(out));
	if (strcmp(out, want) != 0)
		fail_msg("%s: \"%s\", must be \"%s\"", line, out, want);
}

static char *
path_in(const char *name)
{
	return xasprintf("%s/%s", dir, name);
}

static void
put(const char *path, const char *text)
{
	AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static const char *
get(const char *path)
{
	static char text[4096];
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	text[n < 0 ? 0 : n] = '\0';
	return n < 0 ? NULL : text;
}

static void
sh_host(const char *line)
{
	char sh[] = "/bin/sh", c[] = "-c", text[1024];
	char *argv[] = {sh, c, text, NULL};
	int status = 0;
	pid_t pid;

	(void)snprintf(text, sizeof(text), "%s", line);
	pid = fork();
	if (pid == 0) {
		(void)execv(sh, argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void
starts_are_clean(const char *where)
{
	AUTO_FREE char *line = xasprintf("rm -rf %s && mkdir -m 755 %s", where, where);

	sh_host(line);
}

/* What a sandbox may not have in common with its caller. */
static void
every_namespace_is_its_own(void **state UNUSED)
{
	static const char *const names[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
	struct super_spec s = spec_plain();
	struct native_box n;

	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	native_up(&s, &n);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[64], ours[64], line[64];
		ssize_t k;

		(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		(void)snprintf(line, sizeof(line), "readlink /proc/self/ns/%s", names[i]);
		k = readlink(path, ours, sizeof(ours) - 1);
		assert_true(k > 0);
		ours[k] = '\0';
		assert_int_equal(native_sh(&n, line, out, sizeof(out)), 0);
		assert_int_equal(strncmp(ours, out, strlen(names[i])), 0);
		if (strncmp(ours, out, (size_t)k) == 0)
			fail_msg("%s is the caller's", ours);
	}
	native_down(&n);
}

static void
nothing_is_left_of_rights(void **state UNUSED)
{
	struct super_spec s = spec_plain();
	struct native_box n;

	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	s.limits.open_files = 77;
	native_up(&s, &n);
	says(&n, "grep -cE '^Cap...:.0000000000000000$' /proc/self/status", "5\n");
	says(&n,
	    "grep -E '^(Uid|Gid|Groups|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\\t ' ,",
	    "Uid:,1000,1000,1000,1000\nGid:,1000,1000,1000,1000\nGroups:,\nNoNewPrivs:,1\n"
	    "Seccomp:,2\n");
	says(&n, "ulimit -n; ulimit -c; umask; cat /proc/self/oom_score_adj", "77\n0\n0022\n300\n");
	says(&n, "ls /proc/self/fd", "0\n1\n2\n3\n");
	native_down(&n);
}

/* The child shares its memory at first, and the kernel keeps both by memory. */
static void
the_supervisor_is_no_easier_to_kill_or_to_trace_for_a_start(void **state UNUSED)
{
	struct super_spec s = spec_plain();
	int before = prctl(PR_GET_DUMPABLE);
	struct native_box n;

	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	for (int dumpable = 1; dumpable >= 0; dumpable--) {
		/* Of an ordinary user who may not be traced not even its own file is writable. */
		put("/proc/self/oom_score_adj", "5");
		assert_int_equal(prctl(PR_SET_DUMPABLE, dumpable), 0);
		native_up(&s, &n);
		assert_int_equal(prctl(PR_GET_DUMPABLE), dumpable);
		assert_string_equal(get("/proc/self/oom_score_adj"), "5\n");
		says(&n, "cat /proc/self/oom_score_adj", "300\n");
		native_down(&n);
		assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0);
	}
	assert_int_equal(prctl(PR_SET_DUMPABLE, before), 0);
}

/* "Cpus_allowed:" and what follows, of a process of the host's /proc. */
static char *
cpus_of(pid_t pid)
{
	AUTO_FREE char *path = xasprintf("/proc/%d/status", (int)pid);
	const char *text = get(path), *line = text != NULL ? strstr(text, "Cpus_allowed:") : NULL;

	assert_non_null(line);
	return xasprintf("%.*s", (int)strcspn(line, "\n"), line);
}

/* A start keeps to one processor. */
static void
all_may_run_where_the_caller_may_once_a_program_has_begun(void **state UNUSED)
{
	AUTO_FREE char *before = cpus_of(getpid());
	struct super_spec s = spec_plain();
	struct native_box n;

	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	for (int i = 0; i < 3; i++) {
		AUTO_FREE char *after = NULL, *pid1 = NULL, *want = xasprintf("%s\n", before);

		native_up(&s, &n);
		after = cpus_of(getpid());
		assert_string_equal(after, before);
		says(&n, "grep Cpus_allowed: /proc/self/status", want);
		says(&n, "grep Cpus_allowed: /proc/self/status", want);
		pid1 = cpus_of(n.b.child);
		assert_string_equal(pid1, before);
		native_down(&n);
	}
}

static void
the_view_is_read_only_and_without_the_host_s_data(void **state UNUSED)
{
	struct super_spec s = spec_plain();
	struct native_box n;

	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	native_up(&s, &n);
	says(&n, "ls -A /root /home /var/lib /sys 2>/dev/null | grep -v :", "");
	says(&n,
	    "for d in / /usr /etc /dev /proc /run /opt; do touch $d/x 2>/dev/null && echo $d; done",
	    "");
	says(&n,
	    "echo w > /work/a && echo t > /tmp/b && echo s > /dev/shm/c && cat /work/a /tmp/b "
	    "/dev/shm/c",
	    "w\nt\ns\n");
	/* The host's own file rights and Landlock would hide a mount that is not read-only. */
	says(&n,
	    "while read -r i p d r m o rest; do case $m,$o in *,ro,*|/proc/*|/dev/[!s]*) ;; *) "
	    "echo "
	    "$m;; esac; done < /proc/self/mountinfo | sort",
	    "/dev/shm\n/proc\n/tmp\n/work\n");
	says(&n, "grep -cE ' /proc/(sys|pressure) ro,' /proc/self/mountinfo",
	    access("/proc/pressure", F_OK) == 0 ? "2\n" : "1\n");
	says(&n,
	    "for f in sys/kernel/hostname sys/kernel/ns_last_pid sysrq-trigger pressure/cpu 1/comm "
	    "1/oom_score_adj; do { echo 1 >/proc/$f; } 2>/dev/null && echo $f; done; "
	    "printf named >/proc/self/comm && echo 400 >/proc/self/oom_score_adj && "
	    "cat /proc/$$/comm /proc/self/oom_score_adj",
	    "named\n400\n");
	says(&n,
	    "while read -r i p d r m o rest; do case $o in *nosuid*) ;; *) echo $m;; esac; done < "
	    "/proc/self/mountinfo",
	    "");
	says(&n, "for m in cmdline kallsyms keys interrupts; do cat /proc/$m; done; ls /proc/fs",
	    "");
	says(&n, "cat /proc/kcore /proc/kmsg /proc/slabinfo 2>/dev/null | head -c 1", "");
	says(&n, "echo x > /dev/null; head -c 3 /dev/zero | wc -c; cat /etc/hostname",
	    "3\nsandbox\n");
	/* Landlock alone: these directories are writable mounts. */
	says(&n, "mknod /work/p p && echo fifo; mknod /work/c c 1 3 2>/dev/null || echo no device",
	    "fifo\nno device\n");
	native_down(&n);
}

static void
a_terminal_can_be_made_inside(void **state UNUSED)
{
	struct super_spec s = spec_plain();
	struct native_box n;

	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	native_up(&s, &n);
	says(&n,
	    "python3 -c 'import "
	    "pty,os\nm,s=pty.openpty()\nprint(os.ttyname(s))\nos.write(s,b\"hi\\n\")"
	    "\nprint(os.read(m,9))'",
	    "/dev/pts/0\nb'hi\\r\\n'\n");
	native_down(&n);
}

static void
a_workspace_belongs_to_its_owner(void **state UNUSED)
{
	AUTO_FREE char *ws = path_in("ws"), *made = path_in("ws/made"), *old = path_in("ws/old");
	struct super_spec s = spec_plain();
	struct native_box n;
	struct stat st;

	starts_are_clean(ws);
	put(old, "old\n");
	s.workspace = ws;
	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	native_up(&s, &n);
	says(&n,
	    "cat old 2>/dev/null; cd /work; cat old; echo new > old; echo x > made; stat -c %U "
	    "made",
	    "old\nagent\n");
	native_down(&n);
	assert_string_equal(get(old), "new\n");
	assert_int_equal(stat(made, &st), 0);
	assert_int_equal(st.st_uid, geteuid());
}

static void
an_overlay_keeps_changes_to_itself(void **state UNUSED)
{
	AUTO_FREE char *ws = path_in("ov"), *f = path_in("ov/f"), *g = path_in("ov/g"),
		       *d = path_in("ov/d");
	struct super_spec s = spec_plain();
	struct native_box n;
	struct backend_usage u;

	starts_are_clean(ws);
	put(f, "below\n");
	assert_int_equal(mkdir(d, 0755), 0);
	s.workspace = ws;
	s.overlay = true;
	s.limits.workspace_mib = 8;
	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	native_up(&s, &n);
	says(&n,
	    "cd /work; cat f; echo above > f; echo new > g; rmdir d; mkdir d; cat f g; ls; rm f; "
	    "ls",
	    "below\nabove\nnew\nd\nf\ng\nd\ng\n");
	says(&n, "cat /work/lower/f /work/upper/f 2>&1 | grep -c No", "2\n");
	says(&n,
	    "grep -c ' /work' /proc/self/mountinfo; grep ' /work' /proc/self/mountinfo | "
	    "grep -vc ' / /work '",
	    "2\n0\n");
	says(&n, "dd if=/dev/zero of=/work/big bs=1M count=20 2>&1 | grep -o 'No space'",
	    "No space\n");
	backend_native.usage(&n.b, &u);
	assert_true(u.disk_full);
	assert_int_equal(u.disk_max_bytes, 16 << 20);
	native_down(&n);
	assert_string_equal(get(f), "below\n");
	assert_null(get(g));
}

static void
an_image_is_the_root_and_its_own_users_are_not(void **state UNUSED)
{
	AUTO_FREE char *image = path_in("image"), *issue = path_in("image/etc/issue"),
		       *pw = path_in("image/etc/passwd");
	AUTO_FREE char *copy =
	    xasprintf("cd %s && mkdir -p etc tmp data && cp --parents -L /bin/sh "
		      "$(ldd /bin/sh | grep -o '/[^ ]*') . && cp --parents -L /bin/cat "
		      "$(ldd /bin/cat | grep -o '/[^ ]*') . && echo d > data/d",
		image);
	struct super_spec s = spec_plain();
	struct spec_target t = {.host = (char *)(uintptr_t) "db",
	    .address = (char *)(uintptr_t) "127.70.0.9",
	    .port = 9};
	struct native_box n;
	struct err e = {0};

	starts_are_clean(image);
	sh_host(copy);
	put(issue, "the image\n");
	put(pw, "intruder:x:1000:0::/:/bin/sh\n");
	s.image = image;
	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	native_up(&s, &n);
	says(&n, "cat /etc/issue /data/d /etc/hostname; cat /usr/bin/id 2>/dev/null",
	    "the image\nd\nsandbox\n");
	(void)native_sh(&n, "cat /etc/passwd", out, sizeof(out));
	assert_null(strstr(out, "intruder"));
	says(&n,
	    "for d in / /bin /etc /data; do echo x 2>/dev/null > $d/x && echo $d; done; echo w > "
	    "/work/w && cat /work/w",
	    "w\n");
	assert_int_equal(backend_native.hosts(&n.b, &t, 1, &e), 0);
	(void)native_sh(&n, "cat /etc/hosts", out, sizeof(out));
	assert_non_null(strstr(out, "127.70.0.9 db\n"));
	native_down(&n);
}

static void
listeners_appear_while_it_runs_also_on_low_ports(void **state UNUSED)
{
	struct spec_target t[2] = {{.host = (char *)(uintptr_t) "one",
				       .address = (char *)(uintptr_t) "127.70.0.1",
				       .port = 443},
	    {.host = (char *)(uintptr_t) "two",
		.address = (char *)(uintptr_t) "127.70.0.2",
		.port = 80}};
	struct super_spec s = spec_plain();
	struct native_box n;
	struct err e = {0};
	int fds[2] = {-1, -1};

	s.targets[0] = t[0];
	s.ntargets = 1;
	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	native_up(&s, &n);
	assert_int_equal(n.b.nlisteners, 1);
	fds[0] = n.b.listeners[0];
	says(&n, "getent hosts two", "");
	assert_int_equal(backend_native.listen(&n.b, &t[1], &fds[1], &e), 0);
	assert_int_equal(backend_native.hosts(&n.b, t, 2, &e), 0);
	says(&n, "getent hosts two", "127.70.0.2      two\n");
	for (int i = 0; i < 2; i++) {
		AUTO_FD int c = -1;
		AUTO_FREE char *line =
		    xasprintf("bash -c 'echo hello > /dev/tcp/%s/%u'", t[i].host, t[i].port);

		assert_int_equal(native_sh(&n, line, out, sizeof(out)), 0);
		c = accept4(fds[i], NULL, NULL, SOCK_CLOEXEC);
		assert_true(c >= 0);
		assert_int_equal(read(c, out, 6), 6);
	}
	assert_int_equal(backend_native.listen(&n.b, &t[1], &fds[0], &e), ERR_EXISTS);
	(void)close(fds[1]);
	/* Fewer names: nothing of the longer text is left. */
	assert_int_equal(backend_native.hosts(&n.b, t, 1, &e), 0);
	says(&n, "grep -c . /etc/hosts; grep two /etc/hosts", "3\n");
	native_down(&n);
	assert_int_equal(backend_native.listen(&n.b, &t[1], &fds[0], &e), ERR_UNAVAILABLE);
}

static void
a_frozen_sandbox_stands_still_goes_on_and_ends(void **state UNUSED)
{
	struct super_spec s = spec_plain();
	struct spawn sp = SH("while :; do echo x; sleep 0.01; done");
	struct native_box n;
	struct frame f;
	struct err e = {0};
	char drop[4096];

	if (geteuid() != 0)
		return;
	native_up(&s, &n);
	sp.env[0] = "PATH=/usr/bin:/bin";
	spawn_send(&n.wire, ++n.procs, &sp);
	frame_want(&n.wire, &f, INSIDE_SPAWNED, n.procs);
	assert_true(read(f.fds[0], drop, sizeof(drop)) > 0);
	assert_int_equal(backend_native.freeze(&n.b, true, &e), 0);
	(void)fcntl(f.fds[0], F_SETFL, O_NONBLOCK);
	while (read(f.fds[0], drop, sizeof(drop)) > 0)
		continue;
	for (int i = 0; i < 20; i++) {
		(void)usleep(10000);
		assert_int_equal(read(f.fds[0], drop, sizeof(drop)), -1);
		assert_int_equal(errno, EAGAIN);
	}
	assert_int_equal(backend_native.freeze(&n.b, false, &e), 0);
	assert_int_equal(poll(&(struct pollfd){f.fds[0], POLLIN, 0}, 1, 10000), 1);
	assert_int_equal(backend_native.freeze(&n.b, true, &e), 0);
	native_down(&n);
	frame_close(&f);
}

static void
usage_is_counted_from_outside(void **state UNUSED)
{
	struct super_spec s = spec_plain();
	struct backend_usage before, after;
	struct native_box n;

	if (geteuid() != 0)
		return;
	s.limits.memory_mib = 64;
	s.limits.workspace_mib = 32;
	native_up(&s, &n);
	backend_native.usage(&n.b, &before);
	assert_true(before.pids >= 1);
	assert_false(before.disk_full);
	says(&n, "head -c 9000000 /dev/zero > /work/x; echo done", "done\n");
	backend_native.usage(&n.b, &after);
	assert_true(after.disk_bytes >= before.disk_bytes + 9000000);
	assert_true(after.memory_bytes >= 9000000);
	assert_true(after.memory_peak_bytes >= after.memory_bytes);
	assert_true(after.cpu_us > before.cpu_us);
	assert_int_equal(after.oom_kills, 0);
	(void)native_sh(&n, "python3 -c 'b=bytearray(100<<20)'", out, sizeof(out));
	backend_native.usage(&n.b, &after);
	assert_true(after.oom_kills >= 1);
	(void)native_sh(&n, "head -c 99000000 /dev/zero > /tmp/x", out, sizeof(out));
	backend_native.usage(&n.b, &after);
	assert_true(after.disk_full);
	(void)native_sh(&n, "rm /tmp/x", out, sizeof(out));
	backend_native.usage(&n.b, &after);
	assert_false(after.disk_full);
	(void)native_sh(
	    &n, "python3 -c 'i=0\nwhile 1: open(\"/tmp/%d\"%i,\"w\"); i+=1'", out, sizeof(out));
	backend_native.usage(&n.b, &after);
	assert_true(after.disk_full); /* of inodes */
	native_down(&n);
}

static void
limits_hold(void **state UNUSED)
{
	struct super_spec s = spec_plain();
	struct native_box n;

	if (geteuid() != 0)
		return;
	s.limits.pids = 20;
	native_up(&s, &n);
	says(&n,
	    "python3 -c 'import os,time\nn=0\ntry:\n  while n<100:\n    if os.fork()==0: "
	    "time.sleep(30); os._exit(0)\n    n+=1\nexcept OSError: print(10<n<20)'",
	    "True\n");
	native_down(&n);
}

/* --- starts that fail, and ends --------------------------------------------------------------- */

static void
refused(const struct super_spec *s, int code, const char *why)
{
	struct backend_box b = {.inside = -1};
	struct err e = {0};
	int rc = backend_native.start(s, &b, &e);

	if (rc != code || strstr(e.msg, why) == NULL)
		fail_msg("%d \"%s\", wanted %d \"%s\"", rc, e.msg, code, why);
	assert_null(b.own);
	backend_native.end(&b);
}

static void
what_is_not_there_is_refused_by_name(void **state UNUSED)
{
	AUTO_FREE char *file = path_in("file"), *link = path_in("link");
	struct super_spec s = spec_plain();

	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	put(file, "x");
	s.workspace = file;
	refused(&s, ERR_INVALID, "is not a directory");
	s.workspace = (char *)(uintptr_t) "/nonexistent/ws";
	refused(&s, ERR_INVALID, "/nonexistent/ws");
	s.workspace = NULL;
	s.image = (char *)(uintptr_t) "/nonexistent/image";
	refused(&s, ERR_INVALID, "/nonexistent/image");
	assert_int_equal(symlink("/usr", link), 0);
	s.image = link;
	refused(&s, ERR_INVALID, "has a link in it");
	s.image = NULL;
	s.binds[0] =
	    (struct spec_bind){(char *)(uintptr_t) "/nonexistent/b", (char *)(uintptr_t) "/opt/b"};
	s.nbinds = 1;
	refused(&s, ERR_INVALID, "/nonexistent/b");
	s.nbinds = 0;
	/* Found out by the child: two at one address. */
	s.targets[0] = s.targets[1] = (struct spec_target){
	    .host = NULL, .address = (char *)(uintptr_t) "127.70.0.1", .port = 443};
	s.ntargets = 2;
	refused(&s, ERR_EXISTS, "127.70.0.1:443");
}

static void
a_missing_layer_is_refused_unless_it_may_lack(void **state UNUSED)
{
	struct super_spec s = spec_plain();
	struct native_box n;

	if (geteuid() == 0)
		return;
	refused(&s, ERR_UNAVAILABLE, "Delegate=yes");
	s.may_lack = SANDBOX_LAYER_LIMITS;
	refused(&s, ERR_UNAVAILABLE, "freezer");
	s.may_lack = ~0u;
	native_up(&s, &n);
	assert_int_equal(n.b.lacks, SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER);
	native_down(&n);
}

static size_t
count(const char *where)
{
	DIR *d = opendir(where);
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	(void)closedir(d);
	return n;
}

static void
a_hundred_starts_leave_nothing(void **state UNUSED)
{
	struct super_spec s = spec_plain();
	AUTO_FREE char *mounts = NULL;
	char *groups[8] = {0};
	size_t fds;

	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	fds = count("/proc/self/fd");
	mounts = xstrdup(get("/proc/self/mountinfo"));
	for (int i = 0; i < 100; i++) {
		struct backend_box b = {.inside = -1};
		struct err e = {0};

		if (backend_native.start(&s, &b, &e) != 0)
			fail_msg("%s", e.msg);
		for (size_t k = 0; i == 99 && k < ARRAY_LEN(groups) && b.cgroups[k] != NULL; k++)
			groups[k] = xstrdup(b.cgroups[k]);
		backend_native.end(&b);
	}
	assert_int_equal(count("/proc/self/fd"), fds);
	assert_string_equal(get("/proc/self/mountinfo"), mounts);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | (int)__WALL), -1);
	for (size_t k = 0; k < ARRAY_LEN(groups) && groups[k] != NULL; k++) {
		assert_int_equal(access(groups[k], F_OK), -1);
		free(groups[k]);
	}
}

static bool
gone(const char *path)
{
	for (int i = 0; i < 1000 && access(path, F_OK) == 0; i++)
		(void)usleep(10000);
	return access(path, F_OK) != 0;
}

/* The supervisor in a child of its own, which tells what it has and waits. */
static _Noreturn void
doomed(int tell, bool frozen)
{
	struct super_spec s = spec_plain();
	struct native_box n;
	struct err e = {0};
	char text[4096] = "";
	size_t k = 0;

	s.may_lack = geteuid() == 0 ? 0 : SANDBOX_LAYER_LIMITS | SANDBOX_LAYER_FREEZER;
	native_up(&s, &n);
	if (frozen && backend_native.freeze(&n.b, true, &e) != 0)
		_exit(1);
	k = (size_t)snprintf(text, sizeof(text), "/proc/%d\n", (int)n.b.child);
	for (size_t i = 0; n.b.cgroups[i] != NULL; i++)
		k += (size_t)snprintf(text + k, sizeof(text) - k, "%s\n", n.b.cgroups[i]);
	(void)!write(tell, text, k);
	for (;;)
		(void)pause();
}

static void
after_kill_9_nothing_is_left(bool frozen)
{
	char text[4096];
	struct str rest, path;
	int p[2], status;
	ssize_t k;
	pid_t pid;

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		doomed(p[1], frozen);
	(void)close(p[1]);
	k = read(p[0], text, sizeof(text) - 1);
	assert_true(k > 0);
	(void)close(p[0]);
	rest = str_mem(text, (size_t)k);
	while (str_cut(&rest, '\n', &path)) {
		AUTO_FREE char *z = str_dup(path);

		assert_int_equal(access(z, F_OK), 0);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	rest = str_mem(text, (size_t)k);
	while (str_cut(&rest, '\n', &path)) {
		AUTO_FREE char *z = str_dup(path);

		if (!gone(z))
			fail_msg("%s is left", z);
	}
}

static void
a_killed_supervisor_leaves_nothing(void **state UNUSED)
{
	after_kill_9_nothing_is_left(false);
}

static void
nor_one_whose_sandbox_is_frozen(void **state UNUSED)
{
	if (geteuid() != 0)
		return;
	after_kill_9_nothing_is_left(true);
}

/* --- as an ordinary user ---------------------------------------------------------------------- */

/* In a directory that this user can read, with the programs that belong beside us. */
static int
as_ordinary(const char *log)
{
	AUTO_FREE char *own = path_in("ordinary");
	AUTO_FREE char *line = NULL;
	char self[4096], name[] = "t_native", *argv[] = {name, NULL};
	ssize_t k = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int status = -1;
	pid_t pid;

	assert_true(k > 0);
	self[k] = '\0';
	line =
	    xasprintf("mkdir %s && cd $(dirname %s) && cp t_native cofferdam-init cofferdam-inside "
		      "%s && chown -R %u %s",
		own, self, own, ORDINARY, own);
	sh_host(line);
	pid = fork();
	if (pid == 0) {
		AUTO_FD int fd = open(log, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		if (dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || chdir(own) != 0 ||
		    setgroups(0, NULL) != 0 || setresgid(ORDINARY, ORDINARY, ORDINARY) != 0 ||
		    setresuid(ORDINARY, ORDINARY, ORDINARY) != 0)
			_exit(99);
		(void)execv("./t_native", argv);
		_exit(98);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static void
all_of_it_holds_for_an_ordinary_user(void **state UNUSED)
{
	AUTO_FREE char *log = path_in("log"), *show = xasprintf("sed 's/^/# /' %s", log);
	int rc;

	if (geteuid() != 0)
		return;
	rc = as_ordinary(log);
	if (rc != 0)
		sh_host(show);
	assert_int_equal(rc, 0);
}

static int
all(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_namespace_is_its_own),
	    cmocka_unit_test(nothing_is_left_of_rights),
	    cmocka_unit_test(the_supervisor_is_no_easier_to_kill_or_to_trace_for_a_start),
	    cmocka_unit_test(all_may_run_where_the_caller_may_once_a_program_has_begun),
	    cmocka_unit_test(the_view_is_read_only_and_without_the_host_s_data),
	    cmocka_unit_test(a_terminal_can_be_made_inside),
	    cmocka_unit_test(a_workspace_belongs_to_its_owner),
	    cmocka_unit_test(an_overlay_keeps_changes_to_itself),
	    cmocka_unit_test(an_image_is_the_root_and_its_own_users_are_not),
	    cmocka_unit_test(listeners_appear_while_it_runs_also_on_low_ports),
	    cmocka_unit_test(a_frozen_sandbox_stands_still_goes_on_and_ends),
	    cmocka_unit_test(usage_is_counted_from_outside),
	    cmocka_unit_test(limits_hold),
	    cmocka_unit_test(what_is_not_there_is_refused_by_name),
	    cmocka_unit_test(a_missing_layer_is_refused_unless_it_may_lack),
	    cmocka_unit_test(a_hundred_starts_leave_nothing),
	    cmocka_unit_test(a_killed_supervisor_leaves_nothing),
	    cmocka_unit_test(nor_one_whose_sandbox_is_frozen),
	    cmocka_unit_test(all_of_it_holds_for_an_ordinary_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int
main(void)
{
	char clean[128], template[] = "/tmp/t_native.XXXXXX";
	int rc;

	/* Not the descriptors that whoever runs the tests leaves open. */
	(void)close_range(3, ~0u, 0);
	(void)signal(SIGPIPE, SIG_IGN);
	if (mkdtemp(template) == NULL || chmod(template, 0755) != 0)
		return 99;
	(void)snprintf(dir, sizeof(dir), "%s", template);
	rc = all();
	(void)snprintf(clean, sizeof(clean), "rm -rf %s", dir);
	sh_host(clean);
	return rc;
}
