/*
 * Builds the head of a request. Runs in upstream; the one place where a credential joins what a
 * client wrote. libcurl adds fields of its own unless it is told not to, so each of those is either
 * leased or switched off here.
 */
#include "broker/upstream_http_head.h"

#include <curl/curl.h>

#include "common/hash.h"
#include "common/log.h"

#include "common/banned.h"

#define FIELD_MAX (HTTP_HEAD_MAX + 2 * UINT16_MAX)

static bool
has_parameter(struct str target, struct str name)
{
	struct str path, one, key;
	bool more = str_cut(&target, '?', &path);

	while (more) {
		AUTO_BUF struct buf plain = BUF(HTTP_TARGET_MAX);

		more = str_cut(&target, '&', &one);
		if (!more)
			one = target;
		if (!str_cut(&one, '=', &key))
			key = one;
		enc_unpercent(&plain, key);
		if (str_eq(buf_str(&plain), name))
			return true;
	}
	return false;
}

/* RFC 3986: all but unreserved characters escaped. */
static void
put_escaped(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		uint8_t c = (uint8_t)s.p[i];
		uint8_t letter = c | 0x20;

		if ((c >= '0' && c <= '9') || (letter >= 'a' && letter <= 'z') || c == '-' ||
		    c == '.' || c == '_' || c == '~')
			buf_put_c(out, (char)c);
		else
			buf_printf(out, "%%%02X", c);
	}
}

static int
put_target(const struct upstream_lease *l, struct buf *out, struct err *err)
{
	buf_put_str(out, l->target);
	if (l->credential != LEASE_QUERY)
		return 0;
	if (has_parameter(l->target, l->field))
		return err_set(err, ERR_CONFIG,
		    "query parameter %.*s, which carries the credential, is leased already",
		    STR_ARG(l->field));
	buf_put_c(out, memchr(l->target.p, '?', l->target.n) != NULL ? '&' : '?');
	buf_put_str(out, l->field);
	buf_put_c(out, '=');
	put_escaped(out, l->secret);
	return 0;
}

static void
append(struct curl_slist **list, struct buf *line)
{
	struct curl_slist *longer;

	buf_put_c(line, '\0');
	if (buf_over(line))
		fatal("a field does not fit its buffer"); /* the lease's own limits are below it */
	longer = curl_slist_append(*list, (const char *)line->p);
	if (longer == NULL)
		fatal("out of memory");
	*list = longer;
	buf_reset(line);
}

/* "name;" is how libcurl is told to send a field with nothing in it. */
static void
put_field(struct curl_slist **list, struct buf *line, struct str name, struct str value)
{
	buf_put_str(line, name);
	if (value.n != 0) {
		buf_put_z(line, ": ");
		buf_put_str(line, value);
	} else {
		buf_put_c(line, ';');
	}
	append(list, line);
}

static void
put_credential(const struct upstream_lease *l, struct curl_slist **list, struct buf *line)
{
	AUTO_BUF struct buf pair = BUF(4 * UINT16_MAX);

	switch (l->credential) {
	case LEASE_OPEN:
	case LEASE_QUERY:
	case LEASE_AWS: break; /* a signature, which comes as more */
	case LEASE_BEARER:
		buf_put_z(line, "Authorization: Bearer ");
		buf_put_str(line, l->secret);
		append(list, line);
		break;
	case LEASE_BASIC:
		buf_put_str(&pair, l->user);
		buf_put_c(&pair, ':');
		buf_put_str(&pair, l->secret);
		buf_put_z(line, "Authorization: Basic ");
		enc_base64(line, buf_str(&pair));
		append(list, line);
		break;
	case LEASE_HEADER: put_field(list, line, l->field, l->secret); break;
	}
}

static bool
wants_length(struct str method)
{
	return str_eqz(method, "POST") || str_eqz(method, "PUT") || str_eqz(method, "PATCH");
}

/*
 * Host, and in the same entry what frames the body: libcurl must not know of it. Of chunks it would
 * write the last one also when a body is cut off, and on a 417 it would send the request again.
 * A server that does not read a body would take it for the next request; behind "close" there is
 * none.
 */
static void
put_first(const struct upstream_lease *l, const struct head_more *more, struct curl_slist **list,
    struct buf *line)
{
	bool streamed = l->body == LEASE_STREAM || l->body == LEASE_CHUNKED;

	buf_put_z(line, "Host: ");
	lease_authority(l, line);
	if (more != NULL && more->rechunked)
		buf_printf(line, "\r\nContent-Length: %llu", (unsigned long long)more->length);
	else if (l->body == LEASE_CHUNKED)
		buf_put_z(line, "\r\nTransfer-Encoding: chunked");
	else if (l->body == LEASE_UPGRADE)
		buf_put_z(line, wants_length(l->method) ? "\r\nContent-Length: 0" : "");
	else if (l->body != LEASE_NONE || wants_length(l->method))
		buf_printf(line, "\r\nContent-Length: %llu", (unsigned long long)l->length);
	if (l->body == LEASE_UPGRADE)
		buf_put_z(line, "\r\nConnection: Upgrade");
	else if (l->body != LEASE_NONE && (streamed || l->length != 0))
		buf_put_z(line, "\r\nConnection: close");
	if (streamed && l->expect)
		buf_put_z(line, "\r\nExpect: 100-continue");
	append(list, line);
}

/* An empty field is not sent, and keeps libcurl from adding its own. */
static void
put_none(struct curl_slist **list, struct buf *line)
{
	static const char *const names[] = {
	    "Accept:", "Content-Length:", "Expect:", "Transfer-Encoding:"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		buf_put_z(line, names[i]);
		append(list, line);
	}
}

/* As head_make() has them for libcurl: "Name: value", "Name;" with nothing in it, "Name:" not. */
void
head_write(struct str method, const char *target, const struct curl_slist *f, struct buf *out)
{
	buf_printf(out, "%.*s %s HTTP/1.1\r\n", STR_ARG(method), target);
	for (; f != NULL; f = f->next) {
		struct str line = str_z(f->data), rest = line, name;
		bool has_value = str_cut(&rest, ':', &name);

		if (has_value && rest.n == 0)
			continue;
		if (has_value)
			buf_put_str(out, line);
		else
			buf_printf(out, "%.*s:", (int)(line.n - 1), line.p);
		buf_put_z(out, "\r\n");
	}
	buf_put_z(out, "\r\n");
}

int
head_make(const struct upstream_lease *l, const struct head_more *more, struct buf *target,
    struct curl_slist **ret_fields, struct err *err)
{
	AUTO_BUF struct buf line = BUF(FIELD_MAX);
	struct curl_slist *list = NULL;
	int rc = put_target(l, target, err);

	if (rc != 0)
		return rc;
	put_first(l, more, &list, &line);
	for (size_t i = 0; i < l->nfields; i++)
		put_field(&list, &line, l->fields[i].name, l->fields[i].value);
	put_credential(l, &list, &line);
	for (size_t i = 0; more != NULL && i < more->nfields; i++)
		put_field(&list, &line, more->fields[i].name, more->fields[i].value);
	put_none(&list, &line);
	*ret_fields = list;
	return 0;
}
