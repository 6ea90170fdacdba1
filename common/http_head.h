/*
 * What requests and responses have in common, for http_request.c and http_response.c alone: lines,
 * fields, and the fields that frame a message.
 */
#ifndef COMMON_HTTP_HEAD_H
#define COMMON_HTTP_HEAD_H

#include "common/http.h"

struct http_framing {
	enum http_body body; /* of the fields alone: NONE, LENGTH or CHUNKED */
	uint64_t length;
	bool close, keep; /* Connection says so */
};

/* `head` is one whole head, not empty, nothing behind it: ERR_SYNTAX, ERR_TOO_LARGE else. */
int http_head_check(struct str head, struct err *err);
/* Takes the next line off a checked head, without its CRLF. */
struct str http_head_line(struct str *rest);
/* The rest of a checked head to at most HTTP_FIELDS_MAX fields. ERR_SYNTAX, ERR_TOO_LARGE. */
int http_head_fields(struct str rest, struct http_field *f, size_t *ret_n, struct err *err);
/* Content-Length, Transfer-Encoding, Connection (RFC 9112 6, 9). ERR_SYNTAX, ERR_UNSUPPORTED. */
int http_head_framing(const struct http_field *f, size_t n, unsigned minor,
    struct http_framing *ret, struct err *err);
/* "HTTP/1.0" or "HTTP/1.1", nothing else. ERR_SYNTAX. */
int http_head_version(struct str s, unsigned *ret_minor, struct err *err);
/* Fields of that name. */
size_t http_field_count(const struct http_field *f, size_t n, const char *name);
/* Takes the next element off a comma list, trimmed; false: none is left. */
bool http_list_next(struct str *list, struct str *ret);
/* A field that no Connection may name, since every recipient needs it: framing, authority, what
 * the body is, who asks (RFC 9110 7.6.1), and what is asked for where a field says that. */
bool http_field_is_kept(struct str name);

#endif
