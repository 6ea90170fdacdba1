/*
 * uid to "unix:NAME" (process: core). Core cannot open files once confined, and a name
 * service would need the network: the one source is /etc/passwd, by a descriptor opened
 * before. Of several names with one uid the first counts, as getpwuid(3) has it.
 */
#include "broker/core_login.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/xalloc.h"

#include "common/banned.h"

struct login {
	uid_t uid;
	char *name;
};

struct core_logins {
	size_t n;
	struct login *l;
};

void
core_logins_free(struct core_logins *l)
{
	if (l == NULL)
		return;
	for (size_t i = 0; i < l->n; i++)
		free(l->l[i].name);
	free(l->l);
	free(l);
}

const char *
core_login(const struct core_logins *l, uid_t uid)
{
	for (size_t i = 0; l != NULL && i < l->n; i++)
		if (l->l[i].uid == uid)
			return l->l[i].name;
	return NULL;
}

static void
line_add(struct core_logins *l, struct str line)
{
	struct str name, password, uid;
	uint64_t v;

	if (!str_cut(&line, ':', &name) || !str_cut(&line, ':', &password) ||
	    !str_cut(&line, ':', &uid))
		return;
	if (name.n == 0 || name.n > 255 || !str_is_ascii_print(name) ||
	    !str_to_u64(uid, UINT32_MAX - 1, &v) || l->n >= LOGINS_MAX)
		return;
	if ((l->n & (l->n - 1)) == 0) /* grows by doubling: 0, 1, 2, 4, ... */
		l->l = xreallocarray(l->l, l->n == 0 ? 1 : l->n * 2, sizeof(l->l[0]));
	l->l[l->n++] = (struct login){(uid_t)v, xasprintf("unix:%.*s", STR_ARG(name))};
}

struct core_logins *
core_logins_parse(struct str passwd)
{
	struct core_logins *l = xcalloc(1, sizeof(*l));
	struct str line;

	while (str_cut(&passwd, '\n', &line))
		line_add(l, line);
	if (passwd.n != 0)
		line_add(l, passwd);
	return l;
}

int
core_logins_read(int fd, struct core_logins **ret, struct err *err)
{
	AUTO_BUF struct buf b = BUF(LOGINS_FILE_MAX);
	off_t at = 0;

	for (;;) {
		char chunk[8192];
		ssize_t k = pread(fd, chunk, sizeof(chunk), at);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, ERR_SYSTEM, errno, "reading /etc/passwd");
		if (k == 0)
			break;
		buf_put(&b, chunk, (size_t)k);
		at += k;
		if (buf_over(&b))
			return err_set(
			    err, ERR_TOO_LARGE, "/etc/passwd is over %zu bytes", LOGINS_FILE_MAX);
	}
	*ret = core_logins_parse(buf_str(&b));
	return 0;
}
