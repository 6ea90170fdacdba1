/* Makes the certificate authority of a state directory; core signs with it (broker/core_ca.h). */
#ifndef CMD_CMD_CA_H
#define CMD_CMD_CA_H

#include "common/buf.h"
#include "common/err.h"

#define CA_YEARS 10

/* A P-256 key and its self-signed CA certificate (path length 0), both PEM, appended. */
int ca_make(const char *origin, struct buf *key_pem, struct buf *cert_pem, struct err *err);

#endif
