/* The files that a webhook of broker.json names: opened by the parent, for the courier to read. */
#ifndef BROKER_BROKER_WEBHOOK_H
#define BROKER_BROKER_WEBHOOK_H

#include "broker/broker_state.h"
#include "common/webhook.h"

#define BROKER_WEBHOOK_FILES 4 /* of each: secret, url, ca, header */

/*
 * The i-th file of all: *ret_name is "secret:NAME", ... (the caller frees); *ret_fd is -1 where
 * that webhook names no such file. ERR_CONFIG: it is another's, open to others, or no plain file.
 */
int broker_webhook_file(const struct broker_state *s, const struct webhooks *w, size_t i,
    char **ret_name, int *ret_fd, struct err *err);
/* All of them can be opened; before anything is started. */
int broker_webhooks_check(const struct broker_state *s, const struct webhooks *w, struct err *err);

#endif
