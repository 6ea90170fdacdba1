/* The console's part of broker.json: where it listens, and under which name people know it. */
#ifndef BROKER_BROKER_CONSOLE_H
#define BROKER_BROKER_CONSOLE_H

#include "common/err.h"
#include "common/json.h"

struct broker_console {
	char *origin;	  /* "https://cofferdam.example", as browsers write it */
	char *listen;	  /* "127.0.0.1:8443" */
	char *cert, *key; /* PEM files; NULL: a proxy on this machine does the TLS */
};

/*
 * {"listen","origin","tls_cert","tls_key"}: all or no TLS files; without them the address is a
 * loopback one.
 */
int broker_console_parse(
    const struct json_doc *doc, const struct json *v, struct broker_console *ret, struct err *err);
void broker_console_free(struct broker_console *c);
int broker_console_listen(const struct broker_console *c, int *ret_fd, struct err *err);
/* The key must be closed to others. */
int broker_console_files(
    const struct broker_console *c, int *ret_cert, int *ret_key, struct err *err);

#endif
