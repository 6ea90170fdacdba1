/*
 * TLS of HTTP exchanges: whom to trust, by the lease's CA or the system's, loaded once each; and
 * what libcurl's contexts are told.
 */
#ifndef BROKER_UPSTREAM_HTTP_TLS_H
#define BROKER_UPSTREAM_HTTP_TLS_H

#include "broker/upstream_tls.h"

struct ssl_ctx_st;
struct x509_store_st;
struct stores;

/* Before confinement: reads the system's CA file. One that is not there is an error of those
 * leases alone that name no CA. */
struct stores *stores_new(const char *system_file);
void stores_free(struct stores *s);
/* The certificates of a PEM text, "" the system's. The caller frees it with stores_drop(). */
int stores_get(struct stores *s, struct str ca, struct x509_store_st **ret, struct err *err);
void stores_drop(struct x509_store_st *store); /* NULL is fine */

/* Verify-full against that store and name, TLS 1.2 or newer; host may be a numeric address. */
int upstream_http_tls(struct ssl_ctx_st *ctx, struct x509_store_st *store, const char *host);

#endif
