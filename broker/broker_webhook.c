/*
 * Files of webhooks. Runs in the parent, which opens them and reads none. A secret that others can
 * read, and an address that is one (whoever knows a chat's webhook address may write there), are
 * held to the same rule as the keys.
 */
#include "broker/broker_webhook.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/xalloc.h"

#include "common/banned.h"

static const struct {
	const char *kind;
	mode_t max; /* no bit beyond these */
} kinds[BROKER_WEBHOOK_FILES] = {{"secret", 0600}, {"url", 0600}, {"ca", 0644}, {"header", 0600}};

static const char *
path_of(const struct webhook *h, size_t kind)
{
	const char *const path[BROKER_WEBHOOK_FILES] = {
	    h->secret_file, h->url_file, h->ca_file, h->header_file};

	return path[kind];
}

static int
check(const struct broker_state *s, const char *path, mode_t max, int fd, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return err_sys(err, ERR_CONFIG, errno, "%s/%s", s->path, path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_CONFIG, "%s/%s: must be a plain file", s->path, path);
	if (st.st_uid != geteuid())
		return err_set(err, ERR_CONFIG, "%s/%s: owner is uid %u, must be %u", s->path, path,
		    st.st_uid, geteuid());
	if ((st.st_mode & 07777u & ~max) != 0)
		return err_set(err, ERR_CONFIG, "%s/%s: mode is %04o, must be %04o", s->path, path,
		    st.st_mode & 07777u, max);
	return 0;
}

int
broker_webhook_file(const struct broker_state *s, const struct webhooks *w, size_t i,
    char **ret_name, int *ret_fd, struct err *err)
{
	const struct webhook *h = &w->v[i / BROKER_WEBHOOK_FILES];
	size_t kind = i % BROKER_WEBHOOK_FILES;
	const char *path = path_of(h, kind);
	AUTO_FD int fd = -1;
	int rc;

	*ret_fd = -1;
	if (path == NULL)
		return 0;
	rc = broker_state_file(s, path, O_RDONLY, &fd, err);
	if (rc == 0)
		rc = check(s, path, kinds[kind].max, fd, err);
	if (rc != 0)
		return err_wrap(err, "%s \"%s\"", h->key != NULL ? "witness" : "webhook", h->name);
	*ret_name =
	    xasprintf("%s%s:%s", h->key != NULL ? "witness-" : "", kinds[kind].kind, h->name);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int
broker_webhooks_check(const struct broker_state *s, const struct webhooks *w, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < w->n * BROKER_WEBHOOK_FILES; i++) {
		AUTO_FREE char *name = NULL;
		AUTO_FD int fd = -1;

		rc = broker_webhook_file(s, w, i, &name, &fd, err);
	}
	return rc;
}
