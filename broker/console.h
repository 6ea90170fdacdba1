/*
 * What the parts of cofferdam-console share: people's connections, questions to core, pages. The
 * console reads what browsers send and trusts none of it; it has no credential, no vault, no log
 * key and no policy. What it shows it asks core for, in the name of a session that core opened.
 */
#ifndef BROKER_CONSOLE_H
#define BROKER_CONSOLE_H

#include <sys/queue.h>

#include "common/buf.h"
#include "common/http.h"
#include "common/ipc.h"
#include "common/json.h"
#include "common/loop.h"
#include "common/tlsio.h"
#include "common/weborigin.h"

#define CONSOLE_CONNS_MAX 256	/* the one that waits longest for a request goes first */
#define CONSOLE_STREAMS_MAX 128 /* of those, live updates */
#define CONSOLE_HEAD_MAX ((size_t)16384)
#define CONSOLE_BODY_MAX ((size_t)65536)
#define CONSOLE_PAGE_MAX ((size_t)16 << 20)
#define CONSOLE_DOCS_MAX 4
#define CONSOLE_TOKEN_MAX 128
#define CONSOLE_ID_MAX 64

struct console;
struct console_conn;

/* --- console_request.c: one request, read and judged before anybody is asked */
enum console_method { CONSOLE_GET = 1, CONSOLE_HEAD, CONSOLE_POST };
struct console_request {
	enum console_method method;
	char path[256]; /* without the id, which is "*" in it: "/requests/" and "*" */
	char id[CONSOLE_ID_MAX + 1];
	char token[CONSOLE_TOKEN_MAX + 1]; /* of the session's cookie; "" none */
	enum http_body body;
	uint64_t length;
	bool keep_alive;
};
/*
 * Of one whole head; 0 or the status of the refusal, then *err says why. Refused: another host than
 * the origin's (421), a path with anything but [A-Za-z0-9._/-] or a query (404), a POST that
 * another site could have made (403), a body that is not JSON (415).
 */
unsigned console_request_read(const struct weborigin *at, struct str origin, struct str head,
    struct console_request *ret, struct err *err);

/* --- console_conn.c: sockets, framing, limits */
enum console_phase {
	CONSOLE_HANDSHAKE = 1,
	CONSOLE_READS,	/* a request is awaited, or comes in */
	CONSOLE_ASKS,	/* core has been asked */
	CONSOLE_STREAM, /* live updates go out */
	CONSOLE_CLOSES, /* last bytes go out, then the end */
	CONSOLE_DEAD,
};
struct console_conn {
	TAILQ_ENTRY(console_conn) link;
	struct console *k;
	enum console_phase phase;
	struct tlsio io;
	struct loop_io *ev;
	struct loop_timer *timer;
	struct buf in, out, body;
	size_t out_at, scanned, head; /* head: bytes of the request's head in `in`; 0: not whole */
	struct console_request rq;
	struct http_reader reader;
	bool close;   /* after this answer */
	bool started; /* a head was read, its body is on its way */
	uint64_t stream_until;
	uint64_t call; /* what core was asked last; 0: nothing */
	const struct console_route *route;
	size_t ndocs; /* answers of core, in the order of route->verbs */
	struct json_doc *docs[CONSOLE_DOCS_MAX];
	struct str person; /* of docs[0], or empty */
};
TAILQ_HEAD(console_conns, console_conn);
void console_conn_new(struct console *k, int fd); /* takes fd */
void console_conn_end(struct console_conn *c);
/* In ms from now, whatever was set before. */
void console_conn_deadline(struct console_conn *c, uint64_t ms);
void console_conn_watch(struct console_conn *c);
/* Of a request that is over: what is behind it moves to the front. */
void console_conn_drop(struct console_conn *c);
#define CONSOLE_BEAT_MS 15000 /* of live updates */
void console_conn_free_all(struct console *k);
/* The whole answer, but for what is the same in each: status, one field more or none, content. */
void console_conn_answer(struct console_conn *c, unsigned status, const char *type,
    struct str extra, struct str content);
/* From here on console_conn_event() alone. */
void console_conn_stream(struct console_conn *c);
/* Live updates: what people look at may be another now. */
void console_conn_tell_all(struct console *k);
/* Their sessions are over: who reads them comes again, and is asked to sign in. */
void console_conn_streams_end(struct console *k);

/* --- console_accept.c */
int console_accept_listen(struct console *k, struct err *err);

/* --- console_hub.c: core */
struct console {
	struct loop *loop;
	struct ipc *core;
	char *origin;
	struct weborigin at;
	struct ssl_ctx_st *tls; /* NULL: a proxy does it, or no certificate came yet */
	struct buf key;		/* PEM, until its certificate comes */
	bool clear;		/* no certificate is meant to come */
	int listen_fd;
	struct acceptor *acceptor;
	struct loop_timer *rest; /* no descriptors: accepting pauses */
	struct console_conns conns;
	size_t nconns, nstreams;
	uint64_t last_call;
	struct loop_timer *tell;
	bool again; /* it changed while `tell` ran */
};
struct console *console_new(struct loop *loop);
void console_free(struct console *k);
int console_wire(struct console *k, enum ipc_role peer, int fd, struct err *err); /* takes fd */
/* console_route_told() follows, unless the connection ends first. */
void console_ask(struct console_conn *c, const char *verb, struct str args);

/* --- console_route.c: which question becomes which answer */
struct console_page;
struct console_route {
	enum console_method method;
	const char *path;
	bool session; /* docs[0] is `session` */
	const char *verbs[CONSOLE_DOCS_MAX];
	/* After all have been answered. */
	void (*answer)(struct console_conn *c);
	/* Arguments of a POST's last verb, from its body; NULL: id and person alone. */
	int (*args)(
	    struct console_conn *c, const struct json *body, struct buf *out, struct err *err);
};
/* c->rq is read, c->body whole. */
void console_route(struct console_conn *c);
void console_route_told(struct console_conn *c, int code, struct str result);
/* JSON or a page that says what is wrong, as the path has it. */
void console_route_refuse(
    struct console_conn *c, unsigned status, const char *title, struct str why);

/* --- console_tls.c */
int console_tls_context(
    struct str key_pem, struct str cert_pem, struct ssl_ctx_st **ret, struct err *err);
int console_tls_accept(struct ssl_ctx_st *ctx, int fd, struct ssl_st **ret, struct err *err);
bool console_tls_pending(const struct ssl_st *ssl);
void console_tls_free(struct ssl_ctx_st *ctx);

/* --- console_html.c: the one place where text becomes markup */
void html_raw(struct buf *b, const char *markup); /* ours */
/* Text, escaped; what no eye sees, or that turns what it sees, is shown as U+XXXX. */
void html_text(struct buf *b, struct str s);
/* For what an agent wrote: line ends and tabs stay, all else beyond printable ASCII is %XX. */
void html_bytes(struct buf *b, struct str s);
void html_member(struct buf *b, const struct json *o, const char *key);
void html_time(
    struct buf *b, struct str iso); /* <time>, in the reader's zone once the script ran */
void html_begin(struct buf *b, const char *title, const struct console_conn *c);
void html_end(struct buf *b);
/* <dt>label<dd>member, nothing without such a member. */
void html_row(struct buf *b, const struct json *o, const char *label, const char *key);
void html_list(struct buf *b, const struct json *list);	 /* "a, b" */
void html_slots(struct buf *b, const struct json *list); /* "dba:1" is 1 dba */
void html_id(struct buf *b, struct str id); /* for attributes: letters and digits alone */

/* --- console_page*.c */
void console_page_answer(struct console_conn *c, unsigned status, struct buf *b); /* and its end */
void console_page_pending(struct console_conn *c);
void console_page_request(struct console_conn *c);
void console_page_runs(struct console_conn *c);
void console_page_freezes(struct console_conn *c);
void console_page_sign_in(struct console_conn *c);
void console_page_enrol(struct console_conn *c);
void console_page_icon(struct console_conn *c);
void console_page_css(struct console_conn *c);
void console_page_js(struct console_conn *c);
void console_page_message(
    struct console_conn *c, unsigned status, const char *title, struct str text);

/* --- console_api.c */
void console_api_json(struct console_conn *c); /* core's last answer as it is */
void console_api_signed_in(struct console_conn *c);
void console_api_signed_out(struct console_conn *c);
void console_api_events(struct console_conn *c);
int console_api_args_statement(
    struct console_conn *c, const struct json *body, struct buf *out, struct err *err);
int console_api_args_sign(
    struct console_conn *c, const struct json *body, struct buf *out, struct err *err);
int console_api_args_enrol(
    struct console_conn *c, const struct json *body, struct buf *out, struct err *err);
int console_api_args_sign_in(
    struct console_conn *c, const struct json *body, struct buf *out, struct err *err);

#endif
