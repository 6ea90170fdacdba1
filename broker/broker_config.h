/* broker.json: the parent's own configuration, and who each child runs as. */
#ifndef BROKER_BROKER_CONFIG_H
#define BROKER_BROKER_CONFIG_H

#include "broker/broker_console.h"
#include "broker/broker_reference.h"
#include "broker/broker_state.h"
#include "common/log.h"
#include "common/webhook.h"

#define BROKER_UID_BASE 63100

struct broker_config {
	char *origin;	 /* the log's name, C2SP: no space, no '+' */
	char *clock;	 /* "kernel-sync", "trusted" or NULL: as the policy says */
	char *log_level; /* "error", "warn", "info" or "debug" */
	uint32_t uid_base;
	struct broker_console console; /* origin NULL: there is none */
	struct webhooks webhooks;
	char *webhooks_json; /* the same, as the courier gets it; NULL: none */
	struct broker_references references;
	struct webhooks witnesses;
	char *witnesses_json; /* likewise */
};

/* Reads broker.json beneath the state directory. Unknown keys are errors. */
int broker_config_load(const struct broker_state *s, struct broker_config *ret, struct err *err);
int broker_config_parse(
    struct str text, const char *name, struct broker_config *ret, struct err *err);
enum log_level broker_config_level(const struct broker_config *c);
void broker_config_free(struct broker_config *c);
/* User _cofferdam-<name> where it exists, else uid_base + role; nothing when not root. */
int broker_config_ids(const struct broker_config *c, struct broker_ids *ret, struct err *err);

#endif
