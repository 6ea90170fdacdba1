/* Looks through /proc. Runs in pid 1 and in minders; must need no memory but what it is given. */
#include "agent/sandbox/init/init_pids.h"
#include "agent/sandbox/init/init_sys.h"
#include "agent/sandbox/init/init_text.h"

#include "common/banned.h"

int
pids_each(char *scratch, size_t size, void (*fn)(const char *pid, void *arg), void *arg)
{
	int fd = sys_open("/proc", O_RDONLY | O_DIRECTORY, 0);
	long n;

	if (fd < 0)
		return fd;
	while ((n = sys_entries(fd, scratch, size)) > 0)
		for (long at = 0; at < n;) {
			/* struct linux_dirent64 */
			const char *e = scratch + at, *name = e + 19;
			uint16_t len;

			memcpy(&len, e + 16, sizeof(len));
			at += len;
			if (name[0] > '0' && name[0] <= '9' && strlen(name) < 11)
				fn(name, arg);
		}
	(void)sys_close(fd);
	return (int)n;
}

long
pids_number(const char *s, long n, long *at)
{
	long v = 0;

	for (; *at < n && s[*at] >= '0' && s[*at] <= '9'; ++*at)
		v = v * 10 + (s[*at] - '0');
	++*at;
	return v;
}

bool
pids_stat(const char *pid, struct pids_stat *ret)
{
	char path[32], s[1024];
	struct text t = TEXT(path);
	long n, at;
	int fd;

	text_put(&t, "/proc/");
	text_put(&t, pid);
	text_put(&t, "/stat");
	fd = sys_open(path, O_RDONLY, 0);
	if (fd < 0)
		return false;
	n = sys_read(fd, s, sizeof(s));
	(void)sys_close(fd);
	/* "PID (NAME) STATE PPID PGRP ...": the name may hold anything; 22: the time of its start.
	 */
	for (at = n; at > 0 && s[at - 1] != ')';)
		at--;
	if (at <= 0 || at + 3 > n)
		return false;
	ret->state = s[at + 1];
	at += 3;
	ret->parent = (int)pids_number(s, n, &at);
	ret->group = (int)pids_number(s, n, &at);
	for (int field = 6; field < 22 && at < n; at++)
		field += s[at] == ' ';
	ret->born = pids_number(s, n, &at);
	return true;
}
