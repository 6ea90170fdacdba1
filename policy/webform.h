/*
 * Names, values and media types of web requests, read as servers read them. Which server it is
 * nobody knows: where they differ, every reading counts. Pure; linked by core and the parser.
 */
#ifndef POLICY_WEBFORM_H
#define POLICY_WEBFORM_H

#include "common/buf.h"

/*
 * The next pair of "a=b&c=d" (also after ';', as older servers split); a name without '=' has an
 * empty value. False at the end.
 */
bool webform_next(struct str *rest, struct str *ret_name, struct str *ret_value);
int webform_hex(const char *p, size_t n); /* value of n hex digits; -1: not all are */
/* %XX and '+' undone, appended to out. False: '%' without two hex digits, NUL, or no UTF-8. */
bool webform_decode(struct str raw, struct buf *out);
/*
 * Does this name, as sent, make some server take another method than the request's own: "_method"
 * and its like, however encoded, in any case, as an element of an array? For query strings and
 * bodies alike.
 */
bool webform_overrides(struct str raw_name);
bool webform_query_overrides(struct str query); /* any of its names */
/* Is it a name by which a GraphQL server takes its document, in any spelling: "query", "doc_id"? */
bool webform_is_graphql(struct str raw_name);
bool webform_query_is_graphql(struct str query);

enum media {
	MEDIA_NONE = 0,	 /* no Content-Type */
	MEDIA_JSON,	 /* application/json, application/graphql+json */
	MEDIA_GRAPHQL,	 /* application/graphql: the body is the document */
	MEDIA_FORM,	 /* application/x-www-form-urlencoded */
	MEDIA_MULTIPART, /* multipart/form-data with a boundary */
	MEDIA_MIXED,	 /* any other multipart */
	MEDIA_OTHER
};
struct media_type {
	enum media media;
	bool odd;	     /* not well-formed, a charset that is not UTF-8, a parameter twice */
	struct str boundary; /* of MEDIA_MULTIPART; unquoted, RFC 2046 */
};
/* What is no media type at all is an odd MEDIA_FORM. */
struct media_type media_type_parse(struct str content_type);

#endif
