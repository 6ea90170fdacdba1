/*
 * What the parts of cofferdam-courier share. Each webhook is a reader of the log with a cursor of
 * its own: it holds one piece of records and one delivery, so that a dead endpoint holds up nobody
 * and takes no memory.
 */
#ifndef BROKER_COURIER_H
#define BROKER_COURIER_H

#include "broker/upstream_address.h"
#include "common/hash.h"
#include "common/ipc.h"
#include "common/loop.h"
#include "common/secret.h"
#include "common/webhook.h"

#define COURIER_BODY_MAX ((size_t)64 << 10)   /* of what is sent */
#define COURIER_OTLP_MAX ((size_t)2 << 20)    /* of one request of OTLP */
#define COURIER_ANSWER_MAX ((size_t)64 << 10) /* of what is read of an answer, head and content */
#define COURIER_ID_MAX 256		      /* ORIGIN#SEQ */
#define COURIER_WHY_MAX 200
#define COURIER_SECRETS_MAX 2
#define COURIER_START UINT64_MAX /* a cursor that is not known: from the writer's start */

enum courier_state {
	HOOK_IDLE = 0,
	HOOK_ASKED,   /* the writer was asked for more */
	HOOK_SENDING, /* a delivery is on its way */
	HOOK_WAITING, /* until it is tried again */
	HOOK_BROKEN,  /* it cannot be used as it is configured: why[] */
};

struct courier;
struct courier_http;
struct delivery;

/* What is told to people, and kept in courier/. */
struct hook_count {
	uint64_t delivered, failed, given_up;
	int64_t failed_us, delivered_us; /* wall clock of the last one; 0 none */
	char why[COURIER_WHY_MAX];	 /* of the last failure; "" when the last try was good */
};

struct hook {
	struct courier *c;
	uint32_t i;
	const struct webhook *conf;
	struct webhook_url url;
	size_t nsecrets;
	struct secret *secrets[COURIER_SECRETS_MAX];
	struct secret *header; /* "Name: value", or NULL */
	struct buf ca;	       /* PEM; empty: the system's */
	size_t nnets;
	struct upstream_net nets[WEBHOOK_NETS_MAX];

	enum courier_state state;
	uint64_t next;	     /* the first record that is not dealt with */
	uint64_t whole_from; /* everything it takes was delivered, from here to `next` */
	int64_t since_us;    /* wall clock of the first try of record `next`; 0: none yet */
	struct buf piece;    /* records of the last answer, and where the next of them is */
	struct rd at;
	uint32_t left;
	uint64_t piece_next;
	uint64_t seq;	  /* of the record being delivered, or the first of several */
	uint64_t through; /* the last one of these */
	struct rd batch;  /* of OTLP: where these begin in the piece, and how many were left */
	uint32_t batch_left, batch_n;
	uint32_t batch_max; /* fewer after a request that was not taken */
	struct buf answer;  /* of OTLP */
	long http_status;   /* of the last answer; 0: none */
	struct buf body;
	unsigned tries;
	struct delivery *delivery;
	struct loop_timer *timer; /* of HOOK_WAITING */
	uint64_t due_ms;
	struct hook_count count;
	uint64_t told_from, told_through; /* what the writer was told last */
	char told_why[COURIER_WHY_MAX];
	uint64_t carry; /* of a witness: the request that body is */
};

struct courier {
	struct loop *loop;
	char *origin, *console; /* console: its address, "" none */
	struct webhooks conf;
	size_t nhooks;
	struct hook hooks[WEBHOOKS_MAX];
	struct webhooks witnesses_conf;
	size_t nwitnesses;
	struct hook *witnesses; /* their state is HOOK_BROKEN, SENDING or IDLE */
	int dir;		/* courier/, -1: not here yet */
	bool loaded;
	uint64_t size; /* of the log, as last told */
	struct ipc *writer;
	struct courier_http *http;
	struct loop_timer *save, *status;
	bool status_idle; /* status is only the sign of life */
};

/* --- courier_hub.c: the wire, and each webhook's way through the log ------------------ */

extern const char *const courier_syscalls[];
void courier_wire(struct courier *c, int fd);
/* A delivery ended: `why` is "" when it was taken. retry_after_ms 0: not said. */
void courier_delivered(struct hook *h, const char *why, uint64_t retry_after_ms);
void courier_stop(struct courier *c);
/* How long to wait before try n + 1, from 1; random says where between half of it and all. */
uint64_t courier_back_off(unsigned tries, uint32_t random);

/* --- courier_witness.c: what the writer asks of witnesses, and what they answer ------------ */

int courier_witness_on_carry(struct courier *c, struct rd *body, struct err *err);
/* An answer came (status), or none (0, why). */
void courier_witness_done(struct hook *h, unsigned status, struct str body, const char *why);

/* --- courier_start.c: configuration, files ------------------------------------------------ */

int courier_config(struct courier *c, const struct json *config, struct err *err);
int courier_fd(struct courier *c, struct str name, int fd, struct err *err); /* takes fd */
int courier_go(struct courier *c, struct err *err);
void courier_free(struct courier *c);

/* --- courier_keep.c: cursors and status on disk --------------------------------------------- */

int courier_load(struct courier *c, struct err *err);
void courier_save_soon(struct courier *c);
void courier_save_now(struct courier *c);
void courier_status_soon(struct courier *c);
/* The text of both, for who writes it and for tests. */
void courier_cursors_put(const struct courier *c, struct buf *out);
int courier_cursors_read(struct courier *c, struct str text, struct err *err);
void courier_status_put(const struct courier *c, int64_t now_us, struct buf *out);

/* --- courier_event.c, courier_slack.c: what leaves -------------------------------------------- */

/* What is sent of one record; ERR_TAMPER: BODY is not a record. */
struct courier_event {
	struct str origin, link; /* link: "" none */
	bool text, slack;
};
int courier_event_put(
    const struct courier_event *e, struct str body, struct buf *out, struct err *err);
/* Data as the JSON form has it to a message for people. */
int courier_slack_put(
    const struct courier_event *e, struct str json, struct buf *out, struct err *err);
/* Where people look at it: "" unknown. */
void courier_link(
    const struct courier_event *e, struct str type, struct str id, struct str run, struct buf *out);

/* --- courier_otlp.c: logs of OpenTelemetry, many records in a request ---------------------------
 */

/* The next records of the piece as one request; ERR_PROTOCOL: one was not asked for. */
int courier_otlp_put(struct hook *h, struct err *err);
/* How many of these the answer says were refused, and why (out, printable). */
uint64_t courier_otlp_refused(const struct hook *h, char out[COURIER_WHY_MAX]);
/* The request cannot be taken as it is: fewer records next time. False: it was only one. */
bool courier_otlp_split(struct hook *h);
/* No try will change what became of it: it was refused alone, or retry_for is over. */
bool courier_otlp_hopeless(const struct hook *h);
/* "Name: value" of a header file. */
int courier_header_parse(struct str line, struct secret **ret, struct err *err);

/* --- courier_sign.c ------------------------------------------------------------------------- */

/* A line of a secret file: whsec_ and base64 of 24 to 64 bytes. */
int courier_secret_parse(struct str line, struct secret **ret, struct err *err);
/* "v1,BASE64" for each key, a space between: HMAC-SHA256 over id "." timestamp "." body. */
void courier_sign(struct secret *const *keys, size_t n, struct str id, int64_t at_s,
    struct str body, struct buf *out);

/* --- courier_http.c: one POST at a time for each webhook ----------------------------------------
 */

int courier_http_new(struct courier *c, struct err *err);
void courier_http_free(struct courier_http *x);
/* Ends with courier_delivered(), from the loop. */
void courier_http_send(struct hook *h);
void courier_http_drop(struct hook *h); /* without a word */

#endif
