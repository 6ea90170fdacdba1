/*
 * HTTP/1.1 request heads. Runs in front on bytes from hostile clients, in core on what front says
 * they were. Must never accept a head that another reader could frame or route in another way.
 */
#include "common/http_head.h"

#include "common/banned.h"

#define HTTP_PORT 80
#define HTTPS_PORT 443

/* --- target ---------------------------------------------------------------------- */

static bool
is_pchar(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c != '\0' && strchr("-._~!$&'()*+,;=:@/", c) != NULL);
}

static bool
is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/*
 * RFC 3986 in the path. In the query anything printable but '#': clients send {}|"<>[]\^` there
 * as they are, and to every server it is one run of bytes. An escape is '%' and two hex digits
 * in both: what else it could mean, servers do not agree on.
 */
static int
check_chars(struct str s, bool query, struct err *err)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == '%') {
			if (s.n - i < 3 || !is_hex(s.p[i + 1]) || !is_hex(s.p[i + 2]))
				return err_set(
				    err, ERR_SYNTAX, "target: '%%' without two hex digits");
			i += 2;
		} else if (query ? c <= ' ' || c > '~' || c == '#' : !is_pchar(c)) {
			return err_set(err, ERR_SYNTAX,
			    "target: byte 0x%02x cannot stand in a %s, it must be escaped",
			    (unsigned)(uint8_t)c, query ? "query" : "path");
		}
	}
	return 0;
}

static int
read_path(struct http_request *r, struct str s, struct err *err)
{
	int rc;

	r->has_query = str_cut(&s, '?', &r->path);
	if (r->has_query)
		r->query = s;
	else
		r->path = s;
	rc = check_chars(r->path, false, err);
	if (rc == 0)
		rc = check_chars(r->query, true, err);
	if (rc == 0 && r->path.n == 0)
		r->path = STR("/");
	return rc;
}

static int
read_absolute(struct http_request *r, struct err *err)
{
	struct str s = r->target, scheme;
	size_t end = 0;
	int rc;

	if (!str_cut(&s, ':', &scheme) || !str_has_prefix(s, "//"))
		return err_set(err, ERR_SYNTAX, "target: neither a path nor an absolute URI");
	r->tls = str_ieqz(scheme, "https");
	if (!r->tls && !str_ieqz(scheme, "http"))
		return err_set(err, ERR_SYNTAX, "target: a scheme other than http and https");
	s.p += 2;
	s.n -= 2;
	while (end < s.n && s.p[end] != '/' && s.p[end] != '?')
		end++;
	rc = http_authority_parse((struct str){s.p, end}, r->host, &r->port, err);
	if (rc != 0)
		return rc;
	return read_path(r, (struct str){s.p + end, s.n - end}, err);
}

static int
read_connect(struct http_request *r, struct err *err)
{
	int rc = http_authority_parse(r->target, r->host, &r->port, err);

	if (rc == 0 && r->port == 0)
		return err_set(err, ERR_SYNTAX, "target: CONNECT needs host:port");
	return rc;
}

static int
read_target(struct http_request *r, struct err *err)
{
	if (r->target.n == 0)
		return err_set(err, ERR_SYNTAX, "target: empty");
	if (r->target.n > HTTP_TARGET_MAX)
		return err_set(err, ERR_TOO_LARGE, "target: %zu bytes, limit %zu", r->target.n,
		    HTTP_TARGET_MAX);
	if (str_eqz(r->method, "CONNECT")) {
		r->form = HTTP_AUTHORITY;
		return read_connect(r, err);
	}
	if (r->target.p[0] == '/') {
		r->form = HTTP_ORIGIN;
		return read_path(r, r->target, err);
	}
	if (!str_eqz(r->target, "*")) {
		r->form = HTTP_ABSOLUTE;
		return read_absolute(r, err);
	}
	if (!str_eqz(r->method, "OPTIONS"))
		return err_set(err, ERR_SYNTAX, "target: '*' is for OPTIONS only");
	r->form = HTTP_ASTERISK;
	r->path = r->target;
	return 0;
}

static int
read_line(struct http_request *r, struct str line, struct err *err)
{
	int rc;

	if (!str_cut(&line, ' ', &r->method) || !http_is_token(r->method))
		return err_set(err, ERR_SYNTAX, "request line: no method");
	if (r->method.n > HTTP_METHOD_MAX)
		return err_set(err, ERR_SYNTAX, "request line: a method of %zu bytes, limit %d",
		    r->method.n, HTTP_METHOD_MAX);
	if (!str_cut(&line, ' ', &r->target))
		return err_set(err, ERR_SYNTAX, "request line: no version");
	rc = http_head_version(line, &r->minor, err);
	return rc != 0 ? rc : read_target(r, err);
}

/* --- authority ------------------------------------------------------------------- */

/* Clients leave the default port out of Host; with CONNECT there is no scheme to say which it is,
 * and they leave out either. */
static bool
same_port(const struct http_request *r, uint16_t port)
{
	uint16_t standard = r->tls ? HTTPS_PORT : HTTP_PORT;

	if (r->form == HTTP_AUTHORITY)
		return port == r->port ||
		       (port == 0 && (r->port == HTTPS_PORT || r->port == HTTP_PORT));
	return (port != 0 ? port : standard) == (r->port != 0 ? r->port : standard);
}

static int
read_host(struct http_request *r, struct err *err)
{
	const struct http_field *h = http_field_find(r->fields, r->nfields, "Host");
	bool named = r->form == HTTP_ABSOLUTE || r->form == HTTP_AUTHORITY;
	char host[HTTP_HOST_SIZE];
	uint16_t port;
	int rc;

	if (h == NULL && r->minor == 0 && named)
		return 0;
	if (h == NULL || http_field_count(r->fields, r->nfields, "Host") != 1)
		return err_set(err, ERR_SYNTAX, h == NULL ? "no Host" : "more than one Host");
	rc = http_authority_parse(h->value, named ? host : r->host, named ? &port : &r->port, err);
	if (rc == 0 && named && (strcmp(host, r->host) != 0 || !same_port(r, port)))
		return err_set(err, ERR_SYNTAX, "Host is not the authority of the target");
	return rc;
}

/* --- the whole ------------------------------------------------------------------- */

static int
read_expect(struct http_request *r, struct err *err)
{
	const struct http_field *h = http_field_find(r->fields, r->nfields, "Expect");

	if (h == NULL)
		return 0;
	if (!str_ieqz(h->value, "100-continue") ||
	    http_field_count(r->fields, r->nfields, "Expect") != 1)
		return err_set(err, ERR_UNSUPPORTED, "an expectation other than one 100-continue");
	/* Without content there is nothing to wait for; HTTP/1.0 has no 100 (RFC 9110 10.1.1). */
	r->expect = r->minor == 1 && (r->body == HTTP_BODY_CHUNKED || r->length != 0);
	return 0;
}

/* Fields that servers read the first or the last of, and that a judgement may hang on. */
static int
check_single(const struct http_request *r, struct err *err)
{
	static const char *const single[] = {"Authorization", "Content-Encoding", "Content-Type"};

	for (size_t i = 0; i < ARRAY_LEN(single); i++)
		if (http_field_count(r->fields, r->nfields, single[i]) > 1)
			return err_set(err, ERR_SYNTAX, "more than one %s", single[i]);
	return 0;
}

static int
read_framing(struct http_request *r, struct err *err)
{
	struct http_framing f;
	int rc = http_head_framing(r->fields, r->nfields, r->minor, &f, err);

	if (rc != 0)
		return rc;
	r->body = f.body;
	r->length = f.length;
	r->keep_alive = !f.close && (r->minor == 1 || f.keep);
	/* What follows CONNECT is the tunnel (RFC 9110 9.3.6). */
	if (r->form == HTTP_AUTHORITY && (r->body == HTTP_BODY_CHUNKED || r->length != 0))
		return err_set(err, ERR_SYNTAX, "CONNECT with a body");
	r->upgrade = http_field_find(r->fields, r->nfields, "Upgrade") != NULL;
	return read_expect(r, err);
}

int
http_request_parse(struct str head, struct http_request *ret, struct err *err)
{
	int rc = http_head_check(head, err);

	*ret = (struct http_request){0};
	if (rc == 0)
		rc = read_line(ret, http_head_line(&head), err);
	if (rc == 0)
		rc = http_head_fields(head, ret->fields, &ret->nfields, err);
	if (rc == 0)
		rc = read_host(ret, err);
	if (rc == 0)
		rc = read_framing(ret, err);
	if (rc == 0)
		rc = check_single(ret, err);
	if (rc != 0)
		*ret = (struct http_request){0};
	return rc;
}

struct str
http_method_claim(struct str head)
{
	struct str method = STR_NONE;

	if (!str_cut(&head, ' ', &method) || method.n > HTTP_METHOD_MAX || !http_is_token(method))
		return STR_NONE;
	return method;
}
