/*
 * Fuzzes the reader of request heads. What is accepted holds to its own rules, and is the same
 * again when written and read: as it came, and in origin form as front sends it to core.
 */
#include "tests/fuzz/http_pieces.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_target(const struct http_request *r)
{
	assert(http_is_token(r->method) && r->method.n <= HTTP_METHOD_MAX && r->target.n != 0);
	assert((r->form == HTTP_AUTHORITY) == str_eqz(r->method, "CONNECT"));
	assert(r->form != HTTP_ASTERISK || str_eqz(r->method, "OPTIONS"));
	assert(r->form == HTTP_AUTHORITY || r->form == HTTP_ASTERISK || r->path.p[0] == '/');
	assert(r->form != HTTP_AUTHORITY || (r->port != 0 && r->path.n == 0));
	assert(!r->tls || r->form == HTTP_ABSOLUTE);
	assert(r->has_query || r->query.n == 0);
	assert(memchr(r->target.p, '#', r->target.n) == NULL && str_is_ascii_print(r->target));
	if (r->form == HTTP_ORIGIN)
		assert(r->path.n + r->query.n + r->has_query == r->target.n);
}

static void
check_framing(const struct http_request *r)
{
	assert(r->body != HTTP_BODY_CLOSE && (r->body == HTTP_BODY_LENGTH || r->length == 0));
	assert(r->minor == 1 || r->body != HTTP_BODY_CHUNKED);
	assert(!r->expect || r->body == HTTP_BODY_CHUNKED || r->length != 0);
	assert(r->length <= INT64_MAX);
	assert((http_field_find(r->fields, r->nfields, "Content-Length") != NULL) ==
	       (r->body == HTTP_BODY_LENGTH));
	assert((http_field_find(r->fields, r->nfields, "Transfer-Encoding") != NULL) ==
	       (r->body == HTTP_BODY_CHUNKED));
}

/* Its own spelling is canonical. */
static void
check_authority(const struct http_request *r)
{
	AUTO_BUF struct buf b = BUF(HTTP_HOST_SIZE + 16);
	bool v6 = strchr(r->host, ':') != NULL;
	char host[HTTP_HOST_SIZE];
	uint16_t port;

	buf_printf(&b, "%s%s%s", v6 ? "[" : "", r->host, v6 ? "]" : "");
	if (r->port != 0)
		buf_printf(&b, ":%u", r->port);
	assert(http_authority_parse(buf_str(&b), host, &port, NULL) == 0);
	assert(port == r->port && strcmp(host, r->host) == 0);
}

static void
assert_same(const struct http_request *a, const struct http_request *b)
{
	assert(str_eq(a->method, b->method) && str_eq(a->path, b->path));
	assert(a->has_query == b->has_query && str_eq(a->query, b->query));
	assert(strcmp(a->host, b->host) == 0 && a->upgrade == b->upgrade);
	assert(a->body == b->body && a->length == b->length);
	assert(a->minor == 0 || (a->expect == b->expect && a->keep_alive == b->keep_alive));
	assert_same_fields(a->fields, a->nfields, b->fields, b->nfields);
}

static void
written_again(const struct http_request *r, struct str target)
{
	static struct http_request again;
	AUTO_BUF struct buf b = BUF(3 * HTTP_HEAD_MAX);

	http_put_request(&b, r->method, target);
	put_fields(&b, r->fields, r->nfields);
	/* White space that was not there before may make it too long. */
	if (b.n > HTTP_HEAD_MAX)
		return;
	assert(http_request_parse(buf_str(&b), &again, NULL) == 0);
	assert_same(r, &again);
	assert(again.form == r->form || target.p != r->target.p);
	assert(again.port == r->port || r->form == HTTP_ABSOLUTE);
}

static void
written_in_origin_form(const struct http_request *r)
{
	AUTO_BUF struct buf b = BUF(HTTP_HEAD_MAX);

	buf_put_str(&b, r->path);
	if (r->has_query)
		buf_put_c(&b, '?');
	buf_put_str(&b, r->query);
	written_again(r, buf_str(&b));
}

static void
head(struct str head)
{
	static struct http_request r;
	struct err err = {0};
	int rc = http_request_parse(head, &r, &err);

	if (rc != 0) {
		assert(rc == err.code && err.msg[0] != '\0' && r.nfields == 0 && r.form == 0);
		assert(rc == ERR_SYNTAX || rc == ERR_TOO_LARGE || rc == ERR_UNSUPPORTED);
		(void)http_method_claim(head);
		return;
	}
	assert(str_eq(http_method_claim(head), r.method));
	check_target(&r);
	check_framing(&r);
	check_authority(&r);
	check_fields(head, r.fields, r.nfields);
	if (http_field_find(r.fields, r.nfields, "Host") == NULL)
		return;
	written_again(&r, r.target);
	if (r.form == HTTP_ABSOLUTE)
		written_in_origin_form(&r);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = str_mem(data, size);
	size_t end = head_of(in);
	AUTO_FREE char *copy = NULL;

	if (end == 0)
		end = size;
	copy = exact_copy((struct str){in.p, end});
	head((struct str){copy, end});
	return 0;
}
