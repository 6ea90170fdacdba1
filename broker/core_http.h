/*
 * HTTP exchanges as core sees them: one request each, from H_ACT (or a refused H_CONNECT) to its
 * outcome. (conn, act) names one on all wires. The order is the promise: names agree, effects,
 * credentials, verdict, record durable, lease, answer, outcome.
 */
#ifndef BROKER_CORE_HTTP_H
#define BROKER_CORE_HTTP_H

#include "broker/core_decide.h"
#include "broker/core_vault.h"
#include "broker/core_record.h"
#include "policy/effects_http.h"

#define CORE_HTTP_MAX 4096     /* exchanges in flight */
#define CORE_HTTP_RUN_MAX 1024 /* of one run */
/* Bodies that core takes in hand, bytes. */
#define CORE_HTTP_INLINE_MAX ((size_t)65536)
#define CORE_HTTP_GRAPHQL_MAX ((uint64_t)1 << 20)
#define CORE_HTTP_FORM_MAX ((uint64_t)16 << 20)
#define CORE_HTTP_MODEL_MAX                                                    \
	((uint64_t)(BLOB_PLAIN_MAX - 131072))	/* head and body make one blob \
						 */
#define CORE_HTTP_SHOWN_MAX ((uint64_t)8 << 20) /* under approval; larger ones by their hash */
#define CORE_HTTP_BODY_MAX ((uint64_t)1 << 30)	/* where the policy has no max_body */
#define CORE_HTTP_RUN_HELD ((uint64_t)64 << 20) /* of a run in hand at once */
#define CORE_HTTP_HELD ((uint64_t)256 << 20)	/* of all runs */

enum core_http_body { CORE_BODY_NONE = 0, CORE_BODY_INLINE, CORE_BODY_LENGTH, CORE_BODY_CHUNKED };
enum core_http_via { CORE_VIA_DIRECT, CORE_VIA_PROXY, CORE_VIA_LOOP };
enum core_http_phase {
	CORE_HTTP_BODY,	   /* waits for H_BODY, H_HASHED */
	CORE_HTTP_FACTS,   /* waits for the parser */
	CORE_HTTP_LOOK,	   /* waits for what the target shows */
	CORE_HTTP_RECORD,  /* waits for acks */
	CORE_HTTP_SENT,	   /* waits for UH_DONE */
	CORE_HTTP_OUTCOME, /* waits for the outcome's ack */
};

/* What stood in a request that should not be in a sandbox, or not there. */
enum core_finding { CORE_FOUND_NONE = 0, CORE_FOUND_FOREIGN, CORE_FOUND_SCOPE };
struct core_found {
	enum core_finding what;
	char place[96];			    /* "field X-Api-Key", "query parameter token" */
	char fingerprint[17];		    /* of the foreign credential */
	char credential[POLICY_ID_MAX + 1]; /* whose placeholder it is; "": of no target here */
	char *bound;			    /* "host:port" where that belongs; NULL: not known */
};

/* It is signed for AWS, by the credential of its target. */
struct core_aws {
	char scope[112]; /* REGION/SERVICE */
	enum core_aws_payload {
		CORE_AWS_PLAIN = 0, /* nothing said: its hash is taken */
		CORE_AWS_HASHED,    /* it has this hash */
		CORE_AWS_UNSIGNED,
		CORE_AWS_CHUNKED, /* in chunks that the client has signed, which is anew at each try
				   */
	} payload;
	bool s3, own; /* own: the client has signed with its placeholder */
	struct hash hash;
	uint64_t length; /* of the content in chunks */
	bool read;	 /* that content is here */
	struct buf content;
	struct hash content_sha;
};

struct core_http {
	LIST_ENTRY(core_http) link;
	struct core_from from;
	uint64_t act; /* 0: a CONNECT */
	enum core_http_phase phase;
	bool gone; /* the client went away: nobody is answered */

	/* What front said. */
	enum core_http_via via;
	bool model; /* for a model: words that are kept, prompt and answer */
	bool tls;
	char *host, *connect, *sni, *fault;
	uint16_t port;
	struct buf head;
	enum core_http_body body;
	uint64_t length;
	bool expect;

	/* The body as far as it is known. */
	struct buf content; /* inline */
	int fd;		    /* sealed; -1 */
	struct str bytes;   /* either of both; mapped when fd >= 0 */
	uint64_t held;	    /* counted against CORE_HTTP_HELD */
	bool in_hand;	    /* also when there is none */
	bool start;	    /* bytes are its start alone: the rest is streamed behind it */
	uint8_t needed;	    /* how H_NEED asked for it (1 whole 2 hash 3 start); 0: it did not */
	bool hashed;	    /* front has read it and let it go */
	bool bound;	    /* its hash is that of a request people were asked about */
	bool have_sha;
	struct hash sha;

	/* What it is. */
	struct http_request *req; /* NULL: not well-formed, or leased */
	bool well_formed;
	struct http_view view;
	struct core_facts *facts;
	struct core_ask *ask;
	bool folded; /* the facts are in the view */
	struct core_found found;
	struct core_aws *aws;	 /* NULL: it is not signed */
	struct core_look *look;	 /* under way */
	char next[CORE_ID_SIZE]; /* the action that the look is for; "" none */
	char *saw;		 /* what it showed, in words; NULL: nobody looked */
	unsigned status;	 /* of a refusal for reasons of core's own; 0: none */
	const char *title;	 /* one word for clients */
	char *why;		 /* in words */

	/* What would go out. */
	struct http_field *fields; /* borrowed from head */
	size_t nfields;
	struct buf target;
	struct hash sent, policy;

	struct core_action *a;
	struct core_ticket *ticket;
	struct core_request *request; /* whose approval.request is awaited */
	unsigned waiting;
	char *unwitnessed; /* why, where too few witnesses have seen its record; owned */
	bool failed;
	struct buf answer; /* of a refusal */
	size_t receipt_at; /* where in it a receipt goes */
	uint64_t sent_us;
	uint8_t done;		    /* status of UH_DONE */
	struct core_stream *stream; /* leased with an upgrade; NULL: it was not */
	struct loop_timer *timer;
};

/* --- core_http.c: exchanges and their ends */
void core_http_free(struct core_http *h);
/* Leased: what it was made of is not needed any more. */
void core_http_drop(struct core_http *h);
struct core_http *core_http_by_id(
    const struct core *c, uint64_t conn, uint64_t act); /* NULL: none */
/* An action of that id is with upstream now. */
bool core_http_in_flight(const struct core *c, const char *action);
/* NULL: all. Streams end, too, but stay until their account has come: core_http_end_now(). */
void core_http_end(struct core_run *run, const struct core_target *target);
void core_http_end_now(struct core_run *run); /* whatever is left of the run's */
/* Both sides are told; its account is waited for, not for ever. */
void core_http_cut(struct core_http *h);
void core_http_front_gone(struct core *c);
void core_http_upstream_gone(struct core *c);
int core_http_on_connect(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_http_on_act(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_http_on_body(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_http_on_hashed(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);
int core_http_on_close(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);

/* --- core_http_stream.c: what follows a 101 (docs/architecture.md) */
/* It was leased: from here on it is looked at whether it may go on. Its head must stay. */
void core_http_stream_begin(struct core_http *h);
/* Core ends it; `why`: a word of the record, static. Once. */
void core_http_stream_cut(struct core_http *h, const char *why);
void core_http_stream_gone(struct core_http *h, const char *why); /* somebody else did */
const char *core_http_stream_why(const struct core_http *h);	  /* NULL: nobody here did */
void core_http_stream_free(struct core_http *h);		  /* nothing is fine */

/* --- core_http_target.c: where it goes */
/* Fills from.target, credential; refuses what names disagree on or the run may not reach. */
void core_http_find(struct core_http *h);
/* Of the policy in force; NULL when it has none, or another place under that name. */
const struct policy_target *core_http_policy(const struct core_http *h);
/* Does an https target of the run (no model) have that name? port 0: any. */
bool core_http_reaches(struct core_run *run, struct str host, uint16_t port);

/* --- core_http_judge.c */
/* As far as it can go now: asks for the body or facts, or judges and records. */
void core_http_step(struct core_http *h);
/* Core itself cannot let it pass; the first reason stays. */
void core_http_refuse(struct core_http *h, unsigned status, const char *title, const char *why);

/* By what is known so far. Effects are only added later, but for views that say they are anew. */
enum verdict core_http_verdict(const struct core_http *h, const struct http_view *view);

/* --- core_http_look.c: what people are shown, and held to (docs/format-approval.md 5) */
/* True: the target is looked at, and core_http_step() follows. */
bool core_http_look_begin(struct core_http *h);
void core_http_look_free(struct core_look *k); /* NULL is fine; what is under way is aborted */
void core_http_look_end(struct core_http *h, struct str says);
/* What people signed binds, and is not so any more (1), or nobody could look (-1); 0: it holds. */
int core_http_look_differs(const struct core_http *h, const struct core_action *a);
/* The condition goes into the head, later into the body (before the lease). */
void core_http_look_bind(struct core_http *h);
int core_http_look_bind_body(struct core_http *h, struct err *err);
/* The words of an action in use that the server itself is asked to hold to; empty: none. */
struct str core_http_look_condition(const struct core_action *a);
#define CORE_LOOK_BIT (UINT64_C(1) << 63) /* of an act: core's own */
struct core_http_done;
int core_http_look_done(
    struct core_http *h, const struct core_http_done *d, struct err *err); /* of UH_DONE */
int core_http_on_looked(
    struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);

/* --- core_http_body.c */
bool core_http_streamed(const struct core_http *h); /* its body has not been read */
/* Room for a body of at most that many bytes; false: there is none now. */
bool core_http_hold(struct core_http *h, uint64_t most);
/* ERR_PROTOCOL: not sealed, or of another length. Takes fd. */
int core_http_body_take(struct core_http *h, int fd, uint64_t length, struct err *err);
int core_http_body_memfd(struct str bytes, int *ret_fd, struct err *err);
/* What goes out instead of what came; at most CORE_HTTP_INLINE_MAX. */
void core_http_body_replace(struct core_http *h, struct str bytes);
/* The boundary of multipart/form-data in a Content-Type; empty: none. */
struct str core_http_boundary(struct str type);
/* The judged facts say all that is done: the bytes behind them are named by them. */
bool core_http_by_facts(const struct core_http *h);
/* For the digest: of a multipart body without the boundary that clients make anew. */
void core_http_body_put(const struct core_http *h, struct buf *b);

/* --- core_http_cred.c */
/* Fills fields and target with what goes out, found with what must not. */
void core_http_scan(struct core_http *h);
void core_http_scan_body(struct core_http *h);
/* Of "dXNlcjpzZWNyZXQ=" what stands behind the colon, or if that is nothing, before it, in *plain;
 * else as it is. */
struct str core_http_basic_secret(struct str b64, struct buf *plain);
void core_http_unescape(struct str s, struct buf *out); /* as a form: escapes and '+' */

/* --- core_http_aws.c: requests that are signed for AWS (docs/aws.md) */
/* Fills aws, if credential e is of that kind; refuses forms of signature that are not made anew. */
void core_http_aws_begin(struct core_http *h, const struct policy_target *t,
    const struct vault_entry *e, const char *own);
void core_http_aws_free(struct core_aws *a); /* NULL is fine */
/* Is it a field of the client's signature, which does not go out? */
bool core_http_aws_drops(const struct core_http *h, struct str name);
/* Of an Authorization of AWS the part that says whose it is; else all of it. */
struct str core_http_aws_key(struct str authorization);
/* Its hash is to be signed, and the client does not say it. */
bool core_http_aws_wants_body(const struct core_http *h);
/* A body that is in hand is held to what the client says of it. */
void core_http_aws_body(struct core_http *h);
/* The hash that a body on its way must have; NULL: any. */
const struct hash *core_http_aws_hash(const struct core_http *h);

/* --- core_http_mask.c */
/* A head, well-formed or not, with each credential masked by its keyed fingerprint. */
void core_http_mask(const struct core_http *h, struct buf *out);
void core_http_mask_target(const struct core_http *h, struct str target, struct buf *out);

/* --- core_http_show.c */
char *core_http_show(const struct core_http *h);
struct hash core_http_digest(const struct core_http *h, struct digest_parts *parts);
/* The sealed head, and the body when it is in hand. */
int core_http_head(
    const struct core_http *h, struct buf *frame, struct blob_ref *ret, struct err *err);

/* --- core_http_record.c */
void core_http_record(struct core_http *h);
int core_http_on_done(struct core_peer *p, struct rd *body, int *fds, size_t nfds, struct err *err);

/* --- core_http_lease.c */
/* H_GO and UH_SEND. ERR_UNAVAILABLE, ERR_CONFIG, ERR_STATE: nothing was sent. */
int core_http_lease(struct core_http *h, struct err *err);
/* Its answer goes sealed into the log: of a model, or as the policy has it. */
bool core_http_seals(const struct core_http *h);
void core_http_abort(const struct core_http *h); /* UH_ABORT */
/* UH_LOOK, by the same way and credential: a GET or HEAD of the broker's own. */
int core_http_lease_look(struct core_http *h, struct str method, struct str target,
    const struct http_field *f, size_t n, struct err *err);
void core_http_abort_look(const struct core_http *h);

/* --- core_http_answer.c */
/* The body of a refusal by policy, from h->a; before anything it borrows goes. */
void core_http_answer_decided(struct core_http *h);
void core_http_answer_simple(
    struct core_http *h, unsigned status, const char *title, const char *detail);
/*
 * core_http_native.c: the same in the words of the target's protocol; its Content-Type, NULL: it
 * has none. *status is set where that is another.
 */
const char *core_http_answer_native(const struct core_http *h, unsigned *status, struct buf *out);
void core_http_answer_send(struct core_http *h); /* H_REFUSED, with h->answer */
/* To a connection that has no exchange. */
void core_http_answer_plain(struct core *c, uint64_t conn, uint64_t act, unsigned status,
    const char *title, const char *detail);

#endif
