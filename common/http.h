/*
 * HTTP/1.1 messages, strictly (RFC 9112, RFC 9110): one reading of every byte, or none. Front reads
 * requests with it, core reads front's heads again with it, the built-in loop reads the broker's
 * answers. Nothing here allocates; all strings are borrowed from the input.
 */
#ifndef COMMON_HTTP_H
#define COMMON_HTTP_H

#include "common/buf.h"
#include "common/err.h"

#define HTTP_HEAD_MAX ((size_t)65536)	/* bytes of a head with its empty line; more is 431 */
#define HTTP_TARGET_MAX ((size_t)16384) /* more is 414 */
#define HTTP_METHOD_MAX 24
#define HTTP_FIELDS_MAX 200
#define HTTP_HOST_MAX 253
#define HTTP_RECEIPT "Cofferdam-Receipt" /* field of answers, from the broker alone */
#define HTTP_HOST_SIZE 256		 /* host and NUL */
#define HTTP_WEBSOCKET "websocket"	 /* RFC 6455 */
#define HTTP_WEBSOCKET_KEY "Sec-WebSocket-Key"

struct http_field {
	struct str name, value; /* value without white space around it */
};

enum http_form { HTTP_ORIGIN = 1, HTTP_ABSOLUTE, HTTP_AUTHORITY, HTTP_ASTERISK };
enum http_body { HTTP_BODY_NONE = 0, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED, HTTP_BODY_CLOSE };

struct http_request {
	struct str method, target; /* as sent */
	enum http_form form;
	bool tls;	  /* absolute form: its scheme is https */
	struct str path;  /* "/..." as sent; "/" for an absolute form without one, "*" for the
			   * asterisk form, empty for the authority form */
	struct str query; /* behind '?'; has_query tells "" from none */
	bool has_query;
	unsigned minor; /* HTTP/1.minor: 0 or 1 */
	/* From the Host field; of an absolute or authority form from the target, which Host must
	 * equal. Lower case, no trailing dot; an IPv6 address without brackets. */
	char host[HTTP_HOST_SIZE];
	uint16_t port; /* 0: none was given */
	size_t nfields;
	struct http_field fields[HTTP_FIELDS_MAX];
	enum http_body body;
	uint64_t length; /* of HTTP_BODY_LENGTH */
	bool expect;	 /* 100-continue, and there is content to wait for */
	bool keep_alive; /* what the client wants */
	bool upgrade;	 /* an Upgrade field stands there */
};

/*
 * Bytes of the first head in `in`, its empty line included; 0: not whole yet. *scanned (0 at
 * first, 0 again once a head is found) says how far it was searched, so that slow input costs no
 * more. A bare CR or LF, a control character other than HT and more than HTTP_HEAD_MAX bytes are
 * found at once: ERR_SYNTAX, ERR_TOO_LARGE. An empty line in front is a head of 2 bytes: before a
 * request the caller may drop one of them (RFC 9112 2.2), the parsers refuse it.
 */
int http_head_end(struct str in, size_t *scanned, size_t *ret, struct err *err);
/*
 * `head` is one whole head. ERR_SYNTAX (400), ERR_TOO_LARGE (431; of the target 414),
 * ERR_UNSUPPORTED (codings before a final `chunked`, or an expectation other than 100-continue);
 * *ret is zero then. Refused: what reference cases of request smuggling use, and every other
 * ambiguity of framing or authority:
 *   two Content-Lengths, equal or not, or one that is not a plain decimal up to 2^63 - 1; it beside
 *   Transfer-Encoding; Transfer-Encoding in 1.0, twice, or of anything but one "chunked"; a tab
 *   around either;
 *   obs-fold, white space before a colon, bare CR or LF, a name that is no token,
 *   Content_Length and Transfer_Encoding; a Connection that names Host, Authorization, Cookie,
 *   Expect, Content-*, Sec-* or X-Amz-* but X-Amz-Meta-*; CONNECT with a body; two of
 *   Authorization, Content-Encoding or Content-Type;
 *   no Host (1.0 may lack one where the target has the authority) or two, Host unlike the target,
 *   user information; a target that is no URI reference without fragment (in a query anything
 *   printable but '#' passes, clients send {}|" unescaped; escapes must be whole everywhere);
 *   a version other than 1.0 and 1.1.
 * Dot segments, double slashes and what escapes stand for are left to policy.
 */
int http_request_parse(struct str head, struct http_request *ret, struct err *err);
/* The method that a head, whole or not, well-formed or not, claims to have; empty: none. */
struct str http_method_claim(struct str head);
/* First field of that name, case ignored; NULL: none. */
const struct http_field *http_field_find(const struct http_field *f, size_t n, const char *name);
/* The one of that name; NULL: none, or more than one. */
const struct http_field *http_field_only(const struct http_field *f, size_t n, const char *name);
/* Is `token` in one of the comma lists of that name? Case ignored. */
bool http_field_has(const struct http_field *f, size_t n, const char *name, const char *token);
/* Connection-level (RFC 9110 7.6.1): Connection and what it names, Keep-Alive, Proxy-*, TE,
 * Trailer, Transfer-Encoding, Upgrade, HTTP2-Settings. Never what Connection may not name. */
bool http_field_is_hop(const struct http_field *f, size_t n, struct str name);
bool http_name_is(struct str name, const char *z); /* case ignored */
/* Token (RFC 9110 5.6.2); field value without control characters. */
bool http_is_token(struct str s);
bool http_is_value(struct str s);

/*
 * "host", "host:port", "[v6]:port" to one spelling: lower case, no trailing dot. Only
 * [a-z0-9._-] in names, at most 63 bytes a label; a name whose last label is a number must be a
 * dotted quad in decimal without leading zeros; IPv6 as RFC 5952 writes it; port 1 to 65535. *port
 * is 0 when none is given. ERR_SYNTAX.
 */
int http_authority_parse(struct str s, char host[HTTP_HOST_SIZE], uint16_t *port, struct err *err);

/*
 * A protocol that may be switched to: "name" or "name/version", at most 32 bytes, and none by which
 * HTTP or TLS would go on (h2c, TLS/1.0). Case is ignored where two are compared.
 */
bool http_is_protocol(struct str s);
bool http_protocol_is(struct str a, struct str b);
/*
 * Does it ask for exactly one protocol, in a form that has one reading: HTTP/1.1, one Upgrade field
 * with one protocol, Connection that names it, no content, no Expect, no HTTP2-Settings; of
 * WebSocket GET, version 13 and a key of 16 bytes (RFC 6455 4.1)? *ret borrowed, as it was written.
 */
bool http_upgrade_asks(const struct http_request *r, struct str *ret);
/* Why it does not, static, for people; NULL: it does. */
const char *http_upgrade_fault(const struct http_request *r, struct str *ret);
/* Do the fields of a 101 agree to that protocol and to nothing else? */
bool http_upgrade_agreed(const struct http_field *f, size_t n, struct str asked);

struct http_response {
	unsigned status, minor;
	size_t nfields;
	struct http_field fields[HTTP_FIELDS_MAX];
	/* For HEAD, 1xx, 204 and 304 NONE, whatever the fields say (RFC 9112 6.3). */
	enum http_body body;
	uint64_t length;
	bool keep_alive;
};
/* As for requests: ERR_SYNTAX, ERR_TOO_LARGE, ERR_UNSUPPORTED; *ret is zero then. */
int http_response_parse(struct str head, bool to_head, struct http_response *ret, struct err *err);

/* Body framing, incrementally. */
struct http_reader {
	enum http_body kind;
	uint8_t state;
	uint64_t left, total; /* total: content bytes so far */
	size_t line;	      /* digits of the chunk size, bytes of all trailers so far */
	uint16_t name, names; /* of a trailer: bytes so far; which banned ones they begin */
};
void http_reader_init(struct http_reader *r, enum http_body kind, uint64_t length);
/*
 * Takes bytes off *in and gives the next run of content in *out (borrowed, may be empty).
 * 1: the body has ended (the last content may come with it; what is left in *in is behind it);
 * 0: call again, with more input if *in is empty; ERR_SYNTAX: not chunked coding (chunk extensions,
 * a size over 16 hex digits, content of 2^63 bytes, bare LF, trailers that would frame or route a
 * message or are over 8 KiB). Trailers are dropped. HTTP_BODY_CLOSE never ends by itself. The first
 * call may come with no input: it says whether there is a body at all.
 */
int http_reader_next(struct http_reader *r, struct str *in, struct str *out, struct err *err);

/* Writing; what cannot stand in a message asserts. */
void http_put_request(struct buf *b, struct str method, struct str target);
void http_put_status(struct buf *b, unsigned status); /* with the RFC's reason phrase */
void http_put_field(struct buf *b, struct str name, struct str value);
void http_put_end(struct buf *b);
void http_put_chunk(struct buf *b, struct str content); /* empty: nothing is written */
void http_put_last_chunk(struct buf *b);
const char *http_reason(unsigned status);
/* Date field value (IMF-fixdate, RFC 9110 5.6.7) of a Unix time. */
void http_date(int64_t s, char out[30]);

#endif
