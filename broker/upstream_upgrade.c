/*
 * Holds a 101 against the request. Runs in upstream on heads of servers that may lie: one that
 * switches to anything else would have the stream read as what it is not.
 */
#include "broker/upstream_upgrade.h"

#include "common/hash.h"
#include "common/http_head.h"
#include "common/ossl.h"
#include "common/xalloc.h"

#include "common/banned.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455 section 1.3 */
#define SHA1_LEN 20
#define LISTS_MAX 16 /* fields with subprotocols, in the request */

struct upgrade_ask {
	char *protocol, *key; /* key "": it is not WebSocket */
	char *offered[LISTS_MAX];
	size_t noffered;
};

struct upgrade_ask *
upgrade_ask_new(const struct http_field *f, size_t n)
{
	const struct http_field *protocol = http_field_find(f, n, "Upgrade");
	const struct http_field *key = http_field_find(f, n, HTTP_WEBSOCKET_KEY);
	struct upgrade_ask *a = xcalloc(1, sizeof(*a));
	bool ws = protocol != NULL && str_ieqz(protocol->value, HTTP_WEBSOCKET);

	a->protocol = str_dup(protocol != NULL ? protocol->value : STR(""));
	a->key = str_dup(ws && key != NULL ? key->value : STR(""));
	for (size_t i = 0; i < n && a->noffered < LISTS_MAX; i++)
		if (http_name_is(f[i].name, "Sec-WebSocket-Protocol"))
			a->offered[a->noffered++] = str_dup(f[i].value);
	return a;
}

void
upgrade_ask_free(struct upgrade_ask *a)
{
	if (a == NULL)
		return;
	while (a->noffered != 0)
		free(a->offered[--a->noffered]);
	free(a->protocol);
	free(a->key);
	free(a);
}

struct str
upgrade_protocol(const struct upgrade_ask *a)
{
	return str_z(a->protocol);
}

/* --- WebSocket --------------------------------------------------------------------------- */

static bool
accepts(const struct upgrade_ask *a, struct str value)
{
	AUTO_BUF struct buf text = BUF(128), want = BUF(64);
	uint8_t sum[SHA1_LEN];
	size_t n = 0;

	buf_put_z(&text, a->key);
	buf_put_z(&text, GUID);
	if (buf_over(&text) || EVP_Q_digest(NULL, "SHA1", NULL, text.p, text.n, sum, &n) != 1 ||
	    n != SHA1_LEN)
		return false;
	enc_base64(&want, str_mem(sum, SHA1_LEN));
	return str_eq(buf_str(&want), value);
}

/* One of those that the client offered, as it wrote it. */
static bool
offered(const struct upgrade_ask *a, struct str name)
{
	for (size_t i = 0; i < a->noffered; i++) {
		struct str list = str_z(a->offered[i]), one;

		while (http_list_next(&list, &one))
			if (str_eq(one, name))
				return true;
	}
	return false;
}

static int
check_websocket(const struct upgrade_ask *a, const struct http_response *r, struct err *err)
{
	const struct http_field *accept = NULL, *sub = NULL;

	for (size_t i = 0; i < r->nfields; i++) {
		const struct http_field *f = &r->fields[i];

		if (http_name_is(f->name, "Sec-WebSocket-Extensions"))
			return err_set(err, ERR_UPSTREAM,
			    "the server switches with an extension that nobody asked for");
		if (http_name_is(f->name, "Sec-WebSocket-Accept")) {
			if (accept != NULL)
				return err_set(
				    err, ERR_UPSTREAM, "two of Sec-WebSocket-Accept in a 101");
			accept = f;
		}
		if (http_name_is(f->name, "Sec-WebSocket-Protocol")) {
			if (sub != NULL || !offered(a, f->value))
				return err_set(err, ERR_UPSTREAM,
				    "the server chooses a subprotocol that was not offered");
			sub = f;
		}
	}
	if (accept == NULL || !accepts(a, accept->value))
		return err_set(
		    err, ERR_UPSTREAM, "the server's Sec-WebSocket-Accept is not that of the key");
	return 0;
}

int
upgrade_check(const struct upgrade_ask *a, const struct http_response *r, struct err *err)
{
	if (a == NULL || r->minor != 1 ||
	    !http_upgrade_agreed(r->fields, r->nfields, upgrade_protocol(a)))
		return err_set(
		    err, ERR_UPSTREAM, "the server switches to a protocol that nobody asked for");
	if (http_field_find(r->fields, r->nfields, "Content-Length") != NULL ||
	    http_field_find(r->fields, r->nfields, "Transfer-Encoding") != NULL)
		return err_set(err, ERR_UPSTREAM, "a 101 that says how long its content is");
	return a->key[0] != '\0' ? check_websocket(a, r, err) : 0;
}
