/*
 * The vault file as the command line holds it: opened under its key file, locked, written
 * whole. Runs as the operator. Prints no secret and no part of one.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "cmd/cmd_control.h"
#include "cmd/cmd_credential.h"
#include "cmd/cmd_file.h"
#include "common/xalloc.h"

#include "common/banned.h"

void
vault_file_close(struct vault_file *f)
{
	vault_free(f->vault);
	secret_free(f->key);
	cleanup_close_fd(&f->dir);
}

int
vault_file_open(const char *state, struct vault_file *ret, struct err *err)
{
	AUTO_BUF struct buf text = BUF(VAULT_FILE_MAX);
	AUTO_FD int key = -1;
	int rc;

	*ret = (struct vault_file){.dir = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	if (ret->dir < 0 || flock(ret->dir, LOCK_EX) != 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", state);
	key = openat(ret->dir, "keys/vault.key", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (key < 0)
		return err_sys(err, ERR_CONFIG, errno, "%s/keys/vault.key", state);
	rc = secret_read_fd(key, VAULT_KEY_LEN, &ret->key, err);
	if (rc != 0)
		return err_wrap(err, "%s/keys/vault.key", state);
	rc = file_read(ret->dir, "vault", &text, err);
	if (rc == 0)
		rc = vault_open(buf_str(&text), ret->key, &ret->vault, err);
	return rc != 0 ? err_wrap(err, "%s", state) : 0;
}

int
vault_file_save(struct vault_file *f, struct err *err)
{
	AUTO_BUF struct buf out = BUF(VAULT_FILE_MAX);
	int rc = vault_seal(f->vault, f->key, &out, err);

	return rc != 0 ? rc : file_replace(f->dir, "vault", buf_str(&out), 0600, err);
}

char *
cred_binding(const struct vault_entry *e)
{
	bool six = strchr(e->host, ':') != NULL;

	return xasprintf("%s://%s%s%s%s%s:%u", e->scheme, e->user, e->user[0] != '\0' ? "@" : "",
	    six ? "[" : "", e->host, six ? "]" : "", (unsigned)e->port);
}

static void
pid_read(const char *state, struct buf *out)
{
	AUTO_FREE char *path = xasprintf("%s/run/broker.pid", state);
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char text[16];
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
	struct str s = str_trim(str_mem(text, n > 0 ? (size_t)n : 0));
	uint64_t pid;

	if (str_to_u64(s, INT32_MAX, &pid))
		buf_printf(out, ": kill -HUP %llu", (unsigned long long)pid);
}

char *
cred_broker_note(const char *state)
{
	AUTO(json) struct json_doc *d = NULL;
	AUTO_BUF struct buf b = BUF(256);
	struct err ignored;

	if (control_call(state, "status", STR("{}"), &d, &ignored) != 0)
		return xstrdup("");
	buf_put_z(&b, "; the running broker takes it on SIGHUP");
	pid_read(state, &b);
	return buf_dup_z(&b);
}
