/*
 * Credentials (N13): the canary that stands for them is in no file, no process and no memory that
 * can be read. These look everywhere instead of at known places.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "tests/walls/walls.h"

#define DEPTH 6
#define SIZE_MAX_READ (1 << 19)

static bool
in_file(const char *path, const char *needle)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, room, SIZE_MAX_READ);
	(void)close(fd);
	return n > 0 && memmem(room, (size_t)n, needle, strlen(needle)) != NULL;
}

/* Every small file that can be read below dir, but what the test itself has bound. */
static bool
in_tree(const char *dir, const char *needle, int depth)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	bool found = false;

	while (d != NULL && !found && (e = readdir(d)) != NULL) {
		char path[1024];
		struct stat st;

		(void)snprintf(
		    path, sizeof(path), "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, e->d_name);
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    lstat(path, &st) != 0 || strcmp(path, "/usr") == 0 ||
		    strcmp(path, "/proc") == 0 || strcmp(path, "/opt/probe") == 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth > 0)
			found = in_tree(path, needle, depth - 1);
		else if (S_ISREG(st.st_mode) && st.st_size < SIZE_MAX_READ)
			found = in_file(path, needle);
		if (found && depth >= 0)
			detail("%.200s", path);
	}
	if (d != NULL)
		(void)closedir(d);
	return found;
}

WALL("N13-files", n13_files, "mounts", "no file in the whole sandbox has a secret of the caller's")
{
	const char *secret = canary("secret", 0);

	return secret == NULL ? SKIPPED : in_tree("/", secret, DEPTH);
}

WALL("N13-processes", n13_proc, "pidns init reset", "nor has any file of any process in /proc")
{
	static const char *const files[] = {"environ", "cmdline", "maps", "stat", "status",
	    "mountinfo", "wchan", "stack", "attr/current", "cgroupns", "fdinfo/0", "fdinfo/3"};
	const char *secret = canary("secret", 0);

	if (secret == NULL)
		return SKIPPED;
	for (int pid = 1; pid < 3000; pid++)
		for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
			char path[64], comm[64];

			(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
			/* the probe's own arguments carry it */
			if (!slurp(path, comm, sizeof(comm)) || strncmp(comm, "probe", 5) == 0)
				break;
			(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
			detail("%s", path);
			if (in_file(path, secret))
				return REACHED;
		}
	return REFUSED;
}

/* The bytes of every map of every other process, where that can be opened. */
static bool
in_memory(int pid, const char *needle)
{
	char path[64], line[512];
	static char page[1 << 16];
	FILE *maps;
	int mem;
	bool found = false;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	(void)snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	mem = open(path, O_RDONLY);
	while (maps != NULL && mem >= 0 && !found && fgets(line, sizeof(line), maps) != NULL) {
		unsigned long a, b;

		if (sscanf(line, "%lx-%lx r", &a, &b) != 2 || b - a > 64ul << 20)
			continue;
		for (; a < b && !found; a += sizeof(page)) {
			ssize_t n = pread(mem, page, sizeof(page), (off_t)a);

			found = n > 0 && memmem(page, (size_t)n, needle, strlen(needle)) != NULL;
		}
	}
	return found;
}

WALL(
    "N13-memory", n13_memory, "pidns init", "the memory of no other process can be searched for it")
{
	const char *secret = canary("secret", 0);

	if (secret == NULL)
		return SKIPPED;
	for (int pid = 1; pid < 3000; pid++) {
		char path[64], comm[64];

		(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		if (!slurp(path, comm, sizeof(comm)) || strncmp(comm, "probe", 5) == 0)
			continue;
		detail("%d %.30s", pid, comm);
		if (in_memory(pid, secret))
			return REACHED;
	}
	return REFUSED;
}

WALL("N13-init-memory", n13_init, "init", "that of pid 1 can not be opened at all")
{
	return failed(open("/proc/1/mem", O_RDONLY)) || failed(open("/proc/1/task/1/mem", O_RDWR));
}
