/*
 * The writer's start. Runs in the writer, while it may still open files; what it reads here comes
 * from the parent. The key goes into secret memory and its descriptor away before any wire is
 * there.
 */
#include "audit/writer_start.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "audit/writer_witness.h"
#include "common/cleanup.h"

#include "common/banned.h"

int
start_config(struct start *s, const struct json *config, struct err *err)
{
	const struct json *v = json_get(config, "origin");
	struct str origin = v != NULL ? json_str(v) : STR("");

	if (!vkey_name_ok(origin))
		return err_set(err, ERR_CONFIG,
		    "origin must be 1 to %d bytes without spaces and plus signs", ORIGIN_MAX);
	memcpy(s->origin, origin.p, origin.n);
	s->origin[origin.n] = '\0';
	return witnesses_config(json_get(config, "witnesses"), &s->witnesses, err);
}

bool
start_fd(struct start *s, struct str name, int fd)
{
	int *at = str_eqz(name, "log")		  ? &s->logdir
		  : str_eqz(name, "log-key")	  ? &s->key_fd
		  : str_eqz(name, "log-vkey")	  ? &s->vkey_fd
		  : str_eqz(name, "log-handover") ? &s->handover_fd
						  : NULL;

	if (at == NULL || *at >= 0)
		return false;
	*at = fd;
	return true;
}

static int
read_small(int fd, struct buf *out, struct err *err)
{
	uint8_t *p = buf_grow(out, out->max);
	ssize_t n;

	do
		n = read(fd, p, out->max);
	while (n < 0 && errno == EINTR);
	out->n = n > 0 ? (size_t)n : 0;
	return n < 0 ? err_sys(err, ERR_SYSTEM, errno, "read") : 0;
}

static int
load_signer(const struct start *s, struct signer **ret, struct err *err)
{
	AUTO(secret) struct secret *seed = NULL;
	AUTO_BUF struct buf text = BUF(1024);
	struct vkey vkey;

	if (secret_read_fd(s->key_fd, 32, &seed, err) != 0)
		return err_wrap(err, "log-key");
	if (read_small(s->vkey_fd, &text, err) != 0 ||
	    vkey_parse(str_trim(buf_str(&text)), &vkey, err) != 0)
		return err_wrap(err, "log-vkey");
	if (strcmp(vkey.name, s->origin) != 0)
		return err_set(
		    err, ERR_CONFIG, "log-vkey is of %s, the origin is %s", vkey.name, s->origin);
	return signer_new(seed, &vkey, ret, err);
}

/* The note stands beside the key and was made with it: one that is of another key is refused. */
static int
load_handover(struct start *s, const struct vkey *vkey, struct err *err)
{
	struct handover *h = &s->handover;

	if (s->handover_fd < 0)
		return 0;
	if (read_small(s->handover_fd, &s->handover_note, err) != 0 ||
	    handover_open(buf_str(&s->handover_note), h, err) != 0)
		return err_wrap(err, "log-handover");
	if (memcmp(h->next.pub, vkey->pub, sizeof(vkey->pub)) != 0 ||
	    strcmp(h->next.name, vkey->name) != 0)
		return err_set(err, ERR_CONFIG, "log-handover is not to the log's key");
	return 0;
}

static void
read_boot(struct start *s)
{
	AUTO_FD int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	AUTO_BUF struct buf b = BUF(sizeof(s->boot) - 1);
	struct str id = STR("unknown");

	if (fd >= 0 && read_small(fd, &b, NULL) == 0 && b.n != 0)
		id = str_trim(buf_str(&b));
	memcpy(s->boot, id.p, id.n);
	s->boot[id.n] = '\0';
}

int
start_go(struct start *s, struct signer **ret, struct err *err)
{
	int r;

	if (s->logdir < 0 || s->key_fd < 0 || s->vkey_fd < 0)
		return err_set(err, ERR_PROTOCOL, "log, log-key and log-vkey must come first");
	if ((r = load_signer(s, ret, err)) != 0 ||
	    (r = load_handover(s, signer_vkey(*ret), err)) != 0)
		return r;
	cleanup_close_fd(&s->handover_fd);
	cleanup_close_fd(&s->key_fd);
	cleanup_close_fd(&s->vkey_fd);
	read_boot(s);
	return 0;
}
