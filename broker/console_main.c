/*
 * cofferdam-console: pages and JSON for people. It trusts nothing that a browser sends; it has no
 * credential, no vault, no log key, no policy, cannot connect and opens no file. A mistake in here
 * shows somebody something wrong, and that is the most that it can do: what people sign is built
 * and verified in core. Must never take a name, a session or a signature as good by itself.
 */
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "broker/console.h"

#include "common/log.h"
#include "common/proc.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define PEM_MAX ((size_t)65536)

static const char *const syscalls[] = {"accept4", "setsockopt", NULL};

static int
config(void *arg, const struct json *config_, struct err *err)
{
	struct console *k = arg;
	struct str text = json_str(json_get(config_, "console"));
	int rc = weborigin_parse(text, &k->at, err);

	if (rc != 0)
		return rc;
	free(k->origin);
	k->origin = str_dup(text);
	k->clear = !json_bool(json_get(config_, "console_tls"));
	return 0;
}

static int
pem_read(int fd, struct buf *b, struct err *err)
{
	uint8_t chunk[8192];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, chunk, sizeof(chunk), at)) > 0) {
		buf_put(b, chunk, (size_t)n);
		at += n;
	}
	explicit_bzero(chunk, sizeof(chunk));
	if (n < 0)
		return err_sys(err, ERR_SYSTEM, errno, "reading");
	return buf_over(b) ? err_set(err, ERR_TOO_LARGE, "over %zu bytes", b->max) : 0;
}

/* The key comes first; with its certificate both are used, for who connects from then on. */
static int
take_certificate(struct console *k, int fd, struct err *err)
{
	AUTO_BUF struct buf pem = BUF(PEM_MAX);
	struct ssl_ctx_st *ctx = NULL;
	int rc = pem_read(fd, &pem, err);

	if (rc == 0)
		rc = console_tls_context(buf_str(&k->key), buf_str(&pem), &ctx, err);
	buf_reset(&k->key);
	if (rc != 0)
		return rc;
	console_tls_free(k->tls);
	k->tls = ctx;
	return 0;
}

static int
fd_take(void *arg, struct str name, int fd, struct err *err)
{
	struct console *k = arg;
	AUTO_FD int own = fd;

	if (str_eqz(name, "listen")) {
		if (k->listen_fd >= 0)
			(void)close(k->listen_fd);
		k->listen_fd = TAKE_FD(own);
		return 0;
	}
	if (str_eqz(name, "tls-key")) {
		buf_reset(&k->key);
		return pem_read(own, &k->key, err);
	}
	if (str_eqz(name, "tls-cert"))
		return take_certificate(k, own, err);
	return err_set(err, ERR_CONFIG, "descriptor \"%.*s\" is not known", STR_ARG(name));
}

static int
go(void *arg, struct err *err)
{
	const struct console *k = arg;

	if (!k->clear && k->tls == NULL)
		return err_set(err, ERR_CONFIG, "there is no certificate that can be used");
	return 0;
}

static int
wire(void *arg, enum ipc_role peer, struct str run UNUSED, int fd, struct err *err)
{
	return console_wire(arg, peer, fd, err);
}

static int
serve(void *arg, struct err *err)
{
	return console_accept_listen(arg, err);
}

int
main(void)
{
	struct loop *loop = loop_new();
	struct console *k = console_new(loop);
	const struct proc_ops ops = {.self = IPC_ROLE_CONSOLE,
	    .name = "console",
	    .config = config,
	    .fd = fd_take,
	    .wire = wire,
	    .go = go,
	    .serve = serve,
	    .syscalls = syscalls};
	struct err err = {0};
	int rc = tlsio_prepare(&err);

	if (rc != 0)
		log_error("%s", err.msg);
	else
		rc = proc_main(&ops, loop, k);
	console_free(k);
	loop_free(loop);
	return rc == 0 ? 0 : 1;
}
