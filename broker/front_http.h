/*
 * HTTP/1.1 towards clients: direct listeners with and without TLS, the proxy, the loop's socket.
 * What one connection is in the middle of, and how its files share it.
 */
#ifndef BROKER_FRONT_HTTP_H
#define BROKER_FRONT_HTTP_H

#include "broker/front.h"
#include "common/hash.h"
#include "common/http.h"

#define FRONT_HTTP_IN_MAX ((size_t)128 << 10) /* a head and what came with it */
#define FRONT_HTTP_INLINE_MAX ((size_t)65536) /* a body that goes with its head */
#define FRONT_HTTP_PART_MAX ((size_t)32768)   /* of a streamed body, in one FU_BODY */
#define FRONT_HTTP_HELD_MAX ((size_t)4 << 20) /* of an answer, before core's word on it */
#define FRONT_HTTP_RAW_MAX ((size_t)8192)     /* of a head that is not one, for the record */

enum front_http_state {
	FRONT_HTTP_HEAD = 1, /* between requests, or in a head */
	FRONT_HTTP_BODY, /* core hears of it once a short body, or a longer one's start, is here */
	FRONT_HTTP_CONNECT, /* core judges the name */
	FRONT_HTTP_ACT,	    /* one exchange in flight */
};

/* Where the body in hand goes. */
enum front_sink {
	FRONT_SINK_NONE = 0, /* nowhere yet, or no more */
	FRONT_SINK_INLINE,
	FRONT_SINK_MEMFD,
	FRONT_SINK_START, /* a memfd, as far as was asked for; the rest is streamed */
	FRONT_SINK_HASH,
	FRONT_SINK_STREAM,
};

struct front_exchange {
	bool asked; /* H_ACT sent */
	bool told;  /* core needs no H_CLOSE: it has ended it, or knows the end */
	bool faulty;
	bool go;	 /* H_GO came */
	bool hold, done; /* H_GO's; H_DONE came */
	bool upgrade;	 /* H_GO's: a 101 may come, and a stream behind it */
	bool stream;	 /* it came */
	bool eof;	 /* of the stream: no more comes than what is here */
	bool last;	 /* the connection ends behind the answer */
	struct buf ask;	 /* H_ACT as far as it is known */
	size_t head_at;	 /* in it, up to its end, as long as no body is there */
	/* the request */
	unsigned minor;
	bool to_head, keep_alive, expect;
	enum http_body body;
	uint64_t length;
	/* its body */
	struct http_reader reader;
	enum front_sink sink;
	bool whole;	/* read to its end */
	bool started;	/* its start went to core */
	bool granted;	/* UF_MORE came */
	bool continued; /* 100 written, if it was asked for */
	uint64_t most, credit;
	struct buf part;
	int memfd;
	size_t spooled;
	struct hash_ctx *hash;
	/* the answer */
	bool headed, ended; /* UF_HEAD of the final answer, UF_END came */
	bool begun;	    /* bytes of the final answer are on their way */
	bool answered;	    /* and so is its end */
	bool held_up;	    /* FU_HOLD 1 sent */
	enum http_body framing;
	uint64_t left;	    /* HTTP_BODY_LENGTH */
	struct buf held;    /* what waits for core's word */
	size_t held_last;   /* where its last piece begins */
	struct buf receipt; /* H_GO's */
};

struct front_http {
	enum front_http_state state;
	bool tls;   /* inside TLS, or waiting for it as the first thing */
	bool proxy; /* the proxy's listener, and no CONNECT was granted */
	bool loop;
	char *connect;		   /* "host:port" that was granted; NULL */
	char host[HTTP_HOST_SIZE]; /* of CONNECT */
	uint16_t port;
	uint64_t act;
	size_t scanned;
	unsigned empty; /* lines before a request */
	bool heading;	/* a head has begun */
	struct front_exchange x;
};

extern const struct front_proto front_http_proto;
extern const struct front_msg front_http_messages[];

/* --- front_http.c */
/* The exchange is over: the next one, or the end. */
void front_http_next(struct front_conn *c);
/* Run over, core or upstream lost: 503 where no answer has begun, else a cut. */
void front_http_over(struct front_conn *c, const char *detail);
/* Did its CONNECT name that host ("*.NAME": one label and NAME) and port? */
bool front_http_tunnels(const struct front_conn *c, struct str host, uint16_t port);

/* --- front_http_ask.c: what core is told of a request */
/* A whole head. */
void front_http_request(struct front_conn *c, struct str head);
/* What is no request: core records it, and answers. */
void front_http_fault(struct front_conn *c, const char *why, struct str raw);
/* The request with its body, if that is short; `body` as in H_ACT. */
void front_http_act(struct front_conn *c, uint8_t body, struct str inlined);
void front_http_connected(struct front_conn *c, struct str host);

/* --- front_http_body.c: a request's body */
/* As far as there is input and room for it. */
void front_http_body(struct front_conn *c);
void front_http_body_free(struct front_conn *c);
/* H_NEED; false: core is out of step. */
bool front_http_need(struct front_conn *c, uint8_t how, uint64_t most);
/* H_GO with a body to come; false: it is too large, and the client was told. */
bool front_http_stream(struct front_conn *c, uint64_t most);
/* UF_MORE. */
void front_http_more(struct front_conn *c, uint32_t bytes);

/* --- front_http_stream.c: behind a 101 */
/* UF_HEAD: notes that the stream begins; false: that could not be. *ret borrowed from f. */
bool front_http_stream_head(
    struct front_conn *c, const struct http_field *f, size_t n, struct str *ret_protocol);
/* Both have spoken: the client is read. */
void front_http_stream_begin(struct front_conn *c);
/* The client sends no more; false: then it is gone. */
bool front_http_stream_eof(struct front_conn *c);

/* --- front_http_answer.c: what the client is told */
struct front_answer {
	uint64_t act; /* 0: of CONNECT */
	unsigned status;
	bool close;
	size_t n;
	struct http_field fields[HTTP_FIELDS_MAX];
	struct str body;
};
/* A complete answer; then the next request, or the end. False: it cannot stand in a message. */
bool front_http_answer(struct front_conn *c, const struct front_answer *a);
/* Front's own (408, 413, 503 ...), as application/problem+json; ends the connection. */
void front_http_problem(struct front_conn *c, unsigned status, const char *detail);
/* The answer breaks off here, and the client can tell. */
void front_http_cut(struct front_conn *c);
/* H_GO; false: core is out of step. */
bool front_http_go(
    struct front_conn *c, uint8_t body, uint64_t most, bool hold, struct str receipt);
void front_http_done(struct front_conn *c);
/* Of upstream: false when it is none that could follow what came before. */
bool front_http_head(struct front_conn *c, unsigned status, const struct http_field *f, size_t n);
bool front_http_data(struct front_conn *c, struct str bytes);
bool front_http_end(struct front_conn *c, bool whole);

#endif
