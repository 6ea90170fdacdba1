/*
 * cofferdam-witness: cosigns heads of other people's logs, for whoever must be able to tell that a
 * log was set back or forked. A process of its own, of no broker and without root: it knows public
 * keys of logs and its own key, sees origin, size and root, and answers anybody. Confined to its
 * directory once it listens. Cleartext only on loopback: a proxy or a tunnel stands in front there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "audit/witness.h"
#include "common/http.h"
#include "common/log.h"
#include "common/option.h"
#include "common/proc.h"
#include "common/streams.h"
#include "common/tls_server.h"
#include "common/tlsio.h"

#include "common/banned.h"

#define LISTEN_DEFAULT "127.0.0.1:2099"

struct args {
	const char *dir, *listen, *cert, *key;
	bool help;
};

static const char *const syscalls[] = {"openat", "accept4", "setsockopt", "getpeername", "fsync",
    "fdatasync", "renameat", "renameat2", "unlinkat", "faccessat", "faccessat2", NULL};

#define AT(f) offsetof(struct args, f)

static const struct option_row rows[] = {
    {"DIR", OPTION_TEXT | OPTION_WORD, AT(dir), 0, 0, NULL, "what witness init made"},
    {"--listen", OPTION_TEXT, AT(listen), 0, 0, "ADDRESS:PORT",
	"where (default: " LISTEN_DEFAULT "); without TLS loopback alone"},
    {"--cert", OPTION_TEXT, AT(cert), 0, 0, "FILE", "certificate chain, PEM"},
    {"--key", OPTION_TEXT, AT(key), 0, 0, "FILE", "its key, PEM"},
    {"--help", OPTION_FLAG, AT(help), 0, 0, NULL, NULL},
};

static int
args_read(int argc, char **argv, struct args *a, struct err *err)
{
	struct option_line l = {.rows = rows, .n = ARRAY_LEN(rows), .beginnings = true, .into = a};

	if (option_read(&l, argc, argv, err) != 0 || a->help)
		return err->code;
	if (a->dir == NULL)
		return err_set(err, ERR_INVALID, "DIR is missing: what witness init made");
	if ((a->cert == NULL) != (a->key == NULL))
		return err_set(err, ERR_INVALID, "--cert and --key: give both, or none");
	return 0;
}

static int
usage(const struct err *err)
{
	FILE *f = err->code != 0 ? stderr : stdout;

	if (err->code != 0)
		(void)fprintf(f, "cofferdam: witness serve: %s\n", err->msg);
	(void)fprintf(f, "usage: cofferdam witness serve DIR [--listen ADDRESS:PORT] "
			 "[--cert FILE --key FILE]\n");
	if (err->code != 0)
		return 2;
	(void)printf("Answer C2SP tlog-witness add-checkpoint until a signal ends it.\n");
	option_help(rows, ARRAY_LEN(rows), 0);
	return 0;
}

static bool
is_loopback(const struct sockaddr_storage *at)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)at;
	const struct sockaddr_in *four = (const struct sockaddr_in *)at;

	if (at->ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
	return ntohl(four->sin_addr.s_addr) >> 24 == 127;
}

static int
address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len, struct err *err)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct sockaddr_in four = {.sin_family = AF_INET};
	char host[HTTP_HOST_SIZE];
	uint16_t port;

	if (http_authority_parse(str_z(text), host, &port, NULL) != 0 || port == 0)
		return err_set(err, ERR_CONFIG, "--listen must read ADDRESS:PORT, is %s", text);
	four.sin_port = six.sin6_port = htons(port);
	if (inet_pton(AF_INET, host, &four.sin_addr) == 1) {
		memcpy(ret, &four, sizeof(four));
		*ret_len = sizeof(four);
	} else if (inet_pton(AF_INET6, host, &six.sin6_addr) == 1) {
		memcpy(ret, &six, sizeof(six));
		*ret_len = sizeof(six);
	} else {
		return err_set(
		    err, ERR_CONFIG, "--listen %s: must be an address, not a name", text);
	}
	return 0;
}

static int
listen_at(const struct args *a, int *ret, struct err *err)
{
	const char *where = a->listen != NULL ? a->listen : LISTEN_DEFAULT;
	struct sockaddr_storage at = {0};
	socklen_t len = 0;
	AUTO_FD int fd = -1;
	int on = 1, rc = address(where, &at, &len, err);

	if (rc != 0)
		return rc;
	if (a->cert == NULL && !is_loopback(&at))
		return err_set(err, ERR_CONFIG,
		    "--listen %s: without --cert and --key only a loopback address", where);
	fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(fd, (const struct sockaddr *)&at, len) != 0 || listen(fd, 64) != 0)
		return err_sys(err, ERR_CONFIG, errno, "--listen %s", where);
	*ret = TAKE_FD(fd);
	return 0;
}

static int
confine(int dir, struct err *err)
{
	const struct proc_landlock_rule rule = {.dirfd = dir, .write = true};
	int rc = proc_harden(err);

	if (rc == 0)
		rc = proc_drop_caps(err);
	if (rc == 0)
		rc = proc_landlock(&rule, 1, err);
	return rc == 0 ? proc_seccomp(syscalls, err) : rc;
}

static void
on_signal(void *loop, int signo UNUSED)
{
	loop_stop(loop, 0);
}

static int
run(struct loop *loop, const struct args *a, int dir, struct err *err)
{
	struct witness w = {.dir = -1, .lock = -1};
	struct witness_server *s;
	struct ssl_ctx_st *ctx = NULL;
	AUTO_FD int fd = -1;
	int rc = tlsio_prepare(err);

	if (rc == 0)
		rc = witness_open(dir, &w, err);
	if (rc == 0)
		rc = listen_at(a, &fd, err);
	if (rc == 0 && a->cert != NULL)
		rc = tls_server_new(&ctx, err);
	if (rc == 0 && ctx != NULL)
		rc = tls_server_files(ctx, a->cert, a->key, err);
	loop_signal_add(loop, SIGTERM, on_signal, loop);
	loop_signal_add(loop, SIGINT, on_signal, loop);
	if (rc == 0)
		rc = confine(dir, err);
	if (rc == 0) {
		s = witness_serve(loop, &w, TAKE_FD(fd), ctx);
		log_info("witness %s answers", w.me.name);
		(void)loop_run(loop);
		witness_server_free(s);
	}
	witness_close(&w);
	return rc;
}

int
main(int argc, char **argv)
{
	struct args a = {0};
	struct err err = {0};
	AUTO_FD int dir = -1;
	struct loop *loop;
	int rc;

	streams_open();
	log_init("witness", LOG_INFO_);
	(void)signal(SIGPIPE, SIG_IGN);
	if (args_read(argc, argv, &a, &err) != 0 || a.help)
		return usage(&err);
	dir = open(a.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		log_error("%s: %s", a.dir, strerror(errno));
		return 2;
	}
	loop = loop_new();
	rc = run(loop, &a, dir, &err);
	loop_free(loop);
	if (rc != 0)
		log_error("%s: %s", a.dir, err.msg);
	return rc == 0 ? 0 : 2;
}
