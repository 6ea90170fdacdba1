/*
 * What the parent does for the console: reads its part of broker.json, binds its socket, opens its
 * certificate. Runs in the parent. Without a certificate the socket must not be reachable from
 * another machine: what people sign in with would cross the network in clear.
 */
#include "broker/broker_console.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/weborigin.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define BACKLOG 128
#define PATH_LEN_MAX 4000

struct address {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	};
	socklen_t n;
	bool loopback;
};

static int
address_parse(struct str s, struct address *ret, struct err *err)
{
	struct address a = {.n = 0};
	char host[HTTP_HOST_SIZE];
	uint16_t port = 0;

	if (http_authority_parse(s, host, &port, NULL) != 0 || port == 0)
		return err_set(
		    err, ERR_CONFIG, "listen must be ADDRESS:PORT, is \"%.*s\"", STR_ARG(s));
	if (inet_pton(AF_INET, host, &a.in.sin_addr) == 1) {
		a.in.sin_family = AF_INET;
		a.in.sin_port = htons(port);
		a.n = sizeof(a.in);
		a.loopback = (ntohl(a.in.sin_addr.s_addr) >> 24) == 127;
	} else if (inet_pton(AF_INET6, host, &a.in6.sin6_addr) == 1) {
		a.in6.sin6_family = AF_INET6;
		a.in6.sin6_port = htons(port);
		a.n = sizeof(a.in6);
		a.loopback = IN6_IS_ADDR_LOOPBACK(&a.in6.sin6_addr) != 0;
	} else {
		return err_set(
		    err, ERR_CONFIG, "listen \"%.*s\": the host must be an address", STR_ARG(s));
	}
	*ret = a;
	return 0;
}

/* --- broker.json ------------------------------------------------------------------- */

static char **
slot(struct broker_console *c, struct str key)
{
	return str_eqz(key, "listen")	  ? &c->listen
	       : str_eqz(key, "origin")	  ? &c->origin
	       : str_eqz(key, "tls_cert") ? &c->cert
	       : str_eqz(key, "tls_key")  ? &c->key
					  : NULL;
}

static int
check(const struct json_doc *doc, const struct json *v, const struct broker_console *c,
    struct err *err)
{
	struct weborigin o;
	struct address a;
	struct err why = {0};

	if (c->origin == NULL || c->listen == NULL)
		return json_err(doc, v, err, ERR_CONFIG, "console needs \"listen\" and \"origin\"");
	if (weborigin_parse(str_z(c->origin), &o, &why) != 0 ||
	    address_parse(str_z(c->listen), &a, &why) != 0)
		return json_err(doc, v, err, ERR_CONFIG, "console: %s", why.msg);
	if ((c->cert == NULL) != (c->key == NULL))
		return json_err(
		    doc, v, err, ERR_CONFIG, "console: \"tls_cert\" and \"tls_key\" go together");
	if (c->cert == NULL && !a.loopback)
		return json_err(doc, v, err, ERR_CONFIG,
		    "console: without \"tls_cert\" it listens on a loopback address only, not on "
		    "%s: a proxy on this machine does the TLS",
		    c->listen);
	return 0;
}

int
broker_console_parse(
    const struct json_doc *doc, const struct json *v, struct broker_console *ret, struct err *err)
{
	struct broker_console c = {0};
	int rc = json_type(v) == JSON_OBJECT
		     ? 0
		     : json_err(doc, v, err, ERR_CONFIG, "console must be an object");

	for (size_t i = 0; rc == 0 && i < json_count(v); i++) {
		struct str value = json_str(json_at(v, i));
		char **at = slot(&c, json_key(v, i));

		if (at == NULL)
			rc = json_err(doc, json_at(v, i), err, ERR_CONFIG,
			    "console: unknown key \"%.*s\"", STR_ARG(json_key(v, i)));
		else if (value.n == 0 || value.n > PATH_LEN_MAX)
			rc = json_err(doc, json_at(v, i), err, ERR_CONFIG,
			    "console: \"%.*s\" must be a text of 1 to %d bytes",
			    STR_ARG(json_key(v, i)), PATH_LEN_MAX);
		else
			*at = str_dup(value);
	}
	if (rc == 0)
		rc = check(doc, v, &c, err);
	if (rc != 0)
		broker_console_free(&c);
	else
		*ret = c;
	return rc;
}

void
broker_console_free(struct broker_console *c)
{
	free(c->origin);
	free(c->listen);
	free(c->cert);
	free(c->key);
	*c = (struct broker_console){0};
}

/* --- socket and files -------------------------------------------------------------- */

int
broker_console_listen(const struct broker_console *c, int *ret_fd, struct err *err)
{
	struct address a;
	AUTO_FD int fd = -1;
	int one = 1, rc = address_parse(str_z(c->listen), &a, err);

	if (rc != 0)
		return rc;
	fd = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(fd, &a.sa, a.n) != 0 || listen(fd, BACKLOG) != 0)
		return err_sys(err, ERR_SYSTEM, errno, "console: listening on %s", c->listen);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Certificates are renewed behind links, so links are followed: the paths are the operator's. */
static int
pem_open(const char *path, mode_t closed, int *ret_fd, struct err *err)
{
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(err, ERR_CONFIG, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_CONFIG, "%s: must be a plain file", path);
	if ((st.st_mode & closed) != 0)
		return err_set(err, ERR_CONFIG, "%s: mode is %04o, must be closed to others", path,
		    st.st_mode & 07777u);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int
broker_console_files(const struct broker_console *c, int *ret_cert, int *ret_key, struct err *err)
{
	int rc = pem_open(c->cert, 0022, ret_cert, err);

	return rc != 0 ? rc : pem_open(c->key, 0077, ret_key, err);
}
