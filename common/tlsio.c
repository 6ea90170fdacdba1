/*
 * Reading and writing of one socket, with or without TLS. Runs in front (server side) and
 * upstream (client side). It moves bytes only: who the peer is was settled by the SSL object
 * it is given.
 */
#include "common/tlsio.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/ossl.h"
#include <openssl/ssl.h>

#include "common/banned.h"

int
tlsio_prepare(struct err *err)
{
	/* The machine's openssl.cnf must not weaken a broker: it is never read. */
	if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_LOAD_SSL_STRINGS |
				 OPENSSL_INIT_LOAD_CRYPTO_STRINGS,
		NULL) != 1)
		return err_set(err, ERR_CRYPTO, "OpenSSL cannot start");
	tzset(); /* gmtime_r(3), for certificates */
	return 0;
}

void
tlsio_init(struct tlsio *t, int fd)
{
	*t = (struct tlsio){.fd = fd};
}

void
tlsio_start(struct tlsio *t, struct ssl_st *ssl)
{
	t->ssl = ssl;
	/* What is left of a buffer is offered again from wherever it is then. */
	SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
			      SSL_MODE_RELEASE_BUFFERS);
}

const char *
tlsio_reason(char *out, size_t size)
{
	unsigned long e = ERR_get_error();
	const char *s = e != 0 ? ERR_reason_error_string(e) : NULL;

	if (s != NULL)
		(void)snprintf(out, size, "%s", s);
	else
		(void)snprintf(out, size, "TLS error %#lx", e);
	ERR_clear_error();
	return out;
}

/* What an SSL call's result means: 0 try again, or the error. */
static ssize_t
ssl_failed(struct tlsio *t, int rc, bool writing, struct err *err)
{
	char reason[256];
	int saved = errno;

	switch (SSL_get_error(t->ssl, rc)) {
	case SSL_ERROR_WANT_READ: t->write_wants_read = writing; return TLSIO_AGAIN;
	case SSL_ERROR_WANT_WRITE: t->read_wants_write = !writing; return TLSIO_AGAIN;
	case SSL_ERROR_ZERO_RETURN: return 0;
	case SSL_ERROR_SYSCALL:
		ERR_clear_error();
		(void)err_sys(err, ERR_UPSTREAM, saved != 0 ? saved : ECONNRESET, "TLS");
		return TLSIO_ERROR;
	default:
		if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
			ERR_clear_error();
			return 0;
		}
		(void)err_set(err, ERR_UPSTREAM, "TLS: %s", tlsio_reason(reason, sizeof(reason)));
		return TLSIO_ERROR;
	}
}

int
tlsio_handshake(struct tlsio *t, struct err *err)
{
	int rc;
	ssize_t why;

	if (t->ssl == NULL)
		return 1;
	t->read_wants_write = t->write_wants_read = false;
	ERR_clear_error();
	errno = 0;
	rc = SSL_do_handshake(t->ssl);
	if (rc == 1)
		return 1;
	why = ssl_failed(t, rc, false, err);
	if (why == TLSIO_AGAIN)
		return 0;
	return why == 0 ? err_set(err, ERR_UPSTREAM, "TLS: closed during the handshake")
			: ERR_UPSTREAM;
}

ssize_t
tlsio_read(struct tlsio *t, void *p, size_t n, struct err *err)
{
	ssize_t got;
	int rc;

	if (t->ssl != NULL) {
		t->read_wants_write = false;
		ERR_clear_error();
		errno = 0;
		rc = SSL_read(t->ssl, p, (int)(n < INT32_MAX ? n : INT32_MAX));
		return rc > 0 ? rc : ssl_failed(t, rc, false, err);
	}
	do
		got = read(t->fd, p, n);
	while (got < 0 && errno == EINTR);
	if (got >= 0)
		return got;
	if (errno == EAGAIN)
		return TLSIO_AGAIN;
	(void)err_sys(err, ERR_UPSTREAM, errno, "read");
	return TLSIO_ERROR;
}

ssize_t
tlsio_write(struct tlsio *t, const void *p, size_t n, struct err *err)
{
	ssize_t put;
	int rc;

	if (t->ssl != NULL) {
		t->write_wants_read = false;
		ERR_clear_error();
		errno = 0;
		rc = SSL_write(t->ssl, p, (int)(n < INT32_MAX ? n : INT32_MAX));
		if (rc > 0)
			return rc;
		put = ssl_failed(t, rc, true, err);
		if (put == 0) {
			(void)err_set(err, ERR_UPSTREAM, "TLS: the peer has closed");
			return TLSIO_ERROR;
		}
		return put;
	}
	do
		put = write(t->fd, p, n);
	while (put < 0 && errno == EINTR);
	if (put >= 0)
		return put;
	if (errno == EAGAIN)
		return TLSIO_AGAIN;
	(void)err_sys(err, ERR_UPSTREAM, errno, "write");
	return TLSIO_ERROR;
}

uint32_t
tlsio_events(const struct tlsio *t, bool want_read, bool want_write)
{
	uint32_t ev = 0;

	if (want_read)
		ev |= t->read_wants_write ? EPOLLOUT : EPOLLIN;
	if (want_write)
		ev |= t->write_wants_read ? EPOLLIN : EPOLLOUT;
	return ev;
}

static void
goodbye(struct tlsio *t)
{
	ERR_clear_error();
	if (t->ssl != NULL && SSL_is_init_finished(t->ssl) &&
	    (SSL_get_shutdown(t->ssl) & SSL_SENT_SHUTDOWN) == 0)
		(void)SSL_shutdown(t->ssl);
	ERR_clear_error();
}

void
tlsio_shut(struct tlsio *t)
{
	goodbye(t);
	(void)shutdown(t->fd, SHUT_WR);
}

void
tlsio_close(struct tlsio *t)
{
	if (t->ssl != NULL) {
		goodbye(t);
		SSL_free(t->ssl);
		t->ssl = NULL;
	}
	if (t->fd >= 0)
		(void)close(t->fd);
	t->fd = -1;
}
