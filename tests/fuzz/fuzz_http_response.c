/*
 * Fuzzes the reader of response heads; the first byte says whether HEAD was asked. What is accepted
 * holds to its own rules and is the same again when written and read.
 */
#include "tests/fuzz/http_pieces.h"

#include "common/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(const struct http_response *r, bool to_head)
{
	bool bodiless = to_head || r->status < 200 || r->status == 204 || r->status == 304;

	assert(r->status >= 100 && r->status <= 999 && r->minor <= 1);
	assert(bodiless == (r->body == HTTP_BODY_NONE));
	assert(r->body == HTTP_BODY_LENGTH || r->length == 0);
	assert(r->length <= INT64_MAX && (r->minor == 1 || r->body != HTTP_BODY_CHUNKED));
	assert(!r->keep_alive || r->body != HTTP_BODY_CLOSE);
}

static void
written_again(const struct http_response *r, bool to_head)
{
	static struct http_response again;
	AUTO_BUF struct buf b = BUF(3 * HTTP_HEAD_MAX);

	http_put_status(&b, r->status);
	put_fields(&b, r->fields, r->nfields);
	if (b.n > HTTP_HEAD_MAX)
		return;
	assert(http_response_parse(buf_str(&b), to_head, &again, NULL) == 0);
	assert(again.status == r->status && again.body == r->body && again.length == r->length);
	assert(r->minor == 0 || again.keep_alive == r->keep_alive);
	assert_same_fields(r->fields, r->nfields, again.fields, again.nfields);
}

static void
head(struct str head, bool to_head)
{
	static struct http_response r;
	struct err err = {0};
	int rc = http_response_parse(head, to_head, &r, &err);

	if (rc != 0) {
		assert(rc == err.code && err.msg[0] != '\0' && r.nfields == 0 && r.status == 0);
		assert(rc == ERR_SYNTAX || rc == ERR_TOO_LARGE || rc == ERR_UNSUPPORTED);
		return;
	}
	check(&r, to_head);
	check_fields(head, r.fields, r.nfields);
	written_again(&r, to_head);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *copy = NULL;
	struct str in;
	size_t end;

	if (size == 0)
		return 0;
	in = str_mem(data + 1, size - 1);
	end = head_of(in);
	if (end == 0)
		end = in.n;
	copy = exact_copy((struct str){in.p, end});
	head((struct str){copy, end}, (data[0] & 1) != 0);
	return 0;
}
