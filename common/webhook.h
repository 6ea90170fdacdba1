/*
 * One webhook as broker.json has it: read by the parent, which refuses what is not right, and by
 * the courier, which gets the same text. docs/webhooks.md tells what each key means.
 */
#ifndef COMMON_WEBHOOK_H
#define COMMON_WEBHOOK_H

#include "common/http.h"
#include "common/json.h"

#define WEBHOOKS_MAX 16
#define WITNESSES_MAX 8
#define WEBHOOK_EVENTS_MAX 32
#define WEBHOOK_NETS_MAX 16
#define WEBHOOK_NAME_MAX 32
#define WEBHOOK_URL_MAX 2048
#define WEBHOOK_EVENT_ALL "all"
#define WEBHOOK_TYPES_MAX 64 /* of all events of one webhook, an alarm counted by its types */

struct webhook {
	char *name;			  /* [a-z0-9-]; of a witness that of its key */
	char *key;			  /* a witness' verifier key; NULL: a webhook */
	char *url, *url_file;		  /* one of the two; the file has the URL in one line */
	char *secret_file, *ca_file;	  /* beneath the state directory; NULL: none */
	char *header_file;		  /* of OTLP: one field, sent with each request */
	char *link;			  /* where people look: the console; NULL: none */
	char *events[WEBHOOK_EVENTS_MAX]; /* "approval.request", "freeze.*", "alarm" */
	char *networks[WEBHOOK_NETS_MAX]; /* besides public addresses */
	size_t nevents, nnetworks;
	bool slack, otlp, text; /* form; show */
	bool from_first;	/* of OTLP: a new one begins with record 0 */
	int64_t retry_for_s;	/* 0: for ever */
	int64_t timeout_s;
};
struct webhooks {
	size_t n;
	struct webhook v[WEBHOOKS_MAX];
};

/* The array "webhooks"; ERR_CONFIG names key, value and limit. */
int webhooks_parse(
    const struct json_doc *doc, const struct json *v, struct webhooks *ret, struct err *err);
/*
 * The array "witnesses": where heads of the log are shown (C2SP tlog-witness). A key is
 * NAME+ID+BASE64, Ed25519 cosigner's (type 4): docs/format-witness.md 1.
 */
int webhooks_parse_witnesses(
    const struct json_doc *doc, const struct json *v, struct webhooks *ret, struct err *err);
/* NULL, and its name, which is borrowed; else what is not right with it. */
const char *webhook_witness_key(struct str s, struct str *ret_name);
void webhooks_free(struct webhooks *w);

/* Does a record of that type go to it? */
bool webhook_wants(const struct webhook *h, struct str type);
/* The types and prefixes ("freeze.*") that its events stand for, alarms resolved; borrowed. */
size_t webhook_types(const struct webhook *h, const char *out[WEBHOOK_TYPES_MAX]);
/* Is `type` the pattern, or beneath it? "*": any. */
bool webhook_type_fits(struct str pattern, struct str type);

/* https alone, without user information and fragment. */
struct webhook_url {
	char host[HTTP_HOST_SIZE];
	uint16_t port;
	char target[WEBHOOK_URL_MAX + 2]; /* path and query */
};
int webhook_url_parse(struct str url, struct webhook_url *ret, struct err *err);

#endif
