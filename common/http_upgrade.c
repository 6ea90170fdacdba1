/*
 * What a request to switch protocols must look like (RFC 9110 7.8; of WebSocket RFC 6455 4.1).
 * Linked into front, core, upstream and the command line; pure. Whatever could be read in two ways
 * asks for nothing: several protocols, content, a version of HTTP that has no upgrades.
 */
#include "common/hash.h"
#include "common/http.h"

#include "common/banned.h"

#define PROTOCOL_MAX 32
#define NONCE_LEN 16

static bool
lower_prefix(struct str s, const char *z)
{
	size_t n = strlen(z);

	return s.n >= n && str_ieqz(str_mem(s.p, n), z);
}

/* token ["/" token]. HTTP by another name would carry requests that nobody judges. */
bool
http_is_protocol(struct str s)
{
	struct str version = s, name = s;

	if (s.n == 0 || s.n > PROTOCOL_MAX)
		return false;
	if (str_cut(&version, '/', &name) && !http_is_token(version))
		return false;
	return http_is_token(name) && !lower_prefix(name, "h2") && !lower_prefix(name, "h3") &&
	       !lower_prefix(name, "http") && !lower_prefix(name, "tls");
}

bool
http_protocol_is(struct str a, struct str b)
{
	return a.n != 0 && str_ieq(a, b);
}

static const char *
websocket_fault(const struct http_request *r)
{
	const struct http_field *key = http_field_only(r->fields, r->nfields, HTTP_WEBSOCKET_KEY);
	const struct http_field *version =
	    http_field_only(r->fields, r->nfields, "Sec-WebSocket-Version");
	AUTO_BUF struct buf nonce = BUF(64);

	if (!str_eqz(r->method, "GET"))
		return "it asks for websocket by a method other than GET";
	if (version == NULL || !str_eqz(version->value, "13"))
		return "it asks for websocket without the one Sec-WebSocket-Version 13";
	if (key == NULL || key->value.n > 32 || !enc_unbase64(key->value, &nonce) ||
	    nonce.n != NONCE_LEN)
		return "it asks for websocket without the one Sec-WebSocket-Key of 16 bytes";
	return NULL;
}

static const char *
protocol_fault(const struct http_field *f)
{
	if (f == NULL)
		return "it does not ask for exactly one protocol in one Upgrade field";
	if (!http_is_protocol(f->value))
		return "its Upgrade field is not one protocol that may be switched to";
	return NULL;
}

/* By the presence of Expect: the parser's word for it is of requests with content alone. */
const char *
http_upgrade_fault(const struct http_request *r, struct str *ret)
{
	const struct http_field *f = http_field_only(r->fields, r->nfields, "Upgrade");
	bool content =
	    r->body != HTTP_BODY_NONE && !(r->body == HTTP_BODY_LENGTH && r->length == 0);
	const char *fault = protocol_fault(f);

	*ret = STR_NONE;
	if (fault != NULL)
		return fault;
	if (r->minor != 1)
		return "it asks for another protocol by HTTP/1.0, which has no upgrades";
	if (str_eqz(r->method, "HEAD"))
		return "it asks for another protocol by HEAD";
	if (r->form != HTTP_ORIGIN && r->form != HTTP_ABSOLUTE)
		return "it asks for another protocol and names no path";
	if (content)
		return "it asks for another protocol and has content";
	if (http_field_find(r->fields, r->nfields, "Expect") != NULL)
		return "it asks for another protocol and has an Expect field";
	if (!http_field_has(r->fields, r->nfields, "Connection", "upgrade"))
		return "it has an Upgrade field that Connection does not name";
	if (http_field_find(r->fields, r->nfields, "HTTP2-Settings") != NULL)
		return "it asks for another protocol and has an HTTP2-Settings field";
	if (str_ieqz(f->value, HTTP_WEBSOCKET) && (fault = websocket_fault(r)) != NULL)
		return fault;
	*ret = f->value;
	return NULL;
}

bool
http_upgrade_asks(const struct http_request *r, struct str *ret)
{
	return http_upgrade_fault(r, ret) == NULL;
}

bool
http_upgrade_agreed(const struct http_field *f, size_t n, struct str asked)
{
	const struct http_field *u = http_field_only(f, n, "Upgrade");

	return u != NULL && http_protocol_is(u->value, asked) &&
	       http_field_has(f, n, "Connection", "upgrade");
}
